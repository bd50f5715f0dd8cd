# SPDX-License-Identifier: Apache-2.0
"""What each call writes: the table of the trace build, and `writes` in the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from aot.emit_c import ctext
from aot.program import Access, Arg, Call, Program, Role, Tensor

if TYPE_CHECKING:
    from aot.memory.plan import Plan


def writes(program: Program, call: Call) -> Iterator[tuple[Arg, Tensor]]:
    """The tensors `call` writes, scratch apart, in argument order."""
    for arg in call.pointers():
        tensor = program.tensors[arg.tensor]
        if arg.access is not Access.READ and tensor.role is not Role.SCRATCH:
            yield arg, tensor


def arena_offset(program: Program, plan: Plan, name: str) -> int | None:
    """Byte offset in the arena of a tensor that is a view or a whole; None if it is not there."""
    if name in plan.placements:
        return plan.placements[name].offset
    base, offset = program.base(name)
    return plan.placements[base].offset + offset if base in plan.placements else None


def last_writers(program: Program) -> dict[str, int]:
    """Tensor → index of the last call that writes it."""
    last: dict[str, int] = {}
    for index, call in enumerate(program.calls):
        for arg, _ in writes(program, call):
            last[arg.tensor] = index
    return last


def spell_trace(program: Program, plan: Plan) -> str:
    """`src/NAME_trace.h`, compiled into the trace build only."""
    rows, first = [], [0]
    for call in program.calls:
        rows += [_row(program, plan, tensor) for _, tensor in writes(program, call)]
        first.append(len(rows))
    name = program.name
    return f"""\
/* SPDX-License-Identifier: MIT-0 */
/* {name}: what each call writes, for the trace build. */
#include "aot_trace.h"

aot_trace_fn *{name}_trace_fn;
void *{name}_trace_user;

static const aot_trace_write {name}_writes[] = {{
{ctext.wrap(rows or ['{0, 0, 0, ""}'])}
}};
static const int32_t {name}_first_write[] = {{
{ctext.wrap([str(f) for f in first])}
}};

static void {name}_trace(int32_t call, unsigned char *arena, unsigned char *const *out) {{
    int32_t i;
    if ({name}_trace_fn == NULL)
        return;
    for (i = {name}_first_write[call]; i < {name}_first_write[call + 1]; ++i) {{
        const aot_trace_write *w = &{name}_writes[i];
        const unsigned char *base = w->output < 0 ? arena : out[w->output];
        {name}_trace_fn({name}_trace_user, call, i - {name}_first_write[call], w->tensor,
                        base + w->offset, w->bytes);
    }}
    if ({name}_first_write[call] == {name}_first_write[call + 1])
        {name}_trace_fn({name}_trace_user, call, -1, NULL, NULL, 0);
}}
#define TRACE(index) {name}_trace(index, arena, out)
"""


def _row(program: Program, plan: Plan, tensor: Tensor) -> str:
    base, offset = program.base(tensor.name)
    output = program.outputs.index(base) if program.tensors[base].role is Role.OUTPUT else -1
    if output < 0:
        offset = arena_offset(program, plan, tensor.name) or 0
    return f"{{{output}, {offset}, {tensor.nbytes}, {ctext.string(tensor.name)}}}"
