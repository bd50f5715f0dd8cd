# SPDX-License-Identifier: Apache-2.0
"""Memory that calls name: a table of the arena, and a macro for every place that code refers to.

    /* offset  bytes  calls  value
     *      0   1024    0-2  BUF_conv1: float32[1,16,4,4] */
    #define BUF_conv1 (arena + 0)

Macros cost nothing: what they stand for is added when the file is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aot.emit_c import ctext
from aot.emit_c.naming import Names
from aot.emit_c.trace import arena_offset
from aot.ir.layout import PLAIN
from aot.ir.plan import Plan
from aot.ir.program import Program, Role, Tensor
from aot.plan.memory.states import StatePlace, state_places


@dataclass(slots=True)
class MemoryMacros:
    """Macros for places in memory that the calls of one file name, in order of first use.

    `arena` maps (program, tensor) to its macro, `constants` a constant to its macro and address.
    """

    names: Names = field(default_factory=Names)
    arena: dict[tuple[str, str], str] = field(default_factory=dict)
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)

    def buffer(self, program: Program, tensor: str) -> str:
        """The macro of a tensor of the arena."""
        key = (program.name, tensor)
        if key not in self.arena:
            self.arena[key] = self.names.name("BUF_", *key)
        return self.arena[key]

    def constant(self, name: str, address: str) -> str:
        """The macro of the constant called `name` whose first byte is at `address`."""
        if name not in self.constants:
            self.constants[name] = (self.names.name("CONST_", name), address)
        return self.constants[name][0]


def kind(tensor: Tensor) -> str:
    """`float32[1,16,4,4]`, with the layout where it is not ONNX's."""
    layout = "" if tensor.layout == PLAIN else f" {tensor.layout}"
    return f"{tensor.dtype}{ctext.shape(tensor.shape)}{layout}"


def planned_parts(program: Program, plan: Plan) -> Iterator[tuple[Program, Plan]]:
    """The program and all within its calls, with their plans."""
    yield program, plan
    for call in program.calls:
        for body in call.bodies:
            assert body.plan is not None
            yield from planned_parts(body.program, body.plan)


def place_text(program: Program, plan: Plan, name: str, states: Sequence[StatePlace]) -> str:
    """The address of a tensor of the arena in C; `states` are places that `aotc link` may move."""
    offset = arena_offset(program, plan, name) or 0
    for number, state in enumerate(states):
        if name in state.tensors:
            return f"arena + {program.name.upper()}_STATE_{number}" + (
                f" + {offset - state.offset}" if offset > state.offset else ""
            )
    part, inside = plan.at(offset)
    return f"{arena_of(program, plan, part)} + {inside}"


def arena_of(program: Program, plan: Plan, part: int) -> str:
    """The C expression for the arena in the memory of part `part`; `arena` is the first."""
    return (
        f"{program.name.upper()}_IN_{plan.parts[part].memory.upper()}(arena)" if part else "arena"
    )


def spell_arena(
    macros: MemoryMacros, root: Program, program: Program, plan: Plan, whole: bool
) -> list[str]:
    """The table and the macros of one program's arena; [] if no call names a place in it.

    `program` is `root` or within its calls. The table has the tensors that this file names, or with
    `whole` every one that has a place.
    """
    if whole:
        for name in _placed(program, plan):
            macros.buffer(program, name)
    named = [n for owner, n in macros.arena if owner == program.name]
    # In the order of places, neighbours in the table are neighbours in memory.
    used = sorted(named, key=lambda n: (arena_offset(program, plan, n) or 0, n))
    if not used:
        return []
    calls = _calls(program)
    several = bool(plan.parts)
    rows = [(*["memory"] * several, "offset", "bytes", "calls", "value")]
    for name in used:
        tensor = program.tensors[name]
        first, last = _live(program, plan, calls, name)
        what = f"{macros.buffer(program, name)}: {kind(tensor)}{_more(program, tensor)}"
        part, offset = plan.at(arena_offset(program, plan, name) or 0)
        where = [p.memory for p in plan.parts[part : part + 1]]
        rows.append((*where, str(offset), str(tensor.nbytes), f"{first}-{last}", what))
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]) - 1)]
    head = f"The arena of {program.name}: {plan.arena_bytes} bytes. Values, and the first and last"
    lines = [f"{head} call that needs each."]
    lines += [
        "  ".join([*(t.rjust(w) for t, w in zip(r, widths, strict=False)), r[-1]]) for r in rows
    ]
    states = state_places(program, plan) or () if program is root else ()
    defined = [
        f"#define {macros.buffer(program, n)} ({place_text(program, plan, n, states)})"
        for n in used
    ]
    return [ctext.block(lines, hang=sum(widths) + 6), *defined, ""]


def spell_constants(macros: MemoryMacros, tensors: Mapping[str, Tensor]) -> list[str]:
    """The macros of constants that are in a file, each below its full name and type."""
    lines = []
    for name, (macro, address) in macros.constants.items():
        lines += [ctext.block([f"{name}: {kind(tensors[name])}"]), f"#define {macro} ({address})"]
    return [*lines, ""] if lines else []


def _placed(program: Program, plan: Plan) -> list[str]:
    """The tensors with a place in the arena, lowest first."""
    owned = (Role.INPUT, Role.OUTPUT, Role.TEMP, Role.SCRATCH)
    found = {n for n in plan.placements if program.tensors[n].role in owned}
    return sorted(found, key=lambda n: (arena_offset(program, plan, n) or 0, n))


def _more(program: Program, tensor: Tensor) -> str:
    """What else there is to say: scratch, the tensor that a view is a part of, the ONNX name."""
    said = " scratch" if tensor.role is Role.SCRATCH else ""
    if tensor.view:
        said += f", a part of {program.base(tensor.name)[0]}"
    known = tensor.onnx_name in ("", tensor.name)
    return said + ("" if known else f", in ONNX {tensor.onnx_name}")


def _calls(program: Program) -> Mapping[str, Sequence[int]]:
    """Numbers of the calls that touch each tensor or a view of it, in order."""
    found: dict[str, list[int]] = {}
    for index, call in enumerate(program.calls):
        for arg in call.pointers():
            for name in {arg.tensor, program.base(arg.tensor)[0]}:
                found.setdefault(name, []).append(index)
    return found


def _live(
    program: Program, plan: Plan, calls: Mapping[str, Sequence[int]], name: str
) -> tuple[int, int]:
    """(first, last): indices of the first and the last call that needs the bytes of tensor `name`.

    `calls` has the indices of calls that touch a tensor, ascending, by name; a view falls back on
    its owner. Inputs are needed from the start, outputs and true shapes to the end, states always.
    """
    touched = calls.get(name) or calls.get(program.base(name)[0]) or (0,)
    first, last = touched[0], touched[-1]
    if name in program.carried:
        return 0, len(program.calls) - 1
    if name in program.inputs:
        first = 0
    if name in program.outputs or name in {s.tensor for s in program.shapes}:
        last = len(program.calls) - 1
    return first, last
