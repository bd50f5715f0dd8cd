# SPDX-License-Identifier: Apache-2.0
"""Where constants live: small ones as tables in the source, large ones in one binary file."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from aot.emit_c.write import Blob
from aot.errors import InternalError
from aot.ir.deferred import Array, Constant, Deferred, whole
from aot.ir.program import Program, Role, Tensor

#: A constant up to this many bytes is a table in the source that one can read.
TABLE_BYTES = 256
#: No binary file for less than this in total.
FILE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Constants:
    """`tables` are (name, data) to define in C; `offsets` where the others are in `blob`.

    `same` maps each constant to the one with equal bytes that is stored, `tensors` to its tensor.
    Constants that only one vendor reads are in a blob of its own (`parts`; `owners` says whose they
    are), so that a bundle without the vendor does not have them. With `passed` the caller has them.
    """

    tables: tuple[tuple[str, Array], ...]
    offsets: Mapping[str, int]
    same: Mapping[str, str]
    blob: Blob | None
    parts: Mapping[str, Blob] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    passed: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all constants stored."""
        blobs = [*([self.blob] if self.blob else []), *self.parts.values()]
        return sum(d.nbytes for _, d in self.tables) + sum(b.nbytes for b in blobs)


def place_constants(program: Program, byte_order: str = "little") -> Constants:
    """Store each constant the calls read once, in order of first use (which helps prefetching)."""
    used: dict[str, set[str]] = {}
    tensors: dict[str, Tensor] = {}
    arrays: dict[str, Constant] = {}
    for part in program.tree():
        for call in (*(s.create for s in part.states), *part.calls):
            for arg in call.pointers():
                base = part.base(arg.tensor)[0]
                if part.tensors[base].role is Role.CONST:
                    used.setdefault(base, set()).add(call.backend)
                    if base not in tensors:
                        tensors[base], arrays[base] = part.tensors[base], _stored(part, base)
    same = same_data(arrays, {n: tensors[n].section for n in used})
    owners = _owners(used, same)
    unique = [n for n in arrays if same[n] == n]
    # Weights that go to a file leave only sections of boards in C.
    least = TABLE_BYTES if program.weights == "embedded" else -1
    small = {n for n in unique if arrays[n].nbytes <= least or tensors[n].section}
    if least > 0 and sum(arrays[n].nbytes for n in unique if n not in small) <= FILE_BYTES:
        small = set(unique)
    offsets: dict[str, int] = {}
    pieces: dict[str, list[tuple[int, Constant]]] = {}
    ends: dict[str, int] = {}
    for name in unique:
        if name not in small:
            owner, align = owners[name], tensors[name].align
            offsets[name] = end = -(-ends.get(owner, 0) // align) * align
            pieces.setdefault(owner, []).append((end, _ordered(arrays[name], byte_order)))
            ends[owner] = end + arrays[name].nbytes
    tables = tuple((n, whole(arrays[n])) for n in unique if n in small)
    blobs = {owner: Blob(tuple(made), ends[owner]) for owner, made in pieces.items()}
    shared = blobs.pop("", None)
    return Constants(tables, offsets, same, shared, blobs, owners, tensors, program.passed)


def _owners(used: Mapping[str, set[str]], same: Mapping[str, str]) -> dict[str, str]:
    """The vendor that alone reads a stored constant; "" for portable C and for several."""
    readers: dict[str, set[str]] = {}
    for name, backends in used.items():
        readers.setdefault(same[name], set()).update(backends)
    return {n: min(r) if len(r) == 1 and r != {"c"} else "" for n, r in readers.items()}


def _stored(program: Program, name: str) -> Constant:
    """The elements of constant `name` in the byte order of this machine; deferred ones as they are.

    InternalError if they are not as many bytes as the tensor.
    """
    data = program.consts[name]
    if isinstance(data, Deferred):
        return data
    data = np.ascontiguousarray(data)
    if data.nbytes != program.tensors[name].nbytes:
        raise InternalError(f"constant {name} has {data.nbytes} bytes, not its tensor's size")
    return data.astype(data.dtype.newbyteorder("="), copy=False)


def _ordered(data: Constant, byte_order: str) -> Constant:
    """`data` in `byte_order` ("little", "big"); parts of a deferred constant are swapped as they
    come.
    """
    if byte_order == sys.byteorder:
        return data
    if isinstance(data, Deferred):
        return replace(data, parts=lambda: (part.byteswap() for part in data.parts()))
    return data.byteswap()


def same_data(
    arrays: Mapping[str, Constant], sections: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Each name → the first with the same dtype, bytes and section; deferred ones by their key."""
    sections = sections or dict.fromkeys(arrays, "")
    deferred: dict[tuple[Hashable, str], str] = {}
    same = {
        name: deferred.setdefault((data.key, sections[name]), name)
        for name, data in arrays.items()
        if isinstance(data, Deferred)
    }
    plain = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}
    return same | _equal_arrays(plain, sections)


def _equal_arrays(arrays: Mapping[str, Array], sections: Mapping[str, str]) -> dict[str, str]:
    """Each name → the first with the same dtype, bytes and section."""
    by_head: dict[tuple[int, str, bytes, str], list[str]] = {}
    same = {}
    for name, data in arrays.items():
        raw = data.reshape(-1).view(np.uint8)
        # The first 256 bytes tell most arrays apart without reading all of them.
        candidates = by_head.setdefault(
            (data.nbytes, data.dtype.str, raw[:256].tobytes(), sections[name]), []
        )
        equal = next(
            (c for c in candidates if np.array_equal(arrays[c].reshape(-1).view(np.uint8), raw)),
            None,
        )
        if equal is None:
            candidates.append(name)
        same[name] = equal or name
    return same
