# SPDX-License-Identifier: Apache-2.0
"""The pattern language: a graph of operators written as a Python function.

    def conv_relu(op, x, w, b):
        return op.Relu(op.Conv(x, w, b, _outputs=["conv"]))

Parameters of the function are wildcards. `_outputs=["conv"]` names a node (its value is
`conv` too); `_optional=1` says how many trailing inputs may be absent; an attribute given as
keyword must have that value. Commutative operators match in both orders. A node inside the match
may only be used inside it, unless it is a result. `either(a, b)` matches one of two.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx_ir as ir

COMMUTATIVE = frozenset({"Add", "Mul", "Min", "Max", "And", "Or", "Xor", "Equal", "Sum"})


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

    The last `optional` inputs may be absent; -1 makes the operator variadic.
    """

    op_type: str
    domain: str
    inputs: tuple[Pat | None, ...]
    attrs: tuple[tuple[str, Any], ...]
    names: tuple[str, ...]
    optional: int


Pat = Var | Either | OpPat


class Builder:
    """The `op` a pattern function receives: `op.Conv(x, w, _outputs=["c"], group=1)`."""

    def __init__(self, domain: str = "") -> None:
        self._domain = domain

    def __getattr__(self, op_type: str) -> Callable[..., OpPat]:
        def build(
            *inputs: Pat | None,
            _outputs: list[str] | None = None,
            _optional: int = 0,
            _domain: str | None = None,
            **attrs: Any,
        ) -> OpPat:
            domain = self._domain if _domain is None else _domain
            names = tuple(_outputs or ())
            return OpPat(op_type, domain, inputs, tuple(attrs.items()), names, _optional)

        return build


def either(*options: Pat) -> Either:
    """A pattern that matches the first fitting of `options`."""
    return Either(options)


def trace(function: Callable[..., Pat]) -> OpPat | Either:
    """The pattern graph that `function` describes."""
    params = list(inspect.signature(function).parameters)[1:]
    result = function(Builder(), *[Var(p) for p in params])
    if isinstance(result, Var):
        raise TypeError(f"pattern {function.__name__} returns a wildcard, not an operator")
    return result


@dataclass(slots=True)
class Binding:
    """What a pattern matched: values and nodes by name, the nodes covered (root first)."""

    values: dict[str, ir.Value | None]
    nodes: dict[str, ir.Node]
    covered: list[ir.Node]
    root: ir.Node

    def copy(self) -> Binding:
        """An independent copy, for backtracking."""
        return Binding(dict(self.values), dict(self.nodes), list(self.covered), self.root)


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The Python value of an attribute, or `default`."""
    a = node.attributes.get(name)
    return default if a is None else a.value


def match_at(pattern: Pat, root: ir.Node) -> Binding | None:
    """The first way `pattern` matches with `root` as its last node, or None."""
    start = Binding({}, {}, [], root)
    for found in _match_node(pattern, root, start):
        if _closed(found):
            return found
    return None


def _match_node(pattern: Pat, node: ir.Node, state: Binding) -> Iterator[Binding]:
    if isinstance(pattern, Either):
        for option in pattern.options:
            yield from _match_node(option, node, state)
        return
    if isinstance(pattern, Var):
        return
    if node.op_type != pattern.op_type or node.domain != pattern.domain:
        return
    if any(attribute(node, k) != v for k, v in pattern.attrs):
        return
    inputs = _trimmed(node)
    if pattern.optional < 0:
        yield _bind_all(pattern, node, inputs, state)
        return
    if not len(pattern.inputs) - pattern.optional <= len(inputs) <= len(pattern.inputs):
        return
    inputs += [None] * (len(pattern.inputs) - len(inputs))
    for order in _orders(node, inputs):
        new = state.copy()
        if node not in new.covered:
            new.covered.append(node)
        for name, value in zip(pattern.names, node.outputs, strict=False):
            new.values[name] = value
        if pattern.names:
            new.nodes[pattern.names[0]] = node
        yield from _match_inputs(list(zip(pattern.inputs, order, strict=True)), new)


def _bind_all(
    pattern: OpPat, node: ir.Node, inputs: list[ir.Value | None], state: Binding
) -> Binding:
    """A variadic operator: its inputs become <name>0, <name>1, …"""
    new = state.copy()
    new.covered.append(node)
    variable = pattern.inputs[0]
    prefix = variable.name if isinstance(variable, Var) else "xs"
    for i, value in enumerate(inputs):
        new.values[f"{prefix}{i}"] = value
    return new


def _trimmed(node: ir.Node) -> list[ir.Value | None]:
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def _orders(node: ir.Node, inputs: list[ir.Value | None]) -> list[tuple[ir.Value | None, ...]]:
    if node.op_type in COMMUTATIVE and len(inputs) == 2 and inputs[0] is not inputs[1]:
        return list(itertools.permutations(inputs))
    return [tuple(inputs)]


def _match_inputs(
    todo: list[tuple[Pat | None, ir.Value | None]], state: Binding
) -> Iterator[Binding]:
    if not todo:
        yield state
        return
    (pattern, value), rest = todo[0], todo[1:]
    if pattern is None:
        if value is None:
            yield from _match_inputs(rest, state)
    elif isinstance(pattern, Var):
        if pattern.name in state.values:
            if state.values[pattern.name] is value:
                yield from _match_inputs(rest, state)
            return
        new = state.copy()
        new.values[pattern.name] = value
        yield from _match_inputs(rest, new)
    elif isinstance(pattern, Either):
        for option in pattern.options:
            yield from _match_inputs([(option, value), *rest], state)
    elif value is not None and (producer := value.producer()) is not None:
        for inner in _match_node(pattern, producer, state):
            yield from _match_inputs(rest, inner)


def _closed(found: Binding) -> bool:
    """No inner node's value is used outside the match or is a result of the graph."""
    covered = set(map(id, found.covered))
    for node in found.covered:
        if node is found.root:
            continue
        for value in node.outputs:
            if value.is_graph_output():
                return False
            if any(id(user) not in covered for user, _ in value.uses()):
                return False
    return True


def size(pattern: Pat | None) -> int:
    """How many operators a pattern covers (the largest option of an alternative)."""
    if pattern is None or isinstance(pattern, Var):
        return 0
    if isinstance(pattern, Either):
        return max(size(o) for o in pattern.options)
    return 1 + sum(size(i) for i in pattern.inputs)


def root_ops(pattern: Pat) -> tuple[tuple[str, str], ...]:
    """(domain, operator) of every node that can be the pattern's last one."""
    if isinstance(pattern, Either):
        return tuple(r for o in pattern.options for r in root_ops(o))
    if isinstance(pattern, OpPat):
        return ((pattern.domain, pattern.op_type),)
    return ()
