# SPDX-License-Identifier: Apache-2.0
"""The value of a node whose inputs are known, in NumPy; rarer operators by onnx.reference.

The modules of `aot/ops` say how: `evaluates` holds a rule per operator, `reads_shape` one of those
that read no elements; the rest of this file is what several rules share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array
from aot.ir.operators import Exact, Interface, trait_of
from aot.shapes.reference import Inputs, Unknown, by_reference, one_line, rounded, widened

Rule = Callable[["ir.Node", Inputs], list[Array]]

#: The values of a node's outputs for known inputs (None where absent). A rule raises Unknown where
#: it has no answer, ValueError where the operator has no result.
evaluates: Interface[Rule] = Interface("evaluate")

#: The value of a node that reads nothing but the shape of its first input, as Shape does.
reads_shape: Interface[Callable[[ir.Node, Sequence[int]], Array]] = Interface("reads_shape")


class Invalid(Exception):
    """The node is wrong for these inputs whatever the rest of the graph does."""


def evaluate(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The outputs of `node` for constant `inputs` (None where absent).

    Raises Unknown where there is no rule, Invalid where the operator has no result.
    """
    of_shape = reads_shape.of(node)
    if of_shape is not None:
        return [of_shape(node, need(inputs, 0).shape)]
    given, short = widened(node, inputs)
    rule = evaluates.of(node)
    if rule is None:
        return rounded(by_reference(node, given), short)
    with np.errstate(all="ignore"):
        try:
            return rounded([np.asarray(a) for a in rule(node, given)], short)
        except (ValueError, IndexError, OverflowError, np.exceptions.AxisError) as e:
            raise Invalid(one_line(e)) from None


def is_computable(node: ir.Node) -> bool:
    """Whether `evaluate` has a rule for the operator, or trusts onnx.reference with it."""
    if evaluates.of(node) is not None or reads_shape.of(node) is not None:
        return True
    return not node.domain and trait_of(node, Exact) is not None


# -- parts of rules ----------------------------------------------------------------------------


def need(inputs: Inputs, index: int) -> Array:
    """Input `index`; raises Unknown if it is absent."""
    found = optional(inputs, index)
    if found is None:
        raise Unknown
    return found


def optional(inputs: Inputs, index: int) -> Array | None:
    """Input `index`, None if it is absent."""
    return inputs[index] if index < len(inputs) else None


def integers(array: Array | None) -> list[int]:
    """The elements in order; none of an absent input."""
    return [] if array is None else [int(v) for v in np.ravel(array)]


def elementwise(function: Callable[..., Any], kind: type[np.bool_] | None = None) -> Rule:
    """The rule of a NumPy function of all inputs.

    The result has the type of the first input, or `kind`.
    """

    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        """The result of the function for all operands, in type `kind` or that of the first
        operand.
        """
        operands = [need(inputs, i) for i in range(len(inputs))]
        return [np.asarray(function(*operands)).astype(kind or operands[0].dtype, copy=False)]

    return rule


def slice_of(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's (start, end, step) on an axis of `size` as a Python slice; Invalid for step 0."""
    if step == 0:
        raise Invalid("a step is 0")
    if step > 0:
        first = min(max(start + size if start < 0 else start, 0), size)
        last = min(max(end + size if end < 0 else end, 0), size)
        return slice(first, last, step)
    if size == 0:
        return slice(0, 0)
    first = min(max(start + size if start < 0 else start, 0), size - 1)
    last = min(max(end + size if end < 0 else end, -1), size - 1)
    return slice(first, None if last < 0 else last, step)
