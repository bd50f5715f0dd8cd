# SPDX-License-Identifier: Apache-2.0
"""Windows that have no place in the input were refused where all agree that the result is empty.

docs/oracles.md says where they do not agree; such windows are still refused (window_too_large).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.errors import ModelError

POOLS = ("MaxPool", "AveragePool", "LpPool")
CONVS = {
    "Conv": ("float", "Conv<ATTRS>(x, w)"),
    "ConvInteger": ("int32", "ConvInteger<ATTRS>(b, v)"),
    "QLinearConv": ("uint8", "QLinearConv<ATTRS>(b, s, z, v, s, z, s, z)"),
}


def model(shape: list[int], attrs: str, ops: list[str], opset: int = 21) -> Any:
    """A model of one result for each operator, on an image of `shape`."""
    size = ",".join(map(str, shape))
    open_ = ",".join(f"d{k}" for k in range(len(shape)))
    taps = ",".join(["1", str(shape[1]), *["3"] * (len(shape) - 2)])
    ones = ",".join(["1"] * shape[1] * 3 ** (len(shape) - 2))
    nodes = [f"{op} = {CONVS[op][1] if op in CONVS else op + '<ATTRS>(x)'}" for op in ops]
    kinds = [CONVS[op][0] if op in CONVS else "float" for op in ops]
    outputs = ",".join(f"{kind}[{open_}] {op}" for op, kind in zip(ops, kinds, strict=True))
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{size}] x) => ({outputs})'
        f"<float[{taps}] w = {{{ones}}}, uint8[{taps}] v = {{{ones}}}, float s = {{1}},"
        f"uint8 z = {{0}}> {{ b = Cast<to = 2>(x) "
        + "\n".join(nodes).replace("ATTRS", attrs)
        + " }"
    )


EMPTY = {
    "one short": ([1, 17, 2, 5], "kernel_shape = [3, 3]", [0, 3], [*POOLS, *CONVS]),
    "valid": ([1, 17, 2, 5], 'kernel_shape = [3, 3], auto_pad = "VALID"', [0, 3], [*POOLS, *CONVS]),
    "a stride short": (
        [1, 2, 1, 5],
        "kernel_shape = [3, 3], strides = [2, 1]",
        [0, 3],
        ["LpPool", *CONVS],
    ),
    "a line": ([1, 2, 2], "kernel_shape = [3]", [0], ["MaxPool", "AveragePool", "Conv"]),
    "rounded up": ([1, 2, 2, 5], "kernel_shape = [3, 3], ceil_mode = 1", [0, 3], list(POOLS)),
    "rounded up by strides": (
        *([1, 2, 1, 5], "kernel_shape = [4, 3], strides = [2, 2], ceil_mode = 1"),
        *([0, 2], list(POOLS)),
    ),
    "of nothing": ([1, 2, 0, 5], "kernel_shape = [1, 3]", [0, 3], list(POOLS)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EMPTY)
def test_the_result_is_empty(name: str, tmp_path: Path) -> None:
    shape, attrs, places, ops = EMPTY[name]
    found = aot.compile(model(shape, attrs, ops), tmp_path / "o", name="n").load()(
        np.ones(shape, np.float32)
    )
    for op, got in zip(ops, found, strict=True):
        channels = 1 if op in CONVS else shape[1]
        assert np.asarray(got).shape == (shape[0], channels, *places), op


@pytest.mark.parametrize("op", [*POOLS, *CONVS])
def test_fewer_than_no_window_is_refused(op: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"kernel_shape|window of 3"):
        aot.compile(model([1, 2, 1, 5], "kernel_shape = [3, 3]", [op]), tmp_path / "o", name="n")
