# SPDX-License-Identifier: Apache-2.0
"""Which match computes which node, while backends match one after another."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.errors import AotError, BackendError, one_line
from aot.ir.deferred_import import ir
from aot.ir.node_traits import moves_no_byte
from aot.partition.annotate import PORTABLE, Mark, mark_of
from aot.partition.graph import read_by
from aot.partition.region_rules import too_heavy
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import Results, needed_ops, root_ops

__all__ = ["PORTABLE", "Cover", "Refusal"]

#: Ways to match one pattern at one node that are tried until a check passes.
MOST_TRIED = 16


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why `backend` does not compute a node; `pattern` is empty if none of its patterns fits."""

    node: str
    op_type: str
    backend: str
    pattern: str
    reason: str

    @property
    def source(self) -> str:
        """Backend and pattern."""
        return f"{self.backend}.{self.pattern}" if self.pattern else self.backend


@dataclass(frozen=True, slots=True)
class _Barred(Container[int]):
    """id() of nodes that `backend` may not cover with `mark`'s node: owned, or marked otherwise."""

    owner: Container[int]
    marks: Mapping[int, Mark]
    backend: str
    region: str

    def __contains__(self, node: object) -> bool:
        """Whether the node with the id() `node` has an owner, or the user gave it to another
        backend or region.
        """
        if node in self.owner:
            return True
        mark = self.marks.get(node, FREE)  # type: ignore[call-overload]
        return mark.backend not in ("", self.backend) or mark.region != self.region


@dataclass(frozen=True, slots=True)
class _Outside(Container[int]):
    """id() of nodes that are owned or not among `only`."""

    owner: Container[int]
    only: Container[int]

    def __contains__(self, node: object) -> bool:
        return node in self.owner or node not in self.only


FREE = Mark()


def _has(backend: Backend, name: str, node: ir.Node) -> bool:
    """Whether the backend has a pattern of that name that may end at the node."""
    kind = (node.domain, node.op_type)
    return any(p.name == name and kind in root_ops(p.graph) for p in backend.patterns)


class Cover:
    """Nodes of a graph and who owns them. Nodes are in topological order.

    What the user says of a node (`marks`, by id()) binds every backend.
    """

    def __init__(self, graph: ir.Graph, only: Container[int] | None = None) -> None:
        """All nodes of the graph, or those whose id() is in `only`."""
        self.nodes = [n for n in graph if only is None or id(n) in only]
        self._only = only
        self.marks = {id(n): m for n in self.nodes if (m := mark_of(n)) != FREE}
        self._marked_only = self._freely = False
        #: Whether some pattern fits some node in more ways than were tried.
        self.cut_short = False
        self._refusals: dict[Refusal, None] = {}
        self._after: list[list[ir.Node]] = []  # users by position, filled when first asked for
        self._position = {id(n): i for i, n in enumerate(self.nodes)}
        self._owner: dict[int, tuple[Pattern, Match]] = {}
        self._kinds: dict[tuple[str, str], list[int]] = {}
        self._several: list[Match] = []  # matches with more than one result
        # (backend, id of a root) → operators of the smallest match that the backend gave back there
        self._returned: dict[tuple[str, int], int] = {}
        for i, node in enumerate(self.nodes):
            self._kinds.setdefault((node.domain, node.op_type), []).append(i)

    @property
    def refusals(self) -> list[Refusal]:
        """Every reason given so far, once."""
        return list(self._refusals)

    def remember(self, refusals: Iterable[Refusal]) -> None:
        """Count refusals given elsewhere as given here."""
        self._refusals = dict.fromkeys([*refusals, *self._refusals])

    def missing(self) -> list[ir.Node]:
        """Nodes without a match."""
        return [n for n in self.nodes if id(n) not in self._owner]

    def matches(self) -> list[tuple[Pattern, Match]]:
        """What was taken, in the order of the roots."""
        unique = {id(self._owner[id(n)][1]): self._owner[id(n)] for n in self.nodes if self._has(n)}
        return sorted(unique.values(), key=lambda pm: self._position[id(pm[1].root.ir)])

    def _has(self, node: ir.Node) -> bool:
        return id(node) in self._owner

    def give_back(self, pattern: Pattern, match: Match) -> None:
        """Leave the nodes of a match to others."""
        for node in match.nodes:
            if self._owner.get(id(node.ir), (None, None))[1] is match:
                del self._owner[id(node.ir)]
        self._several = [m for m in self._several if m is not match]

    def refuse(self, pattern: Pattern, match: Match, reason: str) -> None:
        """Give a match back for good: its backend may have no match of its size there again."""
        self.give_back(pattern, match)
        self._returned[pattern.backend, id(match.root.ir)] = len(match.nodes)
        self._refuse(pattern, match.root.ir, [reason])

    def adopt(self, pattern: Pattern, match: Match) -> bool:
        """Accept a match found elsewhere, unless its nodes are owned or it closes a cycle."""
        if any(id(n.ir) in self._owner for n in match.nodes):
            return False
        if isinstance(pattern.graph, Results) and self._closes_a_cycle(match):
            return False
        self._accept(pattern, match)
        return True

    def match(self, backend: Backend, marked_only: bool = False, freely: bool = False) -> None:
        """Give `backend` what its patterns fit: more nodes first, then priority, then order.

        A pattern of varying length competes with the length it has at that place: a match that
        is shorter than its pattern's largest waits until matches of its size are due.
        With `marked_only` it gets nothing but what the user gives it by name; `freely` it may match
        also nodes that the user gives to others.
        """
        self._marked_only, self._freely = marked_only, freely
        patterns = backend.patterns
        due = [(-p.size, -p.priority, i, -1) for i, p in enumerate(patterns)]
        heapq.heapify(due)
        while due:
            size, priority, index, only = heapq.heappop(due)
            pattern = patterns[index]
            for position in self._roots(pattern) if only < 0 else (only,):
                match = self._fitting(backend, pattern, self.nodes[position])
                if match is None:
                    continue
                if len(match.nodes) < -size:
                    heapq.heappush(due, (-len(match.nodes), priority, index, position))
                else:
                    self._accept(pattern, match)

    def candidates(
        self, backend: Backend, marked_only: bool = False
    ) -> Iterator[tuple[Pattern, Match]]:
        """Every match that `match` may give the backend, the preferred ones first."""
        self._marked_only, self._freely = marked_only, False
        for pattern in backend.ordered():
            for position in self._roots(pattern):
                for match in self._fittings(backend, pattern, self.nodes[position]):
                    yield pattern, match

    def holds(self, backend: Backend, node: ir.Node) -> bool:
        """Whether a region of the backend can hold the view `node`."""
        if any(p.region_lowering is not None for p in backend.patterns):
            return self.held_as(backend, node) is not None
        return backend.name != PORTABLE

    def held_as(self, backend: Backend, node: ir.Node) -> tuple[Pattern, Match] | None:
        """How a backend that lowers whole regions holds the view `node` in one; None if it cannot.

        Views are portable C's, whatever this says.
        """
        for pattern in backend.patterns:
            if pattern.size == 1 and (node.domain, node.op_type) in root_ops(pattern.graph):
                match = next(self._checked(backend, pattern, node, ()), None)
                if match is not None:
                    return pattern, match
        return None

    def _accept(self, pattern: Pattern, match: Match) -> None:
        """Let `pattern` own the nodes of `match`."""
        self._owner.update((id(n.ir), (pattern, match)) for n in match.nodes)
        if isinstance(pattern.graph, Results):
            self._several.append(match)

    def _roots(self, pattern: Pattern) -> Sequence[int]:
        """Positions of nodes that may be the pattern's last one."""
        if not needed_ops(pattern.graph) <= self._kinds.keys():
            return ()
        found = [self._kinds.get(kind, []) for kind in root_ops(pattern.graph)]
        return found[0] if len(found) == 1 else sorted({i for some in found for i in some})

    def _fitting(self, backend: Backend, pattern: Pattern, node: ir.Node) -> Match | None:
        """The first match at `node` that passes the checks; why not, if none does."""
        return next(self._fittings(backend, pattern, node), None)

    def _fittings(self, backend: Backend, pattern: Pattern, node: ir.Node) -> Iterator[Match]:
        """Yield the matches of `pattern` at `node` that pass its checks and what the user said of
        the nodes.

        Reasons are noted if no match passes. A backend that is not the portable one gets no match
        that only moves no byte.
        """
        mark = FREE if self._freely else self.marks.get(id(node), FREE)
        # A view that the user gave to a vendor is still nobody's: portable C may take it.
        alone = backend.name == PORTABLE and pattern.size == 1
        nobodys = alone and mark.backend not in ("", PORTABLE) and moves_no_byte([node])
        mark = FREE if nobodys else mark
        if id(node) in self._owner or mark.backend not in ("", backend.name):
            return
        if self._marked_only and not mark.backend:
            return
        if mark.pattern and mark.pattern != pattern.name and _has(backend, mark.pattern, node):
            return
        barred: Container[int] = self._owner
        if self._only is not None:
            barred = _Outside(self._owner, self._only)
        if self.marks and not self._freely and not nobodys:
            barred = _Barred(self._owner, self.marks, backend.name, mark.region)
        for match in self._checked(backend, pattern, node, barred):
            if backend.name == PORTABLE or not moves_no_byte([n.ir for n in match.nodes]):
                yield match

    def _checked(
        self, backend: Backend, pattern: Pattern, node: ir.Node, barred: Container[int]
    ) -> Iterator[Match]:
        """Yield the matches at `node` without `barred` nodes that pass the pattern's checks.

        At most MOST_TRIED ways are tried. Reasons of the first match that is refused are noted if
        none passes. BackendError if the pattern or a check of the backend raises anything but an
        AotError.
        """
        step = "pattern"
        passed = False
        try:
            refused: list[str] = []
            for tried, match in enumerate(pattern.matches(node, barred)):
                if tried == MOST_TRIED:
                    self.cut_short = True
                    break
                if isinstance(pattern.graph, Results) and self._closes_a_cycle(match):
                    continue
                size = len(match.nodes)
                # A match as large as one that was given back before would be given back again.
                if size >= self._returned.get((backend.name, id(node)), size + 1):
                    continue
                step = "check"
                reasons = pattern.refusals(match) or too_heavy(backend, match)
                if not reasons:
                    passed = True
                    yield match
                refused = refused or reasons
                step = "pattern"
        except AotError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(str(error))}"
            raise BackendError(
                f"{backend.name}.{pattern.name}: its {step} raised {why}",
                f"node {NodeRef(node).onnx_name} ({node.op_type})",
                "this is a defect of the backend, not of the model",
            ) from error
        if not passed:
            self._refuse(pattern, node, refused)

    def _refuse(self, pattern: Pattern, node: ir.Node, reasons: Sequence[str]) -> None:
        """Note each of `reasons` why `pattern` does not take `node`, once, in the order of their
        first mention.
        """
        for reason in reasons:
            refusal = Refusal(str(node.name), node.op_type, pattern.backend, pattern.name, reason)
            self._refusals[refusal] = None

    def _closes_a_cycle(self, match: Match) -> bool:
        """Whether the quotient graph would have a cycle with `match` as one vertex.

        Only matches with several results can close one: of the others every path leaves at the
        root, which is after all they cover.
        """
        inside = {id(n.ir) for n in match.nodes}
        limit = self._furthest(match)
        stack = [u for n in match.nodes for u in self._users(n.ir) if id(u) not in inside]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in inside:
                return True
            if id(node) in seen or self._position[id(node)] > limit:
                continue
            owned = self._owner.get(id(node))
            together = [n.ir for n in owned[1].nodes] if owned else [node]
            seen.update(map(id, together))
            stack += [u for n in together for u in self._users(n) if id(u) not in seen]
        return False

    def _furthest(self, match: Match) -> int:
        """No path that comes back to `match` passes a node beyond this position.

        Positions grow along edges and in matches with one result; others may lead back.
        """
        limit = max(self._position[id(n.ir)] for n in match.nodes)
        spans = []
        for other in self._several:
            places = [self._position[id(n.ir)] for n in other.nodes]
            spans.append((min(places), max(places)))
        for low, high in sorted(spans):
            if low <= limit:
                limit = max(limit, high)
        return limit

    def _users(self, node: ir.Node) -> list[ir.Node]:
        """Nodes of this graph that read a result of `node`, if only inside of their bodies."""
        if not self._after:
            self._after = [[] for _ in self.nodes]
            for user in self.nodes:
                for value in read_by(user):
                    position = self._position.get(id(value.producer()))
                    if position is not None:
                        self._after[position].append(user)
        return self._after[self._position[id(node)]]
