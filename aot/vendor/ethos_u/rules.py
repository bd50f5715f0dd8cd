# SPDX-License-Identifier: Apache-2.0
"""What Vela 5.2 puts on the NPU of windows and weights, as data with reasons.

These are the rules of `vela --supported-ops-report` that a layer of a graph here can break. What
they say no word about is tried: Vela compiles each candidate alone (layers.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from aot.vendor import WindowShape
from aot.vendor.ethos_u.configs import Npu
from aot.vendor.ethos_u.tflite import SAME, VALID
from aot.vendor.ethos_u.values import Checks


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window of two axes (height, width) on an image, and the sum of its absolute weights.

    `padding` is SAME, VALID or EXPLICIT: what TensorFlow Lite calls the window's pads, or a
    padding of its own before it; None where the result is none of these.
    """

    window: WindowShape
    padding: int | None
    weights: int = 0


EXPLICIT = 2
Number = Callable[[Geometry], int]


@dataclass(frozen=True, slots=True)
class Rule:
    """A number of a window that may be `most`, or any where `unless` holds.

    The `families` are those of NPUs that have the limit.
    """

    what: str
    number: Number
    most: int
    unless: Callable[[Geometry], bool] = lambda g: False
    families: str = "u55 u65 u85"

    def check(self, shape: Geometry, npu: Npu) -> tuple[bool, str]:
        """Whether a window keeps the rule, and what to say if not."""
        number = self.number(shape)
        free = npu.family not in self.families or self.unless(shape)
        return free or number <= self.most, f"{self.what} {number} (needs at most {self.most})"


def _plain(shape: Geometry) -> bool:
    """Whether a window has neither padding nor dilations."""
    return shape.padding == VALID and max(shape.window.dilations) == 1


def _padded(shape: Geometry) -> bool:
    """Whether a window has padding of any name."""
    return shape.padding != VALID


def _stride(shape: Geometry) -> int:
    """The larger stride of a window, in positions."""
    return max(shape.window.strides)


STRIDES = Rule("stride", _stride, 3, _plain, "u55 u65")
WEIGHTS = Rule("a sum of absolute weights of", lambda g: g.weights, 127 * 65536)
HEIGHT = Rule("height of the window", lambda g: g.window.kernel[0], 256)
AREA = Rule("window of positions", lambda g: math.prod(g.window.kernel), 65536)
RULES: dict[str, tuple[Rule, ...]] = {
    "conv": (STRIDES, WEIGHTS),
    "depthwise": (Rule("stride", _stride, 3, families="u55 u65"), WEIGHTS),
    "dense": (WEIGHTS,),
    "average": (
        STRIDES,
        Rule("padded window of side", lambda g: max(g.window.kernel), 8, lambda g: not _padded(g)),
        Rule(HEIGHT.what, HEIGHT.number, HEIGHT.most, _padded),
        Rule(AREA.what, AREA.number, AREA.most, _padded),
    ),
    "maximum": (STRIDES, HEIGHT, AREA),
}


def kept(kind: str, shape: Geometry, npu: Npu) -> Checks:
    """Checks of all rules of a kind of layer."""
    for rule in RULES[kind]:
        yield rule.check(shape, npu)


def geometry(window: WindowShape, x: tuple[int, ...], y: tuple[int, ...], weights: int) -> Geometry:
    """The window of two axes on an image of the extents `x`, whose result has `y`."""
    kinds = [_padding(*axis) for axis in zip(*window.axes(), x, y, strict=True)]
    fitting = [p for p in (VALID, SAME, EXPLICIT) if all(p in k for k in kinds)]
    return Geometry(window, fitting[0] if fitting else None, weights)


def _padding(
    kernel: int, stride: int, dilation: int, before: int, after: int, x: int, y: int
) -> set[int]:
    """The names (SAME, VALID, EXPLICIT) that the pads of one axis may have; empty if none fits.

    `x` and `y` are extents before and after the window; `before` and `after` are pads. An axis may
    have several names, and the axes of an image must agree on one. Negative pads have no name.
    """
    reach = (kernel - 1) * dilation + 1
    found: set[int] = set()
    if min(before, after) < 0:
        return found
    if before == after == 0 and y == (x - reach) // stride + 1:
        found.add(VALID)
    total = max((y - 1) * stride + reach - x, 0)
    if y == -(-x // stride) and before == total // 2 and after >= 0:
        found.add(SAME)
    if y == (x + before + after - reach) // stride + 1:
        found.add(EXPLICIT)
    return found
