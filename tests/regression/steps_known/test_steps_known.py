# SPDX-License-Identifier: Apache-2.0
"""A Loop that was known to end before its trip count did not compile when it stacked results.

Inference gave the stack as many rows as the trip count, the passes made the loop shorter. What is
known of a condition in time says how many rows there are; what is known later leaves the loop as it
is. Every trip count meets every condition here, against onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import aot
from aot.errors import UnsupportedError
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.compiled import Compiled
from aot.shapes.limits import SMALL_ELEMENTS
from aot.target import load_target
from aot.tools.build import build, configure, find_tools
from aot.tools.run import open_out, stream
from needs import need_module
from sanitizers import SANITIZED

#: `late…` is constant, but more than inference computes: passes fold it.
TRIPS = {"absent": "", "0": "k0", "1": "k1", "4": "k4", "run": "most4", "late": "late3"}
STARTS = {"absent": "", "T": "yes", "F": "no", "run": "c", "late T": "lateyes", "late F": "lateno"}
GOES = {
    "T": "g2 = Identity(yes)",
    "F": "g2 = Identity(no)",
    "same": "g2 = Identity(g)",
    "not": "g2 = Not(g)",
    "less": "g2 = Less(i, lim)",
    "data": "q = ReduceSum<keepdims = 0>(a2) g2 = Less(q, bound)",
    "late T": "g2 = Identity(lateyes)",
    "late F": "g2 = Not(lateyes)",
}
#: Results, and the first state.
KINDS = {"stacks": ("s, y", "x"), "constant": ("s, y", "w"), "carries": ("s", "x")}
CONSTANTS = {
    "k0": np.int64(0),
    "k1": np.int64(1),
    "k4": np.int64(4),
    "yes": np.bool_(True),
    "no": np.bool_(False),
    "two": np.float32(2),
    "bound": np.float32(9),
    "w": np.array([1, 2, 0.5], np.float32),
    "many": np.full(SMALL_ELEMENTS + 1, 3, np.float32),
}
FEEDS = [
    {
        "x": np.array([1, -2, 3], np.float32),
        "m": np.array(m, np.int64),
        "lim": np.array(lim, np.int64),
        "c": np.array(c),
    }
    for m, lim, c in ((3, 0, True), (9, 2, True), (-1, 9, True), (1, 9, False))
]
HEAD = """<ir_version: 10, opset_import: ["" : 21]>
g (float[3] x, int64 m, int64 lim, bool c) => ({outputs}) {{
    most4 = Min(m, k4)
    three = ReduceMax<keepdims = 0>(many)
    long = Cast<to = 7>(three)
    late3 = Min(long, k4)
    lateyes = Greater(three, two)
    lateno = Not(lateyes)
    {loops}
}}"""
LOOP = """{results} = Loop ({trips}, {start}, {state}) <body = b{n}
    (int64 i, bool g, float[3] a) => (bool g2, float[3] a2{row}) {{
        a2 = Add(a, w)
        {going}
        {stacked}
    }}>"""


def loop(n: int, trips: str, start: str, going: str, kind: str) -> tuple[str, str]:
    """The outputs and the text of loop number `n`."""
    results, state = KINDS[kind]
    names = [f"{r.strip()}{n}" for r in results.split(",")]
    text = LOOP.format(
        results=", ".join(names),
        trips=TRIPS[trips],
        start=STARTS[start],
        state=state,
        n=n,
        row=", float[3] o" if len(names) == 2 else "",
        going=GOES[going],
        stacked="o = Mul(a2, a)" if len(names) == 2 else "",
    )
    shapes = ("float[3]", f"float[n{n}, 3]")
    return ", ".join(f"{s} {v}" for s, v in zip(shapes, names, strict=False)), text


def graph(loops: Sequence[tuple[str, str, str, str]]) -> onnx.ModelProto:
    """All the loops, side by side."""
    outputs, texts = zip(*(loop(n, *which) for n, which in enumerate(loops)), strict=True)
    made = parser.parse_model(HEAD.format(outputs=", ".join(outputs), loops="\n".join(texts)))
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in CONSTANTS.items()]
    made.graph.initializer.extend(tensors)
    return made


def is_bounded(trips: str, start: str, going: str, kind: str) -> bool:
    """Whether a loop without a trip count is one: it ends, and what it stacks has a bound."""
    if trips != "absent" or start == "F" or going in ("F", "not"):
        return True
    return kind == "carries" and (going in ("less", "data", "late F") or start == "late F")


def grid(trips: str) -> Iterator[tuple[str, str, str, str]]:
    for start in STARTS:
        for going in GOES:
            for kind in KINDS:
                yield trips, start, going, kind


def expected(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    ort = need_module("onnxruntime")
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    found: list[np.ndarray] = ort.InferenceSession(model.SerializeToString(), quiet).run(None, feed)
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("trips", TRIPS)
def test_every_trip_count_and_condition(trips: str, tmp_path: Path) -> None:
    loops = [which for which in grid(trips) if is_bounded(*which)]
    model, out = graph(loops), tmp_path / "out"
    aot.compile(model, out, name="net", target="x86-64")
    target = load_target("x86-64")
    tools = find_tools(target.packages, target.compiler)
    configure(out, tools, None, out / "bundle", [f"-DCMAKE_C_FLAGS={SANITIZED}"])
    build(out, "net-trace")
    names = [f"{o.name}: {loops[int(o.name[1:])]}" for o in model.graph.output]
    found = stream(open_out(out), [list(f.values()) for f in FEEDS], tmp_path)
    for feed, results in zip(FEEDS, found, strict=True):
        for name, ours, theirs in zip(names, results, expected(model, feed), strict=True):
            assert ours.shape == theirs.shape, name
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=name)


def compiled(*which: str) -> Compiled:
    return compile_model(graph([(which[0], which[1], which[2], which[3])]), Options(name="net"))


def test_what_nothing_bounds_is_refused() -> None:
    for start in ("absent", "T", "run"):
        for going in ("less", "data"):
            with pytest.raises(UnsupportedError, match="how often the loop runs depends on"):
                compiled("absent", start, going, "stacks")


@pytest.mark.parametrize(
    ("which", "rows"),
    [
        (("4", "T", "F", "stacks"), 1),
        (("4", "absent", "not", "stacks"), 1),
        (("4", "F", "data", "stacks"), 0),
        (("absent", "F", "data", "stacks"), 0),
        (("absent", "T", "not", "stacks"), 1),
        (("absent", "run", "not", "stacks"), 1),
        (("run", "T", "F", "stacks"), 1),
    ],
)
def test_as_many_rows_as_steps(which: tuple[str, ...], rows: int) -> None:
    """And a shape of its own where the run says whether the one step is made."""
    program = compiled(*which).program
    assert program.tensors["y0"].shape == (rows, 3)
    assert len(program.shapes) == ("run" in which)
