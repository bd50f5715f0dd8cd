# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from aot.vendor import TFLITE, Match, QuantisedProduct, WindowShape, activated, quantised
from aot.vendor.ethos_u.configs import Npu
from aot.vendor.ethos_u.layer import (
    Layer,
    activation,
    activation_fits,
    finish_rows,
    padded,
    rows_of,
    window_geometry,
)
from aot.vendor.ethos_u.rules import EXPLICIT, Geometry, kept
from aot.vendor.ethos_u.tflite import VALID
from aot.vendor.ethos_u.values import Builder, Checks, with_positions


def conv_geometry(found: QuantisedProduct, m: Match) -> Geometry:
    """The window of a convolution of rank 3 or 4."""
    assert found.window is not None
    return window_geometry(found.window.widened(2), m, _weight_sum(found))


def _weight_sum(found: QuantisedProduct) -> int:
    """The largest sum of absolute weights that an output channel has."""
    rows = np.abs(found.w.data).reshape(len(found.w.data), -1)
    return int(rows.sum(axis=1).max(initial=0))


def conv_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a convolution: rank 3 or 4, one group or one per channel, TFLite's padding."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    if (yield from _product_fits(m)) and m.x.rank in (3, 4):
        found = QuantisedProduct.of(m, TFLITE)
        single = found.groups == 1 or found.depthwise
        yield single, f"{found.groups} groups of several channels (needs 1, or one per channel)"
        g = conv_geometry(found, m)
        yield g.padding is not None, "negative pads"
        if g.padding is not None:
            yield from kept("conv" if found.groups == 1 else "depthwise", g, npu)


def _product_fits(m: Match) -> Generator[tuple[bool, str], None, bool]:
    """Check what every product needs: int8, symmetric weights and an activation that can be
    fused. Returned is whether the product is known, whatever its activation.
    """
    ready = yield from QuantisedProduct.checks(m, rqs=(TFLITE,), symmetric=True)
    if ready:
        found = QuantisedProduct.of(m, TFLITE)
        yield from activation_fits(found.limits, found.y)
    return ready


def _operands(b: Builder, found: QuantisedProduct, weights: Any, axis: int) -> list[int]:
    """The constants of a product: weights with their output channels on `axis`, and the bias."""
    w = b.net.const(weights.astype(np.int8), found.w.scale, axis=axis)
    unit = np.asarray(found.x.s, np.float32) * found.w.scale
    return [w, b.net.const(found.bias.astype(np.int32), unit)]


def emit_conv(b: Builder, m: Match) -> None:
    """CONV_2D or DEPTHWISE_CONV_2D, behind a PAD where TFLite has no name for the padding."""
    found = QuantisedProduct.of(m, TFLITE)
    g, data = conv_geometry(found, m), found.w.data
    # TFLite knows two axes only: the one that a convolution lacks has size 1.
    data = data.reshape(*data.shape[:2], *(1,) * (4 - data.ndim), *data.shape[2:])
    x, window = b.read(m.x), g.window
    if g.padding == EXPLICIT:
        x = padded(b, x, [(0, 0), *zip(window.before, window.after, strict=True), (0, 0)])
    options: dict[str, int] = {
        "padding": VALID if g.padding == EXPLICIT else int(g.padding or 0),
        "stride_h": window.strides[0],
        "stride_w": window.strides[1],
        "dilation_h": window.dilations[0],
        "dilation_w": window.dilations[1],
        "activation": activation(found.limits, found.y) or 0,
    }
    if found.groups == 1:
        kind, operands = "CONV_2D", _operands(b, found, data.transpose(0, 2, 3, 1), 0)
    else:
        kind, operands = "DEPTHWISE_CONV_2D", _operands(b, found, data.transpose(1, 2, 3, 0), 3)
        options["multiplier"] = 1
    b.net.op(kind, [x, *operands], b.enter(m.y), **options)


def dense_fits(m: Match, npu: Npu) -> Checks:
    """Check a fully connected layer: the conditions of every product, and Vela's on sums of
    weights.
    """
    if (yield from _product_fits(m)):
        one = WindowShape((1,), (1,), (1,), (0,), (0,))
        weights = _weight_sum(QuantisedProduct.of(m, TFLITE))
        yield from kept("dense", Geometry(one, VALID, weights), npu)


def emit_dense(b: Builder, m: Match) -> None:
    """Add FULLY_CONNECTED on rows [rows, k] with weights [n, k] to the builder, and define y."""
    found = QuantisedProduct.of(m, TFLITE)
    n, k = found.w.data.shape
    x, data = b.flattened.get(m.x.name), found.w.data
    if x is not None:  # the weights turn instead of the image
        data = np.moveaxis(data.reshape(n, *x[1].shape[1:]), 1, -1).reshape(n, k)
    rows = b.net.reshape(b.read(m.x) if x is None else x[0], (math.prod(m.x.shape) // k, k))
    act = activation(found.limits, found.y) or 0
    y = rows_of(b, m.y, n)
    b.net.op("FULLY_CONNECTED", [rows, *_operands(b, found, data, 0)], y, activation=act)
    finish_rows(b, m.y, y)


LAYERS = (
    Layer(
        "qconv",
        quantised(activated(QuantisedProduct.conv_pattern())),
        "x y",
        conv_fits,
        emit_conv,
        with_positions("x", "y"),
        QuantisedProduct.conv_cases,
    ),
    Layer(
        "qdense",
        quantised(activated(QuantisedProduct.dense_pattern())),
        "x y",
        dense_fits,
        emit_dense,
        cases=QuantisedProduct.dense_cases,
    ),
)
