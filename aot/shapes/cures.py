# SPDX-License-Identifier: Apache-2.0
"""What to type when something that must be known before the run is an input of the model.

The inputs that decide it are found by going back from the node that is refused; for each there is
`--bind` with a value that fits what reads it, an example for the user to replace. A dimension with
a range gets one size by `--dim`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from aot.ir.graph_nodes import attribute, original_name, static_shape, words
from aot.ir.pins import Pin
from aot.shapes.dynamic.extents import Extents
from aot.shapes.known_late import KnownLate

if TYPE_CHECKING:
    import onnx_ir as ir


#: What is said behind the options of an error.
YOURS = "with values of yours"
#: Without any: nothing that the user can type decides it.
NOTHING = "what decides it is computed by the model: leave this part of it to the application"
MOST_ELEMENTS = 16
#: Operators whose result has as many elements as the data say: nothing before them decides.
_COUNTING = words("Compress NonMaxSuppression NonZero StringSplit Unique")
#: Operators of which float inputs decide sizes.
_REAL = words("Range Resize Upsample MelWeightMatrix")
#: Operators of which the first input decides sizes; that of others is data, as indices are.
_FIRST = words("BlackmanWindow ConstantOfShape HammingWindow HannWindow Loop MelWeightMatrix Range")
_INDEXED = words("Gather GatherElements GatherND ScatterElements ScatterND")
#: Operators that hand their first input on, as far as its elements go.
_PASSES = words("Cast Identity Reshape Squeeze Unsqueeze")


@dataclass(frozen=True, slots=True)
class Role:
    """What reads an input: the operator, the place, what else it reads, and its node."""

    op: str
    place: int
    beside: tuple[ir.Value | None, ...]
    node: ir.Node


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


def late(node: ir.Node, error: KnownLate, extents: Extents, reading: Reading) -> KnownLate:
    """The error with the options that decide what it is about."""
    start: list[ir.Value | None] = [*error.deciding, *_deciding(node)]
    for value in node.inputs:
        start += extents.of(value).values()
    error.add = tuple(_pins(start, reading, extents))
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
    data = 2 if node.op_type in _INDEXED else 0 if node.op_type in _FIRST else 1
    return list(node.inputs[data:])


def _outermost(node: ir.Node) -> ir.Graph:
    graph = node.graph
    assert graph is not None
    while (parent := getattr(graph, "parent_node", None)) is not None and parent.graph is not None:
        graph = parent.graph
    return graph


def _pins(
    start: Iterable[ir.Value | None], reading: Reading, extents: Extents | None
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
            if (pin := _bind(value, reading.roles.get(value))) is not None:
                yield pin
        elif (node := value.producer()) is not None and node.op_type not in _COUNTING:
            if node.op_type in ("Shape", "Size") and extents is not None:
                left += [n for v in node.inputs for n in extents.of(v).values()]
            left += [v for v in node.inputs if v is not None]


def _is_small(value: ir.Value) -> bool:
    shape = static_shape(value)
    return shape is not None and len(shape) < 2 and prod(shape) <= MOST_ELEMENTS


def _role(value: ir.Value, depth: int = 0) -> Role | None:
    """The first reader, behind operators that hand the value on."""
    for node, place in value.uses():
        if node.op_type in _PASSES and not place and depth < 8 and node.outputs:
            if (role := _role(node.outputs[0], depth + 1)) is not None:
                return role
        else:
            return Role(node.op_type, place, tuple(node.inputs), node)
    return None


def _bind(value: ir.Value, role: Role | None) -> Pin | None:
    """`--bind` with an example for an input; None for what is data rather than a decision."""
    kind = "" if value.dtype is None else value.dtype.name
    real = kind.startswith(("FLOAT", "DOUBLE", "BFLOAT"))
    if kind == "STRING" or (real and (role is None or role.op not in _REAL)):
        return None
    count = prod(static_shape(value) or ())
    return Pin("--bind", original_name(value), tuple(_example(role, count)))


def _example(role: Role | None, count: int) -> list[int]:
    """Numbers that the reader of an input can compute with."""
    ones = [1] * count
    if role is None:
        return ones
    data = static_shape(role.beside[0]) if role.beside and role.beside[0] is not None else None
    match role.op, role.place:
        case "Reshape", 1:
            return [-1, *ones[1:]] if count else []
        case ("Slice", 1) | ("Pad", 1) | ("Range", 0) | ("CumSum", 1) | ("Dropout", 2):
            return [0] * count
        case ("Slice", 3) | ("Pad", 3) | ("Unsqueeze", 1):
            return list(range(count))
        case "Squeeze", 1:
            return [a for a, n in enumerate(data or ()) if n == 1][:count] or ones
        case ("Resize", 3) | ("CenterCropPad", 1) if data is not None and len(data) == count:
            return list(data)
        case "Col2Im", 1 if data is not None:
            return [data[-1], *ones[1:]]
        case "AffineGrid", 1 if data is not None:
            return [data[0], 1, *[8] * (count - 2)]
        case "MaxUnpool", 2 if data is not None and len(data) == count:
            return _unpooled(role.node, data)
        case (("BlackmanWindow" | "HannWindow" | "HammingWindow" | "STFT" | "DFT" | "OneHot"), _):
            return _signal(role)
        case "MelWeightMatrix", place:
            return [(4, 16, 8000, 0, 4000)[place]]
        case name, 1 if name.startswith("Reduce"):
            return list(range(count))
    return ones


def _signal(role: Role) -> list[int]:
    """Lengths of windows and transforms, an axis that is not the last, classes of a OneHot."""
    return [{("OneHot", 1): 2, ("STFT", 1): 4, ("DFT", 2): 1}.get((role.op, role.place), 8)]


def _unpooled(node: ir.Node, data: tuple[int, ...]) -> list[int]:
    """The least shape that the maxima of `data` come from."""
    kernel = attribute(node, "kernel_shape")
    strides = attribute(node, "strides") or [1] * len(kernel)
    sizes = zip(data[2:], kernel, strides, strict=True)
    return [*data[:2], *((n - 1) * step + taps for n, taps, step in sizes)]
