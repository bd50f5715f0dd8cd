# SPDX-License-Identifier: Apache-2.0
"""What the machine takes: a pattern of operators, when, and the layers it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aot.vendor.accel_sim.images import Images
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.match import Match
from aot.vendor.pattern import Builder as Op
from aot.vendor.pattern import Pat, Var
from aot.vendor.pattern_ast import Graph

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
    graph: Graph
    check: Check
    build: Build
    moves: bool = False
    cases: Cases | None = None
    attrs: dict[str, Any] = field(default_factory=dict)


def pattern(build: Callable[..., Any], *names: str) -> Any:
    """The graph `build(op, *wildcards)`."""
    return build(Op(), *[Var(n) for n in names])


def quantised(inner: Pat) -> Any:
    """QuantizeLinear(inner) with the scale "sy" and the zero point "zy"."""
    return Op().QuantizeLinear(inner, Var("sy"), Var("zy"), _optional=1)
