# SPDX-License-Identifier: Apache-2.0
"""One-shot packings: first fit with hole filling, over several orders of the buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.packing.problem import Problem


def orders(problem: Problem) -> Iterator[list[int]]:
    """Yield orders of buffers (indices) worth trying, the most successful on real graphs first."""
    n = range(len(problem.size))
    totals = problem.totals
    crowd = [max(totals[problem.first[i] : problem.last[i]]) for i in n]
    area = [problem.size[i] * problem.width[i] for i in n]
    yield sorted(n, key=lambda buffer: (-problem.size[buffer], -problem.width[buffer], buffer))
    yield sorted(n, key=lambda buffer: (-crowd[buffer], -problem.size[buffer], buffer))
    yield sorted(
        n, key=lambda buffer: (-crowd[buffer], -problem.width[buffer], -area[buffer], buffer)
    )
    yield sorted(n, key=lambda buffer: (-area[buffer], buffer))
    yield sorted(n, key=lambda buffer: (-problem.width[buffer], -problem.size[buffer], buffer))
    yield sorted(n, key=lambda buffer: (problem.first[buffer], -problem.width[buffer], buffer))
    yield sorted(n, key=lambda buffer: (-problem.last[buffer], -problem.width[buffer], buffer))
    yield _widest_first(problem, totals)


def _widest_first(problem: Problem, totals: Sequence[int]) -> list[int]:
    """Sections from the fullest down; in each, the buffers not listed yet by falling size.

    `totals` are the units live in each section.
    """
    listed = [False] * len(problem.size)
    order: list[int] = []
    for t in sorted(range(len(totals)), key=lambda section: (-totals[section], section)):
        for i in sorted(problem.live[t], key=lambda buffer: (-problem.size[buffer], buffer)):
            if not listed[i]:
                listed[i] = True
                order.append(i)
    return order


def first_fit(problem: Problem, order: Sequence[int], below: int = 0) -> list[int]:
    """Offsets: each buffer of `order` goes to the lowest hole that the placed ones leave.

    Fixed buffers come first. Raises ValueError if two of them overlap. With `below` the result is
    [] as soon as a buffer ends there or higher.
    """
    offsets = [-1] * len(problem.size)
    _place_fixed(problem, offsets)
    for i in order:
        if offsets[i] < 0:
            offsets[i] = _lowest(problem, i, offsets)
            if below and offsets[i] + problem.size[i] >= below:
                return []
    return offsets


def _place_fixed(problem: Problem, offsets: list[int]) -> None:
    """Write the fixed offsets into `offsets` (units), in place; ValueError if two of them
    overlap.
    """
    for i, offset in enumerate(problem.fixed):
        if offset is None:
            continue
        for j in problem.near[i]:
            if 0 <= offsets[j] < offset + problem.above(i, j) and offset < offsets[
                j
            ] + problem.above(j, i):
                raise ValueError(f"fixed buffers {j} and {i} overlap")
        offsets[i] = offset


def _lowest(problem: Problem, buffer: int, offsets: list[int]) -> int:
    """The least offset in units for `buffer` at which it overlaps no neighbour that has an
    offset.
    """
    align, lowest = problem.align[buffer], 0
    reach, size = problem.reach, problem.size
    own = reach[buffer]
    # Ranges in which the buffer must not begin, one per neighbour that has a place.
    forbidden = []
    for j in problem.near[buffer]:
        offset = offsets[j]
        if offset >= 0:
            other = reach[j]
            below = offset - (size[buffer] if own is None else own[j])
            forbidden.append((below, offset + (size[j] if other is None else other[buffer])))
    forbidden.sort()
    # In order of their lower ends, the first gap below a range is the lowest place.
    for below, top in forbidden:
        if lowest <= below:
            break
        if top > lowest:
            lowest = -(-top // align) * align
    return lowest
