# SPDX-License-Identifier: Apache-2.0
"""`--single-file`: the bundle once more as one C file and one header, for projects of two files.

`single/NAME.c` has the text of every source of the bundle and of the headers that they share;
`single/NAME.h` that of the public headers. The constants are an array in the C file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aot.emit_c import ctext, weights
from aot.emit_c.write import Blob, File
from aot.errors import UnsupportedError
from aot.ir.program import Program

#: More bytes of constants than a C compiler takes as text in reasonable time and memory.
MOST_BYTES = 64 << 20
#: Sources in the order in which they follow each other; calls by rows come first, for they set
#: macros that headers of kernels read.
ORDER = ("_rows", "_run", "_static", "_arena", "", "_tvmgen")
_INCLUDE = re.compile(r'^#include "([^"]+)"(?: */\*.*\*/)?\n', re.MULTILINE)
_GUARD = re.compile(r"^#ifndef \w+_H\b", re.MULTILINE)
_DEFINE = re.compile(r"^#define (\w+)", re.MULTILINE)
_STATIC = re.compile(
    r"^(?:AOT_\w+(?:\([^)]*\))? )*static [\w *]*?\b(\w+)(?:\[|\(| =|;)", re.MULTILINE
)


def _check(program: Program, blob: Blob | None) -> None:
    """Raise UnsupportedError for a program of which one C file would be only a part, or too
    large.
    """
    vendors = sorted({p.backend for p in program.every_call()} - {"c"})
    if vendors:
        what = f"--single-file: the regions of {', '.join(vendors)} have sources of their own"
        raise UnsupportedError(what, hint="leave out --backend, or --single-file")
    if program.passed or weights.is_mapped(program):
        what = f"--single-file: --weights {program.weights} keeps the constants in another file"
        raise UnsupportedError(what, hint="leave out one of the two")
    if blob is not None and blob.nbytes > MOST_BYTES:
        what = f"--single-file: {blob.nbytes} bytes of constants (at most {MOST_BYTES})"
        raise UnsupportedError(what, hint="leave out --single-file")


def single_files(program: Program, files: Mapping[str, File], blob: Blob | None) -> dict[str, File]:
    """`single/NAME.c` and `single/NAME.h`, made of the bundle's `files`; constants from `blob`.

    Raises UnsupportedError for regions of vendors, for constants in another file and for more than
    MOST_BYTES of them.
    """
    _check(program, blob)
    name = program.name
    text = {p: t.decode("utf-8") for p, t in files.items() if isinstance(t, bytes) and _is_c(p)}
    public = _Text({p: t for p, t in text.items() if p.startswith("include/")}, set())
    headers = [public.whole(f"include/{h}") for h in (f"{name}.h", f"tvmgen_{name}.h")]
    guard = f"AOT_{name.upper()}_SINGLE_H"
    licence = "/* SPDX-License-Identifier: MIT-0 */\n"
    head = f"/* The public headers of {name} in one: include this file, compile {name}.c. */\n"
    top = f"{licence}{head}#ifndef {guard}\n#define {guard}\n\n"
    made: dict[str, File] = {}
    made[f"single/{name}.h"] = f"{top}{''.join(headers)}\n#endif /* {guard} */\n".encode()
    # The source includes the public header, whose parts it must not repeat.
    inner = _Text(text, public.seen)
    parts = [p for p in (f"src/{name}{suffix}.c" for suffix in ORDER) if p in text]
    body = list(_chunks(inner, parts))
    note = f"/* {name}: all of the model in one file; its header is {name}.h. */\n"
    begin = f'{licence}{note}#define AOT_NO_INLINE_RUN 1\n#include "{name}.h"\n\n'
    array = [] if blob is None else [_array(program, blob)]
    made[f"single/{name}.c"] = (begin + "".join([*array, *body])).encode()
    return made


def _is_c(path: str) -> bool:
    return path.startswith(("src/", "include/")) and path.endswith((".c", ".h"))


class _Text:
    """The text of sources with the headers that they include in their place.

    A header with a guard is there once; one without, a body that macros fill, every time.
    """

    def __init__(self, text: Mapping[str, str], seen: set[str]) -> None:
        """`seen` are paths of headers that are there already; it is changed."""
        self.text, self.seen = text, seen

    def whole(self, path: str) -> str:
        """The text of `path`, "" if it is there already."""
        if path in self.seen:
            return ""
        if _GUARD.search(self.text[path]):
            self.seen.add(path)
        return f"/* ---- {path} ---- */\n" + _INCLUDE.sub(
            lambda found: self._included(path, found), self.text[path]
        )

    def _included(self, path: str, found: re.Match[str]) -> str:
        """The text in the place of an #include line of `path`; the line itself for other files."""
        wanted, folder = found[1], path.rpartition("/")[0]
        if wanted.endswith("_trace.h"):
            return '#error "AOT_TRACE needs the bundle: one file has no tables of its trace"\n'
        for place in (f"{folder}/{wanted}", f"src/{wanted}", f"include/{wanted}"):
            if place in self.text or place in self.seen:
                return self.whole(place)
        return found[0]


def _chunks(inner: _Text, paths: list[str]) -> Iterator[str]:
    """Yield the text of each source; macros end with it, and static names are its own.

    A static name that an earlier source has, too, is another one by a macro.
    """
    known: set[str] = set()
    for number, path in enumerate(paths):
        text = inner.whole(path)
        own = set(_STATIC.findall(inner.text[path]))
        again = sorted(own & known)
        known |= own
        renamed = "".join(f"#define {n} {n}_{number}\n" for n in again)
        macros = dict.fromkeys((*_DEFINE.findall(inner.text[path]), *again))
        ended = "".join(f"#undef {m}\n" for m in macros if not m.startswith("AOT_"))
        yield f"{renamed}{text}\n{ended}\n"


def _array(program: Program, blob: Blob) -> str:
    """The C array of the constants, declared as the sources expect it, in its section."""
    data = b"".join(bytes(c) for c in blob.chunks())
    name, section = f"{program.name}_weights", weights.section_of(program)
    place = f"AOT_SECTION({ctext.string(section)}) " if section else ""
    head = f"AOT_HIDDEN extern const unsigned char {name}[];\n"
    begin = f"AOT_ALIGNED(64) {place}const unsigned char {name}[{len(data)}] = {{\n"
    return f"{head}{begin}{ctext.wrap([str(v) for v in data])}\n}};\n\n"
