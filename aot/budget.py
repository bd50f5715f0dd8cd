# SPDX-License-Identifier: Apache-2.0
"""Budgets: met, or an error that names the operator at the peak, its tensors and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.errors import TargetError, UnsupportedError
from aot.memory.frame import framed, is_framed
from aot.options import Options
from aot.placement import Needs, check_fit
from aot.program import Program, Role

if TYPE_CHECKING:
    from aot.partition.select import Partition
    from aot.pipeline import Compiled


def check_budgets(compiled: Compiled, options: Options) -> None:
    """Raise if the arena is larger than `options.ram`, or C is used where a backend is required."""
    if options.require_backend:
        check_backends(compiled.partition)
    check_fit(compiled.target, _needs(compiled))
    arena = compiled.plan.arena_bytes
    if options.ram is None or arena <= options.ram:
        return
    program = compiled.program
    step, live = peak(program)
    call = program.calls[step]
    largest = sorted(live, key=lambda n: -program.tensor(n).nbytes)[:4]
    tensors = ", ".join(f"{n} {program.tensor(n).nbytes}" for n in largest)
    nodes = " + ".join(call.origin.nodes) or call.kernel
    raise TargetError(
        f"--ram {options.ram}: the arena needs {arena} bytes",
        f"the peak at {nodes} ({', '.join(call.origin.ops)}), bytes live: {tensors}",
        _help(options),
    )


def _needs(compiled: Compiled) -> Needs:
    from aot.emit_c.board import needs_of

    constants = int(compiled.manifest["memory"]["constants_bytes"])
    return needs_of(compiled.program, compiled.plan.arena_bytes, constants)


def check_backends(partition: Partition) -> None:
    """Raise UnsupportedError if portable C computes anything."""
    items = partition.items
    left = [s.match.root for s in items if s.backend == "c"]
    if left:
        names = ", ".join(f"{n.onnx_name} ({n.op_type})" for n in left[:6])
        raise UnsupportedError(
            f"--require-backend: {len(left)} of {len(items)} calls fall to portable C: {names}"
            + (" …" if len(left) > 6 else ""),
            hint="`aotc explain MODEL --backend …` says why",
        )


def _help(options: Options) -> str:
    if options.objective != "ram":
        return "--objective ram saves scratch memory; a smaller input shape saves the rest"
    return "a smaller input shape, or a model with narrower layers there"


def peak(program: Program) -> tuple[int, list[str]]:
    """The call with the most bytes live in the arena, and the tensors that own them."""
    program = framed(program)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, call in enumerate(program.calls):
        for name in (*call.reads(), *call.writes()):
            owner = program.base(name)[0]
            if program.tensor(owner).role in (Role.TEMP, Role.SCRATCH):
                first.setdefault(owner, step)
                last[owner] = step
    best, best_live, most = 0, list[str](), -1
    for step in range(len(program.calls)):
        live = [n for n in first if first[n] <= step <= last[n]]
        total = sum(program.tensor(n).nbytes for n in live)
        if total > most:
            best, best_live, most = step, live, total
    if is_framed(program):  # what is live between runs is live in the first and the last call
        best = min(max(best - 1, 0), len(program.calls) - 3)
    return best, best_live
