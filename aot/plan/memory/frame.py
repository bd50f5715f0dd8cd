# SPDX-License-Identifier: Apache-2.0
"""What lives in the arena between two runs: a call before the first one and one after the last.

Inputs in the arena and what is kept (states, sizes) are written by the opening call, outputs
in the arena, what is kept and run-time shapes are read by the closing one; outputs are read by the
opening call too, because they hold until the next run and so may not lie on an input that is filled
before it. These two calls exist for the scheduler and the planner only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aot.ir.program import Access, Arg, Call, Origin, Program, Role

#: The kernel's name of both calls; no kernel of that name exists.
FRAME = "aot_frame"


def in_arena(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(inputs, outputs) that live in the arena."""
    temps = [
        tuple(
            n for n in names if program.tensors[n].role is Role.TEMP and program.tensors[n].nbytes
        )
        for names in (program.inputs, program.outputs)
    ]
    return temps[0], temps[1]


def is_framed(program: Program) -> bool:
    """Whether the two calls are there."""
    return bool(program.calls) and program.calls[0].kernel == FRAME


def framed(program: Program, cyclic: bool = True) -> Program:
    """`program` between its two calls; itself if nothing lives between runs.

    Without `cyclic` the opening call does not read the outputs of the run before.
    """
    inputs, outputs = in_arena(program)
    shapes = tuple(s.tensor for s in program.shapes)
    if not (inputs or outputs or program.kept or shapes):
        return program
    filled = (*inputs, *program.kept)
    held = (*outputs, *shapes) if filled else outputs
    first = _call(filled, held if cyclic else ())
    last = _call((), (*outputs, *program.kept, *shapes))
    return replace(program, calls=(first, *program.calls, last))


def unframed(program: Program) -> Program:
    """`program` without the two calls."""
    return replace(program, calls=program.calls[1:-1]) if is_framed(program) else program


def _call(writes: Iterable[str], reads: Iterable[str]) -> Call:
    """A call of no kernel that writes and reads these tensors, as if between two runs."""
    args = [Arg(n, Access.WRITE) for n in writes] + [Arg(n, Access.READ) for n in reads]
    return Call(FRAME, tuple(args), None, Origin(("between runs",), ("Input", "Output")))
