# SPDX-License-Identifier: Apache-2.0
"""A matched average (of 16-bit quantised values also a maximum) of positions between quantised
values, as one record."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16, DType
from aot.vendor.cases import Case
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import OP, Pat, Var, either
from aot.vendor.quantisation import (
    Quantisation,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
    told,
)
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.requant import refusal
from aot.vendor.window_shape import WindowShape

WINDOWS, MAXIMA = ("AveragePool", "MaxPool"), ("MaxPool", "GlobalMaxPool")
#: The largest window whose mean has a multiplier per number of positions inside the image.
MOST_COUNTS = 64
#: The largest window: sums of quantised values of 8, and of 16 bits.
MOST_POSITIONS = {S8: 2**22, U8: 2**22, S16: 2**14, U16: 2**14}


@dataclass(frozen=True, slots=True)
class QuantisedPool:
    """Pooling of quantised values `x` to quantised values `y`, made once by `of`.

    `node` is an AveragePool, GlobalAveragePool, ReduceMean over the positions, MaxPool or
    GlobalMaxPool. `window` has three axes (the missing outer ones of extent 1), `result` are the
    spatial extents of the result; `limits` the lowest and highest quantised value of the result.
    """

    node: NodeRef
    x: Quantisation
    y: Quantisation
    limits: tuple[int, int]
    window: WindowShape
    result: tuple[int, ...]

    @classmethod
    def of(cls, m: Match) -> QuantisedPool:
        """The record of a match whose node is called `pool`, once `checks` hold."""
        window, y = window_of(m), quantisation(m, "y")
        assert window is not None
        whole = m.pool.op_type not in WINDOWS
        result = (1,) * (m.x.rank - 2) if whole else m.y.shape[2:]
        return cls(m.pool, quantisation(m, "x"), y, bounds(m, y), window.widened(3), result)

    @property
    def counts_padding(self) -> bool:
        """Whether an average counts positions of padding as values of zero."""
        return bool(self.node.attr("count_include_pad", 0))

    @property
    def counts_vary(self) -> bool:
        """Whether windows at the border average fewer positions than others."""
        return _counts_vary(self.node)

    @staticmethod
    def average_pattern() -> Pat:
        """The average of quantised values `x` in windows, or over all positions; the node is called
        `pool`."""
        return either(
            OP.any_of("AveragePool", "GlobalAveragePool")(dequantised("x"), _outputs=["pool"]),
            OP.ReduceMean(dequantised("x"), Var("axes"), _optional=1, _outputs=["pool"]),
        )

    @staticmethod
    def operands_fit(
        m: Match, types: Sequence[DType] = (S8, U8)
    ) -> Generator[tuple[bool, str], None, bool]:
        """Checks of quantisation parameters and Clip bounds; returns whether the parameters are
        known.
        """
        ready = yield from all_hold(known(m, "x", "y", types=types))
        yield from constant_bounds(m)
        return ready

    @staticmethod
    @told
    def checks(m: Match, types: Sequence[DType] = (S8, U8)) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute the pool, after which `of` may make the record.

        Returned is whether all hold.
        """
        yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
        ready = yield from QuantisedPool.operands_fit(m, types)
        yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
        if 3 <= m.x.rank <= 5 and ready:
            yield from _window_fits(m)

    @staticmethod
    def average_cases() -> Iterator[Case]:
        """Test cases of `average_pattern`: windows, padding, strides, one to three spatial axes."""
        steps = (*kind(0.0311, -7), *kind(0.023171, 11))
        for shape, attrs in (
            ((1, 5, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ((2, 17, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ((1, 3, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
            ((1, 3, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
            ((1, 3, 11), {"kernel_shape": [4], "strides": [3]}),
            ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
        ):
            named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
            yield quantised_case(quantised_values(*shape), *steps, **named)
        unsigned = (*kind(0.031, 100, "uint8"), *kind(0.005, 11, "uint8"))
        square: dict[str, Any] = {"pool.kernel_shape": [5, 5]}
        yield quantised_case(quantised_values(1, 4, 5, 5, dtype="uint8"), *unsigned, **square)


def window_of(m: Match) -> WindowShape | None:
    """The window of the node `pool`; None if it is no mean over all positions."""
    rank, node, space = m.x.rank - 2, m.pool, m.x.shape[2:]
    if node.op_type in WINDOWS:
        return WindowShape.of(node, tuple(int(k) for k in node.attr("kernel_shape")))
    if node.op_type == "ReduceMean":
        axes = m.values.get("axes")
        if axes is None or not axes.is_const:
            return None
        meant = {int(a) % m.x.rank for a in np.ravel(np.asarray(axes.data))}
        if meant != set(range(2, m.x.rank)):
            return None
    one, none = (1,) * rank, (0,) * rank
    return WindowShape(space, one, one, none, none)


def _counts_vary(node: NodeRef) -> bool:
    """Whether windows of an AveragePool at the border average fewer positions than others."""
    if node.op_type != "AveragePool":
        return False
    pads = any(node.attr("pads") or ())
    return bool(node.attr("ceil_mode", 0)) or (pads and not node.attr("count_include_pad", 0))


def _window_fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that integers compute the mean over the window of the node `pool`.

    A sum must fit its accumulator (MOST_POSITIONS by type of x); where windows at the border
    average fewer positions there is a multiplier for each number of them, up to MOST_COUNTS;
    and the quotient of the scales of x and y must have a multiplier.
    """
    if m.pool.op_type in WINDOWS:
        pad = m.pool.attr("auto_pad", "NOTSET")
        yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"
    window = window_of(m)
    yield window is not None, "the mean is not over all positions"
    if window is None:
        return
    count = math.prod(window.kernel)
    most = MOST_POSITIONS[m.x.dtype]
    yield count < most, f"a window of {count} positions (needs less than {most})"
    many = _counts_vary(m.pool) and count > MOST_COUNTS
    yield not many, f"a window of {count} positions that reaches outside"
    reason = refusal(float(quantisation(m, "x").s), np.ones(1), float(quantisation(m, "y").s))
    yield not reason, reason
