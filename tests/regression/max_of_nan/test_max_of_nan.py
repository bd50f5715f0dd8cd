# SPDX-License-Identifier: Apache-2.0
"""A NaN was lost among what MaxPool, GlobalMaxPool and ReduceMax over space compare.

Found by fuzzing: ReduceMax alone kept it, as a global pool it was a matter of the order.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import aot

Array = NDArray[Any]


def windows(x: Array, attrs: dict[str, Any]) -> tuple[Array, Array]:
    """The largest of every window of [N,C,H,W], NaN if there is one, and where the first is."""
    (kh, kw), (sh, sw) = attrs["kernel_shape"], attrs["strides"]
    top, left, below, right = attrs["pads"]
    dh, dw = attrs["dilations"]
    n, c, h, w = x.shape
    rows = (h + top + below - (kh - 1) * dh - 1) // sh + 1
    columns = (w + left + right - (kw - 1) * dw - 1) // sw + 1
    y, at = np.empty((n, c, rows, columns), x.dtype), np.empty((n, c, rows, columns), np.int64)
    for i, j in product(range(rows), range(columns)):
        own = [r for r in range(i * sh - top, i * sh - top + kh * dh, dh) if 0 <= r < h]
        mine = [q for q in range(j * sw - left, j * sw - left + kw * dw, dw) if 0 <= q < w]
        part = x[:, :, own][:, :, :, mine].reshape(n, c, -1)
        first = part.argmax(-1)
        y[:, :, i, j] = np.take_along_axis(part, first[..., None], -1)[..., 0]
        flat = np.array([r * w + q for r in own for q in mine])
        at[:, :, i, j] = flat[first] + np.arange(n * c).reshape(n, c) * h * w
    return y, at


def pools(height: int, width: int) -> list[dict[str, Any]]:
    """Windows two to four wide, with steps, pads and dilations, that lie in the image."""
    found = []
    for kernel, step, pad in product(((3, 3), (2, 3), (2, 2), (3, 4)), (1, 2, 3), (0, 1)):
        for dilation in (1, 2) if step == 1 else (1,):
            reach = [(k - 1) * dilation + 1 for k in kernel]
            if reach[0] > height or reach[1] > width:
                continue
            attrs = {"kernel_shape": kernel, "strides": [step, step], "pads": [pad, pad, 0, pad]}
            found.append({**attrs, "dilations": [dilation, dilation]})
    return found


def model(nodes: list[NodeProto], shape: tuple[int, ...], ends: list[str]) -> ModelProto:
    weights = numpy_helper.from_array(np.eye(shape[1], dtype=np.float32)[..., None, None], "w")
    info = helper.make_tensor_value_info
    outputs = [info(n, TensorProto.INT64 if n[0] == "i" else TensorProto.FLOAT, None) for n in ends]
    for output in outputs:
        output.type.tensor_type.ClearField("shape")
    inputs = [info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [3, 4, 11])
@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_windows(width: int, layout: str, tmp_path: Path) -> None:
    """Every channel has a NaN and an infinity; an image behind a Conv stands in blocks."""
    rng = np.random.default_rng(width)
    x = rng.standard_normal((2, 32, 7, width)).astype(np.float32)
    x[0, :, 4, 2] = np.nan
    x[1, :, 1, 0] = np.inf
    every = pools(7, width)
    source, nodes = "x", []
    if layout == "blocked":
        source, nodes = "c", [helper.make_node("Conv", ["x", "w"], ["c"])]
        x[:, 1:] = x[:, :1]  # a NaN times zero is one in every channel
        x[~np.isfinite(x)] = np.nan
    for i, attrs in enumerate(every):
        ends = [f"y{i}"] if layout == "blocked" else [f"y{i}", f"i{i}"]
        nodes.append(helper.make_node("MaxPool", [source], ends, **attrs))
    ends = [o for n in nodes for o in n.output if o != "c"]
    bundle = aot.compile(model(nodes, x.shape, ends), tmp_path / "o", name="pools")
    text = "".join(p.read_text() for p in (tmp_path / "o").rglob("pools_run.c"))
    assert ("aot_maxpool_f32_blocked" in text) == (layout == "blocked")
    results = dict(zip(ends, bundle.load()(x), strict=True))
    met = 0
    for i, attrs in enumerate(every):
        value, where = windows(x, attrs)
        met += bool(np.isnan(value).any())
        np.testing.assert_array_equal(results[f"y{i}"], value, str(attrs))
        if layout == "plain":
            np.testing.assert_array_equal(results[f"i{i}"], where, str(attrs))
    assert met > len(every) // 2


@pytest.mark.sample(5)
@pytest.mark.parametrize("at", [0, 5, 33, 44])
@pytest.mark.parametrize("op", ["GlobalMaxPool", "ReduceMax", "MaxPool"])
def test_whole_images(op: str, at: int, tmp_path: Path) -> None:
    x = np.random.default_rng(at).standard_normal((1, 3, 5, 9)).astype(np.float32)
    x[0, 1].flat[at] = np.nan
    attrs: dict[str, Any] = {"MaxPool": {"kernel_shape": [5, 9]}, "ReduceMax": {"keepdims": 1}}
    nodes = [helper.make_node(op, ["x"], ["y"], **attrs.get(op, {}))]
    if op == "ReduceMax":
        axes = numpy_helper.from_array(np.array([2, 3]))
        nodes.insert(0, helper.make_node("Constant", [], ["axes"], value=axes))
        nodes[1].input.append("axes")
    loaded = aot.compile(model(nodes, x.shape, ["y"]), tmp_path / "o", name="n").load()
    np.testing.assert_array_equal(np.asarray(loaded(x)), x.max((2, 3), keepdims=True))
