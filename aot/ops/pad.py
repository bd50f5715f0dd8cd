# SPDX-License-Identifier: Apache-2.0
"""Pad: adds or removes elements at both ends of axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, attribute, dtype_of, given, original_name, shape_of
from aot.ir.operators import AxesOf, Exact, Moves, OneOf, SizedBy
from aot.ir.rows import Planes, Rowwise, Window
from aot.normalise.identities import identity
from aot.normalise.transposes import Permuted, permute
from aot.ops.registry import op
from aot.shapes.checks import checks, possible_sizes
from aot.shapes.cures import Sizing, axes, sizings, zeros
from aot.shapes.dynamic.dims import DynamicDims, constant_ints, no_bound, refused
from aot.shapes.dynamic.rows import along, counted, most_of, picked, whole_numbers, within
from aot.shapes.dynamic.rules import BOOL_TYPE, dynamic, needed
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.operands import lists, one, operands_fit
from aot.shapes.partial_values import PartialValues, lookup
from aot.vendor import Layout, Match, Recorder
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.strided_copy import Axis, move, padded, stored, strides

MODES = ("constant", "edge", "reflect", "wrap")

pad = op(
    "Pad",
    "x pads value? axes?",
    traits=[
        SizedBy("pads axes"),
        Moves("x", fills="value", bytes_only=True),
        Exact(),
        AxesOf("axes", "x"),
    ],
    mode=OneOf("constant reflect edge wrap", "constant"),
    rules=[sizings.by(Sizing(examples={1: zeros, 3: axes})), checks.by(possible_sizes)],
)


@identity("Pad")
def pads_nothing(node: ir.Node) -> bool:
    """Whether a Pad has constant pads that are all 0."""
    pads = array(node.inputs[1])
    return pads is not None and not pads.any()


@permute("Pad")
def padded_before(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted | None:
    """A Pad as it is before a Transpose by `perm`: its amounts in the order of those axes.

    None where the amounts are not constant or the node lists axes.
    """
    amounts = array(node.inputs[1])
    if amounts is None or (len(node.inputs) > 3 and node.inputs[3] is not None):
        return None
    reordered = np.zeros_like(amounts)
    for place, axis in enumerate(perm):
        reordered[axis], reordered[axis + len(perm)] = amounts[place], amounts[place + len(perm)]
    return Permuted(perm, inputs={1: edit.const(reordered, f"{node.name}_pads")})


def before_of(m: Match) -> list[int]:
    """How many elements are added in front of each axis of x; negative numbers are removed ones."""
    pads = [int(p) for p in m.pads.data]
    half = len(pads) // 2
    axes = range(half) if m.axes is None else [int(a) % m.x.rank for a in m.axes.data]
    before = [0] * m.x.rank
    for axis, count in zip(axes, pads[:half], strict=True):
        before[axis] = count
    return before


def merged(
    y: Sequence[int], x: Sequence[int], before: Sequence[int], constant: bool
) -> tuple[list[int], list[int], list[int]]:
    """Shapes of y and x and the front padding in the fewest axes, so that rows are long.

    An axis that keeps all its elements joins the one before it, if that one does too or if whole
    rows of it are added (a constant does not care where it is copied from).
    """
    ys, xs, fronts = [y[0]], [x[0]], [before[0]]
    for extent, own, front in zip(y[1:], x[1:], before[1:], strict=True):
        alone = extent == own and front == 0
        if alone and (constant or (ys[-1] == xs[-1] and fronts[-1] == 0)):
            ys[-1], xs[-1], fronts[-1] = ys[-1] * extent, xs[-1] * own, fronts[-1] * extent
        else:
            ys, xs, fronts = [*ys, extent], [*xs, own], [*fronts, front]
    return ys, xs, fronts


@pad.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that pads and axes are constants, x has 1 to 7 axes, and is not empty unless
    constant.
    """
    yield m.pads.is_const, "pads are computed at run time (needs a constant)"
    yield m.axes is None or m.axes.is_const, "axes are computed at run time (needs a constant)"
    yield 1 <= m.x.rank <= 7, f"rank {m.x.rank} (needs 1 to 7)"
    empty = 0 in m.x.shape and m.mode != "constant"
    yield not empty, f"mode {m.mode!r} of an empty tensor {list(m.x.shape)}"


@pad.layouts
def spatial_only(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocked x stays blocked if no channel is added or removed."""
    layout = incoming["x"]
    if not layout.blocked or m.x.shape[1] != m.y.shape[1] or before_of(m)[1]:
        return {}
    return {"x": layout, "y": layout}


@pad.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_pad with the fewest axes; an empty result is an empty copy."""
    if math.prod(m.y.shape) == 0:
        move(c, m.y, m.x, [Axis(0, 1, 1)])
        return
    before = before_of(m) + [0] * (len(stored(m.x)) - m.x.rank)
    constant = m.mode == "constant"
    # Rows of images stay an axis of their own, so that a call can make them one by one.
    by_rows = constant and m.x.rank == 4 and m.y.shape[2] > 1
    by_rows &= m.x.shape[0] == m.y.shape[0] == 1 and before[:2] == [0, 0]
    cuts = (slice(2), slice(2, 3), slice(3, None)) if by_rows else (slice(None),)
    y, x = stored(m.y), stored(m.x)
    parts = [merged(y[cut], x[cut], before[cut], constant) for cut in cuts]
    shape, source, before = (list(itertools.chain(*own)) for own in zip(*parts, strict=True))
    value = m.value if m.value is not None else c.const(np.zeros(1, m.x.dtype.numpy), "zero")
    params = c.params(
        dims=padded(shape, 1),
        ys=padded(strides(shape), 0),
        xs=padded(strides(source), 0),
        extent=padded(source, 1),
        before=padded(before, 0),
    )
    instance = {"E": m.x.dtype.nbytes, "MODE": MODES.index(m.mode)}
    rowwise = _rowwise(m) if by_rows else None
    c.call("aot_pad", m.y, m.x, value, params, instance=instance, rowwise=rowwise)


def _rowwise(m: Match) -> Rowwise:
    """How rows of one image are padded: the last three axes are planes, rows, and what is in a row.

    A row has its one row of x, or none.
    """
    (_, planes, height, *rest), (_, _, rows, *own) = stored(m.y), stored(m.x)
    fields = (("dims", 6, "one"), ("extent", 6, "rows"), ("before", 6, "0"))
    apart = tuple(
        Planes(k, planes, math.prod(n), f"{name}[5]")
        for k, n, name in ((0, rest, "ys"), (1, own, "xs"))
    )
    window = Window(1, rows, before=before_of(m)[2])
    return Rowwise(height, (0,), window, fields, planes=apart)


@pad.cases
def cases() -> Iterator[Case]:
    """Pad(data, pads, constant_value, axes): every mode, negative pads."""
    half = np.array(0.5, np.float32)
    yield case(f32(2, 3, 4), i64(0, 1, 2, 1, 0, 3), const=(1,))
    x = f32(2, 3, 4)
    cut = np.pad(x[:, :2, 2:], ((0, 1), (1, 0), (0, 3)), constant_values=0.5)
    yield case(x, i64(0, 1, -2, 1, -1, 3), half, const=(1, 2), expected=(cut,))
    yield case(f32(2, 5, 6), i64(0, 2, 3, 1, 4, 5), const=(1,), mode="reflect")
    yield case(f32(1, 1, 40), i64(0, 0, 7, 0, 0, 39), const=(1,), mode="reflect")
    yield case(f32(2, 5), i64(3, 2, 1, 4), const=(1,), mode="edge")
    yield case(f32(2, 5), i64(3, 2, 1, 9), const=(1,), mode="wrap")
    yield case(ints(2, 3, dtype="int64"), i64(2, 1), np.array(7), i64(-1), const=(1, 2, 3))
    yield case(f32(3, 4), i64(1, 1, 1, 1), half, const=(1,))
    yield case(f32(1, 5, 4, 3), i64(0, 0, 0, 0, 0, 0, 3, 0), const=(1,))
    yield case(f32(2, 3, 4, 3), i64(0, 0, 2, 0, 0, 0, 1, 0), const=(1,), mode="reflect")


@dynamic("Pad")
def pad_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Pad with dynamic axes, or by numbers read at run time.

    Axes of known pads are padded by one Pad whose padding holds the same constant; an axis whose
    pads are not known, or that repeats elements of a dynamic axis, is gathered row by row. Refused
    are axes that are read at run time.
    """
    data, wanted = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    axes = list(range(rank))
    if given(node, 3) is not None:
        found = constant_ints(x, given(node, 3))
        if found is None:
            raise refused(node, "gets its axes at run time")
        axes = [a % rank for a in found]
    known = lookup(wanted, x.sweep.partial_values)
    items = known.items() if known is not None else [None] * (2 * len(axes))
    mode = str(attribute(node, "mode", "constant"))
    vector = whole_numbers(x, node, wanted)
    pads = {a: (items[i], items[i + len(axes)]) for i, a in enumerate(axes)}
    for i, axis in enumerate(axes):
        before, after = pads[axis]
        if before is None or after is None:
            ends = x.at(node, vector, i), x.at(node, vector, i + len(axes))
            data = _moved(x, node, data, axis, ends, mode)
            # This axis has its padding now.
            pads[axis] = (0, 0)
        elif axis in x.run_sizes(data) and (before or after) and mode != "constant":
            ends = x.ints(node, [before]), x.ints(node, [after])
            data = _moved(x, node, data, axis, ends, mode)
            pads[axis] = (0, 0)
    _padded(x, node, data, pads, mode)


def _fill(x: DynamicDims, node: ir.Node, data: ir.Value) -> ir.Value:
    """The number that a Pad fills with, as a vector of one element; 0 without an operand."""
    fill = given(node, 2)
    if fill is None:
        return x.const(node, np.zeros(1, dtype_of(data).numpy()), data)
    where = x.ints(node, [1])
    return x.node(node, "Reshape", [fill, where], [(int(dtype_of(data)), (1,))])[0]


def _padded(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    pads: dict[int, tuple[int | None, int | None]],
    mode: str,
) -> None:
    """Replace `node` by a Pad of `data` with known amounts (before, after) by axis.

    Padding of dynamic axes is filled with the same constant first, so that it joins the pads.
    """
    rank = len(shape_of(data))
    known = {a: (int(b or 0), int(e or 0)) for a, (b, e) in pads.items()}
    changed = [a for a, ends in known.items() if any(ends)]
    own = dict(x.run_sizes(data))
    inside = [a for a in changed if a in own]
    if inside:
        data = x.neutral(node, data, _fill(x, node, data), inside)
    shape = list(shape_of(data))
    for axis in changed:
        shape[axis] = max(0, shape[axis] + sum(known[axis]))
    for axis in inside:
        n = x.add(node, own[axis], x.ints(node, [sum(known[axis])]))
        # Negative pads may take away more than there is.
        if sum(known[axis]) < 0:
            n = x.largest(node, n, x.ints(node, [0]))
        own[axis] = x.new(n, shape[axis])
    if changed:
        numbers = [known.get(a, (0, 0))[0] for a in range(rank)]
        numbers += [known.get(a, (0, 0))[1] for a in range(rank)]
        kind = [(int(data.dtype or 0), tuple(shape))]
        inputs = [data, x.ints(node, numbers), given(node, 2)]
        data = x.node(node, "Pad", inputs, kind, mode=mode)[0]
    x.substitute(node, data, own)


def _moved(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    ends: tuple[ir.Value, ir.Value],
    mode: str,
) -> ir.Value:
    """`data` padded along `axis` by amounts `ends` (before, after) that are read at run time.

    Rows are gathered, and rows of padding replaced where the mode is constant. UnsupportedError if
    the amounts have no upper bound.
    """
    size, n = shape_of(data)[axis], x.dim(node, data, axis)
    total = x.add(node, x.add(node, n, ends[0]), ends[1])
    most = most_of(x, total)
    # Written so that infinity and NaN are refused, too.
    if not most <= MAX_ELEMENTS:
        raise no_bound(node, f'the pads of "{original_name(data)}" can be any number')
    bound = max(0, int(most))
    total = x.new(x.largest(node, total, x.ints(node, [0])), bound)
    at = x.sub(node, counted(x, node, bound), ends[0])
    rows = _reflected(x, node, at, n, mode)
    moved = picked(x, node, data, within(x, node, rows, n, size), axis, total)
    if mode != "constant":
        return moved
    kind, rank = int(data.dtype or 0), len(shape_of(data))
    below = x.node(node, "Less", [at, n], [(BOOL_TYPE, (bound,))])[0]
    first = x.node(node, "GreaterOrEqual", [at, x.ints(node, [0])], [(BOOL_TYPE, (bound,))])[0]
    there = x.node(node, "And", [below, first], [(BOOL_TYPE, (bound,))])[0]
    there = along(x, node, there, rank, axis, BOOL_TYPE)
    fill = _fill(x, node, data)
    result = x.node(node, "Where", [there, moved, fill], [(kind, shape_of(moved))])[0]
    x.set(result, x.run_sizes(moved))
    return result


def _reflected(x: DynamicDims, node: ir.Node, at: ir.Value, value: ir.Value, mode: str) -> ir.Value:
    """Which row each position `at` of a padded axis of size `value` repeats, for a mode of Pad.

    Pads longer than the axis go to and fro. UnsupportedError for an unknown mode.
    """
    if mode in ("constant", "edge"):
        return at
    if mode == "reflect":
        last = x.sub(node, value, x.ints(node, [1]))
        there = x.add(node, last, last)
        turn = x.vector(node, "Mod", at, x.largest(node, there, x.ints(node, [1])))
        back = x.sub(node, last, turn)
        return x.sub(node, last, x.vector(node, "Abs", back))
    if mode == "wrap":
        return x.vector(node, "Mod", at, x.largest(node, value, x.ints(node, [1])))
    raise refused(node, f"pads with {mode} along a dimension known at run time only")


@operands_fit("Pad")
def pad_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why pads, axes or the constant of a Pad have a wrong shape; "" if they fit."""
    return lists((1, "pads"), (3, "axes"))(node, partial_values) or one(2, "the constant")(
        node, partial_values
    )
