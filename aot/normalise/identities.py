# SPDX-License-Identifier: Apache-2.0
"""Operators that hand their input on.

Before: a = Dropout(x); b = Cast(a, to=its own type); y = Relu(b)      After: y = Relu(x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.load.options import LoadOptions

if TYPE_CHECKING:
    import onnx_ir as ir


def identities(edit: Editor, options: LoadOptions) -> None:
    """Let readers of a pass-through node read its input."""
    for node in edit.graph:
        passes = None if node.domain else PASS_THROUGH.get(node.op_type)
        if passes is None or not node.inputs or node.inputs[0] is None:
            continue
        if any(is_used(o) for o in node.outputs[1:]) or not _same_type(node):
            continue
        if passes(node) and edit.replace(node.outputs[0], node.inputs[0]):
            edit.remove(node)


def _same_type(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    return (
        source is not None and source.dtype == result.dtype and shape_of(source) == shape_of(result)
    )


def _always(node: ir.Node) -> bool:
    return True


def _dropout(node: ir.Node) -> bool:
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is None:
        return True
    mode = array(training)
    return mode is not None and not bool(mode.ravel()[0])


def _zero_pads(node: ir.Node) -> bool:
    pads = array(node.inputs[1])
    return pads is not None and not pads.any()


def _alone(node: ir.Node) -> bool:
    return len(node.inputs) == 1


def _ones(node: ir.Node) -> bool:
    repeats = array(node.inputs[1])
    return repeats is not None and bool(np.all(repeats == 1))


def _in_order(node: ir.Node) -> bool:
    """A Transpose that moves no element: the axes longer than 1 stay in order."""
    assert node.inputs[0] is not None
    shape = shape_of(node.inputs[0])
    perm = attribute(node, "perm") or range(len(shape))[::-1]
    moved = [a for a in perm if shape[a] != 1]
    return moved == sorted(moved)


def _whole(node: ir.Node) -> bool:
    steps = array(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    return steps is None or bool(np.all(steps > 0))


def _neutral(value: float) -> Callable[[ir.Node], bool]:
    def test(node: ir.Node) -> bool:
        other = array(node.inputs[1])
        if other is None or other.size != 1:
            return False
        item = other.ravel()[0]
        # Adding +0.0 would turn -0.0 into +0.0; -0.0 changes nothing.
        signed = value != 0 or other.dtype.kind in "iu" or bool(np.signbit(item))
        return bool(item == value) and signed

    return test


PASS_THROUGH: dict[str, Callable[[ir.Node], bool]] = {
    "Identity": _always,
    "Dropout": _dropout,
    "Cast": _always,
    "CastLike": _always,
    "Reshape": _always,
    "Flatten": _always,
    "Squeeze": _always,
    "Unsqueeze": _always,
    "Expand": _always,
    "Transpose": _in_order,
    "Pad": _zero_pads,
    "Tile": _ones,
    "Slice": _whole,
    "Concat": _alone,
    "Sum": _alone,
    "Max": _alone,
    "Min": _alone,
    "Mean": _alone,
    "Mul": _neutral(1),
    "Div": _neutral(1),
    "Sub": lambda node: _plus_zero(node),
    "Split": lambda node: len(node.outputs) == 1,
}


def _plus_zero(node: ir.Node) -> bool:
    """x - 0.0 is x for every x, x - -0.0 is not."""
    other = array(node.inputs[1])
    if other is None or other.size != 1 or other.ravel()[0] != 0:
        return False
    return other.dtype.kind in "iu" or not bool(np.signbit(other.ravel()[0]))
