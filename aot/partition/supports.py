# SPDX-License-Identifier: Apache-2.0
"""Whether some backend computes a node as it is: asked before its body supports its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aot.ir.deferred_import import ir
from aot.vendor.backend import Pattern
from aot.vendor.pattern_ast import Either, OpPat, Pat, Results


def supports(patterns: Sequence[Pattern]) -> Callable[[ir.Node], bool]:
    """A test of single nodes. Operators that `patterns` know only among others count as taken."""
    known: dict[tuple[str, str], list[Pattern]] = {}
    for pattern in patterns:
        graph = pattern.graph
        if isinstance(graph, OpPat) and _is_alone(graph):
            for kind in graph.kinds:
                known.setdefault((graph.domain, kind), []).append(pattern)

    def is_supported(node: ir.Node) -> bool:
        candidates = known.get((node.domain, node.op_type))
        return candidates is None or any(_supports(p, node) for p in candidates)

    return is_supported


def _is_alone(graph: Pat | Results) -> bool:
    return isinstance(graph, OpPat) and not any(isinstance(i, OpPat | Either) for i in graph.inputs)


def _supports(pattern: Pattern, node: ir.Node) -> bool:
    """A node that cannot be looked at is left to `select`, which says why."""
    try:
        match = pattern.match(node)
        return match is not None and not pattern.refusals(match)
    except Exception:
        return True
