# SPDX-License-Identifier: Apache-2.0
"""Every form of the pattern language: docs/patterns.md is executed, each pattern matched."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from aot.errors import BackendError
from aot.options import Options
from aot.partition.select import select
from aot.pipeline import partition_model
from aot.vendor.backend import Backend
from aot.vendor.pattern import const, either, match_at, repeat, trace, typed
from graphs import model

DOC = Path(__file__).resolve().parents[2] / "docs" / "patterns.md"
IMAGE, W = [1, 4, 6, 6], np.ones((4, 4, 1, 1), np.float32)
GROUPED = np.ones((4, 1, 1, 1), np.float32)
ROW, SQUARE = [1, 8], np.ones((8, 8), np.float32)
BIAS = np.zeros(4, np.float32)
HALF = np.array([2, 2], np.int64)
TO_FLOAT = {"to": 1}


def graph_of(rows, x=ROW, outs="y", consts=None, inputs=(), domains=()) -> ir.Graph:
    shapes = {"x": x, **{i: x for i in inputs}}
    proto = model(rows, shapes, {o: None for o in outs.split()}, consts, domains=domains)
    import onnx

    return ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph


def found(pattern, graph):
    """The largest match of a pattern anywhere in a graph."""
    matches = [m for n in graph if (m := pattern.match(n))]
    return max(matches, key=lambda m: len(m.nodes), default=None)


@pytest.fixture(scope="module")
def acme() -> dict:
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S):
        exec(compile(block, str(DOC), "exec"), names)
    return {p.name: p for p in names["acme"].patterns}


CONV = {"w": W, "b": BIAS}
# Pattern: a graph it matches, the names of the nodes covered, a graph it does not match.
TABLE = {
    "conv_relu": (
        graph_of([("Conv", "x w b", "c"), ("Relu", "c", "y")], IMAGE, consts=CONV),
        {"Conv", "Relu"},
        graph_of([("Conv", "x w b", "c"), ("Tanh", "c", "y")], IMAGE, consts=CONV),
    ),
    "conv_gated": (
        graph_of(
            [("Conv", "x w b", "c"), ("Tanh", "c", "s"), ("Mul", "s c", "y")], IMAGE, "y", CONV
        ),
        {"Conv", "Tanh", "Mul"},
        graph_of(
            [
                ("Conv", "x w b", "c"),
                ("Conv", "x w b", "d"),
                ("Tanh", "c", "s"),
                ("Mul", "s d", "y"),
            ],
            IMAGE,
            "y",
            CONV,
        ),
    ),
    "gemm": (
        graph_of([("Gemm", "x w", "y")], consts={"w": SQUARE}),
        {"Gemm"},
        graph_of([("MatMul", "x w", "y")], consts={"w": SQUARE}),
    ),
    "concat_rows": (
        graph_of([("Concat", "x x x", "y", {"axis": 0})]),
        {"Concat"},
        graph_of([("Concat", "x x x", "y", {"axis": 1})]),
    ),
    "depthwise": (
        graph_of(
            [("Conv", "x w b", "y", {"group": 4, "strides": [1, 1]})],
            IMAGE,
            consts={"w": GROUPED, "b": BIAS},
        ),
        {"Conv"},
        graph_of(
            [("Conv", "x w b", "y", {"group": 1, "strides": [1, 1]})],
            IMAGE,
            consts={"w": W, "b": BIAS},
        ),
    ),
    "relu6": (
        graph_of([("Clip", "x l h", "y")], consts={"l": np.float32(0), "h": np.float32(6)}),
        {"Clip"},
        graph_of([("Clip", "x l h", "y")], consts={"l": np.float32(0), "h": np.float32(5)}),
    ),
    "scaled": (
        graph_of([("Mul", "s x", "y")], consts={"s": np.float32(3)}),
        {"Mul"},
        graph_of([("Mul", "s x", "y")], consts={"s": np.ones(8, np.float32)}),
    ),
    "batch_one": (
        graph_of([("Softmax", "x", "y")]),
        {"Softmax"},
        graph_of([("Softmax", "x", "y")], [2, 8]),
    ),
    "images_only": (
        graph_of([("GlobalAveragePool", "x", "y")], IMAGE),
        {"GlobalAveragePool"},
        graph_of([("GlobalAveragePool", "x", "y")], [1, 4, 6]),
    ),
    "dense": (
        graph_of(
            [("MatMul", "x w", "m"), ("Add", "m b", "y")],
            consts={"w": SQUARE, "b": np.ones(8, np.float32)},
        ),
        {"MatMul", "Add"},
        graph_of([("MatMul", "x v", "y")], [8, 8], inputs=("v",)),
    ),
    "act": (graph_of([("Elu", "x", "y")]), {"Elu"}, graph_of([("Relu", "x", "y")])),
    "pool_maybe_flat": (
        graph_of(
            [("MaxPool", "x", "p", {"kernel_shape": [2, 2]}), ("Reshape", "p s", "y")],
            IMAGE,
            consts={"s": np.array([1, 100])},
        ),
        {"MaxPool", "Reshape"},
        graph_of([("Reshape", "x s", "y")], IMAGE, consts={"s": np.array([1, 144])}),
    ),
    "negations": (
        graph_of([("Abs", "x", "a"), ("Neg", "a", "b"), ("Neg", "b", "c"), ("Neg", "c", "y")]),
        {"Abs", "Neg"},
        graph_of([("Neg", "x", "a"), ("Neg", "a", "y")]),
    ),
    "residual": (
        graph_of([("Conv", "x w b", "c"), ("Add", "c x", "y")], IMAGE, consts=CONV),
        {"Conv", "Add"},
        graph_of([("Conv", "x w b", "c"), ("Sub", "c x", "y")], IMAGE, consts=CONV),
    ),
    "best": (
        graph_of(
            [("TopK", "x k", "v p", {"axis": 1}), ("Relu", "v", "y"), ("Cast", "p", "z", TO_FLOAT)],
            outs="y z",
            consts={"k": np.array([3])},
        ),
        {"TopK", "Relu", "Cast"},
        graph_of(
            [("TopK", "x k", "v p", {"axis": 1}), ("Relu", "v", "y"), ("Neg", "p", "z")],
            outs="y z",
            consts={"k": np.array([3])},
        ),
    ),
    "query_key": (
        graph_of(
            [("MatMul", "x q", "a"), ("Cos", "x", "c"), ("MatMul", "x k", "b")],
            outs="a b c",
            consts={"q": SQUARE, "k": 2 * SQUARE},
        ),
        {"MatMul", "Cos"},
        graph_of(
            [("MatMul", "x q", "a"), ("Cos", "x", "c"), ("MatMul", "z k", "b")],
            outs="a b c",
            consts={"q": SQUARE, "k": 2 * SQUARE},
            inputs=("z",),
        ),
    ),
    "exp_and_log": (
        graph_of([("Exp", "x", "e"), ("Log", "e", "l"), ("Neg", "e", "n")], outs="l n"),
        {"Exp", "Log"},
        graph_of([("Exp", "x", "e"), ("Neg", "e", "y")]),
    ),
    "gate": (
        graph_of([("com.acme.Gate", "x", "g"), ("Relu", "g", "y")], domains=["com.acme"]),
        {"Gate", "Relu"},
        graph_of([("com.other.Gate", "x", "g"), ("Relu", "g", "y")], domains=["com.other"]),
    ),
}


def test_the_table_has_every_pattern_of_the_page(acme) -> None:
    assert sorted(TABLE) == sorted(acme)


@pytest.mark.parametrize("name", list(TABLE))
def test_pattern_of_the_page(acme, name) -> None:
    good, covered, bad = TABLE[name]
    match = found(acme[name], good)
    assert match is not None
    assert {n.op_type for n in match.nodes} == covered
    assert len(match.nodes) == len({id(n.ir) for n in match.nodes})
    assert found(acme[name], bad) is None


def test_what_matches_bind(acme) -> None:
    def bound(name):
        return found(acme[name], TABLE[name][0])

    assert bound("gemm").b is None
    assert [v.name for v in bound("concat_rows").xs] == ["x", "x", "x"]
    assert bound("concat_rows").xs2.name == "x"
    assert bound("scaled").s.is_const and bound("scaled").x.name == "x"
    assert bound("act").act.op_type == "Elu"
    assert bound("residual").r.name == "x"
    chain = bound("negations")
    assert (chain.n0.name, chain.n2.name, chain.n3) == ("n1_Neg", "n3_Neg", None)
    assert (bound("best").value_out.name, bound("best").place.name) == ("v", "p")
    several = bound("query_key")
    assert [v.name for v in several.outputs()] == ["a", "b", "c"]
    assert (several.wq.name, several.wk.name) == ("q", "k")
    assert [v.name for v in bound("exp_and_log").outputs()] == ["l", "e"]
    assert [n for n, _ in several.inputs()] == ["x", "wq", "wk"]


def test_the_shorter_alternative_has_the_longer_ones_names_as_none(acme) -> None:
    graph = graph_of([("MaxPool", "x", "y", {"kernel_shape": [2, 2]})], IMAGE)
    assert found(acme["pool_maybe_flat"], graph).flat is None
    graph = graph_of([("MatMul", "x w", "y")], consts={"w": SQUARE})
    assert found(acme["dense"], graph).b is None


def test_a_chain_stops_at_its_bound(acme) -> None:
    rows = [("Abs", "x", "t0"), *((("Neg", f"t{i}", f"t{i + 1}")) for i in range(5))]
    graph = graph_of(rows, outs="t5")
    assert acme["negations"].match(list(graph)[-1]) is None
    assert len(acme["negations"].match(list(graph)[-2]).nodes) == 5


def test_an_inner_value_of_a_pattern_with_several_results_stays_inside(acme) -> None:
    rows = [("Exp", "x", "e"), ("Sqrt", "e", "s"), ("Log", "s", "l"), ("Neg", "s", "n")]
    graph = graph_of(rows, outs="l n")
    assert (
        match_at(trace(lambda op, x: (op.Log(op.Sqrt(e := op.Exp(x))), e)), list(graph)[2]) is None
    )


def test_other_outputs_of_an_inner_node_stay_inside() -> None:
    rows = [("Split", "x n", "v g", {"axis": 1}), ("Relu", "v", "r"), ("Relu", "g", "q")]
    graph = graph_of(rows, IMAGE, "r q", {"n": HALF})
    inside = trace(lambda op, x, n: op.Relu(op.Split(x, n)))
    assert match_at(inside, list(graph)[1]) is None

    def both(op, x, n):
        s = op.Split(x, n)
        return op.Relu(s[0]), s[1]

    assert match_at(trace(both), list(graph)[1]) is not None


def test_an_operator_means_the_first_output() -> None:
    rows = [("Split", "x n", "v g", {"axis": 1}), ("Relu", "g", "y"), ("Neg", "v", "z")]
    graph = graph_of(rows, IMAGE, "y z", {"n": HALF})

    def first(op, x, n):
        s = op.Split(x, n)
        return op.Relu(s), s[1]

    assert match_at(trace(first), list(graph)[1]) is None


def test_float_attributes_are_compared_as_onnx_stores_them() -> None:
    graph = graph_of([("LeakyRelu", "x", "y", {"alpha": 0.1})])
    assert match_at(trace(lambda op, x: op.LeakyRelu(x, alpha=0.1)), next(iter(graph)))


def test_three_commuting_inputs_match_in_every_order() -> None:
    graph = graph_of([("Relu", "x", "r"), ("Exp", "x", "e"), ("Sum", "x e r", "y")])
    pattern = trace(lambda op, x: op.Sum(op.Relu(x), x, op.Exp(x)))
    assert match_at(pattern, list(graph)[2]) is not None


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda op, x: x, "returns a wildcard"),
        (lambda op, x: None, "returns NoneType"),
        (lambda op, x: either(op.Relu(x), x), "may be a wildcard alone"),
        (lambda op, x: op.Add(x, 1.0), "neither a wildcard nor an operator"),
        (lambda op, x: op.Relu(op.Neg(x, _outputs=["n"]), _outputs=["n"]), "parts are called 'n'"),
        (lambda op, x: op.Relu(op.Neg(x), _outputs=["x"]), "parts are called 'x'"),
        (lambda op, x: (op.Split(x)[0],) * 2, "the same result twice"),
        (lambda op, x, z: (op.Relu(x), op.Relu(z)), "shares nothing"),
        (lambda op, x: repeat(lambda v, i: op.Neg(v), op.Relu(x), 3, 2), "needs 0 <= low"),
        (lambda op, x: ghost, "ghost"),  # noqa: F821
        (lambda op, x: op.Relu(x, _output=["r"]), "_output is neither"),
        (lambda op, x: op.Relu(typed(x, dtype="fp32")), "no dtype is called fp32"),
        (
            lambda op, x: op.Relu(typed(x, rank=2, shape=[1, 2, 3])),
            "rank 2 and 3 axes",
        ),
        (lambda op, x: op.Relu(typed(x, rank=-1)), "no value has rank -1"),
        (lambda op, x: op.Relu(typed(x, shape=[2, -1])), "no value has the shape [2, -1]"),
        (lambda op, x: op.Relu(either()), "either() of nothing"),
        (lambda op, x: op.Relu(const(x, "abc")), "'abc' is no number"),
        (lambda op, x: op.Conv(x, _optional=2), "_optional=2 of 1 inputs"),
    ],
)
def test_patterns_that_cannot_be_meant_name_the_vendor(function, problem) -> None:
    function.__name__ = "strange"
    with pytest.raises(BackendError, match=rf"^acme\.strange: .*{re.escape(problem)}"):
        Backend("acme").pattern(function)


def test_backends_that_cannot_be_meant(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be called 'Bad Name'"):
        Backend("Bad Name")
    with pytest.raises(BackendError, match=f"acme: no acme.c in {tmp_path}"):
        Backend("acme", sources=("acme.c",), folder=tmp_path)


def test_a_pattern_function_that_raises_at_a_node_names_it() -> None:
    backend = Backend("acme")
    backend.pattern(lambda op, x: op.Gemm(x, x, transA=lambda v: v > "a")).name = "odd"
    graph = graph_of([("Gemm", "x x", "y", {"transA": 1})], [8, 8])
    with pytest.raises(BackendError, match=r"acme\.odd: its pattern raised TypeError") as caught:
        select(graph, [backend])
    assert "n0_Gemm (Gemm)" in caught.value.where


def test_a_function_of_the_model_is_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that names a function keeps it from being inlined."""
    body = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    opset = helper.make_opsetid("", 21)
    gate = helper.make_function("com.acme", "Gate", ["x"], ["y"], body, [opset])
    rows = [("com.acme.Gate", "x", "g"), ("Relu", "g", "y")]
    proto = model(rows, {"x": [4]}, {"y": [4]}, domains=["com.acme"])
    proto.functions.append(gate)
    backend = Backend("acme")
    backend.pattern(lambda op, x: op.Relu(op.domain("com.acme").Gate(x))).name = "gate"
    monkeypatch.setattr("aot.vendor.find.backends_for", lambda *names, **_: [backend])
    _, partition = partition_model(proto, Options())
    (taken,) = partition.items
    assert [n.op_type for n in taken.match.nodes] == ["Relu", "Gate"]


def chosen(graph, *functions, priority=0) -> list[str]:
    backend = Backend("acme")
    for f in functions:
        backend.pattern(f)
    backend.patterns[-1].priority = priority
    return [s.pattern.name for s in select(graph, [backend]).items]


def relu(op, x):
    return op.Relu(x)


def neg(op, x):
    return op.Neg(x)


def test_the_size_found_counts_not_the_largest_alternative() -> None:
    def long_or_short(op, x):
        return repeat(lambda v, i: op.Neg(v), op.Relu(x), 0, 9)

    def relu_neg(op, x):
        return op.Neg(op.Relu(x))

    graph = graph_of([("Relu", "x", "r"), ("Neg", "r", "y")])
    assert chosen(graph, relu_neg, long_or_short) == ["relu_neg"]
    assert chosen(graph, relu_neg, long_or_short, priority=1) == ["long_or_short"]
    graph = graph_of([("Relu", "x", "r"), ("Neg", "r", "n"), ("Neg", "n", "y")])
    assert chosen(graph, relu_neg, neg, long_or_short) == ["long_or_short"]


def test_a_varying_pattern_shrinks_around_what_others_took() -> None:
    def exp_relu(op, x):
        return op.Exp(op.Relu(x))

    def abs_exp_maybe(op, x):
        return op.Abs(either(op.Exp(x, _outputs=["e"]), x))

    graph = graph_of([("Relu", "x", "r"), ("Exp", "r", "e"), ("Abs", "e", "y")])
    assert chosen(graph, exp_relu, abs_exp_maybe) == ["exp_relu", "abs_exp_maybe"]


def test_the_next_way_is_tried_when_a_check_refuses() -> None:
    backend = Backend("acme")

    @backend.pattern
    def neg_add(op, x, r):
        return op.Add(op.Neg(x, _outputs=["n"]), r)

    @neg_add.check
    def second_only(m):
        yield m.n.name == "n1_Neg", f"node {m.n.name}"

    backend.pattern(neg)
    graph = graph_of([("Neg", "x", "a"), ("Neg", "z", "b"), ("Add", "a b", "y")], inputs=("z",))
    assert [s.pattern.name for s in select(graph, [backend]).items] == ["neg", "neg_add"]


def pair(op, x, z):
    return op.Exp(x), op.Mul(x, z)


def exp(op, x):
    return op.Exp(x)


def mul(op, x, z):
    return op.Mul(x, z)


def log(op, x):
    return op.Log(x)


def test_results_that_depend_on_each_other_through_others_are_not_one_call() -> None:
    graph = graph_of([("Exp", "x", "e"), ("Log", "e", "l"), ("Mul", "x l", "y")])
    assert sorted(chosen(graph, pair, exp, mul, log)) == ["exp", "log", "mul"]
    rows = [("Exp", "x", "e"), ("Log", "z", "l"), ("Mul", "x l", "y")]
    graph = graph_of(rows, outs="e y", inputs=("z",))
    assert sorted(chosen(graph, pair, exp, mul, log)) == ["log", "pair"]


def test_two_calls_that_would_need_each_other_are_not_both_made() -> None:
    rows = [
        ("Exp", "x", "a"),
        ("Exp", "z", "b"),
        ("Log", "a", "s"),
        ("Log", "b", "t"),
        ("Mul", "x t", "y"),
        ("Mul", "z s", "w"),
    ]
    graph = graph_of(rows, outs="y w", inputs=("z",))
    assert sorted(chosen(graph, pair, exp, mul, log)) == ["exp", "log", "log", "mul", "pair"]
