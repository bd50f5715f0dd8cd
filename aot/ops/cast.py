# SPDX-License-Identifier: Apache-2.0
"""Cast and CastLike: conversions of element types, those of less than a byte included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import (
    BF16,
    BOOL,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    F16,
    F32,
    F64,
    FLOAT8,
    PACKED,
    S32,
    S64,
    U8,
    U64,
    pack,
    unpack,
)
from aot.ir.graph_nodes import Array, attribute, shape_of
from aot.ir.operators import Elementwise, Exact, OneOf
from aot.ir.value_traits import Converts
from aot.normalise.identities import always, identity
from aot.ops.kernels import INTS, NUMBERS
from aot.ops.logic import TRUTH
from aot.ops.packed import ROUND_MODES, by_way_of, narrow, to_way_of, widen
from aot.ops.registry import op
from aot.ops.unary import SPECIAL, edges, elements
from aot.shapes.cures import Sizing, sizings
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.evaluate import evaluates, need
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    bounds,
    of_type,
)
from aot.shapes.reference import Inputs, Unknown, by_reference
from aot.shapes.symbolic import Poly, Terms, polynomials
from aot.vendor import Handle, Layout, Match, Recorder, ValueRef
from aot.vendor.by_rows import by_elements
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.layouts import follow

#: Integers below this are exact in float32.
EXACT = 2**24


ROUNDING = OneOf("up down nearest", "up")
cast = op(
    "Cast",
    "x",
    traits=[Elementwise(), Exact(), Converts()],
    to=0,
    saturate=1,
    round_mode=ROUNDING,
    rules=[sizings.by(Sizing(passes=True))],
)
cast_like = op(
    "CastLike",
    "x like",
    traits=[Elementwise("x"), Exact(), Converts()],
    saturate=1,
    round_mode=ROUNDING,
)
CASTABLE = (*NUMBERS, BOOL, F16, BF16)
NARROW = (F16, BF16)
#: What float8 is converted from and to, in the order of the kernel's constant.
AROUND_F8 = (F32, F16, BF16)
#: Mantissa bits, bias, and which quantised values are infinite or no number (see aot_cast_f8.h).
F8_FORMATS = {
    F8E4M3FN.name: {"M": 3, "BIAS": 7, "KIND": 1},
    F8E4M3FNUZ.name: {"M": 3, "BIAS": 8, "KIND": 2},
    F8E5M2.name: {"M": 2, "BIAS": 15, "KIND": 0},
    F8E5M2FNUZ.name: {"M": 2, "BIAS": 16, "KIND": 2},
}


cast.packed = cast_like.packed = True
identity("Cast CastLike")(always)


@evaluates("Cast")
def cast_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The constant as the type of attribute `to`; Unknown where the reference would round twice."""
    return converted(node, inputs, ir.DataType(int(attribute(node, "to"))).numpy())


@evaluates("CastLike")
def cast_like_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The constant as the type of the second operand; Unknown where the reference would round
    twice.
    """
    return converted(node, inputs, need(inputs, 1).dtype)


def converted(node: ir.Node, inputs: Inputs, target: np.dtype[Any]) -> list[Array]:
    """The constant first input as type `target`; few-bit types saturate as the node's attributes
    say.

    Raises Unknown where onnx.reference would round twice, and for floats that the integer type
    lacks.
    """
    x = need(inputs, 0)
    if not (_is_numpys(x.dtype) and _is_numpys(target)):
        if _is_numpys(x.dtype) and not _is_float32(x):
            raise Unknown  # the reference would round twice, by way of float32
        return by_reference(node, inputs)
    if target.kind in "iu" and x.dtype.kind == "f":
        limits, whole = np.iinfo(target), np.trunc(x)
        if not np.all((whole >= limits.min) & (whole <= limits.max)):  # no NaN either
            raise Unknown
    return [x.astype(target)]


def _is_numpys(kind: np.dtype[Any]) -> bool:
    """Whether NumPy itself has this type of numbers, without ml_dtypes."""
    return kind.isbuiltin == 1 and kind.kind in "biuf"


def _is_float32(x: Array) -> bool:
    """Whether float32 holds every element exactly."""
    if x.dtype.kind == "f":
        return np.array_equal(x.astype(np.float32), x, equal_nan=True)
    return bool(np.all((x >= -(1 << 24)) & (x <= 1 << 24))) if x.dtype.itemsize > 2 else True


@bounds("Cast")
def cast_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of x, fractions cut off, if the new type holds it; else all that the type can
    be.
    """
    result, found = node.outputs[0], inputs[0]
    widest = of_type(result) if result.dtype is not None else None
    if found is None or widest is None or result.dtype is None:
        return widest
    kind = result.dtype.numpy().kind
    if kind == "f":
        small = (np.abs(found.low) < EXACT).all() and (np.abs(found.high) < EXACT).all()
        return found if small else widest
    if kind == "b" or not ((found.low >= widest.low) & (found.high <= widest.high)).all():
        return widest
    return Interval(np.trunc(found.low), np.trunc(found.high))


@polynomials("Cast")
def cast_polynomials(terms: Terms, node: ir.Node) -> list[Poly] | None:
    """The polynomials of x, where the cast changes no number; None otherwise.

    Numbers must be below 2^24 in size; floats cast to integers must be integers.
    """
    source = node.inputs[0]
    if source is None or source.dtype is None or source.dtype.numpy().kind not in "iuf":
        return None
    limits = terms.limits(source, shape_of(node.outputs[0]))
    if limits is None or (np.abs(limits[0]) >= EXACT).any() or (np.abs(limits[1]) >= EXACT).any():
        return None
    own = terms.of(source)
    kind = node.outputs[0].dtype
    if source.dtype.numpy().kind == "f" and kind is not None and kind.numpy().kind in "iu":
        return own if all(terms.is_whole(p) for p in own) else None
    return own


@cast.check
@cast_like.check
def cast_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that kernels convert between both types, directly or by way of a wider one, rounding
    once.
    """
    by_way = (by_way_of(m.x.dtype), to_way_of(m.y.dtype))
    if any(v.dtype in FLOAT8 for v in (m.x, m.y)):
        by_way = (m.x.dtype, m.y.dtype)
    if F8E8M0 in (m.x.dtype, m.y.dtype):
        yield m.round_mode in ROUND_MODES, f"round_mode {m.round_mode!r}"
    for t, other in (by_way, by_way[::-1]):
        known = t in CASTABLE or (t in FLOAT8 and other in AROUND_F8)
        yield known, f"dtype {t} from or to {other}"


@cast.lower
@cast_like.lower
def cast_to_kernel(c: Recorder, m: Match) -> None:
    """Record a conversion: a view for equal types, else one kernel, or several by way of a wider
    type.
    """
    if m.x.dtype is m.y.dtype and m.x.layout == m.y.layout:
        c.view(m.y, m.x)
        return
    if m.y.dtype in FLOAT8 or m.x.dtype in FLOAT8:
        cast_f8(c, m)
        return
    if any(by_way_of(v.dtype) is not v.dtype for v in (m.x, m.y)):
        cast_by_way(c, m)
        return
    # Elements of one size are read before their place is written; others would be overwritten.
    same = m.x.dtype.nbytes == m.y.dtype.nbytes
    c.call(
        f"aot_cast_{m.x.dtype.short}_{m.y.dtype.short}",
        m.y,
        m.x,
        c.params(n=elements(m)),
        header="aot_cast.h",
        inplace=[(m.y, m.x)] if same else (),
        rowwise=by_elements(m.y, (0, 1), "n"),
    )


def cast_by_way(c: Recorder, m: Match) -> None:
    """Record a conversion of types of few bits: widened, converted, narrowed, as far as each is
    needed.
    """
    source, to = by_way_of(m.x.dtype), to_way_of(m.y.dtype)
    wide = widen(c, m.x)
    if source is not to:
        result: ValueRef | Handle = m.y
        if to is not m.y.dtype:
            result = c.temp(m.y.shape, to, name="converted")
            c.defines(result)
        kernel = f"aot_cast_{source.short}_{to.short}"
        c.call(kernel, result, c.read(wide), c.params(n=elements(m)), header="aot_cast.h")
        wide = result
    if to is not m.y.dtype:
        narrow(c, m.y, wide, int(m.saturate), m.round_mode)
    elif source is to:
        c.copy(m.y, c.read(wide), elements(m) * to.nbytes)


def cast_f8(c: Recorder, m: Match) -> None:
    """Record a conversion to or from float8; the other type is float32, float16 or bfloat16."""
    params = c.params(n=elements(m))
    if m.y.dtype in FLOAT8:
        instance = {"FROM": AROUND_F8.index(m.x.dtype), **F8_FORMATS[m.y.dtype.name]}
        instance["SATURATE"] = int(m.saturate)
        c.call("aot_cast_to_f8", m.y, m.x, params, instance=instance, header="aot_cast_f8.h")
    else:
        instance = {"TO": AROUND_F8.index(m.y.dtype), **F8_FORMATS[m.x.dtype.name]}
        c.call("aot_cast_from_f8", m.y, m.x, params, instance=instance, header="aot_cast_f8.h")


@cast.layouts
def cast_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Types of less than a byte are stored plain; others follow the layout of x."""
    packed = m.x.dtype.packed or m.y.dtype.packed
    return {} if packed else follow(m, incoming, vlen)


@cast.cases
def cast_cases() -> Iterator[Case]:
    """Cast(input) between types: halves to round, numbers too large, NaN."""
    small = np.array([[[0, 1, 2.5, 3.5, 100.7, 5.999]]])
    for source in (F32, F64):
        for t in CASTABLE:
            if t is not source:
                yield case(small.astype(source.np_name), to=t.onnx)
    for source in INTS:
        for t in (*NUMBERS, BOOL, *NARROW):
            if t is not source:
                yield case(edges(source), to=t.onnx)
    for t in (F32, U8, S64, *NARROW):
        yield case(TRUTH, to=t.onnx)
    # Halfway but for a bit that float32 does not hold.
    hard = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40, -2049.0000001, 1e-8, 2.98e-8, 65520])
    yield case(hard, to=F16.onnx)
    big = np.array([16777217 * 64 + 1, -(2**30) - 2**22 - 1, 2**31 - 1], np.int32)
    exact = np.array([2.0**30, -(2.0**30) - 2**23, 2.0**31], np.float32).astype(BF16.numpy)
    yield case(big, to=BF16.onnx, expected=(exact,))
    # By way of float32, or of float64, each of these would be a number halfway, and the even one.
    long = np.array([2**62 + 2**54 + 1, -(2**62) - 2**54 - 1, 2**24 + 2**16 + 1, 2**62 + 2**54])
    exact = np.array([2.0**62 + 2.0**55, -(2.0**62) - 2.0**55, 2.0**24 + 2.0**17, 2.0**62])
    for t in (S64, U64):
        some = long[[0, 2, 3]] if t is U64 else long
        want = exact[[0, 2, 3]] if t is U64 else exact
        yield case(some.astype(t.np_name), to=BF16.onnx, expected=(want.astype(BF16.numpy),))
    half = np.array([0.0, -0.0, 1.5, 6e-8, 5e-5, 65504, np.inf, np.nan, -2.25], np.float16)
    for t in (F32, F64, S32, BOOL):
        yield case(half[: 7 if t is BOOL else 5] if t is not F32 else half, to=t.onnx)
    tricky = np.array([65519, 65520, 2.98e-8, 2.99e-8, 6.1e-5, 6.09e-5, 1e-40], np.float32)
    for t in NARROW:
        yield case(np.concatenate([SPECIAL, tricky, f32(50, low=-1e-4, high=1e-4)]), to=t.onnx)


@cast.cases
def f8_cases() -> Iterator[Case]:
    """Cast of every float8 to float32, and from float32."""
    patterns = np.arange(256, dtype=np.uint8)
    for t in FLOAT8:
        every = patterns.view(t.numpy)
        yield case(every, to=F32.onnx, expected=(every.astype(np.float32),))
        near = np.sort(every.astype(np.float32))
        middle = (near[1:] + near[:-1]) / 2
        finite = middle[np.abs(middle) <= float(np.nanmax(near[np.isfinite(near)]))]
        inputs = np.concatenate([finite, np.nextafter(finite, np.float32(9)), finite * 0.99])
        yield case(inputs, to=t.onnx, expected=(inputs.astype(t.numpy),))
        wide = inputs.astype(np.float16)
        yield case(wide, to=t.onnx, expected=(wide.astype(t.numpy),))


@cast.cases
def packed_cases() -> Iterator[Case]:
    """Cast from and to types of less than a byte and float8e8m0."""
    for t in PACKED:
        every = np.arange(1 << t.bits, dtype=np.uint8)[: (1 << t.bits) - 1]
        patterns = unpack(pack(every, t), t, every.shape)  # an odd number of elements
        yield case(patterns, to=F32.onnx, expected=(patterns.astype(np.float32),))
        yield case(patterns, to=F16.onnx, expected=(patterns.astype(np.float16),))
        yield case(patterns.astype(np.float32), to=t.onnx, expected=(patterns,))
    powers = np.array([0.75, 1.0, 1.5, 3e38, 1e-39, 2.0**-126], np.float32)
    yield case(powers, to=F8E8M0.onnx, round_mode="nearest")
    yield case(powers, to=F8E8M0.onnx, round_mode="down")


@cast_like.cases
def cast_like_cases() -> Iterator[Case]:
    """CastLike(input, target_type): the elements of the latter are not read."""
    yield case(f32(2, 3), ints(1))


@dynamic("CastLike")
def cast_like_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of x pass; UnsupportedError if the operand that gives the type has
    some.
    """
    like = needed(node, 0)
    if any(x.run_sizes(i) for i in node.inputs[1:]):
        raise refused(node, "takes its type from a value of unknown shape")
    pass_on(x, node, x.run_sizes(like))
