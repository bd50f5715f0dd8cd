# SPDX-License-Identifier: Apache-2.0
"""Builds single kernels into a shared library and calls them on NumPy arrays, no compiler pipeline.

Used by the kernel tests (in a process of its own, with sanitizers) and by benchmarks/kernels.py.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RUNTIME = Path(__file__).resolve().parent.parent / "runtime_c"
CTYPES: Mapping[str, Any] = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}
MARCH = {16: ["-march=x86-64-v4"], 8: ["-march=x86-64-v3"], 4: [], 1: []}
Array = np.ndarray[Any, Any]
Signature = tuple[str, tuple[tuple[str, int], ...]]  # kernel and its instance constants


def params_type(kernel: str) -> Any:
    """The ctypes structure of `<kernel>_params`, read from the kernel's header."""
    text = (RUNTIME / "kernels" / f"{kernel}.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.search(r"typedef struct \{([^}]*)\} " + kernel + "_params;", text)
    assert found is not None, kernel
    fields = []
    for ctype, names in re.findall(r"(\w+)\s+([^;]+);", found[1]):
        for name in names.split(","):
            bare, _, size = name.strip().rstrip("]").partition("[")
            fields.append((bare, CTYPES[ctype] * int(size) if size else CTYPES[ctype]))
    return type(f"{kernel}_params", (ctypes.Structure,), {"_fields_": fields})


def wrapper(signature: Signature) -> str:
    """C of one exported function that calls a kernel with its instance constants."""
    kernel, instance = signature
    text = (RUNTIME / "kernels" / f"{kernel}.h").read_text()
    found = re.search(r"AOT_INLINE void " + kernel + r"\(([^)]*)\)", text)
    assert found is not None, kernel
    args = [" ".join(a.split()) for a in found[1].split(",")]
    args = args[: len(args) - len(instance)]
    names = [re.split(r"[\s*]+", a)[-1] for a in args]
    values = [str(v) for _, v in instance]
    head = f"void {symbol(signature)}({', '.join(args)});\n"
    return (
        f'#include "{kernel}.h"\n{head}{head[:-2]} {{\n    {kernel}('
        f"{', '.join([*names, *values])});\n}}\n"
    )


def symbol(signature: Signature) -> str:
    """The exported name."""
    return "_".join([f"t_{signature[0]}", *(str(v) for _, v in signature[1])])


class Library:
    """Kernels built for one vector width."""

    def __init__(
        self,
        folder: Path,
        vlen: int,
        signatures: Sequence[Signature],
        flags: Sequence[str] = ("-O2",),
        cc: str = "gcc",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / f"k{vlen}.c"
        source.write_text("".join(wrapper(s) for s in dict.fromkeys(signatures)))
        built = folder / f"k{vlen}_{cc}.so"
        includes = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}"]
        warn = "-Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror -pedantic".split()
        command = [cc, "-std=c99", *warn, f"-DAOT_VLEN={vlen}", *MARCH[vlen], *flags, *includes]
        subprocess.run(
            [*command, "-shared", "-fPIC", "-o", str(built), str(source), "-lm"], check=True
        )
        self.dll = ctypes.CDLL(str(built))

    def bind(self, signature: Signature, arrays: Sequence[Any], fields: Mapping[str, Any]) -> Any:
        """A function of no arguments that runs the kernel on these arrays (None = NULL)."""
        function = getattr(self.dll, symbol(signature))
        struct = params_type(signature[0])
        assert [f for f, _ in struct._fields_] == list(fields), (signature, list(fields))
        packed = struct(
            *(
                t(*fields[f]) if issubclass(t, ctypes.Array) else fields[f]
                for f, t in struct._fields_
            )
        )
        pointers = [None if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
        return lambda: function(*pointers, ctypes.byref(packed))


def fresh(size: int) -> Array:
    """`size` float32 of NaN, only 4-byte aligned, the end being the end of an allocation."""
    return np.full(size + 1, np.nan, np.float32)[1:]


def aligned(size: int) -> Array:
    """`size` float32 zeros at a 64-byte boundary."""
    raw = np.zeros(size + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


def exact(data: Array) -> Array:
    """A copy of `data`, flat, placed as `fresh` places it."""
    out = fresh(data.size)
    out[:] = data.reshape(-1)
    return out


def blocked(data: Array, v: int) -> Array:
    """data [n, c, h, w] in blocked layout, pad lanes NaN (no kernel may read them)."""
    n, c, h, w = data.shape
    out = np.full((n, -(-c // v) * v, h, w), np.nan, np.float32)
    out[:, :c] = data
    return exact(out.reshape(n, -1, v, h, w).transpose(0, 1, 3, 4, 2))


def unblocked(data: Array, shape: tuple[int, int, int, int], v: int) -> Array:
    """The logical [n, c, h, w] of blocked `data`."""
    n, c, h, w = shape
    return data.reshape(n, -1, h, w, v).transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c]
