# SPDX-License-Identifier: Apache-2.0
"""The independent checker of Plans: plays the program and watches who owns which byte.

It shares no code with the planner. Every write makes the tensor's root the owner of the bytes it
lands on; every read must find all its bytes owned by its own root. So nothing that is still to be
read can have been overwritten, whatever live ranges the planner computed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from aot.errors import InternalError
from aot.ir.plan import Plan
from aot.ir.program import Access, Arg, Call, Program, Role, Tensor


@dataclass(frozen=True, slots=True)
class _Touch:
    """Bytes [begin, end) of the arena that argument `arg` touches; `root` is its owner-to-be."""

    arg: int
    tensor: str
    root: str
    begin: int
    end: int
    access: Access


class _Owners:
    """Owners of the arena's bytes: starts of runs, ascending, and the owner of each run."""

    def __init__(self) -> None:
        """Start with one stretch from byte 0 that nobody owns (""); stretch k goes to the start of
        the next.
        """
        self.starts = [0]
        self.owners = [""]

    def take(self, begin: int, end: int, owner: str) -> None:
        """Make `owner` own [begin, end)."""
        starts, owners = self.starts, self.owners
        after = owners[bisect_right(starts, end) - 1]
        i, j = bisect_left(starts, begin), bisect_right(starts, end)
        starts[i:j] = [begin, end]
        owners[i:j] = [owner, after]

    def stranger(self, begin: int, end: int, owner: str) -> str | None:
        """Someone other than `owner` who owns a byte of [begin, end) ("" = never written)."""
        i = bisect_right(self.starts, begin) - 1
        while i < len(self.starts) and self.starts[i] < end:
            if self.owners[i] != owner:
                return self.owners[i]
            i += 1
        return None


def check_plan(program: Program, plan: Plan) -> None:
    """Raise InternalError, naming the tensors, unless `plan` is safe for `program`."""
    roots = {name: _root(program, name) for name in program.tensors}
    if plan.arena_bytes < plan.lower_bound_bytes or plan.alignment < 1:
        raise InternalError(
            f"arena of {plan.arena_bytes} bytes is below its bound {plan.lower_bound_bytes}"
        )
    _check_parts(plan)
    for name, place in plan.placements.items():
        if name not in program.tensors:
            raise InternalError(f"the plan places {name}, which does not exist")
        _check_place(program.tensors[name], plan, place.memory, place.offset, roots[name])
    for call in program.calls:
        _check_arenas(program, call)
    owners = _Owners()
    between = _between_runs(program, plan)
    for name, begin, end, fresh in between:
        if fresh:
            owners.take(begin, end, roots[name][0].name)
    for step, call in enumerate(program.calls):
        touches = _touches(program, plan, roots, step, call)
        _check_within_call(step, call, touches)
        # All reads of a call are judged before its writes count, since it may work in place.
        for t in touches:
            if t.access is not Access.WRITE:
                _check_read(owners, step, call, t)
        for t in touches:
            if t.access is not Access.READ and t.begin < t.end:
                owners.take(t.begin, t.end, t.root)
    for name, begin, end, _ in between:
        left = roots[name][0].name
        kept = name in program.kept or name in (*program.outputs, *_shapes(program))
        if kept and (stranger := owners.stranger(begin, end, left)) is not None:
            raise InternalError(f"{name} does not hold after the run: {stranger or 'not written'}")


def _check_parts(plan: Plan) -> None:
    """The parts of an arena in several memories follow each other and end with it."""
    end = 0
    for part in plan.parts:
        if part.begin < end or part.begin % plan.alignment or not 0 <= part.head <= part.bytes:
            raise InternalError(f"the arena of {part.memory} at {part.begin} is out of place")
        end = part.begin + part.bytes
    if plan.parts and end != plan.arena_bytes:
        raise InternalError(f"the arenas end at {end}, not at {plan.arena_bytes}")


def _bounds(plan: Plan, memory: str) -> tuple[int, int]:
    """(first byte, end) of what tensors may take of the arena in `memory`."""
    whole = [("arena", 0, plan.arena_bytes)]
    parts = [(p.memory, p.begin + p.head, p.begin + p.bytes) for p in plan.parts]
    for name, begin, end in parts or whole:
        if name == memory:
            return begin, end
    raise InternalError(f"the arena has no part in {memory}")


def _check_arenas(program: Program, call: Call) -> None:
    """The arena of every body is within what the call has for it, and its own plan is safe."""
    for body in call.bodies:
        arg = call.args[body.arena]
        if body.plan is None or not isinstance(arg, Arg):
            raise InternalError(f"{body.program.name} is not planned")
        if body.plan.arena_bytes > program.tensors[arg.tensor].nbytes:
            raise InternalError(f"the arena of {body.program.name} leaves {arg.tensor}")
        check_plan(body.program, body.plan)


def _shapes(program: Program) -> tuple[str, ...]:
    """What holds the run-time shapes of outputs."""
    return tuple(s.tensor for s in program.shapes)


def _between_runs(program: Program, plan: Plan) -> list[tuple[str, int, int, bool]]:
    """(tensor, begin, end, there when a run starts) of what holds between runs.

    Inputs are filled while the outputs of the run before are still there: none may meet.
    """
    found = []
    ends = (program.inputs, True), (program.kept, True), (program.outputs, False)
    for names, fresh in (*ends, (_shapes(program), False)):
        for name in names:
            place = plan.placements.get(name)
            if place is not None:
                end = place.offset + program.tensors[name].nbytes
                found.append((name, place.offset, end, fresh))
    for i, (name, begin, end, fresh) in enumerate(found):
        for other, begin2, end2, fresh2 in found[:i]:
            if (fresh or fresh2) and begin < end2 and begin2 < end:
                raise InternalError(f"{name} lies on {other}, which holds between runs")
    return found


def _root(program: Program, name: str) -> tuple[Tensor, int]:
    """(tensor at the end of the chain of views, bytes into it); InternalError for a link out of
    bounds.
    """
    tensor, offset = program.tensors[name], 0
    for _ in range(len(program.tensors)):
        if tensor.view is None:
            return tensor, offset
        base = program.tensors[tensor.view.base]
        if tensor.view.offset < 0 or tensor.view.offset + tensor.nbytes > base.nbytes:
            raise InternalError(f"view {tensor.name} leaves its base {base.name}")
        offset += tensor.view.offset
        tensor = base
    raise InternalError(f"views of {name} go in a circle")


def _check_place(
    tensor: Tensor, plan: Plan, memory: str, offset: int, root: tuple[Tensor, int]
) -> None:
    """Raise InternalError unless a tensor is inside the arena, aligned, and where its owner's place
    says.

    `root` is the tensor that owns its bytes and the distance in bytes from the start of that.
    """
    owner, distance = root
    name = tensor.name
    if owner.role not in (Role.TEMP, Role.SCRATCH):
        raise InternalError(f"{name} ({owner.role.value}) is placed in {memory}")
    begin, end = _bounds(plan, memory)
    if offset < begin or offset + tensor.nbytes > end:
        raise InternalError(
            f"{name} at {offset} with {tensor.nbytes} bytes leaves the arena of {end}"
        )
    align = tensor.align if tensor is owner else tensor.dtype.nbytes
    if offset % align or plan.alignment % (owner.align if tensor is owner else 1):
        raise InternalError(f"{name} at {offset} is not aligned to {align}")
    base = plan.placements.get(owner.name)
    if base is None or base.offset + distance != offset:
        raise InternalError(f"view {name} at {offset} is not {distance} bytes into {owner.name}")


def _touches(
    program: Program,
    plan: Plan,
    roots: dict[str, tuple[Tensor, int]],
    step: int,
    call: Call,
) -> list[_Touch]:
    """The stretches of the arena that a call touches, in the order of its arguments.

    InternalError if one of its tensors has no place.
    """
    found = []
    for index, arg in enumerate(call.args):
        if not isinstance(arg, Arg):
            continue
        owner = roots[arg.tensor][0]
        # Only places in the arena are planned; anything else is memory of the caller or of the
        # code.
        if owner.role not in (Role.TEMP, Role.SCRATCH):
            if call.beyond and arg.access is Access.READ and owner.role is not Role.CONST:
                what = f"call {step} ({call.kernel}) reads past the end of {arg.tensor}"
                raise InternalError(f"{what}, which is the caller's")
            continue
        place = plan.placements.get(arg.tensor)
        if place is None:
            raise InternalError(f"call {step} ({call.kernel}): {arg.tensor} has no place")
        nbytes = program.tensors[arg.tensor].nbytes
        begin, end = place.offset + arg.begin, place.offset + nbytes
        if arg.access is Access.READ and end + call.beyond > _bounds(plan, place.memory)[1]:
            raise InternalError(f"call {step} ({call.kernel}) reads {arg.tensor} past the arena")
        found.append(_Touch(index, arg.tensor, owner.name, begin, end, arg.access))
    return found


def _check_within_call(step: int, call: Call, touches: list[_Touch]) -> None:
    """Raise InternalError if a result lies on anything else that the call touches without a
    permission.

    A permission (result, operand) of `inplace` holds only where both begin at the same byte.
    """
    permitted = set(call.inplace)
    for w in touches:
        if w.access is Access.READ:
            continue
        for other in touches:
            if other is w or other.end <= w.begin or w.end <= other.begin:
                continue
            if other.access is not Access.READ and other.arg < w.arg:
                continue
            exact = other.begin == w.begin and w.end <= other.end
            if not (exact and (w.arg, other.arg) in permitted):
                raise InternalError(
                    f"call {step} ({call.kernel}) writes {w.tensor} on {other.tensor}: "
                    f"bytes {w.begin}..{w.end} and {other.begin}..{other.end}"
                )


def _check_read(owners: _Owners, step: int, call: Call, touch: _Touch) -> None:
    """Raise InternalError unless all bytes that a call reads were last written for the tensor it
    reads.
    """
    stranger = owners.stranger(touch.begin, touch.end, touch.root)
    if stranger is None:
        return
    what = f"overwritten by {stranger}" if stranger else "never written"
    raise InternalError(f"call {step} ({call.kernel}) reads {touch.tensor}, which was {what}")
