# SPDX-License-Identifier: Apache-2.0
"""Clip, with constant bounds in one pass, with computed ones as a maximum and a minimum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array
from aot.ir.operators import Elementwise, Exact
from aot.ir.value_traits import Clamp, Curve
from aot.ops.binary import combine
from aot.ops.broadcast import Operand, operand, stored
from aot.ops.kernels import NUMBERS
from aot.ops.registry import op
from aot.ops.unary import SPECIAL, edges, emit
from aot.shapes.interval_analysis import Inputs as Bounded, Interval, bounds
from aot.vendor import Case, DType, Match, Recorder, case, f32
from aot.vendor.layouts import follow


def _bounded(_node: ir.Node, inputs: Sequence[Array | None]) -> bool:
    """Whether no bound is a NaN: nobody says what the result of such a bound is."""
    return not any(bound is not None and (bound != bound).any() for bound in inputs[1:])


clip = op(
    "Clip",
    "x low? high?",
    traits=[Elementwise("x"), Exact(when=_bounded), Curve(), Clamp("low", "high")],
    types=NUMBERS,
    layouts=follow,
)


@bounds("Clip")
def clip_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of the numbers, cut to no less than the lowest and no more than the highest
    limit.

    None if the interval of x is unknown; unknown limits cut nothing.
    """
    found, low, high = (*inputs, None, None)[:3]
    if found is None:
        return None
    for limit, least in ((low, True), (high, False)):
        if limit is not None:
            clamp = np.maximum if least else np.minimum
            found = Interval(clamp(found.low, limit.low), clamp(found.high, limit.high))
    return found


@clip.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that each bound, if it is there, has one element."""
    for name, value in (("min", m.low), ("max", m.high)):
        yield (
            value is None or math.prod(value.shape) == 1,
            f"{name} has {value and math.prod(value.shape)} elements (needs 1)",
        )


@clip.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record one clamp for constant bounds, else a maximum and a minimum with the bounds as
    operands.
    """
    given = [v for v in (m.low, m.high) if v is not None]
    if all(v.is_const for v in given):
        low, high = limits(m.x.dtype)
        emit(c, m, "clip", number(m.low, low), number(m.high, high))
        return
    so_far: Operand = operand(c, m.x, m.y)
    todo = [(k, v) for k, v in (("max", m.low), ("min", m.high)) if v is not None]
    for i, (kernel, value) in enumerate(todo):
        last = i == len(todo) - 1
        result = m.y if last else c.temp(stored(m.y), m.y.dtype)
        combine(c, kernel, m.x.dtype, result, stored(m.y), [so_far, operand(c, value, m.y)])
        so_far = (result, stored(m.y))


def limits(dtype: DType) -> tuple[float, float]:
    """(lowest, highest) bound that leaves every value of a type as it is."""
    if dtype.is_float:
        return -math.inf, math.inf
    info = np.iinfo(dtype.np_name)
    return int(info.min), int(info.max)


def number(value: Any, default: float) -> float:
    """The number in a constant bound, or `default` if it is absent."""
    if value is None:
        return default
    found: float = np.asarray(value.data).reshape(()).item()
    return found


@clip.cases
def cases() -> Iterator[Case]:
    """Clip(input, min, max): each bound given, absent, constant or computed."""
    zero, some = np.array(0, np.float32), np.array(1.5, np.float32)
    yield case(f32(3, 11), zero, some, const=(1, 2))
    yield case(f32(3, 11), None, some, const=(2,))
    yield case(f32(2, 5, 3), zero, const=(1,))
    yield case(SPECIAL, np.array(-1, np.float32), const=(1,))
    yield case(f32(2, 5, 3), zero, some)
    yield case(f32(2, 5, 3), zero, some, const=(2,))
    yield case(f32(2, 5, 3).astype(np.float64), np.array(0.5), const=(1,))
    for t in NUMBERS[2:]:
        yield case(edges(t), np.array(2, t.np_name), np.array(100, t.np_name), const=(1, 2))
        yield case(edges(t), np.array(3, t.np_name))
