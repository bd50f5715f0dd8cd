# SPDX-License-Identifier: Apache-2.0
"""Variances were the mean of squares minus the square of the mean, of which nothing was left.

MeanVarianceNormalization over two channels that hold 100.01 and 100 gave NaN where onnxruntime
gives 1 and -1; of float64 it was refused. ONNX's bodies and exporters spell variances like that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot


def normalised(x: Any, axes: tuple[int, ...], epsilon: float = 0.0) -> Any:
    wide = x.astype(np.longdouble)
    off = wide - wide.mean(axes, keepdims=True)
    return off / np.sqrt((off * off).mean(axes, keepdims=True) + epsilon)


def spelled(axes: list[int], square: str, keep: int, pooled: bool = False) -> str:
    """Nodes as exporters write them, y of x."""

    def mean(of: str) -> str:
        return f"GlobalAveragePool({of})" if pooled else f"ReduceMean<keepdims={keep}>({of}, axes)"

    def squared(of: str) -> str:
        return f"Mul({of}, {of})" if square == "Mul" else f"Pow({of}, two)"

    back = "k = Identity(m) w = Identity(v)"
    if not keep:
        back = "k = Unsqueeze(m, axes) w = Unsqueeze(v, axes)"
    return f"""
        axes = Constant<value_ints = {axes}>() two = Constant<value = float {{2.0}}>()
        s = {squared("x")} e = {mean("s")} m = {mean("x")} q = {squared("m")} v = Sub(e, q)
        {back} r = Sqrt(w) d = Sub(x, k) y = Div(d, r)
    """


def model(text: str, shape: tuple[int, ...], kind: str = "float", opset: int = 18) -> Any:
    size = ",".join(map(str, shape))
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(
        f"{head} g ({kind}[{size}] x) => ({kind}[{size}] y) {{ {text} }}"
    )


def run(proto: Any, x: Any, folder: Path) -> Any:
    return np.asarray(aot.compile(proto, folder / "o", name="n").load()(x))


TWO = np.array([100.01, 100], np.float32)
SPELLINGS = {
    "operator": "y = MeanVarianceNormalization<axes = [1]>(x)",
    "powers, kept": spelled([1], "Pow", 1),
    "products, dropped": spelled([1], "Mul", 0),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_two_channels(name: str, tmp_path: Path) -> None:
    y = run(model(SPELLINGS[name], (1, 2, 1, 1)), TWO.reshape(1, 2, 1, 1), tmp_path)
    assert np.allclose(y.ravel(), [1, -1], atol=1e-3)  # float32 holds the mean so far


def test_pooled(tmp_path: Path) -> None:
    x = np.resize(TWO, (1, 3, 2, 3)).astype(np.float32)
    y = run(model(spelled([2, 3], "Mul", 1, pooled=True), x.shape), x, tmp_path)
    assert np.allclose(y, normalised(x, (2, 3)), atol=2e-3)


def test_short_floats(tmp_path: Path) -> None:
    x = np.array([100.0, 100.0625, 100.125], np.float16).reshape(1, 3, 1)
    y = run(model("y = MeanVarianceNormalization<axes = [1]>(x)", x.shape, "float16"), x, tmp_path)
    assert np.allclose(y, normalised(x, (1,)).astype(np.float64), rtol=1e-2)


@pytest.mark.parametrize("axis", [1, -1])
def test_doubles(axis: int, tmp_path: Path) -> None:
    x = 1e8 + np.random.default_rng(3).standard_normal((2, 4, 5))
    text = f"y = MeanVarianceNormalization<axes = [{axis}]>(x)"
    y = run(model(text, x.shape, "double"), x, tmp_path)
    assert np.allclose(y, normalised(x, (axis,)).astype(np.float64), rtol=0, atol=1e-6)


BODIES = {
    "s = Constant<value = double[2, 3] {1, 1, 1, 1, 1, 1}>()"
    "y = LayerNormalization<axis = 1, epsilon = 0.0>(x, s)": (1, 2),
    "s = Constant<value = double[2] {1, 1}>() b = Constant<value = double[2] {0, 0}>()"
    "y = GroupNormalization<num_groups = 1, epsilon = 0.0>(x, s, b)": (1, 2),
}


@pytest.mark.parametrize("text", BODIES)
def test_bodies_of_onnx(text: str, tmp_path: Path) -> None:
    """They compute in float32 (stash_type 1), in which the operands are exact here."""
    x = 1000 + np.arange(12.0).reshape(2, 2, 3) / 8
    y = run(model(text, x.shape, "double", 21), x, tmp_path)
    assert np.allclose(y, normalised(x, BODIES[text]).astype(np.float64), atol=1e-3)


def test_another_mean_is_left_alone(tmp_path: Path) -> None:
    """The difference is no variance where the two means run over different axes."""
    text = """
        a = Constant<value_ints = [1]>() b = Constant<value_ints = [2]>()
        s = Mul(x, x) e = ReduceMean(s, a) m = ReduceMean(x, b) q = Mul(m, m) y = Sub(e, q)
    """
    x = np.random.default_rng(4).standard_normal((2, 3, 3)).astype(np.float32)
    want = (x**2).mean(1, keepdims=True) - x.mean(2, keepdims=True) ** 2
    assert np.allclose(run(model(text, x.shape), x, tmp_path), want, atol=1e-6)
