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
    MatrixProduct,
    QuantisedProduct,
    Recorder,
    activated,
    either,
    quantised,
    wildcard,
)
from aot.vendor.xnnpack.base import (
    FLOATS,
    Checks,
    Fields,
    bounds_of,
    codes,
    declare,
    image,
    integers,
    last,
    run,
    windows,
)


def conv_fields(m: Match) -> Fields:
    """Fields of a convolution, transposed or not, that say what it reads where."""
    groups = int(m.conv.attr("group", 1))
    channels = m.x.shape[1] // groups, m.y.shape[1] // groups
    return {**windows(m, m.conv, m.w.shape[2:]), "groups": groups, "channels": channels}


def rows_fields(rows: int, depth: int, columns: int) -> Fields:
    """Fields of a product of [rows, depth] by [depth, columns]."""
    sizes = {"batch": 1, "size": (rows, 1), "groups": 1, "channels": (depth, columns)}
    return sizes | dict.fromkeys(("kernel", "stride", "dilation"), (1, 1))


def conv_fits(m: Match) -> Checks:
    """Checks of the window of a convolution, and that weights and bias are constant."""
    fields, pads = conv_fields(m), [int(p) for p in m.conv.attr("pads") or [0]]
    given, ends = (m.w, m.values.get("b")), (fields.get("extra", ()), fields["stride"])
    return [
        image(m),
        (all(v is None or v.is_const for v in given), "weights or bias that a run computes"),
        (min(pads) >= 0, f"pads {pads} (need 0 or more)"),
        (all(e < s for e, s in zip(*ends, strict=False)), "output padding of a whole stride"),
    ]


def to_conv(c: Recorder, m: Match) -> None:
    """Record a convolution of floats; of weights the channels of x come last."""
    w, fields = np.asarray(m.w.data), conv_fields(m)
    if "transposed" in fields:
        groups, depth, window = fields["groups"], fields["channels"][0], w.shape[2:]
        w = w.reshape(groups, depth, -1, *window).swapaxes(1, 2).reshape(-1, depth, *window)
    b = None if m.b is None else c.const(np.asarray(m.b.data), "b")
    given = c.const(np.ascontiguousarray(np.moveaxis(w, 1, -1)), "w"), b, None
    run(c, m, "conv", [m.x], given, macs=macs_of(m, fields), **fields, **bounds_of(m))


def macs_of(m: Match, fields: Fields) -> int:
    """Multiplications of a product: of every result, transposed of every element of x."""
    shape, back = (m.x.shape, 1) if "transposed" in fields else (m.y.shape, 0)
    return math.prod((*shape, *fields["kernel"], fields["channels"][back]))


def dense_fits(m: Match) -> Checks:
    """Checks of a product of floats by a constant matrix, with a constant bias or without."""
    found, c = MatrixProduct.of(m, m.node), m.values.get("c")
    return [
        (found.weights is not None, "needs a constant matrix on the right and no transA"),
        (c is None or "c" in found.biases, f"operand {c and list(c.shape)} is no constant bias"),
        (m.y.shape == m.node.shape, f"result {m.y.shape}, product {m.node.shape}"),
    ]


def to_dense(c: Recorder, m: Match) -> None:
    """Record a product of floats."""
    found, rows = MatrixProduct.of(m, m.node), math.prod(m.a.shape[:-1])
    w = np.ascontiguousarray(np.transpose(found.weights))  # type: ignore[arg-type]
    b = next((c.const(np.ascontiguousarray(d), "b") for d in found.biases.values()), None)
    fields = {**rows_fields(rows, *w.shape[::-1]), **bounds_of(m)}
    run(c, m, "conv", [m.a], [c.const(w, "w"), b, None], macs=macs_of(m, fields), **fields)


def product_fits(m: Match) -> Checks:
    """Checks of a product of int8: symmetric weights, one scale where it is transposed."""
    conditions = *QuantisedProduct.checks(m, (S8,)), *QuantisedProduct.weights_symmetric(m)
    one = f"{m.sw.shape} scales (a transposed convolution needs one)"
    return integers(
        m,
        QuantisedProduct,
        conditions,
        lambda p: [(p.node.op_type != "ConvTranspose" or np.ptp(p.w.scale) == 0, one)],
    )


def to_product(c: Recorder, m: Match) -> None:
    """Record a product of quantised values."""
    found, rows = QuantisedProduct.of(m), math.prod(m.x.shape[:-1])
    w, scale = found.w.stored, found.w.scale.reshape(-1)
    fields = conv_fields(m) if found.window else rows_fields(rows, *w.shape[::-1])
    b, scales = c.const(found.bias.astype(np.int32), "b"), c.const(scale, "scales")
    given = c.const(np.ascontiguousarray(np.moveaxis(w, 1, -1)), "w"), b, scales
    fields |= {**codes(found.limits, found.x, found.y), "type": 1 + bool(np.ptp(scale) > 0)}
    fields["scale"].insert(1, float(scale[0]))
    run(c, m, "conv", [m.x], given, macs=macs_of(m, fields), **fields)


_dot = OP.MatMul(wildcard("a"), wildcard("b"), _outputs=["node"])
_gemm = OP.Gemm(*map(wildcard, "abc"), _outputs=["node"], _optional=1)
for _name, _graph, _checks, _lower, _layouts in (
    *(
        (
            op.lower(),
            activated(getattr(OP, op)(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)),
            (*FLOATS, conv_fits),
            to_conv,
            last("x", "y"),
        )
        for op in ("Conv", "ConvTranspose")
    ),
    *(
        (
            f"q{op.lower()}",
            quantised(activated(QuantisedProduct.conv_pattern(op))),
            (conv_fits, product_fits),
            to_product,
            last("x", "y"),
        )
        for op in ("Conv", "ConvTranspose")
    ),
    (
        "dense",
        activated(either(_gemm, OP.Add(_dot, wildcard("c")), _dot)),
        (*FLOATS, dense_fits),
        to_dense,
        last(),
    ),
    (
        "qdense",
        quantised(activated(QuantisedProduct.dense_pattern())),
        (product_fits,),
        to_product,
        last(),
    ),
):
    declare(_name, _graph, _checks, _lower, _layouts)
