# SPDX-License-Identifier: Apache-2.0
"""`NAME_execute` of a program with slices: one slice of a run at a time.

static const net_slice slices[] = {{0, 0, 8}, {0, 8, 16}, {1, 0, 0}};     call, rows first..end
const uint32_t net_slice_macs[] = {73728, 73728, 0};
aot_status net_execute(int32_t index, unsigned char *arena) {
    switch (slices[index].call) {
    case 0:
        ROWS(0, 16, net_k0_conv_rows(BUF_y, BUF_x, &net_p0, first, end));
        break;
"""

from __future__ import annotations

from aot.emit_c import ctext
from aot.emit_c.naming import local
from aot.ir.program import Program

#: The largest number of multiplications that a uint32_t holds: slices of more count as so many.
MOST = (1 << 32) - 1


def values(program: Program, bound: int) -> dict[str, object]:
    """What templates say of slices: how many there are, the multiplications of the longest one,
    and those of a step of the runner, as a literal."""
    return {
        "slices": len(program.slices),
        "slice_macs": max((s.macs for s in program.slices), default=0),
        "slice_bound": f"{min(bound, MOST)}U",
    }


def spell_slices(program: Program, head: list[str], steps: list[tuple[int, str]]) -> str:
    """The tables of slices and the function that makes one.

    `head` is what the function begins with but for its name and the number of the slice;
    `steps` are the statements, each with the number of its first call.
    """
    most = max(max(s.call, s.end) for s in program.slices)
    kind = "uint16_t" if most < 1 << 16 else "uint32_t"
    rows = [f"{{{s.call}, {s.first}, {s.end}}}" for s in program.slices]
    # The table has 32 bits; a longer slice counts as the most that these hold.
    macs = [f"{min(s.macs, MOST)}U" for s in program.slices]
    name = local(program.name, "slices")
    cases: list[str] = []
    for index, text in steps:
        cases += [f"    case {index}:", text, "        break;"]
    return "\n".join(
        [
            "/* Slices of a run: a call (of several, the first one), and the rows first to end - 1",
            " * of its result; end 0: calls as a whole. */",
            f"static const struct {{ {kind} call, first, end; }} {name}[] = {{",
            ctext.wrap(rows),
            "};",
            "/* Multiplications of every slice. */",
            f"const uint32_t {program.name}_slice_macs[] = {{",
            ctext.wrap(macs),
            "};",
            "",
            *head,
            f"    const int32_t first = (int32_t){name}[index].first;",
            f"    const int32_t end = (int32_t){name}[index].end;",
            "    (void)first;",
            "    (void)end;",
            f"    switch ({name}[index].call) {{",
            *cases,
            "    default:",
            "        break;",
            "    }",
            "    return AOT_OK;",
            "}",
            "",
        ]
    )
