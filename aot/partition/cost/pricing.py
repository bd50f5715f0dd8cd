# SPDX-License-Identifier: Apache-2.0
"""What the choice by cost says of itself: the alternatives, the total, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass, replace

LIMITED = "--offload-limit"
SEVERAL_FORMS = "the other form of the model was not proven either"
SEVERAL_RESULTS = "a match has several results, and such matches were tried greedily"
MANY_WAYS = "a pattern fits a node in more ways than were tried"


@dataclass(frozen=True, slots=True)
class Price:
    """What the nodes of a match cost with each backend that can compute them, in nanoseconds.

    `measured` says that no estimate is in these numbers.
    """

    nodes: tuple[str, ...]
    costs: tuple[tuple[str, float], ...]
    chosen: str
    measured: bool


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of all matches, and the time of the whole partition in nanoseconds.

    No partition takes less than `bound`, but for those that `doubts` speak of.
    """

    prices: tuple[Price, ...] = ()
    total: float = 0.0
    bound: float = 0.0
    doubts: tuple[str, ...] = ()

    @property
    def optimal(self) -> bool:
        """Whether no partition is cheaper."""
        # Equal costs are sums in several orders, which may differ by their rounding.
        return not self.doubts and abs(self.total - self.bound) <= 1e-9 * self.bound + 1e-9

    def text(self) -> str:
        """One line: the time, and what is proven of it."""
        if self.doubts:
            proof = f"not proven the cheapest: {'; '.join(self.doubts)}"
        elif self.optimal:
            proof = "the cheapest possible"
        elif 0 < self.bound < self.total:
            gap = 100.0 * (self.total / self.bound - 1)
            proof = f"at most {gap:.1f} % from the cheapest"
        else:
            proof = "not proven the cheapest"
        return f"cost {self.total / 1e3:.1f} us ({proof})"

    def doubting(self, *reasons: str) -> Pricing:
        """The same with further reasons for doubt."""
        return replace(self, doubts=tuple(dict.fromkeys([*self.doubts, *reasons])))
