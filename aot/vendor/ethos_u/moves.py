# SPDX-License-Identifier: Apache-2.0
"""Operators that move quantised values, and Resize."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    Case,
    Layout,
    Match,
    Resize,
    ValueRef,
    case,
    channels_last,
    dequantised,
    quantised,
    quantised_values,
    wildcard,
)
from aot.vendor.ethos_u.configs import Npu
from aot.vendor.ethos_u.layer import Layer, padded
from aot.vendor.ethos_u.layers import follow
from aot.vendor.ethos_u.values import (
    Builder,
    Checks,
    order,
    quantisations,
    shape_of,
    step_of,
    with_positions,
)

X = wildcard("x")


def _ints(value: Any) -> list[int]:
    """The elements of the integer constant `value` as a flat list in row-major order."""
    return [int(n) for n in np.ravel(value.data)]


# -- Concat -------------------------------------------------------------------------------------


def concat_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a Concat of computed parts."""
    computed = all(v is not None and not v.is_const for v in m.xs)
    yield computed, "a part that is constant or absent"
    if computed:
        fits = all(v.dtype is m.y.dtype and 0 not in v.shape for v in m.xs)
        yield fits, "a part that is empty"


def concat_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last as soon as one part has them last."""
    last = m.y.rank > 2 and any(layout.blocked for layout in incoming.values())
    return with_positions(*m.values)(m, incoming, vlen) if last else {}


def emit_concat(b: Builder, m: Match) -> None:
    """CONCATENATION along the axis where it is stored."""
    axis = order(m.y.rank, m.y.layout).index(int(m.root.attr("axis")) % m.y.rank)
    axis += (len(shape_of(m.y)) - m.y.rank) * (axis > 0)
    b.net.op("CONCATENATION", [b.read(v) for v in m.xs], b.enter(m.y), axis=axis)


# -- Pad ----------------------------------------------------------------------------------------


def pad_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a Pad by the zero point, by constant numbers of positions."""
    mode = str(m.root.attr("mode", "constant"))
    yield mode == "constant", f"mode {mode!r} (needs 'constant')"
    known = m.pads.is_const and all(v is None or v.is_const for v in (m.value, m.axes))
    yield known, "pads that are computed at run time"
    if known:
        pads = _pads(m)
        yield min(map(min, pads), default=0) >= 0, f"negative pads {pads}"
        with_zero = 0 if m.value is None else int(np.reshape(m.value.data, ()))
        zero = step_of(m.x)[1]
        yield with_zero == zero, f"pads with {with_zero} (needs the zero point, {zero})"


def _pads(m: Match) -> list[tuple[int, int]]:
    """(before, after) of every axis."""
    axes = range(m.x.rank) if m.axes is None else _ints(m.axes)
    found, given = [(0, 0)] * m.x.rank, _ints(m.pads)
    for i, axis in enumerate(axes):
        found[axis % m.x.rank] = given[i], given[i + len(given) // 2]
    return found


def emit_pad(b: Builder, m: Match) -> None:
    """PAD."""
    pads = [_pads(m)[a] for a in order(m.x.rank, m.x.layout)]
    pads[1:1] = [(0, 0)] * (len(shape_of(m.x)) - m.x.rank)
    b.define(m.y, padded(b, b.read(m.x), pads))


# -- Resize -------------------------------------------------------------------------------------

#: TensorFlow Lite's ways to find the elements of an axis: what a position of the result is on x.
WAYS = {
    "asymmetric": ({}, lambda i, x, y: i * x / y),
    "half_pixel": ({"half_pixel": True}, lambda i, x, y: (i + 0.5) * x / y),
    "align_corners": ({"align_corners": True}, lambda i, x, y: i * (x - 1) / max(y - 1, 1)),
}


def _way(m: Match) -> str:
    """What TensorFlow Lite calls the positions of a Resize; "" if it cannot have them."""
    found, linear = (
        Resize.of(m) if m.root.op_type == "Resize" else _resize(m),
        m.root.op_type != "Resize",
    )
    for name, (_, position) in WAYS.items():
        if all(_same(found, plan, name, position, linear) for plan in found.plans()):
            return name
    return ""


def _resize(m: Match) -> Resize:
    """The Resize between DequantizeLinear and QuantizeLinear of a match, with its operands."""
    return Resize(m.x, m.y, m.roi, m.scales, m.sizes, m.op)


def _same(found: Resize, plan: Any, name: str, position: Any, linear: bool) -> bool:
    """Whether TensorFlow Lite finds the elements of a Resize along one axis, described by `plan`.

    `position(i, source, result)` gives its positions of the way `name`. Linear positions are
    compared where they are not below 0, nearest ones as indices.
    """
    i = np.arange(plan.result, dtype=np.float64)
    there = position(i, plan.source, plan.result)
    if linear:
        there = there - 0.5 if name == "half_pixel" else there
        return bool(np.allclose(np.clip(found.positions(plan), 0, None), np.clip(there, 0, None)))
    # A quotient of whole numbers may lie a rounding below the whole number that it is.
    nearest = np.floor(there + 0.5) if name == "align_corners" else np.floor(there + 1e-9)
    return np.array_equal(found.nearest(plan), np.clip(nearest, 0, plan.source - 1))


def resize_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a Resize of height and width whose elements TensorFlow Lite finds too."""
    own = m.root.op_type == "Resize"
    found, mode = Resize.of(m) if own else _resize(m), "nearest" if own else "linear"
    conditions = list(found.checks())
    yield from conditions
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"
    yield found.mode == mode, f"mode {found.mode!r} (needs {mode!r} here)"
    special = found.antialias or found.exclude_outside
    yield not special, "antialias or exclude_outside"
    if m.x.rank == 4 and all(ok for ok, _ in conditions) and found.mode == mode and not special:
        axes = [p.axis for p in found.plans()]
        yield set(axes) <= {2, 3}, f"axes {axes} (needs height and width)"
        yield bool(_way(m)), "elements that TensorFlow Lite finds elsewhere"
    if not own:
        steps = {(float(m.sx.data), *_zero(m.zx)), (float(m.sy.data), *_zero(m.zy))}
        yield len(steps) == 1, "scale or zero point of the result differ from those of x"


def _zero(value: ValueRef | None) -> tuple[int]:
    """A constant zero point as a tuple of one; 0 where it is absent or not constant."""
    return (0 if value is None or value.data is None else int(np.reshape(value.data, ())),)


def emit_resize(b: Builder, m: Match) -> None:
    """RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR."""
    kind = "NEAREST_NEIGHBOR" if m.root.op_type == "Resize" else "BILINEAR"
    size = b.net.const(np.array(m.y.shape[2:], np.int32))
    options: dict[str, bool] = WAYS[_way(m)][0]
    b.net.op(f"RESIZE_{kind}", [b.read(m.x), size], b.enter(m.y), **options)


# -- shapes -------------------------------------------------------------------------------------


def beside(m: Match, npu: Npu) -> Checks:
    """Check that something beside a move computes: alone it is left to others."""
    kinds = {u.op_type for u, _ in m.y.ir.uses()}
    made = m.x.ir.producer()
    kinds |= set() if made is None else {made.op_type}
    near = kinds & {"QuantizeLinear", "DequantizeLinear", "MaxPool", "Concat", "Pad", "Resize"}
    yield bool(near) and bool(quantisations(m.x.ir)), "nothing beside it is computed here"


def permutation(m: Match) -> list[int]:
    """The axes of x in the order of y's."""
    return [int(p) for p in m.root.attr("perm") or range(m.x.rank)[::-1]]


def transpose_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """x as it comes; y channels last where x has them last already."""
    rank, wanted = m.x.rank, {}
    if incoming["x"].blocked and rank > 2:
        wanted["x"] = channels_last(m.x)
    elif rank > 2 and permutation(m) == [0, rank - 1, *range(1, rank - 1)]:
        wanted["y"] = channels_last(m.y)
    return wanted


def emit_reshape(b: Builder, m: Match) -> None:
    """Add a RESHAPE of a value that is stored in ONNX's order."""
    x, flat = b.read(m.x), ValueRef(m.x.ir)
    if m.x.layout.blocked and m.y.rank == 2 and m.y.shape[0] == m.x.shape[0]:
        b.flattened[m.y.name] = x, m.x
    b.define(m.y, lambda: b.net.reshape(b.transposed(x, m.x, range(m.x.rank), flat), shape_of(m.y)))


def reads_last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """x as it comes."""
    return {"x": channels_last(m.x)} if incoming["x"].blocked and m.x.rank > 2 else {}


# -- cases --------------------------------------------------------------------------------------


def concat_cases() -> Iterator[Case]:
    """Cases of a Concat of two int8 tensors [1, 4, 3, 5] along axes 1, 2 and -1."""
    for axis in (1, 2, -1):
        first, other = quantised_values(1, 4, 3, 5), quantised_values(1, 4, 3, 5, seed=1)
        yield case(first, other, axis=axis)


def pad_cases() -> Iterator[Case]:
    """A case of a Pad of height and width by the zero point 0."""
    pads = np.array([0, 0, 1, 2, 0, 3, 0, 1], np.int64)
    yield case(quantised_values(1, 3, 4, 5), pads, np.array(0, np.int8), None, const=(1, 2))


def nearest_cases() -> Iterator[Case]:
    """Cases of a nearest Resize to twice the size, with the two ways that TensorFlow Lite has."""
    for way, rounding in (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil")):
        scales = np.array([1, 1, 2, 2], np.float32)
        named: dict[str, Any] = {
            "mode": "nearest",
            "coordinate_transformation_mode": way,
            "nearest_mode": rounding,
        }
        yield case(quantised_values(1, 3, 4, 5), None, scales, None, const=(2,), **named)


def bilinear_cases() -> Iterator[Case]:
    """Quantised values of which means need no rounding, which references round apart."""
    x = quantised_values(1, 3, 4, 5) // 16 * 16
    step, zero = np.array(0.05, np.float32), np.array(3, np.int8)
    for way, size in (("half_pixel", (8, 10)), ("align_corners", (7, 9))):
        sizes = np.array([1, 3, *size], np.int64)
        named: dict[str, Any] = {"op.mode": "linear", "op.coordinate_transformation_mode": way}
        given = (x, step, zero, None, None, sizes, step, zero)
        yield case(*given, const=(1, 2, 5, 6, 7), **named)


LAYERS = (
    Layer(
        "qconcat",
        OP.Concat(wildcard("xs"), _optional=-1),
        "y",
        concat_fits,
        emit_concat,
        concat_layouts,
        concat_cases,
    ),
    Layer(
        "qpad",
        OP.Pad(X, wildcard("pads"), wildcard("value"), wildcard("axes"), _optional=2),
        "x y",
        pad_fits,
        emit_pad,
        follow,
        pad_cases,
    ),
    Layer(
        "qnearest",
        OP.Resize(X, wildcard("roi"), wildcard("scales"), wildcard("sizes"), _optional=3),
        "x y",
        resize_fits,
        emit_resize,
        with_positions("x", "y"),
        nearest_cases,
    ),
    Layer(
        "qbilinear",
        quantised(
            OP.Resize(
                dequantised("x"),
                wildcard("roi"),
                wildcard("scales"),
                wildcard("sizes"),
                _optional=3,
                _outputs=["op"],
            )
        ),
        "x y",
        resize_fits,
        emit_resize,
        with_positions("x", "y"),
        bilinear_cases,
    ),
    Layer(
        "qtranspose",
        OP.Transpose(X),
        "x y",
        beside,
        lambda b, m: b.define(m.y, b.transposed(b.read(m.x), m.x, permutation(m), m.y)),
        transpose_layouts,
    ),
    Layer("qreshape", OP.Reshape(X, wildcard("how")), "x y", beside, emit_reshape, reads_last),
)
