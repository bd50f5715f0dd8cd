# SPDX-License-Identifier: Apache-2.0
"""The stack that a bundle declares: a bound known without a compiler, from what kernels took.

`frames.json` holds, for every kernel and family of machines, the most bytes that a function of that
kernel took, callees included (`python benchmarks/stack.py` measures it again).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aot.ir.program import Call, Program
from aot.ir.rows import STREAMED
from aot.plan.stack.outside import RED_ZONE
from aot.target import Target

TABLE = Path(__file__).with_name("frames.json")
#: Compilers and shapes differ: one byte in so many is added to what was measured, on hosts, where
#: loops over known sizes are unrolled and stack is plenty, one in fewer.
MARGIN, HOST_MARGIN = 8, 2
#: Words of stack of the functions that make a part of a call which threads share: the job, the
#: pool's function, the part's, pointers that were moved.
SHARED = 48
#: Words of stack of a function that gets weights by blocks: its counters and pointers that move,
#: and those of each reader of a stream with its arguments.
BLOCKS, READER = 40, 14
#: Bytes of stack of a function that decodes a block, more than was measured anywhere.
READING = 240


@dataclass(frozen=True, slots=True)
class Declared:
    """Bytes of stack that no entry exceeds when gcc optimises; None where no table tells.

    `kernel` takes most of it, in the node `node`. `unmeasured` kernels are not in the target's
    column, as those of most vendors and of packages elsewhere: with one there is no bound.
    """

    bytes: int | None
    kernel: str
    node: str
    unmeasured: tuple[str, ...]


def family(target: Target) -> str:
    """The name of the column of measured frames for `target`: its architecture, or a kind of Arm
    core.
    """
    if target.arch != "arm":
        return target.arch
    if not target.board:
        return "arm"
    if target.simd == "mve":
        return "helium"
    return "thumb1" if target.thumb1 else "thumb2"


@cache
def table() -> dict[str, dict[str, int]]:
    """Family → kernel → bytes."""
    text = json.loads(TABLE.read_text(encoding="ascii"))
    found: dict[str, dict[str, int]] = {f: {} for f in text["families"]}
    for kernel, row in text["kernels"].items():
        for name, taken in zip(text["families"], row, strict=True):
            if taken is not None:
                found[name][kernel] = int(taken)
    return found


@cache
def widths() -> dict[str, dict[int, dict[str, int]]]:
    """Family → float lanes of a vector → kernel → bytes, of families whose levels differ much."""
    found: dict[str, dict[int, dict[str, int]]] = {}
    for name, section in json.loads(TABLE.read_text(encoding="ascii")).get("widths", {}).items():
        lanes = [int(n) for n in section["lanes"]]
        columns: dict[int, dict[str, int]] = {n: {} for n in lanes}
        for kernel, row in section["kernels"].items():
            for n, taken in zip(lanes, row, strict=True):
                if taken is not None:
                    columns[n][kernel] = int(taken)
        found[name] = columns
    return found


def row_of(call: Call) -> str:
    """The row of an instance of a kernel: its name, and its constants as in `P14 O2 YV16`."""
    return " ".join([call.kernel, *(f"{name}{value}" for name, value in call.instance)])


def figures(target: Target, lanes: int) -> dict[str, int]:
    """Row → bytes on the target, for vectors of `lanes` floats; every kernel has a row.

    A family's figure is the largest of its levels and of the instances of the kernel. Where the
    levels were measured apart, that of the target's own width counts, or that without vectors, and
    instances that take much less have rows of their own; narrower vectors (`--objective ram`) were
    measured on other levels, and have the family's.
    """
    if target.arch == "riscv64" and target.vlen > 1:
        return {}  # a register that is saved takes as many bytes as the chip's vectors have
    column = table()[family(target)]
    if lanes not in (1, target.vlen):
        return column
    return column | widths().get(family(target), {}).get(lanes, {})


def declared(program: Program, target: Target, fallbacks: Iterable[Program] = ()) -> Declared:
    """The bound of stack, in bytes, of the entries of `program` on `target`, and what decides it.

    It adds the frames of the entries, the deepest call with its kernel, the red zone of x86-64 and
    a margin, and is a multiple of 16. Without a measurement of a kernel there is no bound:
    `unmeasured` then names these kernels. A build may have the `fallbacks` in place of regions.
    """
    column = figures(target, program.vlen)
    programs = program, *fallbacks
    called = [c.kernel for p in programs for c in p.every_call() if not c.bodies]
    called += [s.create.kernel for s in program.states]
    unmeasured = tuple(sorted({k for k in called if k not in column}))
    if unmeasured:
        return Declared(None, "", "", unmeasured)
    word = target.pointer_bits // 8
    below, call = max((_below(p, column, word) for p in programs), key=lambda found: found[0])
    # A region is a function, and what replaces it another one that it calls.
    regions = any(c.backend != "c" for c in program.every_call())
    below += regions * (_calling(program, word) + 12 * word)
    taken = _entries(program, word) + below
    taken += RED_ZONE if target.arch == "x86_64" else 0
    # The margin covers another version of the compiler than the one that was measured.
    taken = -(-(taken + taken // (MARGIN if target.board else HOST_MARGIN)) // 16) * 16
    kernel = call.kernel if call else ""
    node = (call.origin.nodes or (call.kernel,))[-1] if call else ""
    return Declared(taken, kernel, node, ())


def _entries(program: Program, word: int) -> int:
    """Bytes of the entries above NAME_execute: they hold pointers to inputs and outputs twice."""
    ends = max(1, len(program.inputs)) + max(1, len(program.outputs))
    return (24 + 20 * bool(program.slices) + 3 * ends) * word + 16 * len(program.dynamic_dims)


def _below(program: Program, column: dict[str, int], word: int) -> tuple[int, Call | None]:
    """(bytes, call): the stack below an entry of `program` on its deepest path, and the call that
    decides.

    The bytes are those of the function that makes the calls, which keeps twelve words and the
    arguments of the widest call, and of the deepest call: its kernel's frame from `column` (bytes
    by kernel), or a body's calls with their own function. `word` is the size of a pointer in bytes.
    """
    most, deepest = 0, None
    for call in program.calls:
        inner: Call | None = call
        if call.bodies:
            below = [_below(b.program, column, word) for b in call.bodies]
            taken, inner = max(below, key=lambda b: b[0])
            # The function that runs a body keeps its loop's counters and the body's tensors.
            taken += 16 * word + 2 * word * (len(call.args) + 1)
        else:
            taken = column.get(row_of(call), column[call.kernel])
            taken = max(taken, READING) if call.fetches else taken
            taken += _of_rows(call, word, program)
        if taken >= most:
            most, deepest = taken, inner or call
    return most + _calling(program, word), deepest


def _calling(program: Program, word: int) -> int:
    """Bytes of a function that makes calls of `program`: 12 words, the most arguments."""
    return (12 + max((len(c.args) for c in program.calls), default=0)) * word


def _of_rows(call: Call, word: int, program: Program) -> int:
    """Bytes of the functions that make a row of a call: parameters, pointers to rows, counters."""
    fields = call.params.fields if call.params else ()
    params = sum(len(v) if isinstance(v, tuple) else 1 for _, v in fields)
    if call.fetches:
        return 4 * params + word * (BLOCKS + READER * len(call.fetches))
    segments = [s for s in program.segments if call.rowwise and call.region == STREAMED]
    if not segments or call.rowwise is None:
        shared = SHARED * word if program.threads > 1 and call.splits else 0
        return shared + (4 * params + 2 * word if program.slices or shared else 0)
    span = call.rowwise.span
    return 4 * params + word * (span + 2 * 12) + 2 * max(s.last + 1 - s.first for s in segments)


def record(found: Declared) -> dict[str, Any]:
    """Keys of the manifest's `memory`."""
    return {
        "stack_bytes": found.bytes,
        "stack_kernel": found.kernel,
        "stack_node": found.node,
        "stack_unmeasured": list(found.unmeasured),
    }
