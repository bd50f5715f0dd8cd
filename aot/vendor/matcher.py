# SPDX-License-Identifier: Apache-2.0
"""Finds a pattern in the graph: depth first with backtracking over one mutable state.

Goals are a linked list (pattern, value, rest) so that nothing is copied per step; what a goal
binds is undone when the search comes back to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import Commutative, trait_of
from aot.vendor.pattern_ast import (
    Either,
    OpPat,
    Output,
    Pat,
    Results,
    Var,
    Where,
    children,
)

#: Operators with more inputs than this match in the order written only.
MOST_EXCHANGED = 4

Goals = tuple[Any, Any, "Goals"] | None  # (pattern, value, rest)
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class _Tail:
    """A goal: the remaining inputs of a variadic operator are called <prefix>0, <prefix>1, …"""

    prefix: str
    values: tuple[ir.Value | None, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a pattern matched: values and nodes by name, the nodes covered (root first).

    `groups` are the inputs of variadic operators by name, `results` the values others may read.
    """

    values: dict[str, ir.Value | None]
    nodes: dict[str, ir.Node]
    covered: list[ir.Node]
    root: ir.Node
    groups: dict[str, tuple[ir.Value | None, ...]]
    results: tuple[ir.Value, ...]


def match_at(pattern: Pat | Results, root: ir.Node) -> Binding | None:
    """The first way `pattern` matches with `root` as its last node, or None."""
    return next(matches_at(pattern, root), None)


def matches_at(
    pattern: Pat | Results, root: ir.Node, excluded: Container[int] = ()
) -> Iterator[Binding]:
    """Every way `pattern` matches at `root`, the author's preferred one first.

    `excluded` holds `id()` of nodes that must not be covered. No inner value is used outside the
    match or is an output of the graph, unless the pattern returns it; none is a wildcard's.
    """
    search = _Search(root, excluded)
    roots = pattern.roots if isinstance(pattern, Results) else (pattern,)
    for _ in search.results(roots, 0, root):
        found = search.binding(roots)
        if _closed(found) and not _reads_itself(found, search.wildcards):
            yield found


def _closed(found: Binding) -> bool:
    """Whether no value inside the match, results aside, is read outside or is a graph output."""
    covered = set(map(id, found.covered))
    results = set(map(id, found.results))
    for node in found.covered:
        for value in node.outputs:
            if id(value) in results:
                continue
            if value.is_graph_output():
                return False
            if any(id(user) not in covered for user, _ in value.uses()):
                return False
    return True


def _reads_itself(found: Binding, wildcards: Sequence[ir.Value | None]) -> bool:
    """Whether a wildcard, which stands for a value from outside, is computed by the match.

    Conv(x, w) + r where r is that same convolution: a fused kernel never stores it.
    """
    covered = set(map(id, found.covered))
    return any(v is not None and id(v.producer()) in covered for v in wildcards)


class _Search:
    """The state of one search: what is bound now."""

    def __init__(self, root: ir.Node, excluded: Container[int]) -> None:
        """Start a search with `root` as the last node; nothing is bound yet.

        `excluded` has the id() of nodes that must not be covered.
        """
        self.root = root
        self.graph = root.graph
        self.excluded = excluded
        self.values: dict[str, ir.Value | None] = {}
        self.nodes: dict[str, ir.Node] = {}
        self.groups: dict[str, tuple[ir.Value | None, ...]] = {}
        self.bound: dict[int, ir.Node] = {}  # by identity of the pattern
        self.covered: dict[int, ir.Node] = {}
        self.wildcards: list[ir.Value | None] = []

    def binding(self, roots: Sequence[Pat]) -> Binding:
        """A copy of the present state as a match, whose results the patterns `roots` stand for."""
        if len(roots) == 1:
            results = tuple(self.root.outputs)
        else:
            results = tuple(v for r in roots for v in self._read(r))
        return Binding(
            dict(self.values),
            dict(self.nodes),
            list(self.covered.values()),
            self.root,
            dict(self.groups),
            results,
        )

    def _read(self, root: Pat) -> list[ir.Value]:
        """The value that a result pattern stands for now, in a list; [] if nothing of it is
        bound.
        """
        if isinstance(root, Output):
            node = self.bound.get(id(root.op))
            return [node.outputs[root.index]] if node is not None else []
        if isinstance(root, OpPat):
            node = self.bound.get(id(root))
            return [node.outputs[0]] if node is not None else []
        if isinstance(root, Where):
            return self._read(root.pattern)
        options = root.options if isinstance(root, Either) else ()
        return next((v for o in options if (v := self._read(o))), [])

    def results(self, roots: Sequence[Pat], index: int, node: ir.Node) -> Iterator[None]:
        """Match `roots[index]` at `node`, and the results after it at nodes that the bound values
        reach.

        Yields once per way; between two yields the state holds that way.
        """
        for _ in self.at(roots[index], node, None):
            if index + 1 == len(roots):
                yield
                continue
            for candidate in self._candidates(roots[index + 1]) or ():
                yield from self.results(roots, index + 1, candidate)

    def at(self, pattern: Pat, node: ir.Node, rest: Goals) -> Iterator[None]:
        """Match the result `pattern` at `node`, then the goals `rest`; yields once per way."""
        if isinstance(pattern, OpPat):
            yield from self._node(pattern, node, rest)
        elif isinstance(pattern, Either):
            for option in pattern.options:
                yield from self.at(option, node, rest)
        elif isinstance(pattern, Output):
            if pattern.index < len(node.outputs):
                yield from self._node(pattern.op, node, rest)
        elif isinstance(pattern, Where):
            index = pattern.pattern.index if isinstance(pattern.pattern, Output) else 0
            if index < len(node.outputs) and pattern.test(node.outputs[index]):
                yield from self.at(pattern.pattern, node, rest)

    def _solve(self, goals: Goals) -> Iterator[None]:
        """Reach the goals one after another, (pattern, value, rest); yields once per way.

        Bindings are made before a yield and undone after it.
        """
        if goals is None:
            yield
            return
        pattern, value, rest = goals
        if isinstance(pattern, Var):
            yield from self._bind(pattern.name, value, rest)
        elif isinstance(pattern, _Tail):
            yield from self._bind_all(pattern, rest)
        # An operand that a pattern lists as absent must be absent.
        elif pattern is None:
            if value is None:
                yield from self._solve(rest)
        elif isinstance(pattern, OpPat):
            yield from self._produced(pattern, 0, value, rest)
        elif isinstance(pattern, Output):
            yield from self._produced(pattern.op, pattern.index, value, rest)
        elif isinstance(pattern, Either):
            for option in pattern.options:
                yield from self._solve((option, value, rest))
        elif value is None or pattern.test(value):
            yield from self._solve((pattern.pattern, value, rest))

    def _bind(self, name: str, value: ir.Value | None, rest: Goals) -> Iterator[None]:
        """Let the wildcard `name` stand for `value`, or check that it does already, then solve
        `rest`.
        """
        known = self.values.get(name, _MISSING)
        if known is _MISSING:
            self.values[name] = value
            self.wildcards.append(value)
            yield from self._solve(rest)
            self.wildcards.pop()
            del self.values[name]
        elif known is value:
            yield from self._solve(rest)

    def _bind_all(self, tail: _Tail, rest: Goals) -> Iterator[None]:
        """Bind all remaining inputs of a node at once: there may be thousands of them."""
        bound = []
        for i, value in enumerate(tail.values):
            name = f"{tail.prefix}{i}"
            known = self.values.get(name, _MISSING)
            if known is _MISSING:
                self.values[name] = value
                self.wildcards.append(value)
                bound.append(name)
            elif known is not value:
                break
        else:
            yield from self._solve(rest)
        for name in bound:
            self.wildcards.pop()
            del self.values[name]

    def _produced(
        self, pattern: OpPat, index: int, value: ir.Value | None, rest: Goals
    ) -> Iterator[None]:
        """Match an operator at the node whose output `index` is `value`, then solve `rest`.

        No way for an absent value, an input, or a value of a graph around this one.
        """
        if value is None or (node := value.producer()) is None:
            return
        # A sub-graph's nodes may read values of the graph around it: those are not its own.
        if node.graph is self.graph and value.index() == index:
            yield from self._node(pattern, node, rest)

    def _node(self, pattern: OpPat, node: ir.Node, rest: Goals) -> Iterator[None]:
        """Match an operator at `node` with its inputs, in every order they may have, then solve
        `rest`.

        An operator that occurs twice in the pattern must be the same node; no node is covered
        twice.
        """
        key = id(pattern)
        if key in self.bound:
            if self.bound[key] is node:
                yield from self._solve(rest)
            return
        # Cheap questions come first: orders of the inputs are tried at nodes that may match only.
        if not _fits(pattern, node) or id(node) in self.covered or id(node) in self.excluded:
            return
        inputs = _trimmed(node)
        if not _arity(pattern, len(inputs)) or not _promising(pattern, inputs):
            return
        self.bound[key] = self.covered[id(node)] = node
        named = list(zip(pattern.names, node.outputs, strict=False))
        self.values.update(named)
        if pattern.names:
            self.nodes[pattern.names[0]] = node
        if pattern.optional < 0:
            yield from self._variadic(pattern, inputs, rest)
        else:
            inputs += [None] * (len(pattern.inputs) - len(inputs))
            for order in _orders(node, inputs):
                yield from self._solve(_chain(pattern.inputs, order, rest))
        for name, _ in named:
            del self.values[name]
        if pattern.names:
            del self.nodes[pattern.names[0]]
        del self.bound[key], self.covered[id(node)]

    def _variadic(
        self, pattern: OpPat, inputs: list[ir.Value | None], rest: Goals
    ) -> Iterator[None]:
        """Match a variadic operator: its last pattern stands for all remaining inputs.

        They are called <name>0, <name>1, … and together by the name.
        """
        first = max(len(pattern.inputs) - 1, 0)
        last = pattern.inputs[-1] if pattern.inputs else None
        prefix = last.name if isinstance(last, Var) else "xs"
        self.groups[prefix] = tuple(inputs[first:])
        tail = _Tail(prefix, tuple(inputs[first:]))
        goals = _chain(pattern.inputs[:first], inputs[:first], (tail, None, rest))
        yield from self._solve(goals)
        del self.groups[prefix]

    def _candidates(self, pattern: Pat) -> list[ir.Node] | None:
        """Nodes that may be `pattern`: users of what is bound; None if nothing inside is bound."""
        if isinstance(pattern, OpPat):
            if id(pattern) in self.bound:
                return [self.bound[id(pattern)]]
            reached = [self._values(p) for p in pattern.inputs if p is not None]
            known = [values for values in reached if values is not None]
            if not known:
                return None
            users = [u for v in min(known, key=len) for u, _ in v.uses() if _fits(pattern, u)]
            return list({id(u): u for u in users if u.graph is self.graph}.values())
        found = [self._candidates(p) for p in children(pattern) if p is not None]
        nodes = [n for some in found if some is not None for n in some]
        return (
            list({id(n): n for n in nodes}.values()) if any(f is not None for f in found) else None
        )

    def _values(self, pattern: Pat) -> list[ir.Value] | None:
        """Values that may be `pattern`, None if nothing inside is bound."""
        if isinstance(pattern, Var):
            value = self.values.get(pattern.name)
            return None if value is None else [value]
        if isinstance(pattern, Either | Where):
            found = [self._values(p) for p in children(pattern) if p is not None]
            known = [v for some in found if some is not None for v in some]
            return known if any(f is not None for f in found) else None
        index = pattern.index if isinstance(pattern, Output) else 0
        nodes = self._candidates(pattern)
        if nodes is None:
            return None
        return [n.outputs[index] for n in nodes if index < len(n.outputs)]


def _fits(pattern: OpPat, node: ir.Node) -> bool:
    """Whether the node has an operator, a domain and attributes that the pattern asks for."""
    if node.op_type != pattern.op_type and node.op_type not in pattern.others:
        return False
    if node.domain != pattern.domain:
        return False
    return all(_has(attribute(node, name), wanted) for name, wanted in pattern.attrs)


def _has(value: Any, wanted: Any) -> bool:
    """Whether an attribute's value is the one wanted, or passes the function that is wanted."""
    if callable(wanted):
        return value is not None and bool(wanted(value))
    if isinstance(wanted, list | tuple):
        return value is not None and len(value) == len(wanted) and all(map(_has, value, wanted))
    if isinstance(wanted, float) and isinstance(value, float):
        # ONNX stores float32: 0.1 is not 0.1 there.
        return bool(np.float32(value) == np.float32(wanted))
    return bool(value == wanted)


def _arity(pattern: OpPat, given: int) -> bool:
    """Whether a node with `given` inputs may match: optional inputs may be absent."""
    if pattern.optional < 0:
        return given >= len(pattern.inputs) - 1
    return len(pattern.inputs) - pattern.optional <= given <= len(pattern.inputs)


def _promising(pattern: OpPat, inputs: Sequence[ir.Value | None]) -> bool:
    """Whether each operator right inside `pattern` computes one of `inputs`: a quick refusal."""
    for inner in pattern.inputs:
        if not isinstance(inner, OpPat):
            continue
        for value in inputs:
            node = None if value is None else value.producer()
            if node is not None and node.op_type in inner.kinds:
                break
        else:
            return False
    return True


def _trimmed(node: ir.Node) -> list[ir.Value | None]:
    """The inputs of a node without absent ones (None) at the end."""
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def _orders(node: ir.Node, inputs: list[ir.Value | None]) -> list[tuple[ir.Value | None, ...]]:
    """The orders in which the inputs may be read: as written first, no order twice.

    Only commutative operators of 2 to 4 inputs have several.
    """
    count = len(inputs)
    if trait_of(node, Commutative) is None or not 2 <= count <= MOST_EXCHANGED:
        return [tuple(inputs)]
    if count == 2:
        a, b = inputs
        return [(a, b)] if a is b else [(a, b), (b, a)]
    orders = {tuple(map(id, o)): o for o in itertools.permutations(inputs)}
    return list(orders.values())


def _chain(patterns: Sequence[Pat | None], values: Sequence[ir.Value | None], rest: Goals) -> Goals:
    """The goals that match each pattern with the value at its place, in front of `rest`."""
    for pattern, value in zip(reversed(patterns), reversed(values), strict=True):
        rest = (pattern, value, rest)
    return rest
