# SPDX-License-Identifier: Apache-2.0
"""States of loops whose shape a run decides, and states that grow.

Before: y = Loop(m, c, s0, body={s -> Concat(s, e)})            y: as long as s0 and m times e
After: t = Loop(m, c, body={e2 = Concat(s0[0:0], e)});  y = Concat(s0, Reshape(t))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, attribute_of, single_use
from aot.ir.graph_nodes import (
    DYNAMIC,
    attribute,
    dtype_of,
    is_typed,
    maker_of,
    operand,
    set_type,
    shape_of,
)
from aot.ir.operators import Interface
from aot.shapes.cures import sizings
from aot.shapes.dynamic.control_flow import behind
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, no_bound, refused
from aot.shapes.dynamic.equality_constraints import fitted, require_equal
from aot.shapes.loop_unroll import Steps

#: The axis along which a node joins its inputs, whose rank is given.
joins: Interface[Callable[[ir.Node, int], int]] = Interface("joins")


def pass_sizes(
    x: DynamicDims, sources: Sequence[ir.Value | None], targets: Sequence[ir.Value]
) -> None:
    """Give `targets`, of which there may be more, the dynamic axes of `sources`."""
    for source, target in zip(sources, targets, strict=False):
        x.set(target, x.run_sizes(source))


def keep_sizes(
    x: DynamicDims, node: ir.Node, states: Sequence[ir.Value | None], body: ir.Graph, first: int
) -> None:
    """Give the outputs of a typed body from `first` on, states first, axes whose sizes are known
    around it.

    Every step compares the sizes of a state before and after. UnsupportedError for a size that
    each step has of its own.
    """
    outside = [n for s in node.inputs for n in x.run_sizes(s).values()]
    for index, value in enumerate(body.outputs[first:]):
        before = x.run_sizes(states[index]) if index < len(states) else {}
        found: Axes = {}
        for axis, n in x.run_sizes(value).items():
            limits = x.interval(n)
            if limits is not None and limits.low.min() == shape_of(value)[axis]:
                continue  # it is surely as long as its bound
            known = [m for m in (before.get(axis), *outside) if m is not None]
            same = next((m for m in known if x.same(m, n)), None)
            if same is None and n.graph is not body:
                same = n
            if same is None and axis in before:
                same, end = before[axis], behind(body, value)
                require_equal(x, end, n, same)
                body.remove(end, safe=True)
            if same is None:
                raise refused(node, "gives a tensor whose shape is known at run time only")
            found[axis] = same
        x.discard(value)
        x.set(value, found)
        if index < len(states):
            body.outputs[first + index] = _fitted(x, body, value, states[index])


def _fitted(x: DynamicDims, body: ir.Graph, value: ir.Value, state: ir.Value | None) -> ir.Value:
    """The next state with no larger bounds than those of the state."""
    end = behind(body, value)
    for axis in x.run_sizes(value):
        if state is not None and axis < len(shape_of(state)):
            value = fitted(x, end, value, axis, shape_of(state)[axis])
    body.remove(end, safe=True)
    return value


def stack_appended(steps: Steps, node: ir.Node) -> list[ir.Value]:
    """The results of a Loop in front of `node` that stacks what `node` appends to states.

    A state is appended to where a body reads it as the first part of a Concat whose result is the
    next state, and nowhere else. No results if the node has no such state.
    """
    count = len(node.inputs) - 2
    body: ir.Graph = attribute(node, "body")
    axes = {i: a for i in range(count) if (a := _appended_along(node, body, i)) is not None}
    if not axes:
        return []
    # A copy: the untyped body is needed again where this attempt does not hold.
    body = body.clone(allow_outer_scope_values=True)
    parts: list[ir.Value] = []
    # From behind, so that the numbers of the states before stay what they are.
    for index, axis in sorted(axes.items(), reverse=True):
        first = operand(node, 2 + index)
        empty = steps.add("Slice", [first, [0], [0], [axis]], before=node)
        body.inputs.pop(2 + index).replace_all_uses_with(empty)
        # What was appended in each step is stacked instead, and joined behind the loop once.
        parts.insert(0, body.outputs.pop(1 + index))
    body.outputs.extend(parts)
    kept = [v for i, v in enumerate(node.inputs) if i - 2 not in axes]
    results = steps.loop(kept, body, len(node.outputs), node)
    stacks = results[len(results) - len(axes) :]
    for (index, axis), stack in zip(sorted(axes.items()), stacks, strict=True):
        first = operand(node, 2 + index)
        results.insert(index, _joined(steps, node, first, stack, axis))
    return results[: len(node.outputs)]


def _appended_along(node: ir.Node, body: ir.Graph, index: int) -> int | None:
    """The axis along which each step appends to a state; None if that is not all it does."""
    first, state, after = node.inputs[2 + index], body.inputs[2 + index], body.outputs[1 + index]
    while (reader := single_use(state)) and _hands_on(reader):
        state = reader.outputs[0]
    rule = None if reader is None else joins.of(reader)
    if first is None or reader is None or rule is None or reader is not after.producer():
        return None
    ends = [o for o in body.outputs if o is after]
    if reader.inputs[0] is not state or after.uses() or len(ends) > 1:
        return None
    return rule(reader, len(shape_of(first)))


def _hands_on(node: ir.Node) -> bool:
    """Whether the node gives the elements of its only input, in another type at most."""
    sizing = sizings.of(node)
    return len(node.inputs) == 1 and sizing is not None and sizing.passes


def _joined(steps: Steps, node: ir.Node, first: ir.Value, stack: ir.Value, axis: int) -> ir.Value:
    """`first` and behind it along `axis` the rows of `stack`, whose axis 0 counts steps."""
    shape = list(shape_of(first))
    if axis:
        perm = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
        stack = steps.add("Transpose", [stack], {"perm": perm}, before=node)
    sizes = [*shape[:axis], -1, *shape[axis + 1 :]]
    flat = steps.add("Reshape", [stack, sizes], before=node)
    if shape[axis] == 0:
        return flat
    return steps.add("Concat", [first, flat], {"axis": axis}, before=node)


def grow_to_bounds(
    x: DynamicDims, steps: Steps, node: ir.Node, body: ir.Graph, most: int | None
) -> list[ir.Value]:
    """The results of a Loop in front of `node` whose growing states are at their bounds, with the
    rows they have as states of their own; none if no state grows. KnownLate if nothing bounds the
    steps.

    The body of `node` has been typed for its first states. What a step adds to them is what each
    of at most `most` steps may add; a run compares. `body` is as it was before.

    Before: s = Loop(m, c, s0, body={s1 -> s2})
    After: t, n = Loop(m, c, Pad(s0), 1, body={t1, n1 -> s1 = t1[:n1]; …; Pad(s2), Shape(s2)[0]})
           s = t[:n]
    """
    tried: ir.Graph = attribute(node, "body")
    found = [
        (i, _grown_along(state, tried.outputs[1 + i])) for i, state in enumerate(node.inputs[2:])
    ]
    growing = [(i, axis) for i, axis in found if axis is not None]
    if not growing:
        return []
    if most is None:
        raise no_bound(node, "how often the loop runs, and its states grow, depends on the data")
    body = body.clone(allow_outer_scope_values=True)
    inputs, count = list(node.inputs), len(node.inputs) - 2
    # The bound of a state grows by as much in every step as in the first one.
    for place, (index, axis) in enumerate(growing):
        first, after = node.inputs[2 + index], tried.outputs[1 + index]
        assert first is not None
        own = shape_of(first)[axis]
        bound = own + most * (shape_of(after)[axis] - own)
        shape = [bound if a == axis else d for a, d in enumerate(shape_of(first))]
        room = x.const(node, np.zeros(shape, dtype_of(first).numpy()), first)
        longer = steps.add("Concat", [first, room], {"axis": axis}, before=node)
        inputs[2 + index] = steps.add("Slice", [longer, [0], [bound], [axis]], before=node)
        rows = steps.add("Shape", [first], {"start": axis, "end": axis + 1}, before=node)
        inputs.insert(2 + count + place, rows)
        _at_bound(body, index, count + place, axis, room)
    # Rows are states of their own, behind the others.
    total = len(node.outputs) + len(growing)
    results = steps.loop(inputs, body, total, node)
    for place, (index, axis) in enumerate(growing):
        whole, rows = results[index], results[count + place]
        results[index] = steps.add("Slice", [whole, [0], rows, [axis]], before=node)
    del results[count : count + len(growing)]
    return results


def _grown_along(first: ir.Value | None, after: ir.Value) -> int | None:
    """The only axis along which a typed state is longer after a step; None if there is none."""
    if first is None or not is_typed(after) or first.dtype != after.dtype:
        return None
    pairs = list(zip(shape_of(first), shape_of(after), strict=False))
    longer = [axis for axis, (a, b) in enumerate(pairs) if a != b]
    same = len(shape_of(first)) == len(shape_of(after)) and len(longer) == 1
    return longer[0] if same and pairs[longer[0]][0] < pairs[longer[0]][1] else None


def _at_bound(body: ir.Graph, index: int, rows: int, axis: int, room: ir.Value) -> None:
    """Let an untyped body take and give state number `index` at its bound along `axis`, with its
    rows as state number `rows`. `room` are zeros of the state's bounds.
    """
    edit, bound = Editor(body), shape_of(room)[axis]

    def ints(value: int) -> ir.Value:
        return edit.ints([value], "ints")

    def node(op_type: str, inputs: Sequence[ir.Value], domain: str = "", **said: int) -> ir.Value:
        """The result of a new last node, without a type."""
        attributes = [attribute_of(k, v) for k, v in said.items()]
        made = ir.Node(domain, op_type, list(inputs), attributes, num_outputs=1)
        made.outputs[0].name = edit.fresh(op_type)
        body.append(made)
        return made.outputs[0]

    state, after = body.inputs[2 + index], body.outputs[1 + index]
    whole, length = (ir.Value(name=edit.fresh(n)) for n in ("whole", "rows"))
    set_type(length, INT64, (1,))
    begin = next(iter(body))
    # The slice comes first in the body, before everything that reads the state.
    part = node("Slice", [whole, ints(0), length, ints(axis)])
    made = maker_of(part)
    body.remove(made)
    body.insert_before(begin, made)
    body.inputs[2 + index] = whole
    state.replace_all_uses_with(part)
    after = part if after is state else after
    now = node("Shape", [after], start=axis, end=axis + 1)
    # A state that outgrows its bound ends the run with a status.
    fits = node("Within", [now], DYNAMIC, most=bound)
    set_type(fits, INT64, (1,))
    longer = node("Concat", [after, room], axis=axis)
    body.outputs[1 + index] = node("Slice", [longer, ints(0), ints(bound), ints(axis)])
    body.inputs.insert(2 + rows, length)
    body.outputs.insert(1 + rows, fits)
