# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.MatMulNBits of float32: weights of 4 or 8 bits, which stay so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, attribute
from aot.ops import narrow
from aot.ops.conv_pack import ceil_div
from aot.ops.microsoft import MICROSOFT
from aot.ops.registry import op
from aot.shapes.operands import first, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.shapes.types import Type, infer_types, need
from aot.vendor import F32, U8, Case, Match, Recorder, case, f32

nbits = op(
    "MatMulNBits",
    "x w s z? g? b?",
    domain=MICROSOFT,
    types=(F32,),
    constants="w s z b",
    K=0,
    N=0,
    bits=4,
    block_size=0,
    accuracy_level=0,
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Quantised values [k, n] from 0 on; scales and zeros [blocks, n]: w = (q - zero) * scale."""

    quantised: Array
    scales: Array
    zeros: Array


def halves(data: Array) -> Array:
    """Unsigned 4-bit values, the low half of each byte first: the last axis becomes twice
    as long.
    """
    pairs = np.stack([data & 15, data >> 4], axis=-1)
    return pairs.reshape(*data.shape[:-1], -1)


def weights_of(m: Match) -> Weights:
    """The weights of a match, one column per output, with scales and zero points per block.

    Absent zero points are the middle; uint8 ones are packed like the weights.
    """
    blocks = ceil_div(m.K, m.block_size)
    quantised = _quantised(np.asarray(m.w.data).reshape(m.N, -1), m.bits)[:, : m.K]
    scales = np.asarray(m.s.data).reshape(m.N, blocks)
    zeros: Array = np.full((m.N, blocks), 1 << (m.bits - 1), np.float32)
    if m.z is not None and m.z.dtype is U8:
        packed = np.asarray(m.z.data).reshape(m.N, -1)
        zeros = _quantised(packed, m.bits)[:, :blocks].astype(np.float32)
    elif m.z is not None:
        zeros = np.asarray(m.z.data, np.float32).reshape(m.N, blocks)
    return Weights(quantised.T, scales.T, zeros.T)


@nbits.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of 4 or 8 bits, blocks of a power of two, and operands as large as K and N say."""
    yield m.bits in (4, 8), f"weights of {m.bits} bits (needs 4 or 8)"
    yield m.g is None, "blocks in an order of their own (g_idx)"
    size = m.block_size
    whole = size >= 16 and size & (size - 1) == 0
    yield whole, f"blocks of {size} (needs a power of two from 16 on)"
    # The sizes below follow from these numbers.
    if not whole or m.K <= 0 or m.N <= 0:
        yield m.K > 0 and m.N > 0, f"K {m.K}, N {m.N}"
        return
    blocks = ceil_div(m.K, size)
    yield m.x.shape[-1:] == (m.K,), f"{m.x.shape[-1:]} columns (needs {m.K})"
    for name, want in (("w", m.N * blocks * size * m.bits // 8), ("s", m.N * blocks)):
        have = math.prod(getattr(m, name).shape)
        yield have == want, f"{have} elements of {name} (needs {want})"
    if m.z is not None:
        want = m.N * (ceil_div(blocks * m.bits, 8) if m.z.dtype is U8 else blocks)
        yield math.prod(m.z.shape) == want, f"{m.z.shape} zero points (needs {want})"
    yield m.b is None or m.b.shape == (m.N,), "a bias of another size"


def steps(quantised: Array, kind: int) -> Array:
    """Quantised values [k, n] in the kernel's steps of the kind S4, S8 or S8_WORDS."""
    k, n = quantised.shape
    deep = narrow.STEP[kind]
    rows = np.zeros((ceil_div(k, deep), deep, n), np.uint32)
    rows.reshape(-1, n)[:k] = quantised
    if kind == narrow.S8:
        return (rows ^ 128).astype(np.uint8).view(np.int8)
    shifts = np.arange(deep, dtype=np.uint32)
    shifts = shifts % 4 * 8 + shifts // 4 * 4
    flipped = rows if kind == narrow.S4 else rows ^ 128
    words: Array = np.bitwise_or.reduce(flipped << shifts[:, None], axis=1)
    return words


@nbits.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_gemm_f32_narrow with the weights' own bits, and zeros where one is not the
    middle.
    """
    w = weights_of(m)
    zeros, n = w.zeros - np.float32(1 << (m.bits - 1)), m.N
    factors = [w.scales, zeros] if np.any(zeros) else [w.scales]
    wide = narrow.S8_WORDS if narrow.by_dots(c, math.prod(m.x.shape[:-1])) else narrow.S8
    kind = narrow.S4 if m.bits == 4 else wide
    data = narrow.in_groups(steps(w.quantised, kind), n, c.vlen)
    stored = narrow.Narrow(kind, m.K, n, data, np.stack(factors, axis=1), m.block_size)
    narrow.record_narrow(c, m, m.x, stored, None if m.b is None else np.asarray(m.b.data))


@nbits.cases
def cases() -> Iterator[Case]:
    """MatMulNBits(A, B, scales, zero_points, g_idx, bias): 4 or 8 bits in blocks of 32.

    Zero points are absent, packed like the weights, or floats.
    """
    sizes = ((3, 64, 6, 0, 0, 4), (1, 40, 37, 1, 0, 4), (7, 600, 70, 2, 1, 4), (1, 41, 70, 1, 1, 8))
    for m, k, n, zeros, bias, bits in sizes:
        blocks, rng = ceil_div(k, 32), np.random.default_rng(k)
        w = rng.integers(0, 256, (n, blocks, 4 * bits), np.uint8)
        s = f32(n * blocks)
        z = rng.integers(0, 256, (n, ceil_div(blocks * bits, 8)), np.uint8)
        middle = np.full((n, blocks), 1 << (bits - 1), np.float32)
        given: Any = None
        if zeros == 1:
            given, middle = z.ravel(), _quantised(z, bits)[:, :blocks].astype(np.float32)
        elif zeros == 2:
            given = middle = f32(n, blocks, low=0, high=15)
        quantised = _quantised(w.reshape(n, -1), bits).reshape(n, blocks, 32).astype(np.float32)
        plain = (quantised - middle[..., None]) * s.reshape(n, blocks, 1)
        x, b = f32(m, k), f32(n) if bias else None
        y = x.astype(np.float64) @ plain.reshape(n, -1)[:, :k].T.astype(np.float64)
        want = (y + (0 if b is None else b)).astype(np.float32)
        inputs = [x, w, s, given, None, b]
        while inputs[-1] is None:
            inputs.pop()
        const = tuple(i for i in range(1, len(inputs)) if inputs[i] is not None)
        attrs = {"K": k, "N": n, "bits": bits, "block_size": 32}
        # The largest product is 128 steps of 8 bits.
        yield case(
            *inputs, const=const, expected=(want,), atol=1e-3 if bits == 4 else 2e-2, **attrs
        )


@infer_types("MatMulNBits", MICROSOFT)
def _nbits_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of a MatMulNBits: that of x, with N columns."""
    dtype, a = need(types, 0)
    return [(dtype, (*a[:-1], int(attribute(node, "N", 0))))]


def _quantised(data: Array, bits: int) -> Array:
    """One unsigned value per byte (uint8), from `data` with 4 or 8 bits per value.

    With 4 bits a byte holds two values, the low half first, and the last axis becomes twice as
    long.
    """
    return data if bits == 8 else halves(data)


@operands_fit("MatMulNBits", MICROSOFT)
def nbits_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """MatMulNBits: weights [N, blocks, bytes of a block], a scale and a zero point of each block.

    Zero points of the scales' type are as many as they are; else their bits are packed like the
    weights', each column in whole bytes.
    """
    columns, depth, size = (int(attribute(node, n, 0)) for n in ("N", "K", "block_size"))
    bits = int(attribute(node, "bits", 4))
    # A block is stored in whole bytes.
    if min(columns, depth, size, bits) < 1 or size * bits % 8:
        return f"N {columns}, K {depth}, block_size {size}, bits {bits}"
    blocks = -(-depth // size)
    each = ((columns, blocks), (columns * blocks,))
    scales, zero = (node.inputs[i] if i < len(node.inputs) else None for i in (2, 3))
    packed = zero is not None and scales is not None and zero.dtype != scales.dtype
    width = -(-blocks * bits // 8)
    points = ((columns, width), (columns * width,)) if packed else each
    return first(
        wrong("B", operand_shape(node, 1), (columns, blocks, size * bits // 8)),
        wrong("scales", operand_shape(node, 2), *each),
        wrong("zero_points", operand_shape(node, 3), *points),
        wrong("bias", operand_shape(node, 5), (columns,)),
    )
