# SPDX-License-Identifier: Apache-2.0
"""Resize along dynamic axes, or to sizes that are computed.

By a known scale: the last row is repeated in the padding, where the operator would look beyond the
end. By any other: every row of the result is picked, or mixed of its neighbours, by numbers that
are computed.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, attribute, dtype_of, given, original_name, shape_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, no_bound, refused
from aot.shapes.dynamic.rows import along, edge, most_of, picked, within
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup
from aot.shapes.symbolic import multiply, number

FLOAT, DOUBLE = 1, 11
PLAIN_COORDINATES = ("half_pixel", "asymmetric", "pytorch_half_pixel")
"""Coordinates that do not depend on how long the axis is, unless the result has one row."""

COORDINATES = (*PLAIN_COORDINATES, "align_corners")


def resize(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Resize of dynamic axes, or to sizes computed at run time.

    By known scales one Resize at the upper bounds does it, else rows are picked or mixed axis by
    axis. UnsupportedError for modes that neither way can do.
    """
    data = needed(node, 0)
    rank = len(shape_of(data))
    axes = [int(a) % rank for a in attribute(node, "axes", None) or range(rank)]
    scales = _scales(x, node, data, axes)
    lengths = {a: _length(x, node, data, a, s) for a, s in scales.items() if s != 1}
    if any(s is None for s in scales.values()) or not _is_plain(x, node, lengths):
        _by_rows(x, node, data, scales, lengths)
    else:
        _by_scale(x, node, data, scales, lengths)


def _scales(
    x: DynamicDims, node: ir.Node, data: ir.Value, axes: list[int]
) -> dict[int, float | None]:
    """By axis the factor by which it grows; None where only a run knows.

    UnsupportedError for scales at run time, neither scales nor sizes, or a ratio that is to be
    kept.
    """
    given_scales, sizes = given(node, 2), given(node, 3)
    found: dict[int, float | None] = {}
    if given_scales is not None and shape_of(given_scales) != (0,):
        known = lookup(given_scales, x.sweep.partial_values)
        if known is None or not known.full:
            raise refused(node, "gets its scales at run time")
        return {a: float(v) for a, v in zip(axes, known.data.ravel(), strict=True)}
    if sizes is None or x.run_sizes(sizes):
        raise refused(node, "gets neither scales nor sizes")
    if str(attribute(node, "keep_aspect_ratio_policy", "stretch")) != "stretch":
        raise refused(node, "keeps the ratio of dimensions known at run time only")
    terms = x.terms.of(sizes)
    for i, axis in enumerate(axes):
        n = x.dim(node, data, axis)
        own = x.terms.of(n)[0]
        # Polynomials of sizes tell whole factors only, and no more than 64 are tried.
        times = (k for k in range(1, 65) if terms[i] == multiply(own, number(k)))
        found[axis] = next(map(float, times), None)
    return found


def _length(
    x: DynamicDims, node: ir.Node, data: ir.Value, axis: int, scale: float | None
) -> ir.Value:
    """The size of an axis of the result, an int64 vector of one element, with its upper bound.

    `scale` None means that the operand `sizes` says the size. UnsupportedError if it has no upper
    bound.
    """
    n, size = x.dim(node, data, axis), shape_of(data)[axis]
    if scale is not None and float(scale).is_integer():
        return x.new(x.mul(node, n, x.ints(node, [int(scale)])), int(scale) * size)
    if scale is not None and scale > 0 and float(1 / scale).is_integer():
        by = round(1 / scale)
        return x.new(x.div(node, n, x.ints(node, [by])), size // by)
    if scale is not None:
        # In float32, as onnx and onnxruntime do.
        single = x.node(node, "Cast", [n], [(FLOAT, (1,))], to=FLOAT)[0]
        factor = x.const(node, np.full(1, scale, np.float32), single)
        product = x.node(node, "Mul", [single, factor], [(FLOAT, (1,))])[0]
        whole = x.node(node, "Floor", [product], [(FLOAT, (1,))])[0]
        made = x.node(node, "Cast", [whole], [(INT64, (1,))], to=INT64)[0]
        return x.new(made, int(np.floor(np.float32(size) * np.float32(scale))))
    sizes = needed(node, 3)
    rank = len(shape_of(data))
    axes = [int(a) % rank for a in attribute(node, "axes", None) or range(rank)]
    made = x.at(node, sizes, axes.index(axis))
    most = most_of(x, made)
    if not most <= MAX_ELEMENTS:
        raise no_bound(node, f'dimension {axis} is an element of "{original_name(sizes)}"')
    return x.new(made, max(0, int(most)))


def _double(x: DynamicDims, node: ir.Node, value: ir.Value) -> ir.Value:
    """The value cast to float64."""
    return x.node(node, "Cast", [value], [(DOUBLE, shape_of(value))], to=DOUBLE)[0]


def _is_plain(x: DynamicDims, node: ir.Node, lengths: dict[int, ir.Value]) -> bool:
    """Whether one Resize at the upper bounds is right once the padding repeats the last row.

    `lengths` are the sizes of the result by axis. UnsupportedError for antialias.
    """
    coordinates = str(attribute(node, "coordinate_transformation_mode", "half_pixel"))
    if coordinates not in PLAIN_COORDINATES or attribute(node, "exclude_outside", 0):
        return False
    if attribute(node, "antialias", 0):
        raise refused(node, "smooths along a dimension known at run time only")
    if coordinates != "pytorch_half_pixel":
        return True
    limits = [x.interval(n) for n in lengths.values()]
    return all(v is not None and v.low[0] > 1 for v in limits)


def _by_scale(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    scales: dict[int, float | None],
    lengths: dict[int, ir.Value],
) -> None:
    """Replace the node by one Resize at the upper bounds by known `scales` of axes.

    The last real row is repeated in the padding, where the operator would look beyond the end.
    """
    own = x.run_sizes(data)
    for axis in own:
        if axis in lengths:
            data = edge(x, node, data, axis)
    shape = shape_of(data)
    factors = [float(scales.get(a) or 1.0) for a in range(len(shape))]
    result = tuple(int(np.floor(d * np.float32(f))) for d, f in zip(shape, factors, strict=True))
    like = x.const(node, np.array(factors, np.float32), _float(x, node))
    how = {k: v.value for k, v in node.attributes.items() if k != "axes"}
    kind = [(int(data.dtype or 0), result)]
    y = x.node(node, "Resize", [data, given(node, 1), like], kind, **how)[0]
    x.substitute(node, y, _axes(x, own, lengths))


def _float(x: DynamicDims, node: ir.Node) -> ir.Value:
    """Some value of type float32, as a pattern for constants of this type."""
    one = x.ints(node, [1])
    return x.node(node, "Cast", [one], [(FLOAT, (1,))], to=FLOAT)[0]


def _axes(x: DynamicDims, own: Axes, lengths: dict[int, ir.Value]) -> Axes:
    """The dynamic axes of the result: those of x that keep their size, and changed ones not
    known.
    """
    changed = {a: n for a, n in lengths.items() if a in own or not _is_known(x, n)}
    return {**{a: n for a, n in own.items() if a not in lengths}, **changed}


def _is_known(x: DynamicDims, value: ir.Value) -> bool:
    """Whether all elements of the value are known at compile time."""
    known = lookup(value, x.sweep.partial_values)
    return known is not None and known.full


def _by_rows(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    scales: dict[int, float | None],
    lengths: dict[int, ir.Value],
) -> None:
    """Replace the node by rows that are picked or mixed along one axis after the other.

    UnsupportedError for antialias, integers to mix, and coordinates that need a known scale.
    """
    mode = str(attribute(node, "mode", "nearest"))
    coordinates = str(attribute(node, "coordinate_transformation_mode", "half_pixel"))
    outside = mode == "cubic" and attribute(node, "exclude_outside", 0)
    if outside or coordinates not in COORDINATES:
        what = f"has mode {mode} and coordinates {coordinates}"
        raise refused(node, f"{what}, for which the scale must be known,")
    if attribute(node, "antialias", 0):
        raise refused(node, "smooths along a dimension known at run time only")
    if mode != "nearest" and data.dtype is not None and data.dtype.numpy().kind != "f":
        raise refused(node, "mixes integers along a dimension known at run time only")
    own = x.run_sizes(data)
    for axis, length in lengths.items():
        place = _place(x, node, data, axis, length, scales[axis], coordinates)
        if mode == "nearest":
            data = _nearest(x, node, data, axis, length, place)
        else:
            data = _mixed(x, node, data, axis, length, place)
    # If no row changed, `data` is what the node reads, which must not take over its results.
    y = x.node(node, "Identity", [data], [(int(data.dtype or 0), shape_of(data))])[0]
    x.substitute(node, y, _axes(x, own, lengths))


def _place(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    length: ir.Value,
    scale: float | None,
    coordinates: str,
) -> ir.Value:
    """Where in `data` each row of the result lies along `axis`, float64 [upper bound], in rows.

    `scale` is None where the size is given; `coordinates` is ONNX's coordinate_transformation_mode.
    """
    bound = max(0, int(most_of(x, length)))
    typed = [(DOUBLE, (bound,))]
    n, total = _double(x, node, x.dim(node, data, axis)), _double(x, node, length)
    half, one = (x.const(node, np.full(1, v), n) for v in (0.5, 1.0))
    rows = x.const(node, np.arange(bound, dtype=np.float64), n)
    if coordinates == "align_corners":
        top = x.node(node, "Sub", [n, one], [(DOUBLE, (1,))])[0]
        by = x.node(node, "Sub", [total, one], [(DOUBLE, (1,))])[0]
        by = x.node(node, "Max", [by, one], [(DOUBLE, (1,))])[0]  # one row: row 0
        return x.node(node, "Div", [x.node(node, "Mul", [rows, top], typed)[0], by], typed)[0]
    pixel = coordinates != "asymmetric"
    if pixel:
        rows = x.node(node, "Add", [rows, half], typed)[0]
    if scale is None:
        rows = x.node(node, "Mul", [rows, n], typed)[0]
        by = x.node(node, "Max", [total, one], [(DOUBLE, (1,))])[0]
    else:
        by = x.const(node, np.full(1, np.float32(scale), np.float64), n)
    rows = x.node(node, "Div", [rows, by], typed)[0]
    if pixel:
        rows = x.node(node, "Sub", [rows, half], typed)[0]
    if coordinates == "pytorch_half_pixel":
        zero = x.const(node, np.zeros(1), n)
        many = x.node(node, "Greater", [total, one], [(9, (1,))])[0]
        rows = x.node(node, "Where", [many, rows, zero], typed)[0]
    return rows


def _numbers(x: DynamicDims, node: ir.Node, op_type: str, place: ir.Value) -> ir.Value:
    """The int64 row numbers that float64 places become by `op_type`, Floor or Ceil."""
    shape = shape_of(place)
    whole = x.node(node, op_type, [place], [(DOUBLE, shape)])[0]
    return x.node(node, "Cast", [whole], [(INT64, shape)], to=INT64)[0]


def _nearest(
    x: DynamicDims, node: ir.Node, data: ir.Value, axis: int, length: ir.Value, place: ir.Value
) -> ir.Value:
    """`data` with `length` rows along `axis`, each the row nearest to its place, as nearest_mode
    rounds.
    """
    how = str(attribute(node, "nearest_mode", "round_prefer_floor"))
    if how.startswith("round"):
        half = x.const(node, np.full(1, 0.5), place)
        floor = how == "round_prefer_floor"
        typed = [(DOUBLE, shape_of(place))]
        place = x.node(node, "Sub" if floor else "Add", [place, half], typed)[0]
        how = "ceil" if floor else "floor"
    rows = _numbers(x, node, "Ceil" if how == "ceil" else "Floor", place)
    n = x.dim(node, data, axis)
    rows = within(x, node, rows, n, shape_of(data)[axis])
    return picked(x, node, data, rows, axis, length)


def _mixed(
    x: DynamicDims, node: ir.Node, data: ir.Value, axis: int, length: ir.Value, place: ir.Value
) -> ir.Value:
    """`data` with `length` rows along `axis`, each a weighted sum of the rows around its place.

    Weights are polynomials of how far the place lies behind the row before it.
    """
    kind, count = int(dtype_of(data)), shape_of(place)[0]
    n, size = x.dim(node, data, axis), shape_of(data)[axis]
    factors = _weights(node).astype(dtype_of(data).numpy())
    degree, rows = factors.shape
    floor = x.node(node, "Floor", [place], [(DOUBLE, (count,))])[0]
    part = x.node(node, "Sub", [place, floor], [(DOUBLE, (count,))])[0]
    # In float32 the fraction of a place far along the axis would be lost, so it is narrowed last.
    part = x.node(node, "Cast", [part], [(kind, (count,))], to=kind)[0]
    powers = x.const(node, np.arange(degree, dtype=factors.dtype), data)
    part = along(x, node, part, 2, 0, kind)
    part = x.node(node, "Pow", [part, powers], [(kind, (count, degree))])[0]
    matrix = x.const(node, factors, data)
    shares = x.node(node, "MatMul", [part, matrix], [(kind, (count, rows))])[0]
    first, total = _numbers(x, node, "Floor", place), None
    for index in range(rows):
        behind = x.add(node, first, x.ints(node, [index - (rows - 1) // 2]))
        side = picked(x, node, data, within(x, node, behind, n, size), axis, length)
        typed = [(kind, shape_of(side))]
        column, column_type = x.ints(node, [index]), [(kind, (count, 1))]
        share = x.node(node, "Gather", [shares, column], column_type, axis=1)[0]
        factor = along(x, node, share, len(shape_of(data)), axis, kind)
        product = x.node(node, "Mul", [side, factor], typed)[0]
        own = x.run_sizes(side)
        total = product if total is None else x.node(node, "Add", [total, product], typed)[0]
    assert total is not None
    x.set(total, own)
    return total


def _weights(node: ir.Node) -> Array:
    """The weights as coefficients [power of t, row around a place], t being the place's fraction.

    Two rows for linear, four for cubic interpolation by Keys.
    """
    if str(attribute(node, "mode", "nearest")) == "linear":
        return np.array([[1, 0], [-1, 1]], np.float64)
    a = float(attribute(node, "cubic_coeff_a", -0.75))
    return np.array(
        [[0, 1, 0, 0], [a, 0, -a, 0], [-2 * a, -a - 3, 2 * a + 3, a], [a, a + 2, -a - 2, -a]],
    )


@dynamic("Resize")
def resize_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Resize: they pass where no dynamic axis changes, else it is
    replaced.
    """
    data = needed(node, 0)
    rank = len(shape_of(data))
    axes = [int(a) % rank for a in attribute(node, "axes", None) or range(rank)]
    known = [lookup(given(node, i), x.sweep.partial_values) for i in (2, 3)]
    whole = known[0]
    if whole is not None and whole.full and whole.data.size:
        factors = dict(zip(axes, whole.data.ravel(), strict=True))
        if x.run_sizes(data) and all(factors.get(a, 1.0) == 1.0 for a in x.run_sizes(data)):
            pass_on(x, node, x.run_sizes(data))
            return
    resize(x, node)
