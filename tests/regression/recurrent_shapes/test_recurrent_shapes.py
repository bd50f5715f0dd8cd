# SPDX-License-Identifier: Apache-2.0
"""A GRU took lengths of four sequences for a batch of two (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

import aot
from aot.errors import ModelError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def compiled(op: str, folder: Path, **wrong: list[int]) -> None:
    """Compile a layer over 5 steps, 2 sequences, 4 features and 3 hidden ones."""
    g = 3 * GATES[op]
    shapes = {"x": [5, 2, 4], "w": [1, g, 4], "r": [1, g, 3], "b": [1, 2 * g], "lens": [2]}
    shapes |= {"h0": [1, 2, 3]} | wrong
    kinds = {n: TensorProto.INT32 if n == "lens" else TensorProto.FLOAT for n in shapes}
    ends = [helper.make_tensor_value_info(n, kinds[n], s) for n, s in shapes.items()]
    node = helper.make_node(op, list(shapes), ["y"], hidden_size=3, name="layer")
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", ends, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    aot.compile(model, folder / "o", name="n", bindings=constants(shapes, kinds))


def constants(shapes: dict[str, list[int]], kinds: dict[str, int]) -> dict[str, object]:
    """Weights are constants."""
    import numpy as np

    return {n: np.full(shapes[n], 0.1, np.float32) for n in ("w", "r", "b")}


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"lens": [4]}, "input 4 [4] should be [2]"),
        ({"h0": [1, 1, 3]}, "input 5 [1, 1, 3] should be [1, 2, 3]"),
        ({"x": [5, 2, 6]}, "should be"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    op: str, wrong: dict[str, list[int]], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        compiled(op, tmp_path, **wrong)
    assert reason in str(caught.value)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_one_that_fits_is_not(op: str, tmp_path: Path) -> None:
    compiled(op, tmp_path)
