# SPDX-License-Identifier: Apache-2.0
"""If and Loop at run time: calls that own the programs of their bodies (docs/control-flow.md).

The states of a loop live in the arena of its body, as those of `--state` live in a model's: copied
in before the first step and out after the last, in place of each other where the body permits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import CONTROL
from aot.ir.program import Body, Program, Role, Source, Steps, Wire
from aot.load.encode_strings import encodes, unchanged
from aot.lower.lower import lower_body
from aot.lower.persistent_tensors import Pair
from aot.ops.concat import MAX_PARTS
from aot.ops.registry import op
from aot.shapes.control import Control, controls
from aot.shapes.control_flow_isolated import BRANCHES, Loop
from aot.shapes.cures import Sizing, sizings
from aot.vendor import Match, Operand, Recorder, ValueRef

RESULTS = " ".join(f"y{i}" for i in range(MAX_PARTS))
HEADER = "aot_control.h"

if_ = op("If", "xs*", RESULTS, domain=CONTROL, check=lambda m: _few_results(m))
loop_ = op("Loop", "xs*", RESULTS, domain=CONTROL)


sizings("Loop")(Sizing(data=0))
controls("If")(Control.branch)
controls("Loop")(Control.loop)
controls("Scan")(Control.scan)


@loop_.check
def loop_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a Loop that stacks results has a largest number of steps, and no slices of
    sub-bytes.
    """
    yield from _few_results(m)
    loop = Loop(m.root.ir)
    stacks = len(loop.results()) > loop.states
    yield loop.most >= 0 or not stacks, "it stacks results, and no number of steps is the most"
    first = loop.states
    for value in (*loop.outer()[first : first + loop.scanned], *loop.results()[first:]):
        ref = ValueRef(value)
        yield not ref.packed, f"slices of {ref.dtype} (elements share bytes)"


def _few_results(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a node has at most MAX_PARTS results."""
    count = len(m.root.ir.outputs)
    yield count <= MAX_PARTS, f"{count} results (at most {MAX_PARTS})"


class _Arguments:
    """Operands of a call under construction, and where each stands."""

    def __init__(self) -> None:
        """Start without operands."""
        self.operands: list[Operand] = []

    def add(self, operand: Operand) -> int:
        """Append an operand; returned is its position among the arguments."""
        self.operands.append(operand)
        return len(self.operands) - 1


def _result(c: Recorder, node: ir.Node, index: int, inner: ValueRef) -> Operand:
    """The operand that takes result `index` of a node: its tensor, or a temporary if nobody reads
    it.

    `inner` is the body's value, which tells shape and type.
    """
    value = node.outputs[index] if index < len(node.outputs) else None
    if value is not None and value.name:
        return c.write(ValueRef(value))
    return c.write(c.temp(inner.shape, inner.dtype, name="unread"))


def _arena(c: Recorder, args: _Arguments) -> int:
    """The position of the scratch argument for the arena of the bodies, of one byte until it is
    planned.
    """
    return args.add(c.scratch(1, "arena"))


def _name(label: str, node: ir.Node) -> str:
    """The name of a body: its kind (then, else, body) and the name of its node."""
    return f"{label.removesuffix('_branch')}_{node.name}"


@if_.lower
def if_to_call(c: Recorder, m: Match) -> None:
    """Record an If as one call of aot_if with the programs of both branches.

    Arguments are the condition, the values that the branches read, the results, and the arena that
    the branches share. MACs are those of the larger branch.
    """
    node = m.root.ir
    args = _Arguments()
    for value in node.inputs:
        assert value is not None
        args.add(c.read(ValueRef(value)))
    parts = [c.parts[str(node.name), label] for label in BRANCHES]
    first = len(args.operands)
    for index, inner in enumerate(parts[0].graph.outputs):
        args.add(_result(c, node, index, ValueRef(inner)))
    arena = _arena(c, args)
    bodies = []
    for part, label in zip(parts, BRANCHES, strict=True):
        program = lower_body(c, _name(label, node), part, ())
        # Argument 0 is the condition, which no branch reads.
        ins = [Wire(Source.ARGUMENT, i) for i in range(1, first)]
        outs = [Wire(Source.ARGUMENT, first + k) for k in range(len(program.outputs))]
        bodies.append(Body(program, tuple(ins), tuple(outs), arena))
    macs = max(_macs(b.program) for b in bodies)
    _record(c, "aot_if", args, [], macs, bodies, None)


@loop_.lower
def loop_to_call(c: Recorder, m: Match) -> None:
    """Record a loop as one call of aot_loop with its body's program.

    Arguments are the number of trips and the condition (where there are any), the values that the
    body reads from outside, the results, and the arena of the body. Loop-carried values are pairs
    of them. A scanned value or result moves by the bytes of a step from trip to trip, backwards
    where the loop came from a Scan that says so. MACs are those of the largest number of trips.
    """
    node = m.root.ir
    loop = Loop(node)
    part = c.parts[str(node.name), "body"]
    args = _Arguments()
    trips = args.add(c.read(ValueRef(loop.trips))) if loop.trips is not None else -1
    start = args.add(c.read(ValueRef(loop.start))) if loop.start is not None else -1
    outer = [args.add(c.read(ValueRef(v))) for v in loop.outer()]
    inner = [ValueRef(v) for v in loop.inner()]
    results = [ValueRef(v) for v in loop.results()]
    finals = [args.add(_result(c, node, k, r)) for k, r in enumerate(results)]
    arena = _arena(c, args)
    places = {inner[k].name: k for k in range(loop.states)}
    pairs = [Pair(inner[k], results[k], k + loop.goes) for k in range(loop.states)]
    program = lower_body(c, _name("body", node), part, pairs)
    ins = [Wire(Source.COUNT)] if loop.counts else []
    for k, value in enumerate(inner):
        # States are wired as pairs (`carried`), since they also go from step to step.
        if value.name in places:
            continue
        turn = k - loop.states
        scanned = turn < loop.scanned
        back = scanned and bool(loop.backward[turn])
        ins.append(Wire(Source.ARGUMENT, outer[k], _stride(value) if scanned else 0, back))
    outs = [Wire(Source.GO)] if loop.goes else []
    for k in range(loop.states, len(results)):
        # A result that nobody reads has no memory for more than one step.
        read = k < len(node.outputs) and bool(node.outputs[k].name)
        back = bool(loop.backward[loop.scanned + k - loop.states])
        outs.append(Wire(Source.ARGUMENT, finals[k], _stride(results[k]) if read else 0, back))
    carried = tuple((outer[k], finals[k]) for k in range(loop.states))
    body = Body(program, tuple(ins), tuple(outs), arena, carried)
    steps = Steps(loop.most, trips, start, loop.goes)
    macs = max(1, loop.most) * _macs(program)
    _record(c, "aot_loop", args, list(carried), macs, [body], steps)


def _stride(value: ValueRef) -> int:
    """The bytes of one step's slice of a scanned value."""
    return math.prod(value.shape) * value.dtype.nbytes


def _macs(program: Program) -> int:
    """The MACs of all calls of a program."""
    return sum(call.macs for call in program.calls)


def _record(
    c: Recorder,
    kernel: str,
    args: _Arguments,
    carried: list[tuple[int, int]],
    macs: int,
    bodies: list[Body],
    steps: Steps | None,
) -> None:
    """Record the call with its bodies; a last value may take the place of a first one.

    `carried` has (first, last) argument positions of loop-carried values; `steps` is None for an
    If.
    """
    # Constants cannot be written, so their loop-carried values get memory of their own.
    made = c.call(kernel, *args.operands, macs=macs, header=HEADER, status=True)
    consts = {i for i, a in enumerate(made.pointers()) if c.tensors[a.tensor].role is Role.CONST}
    inplace = tuple((last, first) for first, last in carried if first not in consts)
    c.calls[-1] = replace(made, inplace=inplace, bodies=tuple(bodies), steps=steps)


encodes("If Loop Scan")(unchanged)
encodes("If Loop", CONTROL)(unchanged)
