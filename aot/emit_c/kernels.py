# SPDX-License-Identifier: Apache-2.0
"""Which kernel headers a program needs, and what they say of their parameter structs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aot.emit_c import ctext
from aot.emit_c.resources import runtime_c
from aot.errors import BackendError

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.MULTILINE)
_STRUCT = re.compile(r"typedef\s+struct\s*\w*\s*\{([^{}]*)\}\s*(\w+)\s*;", re.DOTALL)
_ALIAS = re.compile(r"typedef\s+(\w+_params)\s+(\w+_params)\s*;")
_RANGE = re.compile(r"AOT_INLINE void (\w+_rows)\(")
_NAMED = re.compile(r"#define (\w+_PARAMS) (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
PUBLIC = ("port.h", "aot.h", "dlpack.h")


@dataclass(frozen=True, slots=True)
class Headers:
    """Kernel headers of a bundle.

    `files` maps names in src/kernels to contents, `direct` are those calls name, in order of
    first use; `fields` gives the C type of each member of each parameter struct; `math` tells
    whether any includes math.h; `ranges` are the functions KERNEL_rows, which take the rows to
    make as arguments.
    """

    files: Mapping[str, bytes]
    direct: tuple[str, ...]
    fields: Mapping[str, Mapping[str, str]]
    math: bool
    ranges: frozenset[str] = frozenset()


def collect(headers: Iterable[str]) -> Headers:
    """The headers called `headers` (names in runtime_c/kernels or absolute paths) and all that
    they include. Raises BackendError when one is missing or two differ under one name."""
    direct: dict[str, None] = {}
    found: dict[str, Path] = {}
    contents: dict[str, bytes] = {}
    queue: list[tuple[Path, str]] = []
    for header in dict.fromkeys(headers):
        path = Path(header)
        path = path if path.is_absolute() else runtime_c() / "kernels" / header
        direct.setdefault(ctext.header_name(path.name))
        queue.append((path, "a kernel call"))
    while queue:
        path, asker = queue.pop(0)
        name = ctext.header_name(path.name)
        if name in found:
            # Two vendors may bring the same file; equal bytes under one name do no harm.
            if found[name] != path and path.is_file() and path.read_bytes() != contents[name]:
                raise BackendError(f"two different headers are called {name}", str(path))
            continue
        if not path.is_file():
            raise BackendError(f"header {name} does not exist", f"{asker} needs {path}")
        found[name], contents[name] = path, path.read_bytes()
        queue += [(p, name) for p in _included(path, contents[name])]
    # Comments may tell of headers and fields that the code does not use.
    texts = {n: _COMMENT.sub(" ", c.decode("utf-8")) for n, c in contents.items()}
    math = any(re.search(r"#\s*include\s*<(tg)?math\.h>", t) for t in texts.values())
    ranges = frozenset(n for t in texts.values() for n in _RANGE.findall(t))
    return Headers(contents, tuple(direct), _fields(texts.values()), math, ranges)


def _included(path: Path, content: bytes) -> list[Path]:
    """Paths of the headers that a header includes, but public ones; beside it or among aotc's
    kernels.

    BackendError for a header of "aot/" that bundles do not have.
    """
    paths = []
    for match in _INCLUDE.finditer(content):
        name = match.group(1).decode("utf-8", "replace")
        if name.startswith("aot/"):
            if name.removeprefix("aot/") not in PUBLIC:
                raise BackendError(f"header {path.name} includes {name}, which no bundle has")
            continue
        beside = path.parent / name
        paths.append(beside if beside.is_file() else runtime_c() / "kernels" / name)
    return paths


def _fields(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """C types of struct members, as far as they are written out (macros may hide some).

    A template's struct has the name that a macro is defined as before the template is included.
    """
    texts = tuple(texts)
    structs: dict[str, dict[str, str]] = {}
    aliases: list[tuple[str, str]] = []
    for text in texts:
        for match in _STRUCT.finditer(text):
            structs[match.group(2)] = _members(match.group(1))
        aliases += [(a, b) for a, b in _ALIAS.findall(text)]
    for text in texts:
        aliases += [(a, b) for a, b in _NAMED.findall(text) if a in structs]
    for known, new in aliases:
        if known in structs:
            structs[new] = structs[known]
    return structs


def _members(body: str) -> dict[str, str]:
    """C type by name of the members that the `body` of a struct declares; arrays have their
    element's.
    """
    members: dict[str, str] = {}
    for declaration in body.split(";"):
        match = re.match(r"\s*(?:const\s+)?(\w+)\s+(.*)\Z", declaration, re.DOTALL)
        if match:
            for name in match.group(2).split(","):
                members[name.partition("[")[0].strip()] = match.group(1)
    return members
