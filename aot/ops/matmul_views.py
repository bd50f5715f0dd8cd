# SPDX-License-Identifier: Apache-2.0
"""Operands of matrix products as strided views, and batches of any rank folded to three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aot.vendor import OP
from aot.vendor.pattern import Pat, optional

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor seen through its strides (in elements)."""

    shape: Dims
    strides: Dims

    @staticmethod
    def contiguous(shape: Sequence[int]) -> Strided:
        """The view of a dense tensor of this shape, last axis fastest."""
        return Strided(tuple(shape), tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))

    def permuted(self, perm: Sequence[int]) -> Strided:
        """The view with axis `perm[i]` as its axis i; no element moves."""
        return Strided(tuple(self.shape[p] for p in perm), tuple(self.strides[p] for p in perm))

    def inverse(self, perm: Sequence[int]) -> Strided:
        """The view whose transposition by `perm` this is."""
        order = sorted(range(len(perm)), key=lambda i: perm[i])
        return self.permuted(order)

    def matrix(self, row: bool) -> Strided:
        """A view of one axis as a matrix of one row (`row`) or one column; others as they are."""
        if len(self.shape) > 1:
            return self
        shape, strides = self.shape, self.strides
        if row:
            return Strided((1, *shape), (0, *strides))
        return Strided((*shape, 1), (*strides, 0))

    def broadcast(self, batch: Dims) -> Dims:
        """The strides along the batch axes of sizes `batch`: 0 where this operand is repeated."""
        own, strides = self.shape[:-2], self.strides[:-2]
        lead = len(batch) - len(own)
        padded = [0] * lead + [0 if n == 1 else s for n, s in zip(own, strides, strict=True)]
        return tuple(padded)


def fold_batch(sizes: Dims, strides: Sequence[Dims]) -> tuple[Dims, list[Dims]]:
    """(sizes, strides per operand) of the batch axes, neighbours merged that every operand steps
    through as one.

    `sizes` are the axes, the outermost first; `strides` has a tuple per operand, in elements, with
    0 where an operand is repeated. Axes of size 1 go.
    """
    out: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        now = [s[axis] for s in strides]
        if out and all(have[-1] == n * size for have, n in zip(steps, now, strict=True)):
            out[-1] *= size
            for have, n in zip(steps, now, strict=True):
                have[-1] = n
            continue
        out.append(size)
        for have, n in zip(steps, now, strict=True):
            have.append(n)
    return tuple(out), [tuple(s) for s in steps]


def batches(a: Strided, b: Strided, y: Strided) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """(sizes, [strides of a, b, y]) of the batch axes, merged where all operands allow; in
    elements.
    """
    sizes = y.shape[:-2]
    return fold_batch(sizes, [v.broadcast(sizes) for v in (a, b, y)])


def three(values: Dims, fill: int) -> tuple[int, int, int]:
    """`values` (at most three) at the end of three numbers, with `fill` before them."""
    padded = [fill] * (3 - len(values)) + list(values)
    return padded[0], padded[1], padded[2]


def turned(name: str, value: Pat) -> Pat:
    """The pattern `value`, behind a Transpose called `name` or without it."""
    return optional(lambda x: OP.Transpose(x, _outputs=[name]), value)
