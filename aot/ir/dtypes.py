# SPDX-License-Identifier: Apache-2.0
"""Element types: ONNX's number, the C spelling, DLPack's code, NumPy's dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    `short` is the suffix in kernel names (f32, s8), `bits` the width in memory of one element,
    `dl_code` DLPack's type code.
    """

    name: str
    short: str
    onnx: int
    bits: int
    c: str
    dl_code: int
    np_name: str

    @property
    def nbytes(self) -> int:
        """Bytes of one element (1 for sub-byte types, which pack two or more to a byte)."""
        return max(1, self.bits // 8)

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.bits < 8

    @property
    def in_numpy(self) -> bool:
        """Whether NumPy itself has this type, not only ml_dtypes."""
        return hasattr(np, self.np_name)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (ml_dtypes for the types NumPy lacks)."""
        if not self.in_numpy:
            import ml_dtypes

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.np_name))
            return found
        return np.dtype(self.np_name)

    @staticmethod
    def from_numpy(dtype: np.dtype[Any]) -> DType:
        """The element type that NumPy or ml_dtypes calls `dtype` (KeyError if there is none)."""
        return _BY_NAME[dtype.name]

    @property
    def is_float(self) -> bool:
        """Whether this is a floating point type."""
        return self.short in ("f16", "bf16", "f32", "f64")

    def __str__(self) -> str:
        return self.name


# DLPack type codes (facts of the DLPack ABI, version 1).
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6

F32 = DType("float32", "f32", 1, 32, "float", _FLOAT, "float32")
U8 = DType("uint8", "u8", 2, 8, "uint8_t", _UINT, "uint8")
S8 = DType("int8", "s8", 3, 8, "int8_t", _INT, "int8")
U16 = DType("uint16", "u16", 4, 16, "uint16_t", _UINT, "uint16")
S16 = DType("int16", "s16", 5, 16, "int16_t", _INT, "int16")
S32 = DType("int32", "s32", 6, 32, "int32_t", _INT, "int32")
S64 = DType("int64", "s64", 7, 64, "int64_t", _INT, "int64")
BOOL = DType("bool", "b8", 9, 8, "uint8_t", _BOOL, "bool")
F16 = DType("float16", "f16", 10, 16, "uint16_t", _FLOAT, "float16")
F64 = DType("float64", "f64", 11, 64, "double", _FLOAT, "float64")
U32 = DType("uint32", "u32", 12, 32, "uint32_t", _UINT, "uint32")
U64 = DType("uint64", "u64", 13, 64, "uint64_t", _UINT, "uint64")
BF16 = DType("bfloat16", "bf16", 16, 16, "uint16_t", _BFLOAT, "bfloat16")

# NumPy's own names end here; the others come from ml_dtypes.
F8E4M3FN = DType("float8e4m3fn", "f8e4m3fn", 17, 8, "uint8_t", 10, "float8_e4m3fn")
F8E4M3FNUZ = DType("float8e4m3fnuz", "f8e4m3fnuz", 18, 8, "uint8_t", 11, "float8_e4m3fnuz")
F8E5M2 = DType("float8e5m2", "f8e5m2", 19, 8, "uint8_t", 12, "float8_e5m2")
F8E5M2FNUZ = DType("float8e5m2fnuz", "f8e5m2fnuz", 20, 8, "uint8_t", 13, "float8_e5m2fnuz")
FLOAT8 = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)
#: A power of two: scales of blocks.
F8E8M0 = DType("float8e8m0", "f8e8m0", 24, 8, "uint8_t", 14, "float8_e8m0fnu")

# Two or four elements to a byte, the first one in the lowest bits.
U4 = DType("uint4", "u4", 21, 4, "uint8_t", _UINT, "uint4")
S4 = DType("int4", "s4", 22, 4, "uint8_t", _INT, "int4")
F4E2M1 = DType("float4e2m1", "f4e2m1", 23, 4, "uint8_t", 17, "float4_e2m1fn")
U2 = DType("uint2", "u2", 25, 2, "uint8_t", _UINT, "uint2")
S2 = DType("int2", "s2", 26, 2, "uint8_t", _INT, "int2")
PACKED = (U4, S4, F4E2M1, U2, S2)

ALL = (
    *(F32, U8, S8, U16, S16, S32, S64, BOOL, F16, F64, U32, U64, BF16),
    *(*FLOAT8, F8E8M0, *PACKED),
)
_BY_ONNX = {d.onnx: d for d in ALL}
_BY_NAME = {d.name: d for d in ALL} | {d.np_name: d for d in ALL}


def from_onnx(number: int) -> DType | None:
    """The DType of ONNX's TensorProto.DataType `number`, None if the compiler has none."""
    return _BY_ONNX.get(number)


def from_name(name: str) -> DType:
    """The DType called `name` (KeyError if there is none)."""
    return _BY_NAME[name]


def pack(elements: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The bytes of a packed tensor; `elements` are its values or their bits, in any shape."""
    per = 8 // dtype.bits
    bits = elements.reshape(-1).astype(elements.dtype).view(np.uint8) & ((1 << dtype.bits) - 1)
    padded = np.zeros(-(-len(bits) // per) * per, np.uint8)
    padded[: len(bits)] = bits
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(dtype.bits)
    joined: np.ndarray[Any, Any] = np.bitwise_or.reduce(padded.reshape(-1, per) << shifts, axis=1)
    return joined.astype(np.uint8)


def unpack(data: np.ndarray[Any, Any], dtype: DType, shape: Any) -> np.ndarray[Any, Any]:
    """Elements (as ml_dtypes has them) of the bytes of a packed tensor."""
    bits = unpack_bits(data, dtype, shape)
    if dtype.short.startswith("s"):  # ml_dtypes keeps the sign in the whole byte
        sign = np.uint8(1 << (dtype.bits - 1))
        bits = (bits ^ sign) - sign
    return bits.view(dtype.numpy)


def unpack_bits(data: np.ndarray[Any, Any], dtype: DType, shape: Any) -> np.ndarray[Any, Any]:
    """The bits of every element of a packed tensor, in a uint8 each whose other bits are zero."""
    per = 8 // dtype.bits
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(dtype.bits)
    bits = (data.reshape(-1, 1) >> shifts).reshape(-1) & np.uint8((1 << dtype.bits) - 1)
    found: np.ndarray[Any, Any] = bits[: int(np.prod(shape))].astype(np.uint8).reshape(shape)
    return found


def to_bytes(array: np.ndarray[Any, Any], dtype: DType) -> bytes:
    """The bytes of a tensor, row-major; a packed one is given by its elements or their bits."""
    data = pack(array, dtype) if dtype.packed else np.ascontiguousarray(array)
    return data.tobytes()


def from_bytes(data: Any, dtype: DType, shape: Any) -> np.ndarray[Any, Any]:
    """The array of a tensor's bytes (a buffer); of types NumPy lacks as ml_dtypes has them."""
    if dtype.packed:
        return unpack(np.frombuffer(data, np.uint8), dtype, shape)
    return np.frombuffer(data, dtype.numpy).reshape(shape)
