# SPDX-License-Identifier: Apache-2.0
"""Contradictions onnx's inference lets pass: sizes that do not fit, indices out of range."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import SAME, array, attribute, operand, shape_of
from aot.ir.node_traits import axes_of, kernel_place
from aot.ir.operators import Interface
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.operands import operands_fit
from aot.shapes.partial_values import PartialValues, lookup

Check = Callable[["ir.Node", PartialValues], str]
#: Why a node whose values are typed is wrong, "" if nothing is found: rules of `aot/ops`.
checks: Interface[Check] = Interface("checks")


def problem(node: ir.Node, partial_values: PartialValues) -> str:
    """Why a fully typed node is wrong, "" if nothing is found."""
    if reason := misfit(node, partial_values):
        return reason
    check = checks.of(node)
    return "" if check is None else check(node, partial_values)


def misfit(node: ir.Node, partial_values: PartialValues) -> str:
    """Why the operands of a node, whose results need not be typed, do not belong together."""
    rule = operands_fit.of(node)
    return "" if rule is None else rule(node, partial_values)


def axis_problem(node: ir.Node) -> str:
    """The reason why an axis of a node is none of its input's, "" if all are."""
    for name, rule, index in axes_of(node):
        value, axis = node.inputs[index], attribute(node, name)
        rank = 0 if value is None else len(shape_of(value))
        if rule.end or rule.idle or axis is None or (rank and -rank <= int(axis) < rank):
            continue
        # onnx's inference cuts an axis to 32 bits, and does not look at that of a normalisation.
        return f"{name} {axis} of a tensor of {rank} axes" if rank else ""
    return ""


def indices_within(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why constant indices are not within the axis that they count, "" if they are or
    vary.
    """
    axis = int(attribute(node, "axis", 0))
    data = shape_at(node, 0)
    index = array(node.inputs[1])
    if index is None:
        known = lookup(node.inputs[1], partial_values)
        index = known.data if known is not None and known.full else None
    if index is None or not index.size or not data:
        return ""
    size, low, high = data[axis], int(index.min()), int(index.max())
    if low < -size or high >= size:
        return f"index {low if low < -size else high} is outside axis {axis} of size {size}"
    return ""


def element_indices(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why indices of GatherElements or ScatterElements do not fit the data, "" if they
    do.
    """
    data, index = shape_at(node, 0), shape_at(node, 1)
    if len(index) != len(data):
        return f"indices {list(index)} have another rank than the data {list(data)}"
    axis = int(attribute(node, "axis", 0)) % max(len(data), 1)
    for i, (inner, outer) in enumerate(zip(index, data, strict=True)):
        if inner > outer and i != axis:
            return f"indices {list(index)} are longer than the data {list(data)} on axis {i}"
    if len(node.inputs) > 2 and shape_at(node, 2) != index:
        return (
            f"updates {list(shape_at(node, 2))} have another shape than the indices {list(index)}"
        )
    return indices_within(node, partial_values)


def possible_sizes(node: ir.Node, partial_values: PartialValues) -> str:
    """No number of a list is larger than any tensor."""
    known = lookup(node.inputs[1], partial_values) if len(node.inputs) > 1 else None
    for value in known.items() if known is not None else []:
        if value is not None and abs(value) > MAX_ELEMENTS:
            return f"{value} is beyond every possible size"
    return ""


def window_fits(node: ir.Node, partial_values: PartialValues) -> str:
    """A window lies within the padded input, or all agree that no place has it (docs/oracles.md).

    That is so where it is too large by exactly a stride, with `ceil_mode` by two strides less one;
    below that, onnx's inference rounds to one place and its reference to none; beyond that, the
    number of places is negative. With `ceil_mode` a window may hang over by less than a stride.
    """
    kernel = attribute(node, "kernel_shape") or shape_at(node, kernel_place(node) or 1)[2:]
    extents, rank = shape_at(node, 0)[2:], len(kernel)
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    if auto in SAME or len(extents) != rank:
        return ""
    strides = attribute(node, "strides") or [1] * rank
    up = bool(attribute(node, "ceil_mode", 0))
    pads = (attribute(node, "pads") if auto != "VALID" else None) or [0] * (2 * rank)
    steps = attribute(node, "dilations") or [1] * rank
    for i, (extent, taps) in enumerate(zip(extents, kernel, strict=True)):
        reach, room = (taps - 1) * steps[i] + 1, extent + pads[i] + pads[i + rank]
        over, slack = reach - room, strides[i] - 1 if up else 0
        if extent and over > slack and over != strides[i] + slack:
            return f"a window of {reach} does not fit {room} elements on axis {i + 2}"
    return ""


def window_holds(node: ir.Node) -> str:
    """The reason why a window may hold nothing but padding, "" if each holds an element."""
    kernel = [int(k) for k in attribute(node, "kernel_shape", None) or ()]
    pads = [int(p) for p in attribute(node, "pads", None) or ()]
    dilations = [int(d) for d in attribute(node, "dilations", None) or [1] * len(kernel)]
    if len(pads) != 2 * len(kernel) or len(dilations) != len(kernel):
        return ""
    for i, pad in enumerate(pads):
        axis = i % len(kernel)
        if pad > (kernel[axis] - 1) * dilations[axis]:
            return f"pads of {pad} and a kernel of {kernel[axis]}: windows of padding only"
    return ""


def shape_at(node: ir.Node, index: int) -> tuple[int, ...]:
    """The shape of an operand that is there."""
    value = operand(node, index)
    return shape_of(value)
