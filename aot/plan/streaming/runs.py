# SPDX-License-Identifier: Apache-2.0
"""Which calls of a program can be made row by row together, and why others end such a run."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from aot.ir.dtypes import U8
from aot.ir.program import WAITS, Access, Arg, Call, Program, Role, StateArg, Tensor
from aot.ir.rows import STREAMED, Segment
from aot.plan.streaming.order import Run, of_scratch, writes_once
from aot.plan.streaming.parts import Part, part_of

#: Rows that a window may span: a call has a table of as many pointers on its stack.
MOST_SPAN = 64
#: What copies of rows begin at a multiple of, in bytes.
COPY_ALIGN = 16


def obstacle(program: Program, call: Call) -> str:
    """Why a call cannot be made row by row; "" if it can.

    It needs a `rowwise` rule, one result, windows of at most MOST_SPAN rows, and arguments that are
    whole tensors, no constants, whose bytes divide into rows.
    """
    rowwise = call.rowwise
    if call.bodies:
        return "control flow runs as a whole"
    if call.backend != "c" and (why := _vendors_obstacle(call)):
        return f"a call of {call.backend} takes whole tensors: {why}"
    if rowwise is None:
        return f"{call.kernel} takes whole tensors{_of_one_row(program, call)}"
    if not writes_once(call):
        return f"{call.kernel} has several results"
    if rowwise.window is not None and rowwise.window.span > MOST_SPAN:
        return f"windows of {rowwise.window.span} rows (at most {MOST_SPAN})"
    # A row is at a multiple of its size: odd sizes have none, parts of tensors where they are
    # planes, or bytes of every pixel.
    for index, height in row_counts(call):
        arg = call.args[index]
        if not isinstance(arg, Arg) or arg.back:
            return f"argument {index} of {call.kernel} is a part of a tensor"
        root, offset = program.base(arg.tensor)
        whole, own = program.tensors[root].nbytes, program.tensors[arg.tensor].nbytes
        if whole == 0 or whole % height or program.tensors[root].role is Role.CONST:
            return f"{arg.tensor} has no {height} rows"
        if arg.offset >= whole // height or (arg.offset and index not in rowwise.single):
            return f"argument {index} of {call.kernel} is a part of a tensor"
        plane = part_of(program, call, index).grain * height
        if (offset or own != whole) and (not plane or offset % plane or whole % plane):
            return f"{arg.tensor} is a part of {root}"
    return ""


def _vendors_obstacle(call: Call) -> str:
    """Why a vendor's call cannot be made row by row, "" if its vendor lets it."""
    if any(isinstance(arg, StateArg) for arg in call.args):
        return f"the object that {call.kernel} is given was made for them"
    if call.async_kernels:
        return f"{call.kernel} is started and awaited"
    if call.beyond:
        return f"{call.kernel} reads past their end"
    return "" if call.rowwise else f"{call.kernel} declares no windows of rows"


def _of_one_row(program: Program, call: Call) -> str:
    """What the reason adds for a call that makes or reads one row, of all rows of an average."""
    shapes = {a.tensor: program.tensors[a.tensor].shape for a in call.pointers()}
    made = next((shapes[n] for n in call.writes()), ())
    if len(made) > 2 and made[2] == 1:
        return ": its result is one row"
    read = (n for n in call.reads() if len(shapes[n]) == len(made) > 2 and shapes[n][2] == 1)
    one = next((n for n in read if program.tensors[program.base(n)[0]].role is Role.TEMP), "")
    return f": every row needs {one}, which is one row" if one else ""


def row_counts(call: Call) -> Iterator[tuple[int, int]]:
    """(argument, its rows) of what a call takes by rows."""
    rowwise = call.by_rows
    for index in rowwise.single:
        yield index, rowwise.height
    if rowwise.window is not None:
        yield rowwise.window.arg, rowwise.window.height


@dataclass(frozen=True, slots=True)
class Break:
    """Call `call` is in no segment with the one before it."""

    call: int
    reason: str


def runs_of(program: Program) -> tuple[list[tuple[int, int]], list[Break]]:
    """The longest runs of calls that may go row by row, as (first, last), and the breaks between
    them.

    Runs have at least two calls. A break is the index of a call with the reason why no run goes
    across it: the call takes whole tensors (`obstacle`), or it divides a tensor into other rows
    than the calls of the run before it (`_disagrees`), in which case it begins the next run.
    """
    found: list[tuple[int, int]] = []
    breaks: list[Break] = []
    seen = _Seen()
    first = 0
    for index, call in enumerate(program.calls):
        own = obstacle(program, call)
        why = own or _disagrees(program, call, seen)
        if why:
            breaks.append(Break(index, why))
            found.append((first, index - 1))
            seen, first = _Seen(), index
            if own:
                first = index + 1
                continue
        for at, height in row_counts(call):
            part = part_of(program, call, at)
            seen.rows[part.root] = height, _pieces(call, at, part)
            seen.parts.setdefault(part.root, []).append(part)
        seen.whole |= {program.base(a.tensor)[0] for a in _whole(call)}
    found.append((first, len(program.calls) - 1))
    return [(a, z) for a, z in found if z > a], breaks


@dataclass(slots=True)
class _Seen:
    """What a run has touched: (rows, pieces of a row) and parts by
    root, and roots that it reads as a whole."""

    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)


def _whole(call: Call) -> Iterator[Arg]:
    """Yield the arguments of a call that every row needs as a whole."""
    for index in call.rowwise.whole if call.rowwise else ():
        yield call.tensor(index)


def _pieces(call: Call, index: int, part: Part) -> int:
    """How many pieces a row of the tensor has that argument `index` is a part of."""
    pieces = call.by_rows.pieces(index)
    return pieces * part.whole // (part.end - part.begin) if part.grain else pieces


def _disagrees(program: Program, call: Call, seen: _Seen) -> str:
    """The reason why a call cannot join a run that has `seen` what is before it, "" if it can."""
    for index, height in row_counts(call):
        part = part_of(program, call, index)
        own = height, _pieces(call, index, part)
        found = seen.rows.get(part.root, own)
        if found != own:
            at, kind = (0, "rows") if found[0] != own[0] else (1, "pieces of a row")
            return f"{part.root} is read as {own[at]} {kind}, made as {found[at]}"
        before = seen.parts.get(part.root, [])
        if index == 0 and (part.root in seen.whole or any(part.meets(p) for p in before)):
            return f"{part.root} is written again"
    for arg in _whole(call):
        if program.base(arg.tensor)[0] in seen.rows:
            return f"all of {arg.tensor} is needed at once"
    return ""


def segmented(program: Program, spans: list[tuple[int, int]]) -> Program:
    """`program` with the calls of each of `spans` in a segment; spans without rows are left out.

    Calls there are in no region of a vendor; what is left of theirs are regions of their own.
    """
    spans = [s for s in spans if rows_of(Run(program, *s))]
    inside = {i for first, last in spans for i in range(first, last + 1)}
    if not inside:
        return program
    calls, tensors = _regions_apart(program.calls, inside), dict(program.tensors)
    for index in sorted(inside):
        calls[index] = replace(calls[index], region=STREAMED)
        if nbytes := copied_bytes(program, calls[index]):
            memory = Tensor(f"{calls[index].writes()[0]}@window", (nbytes,), U8, Role.SCRATCH)
            tensors[memory.name] = replace(memory, align=COPY_ALIGN)
            args = (*calls[index].args, Arg(memory.name, Access.WRITE))
            calls[index] = replace(calls[index], args=args)
    made = replace(program, calls=tuple(calls), tensors=tensors)
    return replace(made, segments=tuple(_segment(made, *span) for span in spans))


def _regions_apart(calls: Sequence[Call], inside: Container[int]) -> list[Call]:
    """`calls`; where some of a region's are `inside`, the others get a number per row of calls."""
    broken = {c.region for i, c in enumerate(calls) if i in inside and c.region >= 0}
    number = max((c.region for c in calls if c.region < WAITS), default=-1)
    made, last = list(calls), (-1, -1)
    for index, call in enumerate(calls):
        if call.region in broken and index not in inside:
            number += last != (call.region, index - 1)
            made[index], last = replace(call, region=number), (call.region, index)
    return made


def copied_bytes(program: Program, call: Call) -> int:
    """Bytes of memory in which a call wants the rows of its window one behind the other, or 0."""
    rowwise = call.rowwise
    if rowwise is None or not rowwise.copies or rowwise.window is None:
        return 0
    arg = call.tensor(rowwise.window.arg)
    return program.tensors[arg.tensor].nbytes // rowwise.window.height * rowwise.span


def _segment(program: Program, first: int, last: int) -> Segment:
    """Calls `first` to `last` as a segment."""
    run = Run(program, first, last)
    rows = rows_of(run)
    scratch = [n for _, call in run.calls() for n in of_scratch(program, call)]
    return Segment(first, last, run.steps(), (*rows, *dict.fromkeys(scratch)))


def in_batches(program: Program, most: int | None = None) -> Program:
    """`program` with as many rows in each step of its segments as the kernels want at a time.

    Of the calls that want several rows at most `most` get them: those whose rows have the fewest
    bytes.

    The first step of a call is cut so that its batches end where its readers need rows: then no row
    is made before its time.
    """
    calls = list(program.calls)
    chosen = want_several(program)[:most]
    for segment in program.segments:
        run = Run(program, segment.first, segment.last)
        goal = dict.fromkeys(range(segment.first, segment.last + 1), 0)  # rows of the first result
        for index in sorted(goal, reverse=True):
            rowwise = calls[index].by_rows
            alone = not part_of(program, calls[index], 0).proper
            if index in chosen and alone:
                batch = min(rowwise.most, rowwise.height)
                rowwise = replace(rowwise, batch=batch, lead=-(goal[index] + 1) % batch)
                calls[index] = replace(calls[index], rowwise=rowwise)
                run.program = replace(program, calls=tuple(calls))
            step = (goal[index] + rowwise.lead) // rowwise.batch
            for reads, (_, _, rows) in zip(run.sources[index], run.needs(index, step), strict=True):
                for source in reads.makers if rows else ():
                    goal[source] = max(goal[source], rows[-1])
    if calls == [*program.calls]:
        return program
    made = replace(program, calls=tuple(calls))
    segments = (replace(s, steps=Run(made, s.first, s.last).steps()) for s in program.segments)
    return replace(made, segments=tuple(segments))


def want_several(program: Program) -> list[int]:
    """The calls of segments whose kernels make several rows faster, by rising bytes of a row."""
    found = [
        (_row_bytes(program, c), i)
        for i, c in enumerate(program.calls)
        if c.region == STREAMED and c.rowwise is not None and c.rowwise.most > 1
    ]
    return [i for _, i in sorted(found)]


def _row_bytes(program: Program, call: Call) -> int:
    """The bytes of a row of each tensor that a call has by rows."""
    found = (part_of(program, call, index).root for index, _ in row_counts(call))
    heights = (height for _, height in row_counts(call))
    return sum(program.tensors[r].nbytes // h for r, h in zip(found, heights, strict=True))


def rows_of(run: Run) -> list[str]:
    """The tensors that exist as rows only where the calls of `run` are a segment.

    There are none, and no segment, where a kernel has one parameter for the pieces of a row and
    those of a whole tensor.
    """
    program, spans = run.program, run.spans
    if not spans:
        spans.update(_spans(program))
    own = {program.base(a.tensor)[0] for _, call in run.calls() for a in _whole(call)}
    rows = [
        r
        for r in run.made
        if program.tensors[r].role is Role.TEMP
        and run.first <= spans[r][0]
        and spans[r][1] <= run.last
        and r not in own
    ]
    for index, _ in run.calls():
        found = {(member, root in rows) for member, root in run.touched[index][2] if member}
        if len(found) > len({member for member, _ in found}):
            return []
    return rows


def _spans(program: Program) -> dict[str, tuple[int, int]]:
    """The first and the last call that touch a tensor, by root; -1 and the number of calls for what
    there is outside of a run.
    """
    ends = (*program.outputs, *program.kept, *(s.tensor for s in program.shapes))
    found = dict.fromkeys((program.base(n)[0] for n in ends), (-1, len(program.calls)))
    for index, call in enumerate(program.calls):
        for root in {program.base(a.tensor)[0] for a in call.pointers()}:
            first, last = found.get(root, (index, index))
            found[root] = first, max(last, index)
    return found
