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

from aot.emit_c import board, clang_format, ctext, interface, project, render, weights
from aot.emit_c.write import Blob, File
from aot.errors import UnsupportedError
from aot.plan.compiled import Compiled
from aot.version import __version__

#: `0x2a,` for every byte: a row of sixteen has 80 columns.
_SPELLED = np.array([f"0x{byte:02x},".encode() for byte in range(256)])
#: Characters of a line, and bytes of weights spelled at a time: text is five times as large.
_ROW, _CHUNK = 80, 1 << 16
#: Folders of the bundle that packages have.
_PARTS = ("src", "include")
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
    return tomllib.loads((render.TEMPLATES / "packages" / "index.toml").read_text("ascii"))


def package_files(kind: str, compiled: Compiled) -> dict[str, File]:
    """Every file of the package `kind` by its path. Equal compilations give equal bytes.

    Raises UnsupportedError for a model whose calls a vendor computes, whose C files and libraries
    are known to the bundle's CMake only, and for a crate with an arena in several memories.
    """
    vendors = sorted({c.backend for c in compiled.program.every_call()} - {"c"})
    if vendors:
        libraries = ", ".join(compiled.manifest["libraries"])
        why = f"its library ({libraries}) is found" if libraries else "its files are compiled"
        what = f"--package {kind} with --backend {','.join(vendors)}: {why} by the bundle's CMake"
        raise UnsupportedError(what, hint="portable C alone, or add_subdirectory of the bundle")
    if compiled.plan.parts and kind == "cargo":
        what = f"--package {kind} with --arena split: an arena of safe Rust is one value"
        raise UnsupportedError(what, hint="leave one of them away")
    own, name = index()[kind], compiled.name
    put = {"name": name, **{part: own[part].format(name=name) for part in _PARTS}}
    # Files for hosts and for the trace are of no use here. Constants become an array: the assembler
    # would need the path of a file, which builds of packages do not have.
    left = {f"src/{name}_ffi.c", f"src/{name}_trace.h", f"src/{name}_weights.c", "src/aot_trace.h"}
    content = weights.content_path(name, beside=True)
    kept = {p: f for p, f in compiled.files.items() if p not in {*left, content}}
    paths = [(p, *p.partition("/")[::2]) for p in kept]
    files = {f"{put[part]}/{rest}": kept[p] for p, part, rest in paths if part in _PARTS}
    constants = compiled.files.get(content)
    more = [f"{name}_data.c", *([f"{name}_weights.c"] if constants else [])]
    code = [rest for _, part, rest in paths if part == "src" and rest.endswith(".c")]
    values = {**put, "kind": kind, "sources": sorted([*code, *more]), **_values(compiled)}
    if isinstance(constants, Blob):
        head = render.render("packages/common/weights.c", {**values, "bytes": constants.nbytes})
        array = _Array(constants.parts, constants.nbytes, head.decode())
        files[f"{put['src']}/{name}_weights.c"] = array
    templates = {**index()["common"]["files"], **own["files"]}.items()
    made = {
        path.format(**put): render.render(f"packages/{template.format(kind=kind)}", values)
        for path, template in templates
    }
    files |= {**clang_format.formatted(made), "LICENSE": kept["LICENSE"]}
    return {path: files[path] for path in sorted(files)}


def _values(compiled: Compiled) -> dict[str, object]:
    """Values for the templates of every package: names, flags, inputs and outputs, sizes in
    bytes.
    """
    program, target, memory = compiled.program, compiled.target, compiled.manifest["memory"]
    return {
        "NAME": program.name.upper(),
        "version": ctext.plain(__version__),
        "cpu": ctext.plain(target.cpu),
        "board": target.board,
        "flags": project.value_flags(compiled.manifest["options"]["accuracy"]),
        "cpu_flags": (*target.cflags, *(board.FLAGS[:2] if target.board else ())),
        "level": board.LEVEL if target.board else "-O3",
        "section": weights.section_of(program),
        "weights_align": board.WEIGHTS_ALIGN if target.board else 64,
        "inputs": interface.inputs(program),
        "outputs": interface.outputs(program),
        "signature": interface.signature(program),
        "note": lambda t: ctext.comment(f"{interface.label(t)} {interface.kind(t)}"),
        "plain": lambda t: ctext.plain(interface.label(t)),
        "symbols": len(program.dynamic_dims),
        "arena_align": compiled.plan.alignment,
        "split": f"{program.name}_arena()" if compiled.plan.parts else "",
        "arena_bytes": memory["arena_bytes"],
        "constants_bytes": memory["constants_bytes"],
        "stack": memory["stack_bytes"] or _STACK,
    }
