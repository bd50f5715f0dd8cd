# SPDX-License-Identifier: Apache-2.0
"""Calls a built library by ctypes, the way a C program would."""

from __future__ import annotations

import ctypes as c
import json
import math
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

OK, NULL, NDIM, SHAPE, DTYPE, DEVICE, STRIDES, ALIGN, OVERLAP = range(9)
ARENA_SMALL, ARENA_ALIGN, NOT_INIT, BUSY, NO_ARENA = range(9, 14)
NO_WEIGHTS, BAD_WEIGHTS = 14, 15
BAD_INDEX, BAD_ARGS, VENDOR, TOO_LONG = 16, 17, 18, 19
OUT_OF_RANGE = 25


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", Device),
        ("ndim", c.c_int32),
        ("dtype", DataType),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def extents(values: tuple[int, ...]) -> c.Array:
    return (c.c_int64 * max(1, len(values)))(*values)


def dl(a: np.ndarray, strides: bool = True) -> DLTensor:
    """A DLTensor of the memory of `a` (strides in elements, or NULL)."""
    t = DLTensor(
        a.ctypes.data,
        Device(1, 0),
        a.ndim,
        DataType(_CODES[a.dtype.kind], a.dtype.itemsize * 8, 1),
        c.cast(extents(a.shape), c.POINTER(c.c_int64)),
        None,
        0,
    )
    if strides:
        steps = tuple(s // a.dtype.itemsize for s in a.strides)
        t.strides = c.cast(extents(steps), c.POINTER(c.c_int64))
    t.keep = a  # type: ignore[attr-defined]
    return t


def pointers(tensors: list[DLTensor | None]) -> c.Array:
    kinds = [c.pointer(t) if t is not None else c.POINTER(DLTensor)() for t in tensors]
    return (c.POINTER(DLTensor) * max(1, len(kinds)))(*kinds)


def aligned(nbytes: int, align: int = 64, off: int = 0) -> np.ndarray:
    raw = np.zeros(nbytes + align + off, np.uint8)
    start = -raw.ctypes.data % align + off
    return raw[start : start + nbytes]


class Library:
    """libNAME.so; `context()` is a block of memory large enough for its context."""

    def __init__(self, out: Path, name: str) -> None:
        self.c = c.CDLL(str(out / "lib" / f"lib{name}.so"))
        self.out, self.name, self.entry = out, name, f"{name}_init"
        memory = json.loads((out / "bundle" / "manifest.json").read_text())["memory"]
        self.arena_bytes = max(memory["arena_bytes"], memory.get("portable_arena_bytes", 0))

    def __getattr__(self, what: str):
        return getattr(self.c, f"{self.name}_{what}")

    def variable(self, name: str) -> c.c_ubyte:
        """The byte `name` of the library, which it does not export."""
        with (self.out / "lib" / f"lib{self.name}.so").open("rb") as f:
            table = ELFFile(f).get_section_by_name(".symtab")
            found = {s: table.get_symbol_by_name(s)[0]["st_value"] for s in (name, self.entry)}
        here = c.cast(self.c[self.entry], c.c_void_p).value
        assert here is not None
        return c.c_ubyte.from_address(here - found[self.entry] + found[name])

    def context(self) -> c.Array:
        return c.create_string_buffer(256)

    def init(self, ctx, arena: np.ndarray | None = None) -> int:
        """With no `arena`, NULL and 0 bytes."""
        if arena is None:
            return self.c[f"{self.name}_init"](ctx, None, c.c_size_t(0))
        address = c.c_void_p(arena.ctypes.data)
        return self.c[f"{self.name}_init"](ctx, address, c.c_size_t(arena.nbytes))

    def init_built_in(self, ctx) -> int:
        """With the built-in arena."""
        arena = self.c[f"{self.name}_arena"]
        arena.restype = c.c_void_p
        return self.c[f"{self.name}_init"](ctx, c.c_void_p(arena()), c.c_size_t(self.arena_bytes))

    def run(self, ctx, ins: list[DLTensor | None], outs: list[DLTensor | None]) -> int:
        return self.c[f"{self.name}_run"](ctx, pointers(ins), pointers(outs))

    def shutdown(self, ctx) -> None:
        self.c[f"{self.name}_shutdown"](ctx)


def elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
