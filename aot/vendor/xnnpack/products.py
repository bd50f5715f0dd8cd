# SPDX-License-Identifier: Apache-2.0
"""Convolutions, transposed convolutions and matrix products with constant weights.

A matrix product is a convolution with a window of one position: the library computes both by the
same kernels, and has scales per channel for convolutions only.
"""

from __future__ import annotations

import math

import numpy as np

from aot.vendor import (
    OP,
    S8,
    Match,
    QuantisedProduct,
    Recorder,
    activated,
    images,
    quantised,
    wildcard,
)
from aot.vendor.xnnpack.base import FLOATS, backend, run
from aot.vendor.xnnpack.cases import CASES


def to_conv(c: Recorder, m: Match) -> None:
    """Record a convolution of floats; of weights the channels of x come last."""
    w, fields = np.asarray(m.w.data), images.conv_fields(m)
    if "transposed" in fields:
        groups, depth, window = fields["groups"], fields["channels"][0], w.shape[2:]
        w = w.reshape(groups, depth, -1, *window).swapaxes(1, 2).reshape(-1, depth, *window)
    b = None if m.b is None else c.const(np.asarray(m.b.data), "b")
    given = c.const(np.ascontiguousarray(np.moveaxis(w, 1, -1)), "w"), b, None
    run(c, m, "conv", [m.x], given, macs=images.macs_of(m, fields), **fields, **images.bounds_of(m))


def to_dense(c: Recorder, m: Match) -> None:
    """Record a product of floats."""
    given, fields = images.dense(c, m)
    macs = images.macs_of(m, fields)
    run(c, m, "conv", [m.a], given, macs=macs, **fields, **images.bounds_of(m))


def product_fits(m: Match) -> images.Checks:
    """Checks of a product of int8: symmetric weights, one scale where it is transposed."""
    conditions = QuantisedProduct.checks(m, (S8,), symmetric=True)
    one = f"{m.sw.shape} scales (a transposed convolution needs one)"
    return images.integers(
        m,
        QuantisedProduct,
        conditions,
        lambda p: [(p.node.op_type != "ConvTranspose" or np.ptp(p.w.scale) == 0, one)],
    )


def to_product(c: Recorder, m: Match) -> None:
    """Record a product of quantised values."""
    found, rows = QuantisedProduct.of(m), math.prod(m.x.shape[:-1])
    w, scale = found.w.stored, found.w.scale.reshape(-1)
    fields = images.conv_fields(m) if found.window else images.rows_fields(rows, *w.shape[::-1])
    b, scales = c.const(found.bias.astype(np.int32), "b"), c.const(scale, "scales")
    given = c.const(np.ascontiguousarray(np.moveaxis(w, 1, -1)), "w"), b, scales
    fields |= {**images.codes(found.limits, found.x, found.y), "type": 1 + bool(np.ptp(scale) > 0)}
    fields["scale"].insert(1, float(scale[0]))
    run(c, m, "conv", [m.x], given, macs=images.macs_of(m, fields), **fields)


for _name, _graph, _checks, _lower, _layouts in (
    *(
        (
            op.lower(),
            activated(getattr(OP, op)(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)),
            (*FLOATS, images.conv_fits),
            to_conv,
            images.last("x", "y"),
        )
        for op in ("Conv", "ConvTranspose")
    ),
    *(
        (
            f"q{op.lower()}",
            quantised(activated(QuantisedProduct.conv_pattern(op))),
            (images.conv_fits, product_fits),
            to_product,
            images.last("x", "y"),
        )
        for op in ("Conv", "ConvTranspose")
    ),
    (
        "dense",
        activated(images.PRODUCT),
        (*FLOATS, images.dense_fits),
        to_dense,
        images.last(),
    ),
    (
        "qdense",
        quantised(activated(QuantisedProduct.dense_pattern())),
        (product_fits,),
        to_product,
        images.last(),
    ),
):
    backend.declare(_name, _graph, *_checks, lower=_lower, layouts=_layouts, cases=CASES[_name])
