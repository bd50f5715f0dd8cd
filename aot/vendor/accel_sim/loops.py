# SPDX-License-Identifier: Apache-2.0
"""Loop rolling: groups of instructions that come again with constants added to their words.

Passes of a body differ by the same amounts from one to the next; up to three different amounts are
address registers that ENDL steps. The executed instructions are those of the unrolled program, plus
an ENDL per pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.vendor.accel_sim.encode import Instr, encode, instr, words_of

#: Instructions of a body, passes of a loop, registers that a loop can step.
LONGEST, PASSES, REGISTERS = 32, 65536, 3
#: SETA, LOOP and ENDL.
FRAME = 3

_Delta = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Loop:
    """`passes` of `length` instructions, whose words change by `deltas`."""

    length: int
    passes: int
    deltas: tuple[_Delta, ...]


def _delta(a: tuple[int, ...], b: tuple[int, ...], queued: bool) -> _Delta | None:
    """The differences of words 1 to 3 from instruction `a` to `b`, modulo 2^32.

    None if word 0 differs, or if the instruction is of the front end and differs at all: it has no
    address registers.
    """
    if a[0] != b[0]:
        return None
    found = tuple((y - x) & 0xFFFFFFFF for x, y in zip(a[1:], b[1:], strict=True))
    return (found[0], found[1], found[2]) if queued or not any(found) else None


def _runs(words: Sequence[tuple[int, ...]], queued: Sequence[bool], length: int) -> list[int]:
    """For every position how many instructions from `length` later on repeat those `length`
    earlier.

    Repeating means that the words change by the same amounts in every pass; 0 where not even one
    pass of `length` instructions is repeated.
    """
    count = len(words)
    deltas = [
        _delta(words[i], words[i + length], queued[i]) if i + length < count else None
        for i in range(count)
    ]
    valid, same = [0] * (count + 1), [0] * (count + 1)
    for i in range(count - 1, -1, -1):
        if deltas[i] is None:
            continue
        valid[i] = valid[i + 1] + 1
        if i + length < count and deltas[i] == deltas[i + length]:
            same[i] = same[i + 1] + 1
    return [length + same[i] if valid[i] >= length else 0 for i in range(count)]


def _loops(code: Sequence[Instr]) -> dict[int, list[_Loop]]:
    """All loops that could begin at each instruction and save some, by position in `code`.

    A loop has at most LONGEST instructions, PASSES passes, and REGISTERS different steps.
    """
    words = [words_of(encode(i)) for i in code]
    queued = [i.row.queued for i in code]
    found: dict[int, list[_Loop]] = {}
    for length in range(1, min(LONGEST, len(code) // 2) + 1):
        for at, run in enumerate(_runs(words, queued, length)):
            passes = min(run // length + 1, PASSES)
            if passes < 2 or (passes - 1) * length <= FRAME:
                continue
            deltas = tuple(
                _delta(words[at + j], words[at + length + j], queued[at + j]) or (0, 0, 0)
                for j in range(length)
            )
            if len({d for each in deltas for d in each if d}) <= REGISTERS:
                found.setdefault(at, []).append(_Loop(length, passes, deltas))
    return found


def roll(code: Sequence[Instr], shortest: int = 2) -> list[Instr]:
    """The shortest program that one level of loops of at least `shortest` instructions gives.

    It executes the same instructions as `code`, in the same order.
    """
    loops, count = _loops(code), len(code)
    best = [0] * (count + 1)
    chosen: list[_Loop | None] = [None] * count
    # `best` is the least number of instructions from a position to the end.
    for at in range(count - 1, -1, -1):
        best[at] = best[at + 1] + 1
        for loop in loops.get(at, ()):
            size = FRAME + loop.length + best[at + loop.length * loop.passes]
            if loop.length >= shortest and size < best[at]:
                best[at], chosen[at] = size, loop
    out: list[Instr] = []
    at = 0
    while at < count:
        picked = chosen[at]
        if picked is None:
            out.append(code[at])
            at += 1
        else:
            out += _rolled(code[at : at + picked.length], picked)
            at += picked.length * picked.passes
    return out


def _rolled(body: Sequence[Instr], loop: _Loop) -> list[Instr]:
    """The instructions of a loop: SETA (if registers are stepped), LOOP, the first pass, ENDL.

    Each different amount by which words change is stepped in an address register of its own.
    """
    steps = sorted({d for each in loop.deltas for d in each if d})
    register = {0: 0, **{step: n + 1 for n, step in enumerate(steps)}}
    named = {f"r{n + 1}": n + 1 for n in range(len(steps))}
    signed = [s - (1 << 32) if s >> 31 else s for s in steps]
    moves = {f"s{n + 1}": s for n, s in enumerate(signed)}
    out = [instr("SETA", {}, **named)] if steps else []
    out.append(instr("LOOP", {"count": loop.passes}))
    for i, (a, b, c) in zip(body, loop.deltas, strict=True):
        if a or b or c:
            i = replace(i, r1=register[a], r2=register[b], r3=register[c])
        out.append(i)
    out.append(instr("ENDL", moves, **named))
    return out
