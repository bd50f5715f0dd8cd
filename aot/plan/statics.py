# SPDX-License-Identifier: Apache-2.0
"""What a bundle's own variables take: the static instance, its locks, pointers to constants."""

from __future__ import annotations

from aot.ir.program import Program


def context_bytes(program: Program, word: int) -> int:
    """The bytes of NAME_context, with pointers of `word` bytes: its members in model.h, in their
    order.
    """
    size = 4 + 1 + bool(program.shapes)  # magic, busy, shaped
    size = _up(size, word) + 2 * word  # arena, reserved
    widest = word
    if program.io == "arena" and program.dynamic_dims:
        widest = 8
        size = _up(size, 8) + 8 * len(program.dynamic_dims)  # said
    size = _up(size, word) + word * program.passed
    size += word * sum(state.slots for state in program.states)
    if program.threads > 1:
        widest = 8
        size = _up(size + 8, 8) + 8 * (40 + 4 * program.threads)  # threads, wanted, pool
    return _up(size, widest)


def static_bytes(program: Program, word: int) -> int:
    """Bytes of variables in the library, without the built-in arena; pointers have `word` bytes.

    Linked are fewer where a program calls no entry without a context.
    """
    align = 32 if word == 8 else 8  # what gcc gives a structure of static storage, at most
    entries = align  # whether the instance is taken, whether it is ready
    given = 2 * word * (program.weights == "blob")  # the constants of these entries, their lock
    return _up(context_bytes(program, word), align) + entries + given


def _up(size: int, align: int) -> int:
    return -(-size // align) * align
