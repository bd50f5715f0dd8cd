# SPDX-License-Identifier: Apache-2.0
"""Shapes that depend on the data: small graphs with sanitizers, from no elements to all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import aot
from aot.errors import UnsupportedError
from aot.options import Options
from aot.pipeline import compile_model
from aot.tools.run import execute, open_out, start
from needs import need

Build = Callable[["Graph"], None]
F, N, B = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


class Graph:
    """A graph under construction: every method gives the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, *shape: int, kind: int = F) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def const(self, *values: int, scalar: bool = False) -> str:
        data = np.array(values[0] if scalar else values, np.int64)
        self.constants.append(numpy_helper.from_array(data, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if count == 1 else names

    def output(self, name: str, kind: int = F) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "dynamic", self.inputs, self.outputs, self.constants)
        opset = onnx.defs.onnx_opset_version()
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def rows(g: Graph, n: int = 7, m: int = 3) -> str:
    """The rows of the first input [n, m] that the second, booleans [n], chooses."""
    return g.op("Compress", g.input(n, m), g.input(n, kind=B), axis=0)


def columns(g: Graph, n: int = 5, m: int = 6) -> str:
    """Columns of [n, m] by booleans [m]."""
    return g.op("Compress", g.input(n, m), g.input(m, kind=B), axis=1)


def plain(g: Graph) -> None:
    g.output(rows(g))


def gaps(g: Graph) -> None:
    g.output(g.op("Relu", columns(g)))


def places(g: Graph) -> None:
    found = g.op("NonZero", g.op("Less", g.input(4, 5), g.input(4, 1)))
    g.output(found, N)
    g.output(g.op("Transpose", found, perm=[1, 0]), N)


def sums(g: Graph) -> None:
    x = rows(g)
    for kind in ("ReduceSum", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceMin"):
        g.output(g.op(kind, x, g.const(0), keepdims=0))
    g.output(g.op("ReduceMax", x, g.const(1)))


def means(g: Graph) -> None:
    x = columns(g)
    g.output(g.op("ReduceMean", x, g.const(1), keepdims=1))
    g.output(g.op("ReduceMean", x, keepdims=0))


def softmaxes(g: Graph) -> None:
    g.output(g.op("Softmax", columns(g), axis=1))


def softmax_columns(g: Graph) -> None:
    g.output(g.op("Softmax", rows(g), axis=0))


def extremes(g: Graph) -> None:
    x = g.op("Concat", columns(g), g.input(5, 1), axis=1)
    g.output(g.op("ArgMax", x, axis=1), N)
    g.output(g.op("ArgMin", x, axis=1, keepdims=0), N)


def joined(g: Graph) -> None:
    x, y = rows(g), rows(g, 4)
    g.output(g.op("Concat", x, g.input(2, 3), y, axis=0))


def shapes(g: Graph) -> None:
    x = rows(g)
    g.output(g.op("Shape", x), N)
    g.output(g.op("Size", x), N)
    g.output(g.op("Shape", x, start=1), N)


def reshaped(g: Graph) -> None:
    x = g.op("Compress", g.input(6, 2, 2), g.input(6, kind=B), axis=0)
    g.output(g.op("Reshape", x, g.const(-1, 4)))
    g.output(g.op("Reshape", x, g.const(0, -1)))
    g.output(g.op("Reshape", x, g.const(-1)))
    g.output(g.op("Flatten", x, axis=1))
    g.output(g.op("Flatten", x, axis=2))


def repacked(g: Graph) -> None:
    x = columns(g, 4, 6)
    g.output(g.op("Reshape", x, g.const(-1)))
    g.output(g.op("Reshape", x, g.const(2, -1)))
    g.output(g.op("Reshape", x, g.const(2, 2, -1)))


def sliced(g: Graph) -> None:
    x = rows(g, 9, 4)
    every = [
        ((1,), (-1,), (0,), (1,)),
        ((0,), (2**62,), (0,), (2,)),
        ((-1,), (-(2**62),), (0,), (-1,)),
    ]
    for numbers in every:
        g.output(g.op("Slice", x, *(g.const(*v) for v in numbers)))
    g.output(g.op("Slice", x, g.const(0, 1), g.const(3, 3), g.const(0, 1)))


def sliced_by_size(g: Graph) -> None:
    """All but the last element, spelled with Shape."""
    x = rows(g)
    n = g.op("Shape", x, end=1)
    end = g.op("Sub", n, g.const(1))
    g.output(g.op("Slice", x, g.const(0), end, g.const(0)))
    g.output(g.op("Slice", g.input(7, 2), g.const(0), n, g.const(0)))


def gathered(g: Graph) -> None:
    x = g.op("Concat", rows(g), g.input(2, 3), axis=0)
    g.output(g.op("Gather", x, g.const(-1, 0, -2), axis=0))
    g.output(g.op("Gather", x, g.const(1, scalar=True), axis=1))
    picks = g.op("NonZero", g.input(4))
    tuples = g.op("Transpose", picks, perm=[1, 0])
    g.output(g.op("GatherND", g.input(4, 2), tuples))
    g.output(g.op("Gather", g.input(4, 2), g.op("Squeeze", picks, g.const(0)), axis=1 - 1))


def best(g: Graph) -> None:
    x = g.op("Compress", g.input(12), g.input(12, kind=B), axis=0)
    k = g.op("Min", g.op("Shape", x), g.const(4))
    values, at = g.op("TopK", x, k, count=2, axis=0)
    g.output(values)
    g.output(at, N)
    g.output(g.op("Gather", x, at, axis=0))
    smallest, _ = g.op("TopK", x, g.op("Shape", x), count=2, axis=0, largest=0)
    g.output(smallest)


def arithmetic(g: Graph) -> None:
    x = rows(g)
    y = g.op("Mul", x, g.op("Exp", x))
    g.output(g.op("Where", g.op("Greater", y, g.input(1, 3)), y, g.input(3)))
    total = g.op("ReduceSum", x, g.const(0), keepdims=1)
    g.output(g.op("Sub", x, total))


def products(g: Graph) -> None:
    x = rows(g)
    g.output(g.op("MatMul", x, g.input(3, 4)))
    t = g.op("Transpose", x, perm=[1, 0])
    g.output(g.op("MatMul", t, x))
    g.output(g.op("MatMul", x, t))
    g.output(g.op("Gemm", x, g.input(3, 2), g.input(2)))


def ramps(g: Graph) -> None:
    x = rows(g)
    n = g.op("Squeeze", g.op("Shape", x, end=1), g.const(0))
    g.output(g.op("Range", g.const(0, scalar=True), n, g.const(1, scalar=True)), N)
    g.output(g.op("Range", n, g.const(-3, scalar=True), g.const(-2, scalar=True)), N)


def filled(g: Graph) -> None:
    n = g.op("Shape", rows(g), end=1)
    g.output(g.op("Expand", g.input(1, 2), g.op("Concat", n, g.const(1), axis=0)))
    g.output(g.op("ConstantOfShape", g.op("Concat", g.const(2), n, axis=0)))


def moved(g: Graph) -> None:
    x = g.op("Compress", g.input(2, 5, 3), g.input(5, kind=B), axis=1)
    x = g.op("Unsqueeze", x, g.const(0))
    x = g.op("Transpose", x, perm=[2, 0, 3, 1])
    g.output(x)
    g.output(g.op("CumSum", g.op("Squeeze", x, g.const(1)), g.const(0, scalar=True), reverse=1))
    g.output(g.op("Cast", x, to=N), N)


def distinct(g: Graph) -> None:
    x = g.op("Round", rows(g, 9, 2))
    for kind, value in zip((F, N, N, N), g.op("Unique", x, count=4, axis=0), strict=True):
        g.output(value, kind)
    flat = g.op("Reshape", x, g.const(-1))
    for value, kind in zip(g.op("Unique", flat, count=2, sorted=0), (F, N), strict=True):
        g.output(value, kind)


def twice(g: Graph) -> None:
    """Both axes of a matrix."""
    x = g.op("Compress", columns(g, 5, 6), g.input(5, kind=B), axis=0)
    g.output(x)
    g.output(g.op("ReduceSum", x, keepdims=0))
    g.output(g.op("Reshape", x, g.const(-1)))
    g.output(g.op("NonZero", x), N)


def half(g: Graph) -> None:
    x = g.op("Cast", columns(g), to=onnx.TensorProto.FLOAT16)
    g.output(g.op("Sigmoid", x), onnx.TensorProto.FLOAT16)


def branches(g: Graph) -> None:
    """An If of known condition, whose branch has the dynamic shape."""
    x, mask = g.input(6, 2), g.input(6, kind=B)
    bodies = []
    for axis in (0, 1):
        node = helper.make_node("Compress", [x, mask], [f"b{axis}"], axis=axis)
        end = helper.make_node("Neg", [f"b{axis}"], [f"e{axis}"])
        result = helper.make_tensor_value_info(f"e{axis}", F, None)
        bodies.append(helper.make_graph([node, end], "branch", [], [result]))
    yes = g.op("Cast", g.const(1, scalar=True), to=B)
    g.output(g.op("If", yes, then_branch=bodies[0], else_branch=bodies[1]))


def padded_branch(g: Graph) -> None:
    """An If of unknown condition; the longer result is that of a Pad of the model's own."""
    x, mask, pads = g.input(2), g.input(1, kind=B), g.const(0, 3)
    ends = [helper.make_node("Neg", [x], ["e0"]), helper.make_node("Pad", [x, pads], ["e1"])]
    bodies = [
        helper.make_graph(
            [end], "branch", [], [helper.make_tensor_value_info(f"e{index}", F, None)]
        )
        for index, end in enumerate(ends)
    ]
    yes = g.op("Gather", mask, g.const(0, scalar=True))
    g.output(g.op("If", yes, then_branch=bodies[0], else_branch=bodies[1]))


def stepped(g: Graph) -> None:
    """A Loop whose steps are of different shapes: each has its own when they are unrolled."""
    x, mask = g.input(3, 2), g.input(3, kind=B)
    zero, one, yes = g.const(0), g.const(1), g.op("Cast", g.const(1, scalar=True), to=B)
    nodes = [
        helper.make_node("Unsqueeze", ["i", zero], ["at"]),
        helper.make_node("Add", ["at", one], ["end"]),
        helper.make_node("Slice", [x, zero, "end", zero], ["part"]),
        helper.make_node("ReduceSum", ["part", zero], ["sum"], keepdims=0),
        helper.make_node("Identity", ["more"], ["go"]),
    ]
    ends = [("i", N, ()), ("more", B, ()), ("go", B, ()), ("sum", F, None)]
    infos = [helper.make_tensor_value_info(*e) for e in ends]
    body = helper.make_graph(nodes, "step", infos[:2], infos[2:])
    sums = g.op("Loop", g.const(3, scalar=True), yes, body=body)
    g.output(g.op("Compress", sums, mask, axis=0))


GRAPHS = [plain, gaps, places, sums, means, softmaxes, softmax_columns, extremes, joined, shapes]
GRAPHS += [reshaped, repacked, sliced, sliced_by_size, gathered, best, arithmetic, products, ramps]
GRAPHS += [filled, moved, distinct, twice, half, branches, padded_branch]
GRAPHS += [stepped]
#: What of the booleans is true: none, all, some.
SHARES = (0.0, 1.0, 0.5, 0.3)
#: Reductions and index lists that onnx.reference refuses when nothing is left.
NOT_EMPTY = (sums, means, best, softmaxes, softmax_columns, distinct, sliced, twice, reshaped)


def feed(model: onnx.ModelProto, share: float) -> list[np.ndarray]:
    """Seeded inputs; `share` of the booleans are true."""
    found = []
    for seed, value in enumerate(model.graph.input):
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        rng = np.random.default_rng([seed, *shape])
        drawn = rng.uniform(-2, 2, shape).astype(np.float32)
        boolean = value.type.tensor_type.elem_type == B
        found.append((rng.uniform(0, 1, shape) < share) if boolean else drawn)
    return found


def jobs_of(build: Build) -> list[harness.Job]:
    """The graph on inputs that leave nothing, everything and something."""
    g = Graph()
    build(g)
    model = g.model()
    found = []
    for share in SHARES:
        if share == 0.0 and build in NOT_EMPTY:
            continue
        inputs = feed(model, share)
        case = harness.Case(tuple(inputs), {}, (), len(g.outputs))
        program = compile_model(model, Options(name="t", target="x86-64")).program
        job = harness.Job(f"{build.__name__} {share}", case, model, program=program)
        job.want = harness.reference(model, case)
        found.append(job)
    return found


def test_from_nothing_to_all(tmp_path: Path) -> None:
    chosen = GRAPHS if os.environ.get("AOT_FULL") else GRAPHS[::2]
    jobs = [j for build in chosen for j in jobs_of(build)]
    harness.run_batch(jobs, 4, tmp_path)
    assert not [f"{j.label}: {j.error}" for j in jobs if j.error]


def refusal(build: Build) -> str:
    g = Graph()
    build(g)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(g.model(), Options(name="t", target="x86-64"))
    return str(caught.value)


def repeats(g: Graph) -> None:
    """Two masks choose: one of the sums may have one row, and would be repeated."""
    g.output(g.op("Add", rows(g), rows(g)))


def convolved(g: Graph) -> None:
    x = g.op("Compress", g.input(1, 3, 8, 8), g.input(3, kind=B), axis=1)
    g.output(g.op("Conv", x, g.input(4, 3, 3, 3)))


def unbounded(g: Graph) -> None:
    limit = g.op("Squeeze", g.input(1, kind=N), g.const(0))
    g.output(g.op("Range", g.const(0, scalar=True), limit, g.const(1, scalar=True)), N)


def test_what_cannot_be_proven_is_refused() -> None:
    assert "may repeat dimension 0, known at run time only" in refusal(repeats)
    assert "has channels whose number is known at run time only" in refusal(convolved)
    text = refusal(unbounded)
    assert "has no provable bound" in text and "--bind" in text


def test_what_partition_cannot_write() -> None:
    from aot.partition.serialise import serialise
    from aot.pipeline import partition_model

    g = Graph()
    plain(g)
    with pytest.raises(UnsupportedError, match="cannot be written as ONNX"):
        serialise(*partition_model(g.model(), Options(name="t", target="x86-64")))


@pytest.mark.parametrize("target", ["x86-64", "cortex-m4"])
def test_a_bundle_gives_true_shapes(target: str, tmp_path: Path) -> None:
    """Compiled with test vectors, built and run; on hosts also as a library."""
    if target == "cortex-m4":
        need("arm-none-eabi-gcc")
        need("qemu-system-arm")
    g = Graph()
    gaps(g)
    best(g)
    model = g.model()
    names = [i.name for i in model.graph.input]
    samples: dict[str, np.ndarray] = {}
    for k, share in enumerate((0.4, 1.0)):
        inputs = feed(model, share)
        case = harness.Case(tuple(inputs), {}, (), len(g.outputs))
        results = harness.reference(model, case)
        ends = zip([*names, *(o.name for o in g.outputs)], [*inputs, *results], strict=True)
        samples |= {f"s{k}/{n}": a for n, a in ends}
    np.savez(tmp_path / "t.npz", **samples)
    bundle = aot.compile(
        model, tmp_path / "out", name="net", target=target, test_data=str(tmp_path / "t.npz")
    )
    bundle.build()
    built = open_out(tmp_path / "out")
    start(built, [])  # the self-test
    for k in (0, 1):
        found = execute(built, [samples[f"s{k}/{n}"] for n in names])
        for spec, array in zip(built.outputs, found, strict=True):
            np.testing.assert_allclose(array, samples[f"s{k}/{spec.name}"], rtol=1e-5)
            assert array.shape == samples[f"s{k}/{spec.name}"].shape
    if target == "x86-64":
        net = bundle.load()
        for array, value in zip(net(*feed(model, 0.4)), g.outputs, strict=True):
            np.testing.assert_allclose(array, samples[f"s0/{value.name}"], rtol=1e-5)
