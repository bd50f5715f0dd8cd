# SPDX-License-Identifier: Apache-2.0
"""Convolutions, depthwise convolutions and fully connected layers of int8 quantised values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    S8,
    TFLITE,
    Case,
    Match,
    QuantisedProduct,
    Recorder,
    activated,
    quantised,
    quantised_values,
)
from aot.vendor.cmsis_nn.base import (
    MOST_EXTENT,
    Checks,
    Geometry,
    declare,
    extents,
    images,
    last,
    priced,
)

Array = np.ndarray[Any, Any]
INT8 = (S8,)
#: A larger shift to the right makes every sum 0, which a multiplier of 0 says too.
MOST_RIGHT = 30
#: Instructions of the library per one of portable C, the least of Cortex-M4 and M55: convolutions,
#: those for which portable C has only its general kernel, fully connected layers.
FAST, GENERAL, DENSE = 2.0, 0.6, 1.5

conv = declare("qconv", quantised(activated(QuantisedProduct.conv_pattern())), GENERAL)
dense = declare("qdense", quantised(activated(QuantisedProduct.dense_pattern())), DENSE)
conv.layouts(last("x", "y"))


def product_fits(m: Match) -> Checks:
    """Checks of every product: int8, symmetric weights, sums that stay in 32 bits when shifted."""
    conditions = list(QuantisedProduct.checks(m, INT8))
    yield from conditions
    yield from QuantisedProduct.weights_symmetric(m)
    if all(ok for ok, _ in conditions):
        found = QuantisedProduct.of(m, TFLITE)
        moved = found.largest << np.maximum(scales(found)[1], 0)
        yield moved.max() < 2**31, f"sums that become {moved.max()} (needs less than 2^31)"


def scales(found: QuantisedProduct) -> tuple[Array, Array]:
    """Multipliers and powers of two (int32), one each or one per output channel."""
    mult, shift = found.multipliers(TFLITE)
    assert shift is not None
    nothing = shift < -MOST_RIGHT
    return np.where(nothing, 0, mult).astype(np.int32), np.where(nothing, 0, shift).astype(np.int32)


@conv.check
def conv_fits(m: Match) -> Checks:
    """Checks of a convolution of int8 of rank 3 or 4; Helium needs more of an image of one row."""
    conditions = [*images(m), *product_fits(m)]
    yield from conditions
    pads = [int(p) for p in m.conv.attr("pads") or [0]]
    yield 0 <= min(pads) <= max(pads) < MOST_EXTENT, f"pads {pads} (need 0 or more)"
    if all(ok for ok, _ in conditions):
        g = geometry(m, QuantisedProduct.of(m, TFLITE))
        yield g.row_exact or not g.in_a_row, f"pads {pads} of one position (Helium ignores them)"


def geometry(m: Match, found: QuantisedProduct) -> Geometry:
    """The convolution of a match; one row becomes one column where Helium's kernel for rows would
    be wrong."""
    window = found.window
    assert window is not None
    wide = window.widened(2)
    w = (len(found.w.data), *wide.kernel, found.w.data.shape[1])
    made = Geometry(extents(m.x), w, extents(m.y), wide.strides, wide.before, wide.dilations)
    return made.as_column() if made.in_a_row and not made.row_exact else made


@conv.lower
def to_conv(c: Recorder, m: Match) -> None:
    """Record the call of a convolution; weights become [outputs, height, width, inputs].

    A depthwise convolution has weights [height, width, outputs]. Multipliers and shifts are int32,
    one per output channel, also where there is one for all.
    """
    found = QuantisedProduct.of(m, TFLITE)
    g = geometry(m, found)
    # An axis that a convolution of one axis lacks has size 1 in `g.w`.
    w = found.w.stored.reshape(g.w[0], g.w[3], *g.w[1:3])
    if g.depthwise:
        kernel, w, size = "depthwise", w[:, 0].transpose(1, 2, 0), g.depthwise_bytes(c.target.simd)
    else:
        kernel, w, size = "conv", w.transpose(0, 2, 3, 1), g.bytes(c.target.simd)
    shape = (1, *g.w[1:3], g.w[0]) if g.depthwise else g.w
    channels = [np.broadcast_to(s, (g.w[0],)) for s in scales(found)]
    params = c.params(
        x=g.x,
        w=shape,
        y=g.y,
        x_offset=-found.x.z,
        y_offset=found.y.z,
        stride=g.stride,
        pad=g.pad,
        dilation=g.dilation,
        **_limits(found),
        bytes=size,
    )
    consts = [c.const(np.ascontiguousarray(w), "w"), c.const(found.bias.astype(np.int32), "b")]
    consts += [
        c.const(np.ascontiguousarray(s), n)
        for s, n in zip(channels, ("mult", "shift"), strict=True)
    ]
    macs = math.prod(m.y.shape) * math.prod(found.w.data.shape[1:])
    operands = (m.y, m.x, *consts, c.scratch(size), params)
    c.call(f"aot_cmsis_nn_{kernel}", *operands, status=True, macs=macs)


def _limits(found: QuantisedProduct) -> dict[str, int]:
    """The smallest and the largest quantised result, by the names of the params' fields."""
    return {"low": found.limits[0], "high": found.limits[1]}


@conv.cost
def conv_cost(m: Match) -> float:
    """Portable C has but a general kernel for groups that are neither all nor single channels."""
    groups, inner = int(m.conv.attr("group", 1)), math.prod(m.w.shape[1:])
    general = groups > 1 and m.w.shape[:2] != (groups, 1)
    return priced(m, GENERAL if general else FAST, math.prod(m.y.shape) * inner)


@dense.cost
def dense_cost(m: Match) -> float:
    """Nanoseconds of a fully connected layer, estimated by its multiply-accumulates and bytes."""
    return priced(m, DENSE, math.prod(m.x.shape) * m.w.shape[-1])


@dense.check
def dense_fits(m: Match) -> Checks:
    """Checks of a fully connected layer of int8."""
    yield from product_fits(m)


@dense.lower
def to_dense(c: Recorder, m: Match) -> None:
    """Record the call of a fully connected layer, with one multiplier or one per output channel.

    Helium's kernel takes sums of weights with the bias folded in; the others take the bias.
    """
    found = QuantisedProduct.of(m, TFLITE)
    n, k = found.w.data.shape
    rows = math.prod(m.x.shape[:-1])
    mult, shift = scales(found)
    per_channel = len(mult) > 1
    helium = c.target.simd == "mve"
    sums = c.const(found.folded(found.x.z).astype(np.int32), "sums") if helium else None
    params = c.params(
        rows=rows,
        depth=k,
        channels=n,
        x_offset=-found.x.z,
        y_offset=found.y.z,
        **_limits(found),
        mult=int(mult[0]),
        shift=int(shift[0]),
    )
    w = c.const(np.ascontiguousarray(found.w.stored), "w")
    operands = [m.y, m.x, w, None if helium else c.const(found.bias.astype(np.int32), "b"), sums]
    if per_channel:
        operands += [c.const(mult, "mult"), c.const(shift, "shift")]
    kernel = "aot_cmsis_nn_dense" + "_channels" * per_channel
    c.call(kernel, *operands, params, status=True, macs=rows * n * k)


@conv.cases
def conv_examples() -> Iterator[Case]:
    """Those of every vendor, windows that move along one row, and filters per channel."""
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


@dense.cases
def dense_examples() -> Iterator[Case]:
    """Cases shared by all vendors' quantised fully connected layers."""
    yield from QuantisedProduct.dense_cases()
