# SPDX-License-Identifier: Apache-2.0
"""`src/NAME_rows.c`: calls that are made row by row.

static void net_row3(unsigned char *arena, int32_t r) {         row r of call 3
    aot_qconv_s8_params p = net_p3;
    const int8_t *at[3];                                        its window of rows
    const aot_row_span span = aot_rows_placed(at, arena, net_places + 32, r - 1, 3, 32);
    p.ih = span.rows;                                           an image of those that exist
    p.pt = span.above;
    net_k0_qconv_s8(ROW(64 + r), at, c_w, c_b, c_m, arena + 512, &p);
}

A table says which call makes its next row at every step, another one where every row is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.emit_c import ctext
from aot.emit_c.constants import Constants
from aot.emit_c.kernels import Headers
from aot.emit_c.naming import local
from aot.emit_c.run_order import spell_file
from aot.emit_c.spelling import (
    PARAMETERS,
    Spelling,
    has_status,
    pointer,
    region_arguments,
    row_wrapper,
    spelling,
)
from aot.emit_c.titles import title
from aot.ir.plan import Plan
from aot.ir.program import Access, Arg, Call, Program, Role, Scalar
from aot.ir.rows import STREAMED, Rowwise, Segment, Window
from aot.plan.streaming.order import Run
from aot.plan.streaming.unrolled import sums_name
from aot.target import Target


@dataclass(frozen=True, slots=True)
class Table:
    """Where rows are: `places` in units of `unit` bytes, those of a tensor from `first` on."""

    places: tuple[int, ...]
    unit: int
    first: dict[str, int]

    @property
    def ctype(self) -> str:
        """The type of a place."""
        return "uint16_t" if max(self.places, default=0) < 1 << 16 else "uint32_t"


def table_of(plan: Plan) -> Table:
    """The places of all rows, one tensor behind the other."""
    places: list[int] = []
    first: dict[str, int] = {}
    for name, offsets in (plan.rows or {}).items():
        first[name] = len(places)
        places += offsets
    unit = math.gcd(*places, plan.arena_bytes)
    return Table(tuple(p // unit for p in places), unit, first)


def declarations(program: Program) -> str:
    """What the file with all calls knows of segments."""
    heads = [_head(program, i, ";", "AOT_HIDDEN ") for i in range(len(program.segments))]
    for index, head in enumerate(heads):
        if has_status(program, index):
            heads[index] = head.replace("AOT_HIDDEN ", "AOT_HIDDEN AOT_WARN_UNUSED ", 1)
    note = "/* Calls that are made row by row. */"
    return "\n".join(["", note, *heads, ""]) if heads else ""


def row_arguments(root: Program, program: Program, number: int) -> list[str]:
    """What the function of segment `number` is given; the first one takes what is pushed."""
    return region_arguments(root, program) + ["push"] * bool(program.pushed and number == 0)


def _head(program: Program, index: int, tail: str, before: str = "") -> str:
    """The head of the C function of segment `index`; `tail` follows it and `before` precedes it."""
    passed = row_arguments(program, program, index)
    result = "aot_status" if has_status(program, index) else "void"
    name = f"{before}{result} {program.name}_rows{index}"
    return ctext.call(name, [PARAMETERS[a] for a in passed], tail)


def spell_rows(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    headers: Headers,
    owner: str = "",
    failures: Mapping[str, str] | None = None,
) -> str:
    """The C file of all segments: the table of places of rows, a function per call's row and per
    segment. A part of another model names that as `owner`; `failures` are, by vendor, functions
    that are told of errors.
    """
    s = spelling(program, plan, constants, headers, "none")
    s.failures = failures or {}
    # Places count units, not bytes, so that 16 bits are enough for most arenas.
    table = table_of(plan)
    functions = []
    for number, segment in enumerate(program.segments):
        functions += _segment(s, table, number, segment)
    before = [
        f"typedef {table.ctype} aot_row_place; /* where a row is, in units of the arena */",
        f"#define AOT_ROW_UNIT {table.unit}",
        "#define AOT_ROW_TABLES",
        f"#define AOT_ROW_BATCH {max(c.rowwise.batch if c.rowwise else 1 for c in program.calls)}",
    ]
    places = f"static const aot_row_place {local(program.name, 'places')}[] = {{\n"
    places += ctext.wrap([str(p) for p in table.places]) + "\n};\n"
    row = f"#define ROW(k) (arena + (size_t){local(program.name, 'places')}[k] * AOT_ROW_UNIT)\n"
    what = "calls that are made row by row"
    functions = [places, row, *functions]
    return spell_file(s, target, what, [STREAMED], functions, owner, before)


def _segment(spelling: Spelling, table: Table, number: int, segment: Segment) -> list[str]:
    """C of segment `number`: functions of rows, the order of calls as a table, and the loop over
    it.

    `made` counts the rows of each call. A pushed segment keeps it between calls, and returns
    AOT_MORE where it needs a row that was not given yet.
    """
    run = Run(spelling.program, segment.first, segment.last)
    made = [_row(spelling, table, run, index) for index, _ in run.calls()]
    name = local(spelling.program.name, f"steps{number}")
    steps = ctext.wrap([str(i - segment.first) for i in segment.steps])
    count = segment.last + 1 - segment.first
    # The table has an entry for each row of every call, so its type is the smallest.
    kind = "uint8_t" if count <= 256 else "uint16_t"
    passed = region_arguments(spelling.root, spelling.program)
    pushed = bool(spelling.program.pushed) and number == 0
    cases = []
    stops = any(call.status for _, call in run.calls())
    for k, (_, call) in enumerate(run.calls()):
        function = local(spelling.program.name, f"row{segment.first + k}")
        arguments = ", ".join([*passed, *["push"] * (pushed and k == 0), "r"])
        cases += [f"        case {k}:" if k + 1 < count else "        default:"]
        told = "status = " * call.status
        cases += [f"            {told}{function}({arguments});", "            break;"]
    if pushed:
        begin = ["    uint16_t *const made = push->made;"]
        loop = [
            f"    for (; push->step < sizeof {name} / sizeof {name}[0]; ++push->step) {{",
            f"        const int k = {name}[push->step];",
            "        const int32_t r = made[k];",
            "        if (k == 0 && r >= push->given) {",
            "            return AOT_MORE;",
            "        }",
            "        ++made[k];",
            "        switch (k) {",
        ]
    else:
        begin = [f"    uint16_t made[{count}];", "    size_t i;"]
        loop = [
            "    (void)memset(made, 0, sizeof made);",
            f"    for (i = 0; i < sizeof {name} / sizeof {name}[0]; ++i) {{",
            f"        const int32_t r = made[{name}[i]]++;",
            f"        switch ({name}[i]) {{",
        ]
    return [
        *made,
        f"/* Which of the calls makes its next row: numbers from call {segment.first} on. */",
        f"static const {kind} {name}[] = {{\n{steps}\n}};",
        "",
        _head(spelling.program, number, " {"),
        *begin,
        *["    aot_status status = AOT_OK;"] * stops,
        *(f"    (void){a};" for a in passed),
        *loop,
        *cases,
        "        }",
        *["        if (status != AOT_OK) {", "            return status;", "        }"] * stops,
        "    }",
        *["    return AOT_OK;"] * has_status(spelling.program, number),
        "}",
        "",
    ]


def _row(spelling: Spelling, table: Table, run: Run, index: int) -> str:
    """The C function that makes row `r` of call `index`.

    Fields of the parameters that depend on the row are set in a copy `p`; the rest stays constant.
    """
    call = spelling.program.calls[index]
    rowwise = call.by_rows
    given = given_call(spelling.program, call, rowwise)
    function, params = row_wrapper(spelling, given)
    lines = _first(rowwise)
    times, size, pieces = _pieces(spelling.program, table, call, rowwise)
    arguments = [
        _piece(spelling.program, table, rowwise, i, arg, times).format(
            _argument(spelling, table, call, rowwise, i, arg, lines)
        )
        for i, arg in enumerate(given.args)
        if not (isinstance(arg, Scalar) and arg.ctype.replace(" ", "") == "void*")
    ]
    if given.params:
        assert params
        values = _VALUES | {"piece": str(size), "pieces": str(pieces)}
        values |= {"one": "count"} if rowwise.batch > 1 else {}
        set_here = [f"    {_member(f)} = {values.get(f[2], f[2])};" for f in rowwise.fields]
        set_here += _distances(spelling.program, table, call, rowwise)
        if set_here:
            lines.insert(0, f"    {ctext.ident(given.params.ctype)} p = {params};")
            lines += set_here
        arguments.append("&p" if set_here else f"&{params}")
    takes = index == 0 and bool(spelling.program.pushed)
    passed = row_arguments(spelling.root, spelling.program, 0 if takes else 1)
    result = "aot_status" if call.status else "void"
    name = f"AOT_NOINLINE static {result} {local(spelling.program.name, f'row{index}')}"
    told = "int32_t r" if rowwise.batch == 1 else "int32_t step"
    head = ctext.call(name, [*(PARAMETERS[a] for a in passed), told], " {")
    unused = [f"    (void){a};" for a in passed]
    # Declarations come before statements, as everywhere in emitted C.
    declared = [line for line in lines if not line.startswith("    p.")]
    rest = [line for line in lines if line.startswith("    p.")]
    note = ctext.block(title(spelling.program, call))
    said = _said(spelling, call, index)
    made = [ctext.call(function, arguments)]
    if said:
        made = [f"    status = {made[0].strip()}", *said]
        declared.append("    aot_status status = AOT_OK;")
    if times > 1:
        go = " && status == AOT_OK" * bool(said)
        made = [f"    int32_t k;\n    for (k = 0; k < {times}{go}; ++k) {{", *made, "    }"]
    made += ["    return status;"] * bool(said)
    return "\n".join([note, head, *declared, *unused, *rest, *made, "}", ""])


def _said(spelling: Spelling, call: Call, index: int) -> list[str]:
    """What tells the vendor's function for errors of a row of call `index` that failed."""
    told = [""] if call.status else []
    if call.status and (failed := spelling.failures.get(call.backend)):
        label = spelling.label(call, "", index)
        told = [f"    if (status != AOT_OK) {{\n        {failed}({label}, status);\n    }}"]
    return told


def _first(rowwise: Rowwise) -> list[str]:
    """The first row `r` of step `step` and how many rows it makes, where that may be several."""
    batch, lead, height = rowwise.batch, rowwise.lead, rowwise.height
    if batch == 1:
        return []
    first, count = f"step * {batch}", str(batch)
    if (height + lead) % batch:
        count = f"{height} - r < {batch} ? {height} - r : {batch}"
    if lead:
        first, count = f"step > 0 ? {first} - {lead} : 0", f"step == 0 ? {batch - lead} : {count}"
    return [f"    const int32_t r = {first};", f"    const int32_t count = {count};"]


_VALUES = {"rows": "span.rows", "above": "span.above", "one": "1", "row": "r", "next": "r + 1"}
_VALUES |= {"plane": "push->plane", "top": "top"}


def _member(field: tuple[str, int, str]) -> str:
    """The C lvalue of a field of `p`, a copy of the kernel's parameters that a row may change.

    `field` is (name, index in a field that is an array or -1, key of the expression that is
    assigned).
    """
    name, at, _ = field
    return f"p.{ctext.ident(name)}" + (f"[{at}]" if at >= 0 else "")


def _distances(program: Program, table: Table, call: Call, rowwise: Rowwise) -> list[str]:
    """What tells the kernel how far the pieces of rows are apart that have places of their own."""
    found: dict[str, int] = {}
    for planes in rowwise.planes:
        arg = call.args[planes.arg]
        own = isinstance(arg, Arg) and program.base(arg.tensor)[0] in table.first
        if own and planes.count > 1 and planes.member:
            found[planes.member] = planes.size
    parts = ((member.partition("["), size) for member, size in found.items())
    return [f"    p.{ctext.ident(name)}{'[' * bool(at)}{at} = {n};" for (name, _, at), n in parts]


def _pieces(program: Program, table: Table, call: Call, rowwise: Rowwise) -> tuple[int, int, int]:
    """How often the kernel is called for a row, and the elements and pieces that it is given at a
    time: all pieces where they follow each other, piece by piece in whole tensors.
    """
    found = [p for p in rowwise.planes if not p.member]
    if not found:
        return 1, 0, 0
    args = [call.args[p.arg] for p in found if p.arg in rowwise.single]
    apart = any(isinstance(a, Arg) and program.base(a.tensor)[0] not in table.first for a in args)
    times = found[0].count if apart else 1
    pieces = found[0].count // times
    return times, found[0].size * pieces, pieces


def _piece(
    program: Program, table: Table, rowwise: Rowwise, index: int, arg: object, times: int
) -> str:
    """Piece `k` of a row of argument `index` in C, where "{}" is the first one."""
    planes = next((p for p in rowwise.planes if p.arg == index), None)
    if planes is None or not isinstance(arg, Arg) or times == 1:
        return "{}"
    nbytes = program.tensors[arg.tensor].nbytes // planes.count
    by_rows = program.base(arg.tensor)[0] in table.first
    further = nbytes // (rowwise.height if by_rows else 1)
    return f"{_bytewise(program, arg)}{{}} + (ptrdiff_t)k * {further}"


def _bytewise(program: Program, arg: Arg) -> str:
    """The cast before an address that bytes are added to: a table of constants may have a type."""
    constant = program.tensors[program.base(arg.tensor)[0]].role is Role.CONST
    return "(const unsigned char *)" * constant


def given_call(program: Program, call: Call, rowwise: Rowwise) -> Call:
    """The call of the kernel for one row, as its function is declared."""
    if not rowwise.kernel:
        return replace(call, args=call.args[:-1]) if rowwise.copies else call
    args = list(call.args)
    if rowwise.sums:
        args.append(Arg(sums_name(program, call), Access.READ_WRITE))
    numbers = [Scalar(0, "int32_t"), Scalar(rowwise.steps, "int32_t")]
    return replace(call, kernel=rowwise.kernel, args=(*args, *numbers))


def _argument(
    spelling: Spelling,
    table: Table,
    call: Call,
    rowwise: Rowwise,
    index: int,
    arg: object,
    lines: list[str],
) -> str:
    """The C expression passed for argument `index` of the call that makes row `r`.

    `lines` gets, in place, statements that must stand before the call.
    """
    if isinstance(arg, Scalar):
        own = index - len(call.args) - bool(rowwise.sums)
        return "r" if own == 0 else str(arg.value)
    assert isinstance(arg, Arg)
    if arg.tensor == sums_name(spelling.program, call):
        return f"ROW({table.first[arg.tensor]})"
    window, pieces = rowwise.window, rowwise.pieces(index)
    # The caller holds the rows of this push only, the first of which is number push->first.
    if arg.tensor == spelling.program.pushed:
        return "push->rows + (size_t)(r - push->first) * push->pitch"
    if window is not None and index == window.arg:
        if rowwise.sums:
            return _one(spelling, table, arg, window.height, pieces, "r")
        return _window(spelling, table, call, rowwise, lines)
    if index in rowwise.single:
        row = "0" if rowwise.sums else "r"
        return _one(spelling, table, arg, rowwise.height, pieces, row)
    if spelling.program.tensors[arg.tensor].role is Role.SCRATCH:
        step = "r" if rowwise.batch == 1 else "step"
        return f"ROW({table.first[arg.tensor]} + {step})"
    return pointer(spelling, arg)


def _one(spelling: Spelling, table: Table, arg: Arg, height: int, pieces: int, row: str) -> str:
    """The address of row `row` of a tensor, which has `height` rows of `pieces`."""
    root, offset = spelling.program.base(arg.tensor)
    if root in table.first:
        inside = offset // height + arg.offset
        return f"ROW({table.first[root]} + {row})" + (f" + {inside}" if inside else "")
    size = spelling.program.tensors[arg.tensor].nbytes // height // pieces
    place = pointer(spelling, arg)
    if height * pieces == 1 or row == "0":
        return place
    return f"{_bytewise(spelling.program, arg)}{place} + (ptrdiff_t){row} * {size}"


def _window(
    spelling: Spelling, table: Table, call: Call, rowwise: Rowwise, lines: list[str]
) -> str:
    """ "at", the C table of pointers to the rows of a window, or where these follow each other;
    `lines` gets, in place, what fills it.
    """
    window, memory = rowwise.window, call.args[-1]
    assert window is not None
    arg = call.tensor(window.arg)
    root, offset = spelling.program.base(arg.tensor)
    first = _first_row(window)
    rest = [first, str(rowwise.span), str(window.height)]
    if root in table.first:
        places = f"{local(spelling.program.name, 'places')} + {table.first[root]}"
        inside = offset // window.height
        found, own = "aot_rows_placed", ["at", f"arena + {inside}" if inside else "arena", places]
    else:
        own_bytes = spelling.program.tensors[arg.tensor].nbytes
        size = own_bytes // window.height // rowwise.pieces(window.arg)
        place = _bytewise(spelling.program, arg) + pointer(spelling, arg)
        found, own = "aot_rows_linear", ["at", place, str(size)]
    lines.append(f"    const int8_t *at[{rowwise.span}];")
    asked = {value for *_, value in rowwise.fields}
    said = asked & {"rows", "above", "top"} or (rowwise.together and rowwise.copies)
    result = "const aot_row_span span = " if said else "(void)"
    lines.append(ctext.call(f"{result}{found}", [*own, *rest]))
    if "top" in asked:
        lines.append(f"    const int32_t top = {first} + span.above;")
    if not rowwise.together:
        return "at"
    if not rowwise.copies or not isinstance(memory, Arg):
        return "at[0]"
    row = spelling.program.tensors[arg.tensor].nbytes // window.height
    rest = [f"ROW({table.first[memory.tensor]} + r)", "at", "span.rows", str(row)]
    lines.append(ctext.call("const void *const x = aot_rows_together", rest))
    return "x"


def _first_row(window: Window) -> str:
    """The C expression for the first row of the window of row r, which may be negative."""
    stride = f"r * {window.stride}" if window.stride != 1 else "r"
    # Division rounds towards 0 in C: whole rows are added before it.
    more = -(-max(window.before, 0) // window.per) if window.per > 1 else 0
    add = more * window.per - window.before
    # The sign is chosen for the reader: `r - -2` would be correct, too.
    first = f"{stride} {'+' if add > 0 else '-'} {abs(add)}" if add else stride
    if window.per > 1:
        first = f"({first}) / {window.per}" if add else f"{first} / {window.per}"
    return f"{first} - {more}" if more else first
