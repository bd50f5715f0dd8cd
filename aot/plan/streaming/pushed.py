# SPDX-License-Identifier: Apache-2.0
"""An input that comes by rows (`--push`): it is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aot.errors import ModelError, UnsupportedError
from aot.ir.program import Access, Arg, Call, Origin, Params, Program, Role, Tensor
from aot.ir.rows import Rowwise, Window
from aot.plan.streaming.runs import row_counts, runs_of

#: The kernel that takes a row.
KERNEL = "aot_push_row"


def push(program: Program, asked: str) -> Program:
    """`program`, whose inputs are in the arena, with the input called `asked` outside of it.

    A first call takes the rows one by one; what read the input, or stored it with channels last,
    reads the result of that call. ModelError if there is no such input, UnsupportedError if it is
    not the only one, or if its size or that of a result depends on the run.
    """
    where = f"--push {asked}"
    known = {program.tensors[n].onnx_name or n: n for n in program.inputs}
    if asked not in known:
        raise ModelError("the model has no such input", where, f"inputs: {', '.join(known)}")
    source = program.tensors[known[asked]]
    if len(known) > 1:
        raise UnsupportedError("the model has other inputs", where, f"inputs: {', '.join(known)}")
    if program.dynamic_dims or program.shapes:
        raise UnsupportedError("sizes that a run decides need the whole input", where)
    readers = [i for i, c in enumerate(program.calls) if source.name in _roots(program, c)]
    # The call in front can write blocks of channels itself, which saves the reorder.
    if len(readers) == 1 and program.calls[readers[0]].kernel == "aot_to_blocked":
        reorder = program.calls[readers[0]]
        (name,) = reorder.writes()
        lanes = dict(reorder.instance)["V"]
        calls = tuple(c for i, c in enumerate(program.calls) if i != readers[0])
        images, channels, height, *_ = source.shape
        program = replace(program, calls=calls)
        return _taken(program, source, name, channels, height if images == 1 else 1, lanes)
    made = replace(source, name=f"{source.name}_rows", role=Role.TEMP, onnx_name="")
    tensors = {
        n: replace(t, view=replace(t.view, base=made.name))
        if t.view and t.view.base == source.name
        else t
        for n, t in program.tensors.items()
    }
    calls = tuple(_renamed(c, source.name, made.name) for c in program.calls)
    program = replace(program, tensors={**tensors, made.name: made}, calls=calls)
    pieces, rows = next(_read_by(program, made.name), (1, 1))
    return _taken(program, source, made.name, pieces, rows, 1)


def _read_by(program: Program, root: str) -> Iterator[tuple[int, int]]:
    """(pieces of a row, rows) as calls read `root`."""
    for call in program.calls:
        for index, height in row_counts(call) if call.rowwise else ():
            arg = call.args[index]
            if call.rowwise and isinstance(arg, Arg) and program.base(arg.tensor)[0] == root:
                yield call.rowwise.pieces(index), height


def _roots(program: Program, call: Call) -> Iterator[str]:
    return (program.base(a.tensor)[0] for a in call.pointers())


def _renamed(call: Call, before: str, after: str) -> Call:
    """`call` with another tensor in place of `before`."""
    args = (
        replace(a, tensor=after) if isinstance(a, Arg) and a.tensor == before else a
        for a in call.args
    )
    return replace(call, args=tuple(args))


def _taken(
    program: Program, source: Tensor, made: str, channels: int, height: int, lanes: int
) -> Program:
    """`program` with a call in front that takes the input `source` row by row and makes `made`.

    `source` is [channels, height, width] in elements. A row that the user pushes is [channels,
    width]; in `made` it is [channels / lanes, width, lanes].
    """
    width = source.nbytes // source.dtype.nbytes // channels // height
    fields = (("c", channels), ("width", width), ("elem", source.dtype.nbytes), ("plane", width))
    # `plane`, the distance of two channels of the row that is read, is the whole plane's only where
    # a user gives a whole input.
    call = Call(
        KERNEL,
        (Arg(made, Access.WRITE), Arg(source.name, Access.READ)),
        Params(f"{KERNEL}_params", fields),
        Origin((source.onnx_name or source.name,), ("Input",), "rows that are pushed"),
        instance=(("V", lanes),),
        header=f"{KERNEL}.h",
        rowwise=Rowwise(height, (0,), Window(1, height), (("plane", -1, "plane"),)),
    )
    tensors = {**program.tensors, source.name: replace(source, role=Role.INPUT)}
    return replace(program, tensors=tensors, calls=(call, *program.calls), pushed=source.name)


def check_pushed(program: Program) -> None:
    """UnsupportedError, with the node that needs all of the input, unless its rows are streamed."""
    made = program.base(program.calls[0].writes()[0])[0]
    if program.segments and not program.segments[0].first and made in program.segments[0].tensors:
        return
    ends = [b for b in runs_of(program)[1] if b.call > 0]
    reads = [i for i, c in enumerate(program.calls) if i and made in _roots(program, c)]
    index = min(reads[-1], ends[0].call) if ends else reads[-1]
    reason = next((b.reason for b in ends if b.call == index), "its rows are read once more later")
    node = program.calls[index].origin.nodes[-1]
    label = program.tensors[program.pushed].onnx_name or program.pushed
    raise UnsupportedError(f"{node} needs all of the input: {reason}", f"--push {label}")
