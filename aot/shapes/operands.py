# SPDX-License-Identifier: Apache-2.0
"""Operands that belong to each other by ONNX's text, and that its inference does not compare.

Kernels read as many elements as the shapes of others say: a bias of one element beside eight
channels would be read behind its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, shape_of
from aot.ir.operators import Interface
from aot.shapes.partial_values import PartialValues

Shape = tuple[int, ...]
Fits = Callable[["ir.Node", PartialValues], str]
#: Why the operands of an operator do not belong together, "" if they do: rules of `aot/ops`.
operands_fit: Interface[Fits] = Interface("operands_fit")


def operand_shape(node: ir.Node, index: int) -> Shape | None:
    """The shape of an operand, None if there is none."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else shape_of(value)


def wrong(name: str, found: Shape | None, *wanted: Shape) -> str:
    """What to say of an operand that is there and has none of these shapes."""
    if found is None or found in wanted:
        return ""
    return f"{name} {list(found)} should be {' or '.join(str(list(w)) for w in wanted)}"


def repeats(name: str, found: Shape | None, to: Shape) -> str:
    """What to say of an operand that does not repeat to a shape as it is."""
    if found is None or (len(found) <= len(to) and repeats_along(found, to)):
        return ""
    return f"{name} {list(found)} does not repeat to {list(to)}"


def repeats_along(found: Shape, to: Shape) -> bool:
    """Whether the last sizes are 1 or those of a shape."""
    return all(a in (1, b) for a, b in zip(reversed(found), reversed(to), strict=False))


def without_ones(shape: Shape) -> Shape:
    """A shape from its first size other than 1 on."""
    return shape[next((i for i, n in enumerate(shape) if n != 1), len(shape)) :]


def first(*reasons: str) -> str:
    """The first of the reasons that says something."""
    return next((r for r in reasons if r), "")


def ungrouped(node: ir.Node, weights: int, transposed: bool = False) -> str:
    """The reason why weights of a convolution do not fit its input and group, "" if they do."""
    x, w, group = (
        operand_shape(node, 0),
        operand_shape(node, weights),
        int(attribute(node, "group", 1)),
    )
    if x is None or w is None or len(w) != len(x) or len(x) < 3:
        return f"weights {list(w or ())} for {list(x or ())}"
    inputs = w[0] if transposed else w[1] * group
    if group < 1 or w[0] % group or inputs != x[1]:
        return f"group {group} does not fit {x[1]} input channels and weights {list(w)}"
    return ""


def convolved(weights: int, bias: int, points: Mapping[int, str]) -> Fits:
    """A convolution: `points` are zero points and scales, per tensor or output channel."""

    def check(node: ir.Node, partial_values: PartialValues) -> str:
        """The reason why weights, bias or points have a shape that does not fit, "" if all fit."""
        w = operand_shape(node, weights) or ()
        if reason := ungrouped(node, weights):
            return reason
        each: tuple[Shape, ...] = ((), (1,))
        reasons = [
            # Weights alone may have parameters for each output channel.
            wrong(
                name, operand_shape(node, i), *each, *([(w[0],)] if name.startswith("w_") else [])
            )
            for i, name in points.items()
        ]
        return first(*reasons, wrong("bias", operand_shape(node, bias), (w[0],)) if bias else "")

    return check


def channels(least: int, *names: str) -> Fits:
    """Operands with an element per channel, behind an input of at least so many axes."""

    def check(node: ir.Node, partial_values: PartialValues) -> str:
        """The reason why an operand does not have an element per channel of input 0, "" if all
        have.
        """
        x = operand_shape(node, 0)
        if x is None or len(x) < least:
            return f"an input {list(x or ())} (needs {least} axes or more)"
        found = (wrong(n, operand_shape(node, i), (x[1],)) for i, n in enumerate(names, 1))
        return first(*found)

    return check


def one(index: int, name: str) -> Fits:
    """An operand that is one number."""

    def check(node: ir.Node, partial_values: PartialValues) -> str:
        """The reason why the operand has not one element, "" if it has or is absent."""
        found = operand_shape(node, index)
        return "" if found is None or prod(found) == 1 else f"{name} {list(found)} is not one"

    return check


def lists(*operands: tuple[int, str], scalar: bool = False) -> Fits:
    """Operands that list numbers have one axis; a `scalar` is a list of one, where others agree."""

    def check(node: ir.Node, partial_values: PartialValues) -> str:
        """The reason why an operand is no list of numbers, "" if all are."""
        for index, name in operands:
            found = operand_shape(node, index)
            if found is not None and len(found) != 1 and not (scalar and found == ()):
                return f"{name} {list(found)} should be a list, of one axis"
        return ""

    return check


def ranked(least: int) -> Fits:
    """An input of at least so many axes."""

    def check(node: ir.Node, partial_values: PartialValues) -> str:
        """The reason why input 0 has too few axes, "" if it has enough."""
        x = operand_shape(node, 0) or ()
        return "" if len(x) >= least else f"an input {list(x)} (needs {least} axes or more)"

    return check


POINTS = {1: "x_scale", 2: "x_zero_point", 4: "w_scale", 5: "w_zero_point"}
