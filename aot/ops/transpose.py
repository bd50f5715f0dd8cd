# SPDX-License-Identifier: Apache-2.0
"""Permutations of axes: Transpose, DepthToSpace, SpaceToDepth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.layout import Layout
from aot.lower_context import LowerContext
from aot.ops.moves import Axis, Shape, stored, strides, view_or_move
from aot.ops.registry import Case, case, f32, ints, op
from aot.partition.match import Match, ValueRef

transpose = op("Transpose", "x", perm=None)
depth_to_space = op("DepthToSpace", "x", blocksize=1, mode="DCR")
space_to_depth = op("SpaceToDepth", "x", blocksize=1)


def permute(c: LowerContext, y: ValueRef, x: ValueRef, shape: Shape, perm: Sequence[int]) -> None:
    """Record y = x seen as `shape` with its axes in the order `perm`."""
    source = strides(shape)
    result = strides([shape[p] for p in perm])
    axes = [Axis(shape[p], s, source[p]) for p, s in zip(perm, result, strict=True)]
    view_or_move(c, y, x, axes, 0)


def permutation(m: Match) -> tuple[int, ...]:
    """The permutation, reversed order if none is given."""
    return tuple(m.perm) if m.perm is not None else tuple(reversed(range(m.x.rank)))


@transpose.layouts
def reads_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels-last from whole channel blocks needs no conversion before."""
    layout, perm = incoming["x"], permutation(m)
    last = (0, *range(2, m.x.rank), 1)
    if layout.blocked and perm == last and m.x.shape[1] % layout.block == 0:
        return {"x": layout}
    return {}


@transpose.lower
def transpose_to_kernel(c: LowerContext, m: Match) -> None:
    rank = m.x.rank
    if m.x.layout.blocked:
        permute(c, m.y, m.x, stored(m.x), (0, *range(2, rank), 1, rank))
    else:
        permute(c, m.y, m.x, m.x.shape, permutation(m))


@transpose.cases
def transpose_cases() -> Iterator[Case]:
    yield case(f32(2, 3, 4))
    yield case(f32(3, 37, 41), perm=[0, 2, 1])
    yield case(f32(2, 3, 4, 5), perm=[0, 2, 3, 1])
    yield case(f32(1, 5, 6, 3), perm=[0, 3, 1, 2])
    yield case(f32(2, 3, 4, 5), perm=[2, 0, 1, 3])
    yield case(ints(5, 3, 4, 2, dtype="int8"), perm=[3, 1, 2, 0])
    yield case(ints(17, 33, dtype="int64"), perm=[1, 0])
    yield case(f32(1, 5, 1, 3), perm=[2, 1, 0, 3])
    yield case(f32(2, 1, 3, 2, 2, 3), perm=[5, 3, 1, 0, 2, 4])


@depth_to_space.check
def depth_mode(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.mode in ("DCR", "CRD"), f"mode {m.mode!r} (needs DCR or CRD)"
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"


@depth_to_space.lower
def depth_to_kernel(c: LowerContext, m: Match) -> None:
    n, ch, h, w = m.x.shape
    b = m.blocksize
    if m.mode == "DCR":
        permute(c, m.y, m.x, (n, b, b, ch // (b * b), h, w), (0, 3, 4, 1, 5, 2))
    else:
        permute(c, m.y, m.x, (n, ch // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3))


@depth_to_space.cases
def depth_cases() -> Iterator[Case]:
    yield case(f32(2, 12, 3, 5), blocksize=2)
    yield case(f32(1, 18, 2, 3), blocksize=3, mode="CRD")


@space_to_depth.check
def space_rank(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"


@space_to_depth.lower
def space_to_kernel(c: LowerContext, m: Match) -> None:
    n, ch, h, w = m.x.shape
    b = m.blocksize
    permute(c, m.y, m.x, (n, ch, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4))


@space_to_depth.cases
def space_cases() -> Iterator[Case]:
    yield case(f32(2, 3, 4, 6), blocksize=2)
