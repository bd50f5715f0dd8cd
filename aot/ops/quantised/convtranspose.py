# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose between codes: a convolution of x with zeros between its positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from aot.ir.layout import Layout
from aot.ops.layouts import channels_last
from aot.ops.quantised.cases import codes_of, product
from aot.ops.quantised.common import OP, activated, constant_bounds, dequantised, known, quantised
from aot.ops.quantised.conv import (
    Weights,
    groups_of_transposed,
    product_fits,
    product_of,
    record_general,
    weights_known,
)
from aot.ops.quantised.requant import rq_of
from aot.vendor.cases import Case
from aot.vendor.match import Match
from aot.vendor.pattern import Var, either
from aot.vendor.recorder import Recorder

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
    asked = [*known(m, "x", "y"), *weights_known(m, (1,))]
    yield from asked
    if m.w.is_const and all(ok for ok, _ in asked):
        yield from product_fits(m, 1)


@transposed.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


def turned(w: Weights) -> Weights:
    """Windows read from their other end."""
    space = tuple(range(2, w.data.ndim))
    return replace(w, data=np.ascontiguousarray(np.flip(w.data, space)))


@transposed.lower
def to_kernel(c: Recorder, m: Match) -> None:
    rank = m.x.rank - 2
    found = product_of(m, 1, rq_of(c))
    kernel = m.w.shape[2:]
    dilations = [int(d) for d in m.conv.attr("dilations", [1] * rank)]
    pads = [int(p) for p in m.conv.attr("pads", [0] * (2 * rank))]
    before = [d * (k - 1) - p for d, k, p in zip(dilations, kernel, pads[:rank], strict=True)]
    strides = [int(s) for s in m.conv.attr("strides", [1] * rank)]
    sizes = {"k": kernel, "s": [1] * rank, "d": dilations, "pad": before, "up": strides}
    record_general(c, m, turned(found.w), found.bias, groups_of_transposed(m), sizes)


@transposed.cases
def cases() -> Iterator[Case]:
    for shape, kernel, named in (
        ((1, 5, 4, 3), (5, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 3, 4, 5), (3, 4, 2, 3), {"strides": [3, 1], "output_padding": [1, 0]}),
        ((1, 4, 7), (4, 3, 4), {"strides": [2], "dilations": [2]}),
    ):
        attrs: dict[str, Any] = {f"conv.{k}": v for k, v in named.items()}
        yield product(codes_of(*shape), codes_of(*kernel), 1, **attrs)
