# SPDX-License-Identifier: Apache-2.0
"""Patterns, selection by priority, layouts and lowering on small graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aot.errors import BackendError, InternalError, UnsupportedError
from aot.ir.check_program import check_program
from aot.ir.layout import PLAIN, blocked, same_bytes, to_physical
from aot.ir.program import Role
from aot.lower.lower import lower
from aot.options import Options
from aot.partition.select import select
from aot.target import load_target
from aot.vendor.backend import Backend
from aot.vendor.pattern import match_at, trace
from graphs import model


def graph_of(proto: onnx.ModelProto) -> ir.Graph:
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    return ir.from_proto(inferred).graph


def conv_net() -> ir.Graph:
    w = np.ones((16, 16, 1, 1), np.float32)
    rows = [
        ("Conv", "x w", "c"),
        ("Relu", "c", "r"),
        ("Conv", "r w", "d"),
        ("Add", "x d", "s"),
        ("Relu", "s", "y"),
    ]
    return graph_of(model(rows, {"x": [1, 16, 4, 4]}, {"y": [1, 16, 4, 4]}, {"w": w}))


def test_commutative_operators_match_in_both_orders() -> None:
    graph = conv_net()
    pattern = trace(lambda op, x, w, r: op.Add(op.Conv(x, w, _outputs=["conv"]), r))
    found = match_at(pattern, list(graph)[3])
    assert found is not None
    assert found.values["r"].name == "x"
    assert found.nodes["conv"].name == "n2_Conv"


def test_a_value_used_outside_is_not_swallowed() -> None:
    rows = [("Relu", "x", "a"), ("Exp", "a", "y"), ("Neg", "a", "z")]
    graph = graph_of(model(rows, {"x": [2]}, {"y": [2], "z": [2]}))
    pattern = trace(lambda op, x: op.Exp(op.Relu(x)))
    assert match_at(pattern, list(graph)[1]) is None


def test_a_graph_output_is_not_swallowed() -> None:
    graph = graph_of(
        model([("Relu", "x", "a"), ("Exp", "a", "y")], {"x": [2]}, {"y": [2], "a": [2]})
    )
    assert match_at(trace(lambda op, x: op.Exp(op.Relu(x))), list(graph)[1]) is None


def test_required_attribute_and_absent_optional_input() -> None:
    graph = graph_of(
        model(
            [("Conv", "x w", "y", {"group": 4})],
            {"x": [1, 4, 3, 3]},
            {"y": None},
            {"w": np.ones((4, 1, 1, 1), np.float32)},
        )
    )
    node = next(iter(graph))
    assert match_at(trace(lambda op, x, w: op.Conv(x, w, group=4)), node)
    assert not match_at(trace(lambda op, x, w: op.Conv(x, w, group=2)), node)
    found = match_at(trace(lambda op, x, w, b: op.Conv(x, w, b, _optional=1)), node)
    assert found is not None and found.values["b"] is None


def small_backend(name: str = "c") -> Backend:
    backend = Backend(name)

    @backend.pattern
    def relu(op, x):
        return op.Relu(x)

    @backend.pattern
    def conv(op, x, w):
        return op.Conv(x, w)

    @backend.pattern
    def conv_add_relu(op, x, w, r):
        return op.Relu(op.Add(op.Conv(x, w), r))

    for p in backend.patterns:
        p.lower(lambda c, m: c.call("aot_k", m.y, m.x, c.params(n=1), inplace=[(m.y, m.x)]))
    return backend


def test_larger_patterns_win_and_every_node_is_covered_once() -> None:
    partition = select(conv_net(), [small_backend()])
    assert [s.pattern.name for s in partition.items] == ["conv", "relu", "conv_add_relu"]
    nodes = [n.name for s in partition.items for n in s.match.nodes]
    assert len(nodes) == len(set(nodes)) == 5


def test_an_unsupported_node_is_named_with_the_reason() -> None:
    backend = small_backend()

    @backend.patterns[1].check
    def narrow(m):
        yield m.w.shape[0] <= 8, f"{m.w.shape[0]} output channels (needs at most 8)"

    with pytest.raises(UnsupportedError, match=r"n0_Conv \(Conv\): 16 output channels"):
        select(conv_net(), [backend])


def test_a_raising_check_is_the_backends_fault() -> None:
    backend = small_backend()

    @backend.patterns[1].check
    def broken(m):
        yield m.nothing, ""

    with pytest.raises(BackendError, match=r"c\.conv: its check raised AttributeError"):
        select(conv_net(), [backend])


def test_an_earlier_backend_wins_and_refusals_are_kept() -> None:
    vendor, portable = small_backend("acme"), small_backend()

    @vendor.patterns[0].check
    def only_first(m):
        yield m.x.name != "s", f"input {m.x.name} (needs another)"

    @vendor.patterns[2].check
    def never(m):
        yield False, "residual adds are not for this chip"

    portable.pattern(lambda op, a, b: op.Add(a, b))
    partition = select(conv_net(), [vendor, portable])
    assert [s.backend for s in partition.items] == ["acme", "acme", "acme", "c", "c"]
    assert [s.region for s in partition.items] == [0, 0, 0, -1, -1]
    assert [(r.node, r.reason) for r in partition.refusals] == [
        ("n4_Relu", "residual adds are not for this chip"),
        ("n4_Relu", "input s (needs another)"),
    ]


def lowered(backend: Backend):
    graph = conv_net()
    target = load_target("x86-64-v4")
    return lower("net", graph, select(graph, [backend]), target, Options())


def test_blocked_layouts_are_converted_at_the_borders_only() -> None:
    backend = small_backend()
    for p in backend.patterns:
        p.layouts(lambda m, incoming, v: {n: blocked(v) for n in {"x", "y", "r"} & m.values.keys()})
    program = lowered(backend)
    check_program(program)
    assert [c.kernel for c in program.calls] == [
        "aot_to_blocked",
        "aot_k",
        "aot_k",
        "aot_k",
        "aot_from_blocked_32",
    ]
    assert program.tensors["r"].layout == blocked(16)
    assert program.tensors[program.outputs[0]].role is Role.OUTPUT


def test_a_lowering_that_never_writes_is_refused() -> None:
    backend = small_backend()
    backend.patterns[0].lower(lambda c, m: None)
    with pytest.raises(BackendError, match=r"c\.relu: its lowering never writes r"):
        lowered(backend)


def test_a_pattern_with_two_results_is_one_call_of_its_region() -> None:
    vendor = Backend("acme")

    @vendor.pattern
    def both(op, x):
        return op.Exp(x), op.Neg(x)

    both.lower(lambda c, m: c.call("acme_both", m.y0, m.y1, m.x, c.params(n=1)))
    rows = [("Exp", "x", "y"), ("Neg", "x", "z")]
    graph = graph_of(model(rows, {"x": [4]}, {"y": [4], "z": [4]}))
    partition = select(graph, [vendor])
    program = lower("net", graph, partition, load_target("x86-64-v4"), Options())
    check_program(program)
    (call,) = program.calls
    assert (call.region, call.writes(), call.reads()) == (0, ("y", "z"), ("x",))
    assert partition.regions[0].nodes == ("n1_Neg", "n0_Exp")


def test_a_raising_layout_rule_is_the_backends_fault() -> None:
    backend = small_backend()
    backend.patterns[1].layouts(lambda m, incoming, v: {"x": incoming["nothing"]})
    with pytest.raises(BackendError, match=r"c\.conv: its layout rule raised KeyError") as caught:
        lowered(backend)
    assert "n0_Conv (Conv)" in caught.value.where


@pytest.mark.parametrize(("name", "layout"), [("weights", PLAIN), ("x", "NC16")])
def test_a_layout_rule_gives_layouts_to_the_values_of_its_pattern(name: str, layout: Any) -> None:
    backend = small_backend()
    backend.patterns[1].layouts(lambda m, incoming, v: {name: layout})
    with pytest.raises(BackendError, match=f"c.conv: its layout rule gives '{name}'") as caught:
        lowered(backend)
    assert caught.value.hint.startswith("the pattern's values are x, w, y;")


def test_the_checker_rejects_a_read_before_a_write() -> None:
    from dataclasses import replace

    program = lowered(small_backend())
    swapped = replace(program, calls=tuple(reversed(program.calls)))
    with pytest.raises(InternalError, match="before it is written"):
        check_program(swapped)


def test_physical_layout_round_trip() -> None:
    x = np.arange(2 * 5 * 3).reshape(2, 5, 3)
    p = to_physical(x, blocked(4))
    assert p.shape == (2, 2, 3, 4)
    assert p[1, 1, 2, 0] == x[1, 4, 2]
    assert p[1, 1, 2, 1] == 0
    assert same_bytes((1, 5, 1, 1), blocked(4), PLAIN)
    assert not same_bytes((2, 5, 1, 1), blocked(4), PLAIN)
    assert not same_bytes((1, 8, 2, 1), blocked(4), PLAIN)


def test_a_survey_names_what_nobody_takes() -> None:
    from aot.tools.explain import explain

    backend = small_backend()

    @backend.patterns[1].check
    def narrow(m):
        yield m.w.shape[0] <= 8, f"{m.w.shape[0]} output channels (needs at most 8)"

    partition = select(conv_net(), [backend], survey=True)
    text = explain(partition).text()
    assert "n0_Conv (Conv): no backend\n  c.conv refused: 16 output channels" in text
    assert "n1_Relu (Relu): c.relu" in text
    assert text.endswith("5 nodes: c 4, none 1")


def test_a_survey_says_which_vendor_has_no_pattern() -> None:
    from aot.tools.explain import explain

    vendor = Backend("acme")

    @vendor.pattern
    def sigmoid_relu(op, x):
        return op.Relu(op.Sigmoid(x))

    portable = small_backend()
    lines = {n.node: n for n in explain(select(conv_net(), [vendor, portable], survey=True)).lines}
    assert lines["n0_Conv"].refusals == ("acme refused: it has no pattern with Conv",)
    assert lines["n1_Relu"].refusals == (
        "acme refused: no pattern fits here (with Relu: sigmoid_relu)",
    )
    compiled = select(conv_net(), [vendor, portable])
    assert not compiled.refusals
