# SPDX-License-Identifier: Apache-2.0
"""Where constants live: small ones as tables in the source, large ones in one binary file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.emit_c.write import Blob
from aot.errors import InternalError
from aot.program import Program, Role

#: A constant up to this many bytes is a table in the source that one can read.
TABLE_BYTES = 256
#: No binary file for less than this in total.
FILE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Constants:
    """`tables` are (name, data) to define in C; `offsets` where the others are in `blob`.

    `same` maps each constant to the one with equal bytes that is stored.
    """

    tables: tuple[tuple[str, np.ndarray[Any, Any]], ...]
    offsets: Mapping[str, int]
    same: Mapping[str, str]
    blob: Blob | None

    @property
    def nbytes(self) -> int:
        """Bytes of all constants stored."""
        return sum(d.nbytes for _, d in self.tables) + (self.blob.nbytes if self.blob else 0)


def place_constants(program: Program, byte_order: str = "little") -> Constants:
    """Store each constant the calls read once, in order of first use (which helps prefetching)."""
    used: dict[str, None] = {}
    for call in (*(s.create for s in program.states), *program.calls):
        for arg in call.pointers():
            base = program.base(arg.tensor)[0]
            if program.tensors[base].role is Role.CONST:
                used.setdefault(base)
    arrays = {n: _stored(program, n) for n in used}
    same = _duplicates(arrays)
    unique = [n for n in arrays if same[n] == n]
    small = {n for n in unique if arrays[n].nbytes <= TABLE_BYTES}
    if sum(arrays[n].nbytes for n in unique if n not in small) <= FILE_BYTES:
        small = set(unique)
    offsets: dict[str, int] = {}
    parts = []
    end = 0
    for name in unique:
        if name not in small:
            align = program.tensors[name].align
            offsets[name] = end = -(-end // align) * align
            parts.append((end, _ordered(arrays[name], byte_order)))
            end += arrays[name].nbytes
    tables = tuple((n, arrays[n]) for n in unique if n in small)
    return Constants(tables, offsets, same, Blob(tuple(parts), end) if parts else None)


def _stored(program: Program, name: str) -> np.ndarray[Any, Any]:
    data = np.ascontiguousarray(program.consts[name])
    if data.nbytes != program.tensors[name].nbytes:
        raise InternalError(f"constant {name} has {data.nbytes} bytes, not its tensor's size")
    return data.astype(data.dtype.newbyteorder("="), copy=False)


def _ordered(data: np.ndarray[Any, Any], byte_order: str) -> np.ndarray[Any, Any]:
    return data if byte_order == sys.byteorder else data.byteswap()


def _duplicates(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """Each name → the first with the same dtype and bytes."""
    by_head: dict[tuple[int, str, bytes], list[str]] = {}
    same = {}
    for name, data in arrays.items():
        raw = data.reshape(-1).view(np.uint8)
        candidates = by_head.setdefault((data.nbytes, data.dtype.str, raw[:256].tobytes()), [])
        twin = next(
            (c for c in candidates if np.array_equal(arrays[c].reshape(-1).view(np.uint8), raw)),
            None,
        )
        if twin is None:
            candidates.append(name)
        same[name] = twin or name
    return same
