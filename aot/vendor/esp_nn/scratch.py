# SPDX-License-Identifier: Apache-2.0
"""How many bytes of scratch the library's functions want, by its variant for a chip."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aot.vendor import tflite_layers

#: The library's variants: plain C for any core, and those with assembly.
C, S3, P4 = VARIANTS = ("c", "esp32s3", "esp32p4")
#: Vectors of the chips, and bytes that the library keeps free around what it aligns.
LANES, S3_MARGIN, P4_MARGIN = 16, 64, 32
#: Bytes of the cache that the P4's convolutions work in, and the S3's depthwise ones.
P4_CACHE, S3_STRIP, S3_TILES = 32768, 40 * 1024, 48 * 1024


def _up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `value`."""
    return -(-value // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Geometry(tflite_layers.Convolution):
    """A convolution as the library is told it."""

    def bytes(self, variant: str) -> int:
        """Scratch of esp_nn_conv_s8."""
        if variant == C:
            return 0
        return self._conv_s3() if variant == S3 else self._conv_p4()

    @property
    def _pointwise(self) -> bool:
        return self.w[1:3] == self.stride == (1, 1) and self.pad == (0, 0)

    def _product(self, margin: int) -> int:
        """Scratch of a window of one position: weights, x where channels fill no vector."""
        _, h, w, channels = self.x
        wide = _up(channels, 8)
        turned = 16 * wide if h * w >= 8 else 0
        return (h * w * wide if channels % 8 else 0) + wide * self.w[0] + turned + margin

    def _conv_s3(self) -> int:
        """Of the variant esp32s3."""
        if self._pointwise:
            return self._product(S3_MARGIN)
        (_, h, w, channels), (outputs, kh, kw, _) = self.x, self.w
        row, window = kw * channels, kh * kw * channels
        if row < LANES <= window:
            aligned = _up(window, LANES)
            return 4 * outputs + outputs * aligned + aligned + 2 * LANES + S3_MARGIN
        (ph, pw), more = self.pad, self._reach()
        padded = (w + 2 * pw) * (h + 2 * ph) * channels if ph or pw else 0
        beyond = (w + more[1]) * (h + more[0]) * channels if any(more) else 0
        weights = kh * kw * _up(channels, LANES) * outputs + _up(row, LANES) * kh * outputs
        return padded + weights + beyond + S3_MARGIN + 4 * outputs

    def _reach(self) -> tuple[int, int]:
        """Rows and columns by which the S3's windows are taken to reach beyond x."""
        ends = zip(self.y[1:3], self.stride, self.w[1:3], self.x[1:3], strict=True)
        high, wide = (max(0, y * s + k - 1 - x) for y, s, k, x in ends)
        return high, wide

    def _conv_p4(self) -> int:
        """Of the variant esp32p4."""
        (_, h, w, channels), (outputs, kh, kw, _) = self.x, self.w
        sums, wide = 4 * outputs + P4_MARGIN, LANES * outputs
        if self._pointwise:
            return sums + wide + 32 if channels < LANES else self._product(P4_MARGIN)
        weights = kh * kw * _up(channels, LANES) * outputs
        if self.pad == (0, 0) and kw * channels >= LANES:
            return weights + sums
        if kh * kw * channels >= LANES:
            return sums + kh * kw * channels
        filled = _up(-(-LANES // kw), LANES)
        if self.pad == (0, 0):
            return sums + kh * kw * filled * outputs + h * w * filled
        row, rows = w + 2 * self.pad[1], h + 2 * self.pad[0]
        if row * rows * channels + 4 * outputs <= P4_CACHE:
            return row * rows * channels + weights + sums
        # Windows of fewer elements than a vector are made in strips of rows that fit the cache.
        tile, filters = row * filled, kh * kw * filled * outputs
        left, strip = P4_CACHE - 4 * outputs - filters, 1
        if 0 < kh * tile <= left:
            strip = min((left - kh * tile) // (self.stride[0] * tile) + 1, self.y[1])
        return ((strip - 1) * self.stride[0] + kh + 2 * self.pad[0]) * tile + filters + sums

    def depthwise_bytes(self, variant: str) -> int:
        """Scratch of esp_nn_depthwise_conv_s8."""
        if variant != S3:
            return 0
        (_, h, w, channels), each = self.x, self.y[3] // self.x[3]
        window = math.prod(self.w[1:3])
        filters, pixels = window * channels * each, h * w * channels
        if each == 1 and channels % 8 == 0 and self.w[1:3] == (3, 3):
            return self._square(filters)
        if each == 1 and channels % 8 == 0:
            tile = self.w[1] * w * channels
            fits = 2 * (filters + pixels) <= S3_TILES
            return 2 * (filters + (pixels if fits else tile)) + 32
        if each == 1 and channels > 3:
            wide = _up(channels, 8)
            at = _up(2 * window * wide, 16) + 2 * h * w * wide
            at = _up(at, 16) + math.prod(self.y[1:3]) * wide
            return _up(at, 16) + 12 * wide + 16
        return 2 * (filters + pixels) + 32 if each % 4 == 0 else 32

    def _square(self, filters: int) -> int:
        """Of windows of 3 x 3, one filter a channel, channels by eights."""
        (_, h, w, channels), more = self.x, self._reach()
        twice = 2 * self.pad[0], 2 * self.pad[1]
        if channels % 16 == 0:
            # Not _reach: what the library adds may be negative.
            ends = zip(self.y[1:3], self.stride, self.x[1:3], strict=True)
            high, wide = twice if any(twice) else [y * s + 2 - x for y, s, x in ends]
            full = (h + high) * (w + wide) * channels if high or wide else 0
            return filters + (full if full <= S3_STRIP else (w + wide) * 3 * channels) + 16
        if channels < 12:
            return 2 * (filters + h * w * channels) + 32
        wide = _up(channels, 16)
        x = (h + twice[0] + more[0]) * (w + twice[1] + more[1])
        return (9 + x + math.prod(self.y[1:3])) * wide + 64
