# SPDX-License-Identifier: Apache-2.0
"""`src/NAME_run.c`: parameter structs, one wrapper per kernel signature, the calls in order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aot.emit_c import ctext, parts
from aot.emit_c.arena_table import kind, planned_parts, spell_arena, spell_constants
from aot.emit_c.constants import Constants
from aot.emit_c.control import numbered
from aot.emit_c.demands import demands
from aot.emit_c.kernels import Headers
from aot.emit_c.macros import trace_macros
from aot.emit_c.slices import spell_slices
from aot.emit_c.spelling import (
    PARAMETERS,
    Spelling,
    region_arguments,
    spelling,
    state_slots,
    stateful,
    table_name,
)
from aot.ir.plan import Plan
from aot.ir.program import (
    Program,
)
from aot.target import Target

_ABOUT = (
    "Kernels are specialised by the constants that the wrappers below pass; sizes come from the"
    " parameter structs."
)


def spell_run(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    headers: Headers,
    specialise: str,
    owner: str = "",
) -> str:
    """The whole file. `specialise` says whose functions know their parameters: see
    `specialised` of aot/plan/specialise.py.

    The calls of a vendor's region are one call here, see `regions`. A part of another model names
    that as `owner`: it has its headers and is not traced.
    """
    s = spelling(program, plan, constants, headers, specialise)
    steps = numbered(s, specialise)
    what = "every kernel call in order"
    functions = [*_section("Control flow", s.inner), *_vendors(program), _execute(program, steps)]
    return spell_file(s, target, what, [-1], functions, owner)


def spell_file(
    spelling: Spelling,
    target: Target,
    what: str,
    regions: Sequence[int],
    functions: Sequence[str],
    owner: str = "",
    before: Sequence[str] = (),
) -> str:
    """A source file: `functions` behind what the calls of `regions` (-1: of none) need.

    `before` stands before the headers of kernels.
    """
    name = spelling.program.name
    used = _constants_used(spelling, regions)
    includes = [f'#include "kernels/{h}"' for h in spelling.headers.direct]
    kept = [(n, d) for n, d in spelling.constants.tables if n in used]
    own = spelling.constants.tensors
    tables = [
        ctext.block([f"{n}: {kind(own[n])}"])
        + "\n"
        + ctext.array(table_name(spelling, n), d, own[n].align, own[n].section)
        for n, d in kept
    ]
    tables += spell_constants(spelling.macros, own)
    params = [f"static const {k} {label} = {init};" for (k, init), label in spelling.params.items()]
    told = [f"static const char {n}[] = {ctext.literals(t)};" for n, t in spelling.told.items()]
    arenas = [
        line
        for program, plan in planned_parts(spelling.program, spelling.plan)
        for line in spell_arena(spelling.macros, spelling.root, program, plan, whole=-1 in regions)
    ]
    sections = [
        "/* SPDX-License-Identifier: MIT-0 */",
        ctext.block([f"{name}: {what}. {_ABOUT}"], hang=0),
        "#include <stddef.h>",
        "#include <stdint.h>",
        # INFINITY and NAN are macros of this header.
        *(["#include <math.h>"] if any("INFINITY" in p or "NAN" in p for p in params) else []),
        "",
        f'#include "{owner or name}_internal.h"',
        "",
        *demands(name, target),
        *before,
        *includes,
        "",
        trace_macros(
            "" if owner else name, -1 in regions, spelling.failed, bool(spelling.program.slices)
        ),
        *([parts.SPLIT] if parts.shares(spelling.program) else []),
        *_section("Arena", arenas),
        *_section("Constants", tables),
        *_section("Parameters", params),
        *_section("Nodes, as errors name them", [ctext.fenced("\n".join(told))] if told else []),
        *_section("Kernels", spelling.functions),
        *functions,
    ]
    # Sections that are empty leave blank lines behind.
    return re.sub(r"\n{3,}", "\n\n", "\n".join(sections))


def _constants_used(spelling: Spelling, regions: Sequence[int]) -> set[str]:
    """Names of stored constants that the calls and objects of `regions` read."""
    bases: set[str] = set()
    for program in spelling.program.tree():
        calls = (*(state.create for state in program.states), *program.calls)
        used = [c for c in calls if c.region in regions]
        bases.update(program.base(a.tensor)[0] for c in used for a in c.pointers())
    return {spelling.constants.same[b] for b in bases if b in spelling.constants.same}


def _section(title: str, items: list[str]) -> list[str]:
    return [f"/* -- {title} {'-' * (90 - len(title))} */", "", *items, ""] if items else []


def _vendors(program: Program) -> list[str]:
    """C lines of NAME_vendors_init and NAME_vendors_shutdown; [] where no vendor has objects."""
    vendors = [ctext.ident(v) for v in stateful(program)]
    if not vendors:
        return []
    name = program.name
    inits = [
        f"    if (status == AOT_OK)\n        status = {name}_{v}_init(state);" for v in vendors
    ]
    return [
        f"aot_status {name}_vendors_init(void **state) {{",
        "    aot_status status = AOT_OK;",
        "    int i;",
        # Shutdown releases every slot, so those that init does not reach must be NULL.
        f"    for (i = 0; i < {state_slots(program)}; ++i)",
        "        state[i] = NULL;",
        *inits,
        "    if (status != AOT_OK)",
        f"        {name}_vendors_shutdown(state);",
        "    return status;",
        "}",
        "",
        f"void {name}_vendors_shutdown(void **state) {{",
        *(f"    {name}_{v}_shutdown(state);" for v in reversed(vendors)),
        "}",
        "",
    ]


def _execute(program: Program, steps: list[tuple[int, str]]) -> str:
    """The C function that makes all calls; with slices, the one that makes slice `index`."""
    head = f"aot_status {program.name}_execute"
    declared, unused = ["unsigned char *arena"], ["arena"]
    if program.io != "arena":
        declared += ["const unsigned char *const *in", "unsigned char *const *out"]
        unused += ["in", "out"]
    if program.states:
        declared.append("void **state")
    if program.passed:
        declared.append(PARAMETERS["weights"])
        unused.append("weights")
    if program.pushed:
        declared.append(PARAMETERS["push"])
    if program.slices:
        declared.insert(0, "int32_t index")
    if program.threads > 1:
        declared += [PARAMETERS["pool"], PARAMETERS["threads"]]
        unused += ["pool", "threads"]
    begin = [ctext.call(head, declared, " {")]
    if parts.shares(program):
        begin.append(parts.job(region_arguments(program, program)))
    # Not every program uses each of them, and compilers warn of parameters that nothing reads.
    begin += [f"    (void){name};" for name in unused]
    if program.slices:
        return spell_slices(program, begin, steps)
    return "\n".join([*begin, *(text for _, text in steps), "    return AOT_OK;", "}", ""])
