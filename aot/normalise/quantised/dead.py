# SPDX-License-Identifier: Apache-2.0
"""Channels of quantised convolutions that nobody reads are not computed.

Before: y = Conv(DQ(Q(Relu(Conv(x, w [64, …])))), v [32, 64, …]), v zero for 40 of its 64 inputs
After:  y = Conv(DQ(Q(Relu(Conv(x, w [24, …])))), v [32, 24, …])

Depthwise convolutions, activations and pooling between the two lose the channels too. Training
leaves such channels behind: their weights become smaller than half a step. Dequantised values are
finite, so that a weight of zero adds exactly nothing.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import (
    CHANNELS_KEY,
    Array,
    array,
    attribute,
    dtype_of,
    elements_of,
    set_type,
    shape_of,
)
from aot.ir.operators import Reduces, Window, element_places, trait_of
from aot.ir.value_traits import Averages
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    dequantised,
    is_dequantise,
    is_quantise,
    is_weight,
    params_of,
)

#: So many channels at a time are kept or dropped: kernels read words.
STEP = 4


def quant_dead(edit: Editor, options: LoadOptions) -> None:
    """Drop the channels that convolutions multiply with zeros only."""
    for node in list(edit.graph):
        if node.domain or node.op_type != "Conv" or dequantised(node.inputs[0]) is None:
            continue
        keep, makers = read_channels(node), chain(node)
        if keep is not None and makers:
            _shrink(edit, node, makers, keep)


def read_channels(node: ir.Node) -> Array | None:
    """The input channels whose weights are not all zero, rounded up to STEP; None for all."""
    if int(attribute(node, "group", 1)) != 1:
        return None
    w = _numbers(node.inputs[1])
    if w is None:
        return None
    used = (w != 0).any(axis=(0, *range(2, w.ndim)))
    wanted = -(-max(int(used.sum()), 1) // STEP) * STEP
    if wanted >= used.size:
        return None
    spare = np.flatnonzero(~used)[: wanted - int(used.sum())]
    return np.sort(np.concatenate([np.flatnonzero(used), spare]))


def chain(node: ir.Node) -> list[ir.Node]:
    """The nodes between `node` and the convolution that makes its channels, that one last; empty if
    anything else reads or makes them."""
    found: list[ir.Node] = []
    reader, value = node, node.inputs[0]
    while value is not None and single_use(value) is reader:
        maker = producer(value)
        if maker is None or not _by_channel(maker):
            break
        reader = maker
        found.append(maker)
        if reader.op_type == "Conv" and int(attribute(reader, "group", 1)) == 1:
            return found
        value = reader.inputs[0]
    return []


def _by_channel(node: ir.Node) -> bool:
    """Whether channels can be taken out of the only result of `node` and of its operands."""
    if len([o for o in node.outputs if o.name]) != 1:
        return False
    if is_quantise(node) or is_dequantise(node):
        p = params_of(node)
        return p is not None and p.per_tensor
    if node.op_type != "Conv":
        return _is_alike(node)
    group, made = int(attribute(node, "group", 1)), shape_of(node.outputs[0])[1]
    return group in (1, made) and all(_numbers(v) is not None for v in node.inputs[1:] if v)


def _is_alike(node: ir.Node) -> bool:
    """Whether an operator of one data input treats every channel by itself and alike."""
    if element_places(node) == (0,):
        return True
    window = trait_of(node, Window)
    if window is not None:
        return window.per_channel and not window.kernel
    reduction = trait_of(node, Reduces) or trait_of(node, Averages)
    return reduction is not None and not reduction.axes


def _numbers(value: ir.Value | None) -> Array | None:
    """A constant, or the quantised values of one less their zero points: zero where the number
    is."""
    data = array(value)
    if data is not None:
        return data
    source = dequantised(value)
    p = params_of(source)
    if source is None or p is None or not is_weight(source):
        return None
    quantised = elements_of(source.inputs[0])
    return np.asarray(quantised.astype(np.int64) - p.spread(quantised.ndim)[1])


def _shrink(edit: Editor, node: ir.Node, makers: list[ir.Node], keep: Array) -> None:
    """Keep, in place, only the channels `keep` of what a convolution reads and `makers` make.

    The numbers that the channels have in the user's model are noted on each value.
    """
    edit.set_input(node, 1, _taken(edit, node.inputs[1], 1, keep, node))
    for maker in makers:
        if maker.op_type == "Conv":
            for index, value in enumerate(maker.inputs[1:], 1):
                if value is not None:
                    edit.set_input(maker, index, _taken(edit, value, 0, keep, maker))
            if int(attribute(maker, "group", 1)) > 1:
                edit.set_attribute(maker, "group", len(keep))
        result = maker.outputs[0]
        shape = shape_of(result)
        set_type(result, int(dtype_of(result)), (shape[0], len(keep), *shape[2:]))
        before = result.metadata_props.get(CHANNELS_KEY, "").split()
        kept = [before[k] for k in keep] if before else map(str, keep)
        result.metadata_props[CHANNELS_KEY] = " ".join(kept)


def _taken(
    edit: Editor, value: ir.Value | None, axis: int, keep: Array, before: ir.Node
) -> ir.Value:
    """A constant or dequantised constant without the other channels of `axis`."""
    assert value is not None
    data, hint = array(value), str(value.name)
    if data is not None:
        return edit.const(data.take(keep, axis), hint, value.dtype)
    source = dequantised(value)
    p = params_of(source)
    assert source is not None and p is not None and source.inputs[0] is not None
    quantised = elements_of(source.inputs[0])
    if p.axis == axis:
        p = Params(p.scale.take(keep), p.zero.take(keep), axis)
    kept = edit.const(quantised.take(keep, axis), hint, source.inputs[0].dtype)
    return add_dequantise(edit, kept, p, before=before)
