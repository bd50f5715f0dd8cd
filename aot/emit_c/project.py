# SPDX-License-Identifier: Apache-2.0
"""The bundle as a whole: which files it has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aot.emit_c import (
    board,
    ctext,
    fetch,
    interface,
    kernels,
    levels,
    manifest as manifests,
    quantised_ends,
    rows,
    slices,
    weights,
)
from aot.emit_c.clang_format import STYLE, formatted, style
from aot.emit_c.constants import Constants
from aot.emit_c.cpu_check import common_flags, cpu_check
from aot.emit_c.regions import declarations, headers_of, region_files
from aot.emit_c.render import render
from aot.emit_c.resources import cmake, runtime_c
from aot.emit_c.run_order import spell_run
from aot.emit_c.selftest import spell_selftest, vector_bytes
from aot.emit_c.single_file import single_files
from aot.emit_c.spelling import state_slots
from aot.emit_c.trace import spell_trace
from aot.emit_c.vendors import (
    DL,
    LIBM,
    Vendors,
    cmake_mapped,
    cmake_weights,
    left_out,
    spell_cmake,
    spell_sources,
    used_backends,
    vendors_of,
)
from aot.emit_c.write import File
from aot.errors import BackendError, TargetError
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.ir.rows import STREAMED
from aot.ir.sample import Sample
from aot.options import Options
from aot.plan.board_memory import Needs, io_bytes, needs_of
from aot.plan.fallback import RegionFallback, portable_bytes
from aot.plan.levels import Level
from aot.target import Target
from aot.vendor.backend import Backend
from aot.version import __version__

#: Flags of every compiler that speaks gcc's, before the target's own. Arena bytes hold one type
#: after the other, and the built-in arena is declared as bytes: hence no type-based aliasing (which
#: costs nothing: kernels keep sizes in locals). Where a user compiles without the flag, accesses of
#: different types still never meet in one function, because every kernel is called, not inlined.
CFLAGS = ("-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math")
#: Behind a user's own CFLAGS, which stay: with -ffast-math or a part of it NaN and infinities would
#: be lost, and the sources refuse it (demands.py). This takes all of them back.
_EXACT = "-fno-fast-math"
#: Bytes of stack of NAME_run and the functions between it and a kernel; a frame at least.
_CALLERS, _LEAST_FRAME = 256, 64
#: Ends of the names of sources that call kernels.
_COMPUTING = ("_run", "_rows")
PRIVATE = ("aot_check.h", "aot_ffi.h", "aot_trace.h")


def value_flags(accuracy: str) -> tuple[str, ...]:
    """Flags of gcc's compilers with which results are those of `--accuracy`, on every target."""
    return (_EXACT, *CFLAGS, f"-ffp-contract={'off' if accuracy == 'strict' else 'fast'}")


def emit_c(
    program: Program,
    plan: Plan,
    target: Target,
    options: Options,
    manifest: dict[str, Any] | None = None,
    fallbacks: Sequence[RegionFallback] = (),
    samples: Sequence[Sample] = (),
    others: Sequence[Level] = (),
) -> dict[str, File]:
    """Every file of the bundle by its path. Equal arguments give equal bytes.

    `manifest` is what `manifest_of` gave (made here if absent); its `sources` are filled in.
    `fallbacks` stand in for the vendors' regions where a vendor is left out; `samples` are what the
    bundle tests itself on; `others` are the levels behind that of `program`.
    """
    name = ctext.ident(program.name)
    if manifest is None:
        manifest = manifests.manifest_of(program, plan, target, None, options)
    weights.check_weights_file(program, target)
    chips = (Level(target, program, plan), *others)
    stored = levels.common_constants(chips)
    constants = stored[0]
    called = [*(s.create for s in program.states), *program.every_call()]
    # A fallback calls kernels that the program itself may not.
    called += [c for t in fallbacks if t.program is not None for c in t.program.every_call()]
    backends = used_backends(program, options)
    headers = kernels.collect([*fetch.headers(called), *["aot_rows.h"] * bool(program.segments)])
    own, specialise = headers_of(program), options.specialise
    parted, parts = region_files(program, plan, target, constants, specialise, fallbacks, backends)
    vendors = vendors_of(program, backends, parts)
    math = headers.math or levels.all_headers(chips).math
    values = _values(program, plan, target, options, constants, math, vendors, fallbacks)
    values |= levels.values(chips) | {"constants_bytes": levels.stored_bytes(stored)}
    if others:
        manifest["levels"] = levels.record(chips, stored)
        manifest["memory"] |= levels.memory(chips, stored)
    values |= {"selftest": bool(samples), "stack_bytes": manifest["memory"]["stack_bytes"]}
    files: dict[str, File] = {
        f"src/{name}_run.c": spell_run(program, plan, target, constants, own, specialise).encode(
            "ascii"
        ),
        **parted,
        **levels.level_files(name, chips, stored, specialise),
        **_rows(program, plan, target, constants, backends),
        **_threads(program, values),
        f"src/{name}_io.h": interface.spell_specs(program).encode("ascii"),
        f"src/{name}_trace.h": spell_trace(program, plan).encode("ascii"),
        **{p: render(t, values) for p, t in _rendered(name, constants, bool(target.board)).items()},
    }
    if constants.passed:
        files.update(_passed(program, constants, values))
        manifest["weights"] = _described(program, values)
    elif constants.blob is not None:
        files[weights.content_path(name, beside=True)] = constants.blob
    # Only what was spelled here is laid out; kernels and files of vendors stay as they are.
    files = {
        **formatted(files),
        **{f"src/kernels/{n}": content for n, content in headers.files.items()},
        **_copied(target, program),
        **_runner(program, plan, target, constants, options, samples, vendors.memory),
        **_selftest(program, options, samples),
        **vendors.files,
        **dict(program.attached),
    }
    if (
        constants.blob is not None
        or weights.has_weights_file(program)
        or any(p.blobs or p.own for p in parts)
    ):
        files["cmake/bin2c.cmake"] = (cmake() / "bin2c.cmake").read_bytes()
    if options.single_file:
        files.update(single_files(program, files, constants.blob))
    files = {path: files[path] for path in sorted(files)}
    manifest["libraries"] = list(vendors.links)
    if vendors.memory:
        manifest["memory"]["vendor_bytes"] = vendors.memory
    manifest["sources"] = manifests.sources_of(files)
    files["manifest.json"] = manifests.dump(manifest)
    return files


def _rows(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    backends: Mapping[str, Backend],
) -> dict[str, File]:
    """The file of the calls that are made row by row, if there are any.

    BackendError for calls of a vendor that needs something around whole regions.
    """
    if not program.segments:
        return {}
    calls = [c for c in program.calls if c.region == STREAMED]
    for call in calls:
        own = backends.get(call.backend)
        if own is not None and (own.clean or own.invalidate or own.standin):
            what = f"{own.name}: {call.kernel} declares windows of rows, and its backend has "
            raise BackendError(f"{what}clean, invalidate or standin, which know whole regions")
    headers = kernels.collect(["aot_rows.h", *fetch.headers(calls)])
    failures = {b.name: ctext.ident(b.error) for b in backends.values() if b.error}
    text = rows.spell_rows(program, plan, target, constants, headers, failures=failures)
    return {f"src/{program.name}_rows.c": text.encode("ascii")}


def _threads(program: Program, values: Mapping[str, object]) -> dict[str, File]:
    """The pool of threads and the share of each, if a run has several."""
    if program.threads == 1:
        return {}
    root, own = runtime_c(), ("aot_parts.h", "aot_pool.h")
    return {
        "include/aot/threads.h": (root / "include" / "aot" / "threads.h").read_bytes(),
        **{f"src/{h}": (root / "src" / h).read_bytes() for h in own},
        f"src/{program.name}_threads.c": render("pool.c", {**values}),
    }


def _rendered(name: str, constants: Constants, board: bool) -> dict[str, str]:
    """Path in the bundle → template; the entry of tvm_ffi is for hosts, which load libraries."""
    paths = {
        "CMakeLists.txt": "CMakeLists.txt",
        "README.md": "README.md",
        "example_main.c": "example_main.c",
        f"include/{name}.h": "model.h",
        f"include/tvmgen_{name}.h": "tvmgen.h",
        f"src/{name}.c": "model.c",
        f"src/{name}_internal.h": "internal.h",
        f"src/{name}_arena.c": "arena.c",
        f"src/{name}_static.c": "static.c",
        f"src/{name}_tvmgen.c": "tvmgen.c",
        "host/model.h": "runner_model.h",
    }
    if not board:
        paths[f"src/{name}_ffi.c"] = "ffi.c"
    # What the caller passes or maps comes from no source.
    if constants.blob is not None and not constants.passed:
        paths[f"src/{name}_weights.c"] = "weights.c"
    return paths


def _toolchain(target: Target) -> bytes:
    """The target's CMake toolchain file; TargetError if there is none."""
    ctext.ident(target.toolchain.replace("-", "_"))  # no path
    path = cmake() / "toolchains" / f"{target.toolchain}.cmake"
    if not path.is_file():
        raise TargetError(f"target {target.name}: there is no toolchain {target.toolchain}")
    return path.read_bytes()


def _copied(target: Target, program: Program) -> dict[str, File]:
    """Files that bundles have as they are in aotc: headers, licence, style, toolchain;
    by path.
    """
    root = runtime_c()
    public = (*kernels.PUBLIC, *(["quantize.h"] if quantised_ends.converted(program) else []))
    asks = cpu_check(target) or target.levels
    private = (*PRIVATE, "aot_cpu.h") if asks else PRIVATE
    return {
        **{f"include/aot/{h}": (root / "include" / "aot" / h).read_bytes() for h in public},
        **{f"src/{h}": (root / "src" / h).read_bytes() for h in private},
        STYLE: style(),
        "LICENSE": (root / "LICENSE").read_bytes(),
        "cmake/toolchain.cmake": _toolchain(target),
    }


def _passed(
    program: Program, constants: Constants, values: Mapping[str, object]
) -> dict[str, File]:
    """The file that init maps; or the one that the caller passes, and what makes it a part of the
    runners."""
    header = (runtime_c() / "src" / "aot_weights.h").read_bytes()
    if weights.is_mapped(program):
        return {
            weights.mapped_file(program.name): weights.weights_file(
                constants, weights.identity(program, constants), manifests.ABI
            ),
            f"src/{program.name}_mapped.c": render("mapped.c", {**values}),
            "src/aot_weights.h": header,
            "cmake/link.cmake": (cmake() / "link.cmake").read_bytes(),
        }
    prefix = weights.file_prefix(program.name)
    file = weights.weights_file(constants, weights.identity(program, constants), manifests.ABI)
    own = {**values, "name": prefix, "owner": program.name, "bytes": file.nbytes}
    path = weights.content_path(prefix, beside=False)
    own |= {"section": f".rodata.{prefix}_weights", "beside": False, "file": path[4:]}
    return {
        path: file,
        f"src/{prefix}_weights.c": render("weights.c", own),
        f"src/{program.name}_given.c": render("given.c", {**values}),
        "src/aot_weights.h": header,
    }


def _described(program: Program, values: Mapping[str, object]) -> dict[str, object]:
    """What the manifest says of the file; `mapped`: init finds it itself."""
    path = weights.content_path(weights.file_prefix(program.name), beside=False)
    if weights.is_mapped(program):
        file = weights.mapped_file(program.name)
        return {"file": file, "bytes": values["weights_bytes"], "mapped": True}
    return {"file": path, "bytes": values["weights_bytes"], "alignment": values["weights_align"]}


def _weights_cmake(program: Program, constants: Constants) -> str:
    """CMake that adds the constants to the library, or to the runners."""
    name = program.name
    if weights.is_mapped(program):
        return cmake_mapped(name)
    if constants.passed:
        return cmake_weights(name, weights.file_prefix(name), sources="runner_weights")
    section = weights.section_of(program)
    return cmake_weights(name, name, section) if constants.blob else ""


def _runner(
    program: Program,
    plan: Plan,
    target: Target,
    constants: Constants,
    options: Options,
    samples: Sequence[Sample],
    memory: int,
) -> dict[str, File]:
    """Files of the program that runs the model on data: on hosts from files, or as an image of the
    board.

    `memory` are bytes of variables of vendors, `samples` what the board's image checks.
    """
    if target.board:
        needs = _needs(program, plan, constants, memory)
        needs = replace(needs, constants=needs.constants + vector_bytes(program, samples))
        section = weights.section_of(program)
        checks = board.section_checks(program.name, target, needs, section)
        return board.board_files(target, needs, options.flash, section, checks)
    folder = runtime_c() / "ports" / "host"
    return {f"host/{n}": (folder / n).read_bytes() for n in ("runner.c", "trace.h")}


def _selftest(program: Program, options: Options, samples: Sequence[Sample]) -> dict[str, File]:
    """Files of the self-test with `samples` as C arrays; {} without samples."""
    if not samples:
        return {}
    text = spell_selftest(program, samples, options.accuracy)
    return {
        "host/selftest.h": (runtime_c() / "ports" / "selftest.h").read_bytes(),
        "host/selftest_vectors.h": text.encode("ascii"),
    }


def _frame_check(stack: int | None) -> str:
    """CMake that stops a function which takes more of a stack than is left by its callers."""
    if stack is None:
        return ""
    flag = f"-Werror=frame-larger-than={max(stack - _CALLERS, _LEAST_FRAME)}"
    return f"set_property(SOURCE ${{sources}} APPEND PROPERTY COMPILE_OPTIONS {flag}) # --stack\n"


def _needs(program: Program, plan: Plan, constants: Constants, memory: int) -> Needs:
    """The bytes that the board's memories must hold; `memory` are those of vendors' variables."""
    needs = needs_of(program, plan, constants.nbytes)
    return replace(needs, io=needs.io + memory)


def _values(
    program: Program,
    plan: Plan,
    target: Target,
    options: Options,
    constants: Constants,
    math: bool,
    vendors: Vendors,
    fallbacks: Sequence[RegionFallback],
) -> dict[str, object]:
    """Values for all templates of a bundle; `math` says whether a kernel needs libm."""
    name = program.name
    given = ["_given"] if weights.has_weights_file(program) else []
    parts = ["", "_run", "_arena", "_static", "_tvmgen", *given]
    parts += ["_rows"] * bool(program.segments) + ["_threads"] * (program.threads > 1)
    flags = (*value_flags(options.accuracy), *common_flags(target), *board.FLAGS * target.board)
    ins, outs = interface.inputs(program), interface.outputs(program)
    needs = _needs(program, plan, constants, vendors.memory)
    return {
        "name": name,
        "NAME": name.upper(),
        "version": ctext.plain(__version__),
        "cmake_version": ".".join(re.findall(r"\d+", __version__)[:3]),
        "toolchain": _cmake_toolchain(target),
        "abi": manifests.ABI,
        "cpu": ctext.plain(target.cpu),
        **_units(program, target, parts),
        "vlen": target.vlen,
        "strict": options.accuracy == "strict",
        "magic": _magic(program),
        "signature": interface.signature(program),
        "halfway": interface.halfway(program),
        "owner": name,
        "arena_bytes": plan.arena_bytes,
        "portable_bytes": portable_bytes(plan, fallbacks),
        "ffi": "" if target.board else f" src/{program.name}_ffi.c",
        "left_out": " || ".join(f"defined({w})" for w in left_out(vendors.parts)),
        "regions": declarations(program, fallbacks, [p.own for p in vendors.parts if p.own])
        + rows.declarations(program),
        "vendor_sources": spell_sources(name, vendors),
        "arena_align": plan.alignment,
        "constants_bytes": constants.nbytes,
        "calls": len(program.calls),
        **slices.values(program, options.slice_macs),
        "inputs": len(ins),
        "outputs": len(outs),
        "sizes": interface.sizes(program, plan.arena_bytes),
        **quantised_ends.values(program),
        "input_members": interface.members(ins),
        "output_members": interface.members(outs),
        "gather": interface.gather(program),
        "expected": interface.expected(program),
        "sources": " ".join(f"src/{name}{part}.c" for part in parts),
        "pic": "OFF" if target.board else "ON",
        "board": target.board,
        "emulator": ctext.plain(" ".join(target.emulator)),
        "image": board.image_cmake(name, target) if target.board else "",
        "sections": board.section_definitions(target, needs),
        # The linker checks the places of arrays that it knows by name.
        "checked": target.board and board.section_checks(name, target, needs, "") != "",
        "runner_io_bytes": io_bytes(program),
        "options": " ".join(_cmake_argument(f) for f in flags),
        "level": f"$<$<CONFIG:Release>:{board.LEVEL}> " if target.board else "",
        "level_text": f"{board.LEVEL} " if target.board else "",
        "bare_level": board.LEVEL if target.board else "-O3",
        "frame_check": _frame_check(options.stack),
        "weights_align": board.WEIGHTS_ALIGN if target.board else 64,
        "weights": _weights_cmake(program, constants),
        **weights.values(program, constants),
        **_system(program, math),
        "vendors": spell_cmake(name, vendors),
        "archive": vendors.archive,
        "links": " ".join(vendors.links),
        "slots": state_slots(program),
        "bytes": constants.blob.nbytes if constants.blob else 0,
        "beside": True,
        "file": weights.content_path(name, beside=True)[4:],
        **interface.places(program, plan),
        **interface.example(program),
    }


def _system(program: Program, math: bool) -> dict[str, object]:
    """How many threads a run has, and the libraries of the system that CMake links; `math` says
    whether a kernel needs libm.
    """
    mapped, threads = weights.is_mapped(program), program.threads
    links = [LIBM] * math + [DL] * mapped + ["-pthread"] * (threads > 1)
    return {"threads": threads, "libm": " ".join(links)}


def _units(program: Program, target: Target, parts: Sequence[str]) -> dict[str, object]:
    """What init asks of the CPU, and the sources that are compiled to run on any CPU."""
    check = cpu_check(target)
    asking = [p for p in parts if p not in _COMPUTING]
    asking += ["_mapped"] if weights.is_mapped(program) else []
    return {
        "units": check,
        "unit_flags": " ".join(map(_cmake_argument, check.units)) if check else "",
        "interface": " ".join(f"src/{program.name}{part}.c" for part in asking),
    }


def _magic(program: Program) -> str:
    """A number that no other model's context has by chance; never zero."""
    digest = hashlib.sha256(program.text().encode("utf-8", "surrogatepass")).digest()
    return f"0x{int.from_bytes(digest[:4], 'little') | 1:08x}U"


def _cmake_argument(text: str) -> str:
    """`text` as one argument of a CMake command."""
    safe = all(c.isascii() and (c.isalnum() or c in "-_=.,+/:") for c in text)
    if safe and text:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return '"' + escaped.replace(";", "\\;").replace("\n", " ") + '"'


def _cmake_toolchain(target: Target) -> str:
    """A cross compiler must be known before `project`; this machine's own is found by CMake."""
    if b"CMAKE_SYSTEM_NAME" not in _toolchain(target):
        return ""
    return """\
  if(NOT CMAKE_TOOLCHAIN_FILE)
    set(CMAKE_TOOLCHAIN_FILE "${CMAKE_CURRENT_LIST_DIR}/cmake/toolchain.cmake")
  endif()
"""
