# SPDX-License-Identifier: Apache-2.0
"""Slice, Expand, Tile: strided reads of the source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import DYNAMIC, Array, array, original_name, shape_of, title
from aot.ir.layout import Layout
from aot.ir.operators import AxesOf, Moves, SizedBy, View
from aot.load.encode_strings import Strings, encodes
from aot.normalise.attributes import canonical
from aot.normalise.identities import always, identity
from aot.normalise.transposes import Permuted, permute
from aot.ops.concat import take_channels
from aot.ops.registry import op
from aot.shapes.checks import checks, possible_sizes, shape_at
from aot.shapes.cures import YOURS, Sizing, axes, binds, sizings, zeros
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, constant_ints, no_bound, refused
from aot.shapes.dynamic.rows import counted, most_of, picked, whole_numbers, within
from aot.shapes.dynamic.rules import dynamic, given, needed, run_time_shape
from aot.shapes.evaluate import Invalid, evaluates, integers, need, optional, slice_of
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.operands import first, lists, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues, lookup
from aot.shapes.reference import Inputs
from aot.vendor import Match, Recorder, ValueRef
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.layouts import channels_last, is_channels_last
from aot.vendor.strided_copy import Axis, Shape, collapse, is_view, stored, strides, view_or_move


def _numbers(value: ValueRef | None) -> list[int] | None:
    return None if value is None or value.data is None else [int(v) for v in value.data.ravel()]


def _kept(x: ValueRef, bounds: Sequence[ValueRef | None]) -> list[range]:
    """The indices that each axis of x keeps; `bounds` are starts, ends, axes, steps, as constants.

    Starts and ends are clamped as ONNX says.
    """
    starts, ends, axes, steps = (_numbers(v) for v in bounds)
    kept = [range(n) for n in x.shape]
    starts, ends = starts or [], ends or []
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        kept[axis] = range(*slice(start, end, step).indices(x.shape[axis]))
    return kept


def _axes(kept: Sequence[range], xs: Sequence[int]) -> list[Axis]:
    """The loops of a copy of the elements kept, whose strides in x are `xs`."""
    ys = strides([len(r) for r in kept])
    return [Axis(len(r), a, b * r.step) for r, a, b in zip(kept, ys, xs, strict=True)]


def one_run(node: ir.Node) -> bool:
    """Whether a Slice between constant bounds keeps elements that follow each other in memory."""
    x, *bounds = [None if v is None else ValueRef(v) for v in (*node.inputs, None, None)][:5]
    if x is None or any(v is not None and v.data is None for v in bounds):
        return False
    axes = _axes(_kept(x, bounds), strides(x.shape))
    return all(a.extent for a in axes) and is_view(collapse(axes))


slice_ = op(
    "Slice",
    "x starts ends axes? steps?",
    traits=[
        SizedBy("starts ends axes steps"),
        Moves("x", fewer=True),
        View(part=True, when=one_run),
        AxesOf("axes", "x"),
    ],
    constants="starts ends axes steps",
)
expand = op("Expand", "x shape", traits=[SizedBy("shape"), Moves("x")])
tile = op("Tile", "x repeats", traits=[SizedBy("repeats"), Moves("x")], constants="repeats")
identity("Expand")(always)


sizings("Slice")(Sizing(examples={1: zeros, 3: axes}))


@identity("Slice")
def forwards(node: ir.Node) -> bool:
    """Whether no axis of a Slice is reversed: with the shape, all elements stay."""
    steps = array(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    return steps is None or bool(np.all(steps > 0))


@permute("Slice")
def sliced_before(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted | None:
    """The same ranges of the axes before a Transpose."""
    axes = array(node.inputs[3]) if len(node.inputs) > 3 else None
    if axes is None:
        return None
    return Permuted(perm, inputs={3: edit.ints([perm[int(a)] for a in axes], f"{node.name}_axes")})


@identity("Tile")
def once(node: ir.Node) -> bool:
    """Whether a Tile repeats no axis."""
    repeats = array(node.inputs[1])
    return repeats is not None and bool(np.all(repeats == 1))


@evaluates("Slice")
def slice_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = need(inputs, 0)
    starts, ends = integers(need(inputs, 1)), integers(need(inputs, 2))
    axes = integers(optional(inputs, 3)) or list(range(len(starts)))
    steps = integers(optional(inputs, 4)) or [1] * len(starts)
    where = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where[axis] = slice_of(start, end, step, data.shape[axis])
    return [data[tuple(where)]]


@evaluates("Expand")
def expand_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = need(inputs, 0)
    shape = np.broadcast_shapes(data.shape, tuple(integers(need(inputs, 1))))
    return [np.broadcast_to(data, shape)]


@evaluates("Tile")
def tile_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [np.tile(need(inputs, 0), integers(need(inputs, 1)))]


def ranges(m: Match) -> list[range]:
    """The indices that each axis of x keeps; bounds are clamped as ONNX says."""
    return _kept(m.x, (m.starts, m.ends, m.axes, m.steps))


@slice_.check
def slice_supported(m: Match) -> Iterator[tuple[bool, str]]:
    steps = _numbers(m.steps) or [1]
    yield 0 not in steps, "step 0"


def _cut(m: Match) -> list[int]:
    """Axes that lose elements or change direction."""
    kept = ranges(m)
    return [i for i, (r, n) in enumerate(zip(kept, m.x.shape, strict=True)) if r != range(n)]


@slice_.layouts
def slice_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocked input: cuts of other axes, or one run of channels alone."""
    layout, cut = incoming["x"], _cut(m)
    if is_channels_last(m.x, layout) and math.prod(m.y.shape):
        return {"x": layout, "y": channels_last(m.y)}
    channels_alone = cut == [1] and ranges(m)[1].step == 1
    if not layout.blocked or (1 in cut and not channels_alone) or math.prod(m.y.shape) == 0:
        return {}
    return {"x": layout, "y": layout}


@slice_.lower
def slice_to_kernel(c: Recorder, m: Match) -> None:
    kept = ranges(m)
    last = is_channels_last(m.x, m.x.layout)
    if m.x.layout.blocked and _cut(m) == [1] and not last:
        take_channels(c, m.y, m.x, kept[1].start)
        return
    if m.x.layout.blocked:
        physical = stored(m.x)
        lanes = kept[1] if last else range(physical[-1])
        kept = [kept[0], range(physical[1]), *kept[2:], lanes]
    xs = strides(stored(m.x))
    axes = _axes(kept, xs)
    some = all(a.extent for a in axes)
    first = sum(r.start * s for r, s in zip(kept, xs, strict=True)) if some else 0
    view_or_move(c, m.y, m.x, axes, first)


@slice_.cases
def slice_cases() -> Iterator[Case]:
    """Slice(data, starts, ends, axes, steps): negative steps, ends beyond an axis, none left."""
    four = (1, 2, 3, 4)
    far = np.iinfo(np.int64)
    yield case(f32(4, 5, 6), i64(1, 2), i64(3, 5), const=(1, 2))
    yield case(f32(4, 5, 6), i64(1), i64(3), i64(0), const=(1, 2, 3))
    yield case(f32(4, 5, 6), i64(-1, 4), i64(int(far.min), 0), i64(2, 1), i64(-1, -2), const=four)
    yield case(f32(20, 3), i64(1), i64(int(far.max)), i64(0), i64(3), const=four)
    yield case(ints(4, 5, dtype="int8"), i64(-100, 1), i64(100, 2), const=(1, 2))
    yield case(f32(4, 5), i64(3), i64(2), i64(1), const=(1, 2, 3))
    yield case(ints(4, 5, 2, dtype="int64"), i64(1, 0), i64(5, 4), i64(1, 0), i64(2, 2), const=four)
    yield case(f32(4, 5), i64(-1, 3), i64(-9, 3), i64(0, 1), i64(-1, 1), const=four)


def broadcast_axes(x: Shape, y: Shape) -> list[Axis]:
    """Loops that read x (right-aligned, sizes 1 repeated) for every element of y."""
    full = (1,) * (len(y) - len(x)) + tuple(x)
    xs = strides(full)
    return [
        Axis(n, a, b if own != 1 else 0)
        for n, own, a, b in zip(y, full, strides(y), xs, strict=True)
    ]


@expand.lower
def expand_to_kernel(c: Recorder, m: Match) -> None:
    view_or_move(c, m.y, m.x, broadcast_axes(m.x.shape, m.y.shape), 0)


@expand.cases
def expand_cases() -> Iterator[Case]:
    """Expand(input, shape): new axes, a shape that input's own exceeds."""
    yield case(f32(3, 1), i64(2, 3, 5), const=(1,))
    yield case(f32(1, 4), i64(3, 1), const=(1,))
    yield case(ints(1, 32, 1), i64(1, 32, 7), const=(1,))
    yield case(f32(3, 4), i64(1, 1), const=(1,))
    yield case(np.array(2.5, np.float32), i64(2, 3), const=(1,))


@tile.lower
def tile_to_kernel(c: Recorder, m: Match) -> None:
    axes: list[Axis] = []
    counts = _numbers(m.repeats) or []
    loops = zip(counts, m.x.shape, strides(m.y.shape), strides(m.x.shape), strict=True)
    for count, extent, ys, xs in loops:
        axes += [Axis(count, ys * extent, 0), Axis(extent, ys, xs)]
    view_or_move(c, m.y, m.x, axes, 0)


@tile.cases
def tile_cases() -> Iterator[Case]:
    """Tile(input, repeats): some axes, none."""
    yield case(f32(2, 3), i64(2, 2), const=(1,))
    yield case(f32(2, 3, 4), i64(1, 3, 1), const=(1,))
    yield case(ints(5, dtype="uint8", low=0), i64(3), const=(1,))
    yield case(f32(2, 3), i64(1, 1), const=(1,))


@dynamic("Slice")
def slice_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Slice along a dynamic axis, or between places read at run time: the node Cut makes the most
    elements there can be, and the true sizes (int64 [rank]). Raises Invalid for axes out of range.
    """
    data = needed(node, 0)
    shape, rank = shape_of(data), len(shape_of(data))
    numbers = [given(node, i) for i in (1, 2, 3, 4)]
    if numbers[0] is None or numbers[1] is None:
        raise Invalid("starts or ends are missing")
    if x.of(numbers[0]) or x.of(numbers[1]):
        raise refused(node, "cuts along axes that are known at run time only")
    count = shape_of(numbers[0])[0]
    axes = list(range(count)) if numbers[2] is None else constant_ints(x, numbers[2])
    if axes is None:
        raise refused(node, "gets its axes at run time")
    far = [a for a in axes if not -rank <= a < rank]
    if far or len(axes) != count:
        raise Invalid(f"axes {axes[:8]} of a tensor of {rank} axes, {count} starts")
    axes = [a + rank if a < 0 else a for a in axes]
    steps = numbers[3] or x.ints(node, [1] * count)
    vectors = [whole_numbers(x, node, v) for v in (numbers[0], numbers[1], steps)]
    items = [_items(x, v) for v in vectors]
    result, open_axes = list(shape), {a: n for a, n in x.of(data).items() if a not in axes}
    cut: list[int] = []
    for i, axis in enumerate(axes):
        start, end, step = (v[i] for v in items)
        if axis not in x.of(data) and None not in (start, end, step):
            place = slice_of(int(start or 0), int(end or 0), int(step or 0), shape[axis])
            result[axis] = len(range(*place.indices(shape[axis])))
        else:
            result[axis] = _cut_bound(x, vectors, i, shape[axis])
            cut.append(axis)
    whole = x.shape(node, data)
    kinds = [(int(data.dtype or 0), tuple(result)), (INT64, (rank,))]
    y, out = x.node(node, "Cut", [data, whole, *vectors], kinds, DYNAMIC, axes=axes)
    whole_axes = {a: i for i, a in enumerate(axes)}
    for axis in cut:
        found = _until(x, node, data, axis, items, vectors, whole_axes[axis], result[axis])
        open_axes[axis] = x.new(x.at(node, out, axis) if found is None else found, result[axis])
    x.substitute(node, y, open_axes)


def _until(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    items: Sequence[Sequence[int | None]],
    vectors: Sequence[ir.Value],
    i: int,
    bound: int,
) -> ir.Value | None:
    """The size of rows cut in steps of 1 from a known place, where it is a plain number.

    x[:n] has n rows if x has as many; x[2:] of n rows has n - 2 if n is 2 at least.
    """
    start, end, step = (v[i] for v in items)
    if start is None or start < 0 or step != 1:
        return None
    n = x.dim(node, data, axis)
    last = n
    if end is None:
        last = x.at(node, vectors[1], i)
        room = x.interval(x.sub(node, n, last))
        fits = room is not None and room.low[0] >= 0
        if not fits and not _no_more(x, last, n):
            return None
    elif end < 0:
        last = x.add(node, n, x.ints(node, [end]))
    else:
        least = x.interval(n)
        if end < shape_of(data)[axis]:
            return None if least is None or least.low[0] < end else x.ints(node, [end - start])
    length = last if start == 0 else x.sub(node, last, x.ints(node, [start]))
    limits = x.interval(length)
    return length if limits is not None and limits.low[0] >= 0 else None


def _no_more(x: DynamicDims, last: ir.Value, value: ir.Value) -> bool:
    """Whether an end is no further than the size of the axis, as numbers."""
    a, b = x.interval(last), x.interval(value)
    return x.same(last, value) or (a is not None and b is not None and a.high[0] <= b.low[0])


def _items(x: DynamicDims, vector: ir.Value) -> list[int | None]:
    known = lookup(vector, x.sweep.partial_values)
    return known.items() if known is not None else [None] * shape_of(vector)[0]


def _cut_bound(x: DynamicDims, vectors: Sequence[ir.Value], place: int, size: int) -> int:
    """The most elements that are left of an axis of at most `size`."""
    start, end, step = (x.interval(v) for v in vectors)
    if start is None or end is None or step is None or not step.low[place] >= 1:
        return size
    first, last = float(start.low[place]), float(end.high[place])
    if first < 0 or float(end.low[place]) < 0:
        return size
    span = max(0.0, min(last, float(size)) - first)
    return int(np.ceil(span / float(step.low[place])))


@dynamic("Expand")
def expand_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Expand with dynamic axes, of the data or of the shape, counted from the last.

    A dynamic axis of the data must meet size 1 or the same dynamic size, else UnsupportedError.
    An axis of the data with a static size other than 1 keeps it. The result is stored at the
    upper bounds.
    """
    data, wanted = needed(node, 0), needed(node, 1)
    shape, axes = run_time_shape(x, node, wanted)
    own = shape_of(data)
    rank = max(len(own), len(shape))
    result: list[int] = []
    found: Axes = {}
    for axis in range(rank):
        i, j = axis - (rank - len(own)), axis - (rank - len(shape))
        size = own[i] if i >= 0 else 1
        requested = shape[j] if j >= 0 else 1
        mine, theirs = x.of(data).get(i), axes.get(j)
        if mine is not None:
            if not (theirs is None and requested == 1) and not (theirs and x.same(mine, theirs)):
                raise refused(node, f"may repeat dimension {axis}, known at run time only")
            found[axis], requested = mine, size
        elif size != 1:
            requested = size
        elif theirs is not None:
            found[axis] = theirs
        result.append(requested)
    y = x.node(
        node, "Expand", [data, x.ints(node, result)], [(int(data.dtype or 0), tuple(result))]
    )[0]
    x.substitute(node, y, found)


@dynamic("Tile")
def tile_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Row i of a repeated axis is row i modulo its size."""
    data, times = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    known = lookup(times, x.sweep.partial_values)
    items = known.items() if known is not None else [None] * rank
    own, fixed = x.of(data), [1] * rank
    for axis, item in enumerate(items):
        if item is not None and axis not in own:
            fixed[axis] = item
        elif item != 1:
            repeats = x.at(node, whole_numbers(x, node, times), axis)
            data = _repeated(x, node, data, axis, repeats)
    kept = x.of(data)
    if any(f != 1 for f in fixed):
        shape = tuple(d * f for d, f in zip(shape_of(data), fixed, strict=True))
        kind = [(int(data.dtype or 0), shape)]
        data = x.node(node, "Tile", [data, x.ints(node, fixed)], kind)[0]
    x.substitute(node, data, kept)


def _repeated(
    x: DynamicDims, node: ir.Node, data: ir.Value, axis: int, times: ir.Value
) -> ir.Value:
    size, n = shape_of(data)[axis], x.dim(node, data, axis)
    most = most_of(x, times)
    if not most * max(size, 1) <= MAX_ELEMENTS:
        raise no_bound(
            node, f'dimension {axis} is repeated as often as "{original_name(times)}" says'
        )
    times = x.largest(node, times, x.ints(node, [0]))
    bound = max(0, int(most)) * size
    total = x.new(x.mul(node, n, times), bound)
    one = x.largest(node, n, x.ints(node, [1]))
    rows = x.vector(node, "Mod", counted(x, node, bound), one)
    return picked(x, node, data, within(x, node, rows, n, size), axis, total)


@operands_fit("Slice")
def slice_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """As many starts as ends, axes and steps."""
    names = ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    starts = operand_shape(node, 1) or ()
    others = (wrong(name, operand_shape(node, i), starts) for i, name in names[1:])
    return lists(*names)(node, partial_values) or first(*others)


@checks("Slice")
def slice_steps(node: ir.Node, partial_values: PartialValues) -> str:
    known = lookup(node.inputs[4], partial_values) if len(node.inputs) > 4 else None
    return "step 0" if known is not None and 0 in known.items() else ""


checks("Tile")(possible_sizes)


@checks("Expand")
def expand_shapes(node: ir.Node, partial_values: PartialValues) -> str:
    known = lookup(node.inputs[1], partial_values)
    if known is None or not known.full:
        return ""
    old, wanted = shape_at(node, 0), [int(v) for v in known.data.ravel()]
    for a, b in zip(reversed(old), reversed(wanted), strict=False):
        if a != b and 1 not in (a, b):
            return f"cannot expand {list(old)} to {wanted}"
    return ""


@canonical("Slice")
def explicit_slice(edit: Editor, node: ir.Node) -> None:
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


@encodes("Expand")
def expand_strings(s: Strings, node: ir.Node) -> None:
    shape = (*shape_of(node.outputs[0]), s.width)
    s.editor(node).set_input(node, 1, s.ints(node, shape))


@encodes("Tile")
def tile_strings(s: Strings, node: ir.Node) -> None:
    """Raises UnsupportedError for repeats that are no constant."""
    repeats = array(node.inputs[1])
    if repeats is None:
        what = f"{title(node)}: repeats are known at run time only"
        raise UnsupportedError(what, hint=YOURS, add=binds(node))
    s.editor(node).set_input(node, 1, s.ints(node, [*map(int, repeats), 1]))


@encodes("Slice")
def slice_strings(s: Strings, node: ir.Node) -> None:
    """Axes are counted from the front: the bytes are a further one at the end."""
    axes = array(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if axes is not None and (axes < 0).any():
        rank = len(shape_of(needed(node, 0)))
        s.editor(node).set_input(node, 3, s.ints(node, [int(a) % rank for a in axes]))
