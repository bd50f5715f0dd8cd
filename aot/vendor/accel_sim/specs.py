# SPDX-License-Identifier: Apache-2.0
"""What the machine supports: a pattern of operators, when, and the layers it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aot.vendor import Match
from aot.vendor.accel_sim.images import Images
from aot.vendor.accel_sim.kinds import Rq

Checks = Iterator[tuple[bool, str]]
Check = Callable[[Match, Rq], Checks]
Build = Callable[[Images, Match], None]
Cases = Callable[[], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Spec:
    """`check` yields (condition, reason); only if all hold, `build` adds the layers.

    `moves`: nothing is computed, elements are only seen in another shape or order.
    """

    name: str
    graph: Any  # a pattern of operators
    check: Check
    build: Build
    moves: bool = False
    cases: Cases | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
