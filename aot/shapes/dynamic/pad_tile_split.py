# SPDX-License-Identifier: Apache-2.0
"""Pad, Tile and Split along dynamic axes: rows picked by numbers that are computed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import DYNAMIC, attribute, original_name, shape_of
from aot.shapes.dynamic.data_dependent import SOURCES, given, needed
from aot.shapes.dynamic.equality_constraints import agreed
from aot.shapes.dynamic.extents import INT64, Extents, axis_of, constant_ints, no_bound, refused
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup

if TYPE_CHECKING:
    import onnx_ir as ir

BOOL = 9


def counted(x: Extents, node: ir.Node, size: int) -> ir.Value:
    """The constant 0, 1, … size - 1, an int64 vector."""
    return x.ints(node, range(size))


def picked(
    x: Extents, node: ir.Node, data: ir.Value, rows: ir.Value, axis: int, n: ir.Value
) -> ir.Value:
    """Rows of `data` on an axis by number; the result has `n` of them, of those in `rows`."""
    shape = shape_of(data)
    size = shape_of(rows)[0]
    made_shape = (*shape[:axis], size, *shape[axis + 1 :])
    made = x.node(node, "Gather", [data, rows], [(int(data.dtype or 0), made_shape)], axis=axis)[0]
    x.set(made, {**x.of(data), axis: n})
    return made


def within(x: Extents, node: ir.Node, rows: ir.Value, length: ir.Value, size: int) -> ir.Value:
    """Row numbers forced into 0 … length - 1, where the bound of the axis is `size`."""
    last = x.vector(
        node, "Max", x.vector(node, "Sub", length, x.ints(node, [1])), x.ints(node, [0])
    )
    rows = x.vector(node, "Max", x.vector(node, "Min", rows, last), x.ints(node, [0]))
    limits = x.interval(length)
    if limits is not None and limits.high[0] <= size:
        return rows
    return x.vector(node, "Min", rows, x.ints(node, [max(size - 1, 0)]))


def along(x: Extents, node: ir.Node, vector: ir.Value, rank: int, axis: int, kind: int) -> ir.Value:
    """A vector as a tensor of `rank` axes that has its elements along `axis`."""
    length = shape_of(vector)[0]
    shape = [length if a == axis else 1 for a in range(rank)]
    return x.node(node, "Reshape", [vector, x.ints(node, shape)], [(kind, tuple(shape))])[0]


def most_of(x: Extents, value: ir.Value, index: int = 0) -> float:
    """The largest that an element of a small value can be."""
    limits = x.interval(value)
    return inf if limits is None else float(limits.high.ravel()[index])


# -- Pad -----------------------------------------------------------------------------------------


def pad(x: Extents, node: ir.Node) -> None:
    """Axes of known pads in one Pad, whose tails are made what it fills with; others by rows."""
    data, wanted = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    axes = list(range(rank))
    if given(node, 3) is not None:
        found = constant_ints(x, given(node, 3))
        if found is None:
            raise refused(node, "gets its axes at run time")
        axes = [a % rank for a in found]
    known = lookup(wanted, x.sweep.facts)
    items = known.items() if known is not None else [None] * (2 * len(axes))
    mode = str(attribute(node, "mode", "constant"))
    vector = _long(x, node, wanted)
    pads = {a: (items[i], items[i + len(axes)]) for i, a in enumerate(axes)}
    for i, axis in enumerate(axes):
        before, after = pads[axis]
        if before is None or after is None:
            ends = x.at(node, vector, i), x.at(node, vector, i + len(axes))
            data = _moved(x, node, data, axis, ends, mode)
            pads[axis] = (0, 0)
        elif axis in x.of(data) and (before or after) and mode != "constant":
            ends = x.ints(node, [before]), x.ints(node, [after])
            data = _moved(x, node, data, axis, ends, mode)
            pads[axis] = (0, 0)
    _padded(x, node, data, pads, mode)


def _long(x: Extents, node: ir.Node, vector: ir.Value) -> ir.Value:
    if int(vector.dtype or 0) == INT64:
        return vector
    return x.node(node, "Cast", [vector], [(INT64, shape_of(vector))], to=INT64)[0]


def _fill(x: Extents, node: ir.Node, data: ir.Value) -> ir.Value:
    """What a Pad fills with, a vector of one element."""
    fill = given(node, 2)
    assert data.dtype is not None
    if fill is None:
        return x.const(node, np.zeros(1, data.dtype.numpy()), data)
    where = x.ints(node, [1])
    return x.node(node, "Reshape", [fill, where], [(int(data.dtype), (1,))])[0]


def _padded(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    pads: dict[int, tuple[int | None, int | None]],
    mode: str,
) -> None:
    """Replace `node` by a Pad of known numbers; dynamic axes are filled with constants only."""
    rank = len(shape_of(data))
    known = {a: (int(b or 0), int(e or 0)) for a, (b, e) in pads.items()}
    changed = [a for a, ends in known.items() if any(ends)]
    own = dict(x.of(data))
    inside = [a for a in changed if a in own]
    if inside:
        data = x.neutral(node, data, _fill(x, node, data), inside)
    shape = list(shape_of(data))
    for axis in changed:
        shape[axis] = max(0, shape[axis] + sum(known[axis]))
    for axis in inside:
        n = x.vector(node, "Add", own[axis], x.ints(node, [sum(known[axis])]))
        if sum(known[axis]) < 0:
            n = x.vector(node, "Max", n, x.ints(node, [0]))
        own[axis] = x.new(n, shape[axis])
    if changed:
        numbers = [known.get(a, (0, 0))[0] for a in range(rank)]
        numbers += [known.get(a, (0, 0))[1] for a in range(rank)]
        kind = [(int(data.dtype or 0), tuple(shape))]
        inputs = [data, x.ints(node, numbers), given(node, 2)]
        data = x.node(node, "Pad", inputs, kind, mode=mode)[0]
    x.become(node.outputs[0], data, own)
    x.drop(node)


def _moved(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    ends: tuple[ir.Value, ir.Value],
    mode: str,
) -> ir.Value:
    """Pad one axis by numbers that need not be known."""
    size, n = shape_of(data)[axis], x.extent(node, data, axis)
    total = x.vector(node, "Add", x.vector(node, "Add", n, ends[0]), ends[1])
    most = most_of(x, total)
    if not most <= MAX_ELEMENTS:
        raise no_bound(node, f'the pads of "{original_name(data)}" can be any number')
    bound = max(0, int(most))
    total = x.new(x.vector(node, "Max", total, x.ints(node, [0])), bound)
    at = x.vector(node, "Sub", counted(x, node, bound), ends[0])
    rows = _reflected(x, node, at, n, mode)
    moved = picked(x, node, data, within(x, node, rows, n, size), axis, total)
    if mode != "constant":
        return moved
    kind, rank = int(data.dtype or 0), len(shape_of(data))
    below = x.node(node, "Less", [at, n], [(BOOL, (bound,))])[0]
    first = x.node(node, "GreaterOrEqual", [at, x.ints(node, [0])], [(BOOL, (bound,))])[0]
    there = x.node(node, "And", [below, first], [(BOOL, (bound,))])[0]
    there = along(x, node, there, rank, axis, BOOL)
    fill = _fill(x, node, data)
    result = x.node(node, "Where", [there, moved, fill], [(kind, shape_of(moved))])[0]
    x.set(result, x.of(moved))
    return result


def _reflected(x: Extents, node: ir.Node, at: ir.Value, n: ir.Value, mode: str) -> ir.Value:
    """Which row the padding at `at` repeats; pads longer than the axis go to and fro."""
    if mode in ("constant", "edge"):
        return at
    if mode == "reflect":
        last = x.vector(node, "Sub", n, x.ints(node, [1]))
        there = x.vector(node, "Add", last, last)
        turn = x.vector(node, "Mod", at, x.vector(node, "Max", there, x.ints(node, [1])))
        back = x.vector(node, "Sub", last, turn)
        return x.vector(node, "Sub", last, x.vector(node, "Abs", back))
    if mode == "wrap":
        return x.vector(node, "Mod", at, x.vector(node, "Max", n, x.ints(node, [1])))
    raise refused(node, f"pads with {mode} along a dimension known at run time only")


# -- Tile ----------------------------------------------------------------------------------------


def tile(x: Extents, node: ir.Node) -> None:
    """Row i of a repeated axis is row i modulo its extent."""
    data, times = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    known = lookup(times, x.sweep.facts)
    items = known.items() if known is not None else [None] * rank
    own, fixed = x.of(data), [1] * rank
    for axis, item in enumerate(items):
        if item is not None and axis not in own:
            fixed[axis] = item
        elif item != 1:
            repeats = x.at(node, _long(x, node, times), axis)
            data = _repeated(x, node, data, axis, repeats)
    kept = x.of(data)
    if any(f != 1 for f in fixed):
        shape = tuple(d * f for d, f in zip(shape_of(data), fixed, strict=True))
        kind = [(int(data.dtype or 0), shape)]
        data = x.node(node, "Tile", [data, x.ints(node, fixed)], kind)[0]
    x.become(node.outputs[0], data, kept)
    x.drop(node)


def _repeated(x: Extents, node: ir.Node, data: ir.Value, axis: int, times: ir.Value) -> ir.Value:
    size, n = shape_of(data)[axis], x.extent(node, data, axis)
    most = most_of(x, times)
    if not most * max(size, 1) <= MAX_ELEMENTS:
        raise no_bound(
            node, f'dimension {axis} is repeated as often as "{original_name(times)}" says'
        )
    times = x.vector(node, "Max", times, x.ints(node, [0]))
    bound = max(0, int(most)) * size
    total = x.new(x.vector(node, "Mul", n, times), bound)
    one = x.vector(node, "Max", n, x.ints(node, [1]))
    rows = x.vector(node, "Mod", counted(x, node, bound), one)
    return picked(x, node, data, within(x, node, rows, n, size), axis, total)


# -- Split ---------------------------------------------------------------------------------------


def split(x: Extents, node: ir.Node) -> None:
    """Parts of a dynamic axis, or parts as long as the data say, are cut out one by one."""
    data, sizes = needed(node, 0), given(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    known = None if sizes is None else lookup(sizes, x.sweep.facts)
    if axis not in x.of(data) and (sizes is None or (known is not None and known.full)):
        x.sweep.type_outputs(node)
        for value in node.outputs:
            x.set(value, x.of(data))
        return
    count, size = len(node.outputs), shape_of(data)[axis]
    n = x.extent(node, data, axis)
    if sizes is None:
        each = x.vector(node, "Add", n, x.ints(node, [count - 1]))
        each = x.vector(node, "Div", each, x.ints(node, [count]))
        parts = [each] * count
        bounds = [-(-size // count)] * count
    else:
        vector = _long(x, node, sizes)
        parts = [x.at(node, vector, i) for i in range(count)]
        bounds = [int(min(float(size), max(0.0, most_of(x, p)))) for p in parts]
    start = x.ints(node, [0])
    made = []
    for part, bound in zip(parts, bounds, strict=True):
        end = x.vector(node, "Add", start, part)
        made.append(cut_out(x, node, data, axis, start, end, bound))
        start = end
    if sizes is not None and x.said(n) and x.said(start):
        agreed(x, node, n, start, "has parts that may not fill the axis")
    for old, (new, axes) in zip(list(node.outputs), made, strict=True):
        x.become(old, new, axes)
    x.drop(node)


def cut_out(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    start: ir.Value,
    end: ir.Value,
    bound: int,
) -> tuple[ir.Value, dict[int, ir.Value]]:
    """Rows `start` to `end` of an axis, of which there are at most `bound`, and their axes."""
    shape = list(shape_of(data))
    rank, shape[axis] = len(shape), bound
    whole = x.shape(node, data)
    kinds = [(int(data.dtype or 0), tuple(shape)), (INT64, (rank,))]
    inputs = [data, whole, start, end, x.ints(node, [1])]
    y, out = x.node(node, "Cut", inputs, kinds, DYNAMIC, axes=[axis])
    n = x.new(x.at(node, out, axis), bound)
    wanted = x.vector(node, "Sub", end, start)
    limits = x.interval(end)
    total = x.extent(node, data, axis)
    room = x.interval(x.vector(node, "Sub", total, end))
    if limits is not None and room is not None and room.low[0] >= 0 and most_of(x, wanted) <= bound:
        n = wanted  # nothing is cut off: as long as it says
    return y, {**x.of(data), axis: n}


def edge(x: Extents, node: ir.Node, data: ir.Value, axis: int) -> ir.Value:
    """`data` with its last row repeated in the tail of an axis."""
    size, n = shape_of(data)[axis], x.of(data)[axis]
    rows = within(x, node, counted(x, node, size), n, size)
    return picked(x, node, data, rows, axis, n)


def drop_attribute(node: ir.Node, name: str) -> None:
    """Take an attribute from a node."""
    assert node.graph is not None
    Editor(node.graph).drop_attribute(node, name)


SOURCES.update({"Tile": tile, "Split": split, "Pad": pad})
