# SPDX-License-Identifier: Apache-2.0
"""Products of float numbers with constant weights of 4 or 8 bits keep these bits.

Before: y = MatMul(x float, DequantizeLinear(w int4[K, N], s[K/32, N], z, axis=0, block_size=32))
After:  y = com.microsoft.MatMulNBits(x, w'[N, K/32, 16], s'[N * K/32], z', bits=4, block_size=32)
The weights may be stored transposed, and have scales per column or one scale. As float32 constants
they take four or eight times the memory; `LoadOptions.packed_from` says from which size that
matters. A product of one row takes the time of reading them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import Array, array, attribute, maker_of, shape_of
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import DEQUANTISE, is_dequantise

DOMAIN, OP_TYPE = "com.microsoft", "MatMulNBits"
KINDS = ("INT4", "UINT4", "INT8", "UINT8")
BLOCK = 256
"""Elements of a block where the model has none."""
ONE_ROW = 1 << 18
"""Elements from which the weights of a product of one row keep their bits: caches hold fewer."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Quantised values of `bits`, from 0 on, [N, blocks * size]; scales and zeros [N, blocks]."""

    bits: int
    quantised: Array
    scales: Array
    zeros: Array
    size: int


def quant_nbits(edit: Editor, options: LoadOptions) -> None:
    """Respell products with weights of 4 or 8 bits for backends that keep them so."""
    if f"{DOMAIN}::{OP_TYPE}" not in (options.native or ()) or not edit.graph.opset_imports:
        return
    for node in edit.graph:
        if node.op_type != "MatMul" or node.domain or is_dequantise(producer(node.inputs[0])):
            continue
        x, result = node.inputs[0], node.outputs[0]
        if x is None or x.dtype != result.dtype or x.dtype is None:
            continue
        one = math.prod(shape_of(x)[:-1]) == 1
        least = min(ONE_ROW, options.packed_from) if one else options.packed_from
        weights = _weights(node.inputs[1], least)
        if weights is None:
            continue
        if x.dtype.numpy() == np.float32 and len(shape_of(x)) > 1:
            _respell(edit, node, weights, shape_of(x)[-1])


def _weights(value: ir.Value | None, least: int) -> Packed | None:
    """Constant weights [K, N] of 4 or 8 bits, or transposed ones; None for others and below `least`
    elements.
    """
    transposed = producer(value, "Transpose")
    source = producer(value if transposed is None else transposed.inputs[0], DEQUANTISE)
    if source is None or source.inputs[0] is None or source.inputs[0].dtype is None:
        return None
    data, scale = array(source.inputs[0]), array(source.inputs[1])
    zero = array(source.inputs[2]) if len(source.inputs) > 2 else None
    dtype = source.inputs[0].dtype
    if data is None or scale is None or zero is None or dtype.name not in KINDS:
        return None
    if data.ndim != 2 or data.size < least or scale.dtype != np.float32:
        return None
    axis, block = int(attribute(source, "axis", 1)), int(attribute(source, "block_size", 0))
    # MatMulNBits has codes without sign, and [N, K] order.
    bits = dtype.bitwidth
    lift = 1 << (bits - 1) if dtype.is_signed() else 0
    quantised, zero = data.astype(np.int64) + lift, zero.astype(np.int64) + lift
    if transposed is None:
        quantised, axis = quantised.T, 1 - axis
        scale, zero = (a.T if a.ndim == 2 else a for a in (scale, zero))
    return _blocks(bits, quantised, scale, zero, axis, block)


def _blocks(
    bits: int, quantised: Array, scale: Array, zero: Array, axis: int, block: int
) -> Packed | None:
    """Weights [N, K] in blocks along K; None if their blocks run along N or have no power of two.

    `axis` is the axis of blocks or of one scale per column; `block` is 0 for scales without blocks.
    """
    rows, depth = quantised.shape
    if not block:
        block = BLOCK
        if scale.ndim == 1 and axis != 0:
            return None
        scale, zero = (a.reshape(-1, 1) for a in (scale, zero))
    elif axis != 1 or block < 16 or block & (block - 1):
        return None
    count = -(-depth // block)
    if scale.shape[1] not in (1, count) or scale.shape[0] not in (1, rows):
        return None
    scale, zero = (np.broadcast_to(a, (rows, count)) for a in (scale, zero))
    full = np.zeros((rows, count * block), np.uint8)
    full[:, :depth] = quantised
    return Packed(bits, full, scale.copy(), zero.copy(), block)


def _respell(edit: Editor, node: ir.Node, w: Packed, depth: int) -> None:
    """Replace a MatMul by com.microsoft's MatMulNBits with weights `w`; `depth` is K."""
    rows, count = w.scales.shape
    inputs = [
        node.inputs[0],
        edit.const(_bytes(w.quantised, w.bits).reshape(rows, count, -1), f"{node.name}_w"),
        edit.const(w.scales.reshape(-1), f"{node.name}_scales"),
    ]
    # The middle is what the operator takes where no zero points are given.
    if np.any(w.zeros != 1 << (w.bits - 1)):
        even = np.zeros((rows, count + count % 2), np.uint8)
        even[:, :count] = w.zeros
        zeros = _bytes(even if w.bits == 4 else even[:, :count], w.bits)
        inputs.append(edit.const(zeros.reshape(-1), f"{node.name}_zeros"))
    attributes = {"K": depth, "N": rows, "bits": w.bits, "block_size": w.size}
    shape = shape_of(node.outputs[0])
    new = edit.node(OP_TYPE, inputs, attributes, before=node, shape=shape)
    made = maker_of(new)
    made.domain, made.name = DOMAIN, node.name
    edit.graph.opset_imports.setdefault(DOMAIN, 1)
    edit.substitute(node, new)


def _bytes(quantised: Array, bits: int) -> Array:
    """The values [.., n] in bytes: one of 8 bits, or two of 4, the first one in the low half."""
    return quantised if bits == 8 else quantised[:, 0::2] | quantised[:, 1::2] << 4
