# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan at run time: bundles with sanitizers against onnxruntime, texts, errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import aot
from aot.errors import InternalError, UnsupportedError
from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.program import Access, Arg, Wire
from aot.options import Options
from aot.partition.serialise import serialise
from aot.pipeline import compile_model, partition_model
from aot.plan.compiled import Compiled
from aot.target import load_target
from aot.tools.build import build, configure, find_tools
from aot.tools.explain import explain
from aot.tools.regionwise import build_portable
from aot.tools.run import open_out, stream
from needs import need, need_module
from sanitizers import SANITIZED

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
RNG = np.random.default_rng(5)
Feed = dict[str, np.ndarray]


def text(body: str, **constants: np.ndarray) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + body)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return made


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def truth(value: bool) -> np.ndarray:
    return np.array(value)


#: If in Loop in If; values captured over one border and over two; a Loop ended by its condition.
NESTED = text(
    """agraph (bool c, int64 m, float[4, 8] x) => (float[4, 8] y, float[4, 8] z) {
        k1 = Relu(x)
        y = If (c) <
          then_branch = t () => (float[4, 8] u) {
            u = Loop (m, , k1) <body = b (int64 i, bool g, float[4, 8] a)
                => (bool g2, float[4, 8] a2) {
              q = MatMul(a, w1)
              odd = Mod(i, two)
              even = Cast<to = 9>(odd)
              a2 = If (even) <
                then_branch = t2 () => (float[4, 8] u2) { r = MatMul(q, w2) u2 = Add(r, k1) },
                else_branch = e2 () => (float[4, 8] v2) { v2 = Sub(q, x) }>
              s = ReduceMax<keepdims = 0>(a2)
              g2 = Less(s, limit)
            }>
          },
          else_branch = e () => (float[4, 8] v) { h = MatMul(k1, w2) v = Add(h, x) }>
        z = MatMul(y, w1)
    }""",
    w1=f32(8, 8),
    w2=f32(8, 8),
    two=number(2),
    limit=np.array(30, np.float32),
)

#: What a Loop stacks, at most ten times, ended by its condition or by its trip count.
STACKED = text(
    """agraph (int64 m, float[4] s0) => (float[4] s, float[n, 4] y, float[4] t, float[p, 4] z) {
        ten = Constant<value = int64 {10}>()
        k = Min(m, ten)
        yes = Constant<value = bool {1}>()
        s, y = Loop (k, yes, s0) <body = b (int64 i, bool g, float[4] a)
            => (bool g2, float[4] a2, float[4] o) {
          fi = Cast<to = 1>(i)
          a2 = Add(a, fi)
          q = ReduceSum<keepdims = 0>(a2)
          lim = Constant<value = float {40.0}>()
          g2 = Less(q, lim)
          o = Mul(a2, a2)
        }>
        ax = Constant<value = int64[1] {0}>()
        t = ReduceSum<keepdims = 0>(y, ax)
        z = Loop (k, yes) <body = b2 (int64 i2, bool g3) => (bool g4, float[4] o2) {
          g4 = Identity(g3)
          f2 = Cast<to = 1>(i2)
          o2 = Add(s0, f2)
        }>
    }"""
)

#: States that change places, one that stays, one whose last value nobody reads; no steps at all.
SWAPPED = text(
    """agraph (int64 m, bool c, float[3] a0, float[3] b0, float[3] d0)
        => (float[3] a, float[3] b, float[3] d) {
        a, b, d, e = Loop (m, c, a0, b0, d0, a0) <body = step
            (int64 i, bool g, float[3] a1, float[3] b1, float[3] d1, float[3] e1)
            => (bool g2, float[3] a2, float[3] b2, float[3] d2, float[3] e2) {
          g2 = Identity(g)
          a2 = Identity(b1)
          b2 = Identity(a1)
          d2 = Identity(d1)
          e2 = Add(e1, d1)
        }>
    }"""
)

#: Branches of different shapes.
UNEVEN = text(
    """agraph (bool c, float[3, 4] a, float[5, 4] b) => (float[n, 4] y, float[4] s, int64[2] k) {
        r = If (c) <then_branch = t () => (float[3, 4] u) { u = Relu(a) },
                    else_branch = e () => (float[5, 4] v) { v = Exp(b) }>
        y = Neg(r)
        ax = Constant<value = int64[1] {0}>()
        s = ReduceMax<keepdims = 0>(r, ax)
        k = Shape(r)
    }"""
)

#: Bodies that read values of dynamic shape; a Scan along such an axis, both ways.
CHOSEN = text(
    """agraph (float[7, 3] x, bool[7] k, bool c, int64 m)
        => (float[3] s, float[n, 3] y, float[3] a, float[p, 3] o, float[3, p] q) {
        d = Compress<axis = 0>(x, k)
        z = Constant<value = float[3] {0.0, 0.5, 1.0}>()
        yes = Constant<value = bool {1}>()
        ax = Constant<value = int64[1] {0}>()
        s = Loop (m, yes, z) <body = b (int64 i, bool g, float[3] t) => (bool g2, float[3] t2) {
          g2 = Identity(g)
          r = ReduceSum<keepdims = 0>(d, ax)
          t2 = Add(t, r)
        }>
        y = If (c) <then_branch = t1 () => (float[n, 3] u) { u = Relu(d) },
                    else_branch = e1 () => (float[7, 3] v) { v = Neg(x) }>
        a, o, q = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1],
            scan_output_axes = [0, 1], scan_output_directions = [0, 1],
            body = h (float[3] a1, float[3] e, float[3] f)
                => (float[3] a2, float[3] o1, float[3] q1) {
          w = Add(a1, e)
          a2 = Tanh(w)
          o1 = Sub(a2, f)
          q1 = Mul(a2, f)
        }> (z, d, d)
    }"""
)

#: Every step slices as much as its number says.
GROWING = text(
    """g (float[300, 3] x) => (float[300, 3] y) {
        n = Constant<value = int64 {300}>()
        yes = Constant<value = bool {1}>()
        ax = Constant<value = int64[1] {0}>()
        one = Constant<value = int64[1] {1}>()
        y = Loop (n, yes) <body = b (int64 i, bool g) => (bool g2, float[3] o) {
          g2 = Identity(g)
          at = Unsqueeze(i, ax)
          end = Add(at, one)
          part = Slice(x, ax, end, ax)
          o = ReduceMax<keepdims = 0>(part, ax)
        }>
    }"""
)

#: A Scan along an axis that every run says.
RANGED = text(
    """g (float[N, 3] x, float[3] s0) => (float[3] s, float[N, 3] y) {
        s, y = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] e)
            => (float[3] a2, float[3] o) {
          a2 = Add(a, e)
          o = Exp(e)
        }> (s0, x)
    }"""
)


def scan(steps: int) -> onnx.ModelProto:
    """Scanned along other axes, from the end, stacked along other axes and from the end."""
    return text(
        f"""agraph (float[3] s0, float[3, {steps}] x, float[{steps}, 2, 3] w)
            => (float[3] s, float[3, {steps}] y, float[{steps}, 3] z) {{
            s, y, z = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
                scan_input_directions = [0, 1], scan_output_axes = [-1, 0],
                scan_output_directions = [0, 1],
                body = step (float[3] a, float[3] e, float[2, 3] f)
                    => (float[3] a2, float[3] o, float[3] p) {{
              half = Constant<value = float {{0.5}}>()
              t = Mul(a, half)
              a2 = Add(t, e)
              ax = Constant<value = int64[1] {{0}}>()
              p = ReduceSum<keepdims = 0>(f, ax)
              o = Sub(a2, p)
            }}> (s0, x, w)
        }}"""
    )


#: A Scan and nothing else.
STEADY = text(
    """g (float[3] s0, float[90, 3] x) => (float[3] s, float[90, 3] y) {
        s, y = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] e)
            => (float[3] a2, float[3] o) {
          a2 = Add(a, e)
          o = Exp(a2)
        }> (s0, x)
    }"""
)


def scanned(steps: int) -> Feed:
    return {"s0": f32(3), "x": f32(3, steps), "w": f32(steps, 2, 3)}


X = f32(4, 8)
CASES: dict[str, tuple[onnx.ModelProto, list[Feed]]] = {
    "nested": (
        NESTED,
        [{"c": truth(k >= 0), "m": number(k), "x": X} for k in (-1, 0, 1, 2, 7)],
    ),
    "stacked": (STACKED, [{"m": number(k), "s0": f32(4)} for k in (0, 1, 3, 10, 12, -2)]),
    "swapped": (
        SWAPPED,
        [
            {"m": number(k), "c": truth(c), "a0": f32(3), "b0": f32(3), "d0": f32(3)}
            for k, c in ((3, True), (2, True), (0, True), (5, False))
        ],
    ),
    "uneven": (UNEVEN, [{"c": truth(c), "a": f32(3, 4), "b": f32(5, 4)} for c in (True, False)]),
    "scan": (scan(90), [scanned(90)]),
    "chosen": (
        CHOSEN,
        [
            {"x": f32(7, 3), "k": RNG.uniform(size=7) < share, "c": truth(c), "m": number(m)}
            for share, c, m in ((0.5, True, 3), (2.0, False, 0))
        ],
    ),
    "growing": (GROWING, [{"x": f32(300, 3)}]),
    "ranged": (RANGED, [{"x": f32(n, 3), "s0": f32(3)} for n in (1, 5, 64)]),
    "unrolled": (scan(3), [scanned(3)]),
}


def expected(model: onnx.ModelProto, feed: Feed) -> list[np.ndarray]:
    ort = need_module("onnxruntime")
    return ort.InferenceSession(model.SerializeToString()).run(None, feed)


def compiled(model: onnx.ModelProto, **options: object) -> Compiled:
    return compile_model(model, Options(name="net", target="x86-64", **options))  # type: ignore[arg-type]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", CASES)
def test_bundles_with_sanitizers(name: str, tmp_path: Path) -> None:
    model, feeds = CASES[name]
    out = tmp_path / "out"
    dims = {"N": (1, 64)} if name == "ranged" else {}
    aot.compile(model, out, name="net", target="x86-64", dims=dims)
    target = load_target("x86-64")
    tools = find_tools(target.packages, target.compiler)
    configure(out, tools, None, out / "bundle", [f"-DCMAKE_C_FLAGS={SANITIZED}"])
    build(out, "net-trace")
    found = stream(open_out(out), [list(f.values()) for f in feeds], tmp_path)
    for feed, results in zip(feeds, found, strict=True):
        for ours, theirs in zip(results, expected(model, feed), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def control_calls(made: Compiled) -> list[str]:
    return [c.kernel for p in made.program.tree() for c in p.calls if c.bodies]


def test_what_stays_a_loop() -> None:
    """Few steps are unrolled, many stay; the program and the plan have a text."""
    assert control_calls(compiled(scan(3))) == []
    made = compiled(scan(90))
    assert control_calls(made) == ["aot_loop"]
    shown = made.program.text()
    assert "steps most=90 trips=-1 start=-1 go=0" in shown
    assert "program body_Scan_0" in shown and "12i" in shown
    assert sorted(control_calls(compiled(NESTED))) == ["aot_if", "aot_if", "aot_loop"]
    names = [n.strip() for n in made.partition.text().splitlines()]
    assert "body of Scan_0:" in names


def test_branches_share_an_arena_and_states_are_changed_in_place() -> None:
    made = compiled(NESTED)
    (call,) = [c for c in made.program.calls if c.bodies]
    arena = made.program.tensors[call.args[call.bodies[0].arena].tensor]  # type: ignore[union-attr]
    needs = [b.plan.arena_bytes for b in call.bodies if b.plan is not None]
    assert arena.nbytes == max(needs) and {b.arena for b in call.bodies} == {call.bodies[0].arena}
    summed = compiled(
        text(
            """g (float[64] s0, int64 m) => (float[64] s) {
                s = Loop (m, , s0) <body = b (int64 i, bool g, float[64] a)
                    => (bool g2, float[64] a2) {
                  g2 = Identity(g)
                  a2 = Exp(a)
                }>
            }"""
        )
    )
    (call,) = summed.program.calls
    (body,) = call.bodies
    assert body.plan is not None and body.plan.arena_bytes == 256  # the state and nothing else
    run = bytes(summed.files["src/net_run.c"]).decode()
    assert run.count("memcpy(") == 2 and "for (i = 0; i < steps; ++i)" in run


def test_ten_thousand_steps_compile_in_no_time() -> None:
    start = time.perf_counter()
    made = compiled(scan(10_000))
    assert time.perf_counter() - start < 5
    assert len(bytes(made.files["src/net_run.c"])) < 10_000


def test_a_branch_of_known_condition_is_no_branch() -> None:
    model = text(
        """g (float[2] x) => (float[2] y) {
            z = Constant<value = float[2] {1.0, 2.0}>()
            q = ReduceSum<keepdims = 0>(z)
            big = Constant<value = float {2.0}>()
            c = Greater(q, big)
            y = If (c) <then_branch = t () => (float[2] u) { u = Add(x, z) },
                        else_branch = e () => (float[2] v) { v = Sub(x, z) }>
        }"""
    )
    made = compiled(model)
    assert [c.kernel for c in made.program.calls] == ["aot_add_f32"]


def test_what_nothing_bounds_is_refused_by_name() -> None:
    unbounded = text(
        """g (int64 m, float[4] x) => (float[n, 4] y) {
            yes = Constant<value = bool {1}>()
            y = Loop (m, yes) <body = b (int64 i, bool g) => (bool g2, float[4] o) {
              g2 = Identity(g)
              f = Cast<to = 1>(i)
              o = Add(x, f)
            }>
        }"""
    )
    with pytest.raises(UnsupportedError) as caught:
        compiled(unbounded)
    shown = str(caught.value)
    assert 'the Loop that computes "y": "y" has no provable bound' in shown and "--bind" in shown
    assert [s.axes for s in compiled(unbounded, bindings={"m": 5}).program.shapes] == []
    ranks = text(
        """g (bool c, float[3, 4] x) => (float[n] y) {
            y = If (c) <then_branch = t () => (float[n] u) { u = ReduceSum<keepdims = 0>(x) },
                        else_branch = e () => (float[m] v) { v = Neg(x) }>
        }"""
    )
    with pytest.raises(UnsupportedError, match=r'"y" shapes of different rank: \[\] and \[3, 4\]'):
        compiled(ranks)


def breakages(made: Compiled) -> Iterator[tuple[str, Compiled]]:
    """Programs whose bodies do not fit their calls."""
    (call,) = made.program.calls
    (body,) = call.bodies
    ins = list(body.ins)
    first = next(k for k, w in enumerate(ins) if w.stride)
    wrong = replace(ins[first], stride=ins[first].stride + 4)

    def again(**changes: object) -> Compiled:
        other = replace(call, bodies=(replace(body, **changes),))  # type: ignore[arg-type]
        return replace(made, program=replace(made.program, calls=(other,)))

    yield "slices of", again(ins=(*ins[:first], wrong, *ins[first + 1 :]))
    yield "wires", again(ins=tuple(ins[1:]))
    yield "carries", again(carried=())
    written = Wire(ins[first].source, body.outs[0].arg, ins[first].stride)
    yield "cannot be used like this", again(ins=(*ins[:first], written, *ins[first + 1 :]))
    most = replace(call, steps=replace(call.steps, most=91))  # type: ignore[type-var]
    yield "has less than", replace(made, program=replace(made.program, calls=(most,)))


def test_the_checker_of_bodies() -> None:
    made = compiled(STEADY)
    check_program(made.program)
    for message, broken in breakages(made):
        with pytest.raises(InternalError, match=message):
            check_program(broken.program)
    (call,) = made.program.calls
    arena = call.args[call.bodies[0].arena]
    assert isinstance(arena, Arg) and arena.access is Access.WRITE
    tensors = dict(made.program.tensors)
    tensors[arena.tensor] = replace(tensors[arena.tensor], shape=(1,))
    with pytest.raises(InternalError, match="leaves"):
        check_plan(replace(made.program, tensors=tensors), made.plan)


@pytest.mark.parametrize("target", ["cortex-m4"])
def test_on_a_board(target: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    model, feeds = CASES["nested"]
    bundle = aot.compile(model, tmp_path / "out", name="net", target=target)
    bundle.build()
    found = stream(open_out(tmp_path / "out"), [list(f.values()) for f in feeds])
    for feed, results in zip(feeds, found, strict=True):
        for ours, theirs in zip(results, expected(model, feed), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_regions_in_bodies(tmp_path: Path) -> None:
    """A vendor's regions in bodies, their fallbacks, what explains them, the file that keeps
    them."""
    model, feeds = CASES["nested"]
    out = tmp_path / "out"
    bundle = aot.compile(model, out, name="net", target="x86-64", backends=("accel_sim",))
    bundle.build()
    built = open_out(out)
    inner = [r for r in built.manifest["regions"] if "body" in r]
    assert {r["body"] for r in inner} >= {"then_If_6", "body_Loop_2"}
    portable = build_portable(built, "x86-64")
    for feed in feeds[1:3]:
        arrays = list(feed.values())
        (ours,), (theirs,) = stream(built, [arrays]), stream(portable, [arrays], tmp_path)
        for a, b, want in zip(ours, theirs, expected(model, feed), strict=True):
            np.testing.assert_allclose(a, want, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(b, want, rtol=1e-4, atol=1e-4)


def test_what_partition_writes(tmp_path: Path) -> None:
    options = Options(name="net", target="x86-64", backends=("accel_sim",))
    first = compile_model(NESTED, options)
    shown = explain(first.partition).text()
    assert "body of Loop_2:" in shown and "then_branch of If_6:" in shown
    written = serialise(*partition_model(NESTED, options))
    onnx.checker.check_model(written)
    feed = CASES["nested"][1][-1]
    for ours, theirs in zip(expected(written, feed), expected(NESTED, feed), strict=True):
        assert np.array_equal(ours, theirs)
    again = compile_model(written, Options(name="net", target="x86-64"))
    assert again.plan.arena_bytes == first.plan.arena_bytes
    regions = [
        [(s.backend, s.pattern.name, s.region) for s in p.items if s.region >= 0]
        for made in (first, again)
        for p in made.partition.tree()
    ]
    half = len(regions) // 2
    assert regions[:half] == regions[half:] and sum(map(len, regions[:half])) > 4
    for steady in (STEADY, SWAPPED):
        written = serialise(*partition_model(steady, Options(name="net", target="x86-64")))
        onnx.checker.check_model(written)
        feed = {"s0": f32(3), "x": f32(90, 3)} if steady is STEADY else CASES["swapped"][1][0]
        for ours, theirs in zip(expected(written, feed), expected(steady, feed), strict=True):
            assert np.array_equal(ours, theirs)


def test_a_scan_with_a_batch_axis(tmp_path: Path) -> None:
    """Opset 8: batches, and no lengths of their sequences."""
    kinds = [onnx.helper.make_tensor_value_info(n, 1, [3]) for n in ("a", "e", "a2", "o")]
    nodes = [
        onnx.helper.make_node("Add", ["a", "e"], ["a2"]),
        onnx.helper.make_node("Neg", ["a2"], ["o"]),
    ]
    body = onnx.helper.make_graph(nodes, "step", kinds[:2], kinds[2:])

    def scans(lengths: str) -> onnx.ModelProto:
        node = onnx.helper.make_node(
            "Scan", [lengths, "s0", "x"], ["s", "y"], num_scan_inputs=1, body=body, directions=[1]
        )
        shapes = {"s0": [2, 3], "x": [2, 5, 3], "s": [2, 3], "y": [2, 5, 3]}
        ends = [onnx.helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items()]
        more = [onnx.helper.make_tensor_value_info(lengths, 7, [2])] if lengths else []
        graph = onnx.helper.make_graph([node], "g", [*ends[:2], *more], ends[2:])
        return onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 8)], ir_version=8
        )

    s0, x = f32(2, 3), f32(2, 5, 3)
    s, y = aot.compile(scans(""), tmp_path / "out", name="net").load()(s0, x)
    sums = s0[:, None] + np.cumsum(x[:, ::-1], axis=1)
    np.testing.assert_allclose(np.asarray(s), sums[:, -1], atol=1e-5)
    np.testing.assert_allclose(np.asarray(y), -sums, atol=1e-5)
    with pytest.raises(UnsupportedError, match="lengths of its sequences"):
        compiled(scans("l"))
