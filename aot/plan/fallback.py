# SPDX-License-Identifier: Apache-2.0
"""Fallbacks: each region of a vendor computed by portable C, between the same buffers.

A bundle configured without the vendor's library (`-DAOT_<VENDOR>=OFF`) calls the fallback of a
region instead of the vendor. A fallback is a program of its own, whose inputs and outputs are
tensors of the main program and whose arena lies behind all that lives around the region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from aot.errors import AotError, InternalError
from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.deferred_import import ir
from aot.ir.layout import Layout
from aot.ir.plan import Plan
from aot.ir.program import Arg, Program, Role, Tensor
from aot.lower.lower import lower_part
from aot.options import Options
from aot.partition.assign_layouts import LayoutPlan, assign_layouts
from aot.partition.graph import read_by
from aot.partition.result import Partition, Region
from aot.partition.select import portable_items
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from aot.shapes.control_flow_isolated import BRANCHES
from aot.target import Target
from aot.vendor.find import find_backend
from aot.vendor.match import ValueRef
from aot.vendor.recorder import layout_name


@dataclass(frozen=True, slots=True)
class RegionFallback:
    """Region `region` of `backend` in portable C.

    `inputs` and `outputs` are tensors of the region's program (the main one or a body) in the order
    of the fallback's; the fallback's arena starts at byte `base` of that program's, in its last
    memory. Outputs that share memory with an input are made at `moved` (output index → byte of the
    same arena) and copied when all is done. `end` is a byte of the main arena. Without a `program`
    there is no fallback, for the `reason` given.
    """

    region: int
    backend: str
    program: Program | None = None
    plan: Plan | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    base: int = 0
    moved: tuple[tuple[int, int], ...] = ()
    end: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        """Prefix of the fallback's functions and files."""
        assert self.program is not None
        return self.program.name


def make_fallbacks(
    program: Program,
    plan: Plan,
    graph: ir.Graph,
    partition: Partition,
    target: Target,
    options: Options,
) -> tuple[RegionFallback, ...]:
    """The fallback of every region that has calls, in order."""
    return tuple(
        _fallbacks(_Around(program, plan, graph, partition, program.name), target, options)
    )


#: Why a region of a body has no fallback: one address does not reach both.
_ELSEWHERE = "its body and the memory for portable C are not in one memory of the arena"


@dataclass(frozen=True, slots=True)
class _Around:
    """A program, what it was made of, and where its arena is in the main one.

    In a body (`behind` is not None) the arenas of fallbacks are behind the main arena, at that
    byte; `reason` says why this cannot be.
    """

    program: Program
    plan: Plan
    graph: ir.Graph
    partition: Partition
    main: str
    start: int = 0
    behind: int | None = None
    reason: str = ""

    def bodies(self) -> Iterator[_Around]:
        """The bodies of all calls."""
        parts = {(b.node, b.label): b for b in self.partition.bodies}
        main = -(-self.plan.arena_bytes // self.plan.alignment) * self.plan.alignment
        for call in self.program.calls:
            labels = BRANCHES if len(call.bodies) > 1 else ("body",)
            for body, label in zip(call.bodies, labels, strict=False):
                part = parts[call.origin.nodes[-1], label]
                arena = call.args[body.arena]
                assert isinstance(arena, Arg) and body.plan is not None
                start = self.start + self.plan.placements[arena.tensor].offset
                behind = main if self.behind is None else self.behind
                own = body.program, body.plan, part.graph, part.partition
                last = self.plan.at(start)[0] + 1 == max(1, len(self.plan.parts))
                yield _Around(*own, self.main, start, behind, self.reason if last else _ELSEWHERE)


def _fallbacks(around: _Around, target: Target, options: Options) -> Iterator[RegionFallback]:
    """The fallbacks of a program's regions, then those of its bodies."""
    regions = around.partition.regions
    if regions:
        layouts = assign_layouts(around.partition, target.vlen)
        called = {c.region for c in around.program.calls}
        for region in regions:
            if region.index in called:
                yield _fallback(around, region, layouts, target, options)
    for body in around.bodies():
        yield from _fallbacks(body, target, options)


def portable_bytes(plan: Plan, fallbacks: Sequence[RegionFallback]) -> int:
    """Bytes of the arena where some vendor is left out: enough for every fallback."""
    return max([plan.arena_bytes, *(t.end for t in fallbacks)])


def _fallback(
    around: _Around,
    region: Region,
    layouts: LayoutPlan,
    target: Target,
    options: Options,
) -> RegionFallback:
    """The same region in portable C: a program of its own, planned so that it runs inside the
    arena.

    `around` is the program that the region is a part of. The arena of the fallback begins where
    nothing is live while the region runs (`_base`), or behind the whole arena where `around.behind`
    says so. A result that overlaps an input of the region is computed elsewhere and copied at the
    end: `moved` lists (index of the result, its offset in bytes). If portable C does not support a
    node, the record holds only the reason.
    """
    program, plan, graph = around.program, around.plan, around.graph
    if around.reason:
        return RegionFallback(region.index, region.backend, reason=around.reason)
    nodes = {id(n.ir) for s in region.items for n in s.match.nodes}
    inputs, outputs = _border(graph, region, layouts, nodes, _crossing(program, region.index))
    try:
        items = portable_items(graph, nodes, find_backend("c"))
        name = f"{around.main}_fallback_{region.index}"
        made = lower_part(name, items, inputs, outputs, target, options)
    except AotError as error:
        return RegionFallback(region.index, region.backend, reason=error.what.splitlines()[0])
    check_program(made)
    made = schedule(made)
    check_program(made)
    own = plan_memory(made, target, effort=options.plan_effort)
    check_plan(made, own)
    ins = tuple(_tensor(program, v) for v in inputs)
    outs = tuple(_tensor(program, v) for v in outputs)
    _check_sizes(program, (*ins, *outs), made)
    base = _base(program, plan, region.index)
    if around.behind is not None:
        base = around.behind - around.start
    moved, end = [], base + own.arena_bytes
    for index, name in enumerate(outs):
        # The vendor may write a result over an input; portable C reads its inputs to the end.
        if any(_overlap(program, plan, name, other) for other in ins):
            moved.append((index, end))
            end += -(-program.tensors[name].nbytes // plan.alignment) * plan.alignment
    end += around.start
    return RegionFallback(
        region.index, region.backend, made, own, ins, outs, base, tuple(moved), end
    )


def _check_sizes(program: Program, around: Sequence[str], made: Program) -> None:
    """InternalError unless the fallback's inputs and outputs are as large as what they stand
    for."""
    for outer, inner in zip(around, (*made.inputs, *made.outputs), strict=True):
        there, here = program.tensors[outer].nbytes, made.tensors[inner].nbytes
        if there != here:
            raise InternalError(f"{made.name}: {inner} has {here} bytes, {outer} {there}")


def _border(
    graph: ir.Graph,
    region: Region,
    layouts: LayoutPlan,
    nodes: set[int],
    crossing: Sequence[Tensor],
) -> tuple[list[ValueRef], list[ValueRef]]:
    """(inputs, outputs) of a region, each a value in the layout in which the region uses it.

    An input has the layout of its first reader in the region. An output is a result of the model or
    is read by a node outside of `nodes`, the ids of the region's nodes; of `crossing` tensors those
    in other layouts are outputs, too. Constants are no inputs.
    """
    seen: dict[str, Layout] = {}
    inputs: list[ValueRef] = []
    outputs: list[ValueRef] = []
    # A value that a node outside reads must leave the region, whichever backend that node has.
    read = {id(v) for n in graph if id(n) not in nodes for v in read_by(n)}
    for placed in layouts.items:
        if placed.selected.region != region.index:
            continue
        match = placed.selected.match.with_layouts(placed.layouts)
        for _, value in match.inputs():
            producer = value.ir.producer()
            inside = producer is not None and id(producer) in nodes
            # The layout in which the first reader takes the value is the one that arrives.
            if not value.is_const and not inside and value.name not in seen:
                seen[value.name] = value.layout
                inputs.append(value)
        for value in match.outputs():
            if value.is_output or id(value.ir) in read:
                outputs.append(value)
    # What the region converts for itself others read, too: it leaves the region as well.
    found = [(v, t) for v in outputs for t in crossing if t.name == layout_name(v.name, t.layout)]
    outputs += [replace(v, layout=t.layout) for v, t in found]
    return inputs, outputs


def _crossing(program: Program, region: int) -> list[Tensor]:
    """Tensors that calls of `region` write and calls outside of it read."""
    made = {t for c in program.calls if c.region == region for t in c.writes()}
    read = {t for c in program.calls if c.region != region for t in c.reads()}
    return [program.tensors[t] for t in sorted(made & read)]


def _tensor(program: Program, value: ValueRef) -> str:
    """The tensor of the main program that holds `value` in its layout."""
    for name in (value.name, layout_name(value.name, value.layout)):
        tensor = program.tensors.get(name)
        if tensor is not None and tensor.layout == value.layout:
            return name
    raise InternalError(f"no tensor holds {value.name} as {value.layout}")


def _base(program: Program, plan: Plan, region: int) -> int:
    """The lowest aligned offset, in the last memory of the arena, behind all that lives before,
    after or around the region's calls.
    """
    steps = [i for i, c in enumerate(program.calls) if c.region == region]
    first, last = steps[0], steps[-1] + 1
    persistent = {program.base(n)[0] for n in _persistent(program)}
    end = plan.parts[-1].begin if plan.parts else 0
    for root, (begin, stop) in (plan.live or {}).items():
        if root not in plan.placements:
            continue
        around = begin < last and stop > first and not (first <= begin and stop <= last)
        if around or root in persistent:
            end = max(end, plan.placements[root].offset + program.tensors[root].nbytes)
    return -(-end // plan.alignment) * plan.alignment


def _persistent(program: Program) -> Iterable[str]:
    """Tensors of the arena that hold between runs."""
    ends = (*program.inputs, *program.outputs) if program.io == "arena" else program.held
    return (*ends, *program.kept)


def _overlap(program: Program, plan: Plan, left: str, right: str) -> bool:
    """Whether two tensors share bytes."""
    a, b = _extent(program, plan, left), _extent(program, plan, right)
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def _extent(program: Program, plan: Plan, name: str) -> tuple[str, int, int]:
    """(memory, first byte, end) of a tensor."""
    root, offset = program.base(name)
    size = program.tensors[name].nbytes
    if program.tensors[root].role is Role.TEMP and root in plan.placements:
        start = plan.placements[root].offset + offset
        return "arena", start, start + size
    return root, offset, offset + size
