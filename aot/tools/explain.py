# SPDX-License-Identifier: Apache-2.0
"""Who computes which node, why a backend refused it, and what portable C computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aot.errors import counted, one_line
from aot.ir.graph_nodes import CONTROL, DYNAMIC
from aot.ir.plan import Plan
from aot.ir.program import Arg, Program
from aot.ops.registry import load_all
from aot.partition.result import Partition, Selected
from aot.plan.streaming.runs import runs_of
from aot.vendor.pattern import OpPat

#: Nanoseconds that a match takes, and whether they were measured.
Estimate = Callable[[Selected], tuple[float, bool]]

#: What stands for the backend of a view, which no backend computes.
VIEW = "view"
#: Who computes a node that no backend computes.
NOBODY = {"none": "no backend", VIEW: "a view"}

#: Below lines with estimates.
_MODEL = (
    "estimated times: multiply-accumulates and bytes of the node, at speeds that are the same for "
    "every backend that states none; aotc tune measures, --partition cost --tune FILE uses that"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One node: its ONNX name, operator, its backend (with which others), and refusals.

    `body` says in which body of control flow it is ("" for the graph itself); `estimate` is what
    the match that ends with the node takes in nanoseconds, None for its other nodes, and `timed`
    whether that was measured; `costs` are those of all backends that could compute it, where
    these were compared, `measured` whether they all were.
    """

    node: str
    op_type: str
    backend: str
    pattern: str
    root: str
    refusals: tuple[str, ...]
    costs: tuple[tuple[str, float], ...] = ()
    measured: bool = False
    body: str = ""
    estimate: float | None = None
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every node in topological order of the matches; `total` says what the choice costs."""

    lines: tuple[Line, ...]
    total: str = ""

    def record(self) -> list[dict[str, Any]]:
        """For --json."""
        return [
            {
                "node": n.node,
                "op": n.op_type,
                "backend": n.backend,
                "pattern": n.pattern,
                "with": n.root,
                "refusals": list(n.refusals),
                **({"body": n.body} if n.body else {}),
                **_time(n),
                **({"costs_ns": dict(n.costs), "measured": n.measured} if n.costs else {}),
            }
            for n in self.lines
        ]

    def text(self) -> str:
        """The explanation as text: a line per node, refusals below it, and a count per backend."""
        out: list[str] = []
        counts: dict[str, int] = {}
        body = ""
        for n in self.lines:
            if n.body != body:
                out.append(one_line(f"{n.body}:"))
                body = n.body
            joined = f" (in {n.root})" if n.root != n.node else ""
            computed_by = NOBODY.get(n.backend, f"{n.backend}.{n.pattern}{joined}")
            how = "measured" if n.timed else "estimated"
            time = "" if n.estimate is None else f", {n.estimate / 1e3:.3g} us {how}"
            out.append(one_line(f"{n.node} ({n.op_type}): {computed_by}{time}"))
            out += [one_line(f"  {r}") for r in n.refusals]
            if len(n.costs) > 1:
                shown = ", ".join(f"{name} {ns / 1e3:.1f} us" for name, ns in n.costs)
                out.append(f"  costs {shown} ({'measured' if n.measured else 'estimated'})")
            counts[n.backend] = counts.get(n.backend, 0) + 1
        total = ", ".join(f"{k} {v}" for k, v in sorted(counts.items()))
        rest = [self.total] if self.total else []
        if any(n.estimate is not None and not n.timed for n in self.lines):
            rest.append(_MODEL)
        return "\n".join([*out, f"{counted(len(self.lines), 'node')}: {total}", *rest])


def _time(line: Line) -> dict[str, Any]:
    """What a match takes, for --json."""
    if line.estimate is None:
        return {}
    return {"estimate_ns": line.estimate, "estimate_measured": line.timed}


def by_memory(plan: Plan) -> list[str]:
    """Lines about an arena in several memories: the bytes of each, what calls move there, and what
    that costs beside an arena in the slowest of them."""
    if not plan.parts:
        return []
    cost = sum(p.traffic * p.cost for p in plan.parts)
    whole = sum(p.traffic for p in plan.parts) * max(p.cost for p in plan.parts)
    return [
        "arena in several memories:",
        *(
            f"  {p.memory}: {p.bytes} bytes, {p.traffic} read and written in a run at {p.cost:g}"
            for p in plan.parts
        ),
        f"  accesses cost {cost:.0f}, all in the slowest memory {whole:.0f}",
    ]


def explain(
    partition: Partition, verbose: bool = False, estimate: Estimate | None = None
) -> Explanation:
    """The explanation of `partition`; portable C's own refusals only if `verbose`.

    `estimate` gives what a match takes (`aot.vendor.find.estimates`). The nodes of bodies
    follow those of the graph around them.
    """
    own = _lines(partition, "", verbose, estimate)
    total = partition.pricing.text() if partition.pricing.prices else ""
    return Explanation(tuple(own), total)


def _lines(partition: Partition, body: str, verbose: bool, estimate: Estimate | None) -> list[Line]:
    """The nodes of a graph, called `body` if it is one, then those of its bodies."""
    unsupported = {n.name for s in partition.items if s.backend == "none" for n in s.match.nodes}
    refused: dict[str, list[str]] = {}
    for r in partition.refusals:
        if r.backend != "c" or verbose or r.node in unsupported:
            line = f"{r.source} refused: {r.reason}"
            refused.setdefault(r.node, []).append(line)
    lines = []
    prices = {p.nodes[0]: p for p in partition.pricing.prices}
    for s in partition.items:
        backend = VIEW if s.is_view else s.backend
        known, timed = estimate(s) if estimate and backend not in NOBODY else (None, False)
        for node in reversed(s.match.nodes):
            price = prices.get(node.name)  # with the first node of what is given away as a whole
            reasons = refused.get(node.name, refused.get(node.onnx_name, []))
            lines.append(
                Line(
                    node.onnx_name,
                    node.op_type,
                    backend,
                    s.pattern.name,
                    s.match.root.onnx_name,
                    tuple(reasons),
                    price.costs if price else (),
                    bool(price and price.measured),
                    body,
                    known if node.name == s.name else None,
                    timed and node.name == s.name,
                )
            )
    for inner in partition.bodies:
        lines += _lines(inner.partition, f"{inner.label} of {inner.node}", verbose, estimate)
    return lines


def by_rows(program: Program) -> list[str]:
    """Which calls are made row by row, and what ends the runs of calls that could be."""
    lines = []
    for s in program.segments:
        ends = " to ".join(_call(program, i) for i in (s.first, s.last))
        lines.append(f"row by row: calls {s.first} to {s.last} ({ends}), {len(s.steps)} rows")
    whole = "" if lines else "no call is made row by row: whole tensors need no more memory"
    breaks = [f"  {_call(program, b.call)}: {b.reason}" for b in runs_of(program)[1]]
    rest = ["what ends such runs:", *breaks] if breaks else []
    return [one_line(t) for t in [*lines, *([whole] if whole else []), *rest]]


def by_blocks(program: Program) -> list[str]:
    """Which calls get weights by blocks: decoded, or copied from slow memory."""
    lines = []
    for index, fetch in ((i, f) for i, c in enumerate(program.calls) for f in c.fetches):
        source = program.calls[index].args[fetch.source]
        stored = program.tensors[source.tensor].nbytes if isinstance(source, Arg) else 0
        sizes = f"{fetch.total} bytes, stored {stored}, {fetch.blocks} blocks"
        lines.append(f"  {_call(program, index)}: {fetch.how} {sizes}")
    return [one_line(t) for t in ["weights by blocks:", *lines]] if lines else []


def _call(program: Program, index: int) -> str:
    """The node that a call computes last."""
    call = program.calls[index]
    return (call.origin.onnx_names or call.origin.nodes or (call.kernel,))[-1]


def operators() -> list[dict[str, Any]]:
    """What portable C computes, by operator: attributes, and dtypes of the first input tested."""

    rows: dict[str, dict[str, Any]] = {}
    for pattern in load_all().patterns:
        if not isinstance(pattern.graph, OpPat) or pattern.size != 1:
            continue
        domain = pattern.graph.domain
        if domain in (CONTROL, DYNAMIC):  # what the compiler makes of If and NonZero
            continue
        name = f"{domain}.{pattern.graph.op_type}" if domain else pattern.graph.op_type
        row = rows.setdefault(name, {"op": name, "attributes": [], "dtypes": [], "cases": 0})
        row["attributes"] = sorted({*row["attributes"], *pattern.attrs})
        cases = list(pattern.all_cases())
        tested = {str(a.dtype) for c in cases for a in c.inputs[:1] if a is not None}
        row["dtypes"] = sorted({*row["dtypes"], *tested})
        row["cases"] += len(cases)
    return [rows[k] for k in sorted(rows)]
