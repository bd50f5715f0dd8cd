# SPDX-License-Identifier: Apache-2.0
"""The independent checker of calls that are made row by row: plays the steps and watches bytes.

It shares no code with the planner. Every step is told what it may touch by the call's own record
alone, becomes a call on rows that are tensors at the places of the plan, and the checker of plans
plays these: a row that is read must have been written, once, and nothing may have been written over
it since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from aot.errors import InternalError
from aot.ir.check_plan import check_plan
from aot.ir.dtypes import U8
from aot.ir.plan import ARENA, Place, Plan
from aot.ir.program import Access, Arg, Call, Program, Role, Tensor, View
from aot.ir.rows import Rowwise, Segment

#: What is behind a tensor's name in that of memory which a call keeps between its rows.
_SUMS = "@sums"


#: Bytes of a tensor or of each of its pixels: begin, end, how many there are.
_Part = tuple[int, int, int]


@dataclass(slots=True)
class _Play:
    """The program as it is played: whole tensors, rows, and where all of them are.

    `by_rows` exist as rows only, `makers` are, by root, the calls of a segment that make it with
    the parts that they make, `written` the (call, row) that are there.
    """

    program: Program
    plan: Plan
    tensors: dict[str, Tensor] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    by_rows: set[str] = field(default_factory=set)
    makers: dict[str, dict[int, _Part]] = field(default_factory=dict)
    parts: dict[str, _Part] = field(default_factory=dict)
    written: set[tuple[int, int]] = field(default_factory=set)


def check_rows(program: Program, plan: Plan) -> None:
    """Raise InternalError, naming the call or tensor, unless segments and plan are safe."""
    play = _Play(program, plan)
    play.by_rows = {n for s in program.segments for n in s.tensors}
    for name, tensor in program.tensors.items():
        if _root(program, name).name not in play.by_rows:
            play.tensors[name] = tensor
    play.places = dict(plan.placements)
    at = 0
    for segment in program.segments:
        if not at <= segment.first <= segment.last < len(program.calls):
            raise InternalError(f"a segment has calls {segment.first} to {segment.last}")
        play.calls += program.calls[at : segment.first]
        _check_counts(program, segment)
        _play_segment(play, segment)
        at = segment.last + 1
    play.calls += program.calls[at:]
    _check_outside(play)
    _check_pushed(program)
    # Written out as plain calls on rows, the program is checked like any other.
    played = replace(program, tensors=play.tensors, calls=tuple(play.calls), segments=())
    check_plan(played, replace(plan, placements=play.places, rows=None))


def _check_pushed(program: Program) -> None:
    """Raise InternalError unless the pushed input is read by the first call alone, row by row and
    in order.
    """
    readers = {
        i
        for i, c in enumerate(program.calls)
        for a in c.pointers()
        if _root(program, a.tensor).name == program.pushed
    }
    rowwise = program.calls[0].rowwise
    window = rowwise.window if rowwise else None
    plain = window and (window.taps, window.stride, window.before) == (1, 1, 0)
    inside = program.segments and program.segments[0].first == 0
    if program.pushed and not (readers == {0} and plain and inside):
        raise InternalError(f"{program.pushed} is pushed and needed as a whole")


def _root(program: Program, name: str) -> Tensor:
    """The tensor that owns the bytes of `name`, at the end of its views."""
    tensor = program.tensors[name]
    while tensor.view is not None:
        tensor = program.tensors[tensor.view.base]
    return tensor


def _check_counts(program: Program, segment: Segment) -> None:
    """Raise InternalError unless the steps of the segment make every row of each of its
    calls once.
    """
    made = Counter(segment.steps)
    for index in range(segment.first, segment.last + 1):
        call = program.calls[index]
        if call.rowwise is None:
            raise InternalError(f"call {index} ({call.kernel}) cannot be made row by row")
        if made.pop(index, 0) != call.rowwise.steps:
            raise InternalError(f"call {index} ({call.kernel}) does not make its rows once each")
    if made:
        raise InternalError(f"a segment makes rows of call {min(made)}, which is not its own")


def _check_outside(play: _Play) -> None:
    """InternalError if a call, or memory kept between runs, holds a tensor of rows only.

    `play.calls` are those around the segments and the steps inside, whose rows have other
    names.
    """
    for call in play.calls:
        for arg in call.pointers():
            if arg.tensor in play.program.tensors and arg.tensor not in play.tensors:
                raise InternalError(f"{call.kernel} touches {arg.tensor}, which exists as rows")
    for name in (*play.program.inputs, *play.program.outputs, *play.program.kept):
        if _root(play.program, name).name in play.by_rows:
            raise InternalError(f"{name} holds between runs and exists as rows")


def _play_segment(play: _Play, segment: Segment) -> None:
    """Add to `play`, in place, each step of the segment as a call on rows."""
    done: Counter[int] = Counter()
    play.makers = {}
    for index in range(segment.first, segment.last + 1):
        call = play.program.calls[index]
        made = call.tensor(0)
        root, part = _part(play, call, made)
        others = play.makers.setdefault(root, {})
        for other in others.values():
            if other[2] != part[2] or _meet(part, other):
                raise InternalError(f"{call.kernel} makes a part of {root} that another call makes")
        others[index] = part
    for index in segment.steps:
        call = play.program.calls[index]
        play.calls.append(_step(play, call, call.by_rows, done[index]))
        play.written.update((index, row) for row in _result(call.by_rows, done[index]))
        done[index] += 1


def _part(play: _Play, call: Call, arg: Arg) -> tuple[str, _Part]:
    """The root of an argument, and the part of it that the call has.

    InternalError if bytes of pixels are said that do not fit.
    """
    root, offset = _root(play.program, arg.tensor), 0
    tensor = play.program.tensors[arg.tensor]
    nbytes, (width, pitch) = tensor.nbytes, call.rowwise.strip if call.rowwise else (0, 0)
    if width and arg.access is Access.WRITE:
        if root.nbytes % pitch or arg.offset + width > pitch:
            raise InternalError(f"{root.name} has no pixels of {pitch} bytes")
        return root.name, (arg.offset, arg.offset + width, pitch)
    while tensor.view is not None:
        offset += tensor.view.offset
        tensor = play.program.tensors[tensor.view.base]
    return root.name, (offset, offset + nbytes, root.nbytes)


def _meet(part: _Part, other: _Part) -> bool:
    """Whether two parts have bytes in common; parts of tensors and of pixels do."""
    return part[2] != other[2] or (part[0] < other[1] and other[0] < part[1])


def _result(rowwise: Rowwise, step: int) -> list[int]:
    """The rows of the result that a step completes."""
    if not rowwise.sums:
        return _batch(rowwise, step)
    return [0] if step == rowwise.steps - 1 else []


def _step(play: _Play, call: Call, rowwise: Rowwise, step: int) -> Call:
    """Step `step` of `call` as a call on rows; InternalError if it reads a row that is not made
    yet.
    """
    args: list[Arg] = []
    where: dict[int, int] = {}
    _check_copies(play, call, rowwise)
    for index, arg in enumerate(call.args):
        if isinstance(arg, Arg):
            where[index] = len(args)
            args += _rows_of(play, call, rowwise, index, step)
    if rowwise.sums:
        args.append(_sums(play, call, rowwise, step))
    shared = {p.arg for p in rowwise.planes if p.count > 1}
    shared -= {i for i, a in enumerate(call.args) if _by_rows(play, a)}
    both = set(rowwise.single) - shared
    pairs = tuple((where[w], where[r]) for w, r in call.inplace if w in both and r in both)
    return replace(call, args=tuple(args), inplace=pairs, rowwise=None)


def _check_copies(play: _Play, call: Call, rowwise: Rowwise) -> None:
    """InternalError unless a call whose kernel wants rows one behind the other has memory for the
    longest window of them, as its last argument.
    """
    window = rowwise.window
    if not rowwise.together or window is None:
        return
    reach = (window.taps - 1) * window.dilation + 1 + (rowwise.batch - 1) * window.stride
    image, memory = call.tensor(window.arg), call.args[-1]
    own = play.program.tensors[memory.tensor] if isinstance(memory, Arg) else None
    wanted = play.program.tensors[image.tensor].nbytes // window.height * reach
    fits = own is not None and own.role is Role.SCRATCH and own.nbytes >= wanted
    if (reach > 1 and not fits) or any(p.count > 1 for p in rowwise.planes):
        raise InternalError(f"{call.kernel} has no memory for {reach} rows of {image.tensor}")


def _by_rows(play: _Play, arg: object) -> bool:
    return isinstance(arg, Arg) and _root(play.program, arg.tensor).name in play.by_rows


def _rows_of(play: _Play, call: Call, rowwise: Rowwise, index: int, step: int) -> Iterator[Arg]:
    """Yield the rows that step `step` touches of argument `index`, or the argument itself if whole.

    InternalError if `rowwise` does not say which rows.
    """
    window, arg = rowwise.window, call.tensor(index)
    role = _root(play.program, arg.tensor).role
    pieces = max([1, *(p.count for p in rowwise.planes if p.arg == index)])
    if window is not None and index == window.arg:
        if rowwise.sums:
            yield _row(play, call, arg, step, window.height, pieces)
            return
        read = {
            (row * window.stride - window.before) // window.per + tap * window.dilation
            for row in _batch(rowwise, step)
            for tap in range(window.taps)
        }
        for row in sorted(read):
            if 0 <= row < window.height:
                yield _row(play, call, arg, row, window.height, pieces)
    elif index in rowwise.single:
        # Sums are no result before the last step, which writes it.
        last = not rowwise.sums or step == rowwise.steps - 1
        if last or arg.access is Access.READ:
            rows = [0] if rowwise.sums else _batch(rowwise, step)
            made = [_row(play, call, arg, row, rowwise.height, pieces) for row in rows]
            _check_together(play, made)
            yield from made
    elif role is Role.SCRATCH:
        yield _piece(play, arg, step)
    elif role is Role.CONST or index in rowwise.whole:
        yield arg
    else:
        raise InternalError(f"nothing says which rows of {arg.tensor} are read")


def _batch(rowwise: Rowwise, step: int) -> list[int]:
    """The rows that a step makes."""
    first = step * rowwise.batch - rowwise.lead
    return [row for row in range(first, first + rowwise.batch) if 0 <= row < rowwise.height]


def _check_together(play: _Play, rows: list[Arg]) -> None:
    """InternalError unless rows that a step makes follow each other."""
    for before, after in pairwise(a.tensor for a in rows):
        if before in play.places and after in play.places:
            end = play.places[before].offset + play.tensors[before].nbytes
            if play.places[after].offset != end:
                raise InternalError(f"{after} is not behind {before}, which the same step makes")


def _row(play: _Play, call: Call, arg: Arg, row: int, height: int, pieces: int) -> Arg:
    """Row `row` of a tensor of `height` rows; of a whole one with several `pieces` a row is all of
    it, and what is written after the first row leaves the rest as it is.

    InternalError if it is read and one of its makers has not made it.
    """
    root = _root(play.program, arg.tensor)
    if arg.tensor not in play.parts:
        play.parts[arg.tensor] = _part(play, call, Arg(arg.tensor, Access.READ))[1]
    begin, end, whole = play.parts[arg.tensor]
    if whole % height or (end - begin) % height or begin % height:
        raise InternalError(f"{arg.tensor} has no {height} rows of equal size")
    # A tensor that no call makes by rows is complete before the segment begins.
    for index, made in play.makers.get(root.name, {}).items():
        early = arg.access is Access.READ and (index, row) not in play.written
        if early and _meet((begin, end, whole), made):
            raise InternalError(f"{call.kernel} reads {root.name}@{row} before it is made")
    name, part = f"{root.name}@{row}", f"{root.name}@{row}/{begin}..{end}"
    if root.name not in play.by_rows:
        size = (end - begin) // height
        start, length = (begin, end - begin) if pieces > 1 else (begin + row * size, size)
        view = View(root.name, start)
        play.tensors[part] = Tensor(part, (length,), U8, root.role, view=view, align=1)
        if root.name in play.places:
            play.places[part] = Place(ARENA, play.places[root.name].offset + start)
        rest = pieces > 1 and row and arg.access is Access.WRITE
        return Arg(part, Access.READ_WRITE if rest else arg.access, arg.offset, arg.back)
    # A tensor by rows is nowhere as a whole: each of its rows has a place of its own.
    place, size = _place(play, root.name, row), whole // height
    play.tensors[name] = Tensor(name, (size,), U8, Role.TEMP, align=1)
    play.places[name] = Place(ARENA, place)
    if size == (end - begin) // height:
        return Arg(name, arg.access, arg.offset, arg.back)
    view = View(name, begin // height)
    play.tensors[part] = Tensor(part, ((end - begin) // height,), U8, Role.TEMP, view=view, align=1)
    play.places[part] = Place(ARENA, place + view.offset)
    return Arg(part, arg.access, arg.offset, arg.back)


def _piece(play: _Play, arg: Arg, step: int) -> Arg:
    """The scratch memory of a step."""
    name = f"{arg.tensor}@{step}"
    play.tensors[name] = replace(play.program.tensors[arg.tensor], name=name)
    play.places[name] = Place(ARENA, _place(play, arg.tensor, step))
    return Arg(name, arg.access)


def _sums(play: _Play, call: Call, rowwise: Rowwise, step: int) -> Arg:
    """What a call keeps between its rows."""
    name = _root(play.program, call.writes()[0]).name + _SUMS
    play.tensors[name] = Tensor(name, (rowwise.sums,), U8, Role.TEMP, align=4)
    play.places[name] = Place(ARENA, _place(play, name, 0))
    return Arg(name, Access.READ_WRITE if step else Access.WRITE)


def _place(play: _Play, name: str, row: int) -> int:
    """The offset in bytes of row `row` of tensor `name`; InternalError if the plan has none."""
    places = (play.plan.rows or {}).get(name, ())
    if row >= len(places):
        raise InternalError(f"row {row} of {name} has no place")
    return places[row]
