# SPDX-License-Identifier: Apache-2.0
"""Attributes resolved once: explicit windows, non-negative axes, no trailing absent inputs.

Before: y = Conv(x, w, "", auto_pad=SAME_UPPER)      After: y = Conv(x, w, kernel_shape=[3, 3],
        z = Softmax(y)                                      strides=[1, 1], pads=[1, 1, 1, 1], …)
                                                            z = Softmax(y, axis=3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SAME, array, attribute, shape_of, words
from aot.ir.operators import AxisOf, axes_of, kernel_place
from aot.load.options import LoadOptions
from aot.shapes.evaluate import slice_of

if TYPE_CHECKING:
    import onnx_ir as ir

# Operators whose constant input holds axes of input 0, and which input.
AXES_INPUT = {name: 1 for name in ("Squeeze", "CenterCropPad")} | {"Slice": 3, "Pad": 3}
REDUCTIONS = words(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
)
WINDOWED = words("Conv ConvInteger QLinearConv AveragePool MaxPool LpPool")


def attributes(edit: Editor, options: LoadOptions) -> None:
    """Bring every node's attributes and optional inputs to canonical form."""
    for node in edit.graph:
        _drop_absent(edit, node)
        for name, axis, index in axes_of(node):
            _axis(edit, node, name, axis, index)
        if node.domain:
            continue
        if node.op_type in AXES_INPUT:
            _axes_input(edit, node, AXES_INPUT[node.op_type])
        rule = RULES.get(node.op_type)
        if rule is not None:
            rule(edit, node)


def _drop_absent(edit: Editor, node: ir.Node) -> None:
    count = len(node.inputs)
    while count and node.inputs[count - 1] is None:
        count -= 1
    if count < len(node.inputs):
        node.resize_inputs(count)
        edit.changed = True


def _rank(node: ir.Node) -> int:
    assert node.inputs[0] is not None
    return len(shape_of(node.inputs[0]))


def _axis(edit: Editor, node: ir.Node, name: str, rule: AxisOf, index: int) -> None:
    axis, value = attribute(node, name, rule.default), node.inputs[index]
    if axis is not None and value is not None and (name in node.attributes or not rule.idle):
        rank = len(shape_of(value))
        edit.set_attribute(node, name, int(axis) + (rank if int(axis) < 0 else 0))


def _axes_input(edit: Editor, node: ir.Node, index: int) -> None:
    if len(node.inputs) <= index:
        return
    axes = array(node.inputs[index])
    if axes is not None and axes.size and axes.min() < 0:
        rank = _rank(node)
        fixed = [int(a) + rank if a < 0 else int(a) for a in axes.ravel()]
        edit.set_input(node, index, edit.ints(fixed, f"{node.name}_axes"))


#: What reductions of a single element are; ONNX's bodies of L2 and LogSumExp overflow before.
OF_ONE = {
    "ReduceL1": "Abs",
    "ReduceL2": "Abs",
    "ReduceLogSum": "Log",
    "ReduceLogSumExp": "Identity",
}


def _of_one(edit: Editor, node: ir.Node) -> None:
    """y = ReduceL2(x) over no axes      After: y = Abs(x)"""
    import onnx_ir as ir

    x, (y,) = node.inputs[0], node.outputs
    floats = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    assert x is not None
    if node.op_type in OF_ONE and x.dtype in floats:
        edit.replace(y, edit.node(OF_ONE[node.op_type], [x], before=node, shape=shape_of(x)))
        edit.remove(node)


def _reduction(edit: Editor, node: ir.Node) -> None:
    """Axes are a sorted, complete constant."""
    rank = _rank(node)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = array(given)
    if given is not None and axes is None:
        return
    if axes is None or not axes.size:
        if attribute(node, "noop_with_empty_axes", 0):
            _of_one(edit, node)
            return
        wanted = list(range(rank))
    else:
        wanted = sorted(int(a) + rank if a < 0 else int(a) for a in axes.ravel())
    if axes is None or axes.ravel().tolist() != wanted:
        edit.set_input(node, 1, edit.ints(wanted, f"{node.name}_axes"))
    edit.set_attribute(node, "keepdims", int(attribute(node, "keepdims", 1)))
    edit.drop_attribute(node, "noop_with_empty_axes")


def _window(edit: Editor, node: ir.Node) -> None:
    kernel = [int(k) for k in attribute(node, "kernel_shape") or _kernel(node)]
    rank = len(kernel)
    strides = [int(s) for s in attribute(node, "strides") or [1] * rank]
    dilations = [int(d) for d in attribute(node, "dilations") or [1] * rank]
    pads = [int(p) for p in attribute(node, "pads") or [0] * (2 * rank)]
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    if auto in SAME:
        assert node.inputs[0] is not None
        sizes = shape_of(node.inputs[0])[2:]
        pads = same_pads(sizes, kernel, strides, dilations, upper=auto == "SAME_UPPER")
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    edit.drop_attribute(node, "auto_pad")
    for name, value in (
        ("kernel_shape", kernel),
        ("strides", strides),
        ("dilations", dilations),
        ("pads", pads),
    ):
        edit.set_attribute(node, name, value)
    if "Conv" in node.op_type:
        edit.set_attribute(node, "group", int(attribute(node, "group", 1)))


def _kernel(node: ir.Node) -> list[int]:
    place = kernel_place(node)
    weights = None if place is None else node.inputs[place]
    assert weights is not None
    return list(shape_of(weights)[2:])


def same_pads(
    sizes: tuple[int, ...], kernel: list[int], strides: list[int], dilations: list[int], upper: bool
) -> list[int]:
    """ONNX pads (begins, then ends) that make the output ceil(size / stride)."""
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        begins.append(small if upper else total - small)
        ends.append(total - small if upper else small)
    return begins + ends


def _conv_transpose(edit: Editor, node: ir.Node) -> None:
    """auto_pad and output_shape become pads and output_padding."""
    assert node.inputs[0] is not None and node.inputs[1] is not None
    sizes, weights = shape_of(node.inputs[0])[2:], shape_of(node.inputs[1])
    result = shape_of(node.outputs[0])[2:]
    kernel, rank = list(weights[2:]), len(weights) - 2
    strides = [int(s) for s in attribute(node, "strides") or [1] * rank]
    dilations = [int(d) for d in attribute(node, "dilations") or [1] * rank]
    extra = [int(p) for p in attribute(node, "output_padding") or [0] * rank]
    pads = [int(p) for p in attribute(node, "pads") or [0] * (2 * rank)]
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    if auto == "VALID":
        pads = [0] * (2 * rank)
    if auto in SAME or attribute(node, "output_shape"):
        begins, ends = [], []
        for i in range(rank):
            full = strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = max(full - result[i], 0)
            half = total // 2
            begins.append(half if auto == "SAME_UPPER" else total - half)
            ends.append(total - begins[-1])
            extra[i] += max(result[i] - full, 0)
        pads = begins + ends
    for name in ("auto_pad", "output_shape"):
        edit.drop_attribute(node, name)
    for name, value in (
        ("kernel_shape", kernel),
        ("strides", strides),
        ("dilations", dilations),
        ("output_padding", extra),
        ("pads", pads),
    ):
        edit.set_attribute(node, name, value)
    edit.set_attribute(node, "group", int(attribute(node, "group", 1)))


def _transpose(edit: Editor, node: ir.Node) -> None:
    rank = _rank(node)
    edit.set_attribute(node, "perm", list(attribute(node, "perm") or range(rank)[::-1]))


def _slice(edit: Editor, node: ir.Node) -> None:
    """All of starts, ends, axes and steps given, within the tensor: ends are exclusive, a negative
    step's may be -1 - size (one before the first element)."""
    parts = [array(i) for i in node.inputs[1:]]
    if any(p is None and i is not None for p, i in zip(parts, node.inputs[1:], strict=True)):
        return

    starts, ends = parts[0], parts[1]
    assert starts is not None and ends is not None and node.inputs[0] is not None
    shape = shape_of(node.inputs[0])
    axes = parts[2] if len(parts) > 2 else None
    steps = parts[3] if len(parts) > 3 else None
    where = [int(a) for a in axes.ravel()] if axes is not None else list(range(starts.size))
    where = [a + len(shape) if a < 0 else a for a in where]
    by = [int(s) for s in steps.ravel()] if steps is not None else [1] * starts.size
    wanted: tuple[list[int], list[int]] = ([], [])
    for start, end, axis, step in zip(starts.ravel(), ends.ravel(), where, by, strict=True):
        piece = slice_of(int(start), int(end), step, shape[axis])
        wanted[0].append(piece.start)
        wanted[1].append(-1 - shape[axis] if piece.stop is None else piece.stop)
    for index, values in enumerate((*wanted, where, by)):
        old = parts[index] if index < len(parts) else None
        if old is None or old.ravel().tolist() != values or old.dtype != np.int64:
            name = ("starts", "ends", "axes", "steps")[index]
            edit.set_input(node, index + 1, edit.ints(values, f"{node.name}_{name}"))


def _layer_norm(edit: Editor, node: ir.Node) -> None:
    edit.set_attribute(node, "epsilon", float(attribute(node, "epsilon", 1e-5)))


RULES: dict[str, Callable[[Editor, ir.Node], None]] = {
    **dict.fromkeys(sorted(REDUCTIONS), _reduction),
    **dict.fromkeys(sorted(WINDOWED), _window),
    "ConvTranspose": _conv_transpose,
    "LayerNormalization": _layer_norm,
    "Slice": _slice,
    "Transpose": _transpose,
}
