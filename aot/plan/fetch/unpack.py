# SPDX-License-Identifier: Apache-2.0
"""Which constants a call decodes by blocks: `--objective flash` stores them as codes.

Before: y = fc(x, w [128 * 640], bias)
After:  y = fc(x, scratch [4 * 640], bias), 32 times, each behind 4 rows of w from a stream

A constant is taken where its stream, and what the call needs besides, is shorter, in the order of
bytes saved per time, while the program takes at most SLOWER times as long. A call whose kernel can
be cut by channels of its weights (`Call.blocks`) has room for a block of them; any other gets the
whole constant where the arena has as much room at that call. Where a budget of RAM does not allow
for that, plan_program.py leaves the program as it was.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aot.ir.fetch import CHECKED, Fetch
from aot.ir.program import Call, Program
from aot.ir.splits import Split
from aot.plan.fetch.blocks import (
    BLOCK,
    Made,
    constants,
    room_at,
    split_for,
    takes,
    without,
)
from aot.plan.fetch.codes import Stream, encode

#: The time of a program with codes, to that without: instructions of a multiplication, and of an
#: element of a stream that is four bits, is decoded in the fast loop, with lower bits, or in the
#: slow one.
SLOWER, MAC, FLAT, FAST, LOWER, SLOW = 6, 1.3, 3, 10, 15, 45
#: Multiplications per element from which decoding is no matter.
OFTEN = 16
#: Bytes of code that decodes elements of one byte, and in addition any; of a function that makes
#: blocks, and if other calls need the kernel without; of a call, and of a further constant of it.
DECODER, ANY, LOOP, AGAIN, CALLER, FURTHER = 750, 200, 150, 250, 48, 32
#: Constants below this many bytes are left as they are.
LEAST = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """Argument `arg` of call number `call`, which holds constant `name`, as a stream."""

    call: int
    arg: int
    name: str
    stream: Stream
    saved: int
    cost: float
    split: Split


def unpacked(program: Program, bound: int = 0) -> Program:
    """The program in which calls decode their weights; unchanged where that saves nothing.

    With a `bound` on the multiplications of a slice, calls of more are left as they are: they are
    cut by rows, each of which would have to decode.
    """
    chosen = _chosen(program, list(_candidates(program, bound)))
    if not chosen:
        return program
    made = Made(dict(program.tensors), dict(program.consts))
    calls = list(program.calls)
    room = room_at(program)
    for index, own in chosen.items():
        calls[index] = _rewritten(made, calls[index], own, room[index])
    used = {a.tensor for c in calls for a in c.pointers()}
    left = {program.base(n)[0] for n in used if n in program.tensors}
    for name in {c.name for own in chosen.values() for c in own} - used - left:
        del made.tensors[name], made.consts[name]
    return replace(program, tensors=made.tensors, consts=made.consts, calls=tuple(calls))


def _candidates(program: Program, bound: int) -> Iterator[Candidate]:
    """Constants whose streams are shorter."""
    readers: dict[str, int] = {}
    for call in program.every_call():
        for name in {a.tensor for a in call.pointers()}:
            readers[name] = readers.get(name, 0) + 1
    # Bodies keep their constants: a call in a body runs in an arena of its own.
    inner = {n for c in program.calls for b in c.bodies for n in b.program.consts}
    room = room_at(program)
    for index, call in enumerate(program.calls):
        if not takes(call, program.threads) or (bound and call.macs > bound):
            continue
        for number, name, data in constants(program, call):
            # A constant with two readers would have to be decoded by both.
            split = split_for(call, number, room[index], data.nbytes)
            alone = readers[name] == 1 and name not in inner
            if split is None or not alone or data.nbytes < LEAST or data.nbytes % split.units:
                continue
            stream = encode(data, call.macs < OFTEN * data.size)
            if stream is not None and stream.data.nbytes < data.nbytes:
                each = (
                    SLOW if stream.slow else LOWER if stream.low else FLAT if stream.flat else FAST
                )
                cost = data.size * each
                saved, least = data.nbytes - stream.data.nbytes, data.nbytes // split.units
                if stream.table + least <= room[index]:
                    yield Candidate(index, number, name, stream, saved, cost, split)


Chosen = Mapping[int, Sequence[Candidate]]


def _chosen(program: Program, found: Sequence[Candidate]) -> Chosen:
    """By call the constants that pay, of four selections that one which saves most.

    The code that decodes elements of one byte without runs is smaller than that for all, and calls
    that decode the same arguments share a function.
    """
    splits = {c.call: c.split for c in sorted(found, key=lambda c: c.saved)}
    same = [c for c in found if c.split == splits[c.call]]
    most = {c.call: c for c in sorted(same, key=lambda c: c.saved)}
    sets = [same, list(most.values())]
    sets += [[c for c in s if not c.stream.slow] for s in sets]
    net, chosen = max((_selected(program, s) for s in sets), key=lambda s: s[0])
    return chosen if net > 0 else {}


def _selected(program: Program, found: Sequence[Candidate]) -> tuple[int, Chosen]:
    """(bytes saved, by call what is stored as codes): the best first, while the program stays fast
    enough, without kinds of calls that save less than their function takes."""
    # The instructions that decoding may add to the whole run.
    budget = MAC * (SLOWER - 1) * sum(c.macs for c in program.calls)
    chosen: dict[int, list[Candidate]] = {}
    # The most bytes for an instruction first: the classic order of a fractional knapsack.
    for one in sorted(found, key=lambda c: -c.saved / c.cost):
        own = chosen.get(one.call, [])
        if one.saved > (FURTHER if own else CALLER) and one.cost <= budget:
            chosen[one.call] = [*own, one]
            budget -= one.cost
    kernels = [(c.kernel, c.instance) for c in program.calls]
    kinds: dict[tuple[Any, object], list[int]] = {}
    for call, own in chosen.items():
        # Equal calls with equal streams share one function, so they are judged together.
        told = frozenset((c.arg, c.stream.size, c.stream.runs) for c in own)
        kinds.setdefault((kernels[call], told), []).append(call)
    saved, kept = 0, dict[int, list[Candidate]]()
    for (kernel, _), calls in kinds.items():
        own = [c for call in calls for c in chosen[call]]
        net = sum(c.saved - FURTHER for c in own) - (CALLER - FURTHER) * len(calls) - LOOP
        # A kernel that is also called without streams is in the image twice.
        net -= AGAIN * (kernels.count(kernel) > len(calls))
        if net > 0:
            saved += net
            kept |= {call: chosen[call] for call in calls}
    slow = any(c.stream.slow for own in kept.values() for c in own)
    return saved - DECODER - ANY * slow, kept


def _rewritten(made: Made, call: Call, own: Sequence[Candidate], room: int) -> Call:
    """The call with its constants decoded block by block.

    Blocks have equally many units, about; where the kernel reads elements again and again they
    take half of the `room` that there is, in bytes: the arena has that in several pieces.
    """
    split = without(own[0].split, [c.arg for c in own])
    often = call.macs > 2 * sum(made.tensors[c.name].nbytes for c in own)
    # Two blocks are there at a time where one is decoded while the other is used.
    free = (room - sum(c.stream.table for c in own)) // 2 if often else BLOCK
    step = made.steps(split, [c.name for c in own], free)
    for one in own:
        data = np.asarray(made.consts[one.name])
        checked = np.ravel(data)[:CHECKED].tobytes()
        fetch = Fetch(
            *("unpack", one.arg, len(call.args), split, step),
            data.nbytes // split.units,
            len(call.args) + 1,
            one.stream.size,
            one.stream.longest,
            one.stream.runs,
            one.stream.flat,
            zlib.crc32(checked),
        )
        source = made.source(f"{one.name}_codes", one.stream.data)
        table = made.scratch(f"{one.name}_table", one.stream.table, 4)
        call = made.fetching(call, fetch, source, table)
    return call
