# SPDX-License-Identifier: Apache-2.0
"""One-shot packings: first fit with hole filling, over several orders of the buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.plan.memory.problem import Problem


def orders(p: Problem) -> Iterator[list[int]]:
    """Orders worth trying, the most successful on real graphs first."""
    n = range(len(p.size))
    totals = p.totals
    crowd = [max(totals[p.first[i] : p.last[i]]) for i in n]
    area = [p.size[i] * p.width[i] for i in n]
    yield sorted(n, key=lambda i: (-p.size[i], -p.width[i], i))
    yield sorted(n, key=lambda i: (-crowd[i], -p.size[i], i))
    yield sorted(n, key=lambda i: (-crowd[i], -p.width[i], -area[i], i))
    yield sorted(n, key=lambda i: (-area[i], i))
    yield sorted(n, key=lambda i: (-p.width[i], -p.size[i], i))
    yield sorted(n, key=lambda i: (p.first[i], -p.width[i], i))
    yield sorted(n, key=lambda i: (-p.last[i], -p.width[i], i))
    yield _widest_first(p, totals)


def _widest_first(p: Problem, totals: Sequence[int]) -> list[int]:
    """Sections from the fullest down; in each, the buffers not yet listed by falling size."""
    listed = [False] * len(p.size)
    order: list[int] = []
    for t in sorted(range(len(totals)), key=lambda t: (-totals[t], t)):
        for i in sorted(p.live[t], key=lambda i: (-p.size[i], i)):
            if not listed[i]:
                listed[i] = True
                order.append(i)
    return order


def first_fit(p: Problem, order: Sequence[int]) -> list[int]:
    """Offsets: each buffer of `order` goes to the lowest hole that the placed ones leave.

    Fixed buffers come first. Raises ValueError if two of them overlap.
    """
    offsets = [-1] * len(p.size)
    _place_fixed(p, offsets)
    for i in order:
        if offsets[i] < 0:
            offsets[i] = _lowest(p, i, offsets)
    return offsets


def _place_fixed(p: Problem, offsets: list[int]) -> None:
    for i, offset in enumerate(p.fixed):
        if offset is None:
            continue
        for j in p.near[i]:
            if 0 <= offsets[j] < offset + p.above(i, j) and offset < offsets[j] + p.above(j, i):
                raise ValueError(f"fixed buffers {j} and {i} overlap")
        offsets[i] = offset


def _lowest(p: Problem, i: int, offsets: list[int]) -> int:
    """The least offset that lies in no forbidden range; each placed neighbour forbids one."""
    align, lowest = p.align[i], 0
    reach, size = p.reach, p.size
    own = reach[i]
    forbidden = []
    for j in p.near[i]:
        offset = offsets[j]
        if offset >= 0:
            other = reach[j]
            below = offset - (size[i] if own is None else own[j])
            forbidden.append((below, offset + (size[j] if other is None else other[i])))
    forbidden.sort()
    for below, top in forbidden:
        if lowest <= below:
            break
        if top > lowest:
            lowest = -(-top // align) * align
    return lowest
