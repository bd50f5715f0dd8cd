# SPDX-License-Identifier: Apache-2.0
"""A built bundle as a Python callable: lib/libNAME.so through NAME_init and NAME_run, no copy."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aot import dtypes
from aot.errors import AotError, BuildError, VerifyError
from aot.run import Spec, check_dimensions, cropped, specs

Array = np.ndarray[Any, Any]

_CPU = 1
#: Bytes given to NAME_context, far above its size; the library checks nothing beyond its own.
_CONTEXT_BYTES = 64 * 1024

#: What `NAME_run` may still refuse when dtypes and shapes are right (aot_status).
_REFUSED = {
    7: "an array is not aligned to its element type",
    8: "an output overlaps an input or another output",
    18: "a vendor's library reported an error",
    19: "a string is too long (--max-string)",
}


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _arena_bytes(memory: Mapping[str, Any]) -> int:
    """Enough for the library, vendors left out or not."""
    return int(max(memory["arena_bytes"], memory.get("portable_arena_bytes", 0)))


def _weights(bundle: Path, manifest: Mapping[str, Any]) -> Array | None:
    """The file of the constants where the bundle has one, aligned as the library wants it."""
    described = manifest.get("weights")
    if described is None:
        return None
    path = bundle / str(described["file"])
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise BuildError(f"the weights cannot be read: {error.strerror}", str(path)) from None
    placed = aligned(content.nbytes, int(described["alignment"]))
    placed[:] = content
    return placed


#: Files of libraries that this process has loaded, and which file that was.
_FIRST: dict[str, tuple[int, int, int]] = {}


def _opened(path: Path) -> ctypes.CDLL:
    """The library of a file as it is now. dlopen goes by the path: of a file that was replaced
    since it was loaded (OUT compiled again) it gives the old library, so a copy is loaded instead.
    Raises OSError.
    """
    found = os.stat(path)
    now = (found.st_ino, found.st_mtime_ns, found.st_size)
    if _FIRST.setdefault(str(path), now) == now:
        return ctypes.CDLL(str(path))
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        return ctypes.CDLL(str(shutil.copy(path, folder)))  # stays mapped


class Library:
    """`net(x)` or `net(name=x)` returns the output, or a tuple of them.

    Inputs are NumPy arrays or objects with `__dlpack__`; they must be contiguous and of the
    model's dtype and shape, and are read where they lie. `out` gives arrays to write to, at their
    bounds; what comes back of those whose shape depends on the data is the part that was written.
    Calls are serialised: one context, one arena.
    """

    def __init__(self, out: Path, manifest: dict[str, Any], keep_alive: Any = None) -> None:
        self.name = str(manifest["name"])
        self.inputs = specs(manifest, "inputs")
        self.outputs = specs(manifest, "outputs")
        self._manifest = manifest
        self._states = manifest.get("states", [])
        self._keep_alive = keep_alive
        self._lock = threading.Lock()
        path = out / "lib" / f"lib{self.name}.so"
        try:
            self._library = _opened(path.resolve())
        except OSError as error:
            raise BuildError(f"cannot load {path}: {error}", hint=f"cmake --build {out}") from error
        memory = manifest["memory"]
        self._arena = aligned(_arena_bytes(memory), int(memory.get("alignment", 64)))
        self._context = aligned(_CONTEXT_BYTES, 64)
        self._weights = _weights(out / "bundle", manifest)
        self._run = self._function("run")
        self._start()

    def reset_state(self) -> None:
        """Make the states of `--state` zero; VerifyError for a model without any."""
        if not self._states:
            raise VerifyError(f"{self.name} hands no state from run to run")
        with self._lock:
            status = self._function("reset_state")(ctypes.c_void_p(self._context.ctypes.data))
        if status != 0:
            raise VerifyError(f"{self.name}_reset_state returned status {status}")

    def _function(self, name: str) -> Any:
        function = getattr(self._library, f"{self.name}_{name}")
        function.restype = ctypes.c_int
        return function

    def _start(self) -> None:
        context = ctypes.c_void_p(self._context.ctypes.data)
        arena = ctypes.c_void_p(self._arena.ctypes.data)
        status = self._function("init")(context, arena, ctypes.c_size_t(self._arena.nbytes))
        if status != 0:
            raise VerifyError(f"{self.name}_init returned status {status}")
        if self._weights is not None:
            given = ctypes.c_void_p(self._weights.ctypes.data)
            size = ctypes.c_size_t(self._weights.nbytes)
            status = self._function("set_weights")(context, given, size)
            if status != 0:
                raise VerifyError(f"{self.name}_set_weights returned status {status}")

    def __call__(
        self, /, *arrays: Any, out: Array | tuple[Array, ...] | None = None, **named: Any
    ) -> Array | tuple[Array, ...]:
        """Run the model once."""
        given = self._arguments(arrays, named)
        results = self._results(out)
        inputs = [(_checked(a, s, "input"), s) for a, s in zip(given, self.inputs, strict=True)]
        outputs = [
            (_checked(a, s, "output"), s) for a, s in zip(results, self.outputs, strict=True)
        ]
        check_dimensions(self._manifest, [a for a, _ in inputs])
        with self._lock:
            status = self._run(
                ctypes.c_void_p(self._context.ctypes.data), _pointers(inputs), _pointers(outputs)
            )
            if status == 0:
                results = [self._true(i, r) for i, r in enumerate(results)]
        if status != 0:
            reason = _REFUSED.get(status, "the model's own check failed")
            raise VerifyError(f"{self.name}_run returned status {status}: {reason}")
        return results[0] if len(results) == 1 else tuple(results)

    def _true(self, index: int, array: Array) -> Array:
        """An output in the shape the run gave it: a part of the array at its bound."""
        if not self.outputs[index].extents:
            return array
        shape = np.zeros(max(1, array.ndim), np.int64)
        context = ctypes.c_void_p(self._context.ctypes.data)
        place = ctypes.c_void_p(shape.ctypes.data)
        status = self._function("output_shape")(context, ctypes.c_int32(index), place)
        if status != 0:
            raise VerifyError(f"{self.name}_output_shape returned status {status}")
        return cropped(array, shape[: array.ndim])

    def _arguments(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = [s.name for s in self.inputs]
        if len(arrays) > len(names):
            raise AotError(f"{self.name} takes {len(names)} inputs, got {len(arrays)}")
        given = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise AotError(f"{self.name} has no input {name!r} left", hint=f"inputs: {names}")
            given[name] = value
        missing = [n for n in names if n not in given]
        if missing:
            raise AotError(f"{self.name}: input {missing[0]!r} is missing", hint=f"inputs: {names}")
        return [given[n] for n in names]

    def _results(self, out: Array | tuple[Array, ...] | None) -> list[Array]:
        if out is None:
            return [np.empty(s.shape, s.array_dtype) for s in self.outputs]
        results = list(out) if isinstance(out, tuple | list) else [out]
        if len(results) != len(self.outputs):
            raise AotError(f"{self.name} has {len(self.outputs)} outputs, got {len(results)}")
        if not all(isinstance(r, np.ndarray) and r.flags.writeable for r in results):
            raise AotError("out= takes writable NumPy arrays")
        return results


def aligned(nbytes: int, alignment: int) -> Array:
    """`nbytes` zeroed bytes (at least one) at an address that is a multiple of `alignment`."""
    nbytes = max(1, nbytes)  # an empty slice has any address
    raw = np.zeros(nbytes + alignment, np.uint8)
    skip = -raw.ctypes.data % alignment
    return raw[skip : skip + nbytes]


def _checked(value: Any, spec: Spec, what: str) -> Array:
    """`value` as an array that shares its memory; AotError if it is not what the model takes."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        raise AotError(f"{what} {spec.name!r} is a {type(value).__name__}, not an array")
    true = what == "input" and spec.fits(array.shape)
    if array.dtype != spec.array_dtype or not (true or array.shape == spec.shape):
        needs = spec.text() if what == "input" else f"{spec.dtype}{list(spec.shape)}"
        found = f"{array.dtype}{list(array.shape)}"
        raise AotError(f"{what} {spec.name!r}: {found} (needs {needs})")
    if not array.flags.c_contiguous:
        raise AotError(f"{what} {spec.name!r} is not contiguous", hint="numpy.ascontiguousarray(x)")
    return array


def _tensor(array: Array, spec: Spec) -> _DLTensor:
    dtype = dtypes.from_name(spec.dtype)
    shape = (ctypes.c_int64 * len(spec.shape))(*array.shape)
    kind = _DataType(dtype.dl_code, dtype.bits, 1)
    return _DLTensor(array.ctypes.data, _Device(_CPU, 0), len(spec.shape), kind, shape, None, 0)


def _pointers(tensors: list[tuple[Array, Spec]]) -> Any:
    kept = [_tensor(a, s) for a, s in tensors]
    pointers = [ctypes.pointer(t) for t in kept]
    return (ctypes.POINTER(_DLTensor) * max(1, len(kept)))(*pointers)
