# SPDX-License-Identifier: Apache-2.0
"""`--package KIND`: the model as the library of another build system, from templates.

`templates/packages/index.toml` lists the files of each kind; a package holds all that it needs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from aot.emit_c import ctext, interface, weights
from aot.emit_c.board import FLAGS, LEVEL, WEIGHTS_ALIGN
from aot.emit_c.clang_format import formatted
from aot.emit_c.project import value_flags
from aot.emit_c.render import TEMPLATES, render
from aot.emit_c.write import Blob, File
from aot.errors import UnsupportedError
from aot.plan.compiled import Compiled
from aot.version import __version__

#: `0x2a,` for every byte: a row of sixteen has 80 columns.
_SPELLED = np.array([f"0x{byte:02x},".encode() for byte in range(256)])
_ROW, _CHUNK = 80, 1 << 16
#: Bytes of stack for a task whose model declares none.
_STACK = 8192


@dataclass(frozen=True, slots=True, eq=False)
class _Array(Blob):
    """Constants as the C array `head`, spelled while it is written; `nbytes` counts constants."""

    head: str

    def chunks(self) -> Iterator[memoryview | bytes]:
        """The text, in order."""
        yield self.head.encode("ascii")
        for part in Blob.chunks(self):
            for at in range(0, len(part), _CHUNK):
                text = _SPELLED[np.frombuffer(part[at : at + _CHUNK], np.uint8)].tobytes()
                yield b"".join(text[i : i + _ROW] + b"\n" for i in range(0, len(text), _ROW))
        yield b"};\n"


@cache
def index() -> dict[str, Any]:
    """The kinds of packages by name; `common` lists files that all of them have."""
    return tomllib.loads((TEMPLATES / "packages" / "index.toml").read_text("ascii"))


def package_files(kind: str, compiled: Compiled) -> dict[str, File]:
    """Every file of the package `kind` by its path. Equal compilations give equal bytes.

    Raises UnsupportedError for a model whose calls a vendor computes: its C files and libraries
    are known to the bundle's CMake only.
    """
    vendors = sorted({c.backend for c in compiled.program.every_call()} - {"c"})
    if vendors:
        libraries = ", ".join(compiled.manifest["libraries"])
        why = f"its library ({libraries}) is found" if libraries else "its files are compiled"
        what = f"--package {kind} with --backend {','.join(vendors)}: {why} by the bundle's CMake"
        raise UnsupportedError(what, hint="portable C alone, or add_subdirectory of the bundle")
    own, name = index()[kind], compiled.name
    put = {"name": name, **{f: own[f].format(name=name) for f in ("src", "include")}}
    files = _sources(compiled, put)
    values = _values(kind, compiled, [p for p in files if p.endswith(".c")], put)
    templates = {**index()["common"]["files"], **own["files"]}
    made = {
        path.format_map(put): render(f"packages/{template.format_map({'kind': kind})}", values)
        for path, template in templates.items()
    }
    files |= formatted(made)
    return {path: files[path] for path in sorted(files)}


def _sources(compiled: Compiled, put: dict[str, str]) -> dict[str, File]:
    """The files of the bundle that a package has, the constants as C."""
    name, files = compiled.name, dict[str, File]()
    content = weights.content_path(name, beside=True)
    left = {f"src/{name}_ffi.c", f"src/{name}_trace.h", f"src/{name}_weights.c", "src/aot_trace.h"}
    for path, file in compiled.files.items():
        folder, _, rest = path.partition("/")
        if path == content and isinstance(file, Blob):
            head = render("packages/common/weights.c", _array(compiled, file.nbytes))
            files[f"{put['src']}/{name}_weights.c"] = _Array(file.parts, file.nbytes, head.decode())
        elif folder in put and path not in left:
            files[f"{put[folder]}/{rest}"] = file
    return files | {"LICENSE": compiled.files["LICENSE"]}


def _array(compiled: Compiled, nbytes: int) -> dict[str, object]:
    """What the declaration of the constants' array says."""
    section = weights.section_of(compiled.program)
    align = WEIGHTS_ALIGN if compiled.target.board else 64
    return {"name": compiled.name, "bytes": nbytes, "align": align, "section": section}


def _values(
    kind: str, compiled: Compiled, sources: list[str], put: dict[str, str]
) -> dict[str, object]:
    """What the templates are told; paths of sources are relative to their folder."""
    program, target, memory = compiled.program, compiled.target, compiled.manifest["memory"]
    code = sorted([p.removeprefix(f"{put['src']}/") for p in sources] + [f"{program.name}_data.c"])
    board = bool(target.board)
    return {
        **put,
        "kind": kind,
        "NAME": program.name.upper(),
        "version": ctext.plain(__version__),
        "cpu": ctext.plain(target.cpu),
        "sources": code,
        "flags": value_flags(compiled.manifest["options"]["accuracy"]),
        "cpu_flags": (*target.cflags, *(FLAGS[:2] if board else ())),
        "level": LEVEL if board else "-O3",
        "inputs": interface.inputs(program),
        "outputs": interface.outputs(program),
        "label": interface.label,
        "plain": ctext.plain,
        "symbols": len(program.dynamic_dims),
        "board": board,
        "arena_align": compiled.plan.alignment,
        "arena_bytes": memory["arena_bytes"],
        "constants_bytes": memory["constants_bytes"],
        "stack": memory["stack_bytes"] or _STACK,
    }
