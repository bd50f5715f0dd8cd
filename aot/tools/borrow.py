# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, read where they lie: DLPack tensors of the types NumPy lacks too."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Protocol, TypeAlias

import numpy as np

from aot.errors import AotError
from aot.ir import dtypes
from aot.ir.graph_nodes import Array

#: DLPack's device type of memory that this program can read.
CPU = 1


class SupportsDLPack(Protocol):
    """An array of any library that speaks DLPack: PyTorch's, JAX's, CuPy's, NumPy's own."""

    def __dlpack__(self, *arguments: Any, **settings: Any) -> Any:
        """A capsule with a DLManagedTensor."""


#: What a loaded model reads and writes.
Tensor: TypeAlias = Array | SupportsDLPack


class Device(ctypes.Structure):
    """DLPack's DLDevice."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DataType(ctypes.Structure):
    """DLPack's DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def borrowed(value: Any, where: str) -> Array:
    """The elements of a NumPy array or of an object with `__dlpack__`, not copied.

    Types that NumPy lacks are those of ml_dtypes; packed tensors alone are copied, to a byte per
    element. AotError, which begins with `where`, says why there is no such array.
    """
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        raise AotError(f"{where} is a {type(value).__name__}, not an array")
    try:
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):  # a type or device that NumPy lacks
            return _elements(value.__dlpack__(), where)
    except AotError:
        raise
    except Exception as error:  # whatever the library of the object raises
        raise AotError(
            f"{where} is a {type(value).__name__} that cannot be read: {error}"
        ) from error


def lent(value: Any, where: str) -> Array:
    """The memory of an array or of an object with `__dlpack__`, to be written to, not copied.

    AotError, which begins with `where`, if there is none: several elements share a byte in it,
    it is not writable, or on another device.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif not hasattr(value, "__dlpack__"):
        raise AotError(f"{where} is a {type(value).__name__}, not a writable array")
    else:
        try:
            array = _elements(value.__dlpack__(), where, to_write=True)
        except (BufferError, RuntimeError, TypeError) as error:
            raise AotError(f"{where} is not writable: {error}") from error
    if not array.flags.writeable:
        raise AotError(f"{where} is not writable")
    return array


def _elements(capsule: Any, where: str, to_write: bool = False) -> Array:
    """The array of a DLPack capsule, which lives as long as the array.

    AotError with `to_write` if the array would be a copy, because several elements share a byte.
    """
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = DLTensor.from_address(read(capsule, b"dltensor"))
    if tensor.device.device_type != CPU:
        raise AotError(
            f"{where} is on device {tensor.device.device_type} of DLPack, not on the CPU"
        )
    kind = tensor.dtype
    codes = (kind.code, kind.bits, kind.lanes)
    found = next((d for d in dtypes.ALL if (d.dl_code, d.bits, 1) == codes), None)
    if found is None:
        raise AotError(
            f"{where} has DLPack's type code {codes[0]}, {codes[1]} bits, {codes[2]} lanes"
        )
    if to_write and found.packed:
        raise AotError(f"{where} has elements that share a byte", hint="a NumPy array has room")
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides and not _compact(shape, tuple(tensor.strides[: tensor.ndim])):
        raise AotError(f"{where} is not contiguous")
    nbytes = (math.prod(shape) * found.bits + 7) // 8
    if nbytes == 0:
        return np.empty(shape, found.numpy)
    memory = (ctypes.c_uint8 * nbytes).from_address(tensor.data + tensor.byte_offset)
    memory.capsule = capsule  # its destructor frees the elements
    return dtypes.from_bytes(memory, found, shape)


def _compact(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides (in elements) are those of row-major order, axes of one element aside."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return True
