# SPDX-License-Identifier: Apache-2.0
"""Convolutions, transposed ones, fully connected layers, products of two computed operands.

Quantised values are int8 or int16. Weights that fit 4 bits are stored so, two to a byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    TFLITE,
    Case,
    Match,
    Quantisation,
    QuantisedPair,
    QuantisedProduct,
    Recorder,
    activated,
    case,
    dequantised,
    images,
    multipliers,
    quantised,
    quantised_values,
    tflite_layers as shared,
    wildcard,
)
from aot.vendor.cmsis_nn.base import (
    Checks,
    Geometry,
    backend,
    types,
    wide,
    without_zeros,
)

Array = np.ndarray[Any, Any]
#: Instructions of the library per one of portable C, the least of Cortex-M4 and M55: convolutions,
#: those for which portable C has only its general kernel, fully connected layers.
FAST, GENERAL, DENSE = 2.0, 0.6, 1.5


def swaps(perm: list[int]) -> bool:
    """Whether a Transpose exchanges the last two axes."""
    return [*sorted(perm)[:-2], len(perm) - 1, len(perm) - 2] == list(perm)


def product_fits(m: Match) -> Checks:
    """Checks of every product: one type, symmetric weights, sums that stay in 32 bits when shifted.

    Where values are int16 the library has no zero points, and counts a depth in 16 bits.
    """
    if (yield from shared.product_fits(m, types(m))) and wide(m):
        found = QuantisedProduct.of(m, TFLITE)
        yield from without_zeros(found.x.z, found.y.z)
        depth = math.prod(found.w.data.shape[1:])
        yield depth < 2**16, f"{depth} products in a sum (needs less than 65536)"


def conv_fits(m: Match) -> Checks:
    """Checks of a convolution of rank 3 or 4; Helium needs more of an image of one row."""
    if (yield from shared.conv_fits(m, product_fits)):
        found = QuantisedProduct.of(m, TFLITE)
        g, pads = geometry(m, found), list(m.conv.attr("pads") or ())
        yield g.row_exact or not g.in_a_row, f"pads {pads} of one position (Helium ignores them)"
        grouped = not (g.whole or g.depthwise)
        yield not (grouped and wide(m)), f"{found.groups} groups (int16 needs 1, or one a channel)"


def transposed_fits(m: Match) -> Checks:
    """Checks of a transposed convolution of int8: one group, no dilations.

    Without turned weights the library writes all rows that windows reach, and no more.
    """
    conditions = [*shared.images(m), *product_fits(m)]
    yield from conditions
    yield not wide(m), "int16 (needs int8)"
    if all(ok for ok, _ in conditions):
        found = QuantisedProduct.of(m, TFLITE)
        yield found.groups == 1, f"{found.groups} groups (needs 1)"
        g = geometry(m, found)
        yield max(g.dilation) == 1, f"dilations {list(g.dilation)} (need to be 1)"
        # Turned weights make it a convolution, which any result fits whose padding is not negative.
        axes = list(zip(g.x[1:3], g.w[1:3], g.y[1:3], g.stride, g.pad, strict=True))
        least = 0 if not g.turns else min(w - 1 - p for _, w, _, _, p in axes)
        fits = min(g.pad) >= 0 <= least
        yield fits, f"pads {list(g.pad)} (need to be 0 or more, and less than the window)"
        first = [(x * s - p <= y, (x - 1) * s + max(w, s) - p >= y) for x, w, y, s, p in axes]
        whole = g.turns or all(map(all, first))
        yield whole, f"a result of {list(g.y[1:3])} (windows reach another part)"


def geometry(m: Match, found: QuantisedProduct) -> Geometry:
    """The convolution of a match; one row becomes one column where Helium's kernel for rows would
    be wrong."""
    made = Geometry.of(m, found)
    one = made.in_a_row and made.y[1] == 1
    return made.as_column() if one and not made.row_exact else made


def kind_of(found: QuantisedProduct, four_bits: bool = True) -> str:
    """The ending of the function's name: "16" for int16 values, "4" for weights of 4 bits, else "".

    Weights count as such where the function has `four_bits` and every weight fits into 4 bits.
    """
    if str(found.y.dtype) == "int16":
        return "16"
    data = found.w.data
    return "4" if four_bits and -8 <= data.min() <= data.max() <= 7 else ""


def stored(w: Array, kind: str) -> Array:
    """Weights (int8) in their order; those of 4 bits two to a byte, the first one low."""
    flat = np.ascontiguousarray(w)
    if kind != "4":
        return flat
    nibbles = np.append(flat, np.zeros(w.size % 2, np.int8)).view(np.uint8) & 15
    return (nibbles[::2] | nibbles[1::2] << 4).view(np.int8)


def to_conv(c: Recorder, m: Match) -> None:
    """Record the call of a convolution or a transposed convolution."""
    found = QuantisedProduct.of(m, TFLITE)
    record(c, m, found, geometry(m, found))


def record(c: Recorder, m: Match, found: QuantisedProduct, g: Geometry) -> None:
    """Record the call of a convolution; weights become [outputs, height, width, inputs].

    A depthwise convolution has weights [height, width, outputs]. Multipliers and shifts are int32,
    one per output channel, also where there is one for all.
    """
    simd, turned, extra = c.target.simd, found.node.op_type == "ConvTranspose", 0
    deep = g.depthwise and not turned
    kind = "" if turned else kind_of(found, g.four_bits(simd))
    shape = (1, *g.w[1:3], g.w[0]) if deep else g.w
    kernel, size = f"conv{kind}", g.bytes(simd, kind)
    if deep:
        kernel, size = f"depthwise{kind}", g.depthwise_bytes(simd, kind)
    elif turned:
        kernel, (size, extra) = "transposed", g.transposed_bytes(simd)
    window, rowwise = found.window, None
    if window is not None and not turned and g.by_rows:
        rowwise = c.by_windows(m.y, m.x, window, shared.BY_ROWS)
        # Rows of windows of one row may be taken by another kernel than the whole image.
        size = max(size, 0 if deep or not rowwise else g.of_row().bytes(simd, kind))
    last = {"turned": extra} if turned else {"dilation": g.dilation}
    params = c.params(
        x=g.x,
        w=shape,
        y=g.y,
        **shared.ends(found),
        stride=g.stride,
        pad=g.pad,
        bytes=size,
        **last,
    )
    # Depthwise convolutions of int16 take a bias of 64 bits.
    bias = np.int64 if deep and kind == "16" else np.int32
    consts = shared.constants(c, found, stored(g.weights(found, deep), kind), bias)
    macs = math.prod(m.x.shape if turned else m.y.shape)
    macs *= math.prod(g.w[:3] if turned else g.w[1:])
    operands = (m.y, m.x, *consts, c.scratch(size + extra), params)
    c.call(f"aot_cmsis_nn_{kernel}", *operands, status=True, macs=macs, rowwise=rowwise)


def conv_cost(m: Match) -> float:
    """Portable C has but a general kernel for int8 groups of several channels, not all."""
    groups, inner = int(m.conv.attr("group", 1)), math.prod(m.w.shape[1:])
    general = groups > 1 and m.w.shape[:2] != (groups, 1)
    # Several int16 filters per channel are slower in the library, whose kernel for them is general.
    general = general and not (wide(m) and m.w.shape[1] == 1)
    return shared.priced(m, GENERAL if general else FAST, math.prod(m.y.shape) * inner)


def transposed_cost(m: Match) -> float:
    """Portable C has but a general kernel where strides do not divide the window."""
    window = QuantisedProduct.of(m, TFLITE).window
    assert window is not None
    whole = all(k % s == 0 for k, s in zip(window.kernel, window.strides, strict=True))
    return shared.priced(
        m, FAST if whole else GENERAL, math.prod(m.x.shape) * math.prod(m.w.shape[1:])
    )


def dense_cost(m: Match) -> float:
    """Nanoseconds of a fully connected layer, estimated by its multiply-accumulates and bytes."""
    return shared.priced(m, DENSE, math.prod(m.x.shape) * m.w.shape[-1])


def to_dense(c: Recorder, m: Match) -> None:
    """Record the call of a fully connected layer, with one multiplier or one per output channel.

    Helium's kernel takes sums of weights with the bias folded in; the others take the bias. What
    the library has for one multiplier only, or for int16 with multipliers of 16 bits, becomes a
    convolution of one position, which has all of them.
    """
    found = QuantisedProduct.of(m, TFLITE)
    n, k = found.w.data.shape
    rows = math.prod(m.x.shape[:-1])
    mult, shift = shared.scales(found)
    per_channel, kind = len(mult) > 1, kind_of(found)
    if kind == "16" or (kind and per_channel):
        one = (1, 1)
        g = Geometry((1, rows, 1, k), (n, 1, 1, k), (1, rows, 1, n), one, (0, 0), one)
        return record(c, m, found, g)
    helium = c.target.simd == "mve" and not kind
    sums = c.const(found.folded(found.x.z).astype(np.int32), "sums") if helium else None
    params = c.params(
        rows=rows,
        depth=k,
        channels=n,
        **shared.ends(found),
        mult=int(mult[0]),
        shift=int(shift[0]),
    )
    w = c.const(stored(found.w.stored, kind), "w")
    operands = [m.y, m.x, w, None if helium else c.const(found.bias.astype(np.int32), "b"), sums]
    if per_channel:
        operands += [c.const(mult, "mult"), c.const(shift, "shift")]
    kernel = f"aot_cmsis_nn_dense{kind}" + "_channels" * per_channel
    c.call(kernel, *operands, params, status=True, macs=rows * n * k)
    return None


# -- products of two computed operands ----------------------------------------------------------


def _product_of(m: Match) -> tuple[QuantisedPair, int, tuple[int, int]]:
    """The operands of a matrix product, its columns, and the multiplier of its sums."""
    found = QuantisedPair.of(m)
    mult, shift = multipliers(float(found.a.s), found.b.scale, float(found.y.s), TFLITE, "fc")
    assert shift is not None
    columns = m.b.shape[-2 if getattr(m, "turn", None) else -1]
    return found, columns, (int(mult[0]), int(shift[0]))


def _furthest(q: Quantisation) -> int:
    """The largest distance of a quantised value to its zero point."""
    return max(abs(end - q.z) for end in q.range)


def matmul_fits(m: Match) -> Checks:
    """Checks of a product of two computed operands: one type, a matrix of b for each of a."""
    ready = yield from QuantisedPair.checks(m, types(m))
    same = m.a.rank == m.b.rank > 1 and m.a.shape[:-2] == m.b.shape[:-2]
    yield same, f"operands {list(m.a.shape)} and {list(m.b.shape)} (need as many matrices)"
    if ready and same:
        found, _, (_, shift) = _product_of(m)
        most = _furthest(found.a) * _furthest(found.b) * m.a.shape[-1]
        # Sums of int16 have 64 bits until they are scaled.
        moved = most * 2.0 ** (shift if wide(m) else max(shift, 1))
        yield moved < 2**31, f"sums that become {moved:g} (needs less than 2^31)"
        if wide(m):
            yield from without_zeros(found.a.z, found.b.z, found.y.z)


def matmul_cost(m: Match) -> float:
    """Nanoseconds of a product, estimated by its multiply-accumulates and bytes."""
    return shared.priced(m, GENERAL, math.prod(m.y.shape) * m.a.shape[-1])


def to_matmul(c: Recorder, m: Match) -> None:
    """Record the call of a product, with scratch for b turned and for Helium's sums of columns."""
    found, columns, (mult, shift) = _product_of(m)
    rows, depth = m.a.shape[-2:]
    sums = 4 * columns if c.target.simd == "mve" and not wide(m) else 0
    turned = 0 if getattr(m, "turn", None) else columns * depth * m.b.dtype.nbytes
    # One scratch holds both; sums come first because they must be aligned.
    params = c.params(
        n=math.prod(m.a.shape[:-2]),
        rows=rows,
        depth=depth,
        columns=columns,
        a_offset=-found.a.z,
        b_offset=-found.b.z,
        y_offset=found.y.z,
        low=found.limits[0],
        high=found.limits[1],
        mult=mult,
        shift=shift,
        sums=sums,
        turned=turned,
    )
    macs = math.prod(m.y.shape) * depth
    operands = (m.y, m.a, m.b, c.scratch(sums + turned), params)
    c.call(f"aot_cmsis_nn_matmul{wide(m)}", *operands, status=True, macs=macs)


def _weights(*shape: int, bits: int = 8) -> Array:
    """Quantised weights; those of 4 bits are from -8 to 7."""
    return quantised_values(*shape) >> 8 - bits


_SAME: dict[str, Any] = {"conv.pads": [1, 1, 1, 1]}
#: Shapes of x and of the weights, and attributes, of convolutions with weights of 4 bits and of
#: those of int16.
NARROW_AND_WIDE: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 5, 8, 7), (6, 5, 3, 3), _SAME),
    ((1, 9, 8, 7), (7, 9, 1, 1), {}),
    ((1, 8, 8, 7), (5, 8, 1, 1), {"conv.strides": [2, 1]}),
    ((1, 4, 9), (3, 4, 4), {"conv.pads": [1, 2]}),
    ((1, 6, 9, 8), (5, 6, 3, 2), {"conv.dilations": [2, 3], "conv.pads": [2, 0, 1, 1]}),
    ((1, 5, 8, 7), (5, 1, 3, 3), {"conv.group": 5, **_SAME}),
    ((1, 6, 8, 7), (6, 1, 5, 3), {"conv.group": 6, "conv.strides": [2, 1]}),
    ((2, 3, 8, 7), (6, 1, 3, 3), {"conv.group": 3, **_SAME}),
    ((2, 4, 8, 7), (12, 1, 3, 3), {"conv.group": 4, "conv.dilations": [1, 2]}),
    ((1, 4, 8, 7), (8, 1, 3, 3), {"conv.group": 4, **_SAME}),
    ((1, 130, 6, 5), (130, 1, 4, 4), {"conv.group": 130, "conv.pads": [2, 1, 1, 2]}),
)


def conv_examples() -> Iterator[Case]:
    """The cases of every vendor, windows that move along one row, and filters per channel.

    Int16 values and weights of 4 bits follow.
    """
    yield from QuantisedProduct.conv_cases()
    example = QuantisedProduct.example
    for length, window, attrs in (
        (16, 3, {"conv.pads": [1, 1]}),
        (17, 4, {"conv.pads": [1, 2]}),
        (12, 3, {"conv.strides": [2]}),
        (13, 3, {"conv.strides": [3]}),
        (4, 5, {"conv.pads": [2, 2]}),
        (16, 3, {"conv.pads": [2, 0]}),
    ):
        named: dict[str, Any] = attrs
        yield example(quantised_values(1, 8, length), quantised_values(6, 8, window), 0, **named)
    for groups, shape, attrs in (
        (5, (5, 1, 3, 3), {"conv.pads": [1, 1, 1, 1]}),
        (5, (10, 1, 5, 3), {"conv.strides": [2, 1]}),
        (130, (130, 1, 4, 4), {"conv.pads": [2, 1, 1, 2]}),
    ):
        own: dict[str, Any] = {"conv.group": groups, **attrs}
        yield example(quantised_values(1, groups, 8, 7), quantised_values(*shape), 0, **own)
    for x, w, more in NARROW_AND_WIDE:
        yield example(quantised_values(*x), _weights(*w, bits=4), 0, **more)
        yield example(_values16(*x), _weights(*w), 0, **WIDE, **more)


#: What `example` makes of int16: no zero points.
WIDE: dict[str, Any] = {"zx": 0, "zy": 0, "dtype": "int16"}


def _values16(*shape: int) -> Array:
    """int16 quantised values whose sums stay in 32 bits."""
    return quantised_values(*shape, dtype="int16") >> 3


def transposed_examples() -> Iterator[Case]:
    """The cases of every vendor, then so many channels that the weights are turned."""
    yield from QuantisedProduct.transposed_cases()
    for x, shape, strides, pads, more in (
        ((2, 20, 4, 5), (20, 6, 3, 3), [2, 2], [1, 1, 1, 1], [0, 0]),
        ((1, 17, 5, 4), (17, 3, 4, 2), [1, 2], [0, 1, 2, 0], [0, 0]),
        ((1, 6, 5, 4), (6, 7, 2, 2), [2, 2], [0, 0, 0, 0], [0, 0]),
        ((1, 4, 5, 4), (4, 5, 5, 4), [2, 1], [2, 1, 2, 1], [0, 0]),
        ((1, 3, 3, 4), (3, 2, 2, 1), [2, 5], [0, 0, 0, 0], [0, 0]),
        ((2, 2, 1, 7), (2, 3, 1, 4), [2, 2], [0, 1, 0, 1], [1, 0]),
    ):
        named: dict[str, Any] = {"conv.strides": strides, "conv.pads": pads}
        named["conv.output_padding"] = more
        yield QuantisedProduct.example(quantised_values(*x), quantised_values(*shape), 1, **named)


def dense_examples() -> Iterator[Case]:
    """The cases of every vendor, then weights of 4 bits, then int16 values."""
    yield from QuantisedProduct.dense_cases()
    example = QuantisedProduct.example
    for rows, shape, one in ((1, (40, 10), False), (3, (17, 5), True), (2, (33, 8), False)):
        x = quantised_values(rows, shape[0])
        yield example(x, _weights(*shape, bits=4), 1, per_channel=one)
        yield example(_values16(rows, shape[0]), _weights(*shape), 1, per_channel=one, **WIDE)


def _matmul_examples(turned: bool) -> Iterator[Case]:
    """Products of computed operands of 8 and of 16 bits, one matrix or several."""
    attrs: dict[str, Any] = {}
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = (
        ((3, 5), (5, 7), "int8"),
        ((2, 3, 4, 6), (2, 3, 6, 5), "int8"),
        ((2, 17, 21), (2, 21, 37), "int8"),
        ((2, 4, 9), (2, 9, 5), "int16"),
    )
    for left, right, dtype in shapes:
        zeros = (3, 9, -5) if dtype == "int8" else (0, 0, 0)
        points = [np.array(z, dtype) for z in zeros]
        a, b = quantised_values(*left, dtype=dtype), quantised_values(*right, dtype=dtype, seed=1)
        if turned:
            b = np.ascontiguousarray(b.swapaxes(-1, -2))
            attrs = {"turn.perm": [*range(b.ndim - 2), b.ndim - 1, b.ndim - 2]}
        steps = [np.array(s, np.float32) for s in (0.02, 0.013, 0.09 if dtype == "int8" else 150)]
        operands = [a, steps[0], points[0], b, steps[1], points[1], steps[2], points[2]]
        yield case(*operands, const=(1, 2, 4, 5, 6, 7), **attrs)


_LAST = images.last("x", "y")
_CONV, _TRANSPOSED = map(QuantisedProduct.conv_pattern, ("Conv", "ConvTranspose"))
_B, _TURNED = dequantised("b"), OP.Transpose(wildcard("b"), perm=swaps, _outputs=["turn"])
_MATMUL, _MATMUL_TURNED = (
    OP.MatMul(dequantised("a"), b, _outputs=["op"]) for b in (_B, dequantised("b", _TURNED))
)
for _name, _graph, _fits, _lower, _cost, _layouts, _cases in (
    ("qconv", _CONV, conv_fits, to_conv, conv_cost, _LAST, conv_examples),
    ("qdense", QuantisedProduct.dense_pattern(), product_fits, to_dense, dense_cost, None,
     dense_examples),
    ("qconvtranspose", _TRANSPOSED, transposed_fits, to_conv, transposed_cost, _LAST,
     transposed_examples),
    ("qmatmul", _MATMUL, matmul_fits, to_matmul, matmul_cost, None,
     lambda: _matmul_examples(turned=False)),
    ("qmatmul_turned", _MATMUL_TURNED, matmul_fits, to_matmul, matmul_cost, None,
     lambda: _matmul_examples(turned=True)),
):  # fmt: skip
    backend.declare(
        _name,
        quantised(activated(_graph)),
        _fits,
        lower=_lower,
        layouts=_layouts,
        cost=_cost,
        cases=_cases,
    )
