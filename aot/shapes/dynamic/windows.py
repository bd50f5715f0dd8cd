# SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pools along dynamic axes.

The padding of a dynamic axis is filled with what the operator pads with. A window of
the result's size reads nothing else beyond the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SAME, attribute, dtype_of, graph_of, shape_of
from aot.ir.operators import Window, operand_names
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.rows import along, counted, drop_attribute, picked, within
from aot.shapes.dynamic.rules import BOOL_TYPE, needed, number_of, only_first, zero_point


def _padding(x: DynamicDims, node: ir.Node, data: ir.Value, trait: Window) -> Any:
    """What the window of `node` finds beyond the ends: a number or a value [1]."""
    if not isinstance(trait.padding, str):
        return number_of(data, trait.padding or 0)
    names = operand_names(node)
    if trait.padding not in names:
        return 0
    return zero_point(names.index(trait.padding))(x, node, data)


def spatial_attribute(node: ir.Node, name: str, rank: int, default: int) -> list[int]:
    """A list attribute of one number per axis of the window, all `default` if it is absent."""
    return [int(v) for v in attribute(node, name, None) or [default] * rank]


def _kernel(node: ir.Node, trait: Window) -> list[int]:
    found = attribute(node, "kernel_shape", None)
    if found or not trait.kernel:
        return [int(v) for v in found]
    return list(shape_of(needed(node, operand_names(node).index(trait.kernel)))[2:])


def windowed(x: DynamicDims, node: ir.Node, trait: Window) -> None:
    """Axes behind the channels have as many elements as windows; batches pass.

    Channels pass where each is computed alone; else they are mixed and must be known.
    """
    data = only_first(x, node)
    if 1 in x.run_sizes(data) and not trait.per_channel:
        raise refused(node, "has channels whose number is known at run time only")
    indices = len(node.outputs) > 1 and node.outputs[1].name
    if indices and set(x.run_sizes(data)) - {0}:
        raise refused(node, "gives indices along a dimension known at run time only")
    axes = _windowed(x, node, trait)
    x.sweep.type_outputs(node)
    for axis, n in axes.items():
        x.new(n, shape_of(node.outputs[0])[axis])
    for value in node.outputs:
        if value.name:
            x.set(value, axes)


def _windowed(x: DynamicDims, node: ir.Node, trait: Window) -> Axes:
    """Prepare the first input of a node; the dynamic axes of the result."""
    data, kernel = needed(node, 0), _kernel(node, trait)
    own, rank = x.run_sizes(data), len(kernel)
    axes = {a: n for a, n in own.items() if a < 2}
    inside = [a for a in own if a >= 2]
    strides = spatial_attribute(node, "strides", rank, 1)
    dilations = spatial_attribute(node, "dilations", rank, 1)
    pads = spatial_attribute(node, "pads", 2 * rank, 0)
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    # What a window reads behind the run's elements must count as its padding does.
    if inside:
        data = x.neutral(node, data, _padding(x, node, data, trait), inside)
    if auto in SAME and inside:
        data, pads = _same(x, node, data, spans, strides, auto, trait)
        drop_attribute(node, "auto_pad")
        Editor(graph_of(node)).set_attribute(node, "pads", pads)
        own = x.run_sizes(data)
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    for axis in inside:
        i = axis - 2
        ends = pads[i], pads[i + rank]
        ceil = bool(attribute(node, "ceil_mode", 0))
        axes[axis] = _count(x, node, own[axis], spans[i], strides[i], ends, ceil)
    node.replace_input_with(0, data)
    return axes


def _count(
    x: DynamicDims,
    node: ir.Node,
    value: ir.Value,
    span: int,
    stride: int,
    pads: tuple[int, int],
    ceil: bool,
) -> ir.Value:
    """The value that says how many windows an axis of `value` elements has.

    `span` is the reach of a window in elements, `pads` those in front and behind; `ceil` rounds up.
    """
    more = sum(pads) - span + stride + (stride - 1 if ceil else 0)
    total = x.add(node, value, x.ints(node, [more]))
    total = x.largest(node, total, x.ints(node, [0]))
    total = x.div(node, total, x.ints(node, [stride]))
    if not ceil:
        return total
    # None begins in the padding behind.
    starts = x.add(node, value, x.ints(node, [pads[0] - 1 + stride]))
    return x.smallest(node, total, x.div(node, starts, x.ints(node, [stride])))


def _same(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    spans: Sequence[int],
    strides: Sequence[int],
    auto: str,
    trait: Window,
) -> tuple[ir.Value, list[int]]:
    """(data, pads) that give ceil(n / stride) windows; data are moved where padding depends on n.

    `spans` are the reaches of a window in elements; pads are begins, then ends.
    """
    rank = len(spans)
    pads = [0] * (2 * rank)
    for i, (span, stride) in enumerate(zip(spans, strides, strict=True)):
        axis, size = i + 2, shape_of(data)[i + 2]
        if axis not in x.run_sizes(data) or stride == 1:
            total = max(0, (-(-size // stride) - 1) * stride + span - size)
            small, large = total // 2, total - total // 2
            ends = (small, large) if auto == "SAME_UPPER" else (large, small)
            pads[i], pads[i + rank] = ends
        else:
            data = _same_moved(x, node, data, axis, span, stride, auto == "SAME_UPPER", trait)
    return data, pads


def _same_moved(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    span: int,
    stride: int,
    upper: bool,
    trait: Window,
) -> ir.Value:
    """`data` with padding on `axis` built in: how much there is in front depends on the size of a
    run.
    """
    n, size = x.run_sizes(data)[axis], shape_of(data)[axis]
    # SAME: as many results as strides fit, and the padding that they need, both sizes of the run.
    up = x.add(node, n, x.ints(node, [stride - 1]))
    count = x.div(node, up, x.ints(node, [stride]))
    reach = x.mul(node, count, x.ints(node, [stride]))
    reach = x.add(node, reach, x.ints(node, [span - stride]))
    total = x.largest(node, x.sub(node, reach, n), x.ints(node, [0]))
    front = x.add(node, total, x.ints(node, [0 if upper else 1]))
    front = x.div(node, front, x.ints(node, [2]))
    bound = size + max(span - 1, 0)
    length = x.new(x.add(node, n, total), bound)
    at = x.sub(node, counted(x, node, bound), front)
    moved = picked(x, node, data, within(x, node, at, n, size), axis, length)
    # Elements in front of the data and behind it are padding.
    there = x.node(node, "GreaterOrEqual", [at, x.ints(node, [0])], [(BOOL_TYPE, (bound,))])[0]
    below = x.node(node, "Less", [at, n], [(BOOL_TYPE, (bound,))])[0]
    there = x.node(node, "And", [there, below], [(BOOL_TYPE, (bound,))])[0]
    there = along(x, node, there, len(shape_of(data)), axis, BOOL_TYPE)
    value = _padding(x, node, data, trait)
    if not hasattr(value, "producer"):
        value = x.const(node, np.full(1, value, dtype_of(data).numpy()), data)
    kind = [(int(data.dtype or 0), shape_of(moved))]
    made = x.node(node, "Where", [there, moved, value], kind)[0]
    x.set(made, x.run_sizes(moved))
    return made
