# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: per tensor, per axis and in blocks along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import (
    F4E2M1,
    F8E4M3FN,
    F8E5M2,
    F32,
    FLOAT8,
    PACKED,
    S4,
    S8,
    S16,
    S32,
    U8,
    U16,
    DType,
    unpack,
)
from aot.ir.graph_nodes import attribute, dtype_of, maker_of, shape_of
from aot.ir.layout import Layout, blocked, can_block
from aot.ir.operators import AxisOf
from aot.ir.value_traits import Dequantises, Quantises
from aot.ops.cast import F8_FORMATS
from aot.ops.kernels import listing
from aot.ops.packed import bytes_of_elements, store_bytes
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, axis_of, refused, zero_padding
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.operands import Shape, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor.arguments import ParamFields
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match, ValueRef
from aot.vendor.recorder import Recorder
from aot.vendor.strided_copy import split_at

QUANTISED: tuple[DType, ...] = (S8, U8, S16, U16, *FLOAT8, *PACKED)
HEADER = "aot_quantize.h"

quantize = op(
    "QuantizeLinear",
    "x scale zero?",
    traits=[Quantises("scale", "zero")],
    axis=AxisOf("x", 1, idle=True),
    block_size=0,
    saturate=1,
    output_dtype=0,
    precision=0,
)
dequantize = op(
    "DequantizeLinear",
    "x scale zero?",
    traits=[Dequantises("scale", "zero")],
    axis=AxisOf("x", 1, idle=True),
    block_size=0,
    output_dtype=0,
)


quantize.packed = dequantize.packed = True


def points_fit(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that scales are float32 and zero points of floats are 0.

    Shapes are checked for every backend elsewhere.
    """
    yield m.scale.dtype is F32, f"scales of {m.scale.dtype} (needs float32)"
    if m.zero is not None and m.zero.dtype in (*FLOAT8, F4E2M1) and m.zero.data is not None:
        none = not np.any(np.asarray(m.zero.data).astype(np.float32))
        yield none, f"a zero point of {m.zero.dtype} other than 0, which others ignore"


@quantize.check
def quantize_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that float32 becomes a type that kernels quantise to."""
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    yield m.y.dtype in QUANTISED, f"result of {m.y.dtype} (needs {listing(QUANTISED)})"
    yield from points_fit(m)


@dequantize.check
def dequantize_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a type that kernels know becomes float32."""
    yield m.y.dtype is F32, f"result of {m.y.dtype} (needs float32)"
    known = (*QUANTISED, S32)
    yield m.x.dtype in known, f"dtype {m.x.dtype} (needs {listing(known)})"
    yield from points_fit(m)


def geometry(c: Recorder, m: Match) -> ParamFields:
    """The kernel's parameters: x as [outer, axis, inner], and the steps from scale to scale.

    Steps are 0 where one scale is for all; `block` indices along the axis share a scale.
    """
    scale = m.scale.shape
    if len(scale) <= 1 and math.prod(scale) == 1:
        count = math.prod(m.x.shape)
        return c.params(outer=1, axis=1, inner=count, block=1, so=0, sa=0, si=0)
    axis = m.axis % m.x.rank
    outer, extent, inner = split_at(m.x.shape, axis)
    if len(scale) == 1:
        return c.params(outer=outer, axis=extent, inner=inner, block=1, so=0, sa=1, si=0)
    row = scale[axis] * inner
    return c.params(
        outer=outer, axis=extent, inner=inner, block=m.block_size, so=row, sa=inner, si=1
    )


@quantize.layouts
@dequantize.layouts
def both_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: floats in whole blocks of channels on one side, 8-bit integers with channels
    last on the other, where x comes so and one scale is for all; plain otherwise.
    """
    x, y = m.x, m.y
    back = y.dtype is F32
    integers = x if back else y
    if not can_block(x.shape) or integers.dtype is not S8:
        return {}
    last = channels_last(integers)
    x_layout, y_layout = (last, blocked(vlen)) if back else (blocked(vlen), last)
    whole = vlen > 1 and x.shape[1] % vlen == 0 and prod(m.scale.shape) == 1
    fits = whole and incoming["x"].block == x_layout.block
    return {"x": x_layout, "y": y_layout} if fits else {}


def record_blocked(c: Recorder, m: Match, kernel: str) -> None:
    """Record `kernel` on the layouts that `both_layouts` chose, if it chose any."""
    n, channels, *spatial = m.x.shape
    sizes = {"outer": n, "axis": channels // c.vlen, "inner": prod(spatial)}
    params = c.params(**sizes, block=1, so=0, sa=0, si=0)
    c.call(f"{kernel}_blocked", m.y, m.x, m.scale, m.zero, params, header=HEADER)


def suffix(value: ValueRef) -> str:
    """The part of a kernel's name for the type of quantised values: f4, f8, or the type's short
    name.
    """
    return "f4" if value.dtype is F4E2M1 else "f8" if value.dtype in FLOAT8 else value.dtype.short


@quantize.lower
def to_quantised(c: Recorder, m: Match) -> None:
    """Record aot_quantize; types of less than a byte are packed by a second call."""
    instance = F8_FORMATS.get(m.y.dtype.name, {})
    if instance:
        instance = {**instance, "SATURATE": int(m.saturate)}
    kernel = f"aot_quantize_{suffix(m.y)}"
    if m.x.layout.blocked:
        record_blocked(c, m, kernel)
        return
    # That of floats is 0 by ONNX's text; one that is computed is ignored, as by others.
    given = None if m.y.dtype in (*FLOAT8, F4E2M1) else m.zero
    if not m.y.dtype.packed:
        operands = (m.y, m.x, m.scale, given, geometry(c, m))
        c.call(kernel, *operands, instance=instance, header=HEADER)
        return
    zero = given and bytes_of_elements(c, given)
    quantised = c.temp(m.y.shape, U8, name="quantised")
    c.defines(quantised)
    c.call(kernel, quantised, m.x, m.scale, zero and c.read(zero), geometry(c, m), header=HEADER)
    store_bytes(c, m.y, c.read(quantised))


@dequantize.lower
def from_quantised(c: Recorder, m: Match) -> None:
    """Record aot_dequantize, after unpacking types of less than a byte."""
    instance = F8_FORMATS.get(m.x.dtype.name, {})
    kernel = f"aot_dequantize_{suffix(m.x)}"
    x, zero = m.x, m.zero
    if x.layout.blocked:
        record_blocked(c, m, kernel)
        return
    if m.x.dtype.packed:
        x, zero = c.read(bytes_of_elements(c, x)), zero and c.read(bytes_of_elements(c, zero))
    operands = (m.y, x, m.scale, zero, geometry(c, m))
    c.call(kernel, *operands, instance=instance, header=HEADER)


SCALE = np.array(0.02, np.float32)


@quantize.cases
def quantize_cases() -> Iterator[Case]:
    """QuantizeLinear(x, y_scale, y_zero_point): per tensor, axis and block."""
    wild = np.array([2e6, -2e6, 0.5, 1.5, 2.5, -0.5, -1.5, 3e5], np.float32)
    for t, zero in ((S8, 3), (U8, 128), (S16, -300), (U16, 30000)):
        yield case(f32(3, 7), SCALE, np.array(zero, t.np_name))
        yield case(wild, np.array(1, np.float32), np.array(zero, t.np_name))
    yield case(f32(3, 7), SCALE)
    yield case(f32(2, 16, 3, 2), SCALE, np.array(3, np.int8))
    per_channel = np.array([0.1, 0.02, 0.5], np.float32)
    yield case(f32(2, 3, 4), per_channel, ints(3, dtype="int8"))
    yield case(f32(2, 4, 3), per_channel, ints(3, dtype="int8"), axis=-1)
    yield case(f32(2, 5, 3), f32(2, 3, 3, low=0.1), ints(2, 3, 3, dtype="int8"), block_size=2)
    for t in (F8E4M3FN, F8E5M2):
        yield case(f32(3, 7, low=-900, high=900), np.array(1, np.float32), np.zeros((), t.numpy))


@quantize.cases
def packed_quantize_cases() -> Iterator[Case]:
    """QuantizeLinear to types of less than a byte."""
    for t in PACKED:
        yield case(f32(3, 7, low=-9, high=9), np.array(1.5, np.float32), np.zeros((), t.numpy))


@dequantize.cases
def packed_dequantize_cases() -> Iterator[Case]:
    """DequantizeLinear of types of less than a byte, per tensor and per block."""
    for t in PACKED:
        quantised = unpack(np.arange(11, dtype=np.uint8) * 23, t, (3, 5))
        zero = 0 if t is F4E2M1 else 1
        yield case(quantised, SCALE, np.array(zero, np.float32).astype(t.numpy))
    blocks = unpack(np.arange(15, dtype=np.uint8) * 17, S4, (2, 5, 3))
    yield case(blocks, f32(2, 3, 3, low=0.1), None, block_size=2)


@dequantize.cases
def dequantize_cases() -> Iterator[Case]:
    """DequantizeLinear(x, x_scale, x_zero_point): per tensor, axis and block; int32 sums."""
    for t, zero in ((S8, 3), (U8, 128), (S16, -300), (U16, 30000), (S32, 0)):
        yield case(ints(3, 7, low=0, high=100, dtype=t.np_name), SCALE, np.array(zero, t.np_name))
    quantised = ints(2, 3, 4, low=0, high=100, dtype="uint8")
    yield case(quantised, np.array([0.1, 0.02, 0.5], np.float32), ints(3, low=0, dtype="uint8"))
    yield case(quantised, SCALE)
    wide = ints(2, 5, 3, low=0, high=100, dtype="int8")
    yield case(wide, f32(2, 3, 3, low=0.1), ints(2, 3, 3, dtype="int8"), block_size=2)
    for channels in (4, 8, 16):  # whole blocks of every width of vectors
        yield case(ints(2, channels, 3, 2, dtype="int8"), SCALE, np.array(3, np.int8))
    yield case(f32(3, 7).astype(F8E4M3FN.numpy), np.array(2, np.float32))


@dynamic("DequantizeLinear QuantizeLinear")
def quantised_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions pass where one scale is for all, or scales are along another, static axis.

    UnsupportedError otherwise.
    """
    data, scale = needed(node, 0), needed(node, 1)
    many = prod(shape_of(scale)) > 1
    axis = axis_of(node, max(len(shape_of(data)), 1), 1)
    if any(x.run_sizes(i) for i in node.inputs[1:]) or (many and axis in x.run_sizes(data)):
        raise refused(node, "has scales along a dimension known at run time only")
    pass_on(x, node, x.run_sizes(data))


@zero_padding("DequantizeLinear")
def zero_padding_of_quantised(
    x: DynamicDims, before: ir.Node, value: ir.Value, axes: Sequence[int]
) -> ir.Value | None:
    """A DequantizeLinear of quantised values whose padding along `axes` stands for zero.

    The new node is next to its reader `before`, which may compute with the quantised values. None
    for several scales, or without dynamic axes.
    """
    maker = maker_of(value)
    quantised, scale, *zero = maker.inputs
    if quantised is None or scale is None or shape_of(scale) or not x.run_sizes(quantised):
        return None
    point: Any = 0
    if zero and zero[0] is not None:
        where = x.ints(before, [1])
        point = x.node(before, "Reshape", [zero[0], where], [(int(dtype_of(quantised)), (1,))])[0]
    quantised = x.neutral(before, quantised, point, axes)
    kind = [(int(value.dtype or 0), shape_of(value))]
    how = {k: v.value for k, v in maker.attributes.items()}
    made = x.node(before, "DequantizeLinear", [quantised, scale, *zero], kind, **how)[0]
    x.set(made, x.run_sizes(value))
    return made


@operands_fit("QuantizeLinear DequantizeLinear")
def quantised_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why scales or zero points do not fit x: "" if they do.

    They are one for all, one per index of an axis, or one per block along it; zero points as
    scales.
    """
    x, scale, zero = (operand_shape(node, i) for i in range(3))
    if x is None or scale is None:
        return ""
    # A single number may be a scalar or a vector of one element.
    one: tuple[Shape, ...] = ((), (1,))
    if zero is not None and zero != scale and not (zero in one and scale in one):
        needs = "they need the same shape"
        return f"zero points of shape {list(zero)} for scales of shape {list(scale)} ({needs})"
    axis, block = int(attribute(node, "axis", 1)), int(attribute(node, "block_size", 0))
    if scale in one:
        return ""
    if not -len(x) <= axis < len(x):
        return f"axis {axis} of a tensor of {len(x)} axes"
    axis %= len(x)
    if len(scale) == 1:
        fits = scale[0] == x[axis]
        return "" if fits else f"{scale[0]} scales for axis {axis} of {list(x)}"
    if block < 1:
        return f"scales {list(scale)} without block_size"
    return wrong("scales", scale, (*x[:axis], -(-x[axis] // block), *x[axis + 1 :]))
