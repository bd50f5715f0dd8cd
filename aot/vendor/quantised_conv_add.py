# SPDX-License-Identifier: Apache-2.0
"""A convolution between quantised values and the sum of its quantised values with others, matched
as one record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8
from aot.vendor.cases import Case
from aot.vendor.match import Match, same_shapes
from aot.vendor.matcher import attribute
from aot.vendor.pattern import OP, Pat, Var
from aot.vendor.quantisation import (
    activated,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import kind, product_operands, quantised_case, quantised_values
from aot.vendor.quantised_pair import QuantisedPair
from aot.vendor.quantised_product import QuantisedProduct, conv_fits
from aot.vendor.requant import FLOAT


@dataclass(frozen=True, slots=True)
class QuantisedConvAdd:
    """A convolution whose int8 quantised values `c` are added to quantised values `r`; made once by
    `of`.

    `product` makes the quantised values `c`; `total` is the sum of them (its `a`) and of `r` (its
    `b`).
    """

    product: QuantisedProduct
    total: QuantisedPair

    @classmethod
    def of(cls, m: Match, rq: int = FLOAT) -> QuantisedConvAdd:
        """The record of a match of `pattern` in the arithmetic `rq`, once `checks` hold."""
        product, y = QuantisedProduct.of(m, rq, "c", "1"), quantisation(m, "y")
        total = QuantisedPair("Add", product.y, quantisation(m, "r"), y, bounds(m, y))
        return cls(product, total)

    @staticmethod
    def pattern() -> Pat:
        """The sum of a convolution's quantised values and of quantised values `r`; the node is
        called `op`."""
        sums = QuantisedProduct.conv_pattern()
        made = OP.QuantizeLinear(
            activated(sums, "1"), Var("sc"), Var("zc"), _optional=1, _outputs=["c"]
        )
        numbers = OP.DequantizeLinear(made, Var("sd"), Var("zd"), _optional=1)
        return OP.Add(numbers, dequantised("r"), _outputs=["op"])

    @staticmethod
    def checks(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute both, which `of` may then read."""
        ready = yield from all_hold(known(m, "x", "c", "r", "y", types=(S8,)))
        fits = yield from all_hold(conv_fits(m, "c", "1"))
        yield from constant_bounds(m)
        yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
        groups = int(m.conv.attr("group", 1))
        yield groups == 1, f"group {groups} (needs 1)"
        # The one with the smaller windows (a shortcut) comes first, and with it goes what it reads.
        yield depth_beside(m) <= depth_of(m), "the other operand is the larger convolution"
        yield same_shapes(m, m.r)
        yield not m.r.is_const, "the sum with a constant"
        same = m.sd.is_const and np.array_equal(m.sd.data, m.sc.data)
        same = same and (m.zd is None) == (m.zc is None)
        same = same and (m.zd is None or (m.zd.is_const and np.array_equal(m.zd.data, m.zc.data)))
        yield same, "quantised values that are read with other parameters"
        if ready and fits:
            symmetric = QuantisedProduct.of(m, FLOAT, "c", "1").w.symmetric
            yield symmetric, "weights with zero points that int8 cannot hold"
            yield from QuantisedConvAdd.of(m).total.sum_fits()

    @staticmethod
    def cases() -> Iterator[Case]:
        """Test cases of `pattern`."""
        for shape, kernel, pads in (
            ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
            ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
            ((1, 32, 5, 6), (8, 32, 1, 1), [0, 0, 0, 0]),
            ((1, 3, 7, 9), (4, 3, 3, 3), [1, 1, 1, 1]),
        ):
            w, r = (
                quantised_values(*kernel),
                quantised_values(shape[0], kernel[0], *shape[2:], seed=7),
            )
            steps = np.linspace(0.004, 0.011, kernel[0]).astype(np.float32)
            width = np.sqrt(w.size / kernel[0]) * 74 * 74 * 0.031 * 0.0075 / 40
            operands = (
                *product_operands(quantised_values(*shape), w, steps),
                *kind(width, 4),
                *kind(width, 4),
            )
            tail = (r, *kind(width * 0.73, -20), *kind(width * 1.13, -100))
            named: dict[str, Any] = {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
            yield quantised_case(*operands, *tail, fed=(0, 13), **named)


def depth_of(m: Match) -> int:
    """Products per result of the convolution."""
    return math.prod(m.w.shape[1:])


def depth_beside(m: Match) -> int:
    """Products per result of the plain convolution that makes `r` for this sum alone, or 0."""
    node = m.r.ir.producer()
    if len(m.r.ir.uses()) != 1 or node is None or node.op_type != "QuantizeLinear":
        return 0
    while node is not None and node.op_type in ("QuantizeLinear", "Relu", "Clip"):
        made = node.inputs[0]
        node = made.producer() if made is not None and len(made.uses()) == 1 else None
    if node is None or node.op_type != "Conv" or attribute(node, "group", 1) != 1:
        return 0
    w = node.inputs[1]
    return math.prod(int(str(d)) for d in w.shape[1:]) if w is not None and w.shape else 0
