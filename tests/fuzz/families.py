# SPDX-License-Identifier: Apache-2.0
"""The list of everything the generator can add to a draft: functions with a weight."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import Draft

Family = Callable[[Draft], object]
FAMILIES: dict[str, tuple[Family, float]] = {}


def family(weight: float = 1.0) -> Callable[[Family], Family]:
    """Decorator: a function that adds nodes to a draft, drawn with this weight."""

    def adopt(function: Family) -> Family:
        FAMILIES[function.__name__] = (function, weight)
        return function

    return adopt


def load() -> dict[str, tuple[Family, float]]:
    """Every family, in a fixed order."""
    from fuzz import (  # noqa: F401
        blocks,
        by_rows,
        control,
        data,
        elementwise,
        layers,
        moving,
        quantised,
        recurrent,
        reducing,
        special,
        stretched,
    )

    return dict(sorted(FAMILIES.items()))
