# SPDX-License-Identifier: Apache-2.0
"""How the text of an option's value is read. Each function raises ArgumentTypeError."""

from __future__ import annotations

import csv
import math
import re
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from aot.errors import AotError, TargetError
from aot.options import parse_bytes


def _pair(text: str, what: str) -> tuple[str, str]:
    """`NAME=VALUE` split at the last `=` (names may hold one)."""
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is not {what}")
    return name, value


def folder(text: str) -> str:
    """A folder's name. An empty one (an unset variable of a script) would be the current folder."""
    if not text:
        raise ArgumentTypeError("the name of the folder is empty (the current one is `.`)")
    return text


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None


def dim(text: str) -> tuple[str, int | tuple[int, int]]:
    """`NAME=V`, or `NAME=1..64` for a dimension that every run says."""
    name, value = _pair(text, "NAME=V")
    size = _size(value)
    if size is None or size == -1:
        raise ArgumentTypeError(f"{value!r} is not a size of dimension {name!r}")
    return name, size


def _size(text: str) -> int | tuple[int, int] | None:
    """`V` (-1 and up) or `A..B`, None if the text is neither."""
    low, dots, high = text.partition("..")
    if dots and not re.fullmatch(r"[0-9]{1,18}\.\.[0-9]{1,18}", text):
        return None
    if dots and int(low) != int(high):
        return (int(low), int(high)) if int(low) < int(high) else None
    number = _integer(low)
    return None if number is None or number < -1 else number


def input_shape(text: str) -> tuple[str, tuple[int | tuple[int, int], ...]]:
    """`X=1,3,224,224`; `X=` is a scalar, -1 leaves an axis unpinned, 32..320 is a range."""
    name, value = _pair(text, "X=1,3,224,224")
    if not value:
        return name, ()
    sizes = [_size(v) for v in value.split(",")]
    if any(s is None for s in sizes):
        raise ArgumentTypeError(f"{value!r} is not a shape of input {name!r}")
    return name, tuple(s for s in sizes if s is not None)


def bind(text: str) -> tuple[str, Any]:
    """`X=V`: V is a number, a list `1,2,3`, true or false, or the path of a .npy file."""
    name, value = _pair(text, "X=V")
    if value.endswith(".npy"):
        return name, _array(value)
    parts = [_number(v) for v in value.split(",")]
    if any(p is None for p in parts):
        raise ArgumentTypeError(f"{value!r} is not a number, a list of numbers or a .npy file")
    return name, parts[0] if len(parts) == 1 else parts


def backend_option(text: str) -> tuple[str, str]:
    """`A.KEY=V`."""
    name, equals, value = text.partition("=")
    vendor, dot, key = name.partition(".")
    if not (equals and vendor and dot and key):
        raise ArgumentTypeError(f"{text!r} is not A.KEY=V")
    return name, value


def keep(text: str) -> tuple[str, str]:
    """`NODE=BACKEND`."""
    name, backend = _pair(text, "NODE=BACKEND")
    if not backend:
        raise ArgumentTypeError(f"{text!r} names no backend (c is portable C)")
    return name, backend


def state(text: str) -> tuple[str, str]:
    """`IN=OUT`."""
    return _pair(text, "IN=OUT")


def _array(path: str) -> Any:

    from aot.npz import read_npy  # loads NumPy, which `--help` does not wait for

    try:
        return read_npy(Path(path))
    except AotError as error:
        raise ArgumentTypeError(error.what) from error


def _number(text: str) -> int | float | bool | None:
    if text in ("true", "false"):
        return text == "true"
    number = _integer(text)
    if number is not None:
        return number
    try:
        return float(text)
    except ValueError:
        return None


def budget(text: str) -> int:
    """Bytes, with K or KB (1024), M or MB (1024²)."""

    try:
        value = parse_bytes(text)
    except TargetError as error:
        raise ArgumentTypeError(error.what) from error
    if value == 0:
        raise ArgumentTypeError("a budget of 0 bytes holds nothing")
    return value


def multiplications(text: str) -> int:
    """A number above 0, with K (1024) or M (1024²)."""
    plain = re.fullmatch(r"([0-9]+)([KM]?)", text, re.A)
    value = int(plain[1]) * {"": 1, "K": 1024, "M": 1024**2}[plain[2]] if plain else 0
    if value == 0:
        raise ArgumentTypeError(f"{text!r} is not a number of multiplications, such as 100K")
    return value


def tolerance(text: str) -> float:
    """A finite number that is not negative: with NaN everything would pass."""
    plain = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", text, re.I | re.A)
    value = float(text) if plain else math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text!r} is not a tolerance")
    return value


def count(text: str) -> int:
    """A non-negative integer."""
    number = _integer(text)
    if number is None or number < 0:
        raise ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return number


def values(text: str) -> list[str]:
    """`A,B`, names of values; a name that holds a comma stands between double quotes."""
    found = next(csv.reader([text], strict=True), [])
    if not found or not all(found):
        raise ArgumentTypeError(f"{text!r} is not a list of values")
    return found


def names(text: str) -> list[str]:
    """`A,B`."""
    found = text.split(",")
    if not all(re.fullmatch(r"[A-Za-z0-9_.-]+(:.+)?", n) for n in found):
        raise ArgumentTypeError(f"{text!r} is not a list of backends")
    return found
