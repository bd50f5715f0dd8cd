# SPDX-License-Identifier: Apache-2.0
"""Calls that threads share: a function makes one part of a call, with parameters of its own.

static void net_part7(void *job, int32_t part) {
    const aot_parts *const all = (const aot_parts *)job;
    unsigned char *const arena = all->arena;
    const int32_t first = aot_share(all, part, 1);        units of this part
    const int32_t end = aot_share(all, part + 1, 1);
    if (first < end) {
        net_k3_conv(BUF_y + (size_t)first * 4096, BUF_x, …, &net_p5, first, end);
    }
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot.emit_c import ctext
from aot.ir.program import Arg, Program, Role, Tensor
from aot.ir.splits import PartField, Split

#: Makes units `from` to `to` - 1 of a call by the function of a part.
SPLIT = (
    "#define SPLIT(part, from, to) \\\n"
    "    (job.first = (from), job.end = (to), aot_parallel_for(pool, threads, part, &job))"
)


def shares(program: Program) -> bool:
    """Whether threads share calls of the program."""
    return program.threads > 1 and any(c.splits and c.region == -1 for c in program.calls)


def job(known: Sequence[str]) -> str:
    """The declaration of what the parts of a run are given; a run has the pointers `known`."""
    given = [a if a in known else "NULL" for a in ("arena", "in", "out", "state", "weights")]
    return f"    aot_parts job = {{{', '.join(given)}, 0, 0, threads}};"


def copied(ctype: str, params: str, fields: Sequence[PartField]) -> str:
    """The declaration of `rows`, a copy of `params` of the type `ctype`, and the statements that
    tell it which units a part makes."""
    counted = ""
    if any(f.value == "line" for f in fields):
        of = next(f for f in fields if f.value == "count")
        whole = f"rows.{_member(of)}"
        units = f"({whole} + {of.scale - 1}) / {of.scale}" if of.scale > 1 else whole
        counted = f"    const int32_t units = {units}; /* of a row */\n"
        counted += "    const int32_t line = first / units;\n"
        counted += "".join(f"    {n} -= line * units;\n" for n in ("first", "end"))
    return f"    {ctext.ident(ctype)} rows = {params};\n" + counted + told(fields)


def told(fields: Sequence[PartField]) -> str:
    """The statements that tell `rows` which units a part makes."""
    return "".join(f"    rows.{_member(f)} = {_value(f)};\n" for f in fields)


def _member(field: PartField) -> str:
    """The C name of the member, with the index of an element."""
    return ctext.ident(field.member) + (f"[{field.index}]" if field.index >= 0 else "")


def _value(field: PartField) -> str:
    """The value of a member for the part `first` to `end` - 1, in C."""
    first, end = (f"{n} * {field.scale}" if field.scale > 1 else n for n in ("first", "end"))
    if field.total % field.scale:  # the last unit is no whole one
        end = f"({end} < {field.total} ? {end} : {field.total})"
    values = {"first": first, "end": end, "count": f"{end} - {first}", "one": "1", "line": "line"}
    values |= {"past": "line + 1", "less": f"rows.{_member(field)} - {first}"}
    return values[field.value]


def moved(text: str, number: int, arg: Arg, tensor: Tensor, split: Split, threads: int) -> str:
    """Argument `number`, whose address is `text`, for a part: its first unit, or its own scratch.

    `tensor` is the argument's; scratch has room for so many `threads`, one of which needs no more.
    """
    if tensor.role is Role.SCRATCH:
        if threads == 1:
            return text
        return f"{text} + (size_t)part * {tensor.nbytes // threads}"
    step = dict(split.moves).get(number, 0)
    bytewise = "(const unsigned char *)" * (tensor.role is Role.CONST)  # a table may have a type
    unit = f"(first % {split.line})" if split.line and number not in split.along else "first"
    return f"{bytewise}{text} + (size_t){unit} * {step}" if step else text


def part_function(name: str, declared: Mapping[str, str], tile: int, call: str) -> str:
    """The function `name` that makes one part of a call by the statement `call`.

    `declared` are the pointers of a run and their declarations; parts begin at multiples of `tile`.
    """
    lines = [f"static void {name}(void *job, int32_t part) {{"]
    lines += ["    const aot_parts *const all = (const aot_parts *)job;"]
    for pointer, text in declared.items():
        lines.append(f"    {text.removesuffix(pointer)}const {pointer} = all->{pointer};")
    for at, number in (("first", "part"), ("end", "part + 1")):
        lines.append(f"    const int32_t {at} = aot_share(all, {number}, {tile});")
    lines += [f"    (void){pointer};" for pointer in declared]
    return "\n".join([*lines, "    if (first < end) {", call, "    }", "}", ""])
