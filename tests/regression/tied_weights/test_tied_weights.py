# SPDX-License-Identifier: Apache-2.0
"""Weights that an embedding and a product share were stored twice, or transposed in every run.

A Gather read w as it is, a product the packed transpose of it; beyond the budget of folding the
transpose was computed in the arena.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import aot
import shared_weights
from aot.options import Options
from aot.pipeline import compile_model


def stored(model: onnx.ModelProto, **options: object) -> int:
    """Bytes of constants in the bundle."""
    return int(compile_model(model, Options(**options)).manifest["memory"]["constants_bytes"])


def unique(model: onnx.ModelProto) -> int:
    """Bytes of the model's float matrices, each once whatever its orientation."""
    found = {}
    for tensor in model.graph.initializer:
        data = onnx.numpy_helper.to_array(tensor)
        if data.ndim == 2:
            found[min(data.tobytes(), data.T.tobytes())] = data.nbytes
    return sum(found.values())


@pytest.mark.parametrize("spelling", shared_weights.SPELLINGS)
def test_tied_weights_are_stored_once(spelling):
    model = shared_weights.tied(spelling, 3)
    small = 70 * 4 + 37 * 11 * 4 + 1024  # biases, panels' padding, bounds
    assert stored(model) <= unique(model) + small


def test_a_matrix_read_both_ways_is_stored_once():
    model = shared_weights.both_ways(3)
    assert stored(model) <= unique(model) + 1024


CASES = [("transpose", 1), ("gemm", 5), ("copy", 5), ("both", 1), ("both", 5)]


@pytest.mark.parametrize(("kind", "rows"), CASES)
def test_results_are_those_of_the_model(kind, rows, tmp_path: Path):
    both = kind == "both"
    model = shared_weights.both_ways(rows) if both else shared_weights.tied(kind, rows)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    ids = np.random.default_rng(3).integers(0, 70, shape)
    given = {"x": shared_weights.f32(*shape)} if both else {"ids": ids}
    (want,) = ReferenceEvaluator(model).run(None, given)
    found = np.asarray(aot.compile(model, tmp_path / "out").build().load()(**given))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
