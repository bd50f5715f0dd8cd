# SPDX-License-Identifier: Apache-2.0
"""Constant folding within a budget.

Before: s = Shape(x); h = Gather(s, 2); y = Expand(c, h)      After: y is a constant
A result may add at most what is left of the budget to the model; a folding bomb stays unfolded,
and then fails like any tensor that is too big. Tensors of one repeated value cost no memory here
and have a budget of their own (the "light" test models keep all their weights in that form).
"""

from __future__ import annotations

from math import prod

from aot.errors import ModelError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, constant, dtype_of, shape_of, static_shape, title
from aot.ir.operators import operand_names, trait_of
from aot.ir.value_traits import Dequantises, Quantises
from aot.load.options import LoadOptions
from aot.shapes.evaluate import Invalid, evaluate, is_computable, reads_shape
from aot.shapes.reference import Unknown


class Budget:
    """Bytes constant folding may still add to the model."""

    def __init__(self, options: LoadOptions) -> None:
        """Take the limits of `options`, in bytes: `grown` is what constants may grow by, `uniform`
        what results of one repeated number may take.
        """
        self.grown, self.uniform = options.fold_bytes, options.uniform_bytes

    def take(self, added: int, uniform: bool) -> bool:
        """Whether a result `added` bytes bigger than its inputs fits; if so it is accounted."""
        if added <= 0:
            return True
        if uniform:
            if added <= self.uniform:
                self.uniform -= added
                return True
            return False
        if added <= self.grown:
            self.grown -= added
            return True
        return False


def fold(edit: Editor, budget: Budget) -> bool:
    """Replace nodes of constant result by constants."""
    for node in edit.graph:
        if _is_foldable(node):
            results = _results(node, budget)
            if results is not None:
                _substitute(edit, node, results)
    return edit.changed


def _is_foldable(node: ir.Node) -> bool:
    """Whether the value of `node` is known: its operands are constant, or it only reads a static
    shape.
    """
    if _scales_are_given(node) or not is_computable(node):
        return False
    # A constant that is an output needs a node, which is this one.
    if any(o.is_graph_output() for o in node.outputs) and node.op_type == "Identity":
        return False
    if reads_shape.of(node) is not None:
        return bool(node.inputs) and static_shape(node.inputs[0]) is not None  # type: ignore[arg-type]
    return bool(node.inputs) and all(i is None or constant(i) is not None for i in node.inputs)


def _scales_are_given(node: ir.Node) -> bool:
    """Whether a node quantises or dequantises by operands: folded, it would hide the integers from
    quantised kernels."""
    trait = trait_of(node, Quantises) or trait_of(node, Dequantises)
    return trait is not None and trait.scale in operand_names(node)


def _results(node: ir.Node, budget: Budget) -> list[Array] | None:
    """The values of a node's results as arrays; None if they are not known or too large for the
    budget.

    ModelError if the operator is invalid for these operands.
    """
    size = sum(_bytes(o) for o in node.outputs if o.name)
    source = sum(_bytes(i) for i in node.inputs if i is not None and len(i.uses()) == 1)
    if not budget.take(size - source, node.op_type == "ConstantOfShape"):
        return None
    try:
        if (rule := reads_shape.of(node)) is not None and node.inputs[0] is not None:
            return [rule(node, shape_of(node.inputs[0]))]
        return evaluate(node, [None if i is None else array(i) for i in node.inputs])
    except Unknown:
        return None
    except Invalid as e:
        raise ModelError(f"{title(node)}: {e}") from None


def _bytes(value: ir.Value) -> int:
    """The bytes of a value, 0 without a static shape."""
    shape = static_shape(value)
    bits = 64 if value.dtype is None else max(value.dtype.bitwidth, 1)
    return 0 if shape is None else (prod(shape) * bits + 7) // 8


def _substitute(edit: Editor, node: ir.Node, results: list[Array]) -> None:
    """Let readers of a node's results read constants, and remove the node."""
    for value, data in zip(node.outputs, results, strict=False):
        if not value.name:
            continue
        shape = shape_of(value)
        if data.dtype != dtype_of(value).numpy():
            data = data.astype(dtype_of(value).numpy())
        tensor = ir.Tensor(data.reshape(shape), dtype=dtype_of(value))
        new = edit.tensor(tensor, str(value.name))
        if value.is_graph_output():
            copy = edit.node("Identity", [new], before=node, shape=shape)
            edit.replace(value, copy)
        else:
            edit.replace(value, new)
    edit.remove(node)
