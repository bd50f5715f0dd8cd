# SPDX-License-Identifier: Apache-2.0
"""All hostile cases, in a fixed order, and samples of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from hostile import companions, damage, extents, operators, sizes, structure, texts
from hostile.case import Case

#: Families whose cases take seconds each; samples leave them out.
SLOW = ("size", "folding bombs")


def all_cases() -> Iterator[Case]:
    """Every case."""
    for family in (damage, texts, extents, structure, companions, operators, sizes):
        yield from family.cases()


def sample(seed: int, each: int) -> Sequence[Case]:
    """`each` cases of every family but the slow ones, chosen by `seed`."""
    families: dict[str, list[Case]] = {}
    for case in all_cases():
        families.setdefault(case.family, []).append(case)
    chosen: list[Case] = []
    for family, cases in families.items():
        if family not in SLOW:
            rng = random.Random(f"{seed} {family}")
            chosen += rng.sample(cases, min(each, len(cases)))
    return chosen
