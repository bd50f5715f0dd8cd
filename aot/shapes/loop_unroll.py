# SPDX-License-Identifier: Apache-2.0
"""Nodes made while shapes are inferred, typed at once: copies of a body, pieces, stacks.

Before: s, y = Loop(2, true, s0, body={s' = Concat(s, e); y' = Identity(e)})
After: s1 = Concat(s0, e); s = Concat(s1, e); y = Concat(Unsqueeze(e), Unsqueeze(e))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, attribute_of
from aot.ir.graph_nodes import NAME_KEY, all_nodes, dtype_of, graph_of, set_type, shape_of, title
from aot.shapes.context import Inference
from aot.shapes.partial_values import lookup

MOST = 4096
"""Nodes that the steps of one loop may make."""


def release_captures(body: ir.Graph) -> None:
    """Let what a graph that goes away captured have one reader less."""
    for inner in list(all_nodes(body)):
        for index in range(len(inner.inputs)):
            inner.replace_input_with(index, None)


class Steps:
    """Writes nodes in front of a node; a list of numbers among the inputs is a constant."""

    def __init__(self, sweep: Inference) -> None:
        self._sweep = sweep

    def graph(self, node: ir.Node) -> ir.Graph:
        """The graph a node is in."""
        return graph_of(node)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | list[int]],
        attributes: dict[str, Any] | None = None,
        *,
        before: ir.Node,
    ) -> ir.Value:
        """The result of a new node in front of `before`, typed; lists become constants."""
        return self._node(op_type, inputs, attributes or {}, 1, before)[0]

    def split(
        self, value: ir.Value, sizes: Sequence[int], axis: int, before: ir.Node
    ) -> list[ir.Value]:
        """Pieces of `value` along an axis."""
        return self._node("Split", [value, list(sizes)], {"axis": axis}, len(sizes), before)

    def stack(self, values: Sequence[ir.Value], axis: int, before: ir.Node) -> ir.Value:
        """The values along a new axis."""
        rows: list[ir.Value | list[int]] = [
            self.add("Unsqueeze", [v, [axis]], before=before) for v in values
        ]
        return self.add("Concat", rows, {"axis": axis}, before=before)

    def loop(
        self, inputs: Sequence[ir.Value | None], body: ir.Graph, count: int, before: ir.Node
    ) -> list[ir.Value]:
        """The `count` results of a Loop in front of `before`, typed."""
        return self._node("Loop", inputs, {"body": ir.AttrGraph("body", body)}, count, before)

    def _node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | list[int] | None],
        attributes: dict[str, Any],
        count: int,
        before: ir.Node,
    ) -> list[ir.Value]:
        """The `count` results of a new node in front of `before`, typed; lists become constants."""
        graph = self.graph(before)
        edit = Editor(graph)
        values = [edit.ints(v, op_type) if isinstance(v, list) else v for v in inputs]
        attrs = [attribute_of(k, v) for k, v in attributes.items()]
        made = ir.Node("", op_type, values, attrs, num_outputs=count)
        if before.name:
            made.name = f"{before.name}_{op_type}"
        made.metadata_props.update(before.metadata_props)
        for value in made.outputs:
            value.name = edit.fresh(f"{before.outputs[0].name}_{op_type}")
        graph.insert_before(before, made)
        reader = ir.Node("", "Concat", made.outputs, num_outputs=1)
        self._sweep.visit(made)  # which may let others take the node's place
        found = [v for v in reader.inputs if v is not None]
        for index in range(count):
            reader.replace_input_with(index, None)
        return found

    def end(self, graph: ir.Graph, value: ir.Value, name: str) -> ir.Value:
        """A copy of `value` behind all nodes, which has the user's name `name`."""
        made = ir.Node("", "Identity", [value], num_outputs=1)
        result = made.outputs[0]
        set_type(result, int(dtype_of(value)), shape_of(value))
        result.name = Editor(graph).fresh(name)
        result.metadata_props[NAME_KEY] = name
        graph.append(made)
        return result

    def instance(
        self, body: ir.Graph, inputs: Sequence[ir.Value], before: ir.Node
    ) -> list[ir.Value]:
        """The outputs of a copy of `body` with these inputs, in front of a node."""
        copy = body.clone(allow_outer_scope_values=True)
        for node in all_nodes(copy):
            for value in node.outputs:
                value.type = value.shape = None
                value.metadata_props.pop(NAME_KEY, None)
        nodes = list(copy)
        results = self.splice(copy, inputs, before)
        errors = len(self._sweep.errors)
        for node in nodes:
            self._sweep.step(node)
        if len(self._sweep.errors) > errors:
            raise self._sweep.errors.pop()
        return results

    def splice(self, body: ir.Graph, inputs: Sequence[ir.Value], before: ir.Node) -> list[ir.Value]:
        """Move the nodes of `body`, with new names, in front of a node; the values of its
        outputs.
        """
        graph = self.graph(before)
        edit = Editor(graph)
        results = list(body.outputs)
        body.outputs.clear()
        now: dict[ir.Value, ir.Value] = dict(zip(body.inputs, inputs, strict=True))
        for old in list(body.initializers.values()):
            del body.initializers[str(old.name)]
            # A name of the body may be one of the graph around it.
            old.name = edit.fresh(str(old.name))
            graph.register_initializer(old)
        for inside, outside in now.items():
            inside.replace_all_uses_with(outside)
        nodes = list(body)
        body.remove(nodes)
        for node in nodes:
            for value in node.outputs:
                if value.name:
                    value.name = edit.fresh(str(value.name))
        graph.insert_before(before, nodes)
        return [now.get(r, r) for r in results]

    def unroll(self, node: ir.Node, body: ir.Graph) -> tuple[list[ir.Value], list[list[ir.Value]]]:
        """(last states, results of every step) of a Loop, whose steps are put in front of it.

        UnsupportedError if data decide the number of steps or the nodes are more than MOST.
        """
        edit = Editor(self.graph(node))
        trips, go = node.inputs[0], node.inputs[1]
        states = [v for v in node.inputs[2:] if v is not None]
        limit = None if trips is None else self._known(node, trips)
        rows: list[list[ir.Value]] = []
        while limit is None or len(rows) < limit:
            if go is not None and not self._known(node, go):
                break
            # Before the nodes are made: a count of millions would fill the memory first.
            if len(rows) * (len(list(body)) + 1) > MOST:
                raise UnsupportedError(f"{title(node)}: more than {MOST} nodes when unrolled")
            step = edit.const(np.array(len(rows), np.int64), "step")
            truth = edit.const(np.array(True), "go")
            results = self.instance(body, [step, truth, *states], node)
            go, states = results[0], results[1 : 1 + len(states)]
            rows.append(results[1 + len(states) :])
        return states, rows

    def _known(self, node: ir.Node, value: ir.Value) -> int:
        """A number that must be known; UnsupportedError if data decide it."""
        known = lookup(value, self._sweep.partial_values)
        if known is None or not known.full:
            what = "the number of iterations depends on the data"
            raise UnsupportedError(f"{title(node)}: {what} (not supported yet)")
        return int(known.data.ravel()[0])
