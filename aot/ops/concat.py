# SPDX-License-Identifier: Apache-2.0
"""Concat and Split: parts live inside the whole where ownership allows, else they are copied."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, Array, attribute, given, set_type, shape_of
from aot.ir.layout import Layout, can_block
from aot.ir.operators import AxisOf, Moves, SizedBy
from aot.load.encode_strings import axis_from_front, encodes
from aot.normalise.identities import alone, identity
from aot.normalise.transposes import along_axis, permute
from aot.ops.registry import op
from aot.shapes.dynamic.dims import Axes, DynamicDims, axis_of, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, fitted, meet, require_equal
from aot.shapes.dynamic.loop_states import joins
from aot.shapes.dynamic.rows import cut_out, made_by, most_of, whole_numbers
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.evaluate import evaluates, integers, need, optional
from aot.shapes.operands import lists, operands_fit
from aot.shapes.partial_values import lookup
from aot.shapes.reference import Inputs
from aot.vendor import Match, Recorder, ValueRef
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.layouts import channels_last, is_channels_last, narrow
from aot.vendor.strided_copy import Axis, copy_part, move, split_at, stored, strides, view_or_move

#: A pattern has a name for each result, so that their number needs a limit.
MAX_PARTS = 64

concat = op(
    "Concat",
    "xs*",
    traits=[Moves()],
    axis=AxisOf("xs"),
    rules=[identity.by(alone), joins.by(axis_of), permute.by(along_axis)],
)
split = op(
    "Split",
    "x sizes?",
    " ".join(f"y{i}" for i in range(MAX_PARTS)),
    traits=[SizedBy("sizes"), Moves("x", fewer=True)],
    axis=AxisOf("x", 0),
    num_outputs=None,
    rules=[
        operands_fit.by(lists((1, "the lengths"))),
        identity.by(lambda node: len(node.outputs) == 1),
    ],
)


@evaluates("Concat")
def concat_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The concatenation of constant parts; Unknown if a part is not known."""
    parts = [need(inputs, i) for i in range(len(inputs))]
    return [np.concatenate(parts, axis=int(attribute(node, "axis", 0)))]


@evaluates("Split")
def split_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The parts of a constant; without sizes all are alike but a smaller last one."""
    data = need(inputs, 0)
    axis = int(attribute(node, "axis", 0))
    sizes = integers(optional(inputs, 1))
    if not sizes:
        count = int(attribute(node, "num_outputs", len(node.outputs)))
        chunk = -(-data.shape[axis] // count)
        sizes = [chunk] * (count - 1) + [data.shape[axis] - chunk * (count - 1)]
    return list(np.split(data, np.cumsum(sizes)[:-1], axis=axis))


@concat.check
def concat_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Check that the axis is said: every version of Concat since 4 demands it."""
    yield m.axis is not None, "attribute axis is missing"


@concat.layouts
def concat_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts of parts and result: blocked if most elements arrive so, else plain.

    All is plain if a part of few channels, which arrives plain, would have to be blocked.
    """
    inputs = [(n, v) for n, v in m.inputs() if not v.is_const]
    if any(is_channels_last(v, incoming[n]) for n, v in inputs) and can_block(m.y.shape):
        return {n: channels_last(v) for n, v in m.values.items() if v is not None and v.shape[1]}
    if any(not incoming[n].blocked and v.rank > 1 and narrow(v.shape[1], vlen) for n, v in inputs):
        return {}
    found = [incoming[n] for n, _ in inputs if incoming[n].blocked]
    weight = sum(math.prod(v.shape) * (1 if incoming[n].blocked else -1) for n, v in inputs)
    if not found or weight <= 0 or not can_block(m.y.shape):
        return {}
    return {n: found[0] for n in m.values}


@concat.lower
def concat_to_kernel(c: Recorder, m: Match) -> None:
    """Record the concatenation of the operands that hold elements, along `axis`.

    No call where they can be made in their places in y; else a strided copy of each. Channels
    in blocks need their own kernel where a part does not begin at a block.
    """
    parts = [x for x in m.xs if x is not None and math.prod(x.shape) > 0]
    axis = m.axis % m.y.rank
    if not parts:
        move(c, m.y, m.xs[0], [Axis(0, 1, 1)])
        return
    starts = [0, *itertools.accumulate(p.shape[axis] for p in parts)][:-1]
    block = m.y.layout.block if axis == 1 and m.y.layout.blocked else 0
    # With channels last there are no blocks: channels are the last axis in memory.
    if block and is_channels_last(m.y, m.y.layout):
        axis, block = m.y.rank, 0
    if block:
        _blocked(c, m.y, parts, starts, block)
        return
    shape = stored(m.y)
    outer, _, inner = split_at(shape, axis)
    nbytes = m.y.dtype.nbytes * inner
    # Parts are stretches of y only if no axis is outside the one that they follow each other on.
    if outer == 1 and c.concat_view(m.y, parts, [s * nbytes for s in starts]):
        return
    for part, start in zip(parts, starts, strict=True):
        copy_part(c, m.y, part, axis, start)


def _blocked(
    c: Recorder, y: ValueRef, parts: list[ValueRef], starts: list[int], block: int
) -> None:
    """Record the concatenation of `parts` along channels that are stored in blocks of `block`.

    `starts` are the first channels of the parts in y. Parts that begin at a block, of one batch,
    are made in place.
    """
    n, _, *spatial = y.shape
    plane = math.prod(spatial) * y.dtype.nbytes
    whole = all(s % block == 0 for s in starts)
    if n == 1 and whole and c.concat_view(y, parts, [s * plane for s in starts]):
        return
    for i, (part, start) in enumerate(zip(parts, starts, strict=True)):
        channels(c, y, part, start, 0, part.shape[1], first=i == 0)


def channels(
    c: Recorder, y: ValueRef, x: ValueRef, y0: int, x0: int, count: int, first: bool = True
) -> None:
    """Record the copy of `count` channels of x from `x0` on to channels of y from `y0` on, both
    blocked.

    `first` says that nothing was written to y before; later copies keep its other channels.
    """
    block, n, spatial = y.layout.block, y.shape[0], math.prod(y.shape[2:])
    # Later parts update y: they keep the channels written before.
    to = c.write(y) if first else c.update(y)
    params = c.params(
        n=n,
        s=spatial,
        count=count,
        y0=y0,
        x0=x0,
        y_step=math.prod(stored(y)[1:]),
        x_step=math.prod(stored(x)[1:]),
    )
    instance = {"E": y.dtype.nbytes, "V": block}
    c.call("aot_blocked_channels", to, c.read(x), params, instance=instance)


@concat.cases
def concat_cases() -> Iterator[Case]:
    """Concat(inputs) along each axis, negative ones too, with empty operands."""
    yield case(f32(2, 3, 4), f32(2, 5, 4, seed=1), f32(2, 1, 4, seed=2), axis=1)
    yield case(f32(2, 3, 4), f32(2, 3, 2, seed=1), axis=-1)
    yield case(f32(3, 2), f32(1, 2, seed=1), axis=0, const=(1,))
    yield case(ints(2, 3, dtype="int8"), ints(2, 3, dtype="int8", seed=1), axis=1)
    yield case(f32(2, 3), np.zeros((2, 0), np.float32), f32(2, 2), axis=1)
    yield case(ints(2, 2), axis=0)


@split.check
def split_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the parts are not too many for the names of the pattern."""
    count = len(m.root.ir.outputs)
    yield count <= MAX_PARTS, f"{count} outputs (at most {MAX_PARTS})"


@split.layouts
def split_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts of a Split: parts are blocked as the input is; plain input gives plain parts."""
    layout = incoming["x"]
    if not layout.blocked:
        return {}
    results = {n: v for n in m.output_names if (v := m.values[n]) is not None}
    if is_channels_last(m.x, layout) and all(v.shape[1] for v in results.values()):
        return {"x": layout, **{n: channels_last(v) for n, v in results.items()}}
    return {"x": layout, **dict.fromkeys(results, layout)}


@split.lower
def split_to_kernel(c: Recorder, m: Match) -> None:
    """Record each part that is read: as a view where it is contiguous, else as a copy."""
    axis, start = m.axis % m.x.rank, 0
    xs = strides(stored(m.x))
    sizes = _sizes(m, axis)
    if axis == 1 and is_channels_last(m.x, m.x.layout):
        axis = m.x.rank
    for name, size in zip(m.output_names, sizes, strict=False):
        y = m.values[name]
        if y is not None:
            if m.x.layout.blocked and axis == 1:
                take_channels(c, y, m.x, start)
            else:
                ys = strides(stored(y))
                axes = [Axis(n, a, b) for n, a, b in zip(stored(y), ys, xs, strict=True)]
                view_or_move(c, y, m.x, axes, start * xs[axis])
        start += size


def take_channels(c: Recorder, y: ValueRef, x: ValueRef, start: int) -> None:
    """Record y = channels of x from `start` on, both blocked: a view where possible."""
    offset = start * math.prod(x.shape[2:]) * x.dtype.nbytes
    if x.shape[0] == 1 and start % x.layout.block == 0:
        c.view(y, x, offset)
    else:
        channels(c, y, x, 0, start, y.shape[1])


def _sizes(m: Match, axis: int) -> list[int]:
    """The sizes of all parts along `axis`, those of unused outputs included.

    They are the operand's constants, or even parts with a smaller last one.
    """
    if m.sizes is not None and m.sizes.is_const:
        return [int(s) for s in m.sizes.data]
    count, extent = len(m.root.ir.outputs), m.x.shape[axis]
    each = -(-extent // count)
    return [min(each, extent - i * each) for i in range(count)]


@split.cases
def split_cases() -> Iterator[Case]:
    """Split(input, split) into sizes that differ, of several types."""
    yield case(f32(2, 6, 3), i64(1, 3, 2), const=(1,), axis=1, outputs=3)
    yield case(ints(2, 6, 3, dtype="int8"), i64(1, 3, 2), const=(1,), axis=1, outputs=3)
    yield case(f32(6, 3), i64(4, 2), const=(1,), axis=0, outputs=2)
    yield case(f32(2, 7), axis=-1, num_outputs=3, outputs=3)


@dynamic("Concat")
def concat_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Concat: along other axes all parts must agree, which runs compare.

    Along a dynamic `axis` the parts move together at run time. UnsupportedError if parts surely
    differ.
    """
    axis = axis_of(node, len(shape_of(needed(node, 0))))
    _settle(x, node, axis)
    parts = {i: v for i, v in enumerate(node.inputs) if v is not None}
    found: Axes = {}
    for value in parts.values():
        for a, n in x.run_sizes(value).items():
            if a != axis:
                meet(x, node, found, a, n)
    fit_inputs(x, node, {i: {a: a for a in found} for i in parts})
    if any(axis in x.run_sizes(v) for v in parts.values()):
        _joined(x, node, axis, found)
    else:
        pass_on(x, node, found)


def _settle(x: DynamicDims, node: ir.Node, axis: int) -> None:
    """Give parts of unknown size the size that another part is known to have, but along `axis`.

    Every run compares the two. UnsupportedError for a part that is never as long, or as long as
    the caller says.
    """
    parts = [v for v in node.inputs if v is not None]
    for a in {a for v in parts for a in x.run_sizes(v) if a != axis}:
        known = next((shape_of(v)[a] for v in parts if a not in x.run_sizes(v)), None)
        if known is None:
            continue
        for index, value in enumerate(node.inputs):
            own = x.run_sizes(value)
            if value is None or a not in own:
                continue
            if x.said(own[a]):  # the range that the caller gives it would have one size that fits
                raise refused(node, "joins parts of known and of unknown size")
            if shape_of(value)[a] < known:
                raise refused(node, f"joins {known} and fewer elements along dimension {a}")
            require_equal(x, node, own[a], x.ints(node, [known]))
            part = fitted(x, node, value, a, known)
            kind = [(int(part.dtype or 0), shape_of(part))]
            (part,) = x.node(node, "Identity", [part], kind)
            x.set(part, {b: n for b, n in own.items() if b != a})
            node.replace_input_with(index, part)


def _can_grow(x: DynamicDims, value: ir.Value) -> bool:
    """Whether `value` is an input of the model or a state, read by one node only.

    Then new rows can be appended in its own memory.
    """
    alone = len(value.uses()) == 1 and not value.is_graph_output()
    return alone and (value in x.kept or made_by(value, "Spread"))


def _joined(x: DynamicDims, node: ir.Node, axis: int, found: Axes) -> None:
    """Replace a Concat along a dynamic axis by a Join, or by an Append to a value that can grow.

    `found` has the dynamic sizes of the other axes.
    """
    parts = [v for v in node.inputs if v is not None]
    lengths = [x.dim(node, v, axis) for v in parts]
    sizes = x.joined(node, lengths)
    bounds = [shape_of(v)[axis] for v in parts]
    shape = list(shape_of(parts[0]))
    shape[axis] = sum(bounds)
    total = lengths[0]
    for n in lengths[1:]:
        total = x.add(node, total, n)
    kind = [(int(parts[0].dtype or 0), shape)]
    if len(parts) == 2 and _can_grow(x, parts[0]):
        # What is at its bound with zeros behind it gets room for the new rows.
        set_type(parts[0], kind[0][0], tuple(shape))
        y = x.node(node, "Append", [*parts, *lengths], kind, DYNAMIC, axis=axis)[0]
        x.substitute(node, y, {**found, axis: x.new(total, sum(bounds))})
        return
    y = x.node(node, "Join", [sizes, *parts], kind, DYNAMIC, axis=axis)[0]
    x.substitute(node, y, {**found, axis: x.new(total, sum(bounds))})


@dynamic("Split")
def split_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Split of a dynamic axis, or into parts whose sizes are read at run time.

    Parts are cut out one after the other, each with the upper bound that is known of its size.
    Without sizes every part has ceil(n / parts) elements, the last ones fewer. A known axis with
    known sizes keeps the node, and all dynamic axes pass. Refused: sizes that may not add up to the
    axis.
    """
    data, sizes = needed(node, 0), given(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    known = None if sizes is None else lookup(sizes, x.sweep.partial_values)
    if axis not in x.run_sizes(data) and (sizes is None or (known is not None and known.full)):
        pass_on(x, node, x.run_sizes(data))
        return
    count, size = len(node.outputs), shape_of(data)[axis]
    n = x.dim(node, data, axis)
    if sizes is None:
        each = x.add(node, n, x.ints(node, [count - 1]))
        each = x.div(node, each, x.ints(node, [count]))
        parts = [each] * count
        bounds = [-(-size // count)] * count
    else:
        vector = whole_numbers(x, node, sizes)
        parts = [x.at(node, vector, i) for i in range(count)]
        # A size that nothing bounds has the upper end infinity.
        bounds = [int(min(float(size), max(0.0, most_of(x, p)))) for p in parts]
    start = x.ints(node, [0])
    made = []
    for part, bound in zip(parts, bounds, strict=True):
        end = x.add(node, start, part)
        made.append(cut_out(x, node, data, axis, start, end, bound))
        start = end
    if sizes is not None and x.said(n) and x.said(start):
        require_equal(x, node, n, start, "has parts that may not fill the axis")
    for old, (new, axes) in zip(list(node.outputs), made, strict=True):
        x.become(old, new, axes)
    x.drop(node)


encodes("Concat Split")(axis_from_front)
