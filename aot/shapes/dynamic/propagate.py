# SPDX-License-Identifier: Apache-2.0
"""What operators do to dynamic axes: pass them on, or mix along them once tails are neutral.

Operators without a rule are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.ir.graph_nodes import DYNAMIC, attribute, original_name, shape_of, words
from aot.ir.operators import (
    Along,
    Elementwise,
    Reduces,
    Window,
    axes_of,
    operand_names,
    trait_of,
)
from aot.shapes.dynamic.batch_independent import ROWWISE, rowwise
from aot.shapes.dynamic.contractions import MIXING
from aot.shapes.dynamic.data_dependent import SOURCES, Rule, given, needed, number_of
from aot.shapes.dynamic.equality_constraints import agreed, fit_inputs, meet
from aot.shapes.dynamic.extents import INT64, Axes, Extents, axis_of, constant_ints, refused
from aot.shapes.dynamic.resize import resize_as_it_is
from aot.shapes.dynamic.slice_reshape import reshape_to
from aot.shapes.dynamic.windows import WINDOWS, windowed

if TYPE_CHECKING:
    import onnx_ir as ir

BOOL = 9


def pass_on(x: Extents, node: ir.Node, axes: Axes, *outputs: int) -> None:
    """Keep the node; `axes` are those of its outputs (of all, or those listed)."""
    x.sweep.type_outputs(node)
    for index, value in enumerate(node.outputs):
        if value.name and (not outputs or index in outputs):
            x.set(value, axes)


def elementwise(x: Extents, node: ir.Node) -> None:
    """All inputs broadcast; a dynamic axis must be one and the same, the others 1 there."""
    inputs = {i: v for i, v in enumerate(node.inputs) if v is not None}
    rank = max(len(shape_of(v)) for v in inputs.values())
    found: Axes = {}
    places: dict[int, dict[int, int]] = {}
    for index, value in inputs.items():
        more = rank - len(shape_of(value))
        places[index] = {a: a + more for a in x.of(value)}
        for axis, n in x.of(value).items():
            what = f"may repeat dimension {axis + more}, known at run time only"
            meet(x, node, found, axis + more, n, what)
    for value in inputs.values():
        shape = shape_of(value)
        for place in found:
            axis = place - (rank - len(shape))
            if axis >= 0 and axis not in x.of(value) and shape[axis] != 1:
                what = f"has {shape[axis]} elements along dimension {place}, known at run time only"
                raise refused(node, what)
    fit_inputs(x, node, places)
    pass_on(x, node, found)


def transpose(x: Extents, node: ir.Node) -> None:
    """Axes move."""
    data = needed(node, 0)
    rank = len(shape_of(data))
    perm = attribute(node, "perm") or list(reversed(range(rank)))
    pass_on(x, node, {i: x.of(data)[a] for i, a in enumerate(perm) if a in x.of(data)})


def squeeze(x: Extents, node: ir.Node) -> None:
    """Axes of extent 1 go; the dynamic ones must stay."""
    data = needed(node, 0)
    rank, given_axes = len(shape_of(data)), constant_ints(x, given(node, 1))
    if given_axes is None:
        raise refused(node, "may drop a dimension known at run time only (it names no axes)")
    gone = {a + rank if a < 0 else a for a in given_axes}
    if gone & set(x.of(data)):
        raise refused(node, "drops a dimension known at run time only")
    left = [a for a in range(rank) if a not in gone]
    pass_on(x, node, {left.index(a): n for a, n in x.of(data).items()})


def unsqueeze(x: Extents, node: ir.Node) -> None:
    """Axes of extent 1 come."""
    data, given_axes = needed(node, 0), constant_ints(x, given(node, 1))
    if given_axes is None:
        raise refused(node, "gets its axes at run time")
    rank = len(shape_of(data)) + len(given_axes)
    made = {a + rank if a < 0 else a for a in given_axes}
    left = [a for a in range(rank) if a not in made]
    pass_on(x, node, {left[a]: n for a, n in x.of(data).items()})


def flatten(x: Extents, node: ir.Node) -> None:
    """A Reshape in two dimensions."""
    data = needed(node, 0)
    shape = shape_of(data)
    axis = axis_of(node, len(shape), 1)
    sides = (set(range(axis)), set(range(axis, len(shape))))
    static = [prod(shape[a] for a in s) for s in sides]
    if sides[0] & set(x.of(data)) and sides[1] & set(x.of(data)):
        raise refused(node, "joins several dimensions known at run time only")
    target = [-1 if s & set(x.of(data)) else n for s, n in zip(sides, static, strict=True)]
    reshape_to(x, node, data, x.ints(node, target))


def concat(x: Extents, node: ir.Node) -> None:
    """Along a static axis the others must agree; along a dynamic one parts move together."""
    parts = {i: v for i, v in enumerate(node.inputs) if v is not None}
    axis = axis_of(node, len(shape_of(needed(node, 0))))
    found: Axes = {}
    for value in parts.values():
        for a, n in x.of(value).items():
            if a != axis:
                meet(x, node, found, a, n, f"joins parts that may differ in dimension {a}")
    if any(a not in x.of(v) for v in parts.values() for a in found):
        raise refused(node, "joins parts of known and of unknown extent")
    fit_inputs(x, node, {i: {a: a for a in found} for i in parts})
    if any(axis in x.of(v) for v in parts.values()):
        _joined(x, node, axis, found)
    else:
        pass_on(x, node, found)


def _joined(x: Extents, node: ir.Node, axis: int, found: Axes) -> None:
    """Replace a Concat along a dynamic axis."""
    parts = [v for v in node.inputs if v is not None]
    lengths = [x.extent(node, v, axis) for v in parts]
    sizes = x.joined(node, lengths)
    bounds = [shape_of(v)[axis] for v in parts]
    shape = list(shape_of(parts[0]))
    shape[axis] = sum(bounds)
    total = lengths[0]
    for n in lengths[1:]:
        total = x.vector(node, "Add", total, n)
    kind = [(int(parts[0].dtype or 0), shape)]
    y = x.node(node, "Join", [sizes, *parts], kind, DYNAMIC, axis=axis)[0]
    x.become(node.outputs[0], y, {**found, axis: x.new(total, sum(bounds))})
    x.drop(node)


def _positive(x: Extents, node: ir.Node, index: ir.Value, length: ir.Value) -> ir.Value:
    """Indices counted from the start: negative ones are `length` more (a vector that broadcasts).

    Tails become 0, which is in range.
    """
    axes, shape = x.of(index), shape_of(index)
    kind = int(index.dtype or 0)
    if axes:
        index = x.neutral(node, index, 0)
    limits = x.interval(index)
    if limits is not None and (limits.low >= 0).all():
        return index
    if kind != INT64:
        length = x.node(node, "Cast", [length], [(kind, shape_of(length))], to=kind)[0]
    if not shape:
        where = x.ints(node, [])
        length = x.node(node, "Reshape", [length, where], [(kind, ())])[0]
    zero = x.const(node, np.zeros((), index.dtype.numpy()), index)  # type: ignore[union-attr]
    behind = x.node(node, "Less", [index, zero], [(BOOL, shape)])[0]
    moved = x.node(node, "Add", [index, length], [(kind, shape)])[0]
    index = x.node(node, "Where", [behind, moved, index], [(kind, shape)])[0]
    x.set(index, axes)
    return index


def gather(x: Extents, node: ir.Node) -> None:
    """Axes of the indices take the place of the gathered one."""
    data, index = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    more = len(shape_of(index)) - 1
    found = {axis + a: n for a, n in x.of(index).items()}
    found |= {a if a < axis else a + more: n for a, n in x.of(data).items() if a != axis}
    if axis in x.of(data):
        node.replace_input_with(1, _positive(x, node, index, x.of(data)[axis]))
    elif x.of(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, found)


def gather_nd(x: Extents, node: ir.Node) -> None:
    """Axes of the indices but the last, then those of the data that are not indexed."""
    data, index = needed(node, 0), needed(node, 1)
    batch = int(attribute(node, "batch_dims", 0))
    tuple_axis = len(shape_of(index)) - 1
    if batch or tuple_axis in x.of(index):
        raise refused(node, "gathers by batch along a dimension known at run time only")
    depth = shape_of(index)[-1]
    found = dict(x.of(index))
    found |= {tuple_axis + a - depth: n for a, n in x.of(data).items() if a >= depth}
    if any(a < depth for a in x.of(data)):
        lengths = x.joined(node, [x.extent(node, data, a) for a in range(depth)])
        node.replace_input_with(1, _positive(x, node, index, lengths))
    elif x.of(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, found)


def gather_elements(x: Extents, node: ir.Node) -> None:
    """The result is as long as the indices."""
    data, index = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    for other, n in x.of(data).items():
        if other == axis:
            continue
        ours, limits = x.of(index).get(other), x.interval(n)
        if ours is not None:
            agreed(x, node, n, ours, "has indices for another dimension known at run time only")
        elif limits is None or shape_of(index)[other] > limits.low[0]:
            raise refused(
                node, "may have more indices than data along a dimension known at run time"
            )
    if axis in x.of(data):
        node.replace_input_with(1, _positive(x, node, index, x.of(data)[axis]))
    elif x.of(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, x.of(index))


def shape(x: Extents, node: ir.Node) -> None:
    """Shape: constants and extents."""
    data = needed(node, 0)
    rank = len(shape_of(data))
    start, end = int(attribute(node, "start", 0)), int(attribute(node, "end", rank))
    start, end = (max(0, v + rank) if v < 0 else min(v, rank) for v in (start, end))
    parts = [x.extent(node, data, a) for a in range(start, max(start, end))]
    y = x.joined(node, parts) if parts else x.ints(node, [])
    x.become(node.outputs[0], y, {})
    x.drop(node)


def size(x: Extents, node: ir.Node) -> None:
    """Size: the product of the shape."""
    whole = x.shape(node, needed(node, 0))
    total = x.node(node, "ReduceProd", [whole, x.ints(node, [0])], [(INT64, ())], keepdims=0)[0]
    x.become(node.outputs[0], total, {})
    x.drop(node)


def _along(x: Extents, node: ir.Node, trait: Reduces) -> tuple[list[int], bool]:
    """The axes of a reduction, and whether they stay."""
    rank, keep = len(shape_of(needed(node, 0))), bool(attribute(node, "keepdims", 1))
    if not trait.axes:
        return list(range(2, rank)), True
    rule = next((r for name, r, _ in axes_of(node) if name == trait.axes), None)
    if rule is not None:
        return [axis_of(node, rank, rule.default or 0, trait.axes)], keep
    names = operand_names(node)
    wanted = given(node, names.index(trait.axes)) if trait.axes in names else None
    axes = constant_ints(x, wanted) if wanted is not None else []
    if axes is None:
        raise refused(node, "gets its axes at run time")
    if not axes and not attribute(node, "noop_with_empty_axes", 0):
        axes = list(range(rank))
    return [a + rank if a < 0 else a for a in axes], keep


def _left(x: Extents, data: ir.Value, axes: Sequence[int], keep: bool) -> Axes:
    """The dynamic axes that a reduction leaves."""
    stay = [a for a in range(len(shape_of(data))) if keep or a not in axes]
    return {stay.index(a): n for a, n in x.of(data).items() if a not in axes}


def reduction(x: Extents, node: ir.Node, trait: Reduces) -> None:
    """A reduction; along a dynamic axis its tail gets the neutral element."""
    data = needed(node, 0)
    axes, keep = _along(x, node, trait)
    left = _left(x, data, axes, keep)
    inside = [a for a in x.of(data) if a in axes]
    if inside and trait.when is not None and not trait.when(node):
        raise refused(node, "reduces a dimension known at run time only, with such attributes")
    if inside:
        fill = number_of(data, trait.neutral)
        node.replace_input_with(0, x.neutral(node, data, fill, inside))
    pass_on(x, node, left)


def mean(x: Extents, node: ir.Node) -> None:
    """ReduceMean along a dynamic axis: the sum by the number of elements."""
    data = needed(node, 0)
    axes, keep = _along(x, node, Reduces(0, "axes"))
    left = _left(x, data, axes, keep)
    inside = [a for a in x.of(data) if a in axes]
    if not inside:
        pass_on(x, node, left)
        return
    kind = int(data.dtype or 0)
    own = shape_of(data)
    result = [1 if a in axes else d for a, d in enumerate(own) if keep or a not in axes]
    data = x.neutral(node, data, 0, inside)
    how: dict[str, Any] = {"keepdims": int(keep)}
    total = x.node(node, "ReduceSum", [data, x.ints(node, axes)], [(kind, result)], **how)[0]
    count = x.ints(node, [prod(own[a] for a in axes if a not in inside)])
    for a in inside:
        count = x.vector(node, "Mul", count, x.of(data)[a])
    number = x.node(node, "Cast", [count], [(kind, (1,))], to=kind)[0]
    if not result:
        number = x.node(node, "Reshape", [number, x.ints(node, [])], [(kind, ())])[0]
    y = x.node(node, "Div", [total, number], [(kind, result)])[0]
    x.become(node.outputs[0], y, left)
    x.drop(node)


def along_axis(x: Extents, node: ir.Node, trait: Along) -> None:
    """Every line alone; along a dynamic axis its tail gets the padding."""
    data = needed(node, 0)
    default = next(rule.default for name, rule, _ in axes_of(node) if name == trait.axis)
    axis = axis_of(node, len(shape_of(data)), default or 0, trait.axis)
    if axis in x.of(data):
        fill = number_of(data, trait.padding)
        node.replace_input_with(0, x.neutral(node, data, fill, [axis]))
    pass_on(x, node, x.of(data))


def cumulate(x: Extents, node: ir.Node) -> None:
    """CumSum and CumProd: a tail comes after all else, or counts nothing."""
    data, where = needed(node, 0), constant_ints(x, given(node, 1))
    if where is None:
        raise refused(node, "gets its axis at run time")
    axis = where[0] % max(len(shape_of(data)), 1)
    if axis in x.of(data) and attribute(node, "reverse", 0):
        fill = 0 if node.op_type == "CumSum" else 1
        node.replace_input_with(0, x.neutral(node, data, fill, [axis]))
    pass_on(x, node, x.of(data))


def normalisation(x: Extents, node: ir.Node) -> None:
    """LayerNormalization and RMSNormalization: axes before the normalised ones pass."""
    data = needed(node, 0)
    rank = len(shape_of(data))
    axis = axis_of(node, rank, -1)
    if any(x.of(i) for i in node.inputs[1:]) or any(a >= axis for a in x.of(data)):
        raise refused(node, "normalises along a dimension known at run time only")
    for value in node.inputs[1:]:
        own = () if value is None else shape_of(value)
        if any(own[a - rank] != 1 for a in x.of(data) if a >= rank - len(own)):
            raise refused(node, "scales along a dimension known at run time only")
    pass_on(x, node, x.of(data))


def quantisation(x: Extents, node: ir.Node) -> None:
    """QuantizeLinear and DequantizeLinear: one scale for all, or one per index of another axis."""
    data, scale = needed(node, 0), needed(node, 1)
    many = prod(shape_of(scale)) > 1
    axis = axis_of(node, max(len(shape_of(data)), 1), 1)
    if any(x.of(i) for i in node.inputs[1:]) or (many and axis in x.of(data)):
        raise refused(node, "has scales along a dimension known at run time only")
    pass_on(x, node, x.of(data))


def one_hot(x: Extents, node: ir.Node) -> None:
    """Axes of the indices, around the new one."""
    index = needed(node, 0)
    rank = len(shape_of(index)) + 1
    axis = axis_of(node, rank, -1)
    if any(x.of(i) for i in node.inputs[1:]):
        raise refused(node, "has a depth or values of unknown shape")
    pass_on(x, node, {a if a < axis else a + 1: n for a, n in x.of(index).items()})


def every_axis(x: Extents, node: ir.Node) -> None:
    """Every element is computed alone, or left out by its place."""
    data = needed(node, 0)
    if any(x.of(i) for i in node.inputs[1:]):
        raise refused(node, "takes numbers along a dimension known at run time only")
    pass_on(x, node, x.of(data))


def reversed_(x: Extents, node: ir.Node) -> None:
    """ReverseSequence: the lengths are no larger than the extent."""
    data, lengths = needed(node, 0), needed(node, 1)
    batch = int(attribute(node, "batch_axis", 1))
    ours, theirs = x.of(data).get(batch), x.of(lengths).get(0)
    if (ours is None) != (theirs is None):
        raise refused(node, "has lengths for another batch than its sequences")
    if ours is not None and theirs is not None:
        agreed(x, node, ours, theirs, "has lengths for another batch than its sequences")
        node.replace_input_with(1, x.neutral(node, lengths, 0))
    pass_on(x, node, x.of(data))


def by_trait(node: ir.Node) -> Rule | None:
    """The rule that a trait of the node's operator gives, None without one."""
    if (window := trait_of(node, Window)) is not None:
        return partial(windowed, trait=window)
    if (reduces := trait_of(node, Reduces)) is not None:
        return partial(reduction, trait=reduces)
    if (line := trait_of(node, Along)) is not None:
        return partial(along_axis, trait=line)
    return elementwise if trait_of(node, Elementwise) is not None else None


def flows(x: Extents, node: ir.Node) -> None:
    """Follow the dynamic axes of the node's inputs. Raises UnsupportedError without a rule."""
    rule = (
        RULES.get(node.op_type)
        if not node.domain
        else OTHER_DOMAINS.get((node.domain, node.op_type))
    )
    rule = rule or by_trait(node)
    if rule is None:
        raise refused(node, "meets a dimension known at run time only (it has no rule for that)")
    for index in () if node.domain else COUNTED.get(node.op_type, ()):
        if x.of(given(node, index)):
            name = original_name(needed(node, index))
            raise refused(node, f'takes as many numbers from "{name}" as a run says')
    rule(x, node)


def _same_type(x: Extents, node: ir.Node) -> None:
    like = needed(node, 0)
    if any(x.of(i) for i in node.inputs[1:]):
        raise refused(node, "takes its type from a value of unknown shape")
    assert like.dtype is not None
    pass_on(x, node, x.of(like))


#: Inputs with as many numbers as another input has axes, or as there are results.
COUNTED = {"Pad": (1, 3), "Resize": (1, 2, 3), "Split": (1,), "Tile": (1,), "TopK": (1,)}
RULES: dict[str, Rule] = {
    **SOURCES,
    **WINDOWS,
    **MIXING,
    "CastLike": _same_type,
    "Concat": concat,
    "CumProd": cumulate,
    "CumSum": cumulate,
    "DequantizeLinear": quantisation,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "LayerNormalization": normalisation,
    "OneHot": one_hot,
    "QuantizeLinear": quantisation,
    "RMSNormalization": normalisation,
    "ReduceMean": mean,
    "Resize": resize_as_it_is,
    "ReverseSequence": reversed_,
    "Shape": shape,
    "Size": size,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Trilu": every_axis,
    "Unsqueeze": unsqueeze,
}

OTHER_DOMAINS: dict[tuple[str, str], Rule] = {
    **{(d, name): rowwise for d, names in ROWWISE.items() for name in sorted(words(names))},
    ("com.microsoft", "Gelu"): every_axis,
    ("com.microsoft", "QuickGelu"): every_axis,
    ("ai.onnx.ml", "Binarizer"): every_axis,
    ("ai.onnx.ml", "LabelEncoder"): every_axis,
}
