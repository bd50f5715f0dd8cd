# SPDX-License-Identifier: Apache-2.0
"""Results of control flow whose shape the data decide: at their bound, sizes behind them.

Before: y = If(c, then={a}, else={b})               a: [3, 4], b: [5, 4], y: [?, 4]
After: y, n = If(c, then={Pad(a), 3}, else={b, 5})  y: [5, 4], n [1]

Before: y = Loop(m, c, body={g, o})                 o: [4], m at most 10, y: [?, 4]
After: n, y = Loop(m, c, 0, body={k -> g, k + 1, o})         y: [10, 4], n [1]
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import (
    attribute,
    dtype_of,
    graph_of,
    original_name,
    set_type,
    shape_of,
    title,
)
from aot.shapes.control_flow_isolated import MOST, isolate_scan
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, no_bound
from aot.shapes.evaluate import Invalid
from aot.shapes.known_late import KnownLate
from aot.shapes.partial_values import lookup
from aot.shapes.symbolic import add, constant

Checks = Sequence["ir.Value"]
"""Results of comparisons that a body makes."""


def merge_branches(x: DynamicDims, node: ir.Node, branches: Sequence[ir.Graph]) -> None:
    """Type the results of an If of unknown condition; branches are typed.

    UnsupportedError where their ranks or element types differ.
    """
    for index, value in enumerate(list(node.outputs)):
        ends = [b.outputs[index] for b in branches]
        kinds, shapes = {e.dtype for e in ends}, [shape_of(e) for e in ends]
        # A run-time size needs one type and rank; ONNX allows branches to differ.
        if len(kinds) != 1:
            raise Invalid(f'the branches give "{original_name(value)}" different element types')
        if len(shapes[0]) != len(shapes[1]):
            what = f'the branches give "{original_name(value)}" shapes of different rank: '
            raise UnsupportedError(f"{title(node)}: {what}{list(shapes[0])} and {list(shapes[1])}")
        bound = tuple(max(pair) for pair in zip(*shapes, strict=True))
        if value.name:
            (kind,) = kinds
            assert kind is not None
            set_type(value, int(kind), bound)
        axes = _dynamic(x, ends)
        if axes:
            _pad(x, branches, index, bound)
            x.set(value, _sizes(x, node, branches, index, axes, shapes))


def _dynamic(x: DynamicDims, ends: Sequence[ir.Value]) -> list[int]:
    """Axes along which not both branches give the same, static size."""
    left, right = ends
    pairs = zip(shape_of(left), shape_of(right), strict=True)
    return [
        axis
        for axis, (a, b) in enumerate(pairs)
        if a != b or axis in x.run_sizes(left) | x.run_sizes(right)
    ]


def _pad(x: DynamicDims, branches: Sequence[ir.Graph], index: int, bound: tuple[int, ...]) -> None:
    """Pad, in place, output `index` of each branch at the ends of its axes to the shape `bound`."""
    for branch in branches:
        value = branch.outputs[index]
        shape = shape_of(value)
        if shape == bound:
            continue
        end = behind(branch, value)
        pads = [0] * len(bound) + [b - d for b, d in zip(bound, shape, strict=True)]
        where = x.ints(end, pads)
        made = x.node(end, "Pad", [value, where], [(int(dtype_of(value)), bound)])[0]
        x.set(made, x.run_sizes(value))
        branch.outputs[index] = made
        branch.remove(end, safe=True)


def _sizes(
    x: DynamicDims,
    node: ir.Node,
    branches: Sequence[ir.Graph],
    index: int,
    axes: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
) -> Axes:
    """New results of the If: how long each of `axes` of result `index` is.

    `shapes` are those of the result in each branch, before it was padded.
    """
    found: Axes = {}
    for axis in axes:
        ends = [b.outputs[index] for b in branches]
        # One size for both branches needs no result of its own.
        own = [x.run_sizes(e).get(axis) for e in ends]
        first = own[0]
        if first is not None and first is own[1] and first.graph is node.graph:
            found[axis] = first
            continue
        # Each branch says how long its own result is; the shorter one is padded to the bound.
        least = []
        for branch, value, known, shape in zip(branches, ends, own, shapes, strict=True):
            end = behind(branch, value)
            n = known if known is not None else x.ints(end, [shape[axis]])
            branch.outputs.append(x.node(end, "Identity", [n], [(INT64, (1,))])[0])
            interval = x.interval(n)
            least.append(0 if interval is None else max(0, int(interval.low.min())))
            branch.remove(end, safe=True)
        made = _new_output(node, f"{node.outputs[index].name}_extent")
        found[axis] = x.new(made, shape_of(node.outputs[index])[axis], min(least))
    return found


def behind(graph: ir.Graph, value: ir.Value) -> ir.Node:
    """A node behind all others, in front of which new ones are put; it goes away again."""
    end = ir.Node("", "Identity", [value], name=f"{value.name}_end", num_outputs=1)
    end.outputs[0].name = f"{value.name}_end"
    graph.append(end)
    return end


def _new_output(node: ir.Node, hint: str) -> ir.Value:
    """A new last output of `node`: an int64 vector of one element."""
    node.resize_outputs(len(node.outputs) + 1)
    value = node.outputs[-1]
    value.name = Editor(graph_of(node)).fresh(hint)
    set_type(value, INT64, (1,))
    return value


def most_steps(x: DynamicDims, node: ir.Node) -> int | None:
    """The most steps a Loop can make by its inputs, None if they bound nothing."""
    if _truth(x, node.inputs[1] if len(node.inputs) > 1 else None) is False:
        return 0
    trips = node.inputs[0] if node.inputs else None
    interval = x.interval(trips) if trips is not None else None
    if interval is None or not interval.high.size:
        return None
    most = float(interval.high.max())
    return max(0, int(most)) if most < MOST else None


def _truth(x: DynamicDims, value: ir.Value | None) -> bool | None:
    """The condition `value` if it is known at compile time; None if unknown or absent."""
    known = lookup(value, x.sweep.partial_values)
    return bool(known.data.ravel()[0]) if known is not None and known.full else None


def _counted_out(x: DynamicDims, node: ir.Node, body: ir.Graph) -> int | None:
    """The steps after which counters make the condition of a typed body false, None if unknown.

    A counter is a state of one known integer to which every step adds the same number.
    """
    counters = [(body.inputs[0], 0, 1)]
    for outer, own, after in zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], strict=False):
        first = x.interval(outer)
        if first is None or first.low.size != 1 or (first.low != first.high).any():
            continue
        if dtype_of(own).numpy().kind not in "iu":
            continue
        by = constant(add(x.terms.of(after)[0], x.terms.of(own)[0], -1))
        counters += [] if by is None else [(own, int(first.low.ravel()[0]), by)]

    def is_over(step: int) -> bool:
        """Whether the counters' values surely end the loop before step number `step`."""
        trial = x.bounds.outside(body)
        for state, first, by in counters:
            if (
                not (limits := np.iinfo(dtype_of(state).numpy())).min
                <= first + by * step
                <= limits.max
            ):
                return False  # it wraps around
            trial.size(state, first + by * step, first + by * step)
        found = trial.of(body.outputs[0])
        return found is not None and not found.high.any()

    last = next((1 << k for k in range(25) if is_over(1 << k)), None)
    return None if last is None else 1 + bisect(range(last), False, key=is_over)


def stack_bounded(x: DynamicDims, node: ir.Node, states: int) -> ir.Node:
    """Type what a Loop of typed body stacks at the most steps it makes; the Loop in its place.

    UnsupportedError if nothing bounds them.
    """
    body: ir.Graph = attribute(node, "body")
    most, going = most_steps(x, node), _truth(x, body.outputs[0])
    if going is False:
        most = 1 if most is None else min(most, 1)
    most = min((m for m in (most, _counted_out(x, node, body)) if m is not None), default=None)
    if most is None:
        raise no_bound(node, "how often the loop runs depends on the data")
    trips, start = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    starts = start is None or _truth(x, start) is True
    known = lookup(trips, x.sweep.partial_values)
    count: ir.Value | None = None
    if most and (going is None or not starts):
        node, count = _counting(x, node, states)
        x.new(count, most)
        states += 1
    elif most and trips is not None and (known is None or not known.full):
        count = x.as_vector(node, trips)
        if going is False:  # before its trip count does, that ends it
            count = x.smallest(node, count, x.ints(node, [1]))
        count = x.largest(node, count, x.ints(node, [0]))
        x.new(count, most)
    first = 1 + states
    for value, step in zip(node.outputs[states:], body.outputs[first:], strict=True):
        if not value.name:
            continue
        set_type(value, int(dtype_of(step)), (most, *shape_of(step)))
        own = {axis + 1: n for axis, n in x.run_sizes(step).items()}
        x.set(value, own if count is None else {0: count, **own})
    return node


def _counting(x: DynamicDims, node: ir.Node, states: int) -> tuple[ir.Node, ir.Value]:
    """(loop, steps): the Loop in a form that also counts its steps in a state of its own, the
    first.

    The old node is removed; `steps` is an int64 vector of one element.
    """

    def one_more(before: ir.Value, last: ir.Node) -> ir.Value:
        """The state behind a step."""
        return x.node(last, "Add", [before, x.ints(last, [1])], [(INT64, (1,))])[0]

    return _with_state(x, node, 2, "steps", one_more)


def _with_state(
    x: DynamicDims,
    node: ir.Node,
    first: int,
    name: str,
    step: Callable[[ir.Value, ir.Node], ir.Value],
) -> tuple[ir.Node, ir.Value]:
    """(loop, last): the Loop or Scan with another state, the first, and that state's last value.

    States are inputs from `first` on. The new one is an int64 vector of one element and begins as
    0; `step` gives its next value, from its present one and a node in front of which nodes may be
    put. The old node is removed.
    """
    graph = graph_of(node)
    body: ir.Graph = attribute(node, "body")
    last = behind(body, body.outputs[0])
    # The state's first value is 0, as in every run of the loop.
    before = ir.Value(name=Editor(body).fresh(name))
    set_type(before, INT64, (1,))
    body.inputs.insert(first, before)
    after = step(before, last)
    body.remove(last, safe=True)
    body.outputs.insert(first // 2, after)
    inputs = list(node.inputs)
    inputs.insert(first, x.ints(node, [0]))
    count = len(node.outputs) + 1
    kept = list(node.attributes.values())
    made = ir.Node("", node.op_type, inputs, kept, num_outputs=count)
    made.name = node.name
    made.metadata_props.update(node.metadata_props)
    graph.insert_before(node, made)
    edit = Editor(graph)
    result = made.outputs[0]
    result.name = edit.fresh(f"{node.name}_{name}")
    set_type(result, INT64, (1,))
    # The old node's results move to the new one, each one place further.
    for old, new in zip(node.outputs, made.outputs[1:], strict=True):
        if not old.name:
            continue
        new.name = edit.fresh(str(old.name))
        if old.dtype is not None and old.shape is not None:
            new.type, new.shape = old.type, old.shape
        edit.replace(old, new)
        x.set(new, x.run_sizes(old))
    graph.remove(node, safe=True)
    return made, result


def checked_loop(x: DynamicDims, node: ir.Node, first: int, checks: Checks) -> ir.Node:
    """The typed Loop or Scan with what its body compares as states, so that every step does so.

    States are inputs from `first` on; the old node is removed.
    """
    for check in checks:
        node = _with_state(x, node, first, "fits", partial(_given, check))[0]
    x.checks += node.outputs[: len(checks)]
    return node


def _given(value: ir.Value, before: ir.Value, last: ir.Node) -> ir.Value:
    """`value` as the next value of a state."""
    return value


def checked_branches(
    x: DynamicDims, node: ir.Node, branches: Sequence[ir.Graph], checks: Sequence[Checks]
) -> None:
    """Let an If give what its branches compare, `checks` in their order, so that they do so."""
    for index, own in enumerate(checks):
        for check in own:
            for place, branch in enumerate(branches):
                end = behind(branch, branch.outputs[0])
                given = check if place == index else x.ints(end, [0])
                branch.outputs.append(x.node(end, "Identity", [given], [(INT64, (1,))])[0])
                branch.remove(end, safe=True)
            x.checks.append(_new_output(node, f"{node.outputs[0].name}_fits"))


def steps_of_scan(
    x: DynamicDims, node: ir.Node, sequences: Sequence[ir.Value | None], axes: Sequence[int]
) -> ir.Value | None:
    """The value that says how many steps a Scan makes, where the data decide that; None if it is
    known.

    KnownLate if its sequences may have different lengths.
    """
    found: list[ir.Value | None] = []
    for value, axis in zip(sequences, axes, strict=True):
        assert value is not None
        own = x.run_sizes(value)
        found.append(own.get(axis + len(shape_of(value)) if axis < 0 else axis))
    first = found[0] if found else None
    if first is None and not any(found):
        return None
    if first is None or any(n is None or not x.same(first, n) for n in found):
        what = "scans what may be of different lengths"
        raise KnownLate(f"{title(node)} {what}")
    return first


def scan_bounded(x: DynamicDims, node: ir.Node, states: int, steps: ir.Value) -> None:
    """Isolate a typed Scan that makes `steps` steps; what it stacks is as long."""
    places = [int(a) for a in attribute(node, "scan_output_axes") or []]
    own = [x.run_sizes(v) for v in node.outputs]
    results = isolate_scan(node)
    node.replace_input_with(0, x.scalar(node, steps))
    for index, value in enumerate(results[states:]):
        axis = places[index] if places else 0
        if value.name:
            axis += len(shape_of(value)) if axis < 0 else 0
            x.set(value, {**own[states + index], axis: steps})
