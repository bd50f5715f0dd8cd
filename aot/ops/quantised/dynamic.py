# SPDX-License-Identifier: Apache-2.0
"""Quantisation at run time: DynamicQuantizeLinear, and matrix products that give int32 sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, S8, S32, U8
from aot.ir.graph_nodes import given, shape_of
from aot.ir.value_traits import Quantises
from aot.normalise.decompose import INT32, Body, decompose
from aot.ops.broadcast import collapses
from aot.ops.kernels import listing
from aot.ops.quantised import conv_dot, conv_vector
from aot.ops.quantised.common import batched
from aot.ops.quantised.shapes import QConv, padded, round_up
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.products import multiplied
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.operands import Shape, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor import (
    Case,
    Layout,
    Match,
    Recorder,
    ValueRef,
    case,
    channels_last,
    f32,
    quantised_values,
)
from aot.vendor.quantisation import QUANTISED_TYPES

EIGHT = (S8, U8)
HEADER = "aot_qdynamic.h"
#: Products of two 8-bit quantised values without their zero points are below 2^16: sums of this
#: many fit.
LONGEST = 2**15

quantise = op("DynamicQuantizeLinear", "x", "y scale zero", traits=[Quantises("scale", "zero")])
matmul = op("MatMulInteger", "a b az? bz?")


@quantise.check
def dynamic_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x is float32."""
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"


@quantise.layouts
def dynamic_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocks of channels are read as they come; their quantised values have channels last."""
    if m.y is None or not incoming["x"].blocked or 0 in m.x.shape:
        return {}
    return {"x": incoming["x"], "y": channels_last(m.y)}


@quantise.lower
def dynamic_to_kernel(c: Recorder, m: Match) -> None:
    # Outputs that nobody reads are written all the same.
    """Record aot_qdynamic_u8; results that nobody reads go to temporaries."""
    scale = m.scale if m.scale is not None else c.temp((), F32, name="scale")
    zero = m.zero if m.zero is not None else c.temp((), U8, name="zero")
    y = m.y if m.y is not None else c.temp(m.x.shape, U8, name="quantised")
    kernel, params = "aot_qdynamic_u8", c.params(n=math.prod(m.x.shape))
    if m.x.layout.blocked:
        n, channels, *space = m.x.shape
        kernel = "aot_qdynamic_blocks_u8"
        params = c.params(n=n, channels=channels, space=math.prod(space))
    c.call(kernel, y, scale, zero, m.x, params, header=HEADER)


@quantise.cases
def dynamic_cases() -> Iterator[Case]:
    """DynamicQuantizeLinear(x): both signs, one sign, zeros; three results."""
    for x in (f32(3, 7), f32(40, low=1.0, high=3.0), f32(5, low=-9.0, high=-1.0)):
        yield case(x, outputs=3)
    zeros = np.zeros((2, 3), np.float32)
    expected = (np.zeros((2, 3), np.uint8), np.float32(1), np.uint8(0))
    yield case(zeros, outputs=3, expected=tuple(np.asarray(e) for e in expected))


def pair(a: ValueRef, b: ValueRef, y: ValueRef) -> Iterator[tuple[bool, str]]:
    """Checks that both operands are 8-bit quantised values and the result is int32."""
    for value in (a, b):
        yield value.dtype in EIGHT, f"dtype {value.dtype} (needs {listing(EIGHT)})"
    yield y.dtype is S32, f"result of {y.dtype} (needs int32)"


def points(value: ValueRef | None, count: int) -> Iterator[tuple[bool, str]]:
    """Checks that there is no zero point, one, or one for each of `count`."""
    size = 1 if value is None else math.prod(value.shape)
    short = value is None or value.rank <= 1
    yield short and size in (1, count), f"zero points {list(value.shape) if value else []}"


def step(value: ValueRef | None) -> int:
    """1 if there are several zero points, else 0: the kernel's step from one to the next."""
    return int(value is not None and math.prod(value.shape) > 1)


@matmul.check
def matmul_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a MatMulInteger: types, ranks, sums that fit int32, zero points, batch axes."""
    yield from pair(m.a, m.b, m.y)
    yield m.a.rank >= 2 and m.b.rank >= 2, f"ranks {m.a.rank}, {m.b.rank} (needs 2 or more)"
    yield m.a.shape[-1] <= LONGEST, f"sums of {m.a.shape[-1]} products (at most {LONGEST})"
    if m.a.rank >= 2 and m.b.rank >= 2:
        yield from points(m.az, m.a.shape[-2])
        yield from points(m.bz, m.b.shape[-1])
        yield from collapses(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])


def _packable(m: Match) -> bool:
    """Whether b is one constant matrix and a has one zero point or none."""
    constant = m.b.is_const and (m.bz is None or m.bz.is_const) and not step(m.az)
    return constant and math.prod(m.b.shape[:-2]) == 1 and 0 not in m.a.shape + m.b.shape


def _record_packed(c: Recorder, m: Match) -> None:
    """Record the product with weights packed at compile time: by dot products, else in vectors."""
    rows, (depth, columns), t = math.prod(m.a.shape[:-1]), m.b.shape[-2:], c.target
    data, zero = m.b.data, 0 if m.bz is None else m.bz.data
    assert data is not None and zero is not None
    w = (data.reshape(depth, columns).astype(np.int64) - zero).T
    # A row of the product is a position of a 1 x 1 convolution, so its planners and packing serve.
    shape = QConv.matrices(t, c.vlen, rows, depth, columns)
    instance = {"AT": QUANTISED_TYPES.index(m.a.dtype)}
    if conv_dot.suits(t.simd, c.vlen, c.objective):
        call = conv_dot.plan(shape, w[:, :, None, None], np.zeros(columns, np.int64))
        kernel, own = "aot_matmulinteger__dot", round_up(4 * len(call.bias), 64)
        tables = call.bias, padded(w.sum(axis=1).astype(np.int32), c.vlen)
    else:
        stored, lacking = conv_dot.split(w)
        call = conv_vector.plan(shape, stored[:, :, None, None], np.zeros(columns, np.int64))
        kernel, own = "aot_matmulinteger__vec", 0
        tables = call.bias, padded(lacking, c.vlen * call.instance["O"])
        instance["WZ"] = int(lacking.any())
    c.call(
        kernel,
        m.y,
        m.a,
        c.const(call.weights, "w"),
        *(c.const(t, "sums") for t in tables),
        m.az,
        c.scratch(own + call.scratch),
        c.params(m=rows, k=depth, n=columns),
        instance={**instance, **call.instance},
        macs=shape.macs,
    )


@matmul.lower
def matmul_to_kernel(c: Recorder, m: Match) -> None:
    """Record a MatMulInteger: packed for vectors if b is constant, else by scalar loops."""
    if c.vlen > 1 and _packable(m):
        _record_packed(c, m)
        return
    # The step 0 lets all rows or columns read the one zero point.
    params = c.params(**batched(m), a_step=step(m.az), b_step=step(m.bz))
    instance = {"AT": QUANTISED_TYPES.index(m.a.dtype), "BT": QUANTISED_TYPES.index(m.b.dtype)}
    c.call(
        "aot_matmulinteger",
        m.y,
        m.a,
        m.b,
        m.az,
        m.bz,
        params,
        instance=instance,
        macs=math.prod(m.y.shape) * m.a.shape[-1],
        header=HEADER,
    )


@matmul.cases
def matmul_cases() -> Iterator[Case]:
    """MatMulInteger(A, B, a_zero_point, b_zero_point); zero points of columns of B."""
    points = np.array(7, np.uint8), np.array(-3, np.int8)
    yield case(quantised_values(3, 5, dtype="uint8"), quantised_values(5, 7), *points)
    yield case(
        quantised_values(2, 3, 4, dtype="uint8"), quantised_values(4, 6), points[0], const=(1,)
    )
    yield case(quantised_values(2, 1, 3, 4), quantised_values(3, 4, 5, dtype="uint8"))
    wide = quantised_values(37, 50, dtype="uint8", seed=5)
    yield case(quantised_values(19, 37, dtype="uint8"), wide, *(2 * points[:1]), const=(1, 2, 3))
    columns = quantised_values(7, seed=3)
    a, b = quantised_values(3, 5), quantised_values(5, 7)
    expected = a.astype(np.int32) @ (b.astype(np.int32) - columns)
    yield case(a, b, np.array(0, np.int8), columns, const=(1, 3), expected=(expected,))


@decompose("MatMulInteger")
def _matmul_integer(b: Body) -> bool:
    """Decompose a MatMulInteger: int32 operands less their zero points, multiplied."""
    left, right = b.centred(0, 2, INT32, -2), b.centred(1, 3, INT32, -1)
    b.add("MatMul", left, right, out="o0")
    return True


@dynamic("MatMulInteger")
def matmul_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a MatMulInteger; padding of the summed axis becomes the zero points."""
    multiplied(x, node, 0, 1, [2], [3])


@dynamic("QLinearMatMul")
def linear_matmul_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a QLinearMatMul; padding of the summed axis becomes the zero points.

    UnsupportedError for scales of the result per row or column.
    """
    if any(prod(shape_of(v)) > 1 for i in (6, 7) if (v := given(node, i)) is not None):
        raise refused(node, "has scales along a dimension known at run time only")
    multiplied(x, node, 0, 3, [1, 2], [4, 5])


@dynamic("DynamicQuantizeLinear")
def quantised_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a DynamicQuantizeLinear; padding becomes 0, which its range always
    holds.
    """
    data = needed(node, 0)
    node.replace_input_with(0, x.neutral(node, data, 0))
    pass_on(x, node, x.run_sizes(data), 0)


@operands_fit("MatMulInteger")
def matmul_integer_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why zero points of a MatMulInteger do not fit; "" if they do.

    They are one for all, one per row of A, or one per column of B.
    """
    a, b = operand_shape(node, 0) or (), operand_shape(node, 1) or ()
    left, right = operand_shape(node, 2), operand_shape(node, 3)
    one: tuple[Shape, ...] = ((), (1,))
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    of_rows = [rows, (*a[:-1], 1)] if rows else []
    of_columns = [columns, (*b[:-2], 1, *columns)] if columns else []
    reason = wrong("a_zero_point", left, *one, *of_rows)
    return reason or wrong("b_zero_point", right, *one, *of_columns)
