# SPDX-License-Identifier: Apache-2.0
"""Axes whose size is data: stored at a bound, their sizes computed by nodes of the graph.

Before: y = NonZero(x)  [2, ?]        After: y, n = aot.dynamic.NonZero(x)  [2, 12], n [1]
        s = Shape(y)                         s = Concat([2], n)

Afterwards every shape is static, so that no pass needs to know: what depends on a size says so
by reading it. Elements beyond the size (the padding of an axis) have no meaning; where an operator
mixes along the axis, a node `FillPadding` in front of it makes them neutral. A graph output gets a
second one behind it that holds its true shape (`RUN_TIME_SHAPES`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import FRESH, Editor, attribute_of
from aot.ir.graph_nodes import (
    DYNAMIC,
    NAME_KEY,
    Array,
    array,
    attribute,
    dtype_of,
    graph_of,
    maker_of,
    original_name,
    set_type,
    shape_of,
    title,
)
from aot.ir.operators import Interface
from aot.shapes.context import Inference
from aot.shapes.interval_analysis import Bounds, Interval
from aot.shapes.known_late import KnownLate
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup, propagate
from aot.shapes.symbolic import Terms

RUN_TIME_SHAPES = "aot.run_time_shapes"
"""Key of a graph's `meta`: (output, its dynamic axes) for each of the last outputs, its shapes."""

NO_OUTPUT, KEPT_SIZE = -1, -2
"""Number of the output for one that is there only because it must be computed, and for the length
of a state in the next run; its axis is the number of the input that gets it."""

INT64 = 7
Axes = dict[int, "ir.Value"]
"""Axis → its size, an int64 vector of one element."""


class DynamicDims:
    """Which axes of which values are dynamic, and the nodes that say how long they are."""

    def __init__(self, sweep: Inference) -> None:
        """Start without dynamic axes; `sweep` infers types and knows values in part."""
        self.sweep = sweep
        self.bounds = Bounds(sweep.partial_values)
        self.terms = Terms(sweep.partial_values, self.bounds)
        self._axes: dict[ir.Value, Axes] = {}
        self.checks: list[ir.Value] = []
        """Results of comparisons that every run must make."""
        self.places: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}
        """Value → where it is not zero, and how often: two nodes that ask get one answer."""
        self._said: set[ir.Value] = set()
        self.kept: set[ir.Value] = set()
        """Inputs that are states, stored at their bounds with zeros behind their elements."""
        self.handed: set[int] = set()
        """Outputs that are the next states."""
        self.frozen = 0
        """Above 0 while nodes must be left alone: in the body of a loop."""

    # -- what is known ------------------------------------------------------------------------

    def run_sizes(self, value: ir.Value | None) -> Axes:
        """The sizes that a run decides: int64 vectors of one element by dynamic axis of `value`."""
        return {} if value is None else self._axes.get(value, {})

    def set(self, value: ir.Value, axes: Axes) -> None:
        """Note that axes of `value` have the sizes `axes`: int64 vectors of one element, by axis.

        Nothing is noted without axes, of axes without room or for a value without a name.
        UnsupportedError for elements of less than a byte.
        """
        if not value.name:
            return
        axes = {a: n for a, n in axes.items() if shape_of(value)[a]}
        if not axes:
            return
        kind = value.dtype
        if kind is not None and kind.name != "STRING" and kind.bitwidth < 8:
            what = f'"{original_name(value)}" has elements that share bytes'
            raise UnsupportedError(f"{what} and a dimension known at run time only")
        self._axes[value] = dict(sorted(axes.items()))

    def concern(self, node: ir.Node) -> bool:
        """Whether an input of the node has a dynamic axis."""
        return any(i is not None and i in self._axes for i in node.inputs)

    def same(self, left: ir.Value, right: ir.Value, depth: int = 0) -> bool:
        """Whether two values are surely equal: as polynomials, as known numbers, or computed in the
        same way.
        """
        if left is right:
            return True
        if depth == 0 and self.terms.equal(left, right):
            return True
        a, b = lookup(left, self.sweep.partial_values), lookup(right, self.sweep.partial_values)
        if a is not None and b is not None and a.full and b.full:
            return bool(np.array_equal(a.data, b.data))
        p, q = left.producer(), right.producer()
        # Longer chains are rare, and the comparison of trees may take exponential time.
        if p is None or q is None or depth > 20 or left.index() != right.index():
            return False
        if (p.domain, p.op_type) != (q.domain, q.op_type) or len(p.inputs) != len(q.inputs):
            return False
        if p is not q and {k: v.value for k, v in p.attributes.items()} != {
            k: v.value for k, v in q.attributes.items()
        }:
            return False
        return all(
            x is y or (x is not None and y is not None and self.same(x, y, depth + 1))
            for x, y in zip(p.inputs, q.inputs, strict=True)
        )

    def interval(self, value: ir.Value | None) -> Interval | None:
        """Between which numbers each element of a small value lies; None for large and unknown
        ones.

        Integers are bounded by their polynomials of sizes, too.
        """
        found = self.bounds.of(value)
        if value is None or found is None or (found.low == found.high).all():
            return found
        polys = self.terms.of(value)
        if value.dtype is None or value.dtype.numpy().kind not in "iu" or not polys:
            return found
        lows, highs = np.array([self.terms.range_of(p) for p in polys]).T
        low = np.maximum(found.low, lows.reshape(found.low.shape))
        return Interval(low, np.minimum(found.high, highs.reshape(found.low.shape)))

    # -- nodes -----------------------------------------------------------------------------

    def node(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        types: Sequence[tuple[int, Sequence[int]] | None],
        domain: str = "",
        **attributes: Any,
    ) -> list[ir.Value]:
        """The outputs of a new node in front of `before`, of these (element type, shape); None for
        an absent one.

        UnsupportedError if a shape has more than MAX_ELEMENTS elements.
        """
        graph = graph_of(before)
        made = ir.Node(
            domain,
            op_type,
            list(inputs),
            [attribute_of(k, v) for k, v in attributes.items()],
            name=f"{before.name}_{op_type}" if before.name else None,
            num_outputs=len(types),
        )
        made.metadata_props.update(before.metadata_props)
        edit = Editor(graph)
        for value, kind in zip(made.outputs, types, strict=True):
            # Absent results have empty names in ONNX.
            value.name = ""
            if kind is not None:
                if prod(kind[1]) > MAX_ELEMENTS:
                    raise UnsupportedError(f"{title(before)}: its bound {list(kind[1])} is too big")
                set_type(value, kind[0], tuple(kind[1]))
                value.name = edit.fresh(f"{before.outputs[0].name}_{op_type}")
        graph.insert_before(before, made)
        # Nodes of this project's own domain have no value rules.
        if not domain:
            propagate(made, self.sweep.partial_values)
        return list(made.outputs)

    def ints(self, before: ir.Node, values: Sequence[int]) -> ir.Value:
        """A constant int64 vector."""
        return Editor(graph_of(before)).ints(values, f"{before.outputs[0].name}_ints")

    def const(self, before: ir.Node, data: Array, like: ir.Value) -> ir.Value:
        """A constant of the element type of `like`."""
        return Editor(graph_of(before)).const(
            data, f"{before.outputs[0].name}_const", dtype_of(like)
        )

    def vector(
        self, before: ir.Node, op_type: str, *inputs: ir.Value, **attributes: Any
    ) -> ir.Value:
        """The int64 result of an elementwise operator on int64 vectors of one length (or 1)."""
        length = max(shape_of(i)[0] for i in inputs)
        return self.node(before, op_type, inputs, [(INT64, (length,))], **attributes)[0]

    def add(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """int64 `left` + `right`, of one length (or 1); `left` itself where `right` is surely 0."""
        return left if self._surely(left, right, 0) else self.vector(before, "Add", left, right)

    def sub(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """int64 `left` - `right`, of one length (or 1); `left` itself where `right` is surely 0."""
        return left if self._surely(left, right, 0) else self.vector(before, "Sub", left, right)

    def mul(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """int64 `left` * `right`, of one length (or 1); `left` itself where `right` is surely 1."""
        return left if self._surely(left, right, 1) else self.vector(before, "Mul", left, right)

    def div(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """`left` / `right` as ONNX divides integers; `left` itself where `right` is surely 1."""
        return left if self._surely(left, right, 1) else self.vector(before, "Div", left, right)

    def largest(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """The larger of `left` and `right`; one of them itself where that is sure."""
        if self._no_larger(left, right):
            return right
        return left if self._no_larger(right, left) else self.vector(before, "Max", left, right)

    def smallest(self, before: ir.Node, left: ir.Value, right: ir.Value) -> ir.Value:
        """The minimum, element by element, of two int64 vectors of one length (or 1).

        It is the operand itself where that is surely no larger and as long; else the result of a
        new Min in front of `before`.
        """
        if self._no_larger(left, right):
            return left
        return right if self._no_larger(right, left) else self.vector(before, "Min", left, right)

    def _surely(self, left: ir.Value, right: ir.Value, number: int) -> bool:
        """Whether `right` is surely `number`, and as long as `left`."""
        limits = self.interval(right)
        if shape_of(left) != shape_of(right) or limits is None or self.interval(left) is None:
            return False
        return bool((limits.low == number).all() and (limits.high == number).all())

    def _no_larger(self, left: ir.Value, right: ir.Value) -> bool:
        """Whether `left` is surely no larger than `right`, and as long."""
        below, above = self.interval(left), self.interval(right)
        if shape_of(left) != shape_of(right) or below is None or above is None:
            return False
        return bool((below.high <= above.low).all())

    def at(self, before: ir.Node, vector: ir.Value, index: int) -> ir.Value:
        """Element `index` of an int64 vector, as a vector of one."""
        where = self.ints(before, [index])
        return self.node(before, "Gather", [vector, where], [(INT64, (1,))], axis=0)[0]

    def joined(self, before: ir.Node, parts: Sequence[ir.Value]) -> ir.Value:
        """Int64 vectors one after the other."""
        if len(parts) == 1:
            return parts[0]
        length = sum(shape_of(p)[0] for p in parts)
        return self.node(before, "Concat", parts, [(INT64, (length,))], axis=0)[0]

    def dim(self, before: ir.Node, value: ir.Value, axis: int) -> ir.Value:
        """How long an axis is: an int64 vector of one element."""
        found = self.run_sizes(value).get(axis)
        return found if found is not None else self.ints(before, [shape_of(value)[axis]])

    def shape(self, before: ir.Node, value: ir.Value) -> ir.Value:
        """The true shape of `value`, an int64 vector."""
        rank = len(shape_of(value))
        if not self.run_sizes(value):
            return self.ints(before, shape_of(value))
        return self.joined(before, [self.dim(before, value, a) for a in range(rank)])

    def scalar(self, before: ir.Node, vector: ir.Value) -> ir.Value:
        """A vector of one element as a scalar."""
        axes = self.ints(before, [0])
        return self.node(before, "Squeeze", [vector, axes], [(INT64, ())])[0]

    def as_vector(self, before: ir.Node, value: ir.Value) -> ir.Value:
        """A scalar or one-element vector of integers as an int64 vector of one element."""
        if int(value.dtype or 0) != INT64:
            value = self.node(before, "Cast", [value], [(INT64, shape_of(value))], to=INT64)[0]
        if shape_of(value) != (1,):
            where = self.ints(before, [1])
            value = self.node(before, "Reshape", [value, where], [(INT64, (1,))])[0]
        return value

    def new(self, value: ir.Value, most: int, least: int = 0) -> ir.Value:
        """Note that `value` is a size from `least` to `most`."""
        self.bounds.size(value, most, least)
        return value

    def claim(self, value: ir.Value) -> None:
        """Note that `value` is a dimension of the caller's, or is as good as one."""
        self._said.add(value)

    def said(self, value: ir.Value) -> bool:
        """Whether a size follows from numbers and dimensions of the caller's alone."""
        return all(self.terms.follows(p, self._said) for p in self.terms.of(value))

    def discard(self, value: ir.Value) -> None:
        """Note that `value` has no dynamic axes."""
        self._axes.pop(value, None)

    def neutral(
        self, before: ir.Node, value: ir.Value, fill: Any, axes: Sequence[int] = ()
    ) -> ir.Value:
        """`value` with `fill` in the padding of its dynamic axes (of those in `axes` if given).

        `fill` is a number or a value [1] of the same type.
        """
        own = self.run_sizes(value)
        maker = value.producer()
        # A maker that can fill its own padding with zeros saves a pass over the tensor.
        rule = None if maker is None else zero_padding.of(maker)
        if rule is not None and isinstance(fill, int) and fill == 0:
            made = rule(self, before, value, axes)
            if made is not None:
                return made
        for axis, n in own.items():
            if axes and axis not in axes:
                continue
            kept = fill
            if not hasattr(fill, "producer"):
                kept = self.const(before, np.full(1, fill, dtype_of(value).numpy()), value)
            kind = [(int(dtype_of(value)), shape_of(value))]
            value = self.node(before, "FillPadding", [value, n, kept], kind, DYNAMIC, axis=axis)[0]
        self.set(value, own)
        return value

    def flat(self, before: ir.Node, value: ir.Value) -> ir.Value:
        """The elements of `value` in a row, as a vector of as many as its bound; padding comes
        last.
        """
        kind = int(dtype_of(value))
        if self.has_gaps(value):
            shape = self.shape(before, value)
            value = self.node(
                before, "Compact", [value, shape], [(kind, shape_of(value))], DYNAMIC
            )[0]
        count = prod(shape_of(value))
        if len(shape_of(value)) != 1:
            where = self.ints(before, [count])
            value = self.node(before, "Reshape", [value, where], [(kind, (count,))])[0]
        return value

    def has_gaps(self, value: ir.Value) -> bool:
        """Whether padding lies between elements, not only behind them."""
        shape, axes = shape_of(value), self.run_sizes(value)
        return bool(axes) and prod(shape[: max(axes)]) > 1

    # -- replacing -------------------------------------------------------------------------

    def become(self, old: ir.Value, new: ir.Value, axes: Axes) -> None:
        """Let `new` take the place and the name of `old`, an output of the node replaced."""
        node = maker_of(old)
        if new.producer() is None or new.is_graph_output() or FRESH not in str(new.name):
            kind = int(new.dtype or 0)
            new = self.node(node, "Identity", [new], [(kind, shape_of(new))])[0]
        Editor(graph_of(node)).replace(old, new)
        self.set(new, axes)

    def drop(self, node: ir.Node) -> None:
        """Take a replaced node out of the graph."""
        graph_of(node).remove(node, safe=True)

    def substitute(self, node: ir.Node, new: ir.Value, axes: Axes) -> None:
        """Let `new`, with its dynamic `axes`, take the place of a node with one result."""
        self.become(node.outputs[0], new, axes)
        self.drop(node)

    # -- outputs ---------------------------------------------------------------------------

    def finish(self, graph: ir.Graph) -> None:
        """Give dynamic outputs of the model their compact form, and add outputs that hold their
        true shapes.
        """
        known = list(graph.meta.get(RUN_TIME_SHAPES, ()))
        last = next(reversed(graph), None)
        for index, value in enumerate(list(graph.outputs)):
            axes = self.run_sizes(value)
            if not axes or last is None or index in self.handed:
                continue
            shape = self._behind(graph, value)
            graph.outputs.append(shape)
            known.append((index, tuple(axes)))
        for value in self.checks:  # they are made even where nothing reads what they found
            if not value.uses():
                graph.outputs.append(value)
                known.append((NO_OUTPUT, ()))
        if known:
            graph.meta[RUN_TIME_SHAPES] = tuple(known)

    def _behind(self, graph: ir.Graph, value: ir.Value) -> ir.Value:
        """Make an output compact, with zeros behind its elements; returned is the value of its true
        shape.
        """
        # A node at the end of the graph, in front of which the others are put; it goes again.
        end = ir.Node("", "Identity", [value], name=f"{value.name}_output", num_outputs=1)
        end.outputs[0].name = f"{value.name}_end"
        graph.append(end)
        parts = [self.dim(end, value, a) for a in range(len(shape_of(value)))]
        length = len(parts)
        name = original_name(value)
        shape = self.node(end, "Concat", parts, [(INT64, (length,))], axis=0)[0]
        kind = [(int(dtype_of(value)), shape_of(value))]
        made = self.node(end, "Compact", [value, shape], kind, DYNAMIC)[0]
        at = next(i for i, v in enumerate(graph.outputs) if v is value)
        # The result gets the user's name: it is the output now.
        graph.outputs[at] = made
        old = value.name
        value.name, made.name = f"{old} padded", old
        made.metadata_props[NAME_KEY] = name
        value.metadata_props.pop(NAME_KEY, None)
        graph.remove(end, safe=True)
        return shape


#: A rule gives a value of its operator with zeros in the padding of dynamic axes (of the axes
#: listed, if any are) by other means than a FillPadding behind it; None where it has none.
zero_padding: Interface[
    Callable[[DynamicDims, ir.Node, ir.Value, Sequence[int]], ir.Value | None]
] = Interface("zero_padding")


def no_bound(node: ir.Node, what: str) -> KnownLate:
    """The error of a node whose result has no provable bound."""
    value = next((original_name(o) for o in node.outputs if o.name), "")
    return KnownLate(f'{title(node)}: "{value}" has no provable bound: {what}')


def refused(node: ir.Node, what: str) -> KnownLate:
    """The error of a node that cannot work along an axis known at run time only."""
    return KnownLate(f"{title(node)} {what}")


def axis_of(node: ir.Node, rank: int, default: int = 0, name: str = "axis") -> int:
    """The node's axis attribute, not negative."""
    axis = int(attribute(node, name, default))
    return axis + rank if axis < 0 else axis


def constant_ints(dims: DynamicDims, value: ir.Value | None) -> list[int] | None:
    """The elements of a value that is known, else None. (A run may use some of a dynamic one.)"""
    if dims.run_sizes(value):
        return None
    known = lookup(value, dims.sweep.partial_values)
    data = known.data if known is not None and known.full else array(value)
    return None if data is None else [int(v) for v in data.ravel()]
