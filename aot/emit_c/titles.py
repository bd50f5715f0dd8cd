# SPDX-License-Identifier: Apache-2.0
"""What a comment on a call says: its operators with the shapes of tensors, its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from aot.emit_c.arena_table import kind
from aot.ir.program import Call, Program, Role


def title(program: Program, call: Call, otherwise: str = "") -> list[str]:
    """Lines of a comment on a call: operators with shapes read and written, then nodes.

    `otherwise`, or the kernel, is shown for a call without operators; constants and scratch have no
    shape here.
    """
    ops = " + ".join(_counted(call.origin.ops)) or otherwise or call.kernel
    own = [program.tensors[n] for n in dict.fromkeys((*call.reads(), *call.writes()))]
    known = {t.name: kind(t) for t in own if t.role not in (Role.CONST, Role.SCRATCH)}
    sides = [
        ", ".join(known[n] for n in side if n in known) for side in (call.reads(), call.writes())
    ]
    ops += f" ({call.origin.comment})" if call.origin.comment else ""
    line = f"{ops}: {' -> '.join(sides)}".replace(":  ->", ": ->") if any(sides) else ops
    nodes = ", ".join(call.origin.onnx_names or call.origin.nodes)
    return [line, f"nodes: {nodes}"] if nodes else [line]


def _counted(ops: Sequence[str]) -> list[str]:
    """Operators in order; of equal ones in a row their number: `2 DequantizeLinear`."""
    runs = ((op, len(list(run))) for op, run in groupby(ops))
    return [op if count == 1 else f"{count} {op}" for op, count in runs]
