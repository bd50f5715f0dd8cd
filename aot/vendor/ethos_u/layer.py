# SPDX-License-Identifier: Apache-2.0
"""A layer: what is matched, what is asked, what becomes of it in a network; what layers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aot.vendor import Case, Layout, Match, Quantisation, ValueRef, WindowShape
from aot.vendor.ethos_u.configs import Npu
from aot.vendor.ethos_u.rules import Geometry, geometry
from aot.vendor.ethos_u.tflite import ints
from aot.vendor.ethos_u.values import Builder, Checks, LayoutRule, shape_of, step_of


def plain(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layout rule that stores everything in ONNX's order."""
    return {}


@dataclass(frozen=True, slots=True)
class Layer:
    """A pattern and its operators in a network.

    `tensors` names the values of a match that become tensors, results last; `check` yields what
    the operators ask besides, `emit` adds them. `cases` are those of tests.
    """

    name: str
    graph: Any
    tensors: str
    check: Callable[[Match, Npu], Checks]
    emit: Callable[[Builder, Match], None]
    layouts: LayoutRule = plain
    cases: Callable[[], Iterator[Case]] | None = None


# -- activations --------------------------------------------------------------------------------

#: Fused activations: their number, the bounds of real numbers.
ACTIVATIONS = {0: (None, None), 1: (0.0, None), 3: (0.0, 6.0), 2: (-1.0, 1.0)}


def activation(limits: tuple[int, int], y: Quantisation) -> int | None:
    """The fused activation that limits quantised values so; None where there is none."""
    for number, bounds in ACTIVATIONS.items():
        low, high = (y.range[i] if b is None else y.encode(b) for i, b in enumerate(bounds))
        if (low, high) == tuple(limits):
            return number
    return None


def activation_fits(limits: tuple[int, int], y: Quantisation) -> Checks:
    """Check of the limits of a result."""
    real = [(q - y.z) * float(y.s) for q in limits]
    text = f"an activation from {real[0]:g} to {real[1]:g} (needs Relu, Relu6, or -1 to 1)"
    yield activation(limits, y) is not None, text


def window_geometry(window: WindowShape, m: Match, weights: int = 0) -> Geometry:
    """The geometry of a window that takes x to y; `weights` is the sum of its absolute weights.

    A value of rank 3 counts as an image of one row.
    """
    space = [(1,) * (4 - v.rank) + v.shape[2:] for v in (m.x, m.y)]
    return geometry(window, space[0], space[1], weights)


def padded(b: Builder, x: int, pads: list[tuple[int, int]]) -> int:
    """The tensor of x with (before, after) positions of its zero point on every axis."""
    shape = tuple(n + sum(p) for n, p in zip(b.net.shape(x), pads, strict=True))
    y = b.net.tensor(shape, *b.net.steps[x], f"p{x}")
    return b.net.op(
        "PAD", [x, b.net.const(ints([n for pair in pads for n in pair]).reshape(-1, 2))], y
    )


def rows_of(b: Builder, y: ValueRef, size: int) -> int:
    """A tensor for the result as rows of `size` elements."""
    if shape_of(y) == (math.prod(y.shape) // size, size):
        return b.enter(y)
    return b.net.tensor((math.prod(y.shape) // size, size), *step_of(y), f"{y.name}_rows")


def finish_rows(b: Builder, y: ValueRef, rows: int) -> None:
    """Define y in the builder as the tensor number `rows` in the shape of y; the builder is
    changed.
    """
    b.define(y, b.net.reshape(rows, shape_of(y)))
