# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose between quantised values: a convolution of x with zeros between its positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from aot.ops.quantised.common import quantised
from aot.ops.quantised.conv import record_general
from aot.vendor.cases import Case
from aot.vendor.layouts import all_channels_last
from aot.vendor.match import Match
from aot.vendor.pattern import OP, Var, either
from aot.vendor.quantisation import activated, all_hold, constant_bounds, dequantised, known
from aot.vendor.quantised_cases import product, quantised_values
from aot.vendor.quantised_product import QuantisedProduct, Weights, product_fits, weights_known
from aot.vendor.recorder import Recorder
from aot.vendor.requant import rq_of

_x, _w = dequantised("x"), dequantised("w")
transposed = quantised(
    "qconvtranspose",
    activated(
        either(
            OP.ConvTranspose(_x, _w, dequantised("b"), _outputs=["conv"]),
            OP.ConvTranspose(_x, _w, Var("f"), _outputs=["conv"], _optional=1),
        )
    ),
)


@transposed.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    pad = m.conv.attr("auto_pad", "NOTSET")
    yield pad == "NOTSET", f"auto_pad {pad!r} (needs explicit pads)"
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    yield from constant_bounds(m)
    conditions = (*known(m, "x", "y"), *weights_known(m, (1,)))
    if (yield from all_hold(conditions)) and m.w.is_const:
        yield from product_fits(m)


transposed.layouts(all_channels_last("x", "y"))


def turned(w: Weights) -> Weights:
    """Windows read from their other end."""
    space = tuple(range(2, w.data.ndim))
    return replace(w, data=np.ascontiguousarray(np.flip(w.data, space)))


@transposed.lower
def to_kernel(c: Recorder, m: Match) -> None:
    found = QuantisedProduct.of(m, rq_of(c))
    own = found.window
    assert own is not None
    ones = (1,) * len(own.kernel)
    sizes = zip(own.dilations, own.kernel, own.before, strict=True)
    before = tuple(d * (k - 1) - p for d, k, p in sizes)
    window = replace(own, strides=ones, before=before)
    record_general(c, m, replace(found, w=turned(found.w)), window, own.strides)


@transposed.cases
def cases() -> Iterator[Case]:
    for shape, kernel, named in (
        ((1, 5, 4, 3), (5, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 3, 4, 5), (3, 4, 2, 3), {"strides": [3, 1], "output_padding": [1, 0]}),
        ((1, 4, 7), (4, 3, 4), {"strides": [2], "dilations": [2]}),
    ):
        attrs: dict[str, Any] = {f"conv.{k}": v for k, v in named.items()}
        yield product(quantised_values(*shape), quantised_values(*kernel), 1, **attrs)
