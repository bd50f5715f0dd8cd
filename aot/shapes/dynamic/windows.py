# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and their like along dynamic axes.

The tail of an axis is made what padding is: zeros, the lowest number, the zero point. A window of
the result's extent reads nothing else beyond the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SAME, attribute, shape_of
from aot.ir.operators import Window, operand_names
from aot.shapes.dynamic.data_dependent import BOOL, given, needed, number_of
from aot.shapes.dynamic.equality_constraints import agreed, fitted
from aot.shapes.dynamic.extents import Axes, Extents, refused
from aot.shapes.dynamic.pad_tile_split import along, counted, drop_attribute, picked, within

if TYPE_CHECKING:
    import onnx_ir as ir


def zero_point(index: int) -> Callable[[Extents, ir.Node, ir.Value], Any]:
    """Padding of integer products: input `index` holds the code of 0."""

    def fill(x: Extents, node: ir.Node, data: ir.Value) -> Any:
        code = given(node, index)
        if code is None:
            return 0
        where = x.ints(node, [1])
        return x.node(node, "Reshape", [code, where], [(int(code.dtype or 0), (1,))])[0]

    return fill


def _padding(x: Extents, node: ir.Node, data: ir.Value, trait: Window) -> Any:
    """What the window of `node` finds beyond the ends: a number or a value [1]."""
    if not isinstance(trait.padding, str):
        return number_of(data, trait.padding or 0)
    names = operand_names(node)
    if trait.padding not in names:
        return 0
    return zero_point(names.index(trait.padding))(x, node, data)


def only_first(x: Extents, node: ir.Node, what: str = "runs along") -> ir.Value:
    """The first input, the only one that may have dynamic axes."""
    if any(x.of(i) for i in node.inputs[1:]):
        raise refused(node, f"{what} a dimension known at run time only")
    return needed(node, 0)


def _spatial(node: ir.Node, name: str, rank: int, default: int) -> list[int]:
    return [int(v) for v in attribute(node, name, None) or [default] * rank]


def _kernel(node: ir.Node, trait: Window) -> list[int]:
    found = attribute(node, "kernel_shape", None)
    if found or not trait.kernel:
        return [int(v) for v in found]
    return list(shape_of(needed(node, operand_names(node).index(trait.kernel)))[2:])


def windowed(x: Extents, node: ir.Node, trait: Window) -> None:
    """Axes behind the channels have as many elements as windows; batches pass.

    Channels pass where each is computed alone; else they are mixed and must be known.
    """
    data = only_first(x, node)
    if 1 in x.of(data) and not trait.per_channel:
        raise refused(node, "has channels whose number is known at run time only")
    indices = len(node.outputs) > 1 and node.outputs[1].name
    if indices and set(x.of(data)) - {0}:
        raise refused(node, "gives indices along a dimension known at run time only")
    axes = _windowed(x, node, trait)
    x.sweep.type_outputs(node)
    for axis, n in axes.items():
        x.new(n, shape_of(node.outputs[0])[axis])
    for value in node.outputs:
        if value.name:
            x.set(value, axes)


def _windowed(x: Extents, node: ir.Node, trait: Window) -> Axes:
    """Prepare the first input of a node; the dynamic axes of the result."""
    data, kernel = needed(node, 0), _kernel(node, trait)
    own, rank = x.of(data), len(kernel)
    axes = {a: n for a, n in own.items() if a < 2}
    inside = [a for a in own if a >= 2]
    strides = _spatial(node, "strides", rank, 1)
    dilations = _spatial(node, "dilations", rank, 1)
    pads = _spatial(node, "pads", 2 * rank, 0)
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if inside:
        data = x.neutral(node, data, _padding(x, node, data, trait), inside)
    if auto in SAME and inside:
        data, pads = _same(x, node, data, spans, strides, auto, trait)
        drop_attribute(node, "auto_pad")
        assert node.graph is not None
        Editor(node.graph).set_attribute(node, "pads", pads)
        own = x.of(data)
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
    x: Extents,
    node: ir.Node,
    n: ir.Value,
    span: int,
    stride: int,
    pads: tuple[int, int],
    ceil: bool,
) -> ir.Value:
    """How many windows an axis of `n` elements has."""
    more = sum(pads) - span + stride + (stride - 1 if ceil else 0)
    total = x.vector(node, "Add", n, x.ints(node, [more]))
    total = x.vector(node, "Max", total, x.ints(node, [0]))
    total = x.vector(node, "Div", total, x.ints(node, [stride]))
    if not ceil:
        return total
    # None begins in the padding behind.
    starts = x.vector(node, "Add", n, x.ints(node, [pads[0] - 1 + stride]))
    return x.vector(node, "Min", total, x.vector(node, "Div", starts, x.ints(node, [stride])))


def _same(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    spans: Sequence[int],
    strides: Sequence[int],
    auto: str,
    trait: Window,
) -> tuple[ir.Value, list[int]]:
    """Padding that gives ceil(n / stride) windows: `data`, moved where it depends on n; pads."""
    rank = len(spans)
    pads = [0] * (2 * rank)
    for i, (span, stride) in enumerate(zip(spans, strides, strict=True)):
        axis, size = i + 2, shape_of(data)[i + 2]
        if axis not in x.of(data) or stride == 1:
            total = max(0, (-(-size // stride) - 1) * stride + span - size)
            small, large = total // 2, total - total // 2
            ends = (small, large) if auto == "SAME_UPPER" else (large, small)
            pads[i], pads[i + rank] = ends
        else:
            data = _same_moved(x, node, data, axis, span, stride, auto == "SAME_UPPER", trait)
    return data, pads


def _same_moved(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    span: int,
    stride: int,
    upper: bool,
    trait: Window,
) -> ir.Value:
    """`data` with its padding: how much there is in front depends on the extent."""
    n, size = x.of(data)[axis], shape_of(data)[axis]
    up = x.vector(node, "Add", n, x.ints(node, [stride - 1]))
    count = x.vector(node, "Div", up, x.ints(node, [stride]))
    reach = x.vector(node, "Mul", count, x.ints(node, [stride]))
    reach = x.vector(node, "Add", reach, x.ints(node, [span - stride]))
    total = x.vector(node, "Max", x.vector(node, "Sub", reach, n), x.ints(node, [0]))
    front = x.vector(node, "Add", total, x.ints(node, [0 if upper else 1]))
    front = x.vector(node, "Div", front, x.ints(node, [2]))
    bound = size + max(span - 1, 0)
    length = x.new(x.vector(node, "Add", n, total), bound)
    at = x.vector(node, "Sub", counted(x, node, bound), front)
    moved = picked(x, node, data, within(x, node, at, n, size), axis, length)
    there = x.node(node, "GreaterOrEqual", [at, x.ints(node, [0])], [(BOOL, (bound,))])[0]
    below = x.node(node, "Less", [at, n], [(BOOL, (bound,))])[0]
    there = x.node(node, "And", [there, below], [(BOOL, (bound,))])[0]
    there = along(x, node, there, len(shape_of(data)), axis, BOOL)
    value = _padding(x, node, data, trait)
    if not hasattr(value, "producer"):
        assert data.dtype is not None
        value = x.const(node, np.full(1, value, data.dtype.numpy()), data)
    kind = [(int(data.dtype or 0), shape_of(moved))]
    made = x.node(node, "Where", [there, moved, value], kind)[0]
    x.set(made, x.of(moved))
    return made


#: The window of an AveragePool that counts the padding.
COUNTED = Window("x", per_channel=True)


def average(x: Extents, node: ir.Node) -> None:
    """AveragePool: of the elements, by that of ones where there are elements."""
    data = only_first(x, node)
    own = x.of(data)
    inside = [a for a in own if a >= 2]
    counts = bool(attribute(node, "count_include_pad", 0))
    same = str(attribute(node, "auto_pad", "NOTSET")) in SAME
    padded = same or any(attribute(node, "pads", None) or [])
    ceil = bool(attribute(node, "ceil_mode", 0))
    if counts and ceil and padded and inside:
        raise refused(node, "counts padding in windows that end beyond it (ceil_mode)")
    if (counts and not ceil) or not inside:
        windowed(x, node, COUNTED)
        return
    shape = shape_of(data)
    assert data.dtype is not None
    ones = x.const(node, np.ones((1, 1, *shape[2:]), data.dtype.numpy()), data)
    kind = [(int(data.dtype), (1, 1, *shape[2:]))]
    ones = x.node(node, "Identity", [ones], kind)[0]
    x.set(ones, {a: own[a] for a in inside})
    how = {k: v.value for k, v in node.attributes.items()} | {"count_include_pad": 1}
    parts: list[ir.Value] = []
    for source in (data, ones):
        made = x.node(node, "AveragePool", [source], [None], **how)[0]
        made.name = f"{node.outputs[0].name} part {len(parts)}"
        maker = made.producer()
        assert maker is not None
        made.type = data.type
        windowed(x, maker, COUNTED)
        parts.append(made)
    axes = x.of(parts[0])
    y = x.node(node, "Div", parts, [(int(data.dtype), shape_of(parts[0]))])[0]
    x.become(node.outputs[0], y, axes)
    x.drop(node)


def transposed(x: Extents, node: ir.Node) -> None:
    """ConvTranspose: stride * n and a number that does not depend on n."""
    data = only_first(x, node)
    own, rank = x.of(data), len(shape_of(data)) - 2
    inside = [a for a in own if a >= 2]
    if 1 in own or (inside and attribute(node, "output_shape", None)):
        raise refused(node, "runs along a dimension known at run time only")
    strides = _spatial(node, "strides", rank, 1)
    if inside:
        data = x.neutral(node, data, 0, inside)
        node.replace_input_with(0, data)
    x.sweep.type_outputs(node)
    result = node.outputs[0]
    axes = {a: n for a, n in own.items() if a < 2}
    for axis in inside:
        stride = strides[axis - 2]
        more = shape_of(result)[axis] - stride * shape_of(data)[axis]
        n = x.vector(node, "Mul", own[axis], x.ints(node, [stride]))
        n = x.vector(node, "Add", n, x.ints(node, [more]))
        n = x.vector(node, "Max", n, x.ints(node, [0]))
        axes[axis] = x.new(n, shape_of(result)[axis])
    x.set(result, axes)


def spread_out(x: Extents, node: ir.Node) -> None:
    """DepthToSpace and SpaceToDepth: axes times or by the block."""
    data = only_first(x, node)
    own = x.of(data)
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    size = int(attribute(node, "blocksize", 1))
    block = x.ints(node, [size])
    wider = node.op_type == "DepthToSpace"
    for axis in (a for a in own if a >= 2 and not wider):  # the bound may be no multiple
        most = shape_of(data)[axis]
        data = fitted(x, node, data, axis, most - most % size)
    node.replace_input_with(0, data)
    x.sweep.type_outputs(node)
    axes = {a: n for a, n in own.items() if a < 2}
    for axis in (a for a in own if a >= 2):
        n = x.vector(node, "Mul" if wider else "Div", own[axis], block)
        if not wider:
            whole = x.vector(node, "Mul", n, block)
            agreed(x, node, own[axis], whole, f"needs a multiple of {size} rows and columns")
        axes[axis] = x.new(n, shape_of(node.outputs[0])[axis])
    x.set(node.outputs[0], axes)


def means(x: Extents, data: ir.Value, node: ir.Node, axes: Sequence[int]) -> ir.Value:
    """The mean of a value over axes that stay with one element; its tails are zero there."""
    kind, shape = int(data.dtype or 0), shape_of(data)
    own = x.of(data)
    inside = [a for a in own if a in axes]
    data = x.neutral(node, data, 0, inside) if inside else data
    result = tuple(1 if a in axes else d for a, d in enumerate(shape))
    typed = [(kind, result)]
    total = x.node(node, "ReduceSum", [data, x.ints(node, axes)], typed, keepdims=1)[0]
    count = x.ints(node, [prod(shape[a] for a in axes if a not in inside)])
    for a in inside:
        count = x.vector(node, "Mul", count, own[a])
    divisor = x.node(node, "Cast", [count], [(kind, (1,))], to=kind)[0]
    made = x.node(node, "Div", [total, divisor], typed)[0]
    x.set(made, {a: n for a, n in own.items() if a not in axes})
    return made


def global_average(x: Extents, node: ir.Node) -> None:
    """GlobalAveragePool: the mean over the spatial axes."""
    data = needed(node, 0)
    y = means(x, data, node, list(range(2, len(shape_of(data)))))
    x.become(node.outputs[0], y, x.of(y))
    x.drop(node)


def instance(x: Extents, node: ir.Node) -> None:
    """InstanceNormalization, spelled out where its means are along a dynamic axis."""
    data = only_first(x, node)
    own, shape = x.of(data), shape_of(data)
    axes = list(range(2, len(shape)))
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    if not set(own) & set(axes):
        x.sweep.type_outputs(node)
        x.set(node.outputs[0], own)
        return
    y = _standardised(x, node, data, axes)
    _scaled(x, node, y, own)


def group(x: Extents, node: ir.Node) -> None:
    """GroupNormalization, in the same way."""
    data = only_first(x, node)
    own, shape = x.of(data), shape_of(data)
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    if not any(a > 1 for a in own):
        x.sweep.type_outputs(node)
        x.set(node.outputs[0], own)
        return
    groups = int(attribute(node, "num_groups", 1))
    apart = (shape[0], groups, shape[1] // groups, *shape[2:])
    kind = int(data.dtype or 0)
    split = x.node(node, "Reshape", [data, x.ints(node, apart)], [(kind, apart)])[0]
    x.set(split, {a if a < 1 else a + 1: n for a, n in own.items()})
    y = _standardised(x, node, split, list(range(2, len(apart))))
    y = x.node(node, "Reshape", [y, x.ints(node, shape)], [(kind, shape)])[0]
    x.set(y, own)
    _scaled(x, node, y, own)


def _standardised(x: Extents, node: ir.Node, data: ir.Value, axes: Sequence[int]) -> ir.Value:
    """(data - mean) / sqrt(variance + epsilon) over axes."""
    assert data.dtype is not None
    kind, typed = int(data.dtype), [(int(data.dtype), shape_of(data))]
    own = x.of(data)
    middle = means(x, data, node, axes)
    apart = x.node(node, "Sub", [data, middle], typed)[0]
    x.set(apart, own)
    apart = x.neutral(node, apart, 0, [a for a in own if a in axes])
    square = x.node(node, "Mul", [apart, apart], typed)[0]
    x.set(square, own)
    spread = means(x, square, node, axes)
    small = [(kind, shape_of(spread))]
    epsilon = np.full(1, attribute(node, "epsilon", 1e-5), data.dtype.numpy())
    spread = x.node(node, "Add", [spread, x.const(node, epsilon, data)], small)[0]
    root = x.node(node, "Sqrt", [spread], small)[0]
    made = x.node(node, "Div", [apart, root], typed)[0]
    x.set(made, own)
    return made


def _scaled(x: Extents, node: ir.Node, y: ir.Value, own: Axes) -> None:
    """Replace a normalisation by `y` times its scale plus its bias, per channel."""
    kind, shape = int(y.dtype or 0), shape_of(y)
    for op_type, index in (("Mul", 1), ("Add", 2)):
        factor = along(x, node, needed(node, index), len(shape), 1, kind)
        y = x.node(node, op_type, [y, factor], [(kind, shape)])[0]
    x.become(node.outputs[0], y, own)
    x.drop(node)


def sampled(x: Extents, node: ir.Node) -> None:
    """GridSample: as many points as the grid has, of an image of known size."""
    data, grid = needed(node, 0), needed(node, 1)
    own, points = x.of(data), x.of(grid)
    if any(a > 0 for a in own) or (0 in own) != (0 in points):
        raise refused(node, "samples along a dimension known at run time only")
    last = len(shape_of(grid)) - 1
    if last in points or (own and not x.same(own[0], points[0])):
        raise refused(node, "samples along a dimension known at run time only")
    x.sweep.type_outputs(node)
    x.set(node.outputs[0], {a if a == 0 else a + 1: n for a, n in points.items()})


def channelwise(x: Extents, node: ir.Node) -> None:
    """BatchNormalization and LRN: all axes but the channels pass."""
    data = only_first(x, node)
    if 1 in x.of(data):
        raise refused(node, "has channels whose number is known at run time only")
    x.sweep.type_outputs(node)
    for value in node.outputs[:1]:
        x.set(value, x.of(data))


WINDOWS: dict[str, Callable[[Extents, ir.Node], None]] = {
    "AveragePool": average,
    "BatchNormalization": channelwise,
    "ConvTranspose": transposed,
    "DepthToSpace": spread_out,
    "GlobalAveragePool": global_average,
    "GridSample": sampled,
    "GroupNormalization": group,
    "InstanceNormalization": instance,
    "LRN": channelwise,
    "SpaceToDepth": spread_out,
}
