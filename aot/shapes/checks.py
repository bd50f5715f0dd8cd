# SPDX-License-Identifier: Apache-2.0
"""Contradictions onnx's inference lets pass: sizes that do not fit, indices out of range."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from aot.ir.graph_nodes import SAME, array, attribute, shape_of
from aot.ir.operators import axes_of
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.operands import OPERANDS
from aot.shapes.partial_values import Facts, lookup

if TYPE_CHECKING:
    import onnx_ir as ir

Check = Callable[["ir.Node", Facts], str]


def problem(node: ir.Node, facts: Facts) -> str:
    """Why a fully typed node is wrong, "" if nothing is found."""
    if reason := misfit(node, facts):
        return reason
    if node.domain:
        return ""
    check = CHECKS.get(node.op_type)
    return "" if check is None else check(node, facts)


def misfit(node: ir.Node, facts: Facts) -> str:
    """Why the operands of a node, whose results need not be typed, do not belong together."""
    fits = OPERANDS.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
    return "" if fits is None else fits(node, facts)


def axis_problem(node: ir.Node) -> str:
    """Why the axis of a node is none of its input's: onnx's inference does not survive some."""
    for name, rule, index in axes_of(node):
        value, axis = node.inputs[index], attribute(node, name)
        rank = 0 if value is None else len(shape_of(value))
        if rule.end or rule.idle or axis is None or (rank and -rank <= int(axis) < rank):
            continue
        # onnx's inference cuts an axis to 32 bits, and does not look at that of a normalisation.
        return f"{name} {axis} of a tensor of {rank} axes" if rank else ""
    return ""


def _same_count(node: ir.Node, facts: Facts) -> str:
    old, new = _shape(node, 0), shape_of(node.outputs[0])
    if prod(old) != prod(new):
        return f"cannot reshape {list(old)} to {list(new)}"
    return ""


def _indices(node: ir.Node, facts: Facts) -> str:
    axis = int(attribute(node, "axis", 0))
    data = _shape(node, 0)
    index = array(node.inputs[1])
    if index is None:
        known = lookup(node.inputs[1], facts)
        index = known.data if known is not None and known.full else None
    if index is None or not index.size or not data:
        return ""
    size, low, high = data[axis], int(index.min()), int(index.max())
    if low < -size or high >= size:
        return f"index {low if low < -size else high} is outside axis {axis} of size {size}"
    return ""


def _elements(node: ir.Node, facts: Facts) -> str:
    """The indices of GatherElements and ScatterElements lie within the data on the other axes."""
    data, index = _shape(node, 0), _shape(node, 1)
    if len(index) != len(data):
        return f"indices {list(index)} have another rank than the data {list(data)}"
    axis = int(attribute(node, "axis", 0)) % max(len(data), 1)
    for i, (inner, outer) in enumerate(zip(index, data, strict=True)):
        if inner > outer and i != axis:
            return f"indices {list(index)} are longer than the data {list(data)} on axis {i}"
    if len(node.inputs) > 2 and _shape(node, 2) != index:
        return f"updates {list(_shape(node, 2))} have another shape than the indices {list(index)}"
    return _indices(node, facts)


def _rows(node: ir.Node, facts: Facts) -> str:
    """The updates of ScatterND are what its indices point at."""
    data, index, updates = (_shape(node, i) for i in range(3))
    if not index or index[-1] > len(data):
        return f"indices {list(index)} point beyond the axes of the data {list(data)}"
    wanted = (*index[:-1], *data[index[-1] :])
    if updates != wanted:
        return f"updates {list(updates)} should be {list(wanted)}"
    return ""


def _repeats(node: ir.Node, facts: Facts) -> str:
    known = lookup(node.inputs[1], facts) if len(node.inputs) > 1 else None
    for value in known.items() if known is not None else []:
        if value is not None and abs(value) > MAX_ELEMENTS:
            return f"{value} is beyond every possible size"
    return ""


def _broadcast(node: ir.Node, facts: Facts) -> str:
    known = lookup(node.inputs[1], facts)
    if known is None or not known.full:
        return ""
    old, wanted = _shape(node, 0), [int(v) for v in known.data.ravel()]
    for a, b in zip(reversed(old), reversed(wanted), strict=False):
        if a != b and 1 not in (a, b):
            return f"cannot expand {list(old)} to {wanted}"
    return ""


def _steps(node: ir.Node, facts: Facts) -> str:
    known = lookup(node.inputs[4], facts) if len(node.inputs) > 4 else None
    return "step 0" if known is not None and 0 in known.items() else ""


def _window(node: ir.Node, facts: Facts) -> str:
    """A window lies within the padded input, or all agree that no place has it (docs/oracles.md).

    That is so where it is too large by exactly a stride, with `ceil_mode` by two strides less one;
    below that, onnx's inference rounds to one place and its reference to none; beyond that, the
    number of places is negative. With `ceil_mode` a window may hang over by less than a stride.
    """
    weights = 3 if node.op_type == "QLinearConv" else 1
    kernel = attribute(node, "kernel_shape") or _shape(node, weights)[2:]
    extents, rank = _shape(node, 0)[2:], len(kernel)
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


def _pool(node: ir.Node, facts: Facts) -> str:
    return _window(node, facts) or _padding(node)


def _padding(node: ir.Node) -> str:
    """A window has at least one element."""
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


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _recurrent(node: ir.Node, facts: Facts) -> str:
    """Weights, biases, lengths and states belong to the sequence and to each other."""
    clip = attribute(node, "clip", None)
    if clip is not None and not clip > 0:
        return f"clip {clip} (needs more than 0)"
    x, w, r = _shape(node, 0), _shape(node, 1), _shape(node, 2)
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        return f"operands {list(x)}, {list(w)}, {list(r)}: each needs three axes"
    first = bool(attribute(node, "layout", 0))
    batch, gates, hidden = x[0 if first else 1], GATES[node.op_type], r[2]
    both = str(attribute(node, "direction", "forward")) == "bidirectional"
    dirs = 2 if both else 1
    state = (batch, dirs, hidden) if first else (dirs, batch, hidden)
    wanted = {
        1: (dirs, gates * hidden, x[2]),
        2: (dirs, gates * hidden, hidden),
        3: (dirs, 2 * gates * hidden),
        4: (batch,),
        5: state,
        6: state,
        7: (dirs, 3 * hidden),
    }
    for index, shape in wanted.items():
        given = index < len(node.inputs) and node.inputs[index] is not None
        if given and _shape(node, index) != shape:
            return f"input {index} {list(_shape(node, index))} should be {list(shape)}"
    return ""


def _shape(node: ir.Node, index: int) -> tuple[int, ...]:
    value = node.inputs[index]
    assert value is not None
    return shape_of(value)


#: Operators whose `axis` is one of their first input's.
CHECKS: dict[str, Check] = {
    "Reshape": _same_count,
    "Gather": _indices,
    "GatherElements": _elements,
    "ScatterElements": _elements,
    "ScatterND": _rows,
    "Tile": _repeats,
    "Pad": _repeats,
    "Expand": _broadcast,
    "Slice": _steps,
    "Conv": _window,
    "ConvInteger": _window,
    "QLinearConv": _window,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
}
