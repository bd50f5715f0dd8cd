# SPDX-License-Identifier: Apache-2.0
"""Slice, Expand, Tile: strided reads of the source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, operand, shape_of, title
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
from aot.shapes.dynamic.rules import needed
from aot.shapes.evaluate import evaluates, integers, need, optional, slice_of
from aot.shapes.operands import first, lists, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues, lookup
from aot.shapes.reference import Inputs
from aot.vendor import Match, Recorder, ValueRef
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.layouts import channels_last, is_channels_last
from aot.vendor.strided_copy import Axis, Shape, collapse, is_view, stored, strides, view_or_move


def _numbers(value: ValueRef | None) -> list[int] | None:
    """The elements of a constant as ints; None for an absent or computed value."""
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
    rules=[sizings.by(Sizing(examples={1: zeros, 3: axes}))],
)
expand = op(
    "Expand",
    "x shape",
    traits=[SizedBy("shape"), Moves("x")],
    rules=[identity.by(always)],
    lower=lambda c, m: view_or_move(c, m.y, m.x, broadcast_axes(m.x.shape, m.y.shape), 0),
)
tile = op(
    "Tile",
    "x repeats",
    traits=[SizedBy("repeats"), Moves("x")],
    constants="repeats",
    rules=[checks.by(possible_sizes)],
)


@identity("Slice")
def forwards(node: ir.Node) -> bool:
    """Whether no axis of a Slice is reversed: with the shape, all elements stay."""
    steps = array(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    return steps is None or bool(np.all(steps > 0))


@permute("Slice")
def sliced_before(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted | None:
    """A Slice as it is before a Transpose by `perm`: the same ranges of those axes; None if not
    known.
    """
    axes = array(node.inputs[3]) if len(node.inputs) > 3 else None
    if axes is None:
        return None
    return Permuted(perm, inputs={3: edit.ints([perm[int(a)] for a in axes], f"{node.name}_axes")})


@identity("Tile")
def once(node: ir.Node) -> bool:
    """Whether a Tile has constant repeats that are all 1."""
    repeats = array(node.inputs[1])
    return repeats is not None and bool(np.all(repeats == 1))


@evaluates("Slice")
def slice_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The part of a constant that constant bounds select."""
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
    """A constant repeated to the broadcast of its own shape and the wanted one."""
    data = need(inputs, 0)
    shape = np.broadcast_shapes(data.shape, tuple(integers(need(inputs, 1))))
    return [np.broadcast_to(data, shape)]


@evaluates("Tile")
def tile_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant repeated along its axes."""
    return [np.tile(need(inputs, 0), integers(need(inputs, 1)))]


def ranges(m: Match) -> list[range]:
    """The indices that each axis of x keeps; bounds are clamped as ONNX says."""
    return _kept(m.x, (m.starts, m.ends, m.axes, m.steps))


@slice_.check
def slice_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that no step is 0."""
    steps = _numbers(m.steps) or [1]
    yield 0 not in steps, "step 0"


def _cut(m: Match) -> list[int]:
    """The axes that lose elements or change direction."""
    kept = ranges(m)
    return [i for i, (r, n) in enumerate(zip(kept, m.x.shape, strict=True)) if r != range(n)]


@slice_.layouts
def slice_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocked x stays blocked if only other axes are cut, or one run of channels
    alone.
    """
    layout, cut = incoming["x"], _cut(m)
    if is_channels_last(m.x, layout) and math.prod(m.y.shape):
        return {"x": layout, "y": channels_last(m.y)}
    channels_alone = cut == [1] and ranges(m)[1].step == 1
    if not layout.blocked or (1 in cut and not channels_alone) or math.prod(m.y.shape) == 0:
        return {}
    return {"x": layout, "y": layout}


@slice_.lower
def slice_to_kernel(c: Recorder, m: Match) -> None:
    """Record a Slice: a view where the elements are one run, else a strided copy."""
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
    """Record a Tile: each axis is two loops, of which the outer one repeats."""
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


@operands_fit("Slice")
def slice_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why starts, ends, axes and steps are not equally many vectors; "" if they are."""
    names = ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    starts = operand_shape(node, 1) or ()
    others = (wrong(name, operand_shape(node, i), starts) for i, name in names[1:])
    return lists(*names)(node, partial_values) or first(*others)


@checks("Slice")
def slice_steps(node: ir.Node, partial_values: PartialValues) -> str:
    """ "step 0" if a known step is 0, else ""."""
    known = lookup(node.inputs[4], partial_values) if len(node.inputs) > 4 else None
    return "step 0" if known is not None and 0 in known.items() else ""


@checks("Expand")
def expand_shapes(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why x does not broadcast to a known shape; "" if it does or the shape is not
    known.
    """
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
    """Write out starts, ends, axes and steps of a Slice with constant bounds, within the tensor.

    Ends are exclusive; a negative step's may be -1 - size, one before the first element.
    """
    parts = [array(i) for i in node.inputs[1:]]
    if any(p is None and i is not None for p, i in zip(parts, node.inputs[1:], strict=True)):
        return

    starts, ends = parts[0], parts[1]
    assert starts is not None and ends is not None
    shape = shape_of(operand(node, 0))
    axes = parts[2] if len(parts) > 2 else None
    steps = parts[3] if len(parts) > 3 else None
    where = [int(a) for a in axes.ravel()] if axes is not None else list(range(starts.size))
    where = [a + len(shape) if a < 0 else a for a in where]
    by = [int(s) for s in steps.ravel()] if steps is not None else [1] * starts.size
    wanted: tuple[list[int], list[int]] = ([], [])
    for start, end, axis, step in zip(starts.ravel(), ends.ravel(), where, by, strict=True):
        piece = slice_of(int(start), int(end), step, shape[axis])
        wanted[0].append(piece.start)
        # In ONNX -1 is the last element, so one before the first is written as -1 - size.
        wanted[1].append(-1 - shape[axis] if piece.stop is None else piece.stop)
    for index, values in enumerate((*wanted, where, by)):
        old = parts[index] if index < len(parts) else None
        if old is None or old.ravel().tolist() != values or old.dtype != np.int64:
            name = ("starts", "ends", "axes", "steps")[index]
            edit.set_input(node, index + 1, edit.ints(values, f"{node.name}_{name}"))


@encodes("Expand")
def expand_strings(s: Strings, node: ir.Node) -> None:
    """Let an Expand of encoded strings keep the bytes: its shape gets a last axis."""
    shape = (*shape_of(node.outputs[0]), s.width)
    s.editor(node).set_input(node, 1, s.ints(node, shape))


@encodes("Tile")
def tile_strings(s: Strings, node: ir.Node) -> None:
    """Let a Tile of encoded strings repeat no bytes: its repeats get a last 1.

    Raises UnsupportedError for repeats that are no constant.
    """
    repeats = array(node.inputs[1])
    if repeats is None:
        what = f"{title(node)}: repeats are known at run time only"
        raise UnsupportedError(what, hint=YOURS, add=binds(node))
    s.editor(node).set_input(node, 1, s.ints(node, [*map(int, repeats), 1]))


@encodes("Slice")
def slice_strings(s: Strings, node: ir.Node) -> None:
    """Let the axes of a Slice of encoded strings count from the front: bytes are a further axis
    behind.
    """
    axes = array(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if axes is not None and (axes < 0).any():
        rank = len(shape_of(needed(node, 0)))
        s.editor(node).set_input(node, 3, s.ints(node, [int(a) % rank for a in axes]))
