# SPDX-License-Identifier: Apache-2.0
"""Elements of two and four bits, and float8e8m0: to and from types that kernels compute with."""

from __future__ import annotations

import math

from aot.ir.dtypes import F4E2M1, F8E8M0, F32, S8, U8, DType
from aot.vendor.arguments import Handle, Used
from aot.vendor.match import ValueRef
from aot.vendor.recorder import Recorder

HEADER = "aot_packed.h"
#: Types converted by way of another one.
NARROWER = (F4E2M1, F8E8M0)
ROUND_MODES = ("up", "down", "nearest")


def count(value: ValueRef) -> int:
    """The number of elements of a value."""
    return math.prod(value.shape)


def by_way_of(dtype: DType) -> DType:
    """The type to which elements of `dtype` are widened for computing; itself if it needs none."""
    if dtype in NARROWER:
        return F32
    if dtype.packed:
        return S8 if dtype.short.startswith("s") else U8
    return dtype


def to_way_of(dtype: DType) -> DType:
    """The type from which elements of `dtype` are narrowed; integers keep their lowest bits."""
    return S8 if dtype.packed and dtype is not F4E2M1 else by_way_of(dtype)


def bytes_of_elements(c: Recorder, x: ValueRef) -> Handle:
    """Record the unpacking of `x` to one byte per element: its value, or the bits of a float.

    Returned is the temporary tensor.
    """
    bytes_of = U8 if x.dtype is F4E2M1 else by_way_of(x.dtype)
    wide = c.temp(x.shape, bytes_of, name="unpacked")
    c.defines(wide)
    instance = {"BITS": x.dtype.bits, "SIGNED": int(bytes_of is S8)}
    c.call("aot_unpack_bits", wide, x, c.params(n=count(x)), instance=instance, header=HEADER)
    return wide


def widen(c: Recorder, x: ValueRef) -> ValueRef | Handle:
    """`x` in the type of `by_way_of`: itself, or a temporary tensor to which calls are recorded."""
    if by_way_of(x.dtype) is x.dtype:
        return x
    unpacked = bytes_of_elements(c, x) if x.dtype.packed else x
    if x.dtype not in NARROWER:
        return unpacked
    wide = c.temp(x.shape, F32, name="wide")
    c.defines(wide)
    kernel = "aot_f4_decode" if x.dtype is F4E2M1 else "aot_e8m0_decode"
    c.call(kernel, wide, unpacked, c.params(n=count(x)), header=HEADER)
    return wide


def store_bytes(c: Recorder, y: ValueRef, unpacked: Handle | Used) -> None:
    """Record the packing of one byte per element into `y`, whose elements share bytes."""
    instance = {"BITS": y.dtype.bits}
    c.call("aot_pack_bits", y, unpacked, c.params(n=count(y)), instance=instance, header=HEADER)


def narrow(c: Recorder, y: ValueRef, x: ValueRef | Handle, saturate: int, mode: str) -> None:
    """Record the conversion of `x`, of the type `to_way_of`, into `y` of fewer bits.

    `saturate` and `mode` (up, down, nearest) are for float8e8m0 only.
    """
    params = c.params(n=count(y))
    if y.dtype is F8E8M0:
        instance = {"MODE": ROUND_MODES.index(mode), "SATURATE": saturate}
        c.call("aot_e8m0_encode", y, c.read(x), params, instance=instance, header=HEADER)
        return
    if y.dtype is not F4E2M1:
        store_bytes(c, y, c.read(x))
        return
    unpacked = c.temp(y.shape, U8, name="unpacked")
    c.defines(unpacked)
    c.call("aot_f4_encode", unpacked, c.read(x), params, header=HEADER)
    store_bytes(c, y, c.read(unpacked))
