# SPDX-License-Identifier: Apache-2.0
"""Places in the scratchpad: intervals of time packed into addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ALIGN = 16


@dataclass(frozen=True, slots=True)
class Request:
    """`size` bytes that `key` needs from group `first` to group `last`."""

    key: tuple[int, ...]
    first: int
    last: int
    size: int

    def meets(self, other: Request) -> bool:
        """Whether both requests are live in some group."""
        return self.first <= other.last and other.first <= self.last


def allocate(requests: Sequence[Request]) -> tuple[dict[tuple[int, ...], int], int]:
    """(first byte by key, highest byte) for requests that are live at the same time to lie apart.

    The best of first fit in several orders, by size, time and both.
    """
    orders: tuple[Callable[[Request], tuple[int, ...]], ...] = (
        lambda request: (-request.size, request.first),
        lambda request: (request.first, -request.size),
        lambda request: (-(request.last - request.first), -request.size),
        lambda request: (-request.size * (request.last - request.first + 1), request.first),
        lambda request: (-request.last, -request.size),
    )
    tried = [
        _fit(sorted(requests, key=lambda request: (*key(request), request.key))) for key in orders
    ]
    return min(tried, key=lambda found: found[1])


def _fit(requests: Sequence[Request]) -> tuple[dict[tuple[int, ...], int], int]:
    """(first byte by key, highest byte) of first fit in this order; places are multiples of 16
    bytes.
    """
    placed: list[tuple[Request, int]] = []
    top = 0
    for r in requests:
        taken = sorted((at, at + q.size) for q, at in placed if q.meets(r))
        at = 0
        for begin, end in taken:
            if begin >= at + r.size:
                break
            at = max(at, -(-end // ALIGN) * ALIGN)
        placed.append((r, at))
        top = max(top, at + r.size)
    return {r.key: at for r, at in placed}, top
