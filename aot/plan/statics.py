# SPDX-License-Identifier: Apache-2.0
"""What variables take: a bundle's own (the static instance, its locks, pointers to constants), and
those of vendors."""

from __future__ import annotations

from collections.abc import Iterator

from aot.ir.program import Program
from aot.options import Options
from aot.partition.annotate import PORTABLE
from aot.vendor.backend import Backend
from aot.vendor.find import backends_of


def context_bytes(program: Program, word: int, arenas: int = 0) -> int:
    """The bytes of NAME_context, with pointers of `word` bytes: its members in model.h, in their
    order; `arenas` is the number of memories where there are several.
    """
    size = 0
    members = [*_members(program, word, arenas)]
    for count, each in members:
        size = _up(size, each) + count * each
    widest = max(each for _, each in members)
    return _up(size, widest)


def _members(program: Program, word: int, arenas: int) -> Iterator[tuple[int, int]]:
    """(count, bytes of each) of the members of NAME_context."""
    yield 1, 4  # magic
    yield 1 + bool(program.shapes), 1  # busy, shaped
    yield 2 + arenas, word  # arena, reserved, arenas
    if program.pushed:  # aot_push: rows, pitch; plane, first, given, step; made
        yield from ((2, word), (4, 4), (1, word), (_pushed_calls(program), 2))
    if program.io == "arena" and program.dynamic_dims:
        yield len(program.dynamic_dims), 8  # said
    yield program.passed + sum(state.slots for state in program.states), word
    if program.slices:  # in, out, next; begun, stepping, aborted
        ends = max(1, len(program.inputs)) + max(1, len(program.outputs))
        yield from ((ends, word), (1, 4), (3, 1))
    if program.threads > 1:  # threads, wanted, pool
        yield from ((2, 4), (40 + 4 * program.threads, 8))


def _pushed_calls(program: Program) -> int:
    """Calls whose rows a run that is pushed counts; before any are chosen, all of them."""
    return program.segments[0].last + 1 if program.segments else len(program.calls)


def static_bytes(program: Program, word: int, arenas: int = 0) -> int:
    """Bytes of variables in the library, without the built-in arena; pointers have `word` bytes.

    `arenas` is the number of memories where there are several.

    Linked are fewer where a program calls no entry without a context.
    """
    align = 32 if word == 8 else 8  # what gcc gives a structure of static storage, at most
    entries = align  # whether the instance is taken, whether it is ready
    given = 2 * word * (program.weights == "blob")  # the constants of these entries, their lock
    return _up(context_bytes(program, word, arenas), align) + entries + given


def _up(size: int, align: int) -> int:
    return -(-size // align) * align


def vendors_of(program: Program, options: Options) -> list[Backend]:
    """The vendors that have calls in `program`; `memory` of each are its own variables."""
    used = {c.backend for c in program.every_call()} - {PORTABLE}
    return backends_of(used, options) if used else []


def vendor_bytes(program: Program, options: Options) -> int:
    """Bytes of the variables of vendors."""
    return sum(v.memory for v in vendors_of(program, options))
