# SPDX-License-Identifier: Apache-2.0
"""Operators that move or pick elements stand between 16-bit quantised values of equal parameters.

Before: y = QuantizeLinear(Max(DequantizeLinear(a, s), DequantizeLinear(b, t)), u)
After:  y = QuantizeLinear(Max(DequantizeLinear(a', u), DequantizeLinear(b', u)), u)
with a' the quantised values of a rescaled to u. No element changes: moving and choosing by order
commute with rounding. 8-bit quantised values go through these operators as they are (moves.py);
runtimes do not have them for 16 bits, so here the conversions stay and patterns take all of it as
moves of quantised values.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, dtype_of, shape_of
from aot.ir.operators import Interface, trait_of
from aot.ir.value_traits import Clamp
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    add_quantise,
    bytes_only,
    dequantised,
    fill_place,
    has_quantised_dtype,
    is_byte,
    is_quantise,
    limits,
    moved_inputs,
    params_of,
    quantised_value,
    shrinks,
    to_quantised,
    to_reals,
)

#: Operators whose kernels of quantised values rescale by themselves.
rescales: Interface[bool] = Interface("rescales")


def quant_wide(edit: Editor, options: LoadOptions) -> None:
    """Surround movers of 16-bit quantised values with equal parameters."""
    for node in edit.graph:
        if _is_mover(node):
            _after(edit, node)
    for node in reversed(edit.graph):
        if is_quantise(node):
            _before(edit, node)


def _is_mover(node: ir.Node) -> bool:
    return bytes_only(node) and moved_inputs(node) is not None


def _is_wide(value: ir.Value) -> bool:
    """Whether the elements of `value` are 16-bit integers (int16, uint16); constants count, too."""
    return has_quantised_dtype(value) and not is_byte(value)


def _kind(value: ir.Value | None) -> tuple[Params, ir.DataType] | None:
    """Parameters and type of the 16-bit quantised values that the numbers `value` were."""
    source = dequantised(value)
    p = params_of(source)
    if source is None or p is None or not p.per_tensor or not _is_wide(quantised_value(source)):
        return None
    dtype = quantised_value(source).dtype
    return None if dtype is None else (p, dtype)


def _same(a: tuple[Params, ir.DataType] | None, b: tuple[Params, ir.DataType]) -> bool:
    return a is not None and a[1] == b[1] and a[0].same(b[0])


def _constants(node: ir.Node) -> list[ir.Value]:
    """Constants among the numbers a mover may pick."""
    places = [*(moved_inputs(node) or ()), fill_place(node)]
    given = [node.inputs[i] for i in places if i is not None and i < len(node.inputs)]
    return [v for v in given if v is not None and array(v) is not None]


def _common_quantisation(node: ir.Node) -> tuple[Params, ir.DataType] | None:
    """Parameters and type of the quantised values that are all of the mover's data; None if they
    differ."""
    constants = _constants(node)
    sources = [node.inputs[i] for i in moved_inputs(node) or ()]
    kinds = [_kind(s) for s in sources if not _is_among(s, constants)]
    first = kinds[0] if kinds else None
    if first is None or not all(_same(k, first) for k in kinds):
        return None
    source = next(dequantised(s) for s in sources if not _is_among(s, constants))
    assert source is not None
    ends = limits(quantised_value(source))
    for value in constants:
        data = array(value)
        if data is None or data.dtype != np.float32:
            return None
        # A constant goes through quantisation unchanged only if it lies on the steps of the scale.
        if not np.array_equal(to_reals(to_quantised(data, first[0], ends), first[0]), data):
            return None
    return first


def _after(edit: Editor, node: ir.Node) -> None:
    """Quantise and dequantise a node's result like its operands, which all have one kind of 16
    bits.
    """
    result, kind = node.outputs[0], _common_quantisation(node)
    if kind is None or not result.uses():
        return
    reader = _quantiser(result)
    # A reader that quantises in another way does the rounding itself.
    if reader is not None and (rescales.of(node) or _same(_made(reader), kind)):
        return
    p, dtype = kind
    shape, attributes = shape_of(result), dict(node.attributes.items())
    made = edit.node(
        node.op_type,
        list(node.inputs),
        attributes,
        before=node,
        shape=shape,
        dtype=dtype_of(result),
    )
    quantised = add_quantise(edit, made, p, dtype, before=node)
    edit.substitute(node, add_dequantise(edit, quantised, p, before=node))


def _quantiser(value: ir.Value | None) -> ir.Node | None:
    """The QuantizeLinear to 16-bit quantised values that alone reads `value`."""
    node = None if value is None else single_use(value)
    if not is_quantise(node) or _made(node) is None:
        return None
    return node


def _made(quantise: ir.Node) -> tuple[Params, ir.DataType] | None:
    """Parameters and type of the 16-bit quantised values that a QuantizeLinear makes."""
    p, quantised = params_of(quantise), quantise.outputs[0]
    if p is None or not p.per_tensor or not _is_wide(quantised) or quantised.dtype is None:
        return None
    return p, quantised.dtype


def _before(edit: Editor, quantise: ir.Node) -> None:
    """Quantise and dequantise the operands of a node that moves elements like its quantised
    result.
    """
    kind, node = _made(quantise), producer(quantise.inputs[0])
    if kind is None or node is None or _quantiser(node.outputs[0]) is not quantise:
        return
    if trait_of(node, Clamp) is not None:
        _through(edit, node, 0, kind)
        return
    if not _is_mover(node) or _common_quantisation(node) is not None:
        return
    constants = _constants(node)
    places = [i for i in moved_inputs(node) or () if not _is_among(node.inputs[i], constants)]
    sources = [node.inputs[i] for i in places]
    if shrinks(node) and any(s and single_use(s) is not node for s in sources):
        return
    for place in places:
        _into(edit, node, place, kind)


def _is_among(value: ir.Value | None, values: list[ir.Value]) -> bool:
    return any(value is v for v in values)


def _through(edit: Editor, clamp: ir.Node, place: int, kind: tuple[Params, ir.DataType]) -> None:
    """Quantised values between a mover and a clamp: rounding commutes with clamping too."""
    node = producer(clamp.inputs[0])
    known = all(v is None or array(v) is not None for v in clamp.inputs[1:])
    if node is None or not known or not _is_mover(node) or rescales.of(node):
        return
    if single_use(node.outputs[0]) is clamp and _common_quantisation(node) is None:
        _into(edit, clamp, place, kind)


def _into(edit: Editor, node: ir.Node, place: int, kind: tuple[Params, ir.DataType]) -> None:
    """Quantise and dequantise input `place` of `node` with parameters and type `kind`, unless it is
    that.
    """
    source = node.inputs[place]
    if source is None or _same(_kind(source), kind):
        return
    if rescales.of(node) and _kind(source) is not None:
        return
    p, dtype = kind
    quantised = add_quantise(edit, source, p, dtype, before=node)
    edit.set_input(node, place, add_dequantise(edit, quantised, p, before=node))
