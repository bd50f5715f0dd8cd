# SPDX-License-Identifier: Apache-2.0
"""Operators that only move or pick elements work on quantised values.

Before: q = QuantizeLinear(MaxPool(Reshape(DequantizeLinear(x, s, z))), s, z)
After:  q = MaxPool(Reshape(x))
DequantizeLinear sinks below such operators where all their data come from equal parameters,
QuantizeLinear rises above them, and the two cancel where they meet with equal parameters. Padding
with a constant and Concat take part where the constant, or every part, is a quantised value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import OFFSET_KEY, Array, array, attribute, dtype_of, operand, shape_of
from aot.ir.node_traits import is_view
from aot.ir.operators import Elementwise, trait_of
from aot.ir.value_traits import Compares
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    add_quantise,
    dequantised,
    fill_place,
    has_quantised_dtype,
    is_quantise,
    is_weight,
    limits,
    moved_inputs,
    moves_quantised,
    params_of,
    quantised_value,
    shrinks,
    to_quantised,
    to_reals,
)


def quant_moves(edit: Editor, options: LoadOptions) -> None:
    """Sink DequantizeLinear, raise QuantizeLinear, cancel pairs."""
    for node in edit.graph:
        if node.op_type == "GlobalMaxPool" or trait_of(node, Compares) is not None:
            _by_order(edit, node)
        elif moved_inputs(node) is not None:
            _sink(edit, node)
    for node in edit.graph:
        if is_quantise(node):
            _cancel(edit, node)
    for node in reversed(edit.graph):
        if is_quantise(node):
            _raise(edit, node)


def _cancel(edit: Editor, node: ir.Node) -> None:
    """Remove a QuantizeLinear of dequantised values of the same parameters and type."""
    source = dequantised(node.inputs[0])
    p, result = params_of(node), node.outputs[0]
    if source is None or p is None:
        return
    before, quantised = params_of(source), source.inputs[0]
    assert before is not None and quantised is not None
    if p.same(before) and quantised.dtype == result.dtype:
        edit.substitute(node, quantised)


def _sink(edit: Editor, node: ir.Node) -> None:
    """Make Move(DequantizeLinear(x)) DequantizeLinear(Move(x)) where all moved operands agree."""
    places = moved_inputs(node) or ()
    makers = [dequantised(node.inputs[i]) for i in places]
    first = makers[0] if makers else None
    if first is None:
        return
    p, quantised = params_of(first), first.inputs[0]
    assert p is not None and quantised is not None
    for maker in makers:
        found = params_of(maker)
        if maker is None or found is None or not found.same(p):
            return
        if quantised_value(maker).dtype != quantised.dtype:
            return
    # Weights may move even where the operator does not move quantised values: they are constants.
    if not moves_quantised(node, quantised) and not (is_weight(first) and len(makers) == 1):
        return
    moved = p if p.per_tensor else _moved_axis(node, p)
    if moved is None:
        return
    inputs = list(node.inputs)
    for place, maker in zip(places, makers, strict=True):
        assert maker is not None
        inputs[place] = maker.inputs[0]
    # Padding is a number, which must be one of the quantised values.
    if fill_place(node) is not None and not _pad_value(edit, node, inputs, p, quantised):
        return
    new = edit.again(node, inputs, before=node, dtype=quantised.dtype, hint=str(quantised.name))
    # The note on shifted codes follows the values.
    if OFFSET_KEY in quantised.metadata_props:
        new.metadata_props[OFFSET_KEY] = quantised.metadata_props[OFFSET_KEY]
    edit.substitute(node, add_dequantise(edit, new, moved, before=node))


def _moved_axis(node: ir.Node, params: Params) -> Params | None:
    """The parameters after a Transpose or Reshape that keeps their axis whole; None if it
    does not.
    """
    source = operand(node, 0)
    old, new = shape_of(source), shape_of(node.outputs[0])
    if node.op_type == "Transpose":
        perm: list[int] = [int(a) for a in attribute(node, "perm")]
        return Params(params.scale, params.zero, perm.index(params.axis))
    if trait_of(node, Elementwise) is not None and len(node.inputs) == 1:
        return params
    if not is_view(node):
        return None
    before = int(np.prod(old[: params.axis]))
    for axis, size in enumerate(new):
        if size == old[params.axis] and int(np.prod(new[:axis])) == before:
            return Params(params.scale, params.zero, axis)
    return None


def _pad_value(
    edit: Editor, node: ir.Node, inputs: list[ir.Value | None], params: Params, quantised: ir.Value
) -> bool:
    """Put the quantised value of a Pad's constant into `inputs`; False if no quantised value is
    exact.
    """
    number = _pad_number(node)
    if number is None or not params.per_tensor or quantised.dtype is None:
        return False
    fill = to_quantised(number, params, limits(quantised))
    if to_reals(fill, params) != number:
        return False
    _set_pad(edit, node, inputs, fill, quantised.dtype)
    return True


def _set_pad(
    edit: Editor, node: ir.Node, inputs: list[ir.Value | None], fill: Any, dtype: ir.DataType
) -> None:
    """Put `fill` as a constant of type `dtype` into the place in `inputs` of a Pad's constant."""
    place = fill_place(node) or 0
    inputs += [None] * (place + 1 - len(inputs))
    inputs[place] = edit.const(fill.astype(dtype.numpy()), f"{node.name}_code", dtype)


def _raise(edit: Editor, quantise: ir.Node) -> None:
    """Make QuantizeLinear(Move(x)) Move(QuantizeLinear(x))."""
    p, result = params_of(quantise), quantise.outputs[0]
    node = producer(quantise.inputs[0])
    places = None if node is None else moved_inputs(node)
    if node is None or places is None or p is None or not p.per_tensor:
        return
    if single_use(node.outputs[0]) is not quantise or not moves_quantised(node, result):
        return
    sources = [node.inputs[i] for i in places]
    if any(s is None for s in sources) or (_of_equal_parameters(sources) and not _odd_pad(node)):
        return
    # Quantising before a Slice whose operand others read, too, would be more work.
    if shrinks(node) and any(s and single_use(s) is not node for s in sources):
        return
    inputs = list(node.inputs)
    if fill_place(node) is not None and not _raised_pad(edit, node, inputs, p, result):
        return
    for place, source in zip(places, sources, strict=True):
        assert source is not None
        inputs[place] = add_quantise(edit, source, p, dtype_of(result), before=node)
    offset = result.metadata_props.get(OFFSET_KEY)
    for place in places if offset else ():
        value = inputs[place]
        assert value is not None and offset is not None
        value.metadata_props[OFFSET_KEY] = offset
    edit.replace(result, edit.again(node, inputs, before=node, dtype=dtype_of(result)))
    edit.remove(quantise, node)


def _of_equal_parameters(sources: Sequence[ir.Value | None]) -> bool:
    """Whether all are quantised values of one kind, so that their DequantizeLinear sinks
    instead."""
    makers = [dequantised(s) for s in sources]
    kinds = [params_of(m) for m in makers]
    if any(k is None for k in kinds):
        return False
    quantised = [m.inputs[0] for m in makers if m is not None]
    types = {c.dtype for c in quantised if c is not None}
    return len(types) == 1 and all(k and kinds[0] and k.same(kinds[0]) for k in kinds)


def _odd_pad(node: ir.Node) -> bool:
    """Whether dequantised values are padded with a number that none of the quantised values stands
    for."""
    source = dequantised(node.inputs[0])
    p, number = params_of(source), _pad_number(node)
    if source is None or p is None or number is None or not p.per_tensor:
        return False
    return bool(to_reals(to_quantised(number, p, limits(quantised_value(source))), p) != number)


def _pad_number(node: ir.Node) -> Array | None:
    """The float32 constant that is padded with, a scalar; None if there is none."""
    place = fill_place(node)
    if place is None:
        return None
    given = node.inputs[place] if len(node.inputs) > place else None
    data = np.zeros((), np.float32) if given is None else array(given)
    return None if data is None or data.size != 1 else data.reshape(()).astype(np.float32)


def _raised_pad(
    edit: Editor, node: ir.Node, inputs: list[ir.Value | None], params: Params, result: ir.Value
) -> bool:
    """Put the quantised constant of a Pad into `inputs`, rounded; False if it is not known."""
    number = _pad_number(node)
    if number is None or result.dtype is None:
        return False
    fill = to_quantised(number, params, limits(result))
    _set_pad(edit, node, inputs, fill, result.dtype)
    return True


def _by_order(edit: Editor, node: ir.Node) -> None:
    """Operators that compare: ArgMax of numbers is ArgMax of their quantised values, GlobalMaxPool
    is the ReduceMax over space."""
    source = dequantised(node.inputs[0])
    p = params_of(source)
    if source is None or p is None or not p.per_tensor:
        return
    quantised = source.inputs[0]
    if quantised is None or quantised.dtype is None or not has_quantised_dtype(quantised):
        return
    # Below the normal numbers two codes may stand for one float, so the order could differ.
    if quantised.dtype.bitwidth != 8 or p.scale < np.finfo(np.float32).tiny:
        return
    result, attributes = node.outputs[0], dict(node.attributes.items())
    shape = shape_of(result)
    if node.op_type != "GlobalMaxPool":
        kind = result.dtype
        new = edit.node(node.op_type, [quantised], attributes, before=node, shape=shape, dtype=kind)
    else:
        axes = edit.ints(range(2, len(shape)), f"{node.name}_axes")
        keep = {"keepdims": 1}
        pooled = edit.node("ReduceMax", [quantised, axes], keep, before=node, shape=shape)
        new = add_dequantise(edit, pooled, p, before=node)
    edit.substitute(node, new)
