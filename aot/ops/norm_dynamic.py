# SPDX-License-Identifier: Apache-2.0
"""Normalisations along dynamic axes: means over padding of zeros, by the numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, dtype_of, shape_of
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.rows import along, means
from aot.shapes.dynamic.rules import dynamic, needed, only_first, pass_on


@dynamic("InstanceNormalization")
def instance_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of an InstanceNormalization, spelled out where its means are along one.

    UnsupportedError for a dynamic number of channels.
    """
    data = only_first(x, node)
    own, shape = x.run_sizes(data), shape_of(data)
    axes = list(range(2, len(shape)))
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    if not set(own) & set(axes):
        pass_on(x, node, own)
        return
    y = _standardised(x, node, data, axes)
    _scaled(x, node, y, own)


@dynamic("GroupNormalization")
def group_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a GroupNormalization, spelled out where its means are along one.

    Channels are split into [groups, channels of a group] first. UnsupportedError for dynamic
    channels.
    """
    data = only_first(x, node)
    own, shape = x.run_sizes(data), shape_of(data)
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    # The kernel takes every sample for itself, so a dynamic batch needs nothing more.
    if not any(a > 1 for a in own):
        pass_on(x, node, own)
        return
    groups = int(attribute(node, "num_groups", 1))
    grouped = (shape[0], groups, shape[1] // groups, *shape[2:])
    kind = int(data.dtype or 0)
    split = x.node(node, "Reshape", [data, x.ints(node, grouped)], [(kind, grouped)])[0]
    x.set(split, {a if a < 1 else a + 1: n for a, n in own.items()})
    y = _standardised(x, node, split, list(range(2, len(grouped))))
    y = x.node(node, "Reshape", [y, x.ints(node, shape)], [(kind, shape)])[0]
    x.set(y, own)
    _scaled(x, node, y, own)


def _standardised(x: DynamicDims, node: ir.Node, data: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The value (data - mean) / sqrt(variance + epsilon), both over `axes` without their padding.

    Operators are added in front of `node`, which gives epsilon.
    """
    kind, typed = int(dtype_of(data)), [(int(dtype_of(data)), shape_of(data))]
    own = x.run_sizes(data)
    middle = means(x, data, node, axes)
    centred = x.node(node, "Sub", [data, middle], typed)[0]
    x.set(centred, own)
    # The padding less the mean is no longer 0, and its square would count.
    centred = x.neutral(node, centred, 0, [a for a in own if a in axes])
    square = x.node(node, "Mul", [centred, centred], typed)[0]
    x.set(square, own)
    spread = means(x, square, node, axes)
    small = [(kind, shape_of(spread))]
    epsilon = np.full(1, attribute(node, "epsilon", 1e-5), dtype_of(data).numpy())
    spread = x.node(node, "Add", [spread, x.const(node, epsilon, data)], small)[0]
    root = x.node(node, "Sqrt", [spread], small)[0]
    made = x.node(node, "Div", [centred, root], typed)[0]
    x.set(made, own)
    return made


def _scaled(x: DynamicDims, node: ir.Node, y: ir.Value, own: Axes) -> None:
    """Replace the normalisation `node` by `y` * scale + bias per channel; `own` are y's dynamic
    axes.
    """
    kind, shape = int(y.dtype or 0), shape_of(y)
    for op_type, index in (("Mul", 1), ("Add", 2)):
        factor = along(x, node, needed(node, index), len(shape), 1, kind)
        y = x.node(node, op_type, [y, factor], [(kind, shape)])[0]
    x.substitute(node, y, own)


@dynamic("BatchNormalization LRN")
def channelwise_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of BatchNormalization and LRN pass; UnsupportedError for dynamic
    channels.
    """
    data = only_first(x, node)
    if 1 in x.run_sizes(data):
        raise refused(node, "has channels whose number is known at run time only")
    pass_on(x, node, x.run_sizes(data), 0)
