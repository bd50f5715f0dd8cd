# SPDX-License-Identifier: Apache-2.0
"""Physical layouts of tensors: ONNX row-major, or channels in blocks of the vector width."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aot.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of a value's elements in memory: ONNX's row-major order, or channels in blocks.

    `block` 0 is ONNX's row-major order. `block` V > 0 stores [N, C, *S] as [N, ceil(C/V), *S, V];
    lanes past C hold unspecified values that no kernel may let influence the others, or zeros if
    `zeros` says so.
    """

    block: int = 0
    zeros: bool = False

    @property
    def blocked(self) -> bool:
        """Whether channels are blocked."""
        return self.block > 0

    def physical(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The stored shape of a tensor of logical `shape`."""
        if not self.block:
            return shape
        n, c, *s = shape
        return (n, -(-c // self.block), *s, self.block)

    def __str__(self) -> str:
        return f"NC{self.block}{'z' if self.zeros else ''}" if self.block else "plain"


#: ONNX's row-major order, without blocks.
PLAIN = Layout()


def blocked(vlen: int) -> Layout:
    """Channels in blocks of `vlen`."""
    return Layout(vlen)


def can_block(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of `shape` has a batch, a channel and one to three spatial axes."""
    return 3 <= len(shape) <= 5


def nbytes(shape: tuple[int, ...], dtype: DType, layout: Layout = PLAIN) -> int:
    """Bytes that a tensor takes in `layout`."""
    elements = math.prod(layout.physical(shape))
    return (elements * dtype.bits + 7) // 8


def same_bytes(shape: tuple[int, ...], a: Layout, b: Layout) -> bool:
    """Whether a tensor's first bytes are identical in both layouts, so one may view the other."""
    if a == b:
        return True
    v = a.block or b.block
    n, c, *s = shape
    if a.block and b.block:
        return a.block == b.block and (a.zeros or not b.zeros or c % v == 0)
    if v == 1:
        return True
    return math.prod(s) == 1 and (n == 1 or c % v == 0)


def to_physical(data: np.ndarray, layout: Layout) -> np.ndarray:
    """`data` (logical shape [n, c, ...]) as it is stored in `layout`: [n, blocks, ..., lanes].

    Lanes without a channel are zero; a plain layout leaves the shape.
    """
    if not layout.block:
        return np.ascontiguousarray(data)
    v = layout.block
    n, c, *s = data.shape
    blocks = -(-c // v)
    padded = np.zeros((n, blocks * v, *s), data.dtype)
    padded[:, :c] = data
    split = padded.reshape(n, blocks, v, *s)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))
