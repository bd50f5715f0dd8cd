# SPDX-License-Identifier: Apache-2.0
"""Inference through subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aot.errors import AotError, ModelError, UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import (
    DYNAMIC,
    attribute,
    dtype_of,
    graph_of,
    inner_graphs,
    is_typed,
    original_name,
    set_type,
    shape_of,
    title,
)
from aot.ir.operators import Interface
from aot.shapes.containers import Containers
from aot.shapes.context import Inference
from aot.shapes.dynamic.control_flow import (
    checked_branches,
    checked_loop,
    merge_branches,
    most_steps,
    scan_bounded,
    stack_bounded,
    steps_of_scan,
)
from aot.shapes.dynamic.dims import INT64, DynamicDims, refused
from aot.shapes.dynamic.loop_states import grow_to_bounds, keep_sizes, pass_sizes, stack_appended
from aot.shapes.evaluate import Invalid
from aot.shapes.loop_unroll import MOST, release_captures
from aot.shapes.partial_values import Known, lookup

#: Types the bodies of a node whose results onnx infers by itself. A rule raises Invalid.
types_bodies: Interface[Callable[[Control, ir.Node], None]] = Interface("types_bodies")


#: Types the results of an operator of control flow, and its bodies; tells whether other nodes have
#: taken its place.
controls: Interface[Callable[[Control, ir.Node], bool]] = Interface("control")


class Control:
    """If, Loop and Scan: their bodies are swept with the types the node gives them.

    `taken` collects (If, the branch that always runs), inner ones first, which the caller replaces
    when the whole graph is typed; `notes` are sentences for the user on branches that never run.
    """

    def __init__(self, sweep: Inference, dims: DynamicDims, containers: Containers) -> None:
        """Type control flow for `sweep`, which infers the nodes of bodies."""
        self._sweep, self._dims, self._containers = sweep, dims, containers
        self.taken: list[tuple[ir.Node, ir.Graph]] = []
        self.notes: list[str] = []
        self._compared: dict[ir.Graph, list[ir.Value]] = {}
        """Results of the comparisons that every run of a body must make, by body."""

    def branch(self, node: ir.Node) -> bool:
        """Type an If and its branches; True if the nodes of a branch stand in its place already.

        Where the condition is known, or shapes leave one branch, the results get the types of that
        branch. The If stays until the graph is typed and is noted in `taken`; but where a result is
        a sequence or an optional, the nodes of the branch replace it at once, and only then is the
        answer True. A branch that raises ModelError with the shapes of its operands can never run:
        a run checks that the condition does not choose it. Otherwise both branches stay, and a
        dimension in which they differ gets the larger size as its upper bound. Raises the error of
        a branch where neither fits, UnsupportedError for sequences or for ranks that differ.
        """
        branches = [attribute(node, "then_branch"), attribute(node, "else_branch")]
        # A known condition leaves one branch, whose nodes take the place of the If.
        condition = lookup(node.inputs[0], self._sweep.partial_values)
        if condition is not None and condition.full:
            taken = branches[0] if bool(condition.data.ravel()[0]) else branches[1]
            self.body(node, taken, bounded=True)
            return self._take(node, taken)
        misfits = [self._misfit(node, b) for b in branches]
        # Shapes say which branch can run; a run of the other kind is an error, not a guess.
        if misfits.count(None) == 1:
            index = misfits.index(None)
            self._require(node, index == 0, next(filter(None, misfits)))
            return self._take(node, branches[index])
        for error in filter(None, misfits):
            raise error
        if any(o in self._containers.held for branch in branches for o in branch.outputs):
            what = "which sequence or optional it gives is known at run time only"
            raise UnsupportedError(f"{title(node)}: {what} (not supported yet)")
        # Unknown condition: the result has the bound of both branches.
        merge_branches(self._dims, node, branches)
        compared = [self._compared.pop(b, []) for b in branches]
        checked_branches(self._dims, node, branches, compared)
        return False

    def _take(self, node: ir.Node, taken: ir.Graph) -> bool:
        """Give the results of an If the types of branch `taken`; True if its nodes have replaced
        the If, as they do for sequences and optionals.
        """
        held = self._containers.held
        self._dims.checks += self._compared.pop(taken, [])
        if any(o in held for o in taken.outputs):
            self._in_place(node, taken)
            return True
        _copy_types(node.outputs, taken.outputs)
        for value, result in zip(node.outputs, taken.outputs, strict=True):
            self._dims.set(value, self._dims.run_sizes(result))
            if (known := lookup(result, self._sweep.partial_values)) is not None:
                self._sweep.partial_values[value] = known
        self.taken.append((node, taken))
        return False

    def _misfit(self, node: ir.Node, branch: ir.Graph) -> AotError | None:
        """Type a branch; the error of its nodes against their operands, None if there is none."""
        noted = self._noted()
        try:
            self.body(node, branch, bounded=True)
        except AotError as last:
            first = next(iter(self._sweep.errors[noted[0][1] :]), last)
            if not isinstance(first, ModelError):
                raise
            _truncate(noted)
            return first
        return None

    def _require(self, node: ir.Node, wanted: bool, error: AotError) -> None:
        """Let every run compare the condition of an If with `wanted`, and note `error` for the
        user.
        """
        x, condition = self._dims, node.inputs[0]
        assert condition is not None
        truth = x.as_vector(node, condition)
        want = x.ints(node, [int(wanted)])
        x.checks.append(x.node(node, "RequireEqual", [truth, want], [(INT64, (1,))], DYNAMIC)[0])
        name = original_name(condition)
        self.notes.append(
            f'{title(node)}: "{name}" must be {wanted}, else a run gives AOT_BAD_SHAPE: the other '
            f"branch fits no inputs of these shapes ({error.what})"
        )

    def _in_place(self, node: ir.Node, branch: ir.Graph) -> None:
        """Put the nodes of the branch before the If; its outputs are the branch's."""
        containers = self._containers
        old = list(branch.outputs)
        new = containers.steps.splice(branch, (), node)
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            containers.give(node, containers.held.get(before, after), index)

    def loop(self, node: ir.Node) -> bool:
        """Type a Loop, as it is where every step is alike, else step by step.

        Returns True if other nodes have replaced it.
        """
        self._refuse_dynamic(node, node.inputs[:2])
        first: ir.Graph = attribute(node, "body")
        _take_scalars(first)
        if any(s in self._containers.held for s in node.inputs[2:] if s is not None):
            self._unroll(node)
            return True

        body = first.clone(allow_outer_scope_values=True)  # as nobody rewrote it
        noted = self._noted()
        try:
            return self._alike(node)
        except UnsupportedError:  # of two reasons the second one counts
            _truncate(noted)
            if self._is_short(node, body) and self._is_unrolled(node, body):
                return True
            _truncate(noted)
            release_captures(first)
            node.attributes["body"] = ir.AttrGraph("body", body)
            if self._replaced(node, stack_appended(self._containers.steps, node)):
                return True
            body = body.clone(allow_outer_scope_values=True)
            return self._thawed(node, body)
        finally:
            if attribute(node, "body") is not body:
                release_captures(body)

    def _thawed(self, node: ir.Node, body: ir.Graph) -> bool:
        """Type a Loop whose steps make shapes of their own, or whose states grow up to a bound.

        Tells whether other nodes have taken its place; `body` is its body as nobody rewrote it.
        """
        noted = self._noted()
        try:
            return self._alike(node, thawed=True)
        except UnsupportedError:
            most = most_steps(self._dims, node)
            made = grow_to_bounds(self._dims, self._containers.steps, node, body, most)
            if not self._replaced(node, made):
                raise
            _truncate(noted)
            return True

    def _replaced(self, node: ir.Node, made: Sequence[ir.Value]) -> bool:
        """Let values in front of a node take the place of its results; whether there are any."""
        for index, value in enumerate(made):
            self._containers.give(node, value, index)
        return bool(made)

    def _refuse_dynamic(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
        """UnsupportedError if a run decides the shape of one of `inputs`."""
        if any(self._dims.run_sizes(v) for v in inputs):
            raise refused(node, "takes a tensor whose shape is known at run time only")

    def _noted(self) -> list[tuple[list[Any], int]]:
        """What an attempt at a body notes beside types: lists, and their lengths before it.

        What comes to them goes when another attempt is made.
        """
        return [(n, len(n)) for n in (self._sweep.errors, self._dims.checks, self.taken)]

    def _is_short(self, node: ir.Node, body: ir.Graph) -> bool:
        """Whether to try unrolling a Loop: trips times nodes of its body are at most MOST.

        A Loop without a trip count counts as short, one whose trip count is not known does
        not.
        """
        trips = node.inputs[0]
        known = lookup(trips, self._sweep.partial_values) if trips is not None else None
        if known is None or not known.full:
            return trips is None
        return int(known.data.ravel()[0]) * (len(list(body)) + 1) <= MOST

    def _is_unrolled(self, node: ir.Node, body: ir.Graph) -> bool:
        """Try to put the steps in front of the node; nothing is left of an attempt that fails."""
        graph = graph_of(node)
        there = {id(n) for n in graph}
        try:
            self._unroll(node, body)
        except UnsupportedError:
            made = [n for n in graph if id(n) not in there]
            for held in [g for n in made for g in inner_graphs(n)]:
                release_captures(held)
            graph.remove(made, safe=True)
            return False
        return True

    def _unroll(self, node: ir.Node, body: ir.Graph | None = None) -> None:
        """Put the steps of a Loop in front of it; UnsupportedError if it gives nothing in
        no step.
        """
        containers = self._containers
        states, rows = containers.steps.unroll(node, body or attribute(node, "body"))
        if not rows and any(o.name for o in node.outputs[len(states) :]):
            raise UnsupportedError(f"{title(node)}: a loop of no steps puts out nothing")
        for index, value in enumerate(states):
            containers.give(node, containers.held.get(value, value), index)
        for index in range(len(states), len(node.outputs)):
            parts = [row[index - len(states)] for row in rows]
            if node.outputs[index].name:
                containers.give(node, containers.steps.stack(parts, 0, node), index)

    def _alike(self, node: ir.Node, thawed: bool = False) -> bool:
        """Type a loop whose steps are alike; whether another has taken its place.

        `thawed`: what depends on the data within the body is computed anew in every step.
        """
        body = attribute(node, "body")
        states = list(node.inputs[2:])
        if not thawed:
            self._refuse_dynamic(node, states)
        set_type(body.inputs[0], 7, ())
        set_type(body.inputs[1], 9, ())
        _copy_types(body.inputs[2:], states)
        pass_sizes(self._dims, states, body.inputs[2:])
        self._sweep.partial_values[body.inputs[1]] = Known(
            np.array(True)
        )  # or the step is not made
        most = most_steps(self._dims, node)
        if most:
            self._dims.new(body.inputs[0], most - 1)
        self.body(node, body, steps=not thawed, states=states, first=1)
        self._same_states(node, states, body.outputs[1 : 1 + len(states)])
        _copy_types(node.outputs[: len(states)], states)
        pass_sizes(self._dims, states, node.outputs)
        stacks = any(o.name for o in node.outputs[len(states) :])
        made = stack_bounded(self._dims, node, len(states)) if stacks else node
        made = checked_loop(self._dims, made, 2, self._compared.pop(body, []))
        return made is not node

    def scan(self, node: ir.Node) -> bool:
        """Type a Scan from its body; whether other nodes have taken its place.

        The body sees sequences without their scanned axis, states as they are. Sizes within
        the body are values of it only where one of its inputs has a dynamic dimension; else
        each step has sizes of its own. Where the number of steps is dynamic, the Scan is
        replaced. Raises ValueError for counts that do not fit the node.
        """
        x = self._dims
        body = attribute(node, "body")
        scanned = int(attribute(node, "num_scan_inputs"))
        count = len(node.inputs) - scanned
        if not 0 < scanned <= len(node.inputs):
            raise ValueError(f"num_scan_inputs {scanned} of {len(node.inputs)} inputs")
        states, sequences = list(node.inputs[:count]), list(node.inputs[count:])
        axes = list(attribute(node, "scan_input_axes") or [0] * scanned)
        _copy_types(body.inputs[:count], states)
        length = 0
        for inner, outer, axis in zip(body.inputs[count:], sequences, axes, strict=True):
            assert outer is not None and outer.dtype is not None
            shape = list(shape_of(outer))
            # An axis counts from behind in ONNX where it is negative; here from the front.
            axis += len(shape) if axis < 0 else 0
            length = shape.pop(axis)
            set_type(inner, int(outer.dtype), tuple(shape))
            x.set(inner, {a - (a > axis): n for a, n in x.run_sizes(outer).items() if a != axis})
        pass_sizes(x, states, body.inputs)
        # Where sizes depend on the run the body computes with them; else every step has its own.
        thawed = any(x.run_sizes(v) for v in body.inputs)
        self.body(node, body, steps=not thawed, states=states)
        self._same_states(node, states, body.outputs[:count])
        _copy_types(node.outputs[:count], states)
        pass_sizes(x, states, node.outputs)
        results = body.outputs[count:]
        places = list(attribute(node, "scan_output_axes") or [0] * len(results))
        for value, step, axis in zip(node.outputs[count:], results, places, strict=True):
            shape = list(shape_of(step))
            axis += len(shape) + 1 if axis < 0 else 0
            shape.insert(axis, length)
            set_type(value, int(dtype_of(step)), tuple(shape))
            x.set(value, {a + (a >= axis): n for a, n in x.run_sizes(step).items()})
        steps = steps_of_scan(x, node, sequences, axes)
        compared = self._compared.pop(body, [])
        made = checked_loop(x, node, 0, compared)
        if steps is not None:
            scan_bounded(x, made, count + len(compared), steps)
        return steps is not None or made is not node

    def body(
        self,
        node: ir.Node,
        graph: ir.Graph,
        bounded: bool = False,
        steps: bool = False,
        states: Sequence[ir.Value | None] = (),
        first: int = 0,
    ) -> None:
        """Infer the types of all values of a body, the branch of an If or the body of a Loop.

        With `steps` the nodes of the body are not rewritten for dynamic dimensions: each step has
        shapes of its own. Unless `bounded`, the sizes of the outputs from `first` on (the next
        `states`, then what is stacked) must be known around the body. Raises an error of its
        nodes, UnsupportedError for an output without a type or with a size of each step's own.
        """
        before = len(self._sweep.errors)
        dims = self._dims
        # Checks that a body makes belong to its steps, so they are taken out of the list around it.
        checks = len(dims.checks)
        dims.frozen += steps
        try:
            self._sweep.run(graph)
        finally:
            dims.frozen -= steps
        # The first error of a body is enough: the rest follows from it.
        if len(self._sweep.errors) > before:
            raise self._sweep.errors.pop()
        if not bounded:
            keep_sizes(dims, node, states, graph, first)
        self._compared[graph] = dims.checks[checks:]
        del dims.checks[checks:]
        for value in graph.outputs:
            if not is_typed(value) and value not in self._containers.held:
                what = f'the shape of "{value.name}" depends on the data'
                raise UnsupportedError(f"{title(node)}: {what} (not supported yet)")

    def _same_states(
        self, node: ir.Node, before: Sequence[ir.Value | None], after: Sequence[ir.Value]
    ) -> None:
        """Raise unless each state of a loop has one type and shape before and after a step."""
        for left, right in zip(before, after, strict=True):
            if left is None:
                raise Invalid("a loop-carried value has no initial value")
            if (left.dtype, shape_of(left)) != (right.dtype, shape_of(right)):
                raise UnsupportedError(
                    f"{title(node)}: a loop-carried value grows from {list(shape_of(left))} to "
                    f"{list(shape_of(right))} (not supported yet)"
                )


def _take_scalars(body: ir.Graph) -> None:
    """Let the body of a Loop take its step number and its condition as scalars: a file may declare
    them as vectors of one element, and exporters index by those.

    Before: body(i [1]) = {y = Gather(x, i)}     After: body(i []) = {v = Reshape(i, [1]); y = …}
    """
    edit = Editor(body)
    for value in body.inputs[:2]:
        if value.uses() and value.shape is not None and len(value.shape) == 1:
            uses, one = list(value.uses()), edit.ints([1], "shape")
            vector = edit.node("Reshape", [value, one], before=next(iter(body)), shape=(1,))
            for use in uses:
                use.node.replace_input_with(use.idx, vector)
            value.shape = ir.Shape(())


def _truncate(noted: Sequence[tuple[list[Any], int]]) -> None:
    """Take what has come to the lists since they had these lengths."""
    for own, length in noted:
        del own[length:]


def _copy_types(targets: Sequence[ir.Value], sources: Sequence[ir.Value | None]) -> None:
    """Give `targets` the types and shapes of `sources`; Invalid for a source without one."""
    for target, source in zip(targets, sources, strict=True):
        if source is None or source.dtype is None:
            raise Invalid("a subgraph input has no value")
        if target.name:
            set_type(target, int(source.dtype), shape_of(source))
