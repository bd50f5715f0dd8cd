# SPDX-License-Identifier: Apache-2.0
"""Scales and biases of a layer normalisation that repeat to its input, not along a line of it.

ONNX allows them; the body that ONNX defines does not, and its error was the compiler's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import aot
from aot.errors import UnsupportedError
from aot.load import LoadOptions, load
from graphs import model

EPSILON = 1e-5


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("op", "axis", "scale", "bias", "constant", "dtype"),
    [
        ("LayerNormalization", 1, (2, 3, 4), (2, 3, 4), True, np.float32),
        ("LayerNormalization", 2, (2, 3, 4), (4,), False, np.float32),
        ("LayerNormalization", 1, (2, 1, 1), None, True, np.float32),
        ("LayerNormalization", 1, (3, 1), (4,), False, np.float32),
        ("LayerNormalization", 2, (3, 1), (2, 1, 4), True, np.float64),
        ("RMSNormalization", 2, (2, 3, 4), None, True, np.float32),
        ("RMSNormalization", 1, (3, 1), None, False, np.float64),
    ],
)
def test_scales_that_repeat(
    op: str,
    axis: int,
    scale: tuple[int, ...],
    bias: tuple[int, ...] | None,
    constant: bool,
    dtype: type,
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4)).astype(dtype)
    own = {n: rng.standard_normal(s).astype(dtype) for n, s in (("s", scale), ("b", bias)) if s}
    feeds = {"x": x} | ({} if constant else own)
    inputs = {n: list(v.shape) for n, v in feeds.items()}
    kinds = dict.fromkeys("xsby", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    rows = [(op, " ".join(["x", *own]), "y", {"axis": axis, "epsilon": EPSILON})]
    graph = model(rows, inputs, {"y": None}, own if constant else {}, kinds, opset=23)
    axes = tuple(range(axis, 3))
    off = x if op.startswith("RMS") else x - x.mean(axes, keepdims=True)
    want = off / np.sqrt((off * off).mean(axes, keepdims=True) + EPSILON) * own["s"]
    want = want + own.get("b", dtype(0))
    got = aot.compile(graph, tmp_path / "out", name="n").load()(*feeds.values())
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("scale", [(2, 3, 4), (2, 1, 1), (3, 1), (1, 3, 4)])
def test_scales_behind_a_norm_that_is_spelled_out(scale: tuple[int, ...], tmp_path: Path) -> None:
    """They were reshaped to a line."""
    rng = np.random.default_rng(0)
    x, s = (rng.standard_normal(n).astype(np.float32) for n in ((2, 3, 4), scale))
    rows = [
        ("Mul", "x x", "sq"),
        ("ReduceMean", "sq axes", "mean"),
        ("Add", "mean eps", "var"),
        ("Sqrt", "var", "root"),
        ("Div", "x root", "unit"),
        ("Mul", "unit s", "y"),
    ]
    consts = {"axes": np.array([1, 2]), "eps": np.array(EPSILON, np.float32), "s": s}
    graph = model(rows, {"x": [2, 3, 4]}, {"y": None}, consts)
    want = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + EPSILON) * s
    got = aot.compile(graph, tmp_path / "out", name="n").load()(x)
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_scales_along_a_dimension_of_a_run() -> None:
    rows = [("LayerNormalization", "x s", "y")]
    kinds = {"s": TensorProto.FLOAT}
    graph = model(rows, {"x": ["n", 4]}, {"y": None}, {"s": np.ones((2, 4), "f4")}, kinds, opset=23)
    with pytest.raises(UnsupportedError, match="has 2 elements along dimension 0"):
        load(graph, LoadOptions(dims={"n": (1, 2)}))
