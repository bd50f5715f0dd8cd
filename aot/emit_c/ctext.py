# SPDX-License-Identifier: Apache-2.0
"""The only place that spells C: identifiers, numbers, strings, comments.

No string of a model reaches generated text except through a function of this file.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aot.errors import InternalError
from aot.ir.program import FieldValue

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.h\Z")
_SOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.([chS]|cpp)\Z")
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(::[A-Za-z0-9_.-]+)?\Z")
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:;()[]{}<>=+-*/|&#@!'~^$"
)
_CTYPES = frozenset(
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float double int size_t"
    " void*".split()
)
#: Names from the user's file may have any length; comments keep emitted lines readable.
MAX_COMMENT = 160
#: The longest line of emitted C.
COLUMNS = 100


def _checked(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    """The function that gives back a name which `pattern` takes; others are no `what`.

    It raises InternalError for these.
    """

    def checked(name: str) -> str:
        """`name` itself if it matches `pattern`; else InternalError: it is not `what`."""
        if not pattern.match(name):
            raise InternalError(f"{name!r} is not {what}")
        return name

    return checked


#: Names that must already be what they are called: a C identifier, a header, a C file, a target of
#: CMake such as `acme::npu`.
ident = _checked(_IDENTIFIER, "a C identifier")
header_name = _checked(_HEADER, "the name of a header")
source_name = _checked(_SOURCE, "the name of a C or C++ file")
cmake_target = _checked(_TARGET, "the name of a CMake target")


def ctype(name: str) -> str:
    """One of the scalar types that may be passed by value, or the null pointer's."""
    compact = name.replace(" ", "")
    if compact not in _CTYPES:
        raise InternalError(f"{name!r} is not a scalar C type")
    return "void *" if compact == "void*" else compact


def string(text: str) -> str:
    """A C string literal with the UTF-8 bytes of `text`."""
    out = []
    for byte in text.encode("utf-8", "surrogatepass"):
        char = chr(byte)
        safe = 32 <= byte < 127 and char not in '"\\?'
        out.append(char if safe else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def continued(lines: Sequence[str]) -> list[str]:
    """Lines of one directive of the preprocessor: each but the last ends in a backslash."""
    return [f"{line:<{COLUMNS - 1}}\\" for line in lines[:-1]] + [lines[-1]]


def literals(text: str, most: int = 80) -> str:
    """`text` as string literals of at most `most` columns, each on a line of its own."""
    pieces, piece = [], ""
    for word in re.split(r"(?<= )|(?<=[^ ]{40})", text):
        if piece and len(string(piece + word)) > most:
            pieces.append(string(piece))
            piece = ""
        piece += word
    return "\n    ".join([*pieces, string(piece)])


def plain(text: str) -> str:
    """`text` on one line of harmless ASCII, all else percent-encoded; at most MAX_COMMENT long."""
    joined = _harmless(text[: MAX_COMMENT + 1])
    return joined if len(joined) <= MAX_COMMENT else joined[: MAX_COMMENT - 3] + "..."


def _harmless(text: str) -> str:
    """`text` on one line, with everything but plain ASCII percent-encoded."""
    pieces = []
    for c in text:
        if c in _PLAIN:
            pieces.append(c)
        else:
            pieces.extend(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass"))
    return "".join(pieces)


def _inside(body: str) -> str:
    """`body` without what ends a comment or starts another."""
    for pair in ("*/", "/*", "//"):
        while pair in body:
            body = body.replace(pair, pair[0] + f"%{ord(pair[1]):02X}")
    return body


def comment(text: str) -> str:
    """`/* text */` in which nothing can end the comment or start another."""
    return f"/* {_inside(plain(text)).strip()} */"


def block(lines: Sequence[str], indent: str = "", hang: int = 2) -> str:
    """A comment of whole `lines`, none cut: long ones go on, `hang` columns further right."""
    room = COLUMNS - len(indent) - 3
    made: list[str] = []
    for line in lines:
        made += _folded(_inside(_harmless(line)).rstrip(), room, min(hang, room // 2))
    one = f"{indent}/* {made[0].strip()} */"
    if len(made) == 1 and len(one) <= COLUMNS:
        return one
    rest = [f"{indent} * {line}".rstrip() for line in made[1:]]
    text = [f"{indent}/* {made[0]}".rstrip(), *rest]
    if len(text[-1]) + 3 <= COLUMNS:
        text[-1] += " */"
    else:
        text.append(f"{indent} */")
    return "\n".join(text)


def _folded(line: str, room: int, hang: int) -> list[str]:
    """`line` in pieces of at most `room` columns, broken at spaces, else behind signs of names."""
    pieces = []
    while len(line) > room:
        end = line.rfind(" ", hang + 1, room + 1)
        if end <= hang:
            end = max(line.rfind(c, hang + 1, room) for c in ";/_,") + 1
        end = room if end <= hang else end
        pieces.append(line[:end].rstrip())
        line = " " * hang + line[end:].lstrip()
    return [*pieces, line]


def integer(value: int) -> str:
    """An integer constant expression in C of at most 64 bits that fits its type without a warning.

    InternalError beyond 64 bits.
    """
    if -(2**31) < value < 2**31:
        return str(value)
    if value == -(2**63):
        # C has no negative literals: 9223372036854775808 alone does not fit int64_t.
        return "(-INT64_C(9223372036854775807) - 1)"
    if -(2**63) < value < 2**63:
        return f"INT64_C({value})"
    if value < 2**64:
        return f"UINT64_C({value})"
    raise InternalError(f"{value} does not fit 64 bits")


def float32(value: float) -> str:
    """A float constant, exact, as hexadecimal; INFINITY and NAN come from math.h."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return _hex(_to_float32(value)) + "F"


def decimal_float32(value: float) -> str:
    """A finite float constant, exact, in decimal: C++11 includes headers and has no other one."""
    text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    return text + "F"


def float64(value: float) -> str:
    """A double constant, exact, as hexadecimal."""
    if math.isnan(value):
        return "(double)NAN"
    if math.isinf(value):
        return "(double)INFINITY" if value > 0 else "(double)-INFINITY"
    return _hex(value)


def _to_float32(value: float) -> float:
    """`value` rounded to float32; InternalError if it is beyond the largest one."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError as error:
        raise InternalError(f"{value!r} does not fit a float") from error


def _hex(value: float) -> str:
    """`float.hex` without its trailing zeros: 0x1.8p+1."""
    mantissa, _, exponent = value.hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def number(value: int | float, kind: str = "") -> str:
    """A number for a variable of C type `kind`; where unknown, the Python type decides."""
    if kind == "double":
        return float64(float(value))
    if kind == "float":
        return float32(float(value))
    if isinstance(value, float):
        exact = math.isnan(value) or math.isinf(value) or _fits_float(value)
        return float32(value) if exact else float64(value)
    if value >= 2**31 and kind in ("uint32_t", "unsigned", "size_t"):
        return f"{value}U"
    return integer(value)


def _fits_float(value: float) -> bool:
    return abs(value) < 3.4e38 and _to_float32(value) == value


#: Bits of the integer types of C that structs have; signed ones lose one.
_BITS = {
    "int8_t": 7, "int16_t": 15, "int32_t": 31, "int64_t": 63, "int": 31, "ptrdiff_t": 63,
    "uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "uint64_t": 64, "unsigned": 32, "size_t": 64,
}  # fmt: skip


def fits(value: FieldValue, kind: str) -> bool:
    """Whether a variable of C type `kind` holds the integers of `value`."""
    bits = _BITS.get(kind, 64)
    low = 0 if kind.startswith(("u", "size")) else -(2**bits)
    values = value if isinstance(value, tuple) else (value,)
    return all(isinstance(v, float) or low <= v < 2**bits for v in values)


def field(value: FieldValue, kind: str = "") -> str:
    """The initialiser of a struct member: a number, or an array of them in braces."""
    if isinstance(value, tuple):
        return "{" + ", ".join(number(v, kind) for v in value) + "}" if value else "{0}"
    return number(value, kind)


#: NumPy kinds and sizes → C type of an array that holds the same bytes.
_ARRAY_TYPES = {
    ("f", 4): "float", ("f", 8): "double", ("f", 2): "uint16_t", ("b", 1): "uint8_t",
    ("i", 1): "int8_t", ("i", 2): "int16_t", ("i", 4): "int32_t", ("i", 8): "int64_t",
    ("u", 1): "uint8_t", ("u", 2): "uint16_t", ("u", 4): "uint32_t", ("u", 8): "uint64_t",
}  # fmt: skip


def array(name: str, data: np.ndarray[Any, Any], align: int = 64, section: str = "") -> str:
    """`static const` definition of the bytes of `data`, aligned to `align` bytes, in `section`."""
    flat = np.ascontiguousarray(data).reshape(-1)
    kind = _ARRAY_TYPES.get((flat.dtype.kind, flat.dtype.itemsize), "")
    if kind in ("float", "double") and not np.isfinite(flat).all():
        # Infinities and NaN payloads survive as bits only.
        kind = "uint32_t" if kind == "float" else "uint64_t"
        flat = flat.view(np.uint32 if kind == "uint32_t" else np.uint64)
    elif kind == "uint16_t":
        flat = flat.view(np.uint16)
    elif not kind:
        kind, flat = "uint8_t", flat.view(np.uint8)
    elif flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    values = [_element(v, kind) for v in flat.tolist()] or ["0"]
    where = f"AOT_SECTION({string(section)}) " if section else ""
    head = f"AOT_ALIGNED({align}) {where}static const {kind} {ident(name)}[{len(values)}] ="
    return fenced(head + " {\n" + wrap(values) + "\n};")


def call(head: str, items: Sequence[str], tail: str = ";") -> str:
    """`head(items)tail` in one line, which clang-format breaks: a call, or a function's head."""
    return f"{head}({', '.join(items)}){tail}"


def fenced(table: str) -> str:
    """A table of data, filled into lines that clang-format is told to leave as they are."""
    return f"/* clang-format off */\n{table}\n/* clang-format on */"


def table(ctype: str, name: str, rows: Sequence[str]) -> str:
    """The C of a constant array `name` of `ctype` with the initialisers `rows`, at least one."""
    return fenced(f"static const {ctype} {name}[] = {{\n{wrap(rows)}\n}};")


def _element(value: int | float, kind: str) -> str:
    """One element of an array whose C type is `kind`, as a literal of that type."""
    if kind == "uint64_t":
        return f"UINT64_C({value})"
    if kind == "uint32_t":
        return f"{value}U"
    if kind == "int32_t" and value == -(2**31):
        return "(-2147483647 - 1)"
    return number(value, kind)


def wrap(items: Sequence[str], indent: str = "    ", width: int = 98) -> str:
    """`items` with commas between, filled into lines of at most `width` columns that begin with
    `indent`.
    """
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 2 > width and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    lines.append(line.rstrip().rstrip(","))
    return "\n".join(lines)


def shape(dims: Sequence[int]) -> str:
    """`[1,3,224,224]`."""
    return "[" + ",".join(str(d) for d in dims) + "]"
