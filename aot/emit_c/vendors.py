# SPDX-License-Identifier: Apache-2.0
"""C files and libraries that the vendors of a program's calls bring along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.emit_c import ctext
from aot.errors import BackendError
from aot.program import Program
from aot.vendor.backend import Backend
from aot.vendor.find import backends_for


@dataclass(frozen=True, slots=True)
class Vendors:
    """`files` by their path in the bundle, `sources` of them to compile, CMake targets to link.

    `finds` are (vendor, CMake file, target it defines, what to do if the library is missing).
    """

    files: dict[str, bytes]
    sources: tuple[str, ...]
    links: tuple[str, ...]
    finds: tuple[tuple[str, str, str, str], ...] = ()


def vendors_of(program: Program, names: tuple[str, ...]) -> Vendors:
    """What the backends called `names` add, as far as they have calls in `program`."""
    used = {call.backend for call in program.calls}
    if used <= {"c"}:
        return Vendors({}, (), ())
    ordered = (*names, *sorted(used))  # a model's own metadata may name more than the options
    backends = [b for b in backends_for(ordered) if b.name in used and b.name != "c"]
    files: dict[str, bytes] = {}
    for backend in backends:
        for name in backend.sources:
            path = f"src/vendor/{ctext.ident(backend.name)}/{ctext.source_name(name)}"
            files[path] = _read(backend, name)
    sources = tuple(p for p in files if p.endswith(".c"))
    links = tuple(ctext.cmake_target(b.link) for b in backends if b.link)
    finds = []
    for b in backends:
        if b.find:
            path = f"cmake/find_{ctext.ident(b.name)}.cmake"
            files[path] = _read(b, b.find)
            finds.append((b.name, path, b.link, b.hint))
    return Vendors(files, sources, links, tuple(finds))


def _read(backend: Backend, name: str) -> bytes:
    folder = backend.folder or next((p.folder for p in backend.patterns if p.folder), None)
    if folder is None or not (folder / name).is_file():
        raise BackendError(f"backend {backend.name}: its source {name} does not exist", str(folder))
    return (folder / name).read_bytes()


def spell_cmake(name: str, vendors: Vendors) -> str:
    """CMake that builds the vendors' sources as a library of their own and links everything.

    They are the vendor's symbols, not the model's, so they stay out of the model's archive.
    """
    text = "".join(_find(*f) for f in vendors.finds)
    if vendors.sources:
        text += f"""
add_library({name}-vendors STATIC {_listed(vendors.sources)})
aot_options_{name}({name}-vendors)
target_include_directories({name}-vendors PRIVATE src/kernels)
set_target_properties({name}-vendors PROPERTIES OUTPUT_NAME {name}_vendors)
{_linked(name, vendors)}list(APPEND installed {name}-vendors)
list(APPEND linked_{name} {name}-vendors)
"""
    if vendors.links:
        text += f"list(APPEND linked_{name} {_listed(vendors.links)})\n"
    return text


def _find(vendor: str, path: str, target: str, hint: str) -> str:
    """Look for a vendor's library, and say who needs it and what to do when it is not there."""
    target = ctext.cmake_target(target)
    advice = ctext.plain(hint).replace("$", "")
    return f"""
include("${{CMAKE_CURRENT_LIST_DIR}}/{path}")
if(NOT TARGET {target})
  message(FATAL_ERROR "vendor {ctext.ident(vendor)}: its library was not found. {advice}")
endif()
"""


def _linked(name: str, vendors: Vendors) -> str:
    """The vendors' sources see the headers of their libraries."""
    if not vendors.links:
        return ""
    return f"target_link_libraries({name}-vendors PUBLIC {_listed(vendors.links)})\n"


def _listed(items: Sequence[str]) -> str:
    return " ".join(items)
