# SPDX-License-Identifier: Apache-2.0
"""What to type when something that must be known before the run is an input of the model.

The inputs that decide it are found by going back from the node that is refused; for each there is
`--bind` with a value that fits what reads it, an example for the user to replace. A dimension with
a range gets one size by `--dim`. The modules of `aot/ops` say which inputs of an operator decide
sizes, with examples (`sizings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import graph_of, original_name, static_shape
from aot.ir.operators import DataSized, Interface, trait_of
from aot.ir.pins import Pin
from aot.shapes.dynamic.dims import DynamicDims
from aot.shapes.evaluate import reads_shape
from aot.shapes.known_late import KnownLate

#: What is said behind the options of an error.
YOURS = "with values of yours"
#: Without any: nothing that the user can type decides it.
NOTHING = "what decides it is computed by the model: leave this part of it to the application"
#: More elements are data, which nobody types.
MOST_ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Role:
    """Who reads an input: the node, and at which place."""

    place: int
    node: ir.Node

    @property
    def data(self) -> tuple[int, ...] | None:
        """The shape of the node's first input, None where it is not known."""
        first = self.node.inputs[0] if self.node.inputs else None
        return None if first is None else static_shape(first)


#: Numbers for an input of so many elements that its reader can compute with.
Example = Callable[[Role, int], list[int]]


@dataclass(frozen=True, slots=True)
class Sizing:
    """How an operator's inputs decide sizes.

    The first `data` inputs are data and decide none; with `real` fractions decide sizes, too.
    `examples` hold, by input, numbers for a user who has none (ones by default). With `passes` the
    operator hands the elements of its first input on, to the operator that reads its result.
    """

    data: int = 1
    real: bool = False
    passes: bool = False
    examples: Mapping[int, Example] = field(default_factory=dict)


#: How operators decide sizes; others than these as `Sizing()` says.
sizings: Interface[Sizing] = Interface("sizing")


def _sizing(node: ir.Node) -> Sizing:
    return sizings.of(node) or Sizing()


@dataclass(slots=True)
class Reading:
    """Who reads the small inputs of a graph, noted before nodes are replaced.

    `ranges` are the inputs that say how long a dimension with a range is, with the option that
    gives it one size.
    """

    roles: dict[ir.Value, Role] = field(default_factory=dict)
    ranges: dict[ir.Value, Pin] = field(default_factory=dict)

    def note(self, graph: ir.Graph) -> None:
        """Note who reads the inputs of `graph`."""
        for value in graph.inputs:
            if _is_small(value) and (role := _role(value)) is not None:
                self.roles[value] = role


def late(node: ir.Node, error: KnownLate, dims: DynamicDims, reading: Reading) -> KnownLate:
    """The error with the options that decide what it is about."""
    start: list[ir.Value | None] = [*error.deciding, *_deciding(node)]
    for value in node.inputs:
        start += dims.run_sizes(value).values()
    error.add = tuple(_pins(start, reading, dims))
    error.hint = error.hint or (YOURS if error.add else _long(start) or NOTHING)
    return error


def _long(start: Iterable[ir.Value | None]) -> str:
    """What to say of an input of the model that decides, of more elements than `--bind` lists."""
    for value in start:
        if value is not None and value.is_graph_input() and not _is_small(value):
            name = original_name(value)
            return f'input "{name}" decides it: give it at most {MOST_ELEMENTS} elements'
    return ""


def binds(node: ir.Node) -> list[Pin]:
    """`--bind` for the inputs of the model that decide operands of `node`, which is refused."""
    reading = Reading()
    if node.graph is not None:
        reading.note(_outermost(node))
    return list(_pins(_deciding(node), reading, None))


def _deciding(node: ir.Node) -> list[ir.Value | None]:
    """The inputs of a node that are no data."""
    return list(node.inputs[_sizing(node).data :])


def _outermost(node: ir.Node) -> ir.Graph:
    """The graph of the model around all bodies that `node` is in."""
    graph = graph_of(node)
    while (parent := getattr(graph, "parent_node", None)) is not None and parent.graph is not None:
        graph = parent.graph
    return graph


def _pins(
    start: Iterable[ir.Value | None], reading: Reading, dims: DynamicDims | None
) -> Iterator[Pin]:
    """A Pin for every input of the model that decides elements of `start`."""
    seen: set[ir.Value] = set()
    left = [v for v in start if v is not None]
    while left:
        value = left.pop(0)
        if value in seen or not _is_small(value):
            continue
        seen.add(value)
        if value in reading.ranges:
            yield reading.ranges[value]
        elif value.is_graph_input():
            if getattr(value.graph, "parent_node", None) is not None:
                continue  # an input of a body
            if (pin := _bind(value, reading.roles.get(value))) is not None:
                yield pin
        elif (node := value.producer()) is not None and not _counts(node):
            if reads_shape.of(node) is not None and dims is not None:
                left += [n for v in node.inputs for n in dims.run_sizes(v).values()]
            left += [v for v in node.inputs if v is not None]


def _counts(node: ir.Node) -> bool:
    """Whether a result has as many elements as fulfil a condition: nothing before decides it."""
    trait = trait_of(node, DataSized)
    return trait is not None and trait.counts


def _is_small(value: ir.Value) -> bool:
    """Whether a value has a static shape of at most one axis and MOST_ELEMENTS elements."""
    shape = static_shape(value)
    return shape is not None and len(shape) < 2 and prod(shape) <= MOST_ELEMENTS


def _role(value: ir.Value, depth: int = 0) -> Role | None:
    """The first reader, behind operators that hand the value on."""
    for node, place in value.uses():
        if _sizing(node).passes and not place and depth < 8 and node.outputs:
            if (role := _role(node.outputs[0], depth + 1)) is not None:
                return role
        else:
            return Role(place, node)
    return None


def _bind(value: ir.Value, role: Role | None) -> Pin | None:
    """`--bind` with an example for an input; None for what is data rather than a decision."""
    kind = "" if value.dtype is None else value.dtype.name
    real = kind.startswith(("FLOAT", "DOUBLE", "BFLOAT"))
    if kind == "STRING" or (real and (role is None or not _sizing(role.node).real)):
        return None
    count = prod(static_shape(value) or ())
    return Pin("--bind", original_name(value), tuple(_example(role, count)))


def _example(role: Role | None, count: int) -> list[int]:
    """Numbers that the reader of an input can compute with."""
    found = None if role is None else _sizing(role.node).examples.get(role.place)
    return [1] * count if role is None or found is None else found(role, count)


def zeros(role: Role, count: int) -> list[int]:
    """An example: nothing but zeros."""
    return [0] * count


def axes(role: Role, count: int) -> list[int]:
    """An example: the first axes."""
    return list(range(count))


def as_data(role: Role, count: int) -> list[int]:
    """An example: the shape of the first input, ones where it has another rank."""
    return list(role.data) if role.data is not None and len(role.data) == count else [1] * count


def always(value: int) -> Example:
    """An example: this number."""
    return lambda role, count: [value]
