# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and how many bytes the library's functions want of the caller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.vendor import S8, Backend, DType, Match, Pattern, tflite_layers

Checks = tflite_layers.Checks

HEADER = "aot_cmsis_nn.h"
backend = Backend(
    "cmsis_nn",
    header=HEADER,
    sources=("aot_cmsis_nn.c", HEADER),
    link="CMSIS::NN",
    find="find_cmsis_nn.cmake",
    hint="Set AOT_CMSIS_NN_ROOT, of CMake or of the environment, to the folder that has "
    "Include/arm_nnfunctions.h, or define a target cmsis-nn before this bundle: docs/cmsis_nn.md.",
    folder=Path(__file__).parent,
)
#: Channels that Helium's depthwise kernel takes at a time, and 8-bit lanes of a vector.
CHANNEL_BLOCK, LANES = 124, 16
#: Transposed convolutions of more channels become convolutions with turned weights.
MOST_SUMMED = 16


def declare(name: str, graph: Any, ratio: float, *checks: Any, **functions: Any) -> Pattern:
    """Add the pattern `graph`, which takes `ratio` times as long as in portable C.

    Checks and functions are those of `Backend.declare`; a `cost` takes the place of that of bytes.
    """
    own = {"cost": lambda m: tflite_layers.priced(m, ratio)} | functions
    return backend.declare(name, graph, *checks, **own)


def types(m: Match) -> tuple[DType]:
    """The type that all quantised values of a match must have: that of its result if it is int16,
    else int8."""
    return (m.y.dtype,) if wide(m) else (S8,)


def wide(m: Match) -> str:
    """The ending of the function's name by the type of the result: "16" for int16, "" for int8."""
    return "16" * (str(m.y.dtype) == "int16")


def without_zeros(*points: int) -> Checks:
    """Checks of zero points of int16 quantised values, which the library takes for 0."""
    yield not any(points), f"zero points {list(points)} of int16 (need to be 0)"


@dataclass(frozen=True, slots=True)
class Geometry(tflite_layers.Convolution):
    """A convolution as the library is told it."""

    def as_column(self) -> Geometry:
        """The same on an image of one column in place of one row: the same bytes."""
        x, w, y = (((n, q, p, c)) for n, p, q, c in (self.x, self.w, self.y))
        pairs = (v[::-1] for v in (self.stride, self.pad, self.dilation))
        return Geometry(x, w, y, *pairs)

    def four_bits(self, simd: str) -> bool:
        """Whether the library's functions for weights of 4 bits are right: there are no groups, or,
        but for Helium, filters per channel that begin at a byte or one per channel of one image.
        """
        one = self.x[0] == 1 and self.x[3] == self.w[0] and self.dilation == (1, 1)
        deep = self.depthwise and simd != "mve"
        return self.whole or (deep and (self.x[3] % 2 == 0 or one))

    @property
    def pointwise(self) -> bool:
        """Whether the library takes it for a product of every position."""
        plain = self.pad == (0, 0) and self.dilation == (1, 1)
        return plain and self.w[1:3] == (1, 1) and self.whole

    @property
    def in_a_row(self) -> bool:
        """Whether the library takes it for a window that moves along one row."""
        aligned = self.stride[1] * self.x[3] % 4 == 0
        one = self.x[1] == self.w[1] == self.dilation[1] == 1
        return one and aligned and self.whole and not self.pointwise

    def of_row(self) -> Geometry:
        """The same on an image of the rows that one row of the result needs, if that is one."""
        one = ((n, 1, *rest) for n, _, *rest in (self.x, self.y))
        x, y = (tuple(v) for v in one)
        return Geometry(x, self.w, y, self.stride, (0, self.pad[1]), self.dilation)

    @property
    def by_rows(self) -> bool:
        """Whether the library is right for each row of the result: for Helium a row is one window
        that moves along it, where windows have one row."""
        row = self.of_row()
        return self.w[1] > 1 or row.row_exact or not row.in_a_row

    @property
    def padding(self) -> int:
        """Positions of padding that the windows of a row reach; negative: positions left over."""
        return (self.y[2] - 1) * self.stride[1] + self.w[2] - self.x[2]

    @property
    def row_exact(self) -> bool:
        """Whether Helium's kernel for one row gives the right result: it derives the padding
        behind the row from that before it, and copies a whole window from the row's start."""
        total, pad = self.padding, self.pad[1]
        even = total >= 0 and 2 * pad + total % 2 == total
        return even and self.x[2] >= self.w[2] and self.y[1] == 1

    def row_bytes(self) -> int | None:
        """Scratch of that kernel; None where it gives way to the general one."""
        pad, odd, stride, channels = self.pad[1], self.padding % 2, self.stride[1], self.x[3]
        left = -(-pad // stride)
        right = max(1, -(-(pad + odd) // stride)) if pad + odd else 0
        if left + right > self.y[2]:
            return None
        behind = right if odd else pad
        return (self.w[2] + max(pad, behind - 1)) * channels

    def bytes(self, simd: str, kind: str = "") -> int:
        """Scratch in bytes of arm_convolve_wrapper_s8 on a core with the vector unit `simd`; of
        _s16 or _s4 if `kind` is "16" or "4"."""
        columns, helium = self.w[1] * self.w[2] * self.x[3], simd == "mve"
        if kind == "16":
            return 8 * _up(columns, LANES // 2) if helium else 4 * columns
        if self.pointwise:
            return 0
        if not helium:
            return 4 * (columns if kind else _up(columns, 4))
        in_row = self.row_bytes() if self.in_a_row else None
        return 4 * _up(columns, LANES) if in_row is None else 0 if kind else in_row

    def depthwise_bytes(self, simd: str, kind: str = "") -> int:
        """Scratch of arm_depthwise_conv_wrapper_s8, or of _s16 or _s4 if `kind` is "16" or "4".

        In bytes, on a core with the vector unit `simd`, as the library's own functions compute
        them. 0 where it takes its general kernel, as for several outputs per channel.
        """
        window, helium = self.w[1] * self.w[2], simd == "mve"
        whole = self.x[3] == self.y[3] and self.dilation == (1, 1)
        if kind == "16":
            each = {"mve": 8, "dsp": 2}.get(simd, 0)
            return each * self.x[3] * window + 8 * helium if whole and window < 512 else 0
        if not whole or self.x[0] != 1:
            return 0
        if helium:
            return 4 * CHANNEL_BLOCK * window
        square = self.w[1:3] == (3, 3) and max(self.pad) <= 1
        return 2 * self.x[3] * window if kind or (simd == "dsp" and not square) else 0

    @property
    def turns(self) -> bool:
        """Whether a transposed convolution becomes one with turned weights."""
        return max(self.stride) <= 2 and self.w[3] > MOST_SUMMED

    def transposed_bytes(self, simd: str) -> tuple[int, int]:
        """Scratch of arm_transpose_conv_wrapper_s8: its own, and for turned weights.

        The library's formula counts rows of sums by the other stride; the larger one is right.
        """
        outputs, *window, inputs = self.w
        columns = inputs * math.prod(window)
        if self.turns:
            return 4 * _up(columns, LANES if simd == "mve" else 4), outputs * columns
        row = (self.x[2] - 1) * self.stride[1] + max(window[1], *self.stride)
        return 4 * row * outputs * max(window[0], self.stride[0]), 0


def _up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `value`."""
    return -(-value // multiple) * multiple


def average_bytes(simd: str, channels: int) -> int:
    """Bytes of scratch of arm_avgpool_s8: an int32 sum per channel on a core with DSP, else 0."""
    return 4 * channels if simd == "dsp" else 0
