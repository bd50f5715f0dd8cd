# SPDX-License-Identifier: Apache-2.0
"""What `make fuzz-loader` found, each as the smallest model that shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from aot.errors import ModelError
from aot.load import load
from aot.normalise import normalise
from graphs import model

HOLDERS: dict[str, Callable[[onnx.ModelProto], object]] = {
    "node": lambda m: m.graph.node[0],
    "attribute": lambda m: m.graph.node[0].attribute[0],
    "graph": lambda m: m.graph,
    "input": lambda m: m.graph.input[0],
    "constant": lambda m: m.graph.initializer[0],
    "model": lambda m: m,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_note_that_is_not_utf8(holder: str) -> None:
    """onnx_ir met it when shapes were inferred."""
    rows = [("Softmax", "x", "a", {"axis": 0}), ("Add", "a c", "y")]
    proto = model(rows, {"x": [2, 3]}, {"y": [2, 3]}, {"c": np.ones(3, np.float32)})
    HOLDERS[holder](proto).doc_string = "QQQQ"  # type: ignore[attr-defined]
    data = proto.SerializeToString()
    assert load(data)
    with pytest.raises(ModelError, match="not valid UTF-8"):
        normalise(load(data.replace(b"QQQQ", b"\xc31\xff1")))


@pytest.mark.parametrize("axis", [1 << 40, 2, -3, -(1 << 63)])
def test_a_far_axis_of_a_slice_of_unknown_extent(axis: int) -> None:
    """An index past the end of a tuple, where extents depend on the data."""
    rows = [("NonZero", "x", "n"), ("Slice", "n st en ax", "y")]
    consts = {"st": np.array([0]), "en": np.array([9]), "ax": np.array([axis])}
    proto = model(rows, {"x": [2, 3]}, {"y": None}, consts, {"y": onnx.TensorProto.INT64})
    with pytest.raises(ModelError, match="Slice"):
        normalise(load(proto))


def test_a_rule_that_breaks_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    from aot.shapes.infer import Sweep

    def visit(_self: object, _node: object) -> None:
        raise IndexError("no such thing")

    monkeypatch.setattr(Sweep, "visit", visit)
    with pytest.raises(ModelError, match=r"n0_Relu \(Relu\): .*IndexError") as caught:
        load(model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]}))
    assert "hint" in str(caught.value)
