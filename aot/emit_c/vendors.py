# SPDX-License-Identifier: Apache-2.0
"""C files and libraries that the vendors of a program's calls bring along."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aot.emit_c import ctext
from aot.emit_c.regions import VendorParts, regions_by_vendor, standing_in, without
from aot.emit_c.resources import cmake, runtime_c
from aot.emit_c.weights import content_path
from aot.errors import BackendError
from aot.ir.program import Program
from aot.options import Options
from aot.vendor.backend import Backend
from aot.vendor.find import backends_of
from aot.vendor.recorder import source_folder


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's part of a bundle.

    `sources` are C files to compile, `link` a CMake target (""), `find` the CMake file that defines
    it (""), `hint` what to do if the library is missing. `definitions` are macros for the sources,
    `memory` bytes of RAM that they take.
    """

    parts: VendorParts
    sources: tuple[str, ...]
    link: str
    find: str
    hint: str
    definitions: tuple[str, ...] = ()
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Vendors:
    """`files` by their path in the bundle, and the vendors in order of preference."""

    files: dict[str, bytes]
    each: tuple[Vendor, ...] = ()

    @property
    def links(self) -> tuple[str, ...]:
        """CMake targets of the libraries."""
        return tuple(v.link for v in self.each if v.link)

    @property
    def archive(self) -> bool:
        """Whether there is a second archive, of the vendors' own sources."""
        return any(v.sources for v in self.each)

    @property
    def memory(self) -> int:
        """Bytes of RAM of all vendors' own variables."""
        return sum(v.memory for v in self.each)

    @property
    def parts(self) -> tuple[VendorParts, ...]:
        """What is compiled for each vendor's regions."""
        return tuple(v.parts for v in self.each)


def used_backends(program: Program, options: Options) -> dict[str, Backend]:
    """The backends that have calls in `program`, in order of preference, by name."""
    used = set(regions_by_vendor(program))
    used.discard("c")
    if not used:
        return {}
    _kernels_exist(program)
    return {b.name: b for b in backends_of(used, options)}


def _kernels_exist(program: Program) -> None:
    """BackendError, naming vendor and node, for a call of what neither the vendor nor aot has."""
    kernels = runtime_c() / "kernels"
    for call in (*(s.create for s in program.states), *program.every_call()):
        header = call.header or f"{call.kernel}.h"
        if call.backend == "c" or Path(header).is_absolute() or (kernels / header).is_file():
            continue
        what = f"{call.backend}: there is no kernel {call.kernel}: no header {header}"
        hint = (
            "the backend's `header` names a file in the vendor's folder that declares its functions"
        )
        raise BackendError(what, f"node {' + '.join(call.origin.nodes)}", hint)


def vendors_of(
    program: Program, backends: Mapping[str, Backend], parts: Sequence[VendorParts]
) -> Vendors:
    """What the backends add to the bundle of `program`: files by path, and a Vendor for each.

    Sources come from the backend's package and from its lowering (`program.attached`), and lie in
    the vendor's folder; `parts` are what CMake is told of the vendors' regions. Raises BackendError
    for a source that cannot be read.
    """
    own = {p.vendor: p for p in parts}
    files: dict[str, bytes] = {}
    each = []
    for backend in backends.values():
        folder = f"{source_folder(backend.name)}/"
        sources = [p for p, _ in program.attached if p.startswith(folder) and p.endswith(".c")]
        for name in backend.sources:
            path = f"{folder}{ctext.source_name(name)}"
            files[path] = _read(backend, name)
            # Headers are in the bundle, too, but only C and C++ files are compiled.
            sources += [path] if path.endswith((".c", ".cpp")) else []
        find = f"cmake/find_{ctext.ident(backend.name)}.cmake" if backend.find else ""
        if find:
            files[find] = _read(backend, backend.find)
            files["cmake/vendors.cmake"] = (cmake() / "vendors.cmake").read_bytes()
        link = ctext.cmake_target(backend.link) if backend.link else ""
        made = Vendor(own[backend.name], tuple(sources), link, find, backend.hint)
        each.append(replace(made, definitions=backend.definitions, memory=backend.memory))
    return Vendors(files, tuple(each))


def _read(backend: Backend, name: str) -> bytes:
    """The bytes of file `name` in the folder of a vendor; BackendError if it does not exist."""
    folder = backend.folder or next((p.folder for p in backend.patterns if p.folder), None)
    if folder is None or not (folder / name).is_file():
        raise BackendError(f"backend {backend.name}: its source {name} does not exist", str(folder))
    return (folder / name).read_bytes()


def switch(vendor: str) -> str:
    """The CMake option that leaves a vendor out when it is OFF."""
    return f"AOT_{ctext.ident(vendor).upper()}"


def left_out(parts: Sequence[VendorParts]) -> list[str]:
    """Macros that are defined where a vendor is left out."""
    return [without(p.vendor) for p in parts if not p.reason]


def spell_sources(name: str, vendors: Vendors) -> str:
    """CMake that adds to `sources` each vendor's regions, or what stands in for them."""
    text = ""
    for v in vendors.each:
        option, parts = switch(v.parts.vendor), v.parts
        between = "else()\n"
        # Whether a stand-in is needed may depend on what CMake found on the machine.
        if parts.standin:
            macro = standing_in(parts.vendor)
            between = f"""\
endif()
if({option} AND ({parts.standin}))
  list(APPEND without_{name} {macro})
endif()
if(NOT {option} OR ({parts.standin}))
"""
        text += f"""
option({option} "Compute the regions of {parts.vendor} with its code (OFF: portable C)" ON)
if({option})
  list(APPEND sources {parts.source})
{_own_weights(name, parts)}{between}{_stand_in(name, parts)}endif()
"""
    return text


def _own_weights(name: str, parts: VendorParts) -> str:
    """CMake lines that add the constants of a vendor's own; "" if there are none."""
    lines = cmake_weights(name, parts.own).splitlines() if parts.own else []
    return "".join(f"  {line}\n" for line in lines)


def _stand_in(name: str, parts: VendorParts) -> str:
    """CMake lines that add the portable regions of a vendor, or that refuse where there are
    none.
    """
    if parts.reason:
        why = ctext.plain(parts.reason).replace("$", "").replace('"', "'").replace("\\", "/")
        return (
            f'  message(FATAL_ERROR "{switch(parts.vendor)}=OFF: portable C cannot stand in for '
            f'{ctext.ident(parts.vendor)}: {why}")\n'
        )
    macro = without(parts.vendor)
    text = f"  list(APPEND sources {' '.join(parts.portable)})\n"
    text += f"  list(APPEND without_{name} {macro})\n"
    for blob, _ in parts.blobs:
        text += "".join(f"  {line}\n" for line in cmake_weights(name, blob).splitlines())
    return text


def cmake_weights(owner: str, blob: str, section: str = "", sources: str = "sources") -> str:
    """CMake that adds the constants called `blob`_weights to `sources`."""
    file = content_path(blob, beside=sources == "sources")
    placed = f' "-DSECTION={section}"' if section else ""
    # The assembler includes the file: compilers need seconds and much memory for megabytes in an
    # array.
    return f"""\
if(AOT_WEIGHTS_C)
  set(weights_c "${{CMAKE_CURRENT_BINARY_DIR}}/{blob}_weights_array.c")
  set(weights_bin "${{CMAKE_CURRENT_SOURCE_DIR}}/{file}")
  add_custom_command(OUTPUT "${{weights_c}}"
    COMMAND "${{CMAKE_COMMAND}}" -DNAME={blob} -DOWNER={owner} "-DINPUT=${{weights_bin}}"{placed}
      "-DOUTPUT=${{weights_c}}" -P "${{CMAKE_CURRENT_SOURCE_DIR}}/cmake/bin2c.cmake"
    DEPENDS "${{weights_bin}}" cmake/bin2c.cmake VERBATIM)
  list(APPEND {sources} "${{weights_c}}")
else()
  list(APPEND {sources} src/{blob}_weights.c)
  set_source_files_properties(src/{blob}_weights.c PROPERTIES COMPILE_OPTIONS -fno-lto
    COMPILE_DEFINITIONS AOT_WEIGHTS_BY_NAME
    OBJECT_DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/{file}")
endif()
"""


def cmake_mapped(name: str) -> str:
    """CMake that links the file of the constants beside the library, where it is built alone."""
    return f"""\
list(APPEND sources src/{name}_mapped.c)
set(weights_folder "${{CMAKE_CURRENT_BINARY_DIR}}")
if(AOT_TOP_LEVEL_{name})
  set(weights_folder "${{CMAKE_BINARY_DIR}}/lib")
endif()
add_custom_command(OUTPUT "${{weights_folder}}/{name}.weights"
  COMMAND "${{CMAKE_COMMAND}}" "-DFROM=${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.weights"
    "-DTO=${{weights_folder}}/{name}.weights" -P "${{CMAKE_CURRENT_SOURCE_DIR}}/cmake/link.cmake"
  DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.weights" VERBATIM)
add_custom_target({name}-weights ALL DEPENDS "${{weights_folder}}/{name}.weights")
"""


#: libm, where it is a library apart.
LIBM = "$<$<NOT:$<PLATFORM_ID:Windows,Darwin>>:m>"

#: dladdr's library, where it is one apart.
DL = "${CMAKE_DL_LIBS}"


def spell_cmake(name: str, vendors: Vendors) -> str:
    """CMake that builds the vendors' sources as a library of their own and links everything.

    They are the vendor's symbols, not the model's, so they stay out of the model's archive.
    A linker looks for what an archive lacks only behind it: theirs follows, libm comes last.
    """
    if not vendors.each:
        return ""
    text = f"set(vendor_sources_{name})\nset(vendor_links_{name})\nset(vendor_definitions)\n"
    for v in vendors.each:
        inner = "".join(f"  list(APPEND vendor_definitions {_quoted(d)})\n" for d in v.definitions)
        inner += _find(v) if v.find else ""
        if v.sources:
            inner += f"  list(APPEND vendor_sources_{name} {' '.join(v.sources)})\n"
        if v.link:
            inner += f"  list(APPEND vendor_links_{name} {v.link})\n"
        if inner:
            text += f"if({switch(v.parts.vendor)})\n{inner}endif()\n"
    return f"""{text}
if(vendor_sources_{name})
  add_library({name}-vendors STATIC ${{vendor_sources_{name}}})
  aot_options_{name}({name}-vendors)
  target_include_directories({name}-vendors PRIVATE src/kernels)
  target_compile_definitions({name}-vendors PRIVATE ${{vendor_definitions}})
  set_target_properties({name}-vendors PROPERTIES OUTPUT_NAME {name}_vendors)
  target_link_libraries({name}-vendors PUBLIC ${{vendor_links_{name}}} {LIBM})
  list(APPEND installed {name}-vendors)
  set(linked_{name} {name}-vendors ${{vendor_links_{name}}} ${{linked_{name}}})
else()
  set(linked_{name} ${{vendor_links_{name}}} ${{linked_{name}}})
endif()
"""


def _quoted(definition: str) -> str:
    """A macro as one argument of a CMake command."""
    return '"' + definition.replace('"', '\\"') + '"'


def _find(v: Vendor) -> str:
    """CMake that looks for a vendor's library, and tells who needs it if it is not there."""
    advice = " ".join(map(ctext.plain, textwrap.wrap(v.hint, ctext.MAX_COMMENT))).replace("$", "")
    vendor = ctext.ident(v.parts.vendor)
    instead = "" if v.parts.reason else f" Or -D{switch(vendor)}=OFF: portable C instead."
    if not v.link:
        return f'  include("${{CMAKE_CURRENT_LIST_DIR}}/{v.find}")\n'
    first = re.sub(r"[^A-Za-z0-9_./ +-]", "_", v.parts.first)
    return f"""\
  include("${{CMAKE_CURRENT_LIST_DIR}}/cmake/vendors.cmake")
  aot_find_vendor({vendor} {v.link}
    "It computes node {first} and maybe others. {advice}{instead}")
"""
