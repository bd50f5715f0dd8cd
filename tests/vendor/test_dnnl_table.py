# SPDX-License-Identifier: Apache-2.0
"""The table of patterns that TVM's oneDNN backend knew, row by row: each is taken whole, as one
region of the vendor, and right on both generations of the library.

Its rows are six products with and without a bias, alone or with one of seven activations, spelled
as a front end without fused operators spells them; products with sums; products of quantised
values; and single operators.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import merged
import numpy as np
import pytest
from dnnl_libraries import ROOTS, library
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.vendor.cases import case

Array = np.ndarray
NONE = case()
ACTIVATIONS = ("none", "relu", "tanh", "sigmoid", "clip", "gelu", "swish", "mish")


class Graph:
    """A small model, node by node, with its feeds."""

    def __init__(self) -> None:
        self.nodes: list = []
        self.consts: list = []
        self.feeds: dict[str, Array] = {}

    def input(self, array: Array) -> str:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = array
        return name

    def const(self, value: object) -> str:
        name = f"c{len(self.consts)}"
        self.consts.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, op_type: str, *inputs: str, **attrs: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attrs))
        return name

    def part(self, label: str, result: str) -> merged.Part:
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.feeds.items()
        ]
        empty = helper.make_empty_tensor_value_info(result)
        opsets = [helper.make_opsetid("", 21)]
        graph = helper.make_graph(self.nodes, "row", given, [empty], self.consts)
        model = helper.make_model(graph, opset_imports=opsets)
        want = ReferenceEvaluator(model).run(None, self.feeds)
        kind = helper.np_dtype_to_tensor_dtype(want[0].dtype)
        graph.output[0].CopyFrom(helper.make_tensor_value_info(result, kind, want[0].shape))
        model = helper.make_model(graph, opset_imports=opsets)
        return merged.Part(label, model, self.feeds, want, NONE)


def drawn(*shape: int, seed: int = 0, size: float = 1.0) -> Array:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * size).astype(np.float32)


def quantised_values(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(-128, 127, shape, endpoint=True).astype(np.int8)


def activated(g: Graph, v: str, name: str) -> str:
    """`v` with an activation in single operators."""
    if name == "clip":
        return g.op("Clip", v, g.const(np.float32(0)), g.const(np.float32(1.5)))
    if name == "gelu":
        erf = g.op("Erf", g.op("Div", v, g.const(np.float32(np.sqrt(2)))))
        half = g.op("Mul", v, g.const(np.float32(0.5)))
        return g.op("Mul", half, g.op("Add", erf, g.const(np.float32(1))))
    if name == "swish":
        return g.op("Mul", v, g.op("Sigmoid", v))
    if name == "mish":
        return g.op("Mul", v, g.op("Tanh", g.op("Softplus", v)))
    return v if name == "none" else g.op(name.capitalize(), v)


def multiplied(g: Graph, kind: str, bias: bool) -> str:
    """A product of the input with weights, and a bias."""
    if kind == "dense":
        v = g.op("MatMul", g.input(drawn(5, 33)), g.const(drawn(33, 20, size=0.2)))
        return g.op("Add", v, g.const(drawn(20))) if bias else v
    rank = int(kind[-2])
    x = g.input(drawn(1, 6, *(9, 7, 5)[:rank]))
    window = (3,) * rank
    if "transpose" in kind:
        w = drawn(6, 20, *window, size=0.2)
        v = g.op("ConvTranspose", x, g.const(w), strides=[2] * rank)
    else:
        w = drawn(20, 6, *window, size=0.2)
        v = g.op("Conv", x, g.const(w), pads=[1] * (2 * rank))
    return g.op("Add", v, g.const(drawn(20, *[1] * rank))) if bias else v


def products() -> Iterator[merged.Part]:
    kinds = ("conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "dense")
    for kind, bias, act in product(kinds, (False, True), ACTIVATIONS):
        g = Graph()
        size = kind.replace("_transpose", "")
        v = multiplied(g, f"transpose{size[4:]}" if "_" in kind else size, bias)
        yield g.part(f"{kind}{'_bias' if bias else ''}_{act}", activated(g, v, act))


def sums() -> Iterator[merged.Part]:
    for kind, label, act in (
        ("dense", "dense_bias_sum", "none"),
        ("conv2d", "conv2d_bias_sum", "none"),
        ("conv2d", "conv2d_bias_sum_relu", "relu"),
    ):
        for swapped in (False, True):
            g = Graph()
            v = multiplied(g, kind, True)
            r = g.input(drawn(5, 20) if kind == "dense" else drawn(1, 20, 9, 7, seed=3))
            pair = (r, v) if swapped else (v, r)
            yield g.part(f"{label}{swapped:d}", activated(g, g.op("Add", *pair), act))


def dequantised(g: Graph, array: Array, scale: object, const: bool, axis: int = 1) -> str:
    zeros = np.zeros(np.shape(scale), array.dtype)
    value = g.const(array) if const else g.input(array)
    return g.op("DequantizeLinear", value, g.const(np.float32(scale)), g.const(zeros), axis=axis)


def of_quantised() -> Iterator[merged.Part]:
    """Scale per channel, bias, optional Clip, optional sum, zero point of the result."""
    for kind, clip, residual in product(("conv2d", "dense"), (False, True), (False, True)):
        if kind == "dense" and residual:
            continue
        g = Graph()
        steps = np.linspace(0.002, 0.006, 20).astype(np.float32)
        if kind == "dense":
            x = dequantised(g, quantised_values(5, 33), 0.03, False)
            v = g.op("MatMul", x, dequantised(g, quantised_values(33, 20), steps, True))
            bias = quantised_values(20).astype(np.int32) * 31
            v = g.op("Add", v, dequantised(g, bias, steps * np.float32(0.03), True, axis=0))
        else:
            x = dequantised(g, quantised_values(1, 6, 9, 7), 0.03, False)
            w = dequantised(g, quantised_values(20, 6, 3, 3), steps, True, axis=0)
            bias = dequantised(
                g,
                quantised_values(20).astype(np.int32) * 31,
                steps * np.float32(0.03),
                True,
                axis=0,
            )
            v = g.op("Conv", x, w, bias, pads=[1] * 4)
        if residual:
            v = g.op("Add", v, dequantised(g, quantised_values(1, 20, 9, 7, seed=5), 0.07, False))
        if clip:
            v = g.op("Clip", v, g.const(np.float32(0)), g.const(np.float32(6)))
        y = g.op("QuantizeLinear", v, g.const(np.float32(0.09)), g.const(np.int8(-7)))
        yield g.part(f"qnn.{kind}{'_clip' * clip}{'_sum' * residual}", y)


def singles() -> Iterator[merged.Part]:
    image, volume = (2, 20, 9, 7), (1, 6, 5, 7, 6)
    unary = "Abs Exp Sqrt Round Relu LeakyRelu Tanh Sigmoid Log"
    for name in unary.split():
        g = Graph()
        x = drawn(*image)
        yield g.part(name, g.op(name, g.input(abs(x) + 1 if name in ("Log", "Sqrt") else x)))
    for name in ("Add", "Mul"):
        g = Graph()
        yield g.part(name, g.op(name, g.input(drawn(*image)), g.input(drawn(*image, seed=1))))
    for name, shape in product(("MaxPool", "AveragePool"), (image, volume)):
        g = Graph()
        rank = len(shape) - 2
        window = {"kernel_shape": [3] * rank, "strides": [2] * rank, "ceil_mode": 1}
        yield g.part(f"{name}{rank}d", g.op(name, g.input(drawn(*shape)), **window))
    g = Graph()
    yield g.part("GlobalAveragePool", g.op("GlobalAveragePool", g.input(drawn(*image))))
    g = Graph()
    clipped = g.op("Clip", g.input(drawn(3, 11)), g.const(np.float32(0)), g.const(np.float32(6)))
    yield g.part("clip", clipped)
    g = Graph()
    yield g.part("Softmax", g.op("Softmax", g.input(drawn(3, 11)), axis=-1))
    g = Graph()
    pair = g.input(drawn(2, 5, 7)), g.input(drawn(2, 7, 6))
    yield g.part("batch_matmul", g.op("MatMul", *pair))
    g = Graph()
    rows = [g.const(abs(drawn(20, seed=i)) + 0.5) for i in range(4)]
    yield g.part("batch_norm", g.op("BatchNormalization", g.input(drawn(*image)), *rows))
    g = Graph()
    rows = [g.const(drawn(32, seed=i)) for i in range(2)]
    yield g.part("layer_norm", g.op("LayerNormalization", g.input(drawn(5, 32)), *rows))
    g = Graph()
    x, two = g.input(drawn(5, 32)), g.const(np.float32(2))
    mean = g.const(np.int64([-1]))
    centred = g.op("Sub", x, g.op("ReduceMean", x, mean))
    spread = g.op("ReduceMean", g.op("Pow", centred, two), mean)
    root = g.op("Sqrt", g.op("Add", spread, g.const(np.float32(1e-5))))
    scaled = g.op("Mul", g.op("Div", centred, root), g.const(drawn(32)))
    yield g.part("layer_norm_in_parts", g.op("Add", scaled, g.const(drawn(32, seed=1))))


PARTS = [*products(), *sums(), *of_quantised(), *singles()]
LABELS = [p.label for p in PARTS]


def test_the_table_has_all_its_rows() -> None:
    assert len(set(LABELS)) == len(PARTS)
    rows = [p for p in products() if not (p.label.endswith("_none") and "bias" not in p.label)]
    assert len(rows) == 90


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Array]]:
    out = tmp_path_factory.mktemp("table") / "out"
    return out, merged.compile_parts(PARTS, "dnnl", out)


def test_every_row_is_taken_whole(bundle: tuple[Path, list[Array]]) -> None:
    nodes = merged.manifest_of(bundle[0])["nodes"]
    moves = {f"aot_{way}_blocked{bits}" for way in ("to", "from") for bits in ("", "_32")}
    others = [
        (n["kernel"], n["nodes"])
        for n in nodes
        if n["backend"] != "dnnl" and n["kernel"] not in moves
    ]
    assert not others
    per_row = {label: 0 for label in LABELS}
    for node in nodes:
        if node["backend"] == "dnnl":
            per_row[LABELS[int(node["nodes"][0].split("_")[0][1:])]] += 1
    assert per_row == dict.fromkeys(LABELS, 1)


@pytest.fixture(scope="module", params=sorted(ROOTS))
def results(
    request: pytest.FixtureRequest,
    bundle: tuple[Path, list[Array]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Array]:
    root = library(request.param)
    out, arrays = bundle
    mine = tmp_path_factory.mktemp("run") / "out"
    shutil.copytree(out, mine)
    merged.build(mine, {"dnnl_ROOT": root})
    os.environ["OMP_NUM_THREADS"] = "1"
    return dict(zip(LABELS, merged.execute(merged.open_out(mine), arrays), strict=True))


@pytest.mark.parametrize("part", PARTS, ids=LABELS)
def test_row(results: dict[str, Array], part: merged.Part) -> None:
    got, want = results[part.label], part.want[0]
    if want.dtype == np.int8:
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    else:
        assert not merged.difference(got, want, part.case)
