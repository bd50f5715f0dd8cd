# SPDX-License-Identifier: Apache-2.0
"""Dimensions that runs say, of which a model can take some sizes only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import aot
from aot.cli import main
from aot.errors import AotError
from graphs import model


def test_parts_fill_the_axis_or_the_run_is_refused(tmp_path: Path) -> None:
    """A Split in [2, 3] of a dimension takes runs of 5 alone."""
    nodes = [("Split", "x sizes", "a b", {"axis": 0})]
    sizes = {"sizes": np.array([2, 3], np.int64)}
    proto = model(nodes, {"x": ("N", 2)}, {"a": None, "b": None}, sizes)
    net = aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, 9)}).load()
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    a, b = net(x)
    np.testing.assert_array_equal(np.concatenate([a, b]), x)
    for n in (4, 6):
        with pytest.raises(AotError, match="status 3"):
            net(np.ones((n, 2), np.float32))


#: nodes, input, constants, sizes that fit, sizes that do not
FITTING = {
    "Reshape to known axes": (
        [("Reshape", "x s", "y", {})],
        ("N", 6),
        {"s": np.array([4, 3], np.int64)},
        [2],
        [1, 3],
    ),
    "Reshape with a rest": (
        [("Reshape", "x s", "y", {})],
        ("N", 3),
        {"s": np.array([-1, 6], np.int64)},
        [2, 4],
        [1, 3],
    ),
    "SpaceToDepth": (
        [("SpaceToDepth", "x", "y", {"blocksize": 2})],
        (1, 2, "N", 4),
        {},
        [2, 4],
        [3],
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_a_size_that_leaves_elements_over_is_refused(name: str, tmp_path: Path) -> None:
    nodes, shape, constants, fits, others = FITTING[name]
    proto = model(nodes, {"x": shape}, {"y": None}, constants)
    net = aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, 5)}).load()
    reference = ReferenceEvaluator(proto)
    for n in fits:
        whole = tuple(n if s == "N" else s for s in shape)
        x = np.arange(np.prod(whole), dtype=np.float32).reshape(whole)
        np.testing.assert_array_equal(net(x), reference.run(None, {"x": x})[0])
    for n in others:
        with pytest.raises(AotError, match="status 3"):
            net(np.ones([n if s == "N" else s for s in shape], np.float32))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "says"),
    [
        ("GatherElements", {"x": ("N", 4), "i": (3, 2)}, {"axis": 1}, "more indices than data"),
        (
            "RotaryEmbedding",
            {"x": ("N", 4, 3, 20), "c": (7, 10), "s": (7, 10), "i": (2, 3)},
            {},
            "has angles for a known number of positions or batches",
        ),
    ],
)
def test_known_operands_beside_a_dimension_are_refused(
    op: str,
    inputs: dict[str, tuple[int | str, ...]],
    attrs: dict[str, int],
    says: str,
    tmp_path: Path,
) -> None:
    kinds = {"i": onnx.TensorProto.INT64}
    node = (op, " ".join(inputs), "y", attrs)
    proto = model([node], inputs, {"y": None}, dtypes=kinds, opset=23)
    most = 3 if op == "GatherElements" else 2
    with pytest.raises(AotError, match=says):
        aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, most)})


def test_verify_leaves_out_sizes_that_the_model_cannot_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [("Split", "x sizes", "a b", {"axis": 0})]
    sizes = {"sizes": np.array([2, 3], np.int64)}
    proto = model(nodes, {"x": ("N", 2)}, {"a": None, "b": None}, sizes)
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    out = str(tmp_path / "out")
    assert main([str(path), "-o", out, "--dim", "N=1..5", "-q"]) == 0
    aot.Bundle(tmp_path / "out").build()
    assert main(["verify", out]) == 0
    said = capsys.readouterr().out
    assert "most/a" in said and "least, x [1, 2]: left out, onnxruntime cannot run" in said
