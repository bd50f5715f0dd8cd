# SPDX-License-Identifier: Apache-2.0
"""Regions of vendors: `src/NAME_<vendor>.c`, and what replaces it where the vendor is left out.

Both files define one function per region and the vendor's NAME_<vendor>_init and _shutdown, so that
CMake chooses by choosing a file. The replacement calls the regions' fallbacks, each a file of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.emit_c import board, ctext, fetch
from aot.emit_c.arena_table import MemoryMacros, planned_parts, spell_arena
from aot.emit_c.constants import Constants, place_constants
from aot.emit_c.demands import refuse
from aot.emit_c.kernels import Headers, collect
from aot.emit_c.macros import trace_macros
from aot.emit_c.render import render
from aot.emit_c.run_order import spell_file, spell_run
from aot.emit_c.spelling import (
    Spelling,
    create,
    part_head,
    pointer,
    region_arguments,
    region_head,
    slot,
    spelling,
    stateful,
    step,
    weights_of,
)
from aot.emit_c.trace import writes
from aot.emit_c.weights import content_path
from aot.emit_c.write import Blob, File
from aot.errors import InternalError
from aot.ir.plan import Plan
from aot.ir.program import WAITS, Access, Arg, Call, Program, Role, region_name
from aot.ir.rows import STREAMED
from aot.plan.fallback import RegionFallback
from aot.target import Target
from aot.vendor.backend import Backend


@dataclass(frozen=True, slots=True)
class VendorParts:
    """What CMake is told of one vendor: its source, the sources that replace it, big constants.

    `blobs` are (prefix of the weights' symbol, bytes) of what replaces it; `own` is that prefix of
    the constants that only the vendor reads, "" if there are none. `reason` says why there is no
    replacement, `first` is the first node that the vendor computes. Where CMake's condition
    `standin` holds, both are compiled.
    """

    vendor: str
    source: str
    portable: tuple[str, ...]
    blobs: tuple[tuple[str, int], ...]
    reason: str = ""
    own: str = ""
    first: str = ""
    standin: str = ""


def regions_by_vendor(program: Program) -> dict[str, list[int]]:
    """Regions of each vendor, bodies included, both in order of their first call; a vendor whose
    calls are all made row by row has none."""
    found: dict[str, list[int]] = {}
    for call in program.every_call():
        regions = found.setdefault(call.backend, []) if call.backend != "c" else []
        if call.region >= 0 and call.region not in regions:
            regions.append(call.region)
    return found


def owners(program: Program, plan: Plan) -> dict[int, tuple[Program, Plan]]:
    """Region → the program that has its calls, and the plan of that."""
    parts = planned_parts(program, plan)
    return {c.region: (p, q) for p, q in parts for c in p.calls if c.region >= 0}


def headers_of(program: Program, vendor: str = "") -> Headers:
    """Headers of the calls and objects of one vendor; of portable C by default."""
    wanted = vendor or "c"
    called = (*(s.create for s in program.states), *program.every_call())
    return collect(fetch.headers([c for c in called if c.backend == wanted]))


def spell_vendor(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    specialise: str,
    backend: Backend,
) -> str:
    """The C file of a vendor: its objects and a function per region."""
    vendor = backend.name
    s = spelling(program, plan, constants, headers_of(program, vendor), specialise)
    s.failed = ctext.ident(backend.error) if backend.error else ""
    regions = regions_by_vendor(program)[vendor]
    made = [create(s, t) for t in program.states if t.create.backend == vendor]
    objects = _objects(program, vendor, made)
    functions: list[str] = []
    for part, own in _spellings(s, specialise):
        for region in dict.fromkeys(c.region for c in part.calls if c.region in regions):
            functions += _renamed(program, part, region, backend)
            steps = [step(own, i, c) for i, c in enumerate(part.calls) if c.region == region]
            # Without coherent caches the CPU must write back first and forget afterwards.
            steps = _with_cache(own, region, steps, backend)
            functions += _function(program, part, region, steps)
    macro = without(vendor)
    text = f"{program.name} is compiled with {macro}: {program.name}_{vendor}.c is no part of it"
    checked = f" && !defined({standing_in(vendor)})" if backend.standin else ""
    functions = [*refuse(f"defined({macro}){checked}", text), "", *objects, *functions]
    return spell_file(s, target, f"the regions of {vendor}", regions, functions)


def _renamed(root: Program, program: Program, region: int, backend: Backend) -> list[str]:
    """Lines that give a region's function another name, and no trace, where it only checks."""
    if not backend.standin:
        return []
    own, checked = _region_names(root, region)
    return [
        f"#ifdef {standing_in(backend.name)}",
        "#undef BEFORE",
        "#undef AFTER",
        "#define BEFORE(index) ((void)0)",
        "#define AFTER(index) ((void)0)",
        f"#define {own} {checked}",
        region_head(root, program, region, ";", "AOT_HIDDEN AOT_WARN_UNUSED "),
        "#endif",
    ]


def _region_names(root: Program, region: int) -> tuple[str, str]:
    """The name of a region's function, and that of what only checks."""
    name = f"{root.name}_{region_name(region)}"
    return name, f"{name}_checked"


def _check_first(root: Program, program: Program, region: int, standin: bool) -> list[str]:
    """Statements that let a vendor's stand-in check what it is given, where it does."""
    if not standin:
        return []
    checked = _region_names(root, region)[1]
    call = ctext.call(checked, region_arguments(root, program), "")
    vendor = next(c.backend for c in program.calls if c.region == region)
    return [f"#ifdef {standing_in(vendor)}", f"REGION({call});", "#endif"]


def _spellings(spelling: Spelling, specialise: str) -> Iterator[tuple[Program, Spelling]]:
    """The program and all within its calls, each with what spells its calls."""
    yield spelling.program, spelling
    for call in spelling.program.calls:
        for body in call.bodies:
            yield from _spellings(spelling.within(body, specialise), specialise)


def _with_cache(spelling: Spelling, region: int, steps: list[str], backend: Backend) -> list[str]:
    """`steps` between the vendor's calls on caches: clean for all at the border, invalidate for
    results.
    """
    enters, leaves = border(spelling.program, region)
    before, behind = [], []
    if backend.clean:
        before = [
            _on_bytes(spelling, backend.clean, Arg(n, Access.READ)) for n in (*enters, *leaves)
        ]
    if backend.invalidate:
        behind = [_on_bytes(spelling, backend.invalidate, Arg(n, Access.WRITE)) for n in leaves]
    return [*before, *steps, *behind]


def _on_bytes(spelling: Spelling, function: str, arg: Arg) -> str:
    """The C statement that calls `function` with the address and the bytes of a tensor."""
    bytes_ = spelling.program.tensors[arg.tensor].nbytes
    return ctext.call(ctext.ident(function), [pointer(spelling, arg), str(bytes_)])


def border(program: Program, region: int) -> tuple[list[str], list[str]]:
    """(enters, leaves): tensors that a region reads and does not make, and those it makes for
    others.

    Constants do not enter. Outputs, states and true shapes leave, too.
    """
    inside = [c for c in program.calls if c.region == region]
    outside = [c for c in program.calls if c.region != region]
    made = {program.base(n)[0] for c in inside for n in c.writes()}
    kept = {program.base(n)[0] for c in outside for n in c.reads()}
    kept |= {*program.outputs, *program.carried, *(s.tensor for s in program.shapes)}
    roles = {n: program.tensors[program.base(n)[0]].role for c in inside for n in _named(c)}
    enters = [
        n
        for c in inside
        for n in c.reads()
        if roles[n] is not Role.CONST and program.base(n)[0] not in made
    ]
    leaves = [n for c in inside for n in c.writes() if program.base(n)[0] in kept]
    return list(dict.fromkeys(enters)), list(dict.fromkeys(leaves))


def _named(call: Call) -> list[str]:
    return [a.tensor for a in call.pointers()]


def _function(
    root: Program,
    program: Program,
    region: int,
    body: Sequence[str],
    declared: Sequence[str] = (),
) -> list[str]:
    """The function of one region, whose calls are in `program`."""
    return [
        region_head(root, program, region, " {"),
        *declared,
        *(f"    (void){name};" for name in region_arguments(root, program)),
        *body,
        "    return AOT_OK;",
        "}",
        "",
    ]


def _objects(program: Program, vendor: str, made: Sequence[str]) -> list[str]:
    """NAME_<vendor>_init and _shutdown; with nothing `made` they do nothing."""
    if vendor not in stateful(program):
        return []
    prefix = f"{program.name}_{ctext.ident(vendor)}"
    releases = [
        f"    {ctext.ident(s.release)}(state + {slot(program, s.name)});"
        # An object may use those that were made before it.
        for s in reversed(program.states)
        if made and s.create.backend == vendor
    ]
    return [
        f"aot_status {prefix}_init(void **state) {{",
        "    aot_status status = AOT_OK;",
        *(made or ["    (void)state;"]),
        "    return status;",
        "}",
        "",
        f"void {prefix}_shutdown(void **state) {{",
        *(releases or ["    (void)state;"]),
        "}",
        "",
    ]


def without(vendor: str) -> str:
    """The macro that is defined where a vendor is left out."""
    return f"AOT_WITHOUT_{ctext.ident(vendor).upper()}"


def standing_in(vendor: str) -> str:
    """The macro that is defined where a vendor's sources only check what they are given."""
    return f"AOT_STANDIN_{ctext.ident(vendor).upper()}"


def _needs_memory(program: Program, vendor: str) -> str:
    """The error of the preprocessor where portable C needs a larger arena than the bundle is built
    for.
    """
    name, macro = program.name, without(vendor)
    return f"{name}_{vendor}_portable.c wants another arena: all sources need -D{macro}"


def spell_portable(
    program: Program,
    plan: Plan,
    vendor: str,
    fallbacks: Sequence[RegionFallback],
    waits: Sequence[int] = (),
    standin: bool = False,
) -> str:
    """What stands in for the vendor's file: every region calls its fallback, `waits` have nothing
    to wait for. With `standin` the vendor's own sources may check first what they are given."""
    functions = [*_objects(program, vendor, [])]
    owner = owners(program, plan)
    macros = MemoryMacros()
    for fallback in fallbacks:
        part, own = owner[fallback.region]
        lines, declared = _call_fallback(program, part, own, fallback, macros)
        if standin:
            checked = _region_names(program, fallback.region)[1]
            head = f"AOT_HIDDEN AOT_WARN_UNUSED aot_status {checked}"
            functions += [part_head(program, part, head, ";")]
        lines = [*_check_first(program, part, fallback.region, standin), *lines]
        functions += _function(program, part, fallback.region, lines, declared)
    # The trace counts these calls, so this file has to make them as well.
    for region in waits:
        steps = [
            f"    STEP({i}, (void)0); /* for the trace build */"
            for i, c in enumerate(program.calls)
            if c.region == region
        ]
        functions += _function(program, program, region, steps)
    parts = planned_parts(program, plan)
    arenas = [x for p, q in parts for x in spell_arena(macros, program, p, q, False)]
    return "\n".join(
        [
            "/* SPDX-License-Identifier: MIT-0 */",
            f"/* {program.name}: the regions of {vendor}, computed by portable C instead. */",
            "#include <string.h>",
            "",
            f'#include "{program.name}_internal.h"',
            "",
            *refuse(f"!defined({without(vendor)})", _needs_memory(program, vendor)),
            "",
            trace_macros(program.name, defines=False),
            *arenas,
            *functions,
        ]
    )


def _call_fallback(
    root: Program, program: Program, plan: Plan, fallback: RegionFallback, macros: MemoryMacros
) -> tuple[list[str], list[str]]:
    """(statements, declarations): where inputs and outputs are, the call, copies of what was made
    aside."""
    # Nothing but pointers is spelled with this, so there are neither constants nor kernels.
    s = spelling(program, plan, Constants((), {}, {}, None), Headers({}, (), {}, False), "none")
    s.macros = macros
    moved = dict(fallback.moved)
    ins = [pointer(s, Arg(n, Access.READ)) for n in fallback.inputs] or ["NULL"]
    ends = [pointer(s, Arg(n, Access.WRITE)) for n in fallback.outputs]
    outs = [_at(root, plan, moved[i]) if i in moved else p for i, p in enumerate(ends)] or ["NULL"]
    declared = [
        f"    const unsigned char *from[{len(ins)}];",
        f"    unsigned char *to[{len(outs)}];",
    ]
    passed = [_at(root, plan, fallback.base), "from", "to"]
    lines = [
        *(f"    from[{i}] = {p};" for i, p in enumerate(ins)),
        *(f"    to[{i}] = {p};" for i, p in enumerate(outs)),
        f"REGION({ctext.call(f'{fallback.name}_execute', passed, '')});",
    ]
    for i, place in enumerate(ends):
        # This result shares memory with an input, which the fallback may read after writing it.
        if i in moved:
            size = program.tensors[fallback.outputs[i]].nbytes
            lines.append(ctext.call("(void)memcpy", [place, f"to[{i}]", str(size)]))
    for index in _border_calls(program, fallback) if program is root else ():
        lines.append(f"    STEP({index}, (void)0); /* for the trace build */")
    return lines, declared


def _at(root: Program, plan: Plan, offset: int) -> str:
    """The address in C of a byte of the arena of `plan`."""
    return f"{root.name}_at(arena, {offset})" if plan.parts else f"arena + {offset}"


def _border_calls(program: Program, fallback: RegionFallback) -> list[int]:
    """Calls of a region that write a tensor which leaves it."""
    return [
        index
        for index, call in enumerate(program.calls)
        if call.region == fallback.region
        and any(t.name in fallback.outputs for _, t in writes(program, call))
    ]


def declarations(
    program: Program, fallbacks: Sequence[RegionFallback], own_weights: Sequence[str]
) -> str:
    """C declarations for the internal header: functions of regions, objects of vendors, fallbacks.

    `own_weights` are names of blobs of constants of vendors' own.
    """
    lines = []
    # A region may be in a body, whose program has an arena of its own.
    parts = {c.region: p for p in program.tree() for c in p.calls}
    for regions in regions_by_vendor(program).values():
        head = "AOT_HIDDEN AOT_WARN_UNUSED "
        lines += [region_head(program, parts[r], r, ";", head) for r in regions]
    for vendor in map(ctext.ident, stateful(program)):
        prefix = f"{program.name}_{vendor}"
        lines.append(f"AOT_HIDDEN AOT_WARN_UNUSED aot_status {prefix}_init(void **state);")
        lines.append(f"AOT_HIDDEN void {prefix}_shutdown(void **state);")
    for fallback in fallbacks:
        if fallback.program is not None:
            lines.append(
                "AOT_HIDDEN AOT_WARN_UNUSED aot_status "
                f"{fallback.name}_execute(unsigned char *arena,\n"
                "    const unsigned char *const *in, unsigned char *const *out);"
            )
            lines.append(f"extern AOT_HIDDEN const unsigned char {fallback.name}_weights[];")
    for blob in own_weights:
        lines.append(f"extern AOT_HIDDEN const unsigned char {blob}_weights[];")
    if not lines:
        return ""
    note = "/* The regions of vendors; where a vendor is left out, they call their fallbacks. */"
    return "\n".join(["", note, *lines, ""])


def region_files(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    specialise: str,
    fallbacks: Sequence[RegionFallback],
    backends: Mapping[str, Backend],
) -> tuple[dict[str, File], list[VendorParts]]:
    """The files of all vendors' regions by path, and for every vendor its VendorParts for CMake.

    Each vendor has src/NAME_VENDOR.c and, if it reads constants of its own, their files. Where all
    its regions have a fallback there are src/NAME_VENDOR_portable.c and the fallbacks' sources too;
    where one has none, the part has the `reason` in their place. `backends` has every vendor of the
    program by name. Raises InternalError if a region has neither fallback nor reason.
    """
    name = program.name
    files: dict[str, File] = {}
    parts: list[VendorParts] = []
    for vendor, regions in regions_by_vendor(program).items():
        source = f"src/{name}_{ctext.ident(vendor)}.c"
        text = spell_vendor(program, plan, target, constants, specialise, backends[vendor])
        files[source] = text.encode("ascii")
        blob = constants.parts.get(vendor)
        prefix = weights_of(name, vendor) if blob is not None else ""
        if blob is not None:
            files.update(_weights(prefix, name, blob, target))
        nodes = next(c.origin.nodes for c in program.every_call() if c.backend == vendor)
        first = nodes[0] if nodes else ""
        own = [t for t in fallbacks if t.region in regions]
        waits = [r for r in regions if r >= WAITS]
        reason = next((t.reason for t in own if t.program is None), "")
        if any(c.region == STREAMED and c.backend == vendor for c in program.calls):
            reason = "some of its calls are made row by row, between whole tensors that are nowhere"
        # Without this, a build that leaves the vendor out would only fail at the linker.
        if len(own) + len(waits) != len(regions) and not reason:
            raise InternalError(f"{len(regions)} regions of {vendor} have {len(own)} fallbacks")
        if reason:
            parts.append(VendorParts(vendor, source, (), (), reason, prefix, first))
            continue
        stand_in = f"src/{name}_{ctext.ident(vendor)}_portable.c"
        standin = backends[vendor].standin
        text = spell_portable(program, plan, vendor, own, waits, bool(standin))
        files[stand_in] = text.encode("ascii")
        sources, blobs = [stand_in], []
        for fallback in own:
            made, nbytes = _fallback_files(fallback, target, specialise, name)
            files.update(made)
            sources.append(f"src/{fallback.name}_run.c")
            if nbytes:
                blobs.append((fallback.name, nbytes))
        made_of = tuple(sources), tuple(blobs), "", prefix, first, standin
        parts.append(VendorParts(vendor, source, *made_of))
    return files, parts


def _fallback_files(
    fallback: RegionFallback, target: Target, specialise: str, owner: str
) -> tuple[dict[str, File], int]:
    """The source of a fallback, its kernels and constants; bytes of the latter that are no
    tables."""
    assert fallback.program is not None and fallback.plan is not None
    constants = place_constants(fallback.program, target.byte_order)
    headers = headers_of(fallback.program)
    text = spell_run(fallback.program, fallback.plan, target, constants, headers, specialise, owner)
    files: dict[str, File] = {
        f"src/{fallback.name}_run.c": text.encode("ascii"),
        **{f"src/kernels/{n}": content for n, content in headers.files.items()},
    }
    if constants.blob is None:
        return files, 0
    files.update(_weights(fallback.name, owner, constants.blob, target))
    return files, constants.blob.nbytes


def _weights(name: str, owner: str, blob: Blob, target: Target) -> dict[str, File]:
    """The files, by path, of the constants called `name`_weights in the bundle of model `owner`."""
    values: dict[str, object] = {
        "name": name,
        "owner": owner,
        "bytes": blob.nbytes,
        "weights_align": board.WEIGHTS_ALIGN if target.board else 64,
        "section": f".rodata.{name}_weights",
        "beside": True,
        "file": content_path(name, beside=True)[4:],
    }
    return {
        content_path(name, beside=True): blob,
        f"src/{name}_weights.c": render("weights.c", values),
    }
