# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.MatMulNBits of float32: weights of 4 bits, which stay so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, array, attribute
from aot.ir.splits import Split
from aot.normalise.decompose import Body, decompose
from aot.ops.conv_pack import ceil_div, pack_bias
from aot.ops.conv_plan import TILES
from aot.ops.microsoft import MICROSOFT
from aot.ops.registry import op
from aot.shapes.operands import first, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.shapes.types import Type, infer_types, need
from aot.vendor import F32, U8, Case, Match, Recorder, case, f32

#: Rows of the weights that are unpacked at a time, about.
RUN = 256

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
    """Quantised values [k, n] of 0..15; scales and zeros [blocks, n]: w = (q - zero) * scale."""

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

    Absent zero points are 8; uint8 ones are packed like the weights.
    """
    blocks = ceil_div(m.K, m.block_size)
    quantised = halves(np.asarray(m.w.data).reshape(m.N, -1))[:, : m.K]
    scales = np.asarray(m.s.data).reshape(m.N, blocks)
    zeros: Array = np.full((m.N, blocks), 8, np.float32)
    if m.z is not None and m.z.dtype is U8:
        zeros = halves(np.asarray(m.z.data).reshape(m.N, -1))[:, :blocks].astype(np.float32)
    elif m.z is not None:
        zeros = np.asarray(m.z.data, np.float32).reshape(m.N, blocks)
    return Weights(quantised.T, scales.T, zeros.T)


@nbits.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of 4 bits, blocks of a power of two, and operands as large as K and N say."""
    yield m.bits == 4, f"weights of {m.bits} bits (needs 4)"
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
    for name, want in (("w", m.N * blocks * size // 2), ("s", m.N * blocks)):
        have = math.prod(getattr(m, name).shape)
        yield have == want, f"{have} elements of {name} (needs {want})"
    if m.z is not None:
        want = m.N * (ceil_div(blocks, 2) if m.z.dtype is U8 else blocks)
        yield math.prod(m.z.shape) == want, f"{m.z.shape} zero points (needs {want})"
    yield m.b is None or m.b.shape == (m.N,), "a bias of another size"


def groups(columns: int, vlen: int, panel: int) -> Iterator[slice]:
    """The slices of columns of each group of vectors, in order; they may end beyond `columns`.

    A group has `panel` vectors of `vlen` columns, the last ones half as many and so on.
    """
    vecs, b = ceil_div(columns, vlen), 0
    while b < vecs:
        own = panel
        while own > vecs - b:
            own //= 2
        yield slice(b * vlen, (b + own) * vlen)
        b += own


def packed(w: Weights, vlen: int, panel: int) -> tuple[Array, Array]:
    """(pairs of quantised values as bytes, factors) in the order of aot_matmul_f32_q4.h.

    Two rows share a byte; factors are scales and zero points per block of rows.
    """
    k, n = w.quantised.shape
    wide = ceil_div(n, vlen) * vlen
    quantised = np.zeros((ceil_div(k, 2) * 2, wide), np.uint8)
    quantised[:k, :n] = w.quantised
    pairs = quantised[0::2] | quantised[1::2] << 4
    factors = np.zeros((w.scales.shape[0], 2, wide), np.float32)
    factors[:, 0, :n], factors[:, 1, :n] = w.scales, w.zeros
    cuts = list(groups(n, vlen, panel))
    flat = [np.concatenate([a[..., c].ravel() for c in cuts]) for a in (pairs, factors)]
    return flat[0], flat[1]


@nbits.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_matmul_f32_q4, with scratch (bytes) for the rows of weights unpacked at a time."""
    p, o = TILES[c.vlen][-1]
    quantised, factors = packed(weights_of(m), c.vlen, o)
    bias = None if m.b is None else np.asarray(m.b.data, np.float32)
    run = max(RUN // m.block_size, 1) * m.block_size
    rows = math.prod(m.x.shape[:-1])
    width = min(o, ceil_div(m.N, c.vlen)) * c.vlen
    params = c.params(m=rows, n=m.N, k=m.K, block=m.block_size, run=run)
    panel = o * c.vlen  # columns; a result has one row where threads share them
    sizes = (4, 0, ceil_div(m.K, 2), 8 * ceil_div(m.K, m.block_size), 4)
    moves = [(k, panel * size) for k, size in enumerate(sizes) if size]
    c.call(
        "aot_matmul_f32_q4",
        m.y,
        m.x,
        c.const(quantised, "quantised"),
        c.const(factors, "factors"),
        c.const(pack_bias(bias, m.N, c.vlen), "b"),
        c.scratch(4 * min(run, m.K + 1) * width),
        params,
        instance={"P": p, "O": o},
        macs=rows * m.K * m.N,
        splits=[Split.pieces("n", m.N, moves, panel)] * (rows == 1),
    )


@nbits.cases
def cases() -> Iterator[Case]:
    """MatMulNBits(A, B, scales, zero_points, g_idx, bias): 4 bits in blocks of 32.

    Zero points are absent, packed like the weights, or floats.
    """
    for m, k, n, zeros, bias in ((3, 64, 6, 0, 0), (1, 40, 37, 1, 0), (7, 600, 70, 2, 1)):
        blocks, rng = ceil_div(k, 32), np.random.default_rng(k)
        w = rng.integers(0, 256, (n, blocks, 16), np.uint8)
        s = f32(n * blocks)
        z = rng.integers(0, 256, (n, ceil_div(blocks, 2)), np.uint8)
        middle = np.full((n, blocks), 8.0, np.float32)
        given: Any = None
        if zeros == 1:
            given, middle = z.ravel(), halves(z)[:, :blocks].astype(np.float32)
        elif zeros == 2:
            given = middle = f32(n, blocks, low=0, high=15)
        quantised = halves(w.reshape(n, -1)).reshape(n, blocks, 32).astype(np.float32)
        plain = (quantised - middle[..., None]) * s.reshape(n, blocks, 1)
        x, b = f32(m, k), f32(n) if bias else None
        y = x.astype(np.float64) @ plain.reshape(n, -1)[:, :k].T.astype(np.float64)
        want = (y + (0 if b is None else b)).astype(np.float32)
        inputs = [x, w, s, given, None, b]
        while inputs[-1] is None:
            inputs.pop()
        const = tuple(i for i in range(1, len(inputs)) if inputs[i] is not None)
        attrs = {"K": k, "N": n, "bits": 4, "block_size": 32}
        yield case(*inputs, const=const, expected=(want,), atol=1e-3, **attrs)


@infer_types("MatMulNBits", MICROSOFT)
def _nbits_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of a MatMulNBits: that of x, with N columns."""
    dtype, a = need(types, 0)
    return [(dtype, (*a[:-1], int(attribute(node, "N", 0))))]


@decompose("MatMulNBits", MICROSOFT)
def _nbits(b: Body) -> bool:
    """Decompose a MatMulNBits into a MatMul with weights that are dequantised at compile time.

    False where weights, scales or zero points are not known.
    """
    w = _whole_weights(b)
    if w is None:
        return False
    y = b.add("MatMul", "i0", b.data(np.ascontiguousarray(w)))
    b.add("Add" if b.has(5) else "Identity", y, *(["i5"] if b.has(5) else []), out="o0")
    return True


def _whole_weights(b: Body) -> Array | None:
    """The weights [K, N] of a MatMulNBits in the type of its scales, None if they are not known."""
    rows, columns = int(attribute(b.node, "K", 0)), int(attribute(b.node, "N", 0))
    size, bits = int(attribute(b.node, "block_size", 0)), int(attribute(b.node, "bits", 4))
    packed, scales = array(b.node.inputs[1]), array(b.node.inputs[2])
    if packed is None or scales is None or b.has(4) or bits not in (4, 8) or size <= 0:
        return None
    blocks = -(-rows // size)
    zeros = array(b.node.inputs[3]) if b.has(3) else None
    if b.has(3) and zeros is None:
        return None
    quantised = _quantised(packed.reshape(columns, -1), bits)[:, : blocks * size]
    quantised = quantised.reshape(columns, blocks, size).astype(np.float32)
    # Without zero points the middle of the unsigned range stands for 0.
    if zeros is None:
        middle: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        middle = _quantised(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.float32)
        middle = middle[..., None]
    else:
        middle = zeros.reshape(columns, blocks, 1).astype(np.float32)
    w = (quantised - middle) * scales.reshape(columns, blocks, 1).astype(np.float32)
    flat: Array = w.reshape(columns, -1)[:, :rows].T.astype(scales.dtype)
    return flat


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
