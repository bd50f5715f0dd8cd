# SPDX-License-Identifier: Apache-2.0
"""Share calls among the threads of `--threads N`.

Lowerings say how a call can be cut (`Call.splits`); here the way is chosen that leaves the least to
the busiest thread, every thread gets scratch of its own, and in-place permissions go where
a part would write what another part reads. Kernels are the same as those of one thread, and so are
the bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aot.errors import UnsupportedError
from aot.ir.check_splits import check_splits
from aot.ir.program import Arg, Call, Program, Role
from aot.ir.splits import Split
from aot.target import Target

#: Work of the smallest call that is cut, in multiplications: to start threads that wait and to
#: await them takes 2 to 5 us, in which a core multiplies 100 to 200 thousand times.
LEAST_WORK = 400_000
#: Multiplications that take as long as a byte that is read or written.
BYTE = 4


def check_threads(threads: int, target: Target, package: Sequence[str], single: bool) -> None:
    """Raise UnsupportedError where the target, a package or a `single` file has no threads."""
    if threads > 1 and target.board:
        what = f"--threads {threads}: target {target.name} has no operating system with threads"
        raise UnsupportedError(what, hint="leave --threads out; hosts have threads")
    if threads > 1 and single:
        what = f"--single-file with --threads {threads}: the pool has a source of its own"
        raise UnsupportedError(what, hint="leave --single-file or --threads out")
    if threads > 1 and package:
        what = f"--package {package[0]} with --threads {threads}"
        raise UnsupportedError(what, hint="packages link no threads; leave --threads out")


def threaded(program: Program, threads: int, by_rows: bool) -> Program:
    """The program with a split for each call that is worth it; unchanged with one thread.

    With `by_rows` calls that can be cut by rows of the result are cut in no other way.
    """
    if threads == 1:
        return program
    tensors, calls = dict(program.tensors), []
    for call in program.calls:
        split = _chosen(program, call, threads, by_rows)
        if split is None:
            calls.append(replace(call, splits=()))
            continue
        # A part may overwrite what another part still reads, so permissions go unless a part is
        # alone.
        calls.append(replace(call, splits=(split,), inplace=split.without(call.inplace)))
        for name in (a.tensor for a in call.pointers()):
            if tensors[name].role is Role.SCRATCH:
                # Each thread has scratch of its own, aligned, so that threads share no cache line
                # of it.
                each = -(-tensors[name].nbytes // tensors[name].align) * tensors[name].align
                tensors[name] = replace(tensors[name], shape=(each * threads,))
    made = replace(program, tensors=tensors, calls=tuple(calls), threads=threads)
    check_splits(made)
    return made


def record(program: Program) -> dict[str, Any]:
    """The key `threads` of the manifest: their number, and the calls that they share."""
    split = [(i, c.splits[0]) for i, c in enumerate(program.calls) if c.splits and c.region == -1]
    calls = [{"call": i, "units": s.units, "tile": s.tile} for i, s in split]
    return {"count": program.threads, "calls": calls}


def _chosen(program: Program, call: Call, threads: int, by_rows: bool) -> Split | None:
    """The split whose largest part is the smallest; None where a call is made whole."""
    if call.region != -1 or call.status or not call.splits or _work(program, call) < LEAST_WORK:
        return None
    rows = [s for s in call.splits if any(f.member == "y0" for f in s.fields)]
    ways: Iterable[Split] = rows if rows and by_rows else call.splits
    best = min((s for s in ways if not s.line), key=lambda s: s.share(threads), default=None)
    return best if best and best.share(threads) < 1 else None


def _work(program: Program, call: Call) -> int:
    """Multiplications of a call, and what it reads and writes in their stead."""
    touched = {a.tensor for a in call.args if isinstance(a, Arg)}
    return call.macs + BYTE * sum(
        program.tensors[n].nbytes for n in touched if program.tensors[n].role is not Role.CONST
    )
