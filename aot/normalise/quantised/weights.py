# SPDX-License-Identifier: Apache-2.0
"""Constant quantised values in one form: signed 8 bits, zero point 0 where the values allow.

Before: DequantizeLinear(QuantizeLinear(w float, s, 0, axis=0), s, 0, axis=0)
After:  DequantizeLinear(w int8, s, 0, axis=0)
Before: DequantizeLinear(w uint8, s, 128)      Gemm(x, DequantizeLinear(w[N,K], axis=0), transB=1)
After:  DequantizeLinear(w - 128 int8, s, 0)   Gemm(x, DequantizeLinear(w.T[K,N], axis=1))
Quantised values of 4 bits are unpacked.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, attribute, shape_of
from aot.ir.operators import Linear, trait_of
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    dequantised,
    has_quantised_dtype,
    is_dequantise,
    is_quantise,
    limits,
    params_of,
    to_quantised,
)

SMALL = (4, 8)


def quant_weights(edit: Editor, options: LoadOptions) -> None:
    """Quantise constants, unpack and centre their quantised values, transpose those of Gemm."""
    for node in edit.graph:
        trait = trait_of(node, Linear)
        if trait is not None and trait.transposed and attribute(node, trait.transposed, 0):
            _transpose(edit, node, trait.transposed)
        elif is_quantise(node):
            _quantised(edit, node)
        elif is_dequantise(node):
            _centred(edit, node)


def _quantised(edit: Editor, node: ir.Node) -> None:
    """Replace a QuantizeLinear of a constant by a constant."""
    data, p, result = array(node.inputs[0]), params_of(node), node.outputs[0]
    if data is None or p is None or data.dtype != np.float32 or result.dtype is None:
        return
    quantised = to_quantised(data, p, limits(result)).astype(result.dtype.numpy())
    made = edit.const(quantised, str(result.name), result.dtype)
    if result.is_graph_output():
        made = edit.node("Identity", [made], before=node, shape=shape_of(result))
    edit.substitute(node, made)


def _centred(edit: Editor, node: ir.Node) -> None:
    """Store constant quantised values of 4 and 8 bits as int8, less their zero points if
    that fits.
    """
    quantised, p = node.inputs[0], params_of(node)
    data = array(quantised)
    if quantised is None or data is None or p is None or quantised.dtype is None:
        return
    if quantised.dtype.bitwidth not in SMALL:
        return
    new, zero = _signed(data.astype(np.int64), p)
    if quantised.dtype == ir.DataType.INT8 and np.array_equal(zero, p.zero):
        return
    edit.set_input(node, 0, edit.const(new.astype(np.int8), str(quantised.name)))
    edit.set_input(node, 2, edit.const(zero.astype(np.int8), f"{quantised.name}_zero"))


def _signed(quantised: Array, params: Params) -> tuple[Array, Array]:
    """Quantised values and zero points within int8 that stand for the same numbers."""
    centred = quantised - params.spread(quantised.ndim)[1]
    if centred.size == 0 or (centred.min() >= -128 and centred.max() <= 127):
        return centred, np.zeros_like(params.zero)
    if quantised.min() < -128 or quantised.max() > 127 or params.zero.max() > 127:
        return quantised - 128, params.zero - 128
    return quantised, params.zero


def _transpose(edit: Editor, node: ir.Node, transposed: str) -> None:
    """A product reads constant quantised values stored [K, N], without the attribute
    `transposed`."""
    source = dequantised(node.inputs[1])
    p = params_of(source)
    if source is None or p is None:
        return
    data, quantised = array(source.inputs[0]), source.inputs[0]
    if data is None or quantised is None or not has_quantised_dtype(quantised):
        return
    stored = edit.const(np.ascontiguousarray(data.T), str(quantised.name), quantised.dtype)
    axis = p.axis if p.per_tensor else 1 - p.axis
    new = add_dequantise(edit, stored, Params(p.scale, p.zero, axis), before=node)
    edit.set_input(node, 1, new)
    edit.drop_attribute(node, transposed)
