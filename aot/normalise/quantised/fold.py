# SPDX-License-Identifier: Apache-2.0
"""Constant quantised values that only float operators read become float constants.

Before: y = MatMul(x float, DequantizeLinear(w int4, s[K/32, N], z, axis=0, block_size=32))
After:  y = MatMul(x, w' float)
Runs last, when it is settled which operators work on quantised values. Not folded, the numbers
would be computed again in every run, in memory of their own; so four times the constants is the
better price, within the budget of constant folding.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, single_use
from aot.ir.graph_nodes import Array, array, attribute, constant, element_total, shape_of
from aot.ir.node_traits import adds_bias, is_product
from aot.ir.operators import Interface, Linear, trait_of
from aot.ir.value_traits import Curve
from aot.normalise.fold import Budget
from aot.normalise.quantised.bias import plain_product, product_scale
from aot.normalise.quantised.common import (
    dequantised,
    is_byte,
    is_dequantise,
    is_quantise,
    is_quantised,
    is_sum,
    is_weight,
    params_of,
    quantised_value,
    quantiser_after,
    to_reals,
)
from aot.normalise.quantised.recurrent import is_recurrent_weight

#: How many elementwise operators may stand between the sums of a product and their quantised
#: values.
LONGEST = 7

#: Operators of two quantised values that portable C computes element by element.
combines: Interface[bool] = Interface("combines")


def fold_weights(edit: Editor, budget: Budget, sums: bool = False) -> bool:
    """Replace the constant quantised values no integer operator can use; whether there were any.

    With `sums` some backend has more convolutions than portable C whose sums are added to quantised
    values.
    """
    for node in edit.graph:
        if not is_dequantise(node) or constant(node.inputs[0]) is None:
            continue
        if not _is_kept(node, sums):
            _fold(edit, node, budget)
    return edit.changed


def _is_kept(node: ir.Node, sums: bool) -> bool:
    """Whether everyone who reads the numbers may be part of an integer operator."""
    uses = list(node.outputs[0].uses())
    if params_of(node) is None or node.outputs[0].is_graph_output() or not uses:
        return False
    return all(
        _is_integer(u.node, u.idx) or _is_added(u.node, u.idx, sums) or _is_activated(u.node, u.idx)
        for u in uses
    )


def _is_activated(reader: ir.Node, index: int) -> bool:
    """Whether a product of quantised values becomes quantised values behind a chain of elementwise
    operators.

    `reader` is the product, or the constant Add whose bias `index` is.
    """
    # The Add may lie between product and activation: then the product is the one before it.
    made = plain_product(reader.inputs[1 - index]) if is_sum(reader) else None
    product = made or reader
    if not _has_staged_sums(product):
        return False
    if product_scale(product) is None or (index == 2 and not _is_bias(reader.inputs[2])):
        return False
    last: ir.Value | None = _with_bias(product)
    # A chain that is longer, or has two readers, is not one call's epilogue.
    for _ in range(LONGEST):
        node = None if last is None else single_use(last)
        if node is None or node.domain:
            return False
        if is_quantise(node):
            three = (dequantised(product.inputs[0]), node, node)
            return params_of(node) is not None and _adds_sums(product, three)
        last = node.outputs[0] if _is_link(node, last) else None
    return False


def _has_staged_sums(product: ir.Node) -> bool:
    """Whether portable C computes sums of the product in stages: of windows and of rows."""
    trait = trait_of(product, Linear)
    return trait is not None and not trait.within_groups


def _with_bias(product: ir.Node) -> ir.Value:
    """The result of a product, past the Add of a MatMul's bias."""
    result = product.outputs[0]
    after = single_use(result)
    if adds_bias(product) or after is None or not is_sum(after):
        return result
    biased = any(_is_bias(v) or array(v) is not None for v in after.inputs)
    return after.outputs[0] if biased else result


def _is_link(node: ir.Node, value: ir.Value | None) -> bool:
    """Whether the other operands of an elementwise operator are single constants."""
    if trait_of(node, Curve) is None:
        return False
    others = [v for v in node.inputs if v is not None and v is not value]
    return all(array(v) is not None and element_total(v) == 1 for v in others)


def _is_added(reader: ir.Node, index: int, sums: bool) -> bool:
    """Whether a product of quantised values, past a constant Add, is added to quantised values
    before it becomes quantised values.

    `reader` is the product, or the constant Add whose bias `index` is.
    """
    made = plain_product(reader.inputs[1 - index]) if is_sum(reader) else None
    product = made or reader
    if not _has_staged_sums(product):
        return False
    before = _with_bias(product)
    total = single_use(before)
    if total is None or not is_sum(total) or product_scale(product) is None:
        return False
    other = dequantised(total.inputs[1] if total.inputs[0] is before else total.inputs[0])
    after = quantiser_after(total.outputs[0])
    if after is None or other is None or is_weight(other):
        return False
    return sums or _adds_sums(product, (dequantised(product.inputs[0]), other, after))


def _adds_sums(product: ir.Node, three: tuple[ir.Node | None, ir.Node, ir.Node]) -> bool:
    """Whether portable C adds these sums: 8-bit quantised values, one group, rows or images."""
    bytes_only = all(n is not None and is_byte(quantised_value(n)) for n in three)
    ranks = [len(shape_of(v)) for v in product.inputs[:2] if v is not None]
    trait = trait_of(product, Linear)
    if trait is None or not trait.groups:
        return bytes_only and ranks[1] == 2
    one = int(attribute(product, "group", 1)) == 1
    return bytes_only and one and ranks[0] in (3, 4)


def _is_integer(reader: ir.Node, index: int) -> bool:
    """Whether `reader` takes its operand `index` as integers, so that it must stay quantised."""
    if reader.domain:
        return False
    if is_recurrent_weight(reader, index):
        return True
    if is_product(reader) and product_scale(reader) is not None:
        return quantiser_after(reader.outputs[0], bias=True) is not None and (
            index < 2 or _is_bias(reader.inputs[2])
        )
    made = plain_product(reader.inputs[1 - index]) if is_sum(reader) else None
    if made is not None and product_scale(made) is not None:
        quantised = quantiser_after(reader.outputs[0]) is not None
        return quantised and _is_bias(reader.inputs[index])
    return combines.of(reader) is not None and _is_sum(reader, index)


def _is_sum(reader: ir.Node, index: int) -> bool:
    """Whether input `index` is several constants that 8-bit quantised values meet one by one."""
    other, after = dequantised(reader.inputs[1 - index]), quantiser_after(reader.outputs[0])
    constants = reader.inputs[index]
    if other is None or after is None or is_weight(other) or constants is None:
        return False
    bytes_only = all(is_byte(quantised_value(n)) for n in (other, after))
    return bytes_only and element_total(constants) > 1  # a single one is a step of a table


def _is_bias(value: ir.Value | None) -> bool:
    """Whether `value` is a dequantised constant of int32."""
    source = dequantised(value)
    quantised = None if source is None else array(source.inputs[0])
    return quantised is not None and quantised.dtype == np.int32


def _fold(edit: Editor, node: ir.Node, budget: Budget) -> None:
    """Replace the DequantizeLinear of a constant by the numbers it gives, if `budget` allows the
    bytes.
    """
    numbers, result = _numbers(node), node.outputs[0]
    if numbers is None or result.dtype is None or numbers.dtype != result.dtype.numpy():
        return
    tensor = constant(node.inputs[0])
    assert tensor is not None
    if not budget.take(numbers.nbytes - tensor.nbytes, uniform=False):
        return
    new = edit.const(numbers, str(result.name))
    if result.is_graph_output():
        new = edit.node("Identity", [new], before=node, shape=shape_of(result))
    edit.substitute(node, new)


def _numbers(node: ir.Node) -> Array | None:
    """The float32 numbers of a dequantised constant, by blocks, too; None unless its scales are
    constant.
    """
    quantised, p = array(node.inputs[0]), params_of(node)
    if quantised is None or not is_quantised(node.inputs[0]):
        return None
    if p is not None:
        return to_reals(quantised, p)
    scale, block = array(node.inputs[1]), int(attribute(node, "block_size", 0))
    if scale is None or scale.dtype != np.float32 or not block or scale.ndim != quantised.ndim:
        return None
    zero = array(node.inputs[2])
    axis, size = int(attribute(node, "axis", 1)), quantised.shape[int(attribute(node, "axis", 1))]
    # Blocks of one axis, written out: the last block may be shorter.
    wide = [
        np.repeat(a, block, axis).take(range(size), axis) for a in (scale, zero) if a is not None
    ]
    if len(wide) != 2 or wide[0].shape != quantised.shape or wide[1].shape != quantised.shape:
        return None
    # In int64: 8-bit differences do not fit their own type.
    difference = quantised.astype(np.int64) - wide[1].astype(np.int64)
    numbers: Array = (difference.astype(np.float32) * wide[0]).astype(np.float32)
    return numbers
