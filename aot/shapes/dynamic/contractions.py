# SPDX-License-Identifier: Apache-2.0
"""Products, attention and recurrent operators along dynamic axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import attribute, shape_of
from aot.shapes.dynamic.data_dependent import BOOL, given, needed
from aot.shapes.dynamic.equality_constraints import agreed, fit_inputs, meet
from aot.shapes.dynamic.extents import Axes, Extents, refused
from aot.shapes.dynamic.pad_tile_split import counted
from aot.shapes.dynamic.windows import zero_point

if TYPE_CHECKING:
    import onnx_ir as ir

INT32 = 6
APART = "multiplies along dimensions that may differ at run time"


def _settle(x: Extents, node: ir.Node, axes: Axes) -> None:
    x.sweep.type_outputs(node)
    for value in node.outputs:
        if value.name:
            x.set(value, axes)


def matmul(x: Extents, node: ir.Node) -> None:
    """Rows, columns and batches pass; where both sides meet, tails are 0."""
    multiplied(x, node, 0, 1)


def integer_matmul(x: Extents, node: ir.Node) -> None:
    """MatMulInteger: tails are the zero points."""
    multiplied(x, node, 0, 1, [2], [3])


def linear_matmul(x: Extents, node: ir.Node) -> None:
    """QLinearMatMul: tails are the zero points."""
    if any(prod(shape_of(v)) > 1 for i in (6, 7) if (v := given(node, i)) is not None):
        raise refused(node, "has scales along a dimension known at run time only")
    multiplied(x, node, 0, 3, [1, 2], [4, 5])


def multiplied(
    x: Extents,
    node: ir.Node,
    left: int,
    right: int,
    of_left: Sequence[int] = (),
    of_right: Sequence[int] = (),
) -> None:
    """A product of the inputs numbered `left` and `right`.

    `of_left` and `of_right` are the inputs with their scales and, last, zero points.
    """
    a, b = needed(node, left), needed(node, right)
    for value, beside in ((a, of_left), (b, of_right)):
        many = any(prod(shape_of(v)) > 1 for i in beside if (v := given(node, i)) is not None)
        if many and any(axis >= len(shape_of(value)) - 2 for axis in x.of(value)):
            raise refused(node, "has scales along a dimension known at run time only")
    if any(x.of(v) for i, v in enumerate(node.inputs) if i not in (left, right)):
        raise refused(node, "has scales along a dimension known at run time only")
    ranks = len(shape_of(a)), len(shape_of(b))
    inner = {left: ranks[0] - 1, right: max(ranks[1] - 2, 0)}
    ends = [x.of(a).get(inner[left]), x.of(b).get(inner[right])]
    if ends[0] is not None or ends[1] is not None:
        if ends[0] is None or ends[1] is None:
            raise refused(node, "multiplies a dimension known at run time by a known one")
        agreed(x, node, ends[0], ends[1], APART)
        for index, value, beside in ((left, a, of_left), (right, b, of_right)):
            fill = zero_point(beside[-1])(x, node, value) if beside else 0
            node.replace_input_with(index, x.neutral(node, value, fill, [inner[index]]))
        fit_inputs(x, node, {left: {inner[left]: 0}, right: {inner[right]: 0}})
    rank = max(*ranks, 2)
    found: Axes = {}
    places: dict[int, dict[int, int]] = {left: {}, right: {}}
    for index, value in ((left, a), (right, b)):
        own = len(shape_of(value))
        for axis, n in x.of(value).items():
            if axis == inner[index]:
                continue
            place = axis + rank - own if own > 1 else rank - 1
            meet(x, node, found, place, n, f"may repeat dimension {place}, known at run time only")
            places[index][axis] = place
    for index, value, other in ((left, b, right), (right, a, left)):
        own = len(shape_of(value))
        for place in places[index].values():
            axis = place - (rank - own)
            known = place < rank - 2 and axis >= 0 and axis not in places[other]
            if known and shape_of(value)[axis] != 1:
                raise refused(node, f"may repeat dimension {place}, known at run time only")
    fit_inputs(x, node, places)
    gone = {rank - 2} if ranks[0] == 1 else set()
    gone |= {rank - 1} if ranks[1] == 1 else set()
    left_over = [p for p in range(rank) if p not in gone]
    _settle(x, node, {left_over.index(p): n for p, n in found.items() if p not in gone})


def gemm(x: Extents, node: ir.Node) -> None:
    """Rows of A and columns of B pass; where they meet, tails are 0."""
    a, b, c = needed(node, 0), needed(node, 1), given(node, 2)
    row = int(bool(attribute(node, "transA", 0)))
    column = 1 - int(bool(attribute(node, "transB", 0)))
    found: Axes = {}
    if row in x.of(a):
        found[0] = x.of(a)[row]
    if column in x.of(b):
        found[1] = x.of(b)[column]
    ends = x.of(a).get(1 - row), x.of(b).get(1 - column)
    if (ends[0] is None) != (ends[1] is None):
        raise refused(node, "multiplies a dimension known at run time by a known one")
    if ends[0] is not None and ends[1] is not None:
        agreed(x, node, ends[0], ends[1], APART)
        node.replace_input_with(0, x.neutral(node, a, 0, [1 - row]))
        node.replace_input_with(1, x.neutral(node, b, 0, [1 - column]))
        fit_inputs(x, node, {0: {1 - row: 0}, 1: {1 - column: 0}})
    if c is not None:
        more = 2 - len(shape_of(c))
        for place, n in list(found.items()):
            axis = place - more
            own = x.of(c).get(axis)
            if own is None and axis >= 0 and shape_of(c)[axis] != 1:
                raise refused(node, f"adds a known number to dimension {place}")
            if own is not None:
                found[place] = agreed(x, node, n, own, "adds what may have another extent")
        if any(a + more not in found for a in x.of(c)):
            raise refused(node, "repeats a dimension known at run time only")
    _settle(x, node, found)


def einsum(x: Extents, node: ir.Node) -> None:
    """Labels: what is summed is 0 in the tails of all that have it."""
    text = str(attribute(node, "equation", "")).replace(" ", "")
    if "." in text:
        raise refused(node, "has an ellipsis over a dimension known at run time only")
    terms, arrow, result = text.partition("->")
    labels = terms.split(",")
    if not arrow:
        every = "".join(labels)
        result = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    found: Axes = {}
    order = sorted(set(terms) - {","})
    static: set[str] = set()
    places: dict[int, dict[int, int]] = {}
    for index, own in enumerate(labels):
        value = needed(node, index)
        places[index] = {}
        for axis, label in enumerate(own):
            n = x.of(value).get(axis)
            if n is None:
                static.add(label)
                continue
            meet(x, node, found, order.index(label), n, APART)
            places[index][axis] = order.index(label)
    if any(order[p] in static for p in found):
        raise refused(node, "multiplies a dimension known at run time by a known one")
    for index, own in enumerate(labels):
        value = needed(node, index)
        summed = [a for a in x.of(value) if own[a] not in result]
        if summed:
            node.replace_input_with(index, x.neutral(node, value, 0, summed))
    fit_inputs(x, node, places)
    ends = {i: order.index(label) for i, label in enumerate(result)}
    _settle(x, node, {i: found[place] for i, place in ends.items() if place in found})


# -- Recurrent operators -------------------------------------------------------------------------


def recurrent(x: Extents, node: ir.Node) -> None:
    """RNN, GRU, LSTM: the extent of the steps is the length of all sequences; batches pass."""
    data, lengths = needed(node, 0), given(node, 4)
    batch_first = bool(attribute(node, "layout", 0))
    steps, batch = (1, 0) if batch_first else (0, 1)
    own = x.of(data)
    for index, value in enumerate(node.inputs):
        axes = set(x.of(value))
        allowed = {0: {0, 1}, 4: {0}, 5: {0 if batch_first else 1}, 6: {0 if batch_first else 1}}
        if axes - allowed.get(index, set()):
            raise refused(node, f"gets input {index} along a dimension known at run time only")
    n, rows = own.get(steps), own.get(batch)
    for index in (4, 5, 6):
        value = given(node, index)
        if value is None:
            continue
        axis = 0 if index == 4 or batch_first else 1
        theirs = x.of(value).get(axis)
        if (theirs is None) != (rows is None):
            raise refused(node, "has states for another batch than its sequences")
        if theirs is not None and rows is not None:
            rows = agreed(x, node, rows, theirs, "has states for another batch than its sequences")
        if index == 4 and theirs is not None:
            node.replace_input_with(4, x.neutral(node, value, 0))
    if n is not None and lengths is None:
        count = shape_of(data)[batch]
        short = x.node(node, "Cast", [n], [(INT32, (1,))], to=INT32)[0]
        to = x.ints(node, [count])
        made = x.node(node, "Expand", [short, to], [(INT32, (count,))])[0]
        _with_input(node, 4, made)
    x.sweep.type_outputs(node)
    for index, value in enumerate(node.outputs):
        if not value.name:
            continue
        ends: Axes = {} if rows is None else {0 if batch_first else (2 if index == 0 else 1): rows}
        if index == 0 and n is not None:
            ends[1 if batch_first else 0] = n
        x.set(value, ends)


def _with_input(node: ir.Node, index: int, value: ir.Value) -> None:
    """Give a node an input that it may not have had."""
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


# -- Attention -----------------------------------------------------------------------------------


def attention(x: Extents, node: ir.Node) -> None:
    """Attention: keys beyond the extent are masked; queries and batches pass."""
    q, k, v = (needed(node, i) for i in range(3))
    apart = len(shape_of(q)) == 4
    rows = 2 if apart else 1
    allowed = {0, rows}
    if any(set(x.of(i)) - allowed for i in (q, k, v)) or any(
        x.of(given(node, i)) or (given(node, i) is not None and rows in x.of(k)) for i in (4, 5, 6)
    ):
        raise refused(node, "attends along a dimension known at run time only")
    batches = [x.of(i).get(0) for i in (q, k, v)]
    if len({b is None for b in batches}) > 1:
        raise refused(node, "has queries and keys of other batches")
    batch = batches[0]
    for other in batches[1:]:
        if batch is not None and other is not None:
            batch = agreed(x, node, batch, other, "has queries and keys of other batches")
    n, m = x.of(k).get(rows), x.of(v).get(rows)
    if (n is None) != (m is None):
        raise refused(node, "has other numbers of keys and of values")
    if n is not None and m is not None:
        n = agreed(x, node, n, m, "has other numbers of keys and of values")
        node.replace_input_with(1, x.neutral(node, k, 0, [rows]))
        node.replace_input_with(2, x.neutral(node, v, 0, [rows]))
    least = min(shape_of(needed(node, i))[rows] for i in (1, 2))
    _mask(x, node, n, x.of(q).get(rows), batch, least)
    _fit(x, node, rows)
    x.sweep.type_outputs(node)
    own: Axes = {} if batch is None else {0: batch}
    queries = x.of(q).get(rows)
    for index, value in enumerate(node.outputs):
        if not value.name:
            continue
        if index in (1, 2):
            x.set(value, {**own, **({} if n is None else {2: n})})
        elif index == 3:
            ends = {2: queries, 3: n}
            x.set(value, {**own, **{a: e for a, e in ends.items() if e is not None}})
        else:
            x.set(value, {**own, **({} if queries is None else {rows: queries})})


def _mask(
    x: Extents,
    node: ir.Node,
    n: ir.Value | None,
    queries: ir.Value | None,
    batch: ir.Value | None,
    keys: int,
) -> None:
    """Give an Attention a mask that hides keys beyond `n`; check the one it has."""
    mask = given(node, 3)
    if mask is None:
        if n is None:
            return
        rows = along_last(x, node, counted(x, node, keys))
        short = x.node(node, "Less", [rows, n], [(BOOL, (1, keys))])[0]
        _with_input(node, 3, short)
        return
    shape, own = shape_of(mask), x.of(mask)
    last = len(shape) - 1
    for axis, theirs in own.items():
        ours = {last: n, last - 1: queries, last - 3: batch}.get(axis)
        if ours is None:
            raise refused(node, "has a mask along another dimension known at run time only")
        agreed(x, node, ours, theirs, "has a mask whose extents may differ")
    for axis, ours in ((last, n), (last - 1, queries), (last - 3, batch)):
        if axis >= 0 and ours is not None and axis not in own and shape[axis] != 1:
            raise refused(node, f"has a mask of {shape[axis]} along dimension {axis}")
    if n is None or mask.dtype is None:
        return
    if last not in own:
        raise refused(node, "has a mask that is the same for all keys")
    fill = False if mask.dtype.numpy().kind == "b" else -np.inf
    node.replace_input_with(3, x.neutral(node, mask, fill, [last]))


def _fit(x: Extents, node: ir.Node, rows: int) -> None:
    """Give queries, keys, values and mask of an Attention the same bounds."""
    batch, queries, keys = range(3)
    places = {0: {0: batch, rows: queries}, 1: {0: batch, rows: keys}, 2: {0: batch, rows: keys}}
    mask = given(node, 3)
    if mask is not None:
        last = len(shape_of(mask)) - 1
        places[3] = {last: keys, last - 1: queries, last - 3: batch}
    dynamic = {
        i: {a: p for a, p in own.items() if a in x.of(node.inputs[i])} for i, own in places.items()
    }
    fit_inputs(x, node, dynamic)


def along_last(x: Extents, node: ir.Node, vector: ir.Value) -> ir.Value:
    """A vector as one row."""
    length = shape_of(vector)[0]
    kind = int(vector.dtype or 0)
    return x.node(node, "Reshape", [vector, x.ints(node, [1, length])], [(kind, (1, length))])[0]


def rotary(x: Extents, node: ir.Node) -> None:
    """RotaryEmbedding: every position for itself."""
    data = needed(node, 0)
    last = len(shape_of(data)) - 1
    rows = last - 1
    if last in x.of(data) or (len(shape_of(data)) == 4 and 1 in x.of(data)):
        raise refused(node, "turns along a dimension known at run time only")
    positions = given(node, 3)
    for index in (1, 2, 3):
        value = given(node, index)
        places = {0: 0, 1: rows} if positions is None or index == 3 else {}
        fixed = [a for a, p in places.items() if p in x.of(data) and a not in x.of(value)]
        if value is not None and fixed:
            raise refused(node, "has angles for a known number of positions or batches")
        for axis, n in x.of(value).items():
            ours = x.of(data).get(places.get(axis, -1))
            if ours is None:
                raise refused(node, "has angles along another dimension known at run time only")
            agreed(x, node, ours, n, "has angles for other positions")
    if positions is not None and x.of(positions):
        node.replace_input_with(3, x.neutral(node, positions, 0))
    _settle(x, node, x.of(data))


def dynamic_codes(x: Extents, node: ir.Node) -> None:
    """DynamicQuantizeLinear: 0 is within the range anyway."""
    data = needed(node, 0)
    node.replace_input_with(0, x.neutral(node, data, 0))
    x.sweep.type_outputs(node)
    x.set(node.outputs[0], x.of(data))


MIXING: dict[str, Callable[[Extents, ir.Node], None]] = {
    "Attention": attention,
    "DynamicQuantizeLinear": dynamic_codes,
    "Einsum": einsum,
    "GRU": recurrent,
    "Gemm": gemm,
    "LSTM": recurrent,
    "MatMul": matmul,
    "MatMulInteger": integer_matmul,
    "QLinearMatMul": linear_matmul,
    "RNN": recurrent,
    "RotaryEmbedding": rotary,
}
