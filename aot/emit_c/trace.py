# SPDX-License-Identifier: Apache-2.0
"""What each call writes: the table of the trace build, and `writes` in the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aot.emit_c import ctext
from aot.ir.plan import Plan
from aot.ir.program import Access, Arg, Call, Program, Role, Tensor

#: A long name in a table stands on a line of its own.
NEXT = "\n     "


def writes(program: Program, call: Call) -> Iterator[tuple[Arg, Tensor]]:
    """The tensors `call` writes but scratch and what exists as rows only, in argument order."""
    rows = {n for s in program.segments for n in s.tensors}
    for arg in call.pointers():
        tensor = program.tensors[arg.tensor]
        if program.base(arg.tensor)[0] in rows:
            continue
        if arg.access is not Access.READ and tensor.role is not Role.SCRATCH:
            yield arg, tensor


def reads(program: Program) -> list[list[tuple[Tensor, list[int]]]]:
    """For every call the tensors that it reads, constants and scratch apart, each with the earlier
    calls that wrote bytes of it."""
    found = []
    written: dict[str, dict[tuple[int, int], int]] = {}  # owner -> bytes -> the last writer
    for index, call in enumerate(program.calls):
        args = [(a, program.tensors[a.tensor], *program.base(a.tensor)) for a in call.pointers()]
        args = [a for a in args if program.tensors[a[2]].role not in (Role.CONST, Role.SCRATCH)]
        own = {
            tensor.name: (tensor, sorted({n for (a, z), n in written.get(base, {}).items()
                                          if a < at + tensor.nbytes and at < z}))
            for arg, tensor, base, at in args
            if arg.access is not Access.WRITE
        }  # fmt: skip
        found.append([*own.values()])
        for arg, tensor, base, at in args:
            if arg.access is not Access.READ:
                written.setdefault(base, {})[at, at + tensor.nbytes] = index
    return found


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
    """`src/NAME_trace.h`, compiled into the trace build only, as text.

    It has a row (output or -1 for the arena, offset in bytes, bytes, name) for every tensor that a
    call writes, and a part (offset, bytes) for every piece of the arena that a call may touch; of
    both, a table says where the rows of each call begin. BEFORE(i) lets the sanitizer see call i's
    parts of the arena alone, AFTER(i) hands its results to the trace function, or one NULL if it
    has none, and opens the whole arena again.
    """
    rows: list[str] = []
    parts: list[str] = []
    # The tables have an entry more than there are calls: the rows of a call end where the next
    # begin.
    first_row, first_part = ["0"], ["0"]
    numbers = {name: i for i, name in enumerate(program.outputs)}
    for call in program.calls:
        rows += [_row(program, plan, tensor, numbers) for _, tensor in writes(program, call)]
        parts += _parts(program, plan, call)
        first_row.append(str(len(rows)))
        first_part.append(str(len(parts)))
    name = program.name
    # The sanitizer of hosts watches one arena, boards with several have none.
    base = f"{name}_at(arena, w->offset) - w->offset" if plan.parts else "arena"
    told = (f"{name}_trace_user", "call", "k", "w->tensor", "base + w->offset", "w->bytes")
    return f"""\
/* SPDX-License-Identifier: MIT-0 */
/* {name}: what each call writes and what of the arena it may touch, for the trace build. */
#include "aot_trace.h"

extern aot_trace_fn *{name}_trace_fn;
extern void *{name}_trace_user;
#ifdef {name.upper()}_TRACE_HERE
aot_trace_fn *{name}_trace_fn;
void *{name}_trace_user;
#endif

{ctext.table("aot_trace_write", f"{name}_writes", rows or ['{0, 0, 0, ""}'])}
{ctext.table("int32_t", f"{name}_first_write", first_row)}
{ctext.table("aot_trace_part", f"{name}_parts", parts or ["{0, 0}"])}
{ctext.table("int32_t", f"{name}_first_part", first_part)}

static inline void {name}_before(int32_t call, unsigned char *arena) {{
    int32_t i;
    AOT_TRACE_CLOSE(arena, {plan.arena_bytes});
    for (i = {name}_first_part[call]; i < {name}_first_part[call + 1]; ++i) {{
        AOT_TRACE_OPEN(arena + {name}_parts[i].offset, {name}_parts[i].bytes);
    }}
}}

static inline void {name}_after(int32_t call, unsigned char *arena, unsigned char *const *out) {{
    int32_t i;
    if ({name}_trace_fn != NULL) {{
        for (i = {name}_first_write[call]; i < {name}_first_write[call + 1]; ++i) {{
            const aot_trace_write *w = &{name}_writes[i];
            const unsigned char *base = w->output < 0 ? {base} : out[w->output];
            const int32_t k = i - {name}_first_write[call];
{ctext.call(f"{name}_trace_fn", told)}
        }}
        if ({name}_first_write[call] == {name}_first_write[call + 1]) {{
            {name}_trace_fn({name}_trace_user, call, -1, NULL, NULL, 0);
        }}
    }}
    AOT_TRACE_OPEN(arena, {plan.arena_bytes});
}}
#define BEFORE(index) {name}_before(index, arena)
#define AFTER(index) {name}_after(index, arena, {"NULL" if program.io == "arena" else "out"})
"""


def _parts(program: Program, plan: Plan, call: Call) -> list[str]:
    """C initialisers {offset, bytes} of the arguments of a call that lie in the arena, each
    once.
    """
    found: dict[str, None] = {}
    for arg in call.pointers():
        tensor = program.tensors[arg.tensor]
        owner = program.tensors[program.base(arg.tensor)[0]]
        offset = arena_offset(program, plan, arg.tensor)
        if owner.role in (Role.TEMP, Role.SCRATCH) and offset is not None:
            found[f"{{{offset}, {tensor.nbytes}}}"] = None
    return list(found)


def _row(program: Program, plan: Plan, tensor: Tensor, numbers: Mapping[str, int]) -> str:
    """The C initialiser {output or -1, offset in the arena, bytes, name} of a tensor."""
    base, offset = program.base(tensor.name)
    output = numbers[base] if program.tensors[base].role is Role.OUTPUT else -1
    if output < 0:
        offset = arena_offset(program, plan, tensor.name) or 0
    row, name = f"{{{output}, {offset}, {tensor.nbytes},", ctext.string(tensor.name)
    return f"{row}{' ' if len(row + name) < 90 else NEXT}{name}}}"
