# SPDX-License-Identifier: Apache-2.0
"""What a pattern is made of: frozen records, matched by `matcher`, written with `pattern`.

A record used twice in a pattern stands for the same node both times (identity, not equality).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from aot.ir.deferred_import import ir

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Var:
    """A wildcard: any value, or none if optional."""

    name: str


@dataclass(frozen=True, slots=True)
class Either:
    """Matches the first of `options` that fits."""

    options: tuple[Pat, ...]


@dataclass(frozen=True, slots=True)
class OpPat:
    """A node of operator `op_type` in `domain`, with `inputs` and required `attrs`.

    The last `optional` inputs may be absent; -1 makes the operator variadic: the last of `inputs`
    stands for all that follow. `others` are operators accepted in place of `op_type`. An
    attribute that is a function must return true for the node's value.
    """

    op_type: str
    domain: str
    inputs: tuple[Pat | None, ...]
    attrs: tuple[tuple[str, Any], ...]
    names: tuple[str, ...]
    optional: int
    others: tuple[str, ...] = ()

    def __getitem__(self, index: int) -> Output:
        """The node's output `index`, to be read by another operator or returned."""
        return Output(self, index)

    def __iter__(self) -> Iterator[Output]:
        """As many outputs as `_outputs` names."""
        return (Output(self, i) for i in range(len(self.names)))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the operators that this element of a pattern accepts, its own first."""
        return (self.op_type, *self.others)


@dataclass(frozen=True, slots=True)
class Output:
    """Output `index` of a node with several; an `OpPat` by itself is output 0."""

    op: OpPat
    index: int


@dataclass(frozen=True, slots=True)
class Where:
    """`pattern`, if the value passes `test`; `text` says what is asked. Absent inputs pass.

    `constant` tells that the value is known at compile time, `given` is the number that all its
    elements are, `dtype` the type asked for (None and "" where the test does not say).
    """

    pattern: Pat
    test: Callable[[ir.Value], bool]
    text: str
    constant: bool = False
    given: Any = None
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Several results of one pattern; the first is where the search starts."""

    roots: tuple[Pat, ...]


#: A part of a pattern: a wildcard, an operator, one of its outputs, alternatives, a condition.
Pat = Var | Either | OpPat | Output | Where
Graph = OpPat | Either | Output | Where | Results


def children(pattern: Pat | Results | None) -> tuple[Pat | None, ...]:
    """The patterns directly inside a pattern, in order; None stands for an input that is absent."""
    if isinstance(pattern, OpPat):
        return pattern.inputs
    if isinstance(pattern, Either):
        return pattern.options
    if isinstance(pattern, Where):
        return (pattern.pattern,)
    if isinstance(pattern, Output):
        return (pattern.op,)
    return pattern.roots if isinstance(pattern, Results) else ()


def parts(pattern: Pat | Results | None) -> list[Pat]:
    """Every record of a pattern once, outermost first."""
    found: dict[int, Pat] = {}
    stack: list[Pat | Results | None] = [pattern]
    while stack:
        top = stack.pop()
        if top is None or id(top) in found:
            continue
        if not isinstance(top, Results):
            found[id(top)] = top
        stack.extend(reversed(children(top)))
    return list(found.values())


def _once(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Remember what `function` says of a pattern, which never changes.

    Patterns are known by identity (comparing them costs as much as asking again), and kept alive so
    that no other one gets their place.
    """
    known: dict[int, tuple[object, T]] = {}

    @functools.wraps(function)
    def ask(pattern: Any) -> T:
        """The answer of the function about this very pattern, asked once."""
        found = known.get(id(pattern))
        if found is None:
            found = known[id(pattern)] = pattern, function(pattern)
        return found[1]

    return ask


@_once
def size(pattern: Pat | Results | None) -> int:
    """How many operators a pattern covers (the largest option of every alternative)."""
    return len(_largest(pattern, {}))


def _largest(pattern: Pat | Results | None, known: dict[int, frozenset[int]]) -> frozenset[int]:
    """The id()s of the operators of the variant with most operators."""
    if pattern is None:
        return frozenset()
    key = id(pattern)
    if key not in known:
        inner = [_largest(c, known) for c in children(pattern)]
        if isinstance(pattern, Either):
            known[key] = max(inner, key=len)
        else:
            own = {key} if isinstance(pattern, OpPat) else set()
            known[key] = frozenset(own).union(*inner)
    return known[key]


@_once
def needed_ops(pattern: Pat | Results) -> frozenset[tuple[str, str]]:
    """(domain, operator) of each operator without which a graph has no match."""
    return _needed(pattern, {})


Kinds = frozenset[tuple[str, str]]


def _needed(pattern: Pat | Results | None, known: dict[int, Kinds]) -> Kinds:
    """(domain, operator) that every variant of the pattern has; `known` remembers answers
    by id().
    """
    key = id(pattern)
    if key not in known:
        inner = [_needed(c, known) for c in children(pattern)]
        if isinstance(pattern, Either):
            known[key] = frozenset.intersection(*inner)
        else:
            one = isinstance(pattern, OpPat) and not pattern.others
            known[key] = Kinds(root_ops(pattern) if one else ()).union(*inner)
    return known[key]


@_once
def all_ops(pattern: Pat | Results) -> tuple[tuple[str, str], ...]:
    """(domain, operator) of every node that a match can hold."""
    found = (k for p in parts(pattern) if isinstance(p, OpPat) for k in root_ops(p))
    return tuple(dict.fromkeys(found))


@_once
def root_ops(pattern: Pat | Results | None) -> tuple[tuple[str, str], ...]:
    """(domain, operator) of every node that can be the pattern's last one."""
    if isinstance(pattern, OpPat):
        return tuple((pattern.domain, kind) for kind in pattern.kinds)
    inner = children(pattern)
    if isinstance(pattern, Results):
        inner = inner[:1]
    return tuple(dict.fromkeys(r for c in inner for r in root_ops(c)))


def names(pattern: Pat | Results) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(wildcards and named values, named nodes) of every alternative, in the pattern's order."""
    values: dict[str, None] = {}
    nodes: dict[str, None] = {}
    for part in parts(pattern):
        if isinstance(part, Var):
            values[part.name] = None
        elif isinstance(part, OpPat):
            values.update(dict.fromkeys(part.names))
            nodes.update(dict.fromkeys(part.names[:1]))
    return tuple(values), tuple(nodes)


def result_names(pattern: Pat | Results) -> tuple[str, ...]:
    """The names of the results in a match: "y", or "y0", "y1", … if there are several."""
    if isinstance(pattern, Results):
        return tuple(f"y{i}" for i in range(len(pattern.roots)))
    return ("y",)
