# SPDX-License-Identifier: Apache-2.0
"""Quantisation parameters, and which operators keep their order or place on quantised values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import Array, array, attribute, constant, dtype_of, operand, shape_of
from aot.ir.operators import Moves, moved_places, operator_of, trait_of
from aot.ir.value_traits import Clamp

QUANTISE, DEQUANTISE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class Params:
    """How quantised values stand for numbers: (q - zero) * scale.

    `scale` float32 and `zero` int64 are scalars, or vectors along `axis` (-1 for scalars).
    """

    scale: Array
    zero: Array
    axis: int

    @property
    def per_tensor(self) -> bool:
        """Whether one scale holds for all quantised values."""
        return self.axis < 0

    def same(self, other: Params) -> bool:
        """Whether equal quantised values stand for equal numbers."""
        return (
            self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )

    def spread(self, rank: int) -> tuple[Array, Array]:
        """Scale and zero point, shaped to broadcast over quantised values of `rank`."""
        if self.per_tensor:
            return self.scale, self.zero
        shape = [1] * rank
        shape[self.axis] = self.scale.size
        return self.scale.reshape(shape), self.zero.reshape(shape)


def params_of(node: ir.Node | None, short: bool = False) -> Params | None:
    """The constant parameters of a QuantizeLinear or DequantizeLinear of float32 and integers.

    None for others: scales known at run time only, blocks, float8, half precision. With `short`
    float16 and bfloat16 are scales too, and become float32.
    """
    if node is None or len(node.inputs) < 3 or attribute(node, "block_size", 0):
        return None
    scale, zero = array(node.inputs[1]), array(node.inputs[2])
    if scale is None or zero is None or scale.ndim > 1:
        return None
    if short and scale.dtype.itemsize == 2:
        scale = scale.astype(np.float32)
    if scale.dtype != np.float32:
        return None
    if not is_quantised(quantised_value(node)):
        return None
    axis = -1 if scale.ndim == 0 else int(attribute(node, "axis", 1))
    return Params(scale, np.asarray(zero).astype(np.int64), axis)


def is_quantise(node: ir.Node | None) -> TypeGuard[ir.Node]:
    """Whether a node is ONNX's QuantizeLinear."""
    return node is not None and node.op_type == QUANTISE and not node.domain


def is_dequantise(node: ir.Node | None) -> TypeGuard[ir.Node]:
    """Whether a node is ONNX's DequantizeLinear."""
    return node is not None and node.op_type == DEQUANTISE and not node.domain


def quantised_value(node: ir.Node) -> ir.Value:
    """The integer side of a QuantizeLinear or DequantizeLinear."""
    return node.outputs[0] if is_quantise(node) else operand(node, 0)


def is_quantised(value: ir.Value | None) -> bool:
    """Whether the value has integers as elements (int4 to int32)."""
    kinds = ir.DataType
    return value is not None and value.dtype in (
        *(kinds.INT8, kinds.UINT8, kinds.INT16, kinds.UINT16),
        *(kinds.INT4, kinds.UINT4, kinds.INT32),
    )


def has_quantised_dtype(value: ir.Value) -> bool:
    """Whether the elements are integers of 8 or 16 bits, the types of quantised values; constants
    count, too.
    """
    kinds = ir.DataType
    return value.dtype in (kinds.INT8, kinds.UINT8, kinds.INT16, kinds.UINT16)


def is_byte(value: ir.Value) -> bool:
    """Whether the elements are integers of 8 bits."""
    return value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)


def limits(value: ir.Value) -> tuple[int, int]:
    """The smallest and the largest quantised value of the value's type."""
    bits, signed = dtype_of(value).bitwidth, dtype_of(value).is_signed()
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def dequantised(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear of known parameters that computes `value`."""
    node = producer(value, DEQUANTISE)
    return node if params_of(node) is not None else None


def is_weight(node: ir.Node) -> bool:
    """Whether a DequantizeLinear reads a constant."""
    return constant(node.inputs[0]) is not None


def to_quantised(x: Array, params: Params, bounds: tuple[int, int]) -> Array:
    """What QuantizeLinear gives for float32 `x`, as int64."""
    scale, zero = params.spread(x.ndim)
    with np.errstate(all="ignore"):
        scaled = np.rint((x.astype(np.float32) / scale).astype(np.float32))
        scaled = np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**40), 2.0**40)
    quantised: Array = np.clip(scaled.astype(np.int64) + zero, *bounds)
    return quantised


def to_reals(quantised: Array, params: Params) -> Array:
    """What DequantizeLinear gives, float32."""
    scale, zero = params.spread(quantised.ndim)
    numbers: Array = ((quantised.astype(np.int64) - zero).astype(np.float32) * scale).astype(
        np.float32
    )
    return numbers


def write_params(
    edit: Editor, params: Params, dtype: ir.DataType, hint: str
) -> list[ir.Value | None]:
    """Scale and zero point as constants; the zero point has the type of the quantised values."""
    zero = params.zero.astype(dtype.numpy())
    return [edit.const(params.scale, f"{hint}_scale"), edit.const(zero, f"{hint}_zero", dtype)]


def add_dequantise(edit: Editor, x: ir.Value, params: Params, *, before: ir.Node) -> ir.Value:
    """The numbers that quantised values `x` stand for."""
    axis = {} if params.per_tensor else {"axis": params.axis}
    inputs = [x, *write_params(edit, params, dtype_of(x), str(x.name))]
    shape, kind = shape_of(x), ir.DataType.FLOAT
    return edit.node(DEQUANTISE, inputs, axis, before=before, shape=shape, dtype=kind)


def add_quantise(
    edit: Editor, x: ir.Value, params: Params, dtype: ir.DataType, *, before: ir.Node
) -> ir.Value:
    """The result of a QuantizeLinear in front of `before`: values of `dtype` with `params` for
    numbers `x`.
    """
    axis = {} if params.per_tensor else {"axis": params.axis}
    inputs = [x, *write_params(edit, params, dtype, str(x.name))]
    return edit.node(QUANTISE, inputs, axis, before=before, shape=shape_of(x), dtype=dtype)


def moved_inputs(node: ir.Node) -> tuple[int, ...] | None:
    """The data inputs of a node that only moves or picks elements, else None.

    Such a node works on quantised values as on numbers: scales are positive.
    """
    trait = trait_of(node, Moves)
    if trait is None or len(node.outputs) != 1:
        return None
    return moved_places(node) or None


def fill_place(node: ir.Node) -> int | None:
    """The place of the operand whose number a mover puts in; None if it puts in none.

    The operand may be absent, which stands for 0.
    """
    trait, found = trait_of(node, Moves), operator_of(node)
    fills = trait is not None and str(attribute(node, "mode", "constant")) == "constant"
    if trait is None or found is None or not fills or not trait.fills:
        return None
    return found.names(len(found.operands)).index(trait.fills)


def moves_quantised(node: ir.Node, value: ir.Value) -> bool:
    """Whether ONNX and onnxruntime let this mover work on quantised values of the type of
    `value`."""
    return is_byte(value) if bytes_only(node) else has_quantised_dtype(value)


def bytes_only(node: ir.Node) -> bool:
    """Whether runtimes have this mover for integers of 8 bits only."""
    trait = trait_of(node, Moves)
    return trait is not None and trait.bytes_only


def shrinks(node: ir.Node) -> bool:
    """Whether elements that a mover reads may be missing in its result."""
    trait = trait_of(node, Moves)
    return trait is not None and trait.fewer


def is_sum(node: ir.Node) -> bool:
    """Whether a node adds two operands, among them perhaps the bias of a product."""
    return node.op_type == "Add" and not node.domain


def quantiser_after(value: ir.Value, *, bias: bool = False) -> ir.Node | None:
    """The QuantizeLinear that alone reads `value`, past one constant Add (with `bias`) and one
    clamp."""
    node = single_use(value)
    if bias and node is not None and is_sum(node):
        node = single_use(node.outputs[0]) if _adds_constant(node) else None
    if node is not None and trait_of(node, Clamp) is not None:
        node = single_use(node.outputs[0]) if node.inputs[0] is not None else None
    if not is_quantise(node) or params_of(node) is None:
        return None
    return node


def _adds_constant(node: ir.Node) -> bool:
    """Whether an operand of `node` is constant, or a dequantised constant."""
    for value in node.inputs:
        made = producer(value, DEQUANTISE)
        if array(value) is not None or (made is not None and is_weight(made)):
            return True
    return False
