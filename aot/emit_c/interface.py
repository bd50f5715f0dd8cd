# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs as the bundle's sources spell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aot.emit_c import ctext
from aot.emit_c.arena_table import place_text
from aot.emit_c.trace import arena_offset
from aot.ir.plan import Plan
from aot.ir.program import Call, DynamicDimension, Program, Tensor
from aot.plan.memory.states import state_places


def inputs(program: Program) -> list[Tensor]:
    """The model's inputs, in order."""
    return [program.tensors[n] for n in program.inputs]


def outputs(program: Program) -> list[Tensor]:
    """The model's outputs, in order."""
    return [program.tensors[n] for n in program.outputs]


def label(tensor: Tensor) -> str:
    """The name the user knows a tensor by."""
    return tensor.onnx_name or tensor.name


def identifier(tensor: Tensor) -> str:
    """What an input or output is called in C: its ONNX name, whatever the layout inside."""
    return tensor.member or tensor.name


def kind(tensor: Tensor) -> str:
    """`float32[1,3,224,224]`."""
    return f"{tensor.dtype}{ctext.shape(tensor.shape)}"


def signature(program: Program) -> str:
    """Lines of a block comment: every input and output with its index, name and type."""
    lines = []
    for what, tensors in (("input", inputs(program)), ("output", outputs(program))):
        for i, t in enumerate(tensors):
            lines.append(f"{what} {i}: {ctext.plain(label(t))}  {kind(t)}")
    return "\n".join(" *   " + _inside(line) for line in lines) or " *   no inputs or outputs"


def halfway(program: Program) -> str:
    """The statuses with which a run can end when it has begun to compute, "" without any."""
    return ", ".join(sorted({_status(call) for call in program.failing()}))


def _status(call: Call) -> str:
    """The aot_status that NAME_run returns when `call` fails, by its name in C."""
    if call.backend != "c":
        return "AOT_VENDOR"
    if call.kernel == "aot_from_start" or call.kernel.endswith("_checked"):
        return "AOT_OUT_OF_RANGE"
    return "AOT_TOO_LONG" if call.kernel.startswith("aot_text") else "AOT_BAD_SHAPE"


def _inside(text: str) -> str:
    return ctext.comment(text)[3:-3]


def spell_specs(program: Program) -> str:
    """`src/NAME_io.h`, by which generated code checks the tensors of callers (aot_check.h).

    All dimensions are in one table, those of inputs first; a row of a tensor has its place
    there, its rank, type, alignment and bytes. C allows no empty table: it gets a row that
    nothing reads.
    """
    name = program.name
    extents: list[str] = []
    specs = []
    for what, tensors in (("input", inputs(program)), ("output", outputs(program))):
        rows = []
        for t in tensors:
            # A row names the place of its dimensions, so it is made before these are added.
            rows.append(_spec(len(extents), t))
            extents += [ctext.integer(d) for d in t.shape]
        specs.append(
            ctext.table("aot_spec", f"{name}_{what}_specs", rows or ["{0, 0, 0, 0, 1, 0}"])
        )
    tables = [ctext.table("int64_t", f"{name}_extents", extents or ["0"]), *specs]
    tables += [_dynamic(program)] if program.dynamic_dims else []
    return "\n".join(
        [
            "/* SPDX-License-Identifier: MIT-0 */",
            f"/* {name}: shape, axes, DLPack type code, bits, alignment, bytes of each tensor. */",
            '#include "aot_check.h"',
            "",
            *tables,
            "",
        ]
    )


def _spec(extents: int, tensor: Tensor) -> str:
    """The row of a tensor in the table that NAME_check reads.

    It has the index of its first extent, rank, DLPack's type code, bits and bytes of an element,
    bytes.
    """
    d = tensor.dtype
    return f"{{{extents}, {len(tensor.shape)}, {d.dl_code}, {d.bits}, {d.nbytes}, {tensor.nbytes}}}"


def expected(program: Program) -> str:
    """One string per argument of the generic entries, for their error messages."""
    rows = [
        ctext.string(f'{what} "{label(t)[:80]}" {kind(t)[:120]}')
        for what, tensors in (("input", inputs(program)), ("output", outputs(program)))
        for t in tensors
    ]
    return "\n".join(f"    {row}," for row in rows or ['""'])


def places(program: Program, plan: Plan) -> dict[str, object]:
    """What templates are told of tensors that stay in the arena between runs, as C text by name.

    Places are byte offsets in the arena, sizes are bytes; the order is that of the inputs, then the
    outputs. A held output of no bytes and an output that is not held have the place -1.
    """
    ends = inputs(program) + outputs(program)
    arena_io = program.io == "arena"
    held, states = frozenset(program.held), state_places(program, plan) or ()
    return {
        "arena_io": arena_io,
        "arenas": [
            {"memory": p.memory, "MEMORY": p.memory.upper(), "bytes": p.bytes, "begin": p.begin}
            for p in plan.parts
        ],
        "pushed": _pushed(program),
        "held": len(held),
        "held_places": _list(
            arena_offset(program, plan, n) if n in held and program.tensors[n].nbytes else -1
            for n in program.outputs
        ),
        "places": _list(arena_offset(program, plan, t.name) or 0 for t in ends if arena_io),
        "in_bytes": _list(t.nbytes for t in inputs(program)),
        "out_bytes": _list(t.nbytes for t in outputs(program)),
        "carried": len(program.carried),
        "state_places": "\n".join(
            f"#define {program.name.upper()}_STATE_{i} {s.offset}" for i, s in enumerate(states)
        ),
        "shape_places": _shape_places(program, plan),
        "dynamic_outputs": len(program.shapes),
        "symbols": len(program.dynamic_dims),
        "symbol_least": _list(e.least for e in program.dynamic_dims),
        "symbol_most": _list(e.most for e in program.dynamic_dims),
        "symbol_places": _list(arena_offset(program, plan, e.tensor) for e in program.dynamic_dims),
        "dimensions": "\n".join(_inside_comment(e) for e in program.dynamic_dims),
        "clear": "\n".join(
            f"    (void)memset({place_text(program, plan, n, states)}, 0,"
            f" {program.tensors[n].nbytes});"
            for n in program.carried
            if n in plan.placements
        ),
    }


def _pushed(program: Program) -> dict[str, object]:
    """Values for templates about the input that comes by rows; {} if there is none.

    `rows` is how many rows there are, `row_bytes` the bytes of one, `piece_bytes` those of one
    channel of a row, `plane` and `image_plane` elements from channel to channel in a row and in an
    image, `calls` the calls that run by rows.
    """
    if not program.pushed:
        return {}
    tensor, call = program.tensors[program.pushed], program.calls[0]
    assert call.params is not None
    # The first call is the one that takes rows, so its parameters are sizes of the input.
    size: dict[str, Any] = dict(call.params.fields)
    height, lines = call.by_rows.height, f"[{size['c']}]" if size["c"] > 1 else ""
    return {
        "rows": height,
        "row_bytes": tensor.nbytes // height,
        "piece_bytes": size["width"] * size["elem"],
        "plane": size["width"],
        "image_plane": height * size["width"],
        "calls": program.segments[0].last + 1,
        "label": ctext.plain(label(tensor)),
        "kind": f"{tensor.dtype}{lines}[{size['width']}]",
    }


def _inside_comment(e: DynamicDimension) -> str:
    """A comment's line about a dynamic dimension: its name, least and most size, and where
    it is.
    """
    places = ", ".join(f"axis {axis} of input {i}" for i, axis in e.axes)
    return " *   " + _inside(f"{ctext.plain(e.name)}, {e.least} to {e.most}: {places}")


def _dynamic(program: Program) -> str:
    """For every entry of the table of extents: 0, or one more than the number of its dimension."""
    own = {(i, axis): k + 1 for k, e in enumerate(program.dynamic_dims) for i, axis in e.axes}
    rows = [
        str(own.get((i, a), 0))
        for i, t in enumerate(inputs(program))
        for a, _ in enumerate(t.shape)
    ]
    rows += ["0" for t in outputs(program) for _ in t.shape]
    return ctext.table("uint8_t", f"{program.name}_dynamic", rows or ["0"])


def _shape_places(program: Program, plan: Plan) -> str:
    """Where in the arena the shape of each output is, C's -1 for static ones; "" if all are."""
    if not program.shapes:
        return ""
    found = {s.output: arena_offset(program, plan, s.tensor) for s in program.shapes}
    return _list(found.get(i, -1) for i in range(len(program.outputs)))


def _list(values: Iterable[int | None]) -> str:
    return ", ".join(map(str, values)) or "0"


def sizes(program: Program, arena_bytes: int) -> str:
    """`#define TVMGEN_NET_X_SIZE 12`, one per tensor, and the workspace's."""
    found = {
        ctext.ident(identifier(t)).upper(): t.nbytes for t in inputs(program) + outputs(program)
    }
    found.setdefault("WORKSPACE", arena_bytes)  # a tensor of that name goes first
    prefix = f"#define TVMGEN_{program.name.upper()}"
    return "\n".join(f"{prefix}_{name}_SIZE {nbytes}" for name, nbytes in found.items())


def members(tensors: Sequence[Tensor]) -> str:
    """Members of a struct of pointers."""
    lines = [
        f"    {ctext.comment(kind(t))}\n    void *{ctext.ident(identifier(t))};" for t in tensors
    ]
    return "\n".join(lines) or "    void *unused;"


def gather(program: Program) -> str:
    """Statements that fill `in` and `out` from the structs."""
    lines = [
        f"    in[{i}] = (const unsigned char *)inputs->{ctext.ident(identifier(t))};"
        for i, t in enumerate(inputs(program))
    ]
    lines += [
        f"    out[{i}] = (unsigned char *)outputs->{ctext.ident(identifier(t))};"
        for i, t in enumerate(outputs(program))
    ]
    return "\n".join(lines)


def example(program: Program) -> dict[str, object]:
    """What README.md and example_main.c show: declarations and calls for these tensors."""
    ins, outs = inputs(program), outputs(program)
    buffers = [_buffer(program, t, "in", i) for i, t in enumerate(ins)]
    buffers += [_buffer(program, t, "out", i) for i, t in enumerate(outs)]
    wraps = [_wrap(t, "in", i) for i, t in enumerate(ins)]
    wraps += [_wrap(t, "out", i) for i, t in enumerate(outs)]
    # A bar would end the cell of the Markdown table.
    rows = [
        f"| {what} {i} | `{ctext.plain(label(t)).replace('|', '%7C')}` | {t.dtype} "
        f"| {ctext.shape(t.shape)} | {t.nbytes} |"
        for what, tensors in (("input", ins), ("output", outs))
        for i, t in enumerate(tensors)
    ]
    return {
        "buffers": "\n".join(buffers),
        "wraps": "\n".join(wraps),
        "input_list": ", ".join(f"&in{i}" for i in range(len(ins))) or "NULL",
        "output_list": ", ".join(f"&out{i}" for i in range(len(outs))) or "NULL",
        "table": "\n".join(rows),
        "places_list": "\n".join(_places(program, ins, "input") + _places(program, outs, "output")),
    }


def _places(program: Program, tensors: Sequence[Tensor], what: str) -> list[str]:
    """C lines that declare a pointer into the arena for each tensor; `what` is "input" or
    "output".
    """
    lines = []
    for i, t in enumerate(tensors):
        label_ = f"{what}{i}"
        call = f"({t.dtype.c} *){program.name}_{what}(&context, {i})"
        note = ctext.comment(f"{label(t)} {kind(t)}")
        lines += [f"        {note}", f"        {t.dtype.c} *{label_} = {call};"]
    names = [f"        (void){what}{i};" for i in range(len(tensors))]
    return lines + names


def _buffer(program: Program, tensor: Tensor, what: str, index: int) -> str:
    """C lines that declare the data and the shape of a caller's tensor for the example."""
    size = f"TVMGEN_{program.name.upper()}_{identifier(tensor).upper()}_SIZE"
    count = f"{size} / sizeof({tensor.dtype.c})" if tensor.nbytes else "1"
    note = ctext.comment(f"{label(tensor)} {kind(tensor)}")
    extents = ", ".join(ctext.integer(d) for d in tensor.shape) or "0"
    return (
        f"{note}\nstatic {tensor.dtype.c} {what}{index}_data[{count}];\n"
        f"static int64_t {what}{index}_shape[] = {{{extents}}};"
    )


def _wrap(tensor: Tensor, what: str, index: int) -> str:
    """The C line that makes a DLTensor of the example's buffer `what` `index`."""
    d = tensor.dtype
    return (
        f"    DLTensor {what}{index} = tensor({what}{index}_data, {what}{index}_shape, "
        f"{len(tensor.shape)}, {d.dl_code}, {d.bits});"
    )
