# SPDX-License-Identifier: Apache-2.0
"""A built bundle as a Python callable: lib/libNAME.so through NAME_init and NAME_run, no copy."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import AotError, BuildError, VerifyError, counted, shell_word
from aot.ir import dtypes
from aot.ir.graph_nodes import Array
from aot.tools.borrow import CPU, DataType, Device, DLTensor, Tensor, borrowed, lent
from aot.tools.run import Spec, check_dimensions, conform, cropped, specs

#: Bytes given to NAME_context, far above its size; the library checks nothing beyond its own.
_CONTEXT_BYTES = 64 * 1024

#: `NAME_init` found that the CPU lacks a unit (aot_status).
_BAD_CPU = 20

#: What `NAME_run` may still refuse when dtypes and shapes are right (aot_status).
_REFUSED = {
    7: "an array is not aligned to its element type",
    8: "an output overlaps an input or another output",
    18: "a vendor's library reported an error",
    19: "a string is too long (--max-string)",
}


def _arena_bytes(memory: Mapping[str, Any]) -> int:
    """Enough for the library, vendors left out or not."""
    return int(max(memory["arena_bytes"], memory.get("portable_arena_bytes", 0)))


def _weights(bundle: Path, manifest: Mapping[str, Any]) -> Array | None:
    """The file of the constants where the bundle has one, aligned as the library wants it."""
    described = manifest.get("weights")
    if described is None or described.get("mapped"):
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


def _shut_down(function: Any, process: int, context: Array, *_used: object) -> None:
    """Call NAME_shutdown for `context`, in the process that initialised it: a forked one has none
    of its threads. `_used` is the memory that lives until then.
    """
    if os.getpid() == process:
        function(ctypes.c_void_p(context.ctypes.data))


class Library:
    """`net(x)` or `net(name=x)` returns the output, or a tuple of them; `net.run(x)` a dictionary.

    Inputs are NumPy arrays or objects with `__dlpack__`; they must be contiguous and of the
    model's dtype and shape, and are read where they lie. Elements of types that NumPy lacks are
    raw bits or of ml_dtypes; what shares a byte in the library has one each here, and is copied.
    `out` gives arrays of either kind to write to, at their bounds; what comes back are NumPy
    arrays on their memory, of those whose shape depends on the data the part that was written.
    Calls are serialised: one context, one arena. The context is shut down with the object.
    """

    def __init__(self, out: Path, manifest: dict[str, Any], keep_alive: Any = None) -> None:
        """Load the library in `out` and initialise a context; `keep_alive` is an object it needs.

        BuildError if it cannot be loaded, VerifyError if NAME_init refuses.
        """
        self.name = str(manifest["name"])
        self.inputs = specs(manifest, "inputs")
        self.outputs = specs(manifest, "outputs")
        _check_sizes((*self.inputs, *self.outputs))
        self._manifest = manifest
        self._states = manifest.get("states", [])
        # The object may own the temporary folder of the library, and would remove it when it goes.
        self._keep_alive = keep_alive
        self._lock = threading.Lock()
        path = out / "lib" / f"lib{self.name}.so"
        try:
            self._library = _opened(path.resolve())
        except OSError as error:
            raise BuildError(
                f"cannot load {path}: {error}", hint=f"`cmake --build {shell_word(out)}`"
            ) from error
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
        """The function NAME_`name` of the library, which returns a status."""
        function = getattr(self._library, f"{self.name}_{name}")
        function.restype = ctypes.c_int
        return function

    def _start(self) -> None:
        """Call NAME_init, and NAME_set_weights where constants are passed; VerifyError for a bad
        status.
        """
        context = ctypes.c_void_p(self._context.ctypes.data)
        arena = ctypes.c_void_p(self._arena.ctypes.data)
        status = self._function("init")(context, arena, ctypes.c_size_t(self._arena.nbytes))
        if status != 0:
            lacks = ": the CPU lacks a unit that the library was built for"
            reason = lacks if status == _BAD_CPU else ""
            raise VerifyError(f"{self.name}_init returned status {status}{reason}")
        # Threads and objects of vendors lie in the context and end before its memory does.
        used = (self._context, self._arena, self._weights)
        weakref.finalize(self, _shut_down, self._function("shutdown"), os.getpid(), *used)
        if self._weights is not None:
            given = ctypes.c_void_p(self._weights.ctypes.data)
            size = ctypes.c_size_t(self._weights.nbytes)
            status = self._function("set_weights")(context, given, size)
            if status != 0:
                raise VerifyError(f"{self.name}_set_weights returned status {status}")

    def __call__(
        self, /, *arrays: Tensor, out: Tensor | Sequence[Tensor] | None = None, **named: Tensor
    ) -> Array | tuple[Array, ...]:
        """Run the model once: the output, or a tuple of them.

        Raises AotError for an argument that the model does not take, VerifyError if the run fails.
        """
        results = self._compute(arrays, named, out)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, /, *arrays: Tensor, **named: Tensor) -> dict[str, Array]:
        """Run the model once: the outputs by their names in the model.

        Raises AotError for an argument that the model does not take, VerifyError if the run fails.
        """
        names = (s.name for s in self.outputs)
        return dict(zip(names, self._compute(arrays, named, None), strict=True))

    def _compute(
        self,
        arrays: tuple[Tensor, ...],
        named: dict[str, Tensor],
        out: Tensor | Sequence[Tensor] | None,
    ) -> list[Array]:
        """The outputs for inputs given in order or by name, in `out` if that is given.

        VerifyError with the reason if the run returns a bad status. One run at a time: the context
        is one.
        """
        given = self._arguments(arrays, named)
        results = self._results(out)
        inputs = [_held(a, s, "input") for a, s in zip(given, self.inputs, strict=True)]
        outputs = [_held(a, s, "output") for a, s in zip(results, self.outputs, strict=True)]
        check_dimensions(self._manifest, [held.array for held in inputs])
        with self._lock:
            status = self._run(
                ctypes.c_void_p(self._context.ctypes.data), _pointers(inputs), _pointers(outputs)
            )
            if status == 0:
                for held, result in zip(outputs, results, strict=True):
                    held.write_to(result)
                # The context keeps the sizes of outputs until the next run, so they are asked under
                # the lock.
                results = [self._true(i, r) for i, r in enumerate(results)]
        if status != 0:
            reason = _REFUSED.get(status, "the model's own check failed")
            raise VerifyError(f"{self.name}_run returned status {status}: {reason}")
        return results

    def _true(self, index: int, array: Array) -> Array:
        """An output in the shape the run gave it: a part of the array at its bound."""
        if not self.outputs[index].dynamic_axes:
            return array
        shape = np.zeros(max(1, array.ndim), np.int64)
        context = ctypes.c_void_p(self._context.ctypes.data)
        place = ctypes.c_void_p(shape.ctypes.data)
        status = self._function("output_shape")(context, ctypes.c_int32(index), place)
        if status != 0:
            raise VerifyError(f"{self.name}_output_shape returned status {status}")
        return cropped(array, shape[: array.ndim])

    def _arguments(self, arrays: tuple[Tensor, ...], named: dict[str, Tensor]) -> list[Tensor]:
        """The inputs in the model's order; AotError for one too many, unknown, or missing."""
        names = [s.name for s in self.inputs]
        if len(arrays) > len(names):
            raise AotError(f"{self.name} takes {counted(len(names), 'input')}, got {len(arrays)}")
        given = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                what = "input {!r} is given twice" if name in given else "there is no input {!r}"
                raise AotError(f"{self.name}: {what.format(name)}", hint=f"inputs: {names}")
            given[name] = value
        missing = [n for n in names if n not in given]
        if missing:
            raise AotError(f"{self.name}: input {missing[0]!r} is missing", hint=f"inputs: {names}")
        return [given[n] for n in names]

    def _results(self, out: Tensor | Sequence[Tensor] | None) -> list[Array]:
        """The arrays that results go to: new ones, or those of `out`; AotError for a wrong
        number.
        """
        if out is None:
            return [_array(s) for s in self.outputs]
        results = list(out) if isinstance(out, tuple | list) else [out]
        if len(results) != len(self.outputs):
            known = counted(len(self.outputs), "output")
            raise AotError(f"{self.name} has {known}, got {len(results)}")
        return [lent(r, f"out= for {s.name!r}") for s, r in zip(self.outputs, results, strict=True)]


def _check_sizes(tensors: Sequence[Spec]) -> None:
    """ValueError, TypeError or KeyError for a tensor that is none: the manifest was changed."""
    for spec in tensors:
        if not all(type(n) is int and n >= 0 for n in spec.shape):
            raise ValueError(f"{spec.name} has the shape {spec.shape}")
        np.broadcast_to(np.zeros((), spec.array_dtype), spec.shape)  # more than NumPy can count


def _array(spec: Spec) -> Array:
    """A new array for an output."""
    try:
        return np.empty(spec.shape, spec.array_dtype)
    except MemoryError:
        raise AotError(f"output {spec.name!r}: no memory for {spec.text()}") from None


def aligned(nbytes: int, alignment: int) -> Array:
    """`nbytes` zeroed bytes (at least one) at an address that is a multiple of `alignment`."""
    nbytes = max(1, nbytes)  # an empty slice has any address
    raw = np.zeros(nbytes + alignment, np.uint8)
    skip = -raw.ctypes.data % alignment
    return raw[skip : skip + nbytes]


class _Held:
    """One array of a call and the memory that the library reads or writes for it: its own; where
    several elements share a byte, their packed bytes."""

    def __init__(self, array: Array, spec: Spec) -> None:
        """Hold an array and the memory that the library sees: elements below a byte are packed."""
        self.array = array
        self._kind = dtypes.from_name(spec.dtype)
        self._memory = dtypes.pack(array, self._kind) if self._kind.packed else array

    def tensor(self) -> DLTensor:
        """DLPack's view of the memory, which this object keeps."""
        shape = (ctypes.c_int64 * self.array.ndim)(*self.array.shape)
        kind = DataType(self._kind.dl_code, self._kind.bits, 1)
        place = self._memory.ctypes.data
        return DLTensor(place, Device(CPU, 0), self.array.ndim, kind, shape, None, 0)

    def write_to(self, result: Array) -> None:
        """Give the user's array `result` what the library wrote elsewhere."""
        if self._kind.packed:
            read = dtypes.unpack_bits if result.dtype == np.uint8 else dtypes.unpack
            result[...] = read(self._memory, self._kind, result.shape)


def _held(value: Any, spec: Spec, what: str) -> _Held:
    """`value` for the library, not copied; AotError if it is not what the model takes."""
    array = conform(
        borrowed(value, f"{what} {spec.name!r}"), spec, what=what, bound=what == "output"
    )
    if not array.flags.c_contiguous:
        raise AotError(f"{what} {spec.name!r} is not contiguous", hint="numpy.ascontiguousarray(x)")
    return _Held(array, spec)


def _pointers(tensors: list[_Held]) -> Any:
    """A C array of pointers to DLTensors; at least one entry."""
    kept = [t.tensor() for t in tensors]
    pointers = [ctypes.pointer(t) for t in kept]
    return (ctypes.POINTER(DLTensor) * max(1, len(kept)))(*pointers)
