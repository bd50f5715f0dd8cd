# SPDX-License-Identifier: Apache-2.0
"""Variances that cancel.

Before: v = Sub(ReduceMean(Mul(x, x), axes), Mul(m, m)), where m = ReduceMean(x, axes)
After:  d = Sub(x, ReduceMean(x, axes)); v = ReduceMean(Mul(d, d), axes)
The difference of two large means loses every digit where the spread is small beside the mean, and
may be below zero, which has no root. The bodies of ONNX (LayerNormalization, GroupNormalization,
MeanVarianceNormalization) are of this form, and exporters copy them.
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.ir.operators import places_of, trait_of
from aot.ir.value_traits import Averages
from aot.load.options import LoadOptions
from aot.normalise.recognise_activations import multiplies


def variances(edit: Editor, options: LoadOptions) -> None:
    """Compute every variance of floats from the distances to the mean."""
    for node in edit.graph:
        if node.op_type == "Sub" and not node.domain:
            _rewrite(edit, node)


def _rewrite(edit: Editor, node: ir.Node) -> None:
    squares, mean = producer(node.inputs[0]), producer(_squared(node.inputs[1]))
    if squares is None or mean is None or mean.op_type != squares.op_type:
        return
    # The mean of squares less the squared mean cancels digits: the mean of squared differences does
    # not.
    x, found = _squared(squares.inputs[0]), _axes(mean)
    if x is None or mean.inputs[0] is not x or found is None or found != _axes(squares):
        return
    if x.dtype is None or not x.dtype.is_floating_point():
        return
    shape, centre = shape_of(x), mean.outputs[0]
    if len(shape_of(centre)) != len(shape):
        kept = [1 if a in found[0] else n for a, n in enumerate(shape)]
        inputs = [x, *mean.inputs[1:]]
        centre = edit.node(mean.op_type, inputs, {"keepdims": 1}, before=node, shape=kept)
    off = edit.node("Sub", [x, centre], before=node, shape=shape)
    square = edit.node("Mul", [off, off], before=node, shape=shape)
    said = dict(squares.attributes)
    inputs = [square, *squares.inputs[1:]]
    new = edit.node(squares.op_type, inputs, said, before=node, shape=shape_of(node.outputs[0]))
    edit.substitute(node, new)


def _squared(value: ir.Value | None) -> ir.Value | None:
    """x if `value` is x * x."""
    node = producer(value)
    rule = None if node is None else multiplies.of(node)
    parts = () if node is None or rule is None else rule(node)
    return parts[0] if len(parts) == 2 and parts[0] is parts[1] else None


def _axes(mean: ir.Node) -> tuple[list[int], bool] | None:
    """The axes a mean runs over, and whether they stay as 1; None if a run says the axes.

    None, too, for a node that is no mean.
    """
    trait = trait_of(mean, Averages)
    if trait is None or mean.inputs[0] is None:
        return None
    rank = len(shape_of(mean.inputs[0]))
    if not trait.axes:
        return list(range(2, rank)), True
    given = next((mean.inputs[i] for i in places_of(mean, trait.axes)), None)
    axes = array(given)
    if axes is None and given is not None:
        return None
    if axes is not None and axes.size:
        found = sorted(int(a) % rank for a in axes.ravel())
    else:
        found = [] if attribute(mean, "noop_with_empty_axes", 0) else list(range(rank))
    return found, bool(attribute(mean, "keepdims", 1))
