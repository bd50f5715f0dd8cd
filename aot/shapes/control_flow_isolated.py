# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan whose bodies get all they read as inputs, so that no pass looks across.

Before: y = If(c, then={y1 = Add(x, w)}, else={y2 = Neg(x)})                        w a constant
After: y = aot.control.If(c, x, then={x1 -> y1 = Add(x1, w)}, else={x2 -> y2 = Neg(x2)})

A Scan becomes a Loop of known length. `aot.control.Loop` has the inputs
[trips?, start?, states…, scanned…, captured…]; its body has the inputs
[count (`counts`), states…, scanned…, captured…] and the outputs [go (`goes`), states…, stacked…].
A loop runs at most `most` times (-1: no bound); what is scanned or stacked has its steps on axis 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, attribute_of, is_used
from aot.ir.graph_nodes import (
    CONTROL,
    all_nodes,
    array,
    attribute,
    constant,
    dtype_of,
    given,
    graph_of,
    is_typed,
    operand,
    outside_values,
    set_type,
    shape_of,
    subgraphs,
)

BRANCHES = ("then_branch", "else_branch")
#: More steps than these are no bound.
MOST = 1 << 31
INT64, BOOL = 7, 9


def is_isolated(node: ir.Node) -> bool:
    """Whether the node is control flow that is isolated from above: bodies read inputs only."""
    return bool(node.domain == CONTROL)


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs of a control-flow node: for true and for false, or the body of a loop."""
    names = BRANCHES if node.op_type == "If" else ("body",)
    return [attribute(node, name) for name in names]


class Loop:
    """The parts of an isolated loop."""

    def __init__(self, node: ir.Node) -> None:
        """Read the attributes of an isolated loop; `body` is its graph, `states` and `scanned` are
        counts.
        """
        self.node = node
        self.body: ir.Graph = attribute(node, "body")
        self.most = int(attribute(node, "most"))
        self.counts = bool(attribute(node, "counts"))
        self.goes = bool(attribute(node, "goes"))
        self.states = int(attribute(node, "states"))
        self.scanned = int(attribute(node, "scanned"))
        self.backward: list[int] = list(attribute(node, "backward") or [])
        """Which of what is scanned, then of what is stacked, is so from the end (0 or 1 each)."""

    @property
    def trips(self) -> ir.Value | None:
        """How often it runs, where that is not known."""
        return given(self.node, 0)

    @property
    def start(self) -> ir.Value | None:
        """Whether it runs at all, where that is not known."""
        return given(self.node, 1)

    @property
    def length(self) -> int | None:
        """How often it runs, if that is known."""
        known = self.trips is None and self.start is None and not self.goes
        return self.most if known and self.most >= 0 else None

    def outer(self) -> list[ir.Value]:
        """First values of states, what is scanned, what is captured: one for each inner value."""
        found = list(self.node.inputs[2:])
        assert all(v is not None for v in found)
        return [v for v in found if v is not None]

    def inner(self) -> list[ir.Value]:
        """The body's inputs, but for the count."""
        return list(self.body.inputs[int(self.counts) :])

    def results(self) -> list[ir.Value]:
        """The body's outputs, but for the condition: one for each of the node's."""
        return list(self.body.outputs[int(self.goes) :])


def isolate(graph: ir.Graph) -> bool:
    """Bring all control flow of a typed graph and those within to this form; whether any was."""
    changed = False
    for node in list(graph):
        changed = _isolate_inside(node) or changed
        if node.op_type in ("If", "Loop", "Scan") and not node.domain:
            if node.op_type == "If":
                node.domain = CONTROL
            else:
                _isolate_loop(node)
            _capture(node)
            changed = True
    if changed:
        graph.opset_imports.setdefault(CONTROL, 1)
    return changed


def _isolate_loop(node: ir.Node) -> None:
    """Bring a Loop or Scan to the isolated form, in place: its attributes say what ONNX's order
    says.
    """
    body: ir.Graph = attribute(node, "body")
    if node.op_type == "Loop":
        while len(node.inputs) < 2:
            node.resize_inputs(2)
        # A Loop has no directions: its steps go forward.
        scanned, backward = 0, [0] * (len(node.outputs) - len(node.inputs) + 2)
        most = attribute(node, "most", _rows(node, len(node.inputs) - 2))
        going = body.inputs[1]
        # The condition that a body is given is true whenever the body runs.
        if going.uses() or going.is_graph_output():
            _substitute(body, going, _constant(body, np.array(True), "true"))
        body.inputs.pop(1)
        goes = 1
    else:
        scanned, backward, most = _scan(node, body)
        goes = 0
        # The isolated form counts steps first; Scan has no counter of its own.
        count = _input(body, INT64, (), "count")
        body.inputs.insert(0, body.inputs.pop(len(body.inputs) - 1))
        assert body.inputs[0] is count
    parts = {
        "most": most,
        "counts": 1,
        "goes": goes,
        "states": len(node.inputs) - 2 - scanned,
        "scanned": scanned,
        "backward": backward,
    }
    node.op_type, node.domain = "Loop", CONTROL
    _set(node, {"body": node.attributes["body"], **parts})


def isolate_scan(node: ir.Node) -> list[ir.Value]:
    """Bring a typed Scan to this form; the values that its results have become, in their order."""
    _isolate_inside(node)
    before = list(node.outputs)
    _isolate_loop(node)
    _capture(node)
    transposed = {id(u.node.inputs[0]): u.node for v in before for u in v.uses()}
    return [
        made.outputs[0]
        if (made := transposed.get(id(v))) is not None and made.name == f"{node.name}_transposed"
        else v
        for v in before
    ]


def _isolate_inside(node: ir.Node) -> bool:
    """Isolate control flow within the bodies of a node; whether anything was."""
    held = [a for a in node.attributes.values() if a.type.name == "GRAPH"]
    return any([isolate(a.as_graph()) for a in held])


def _set(node: ir.Node, attributes: dict[str, Any]) -> None:
    """Let a node have these attributes and no others."""
    node.attributes.clear()
    for name, value in attributes.items():
        node.attributes[name] = attribute_of(name, value)


def _rows(node: ir.Node, states: int) -> int:
    """The steps that fit what a loop stacks; -1 if it stacks nothing."""
    rows = [shape_of(o)[0] for o in node.outputs[states:] if o.name]
    return min(rows, default=-1)


def _scan(node: ir.Node, body: ir.Graph) -> tuple[int, list[int], int]:
    """Turn what is scanned and stacked so that steps are axis 0; (scanned, backward, length)."""
    scanned = int(attribute(node, "num_scan_inputs"))
    stacked = len(node.outputs) - (len(node.inputs) - scanned)
    first = len(node.inputs) - scanned
    axes = list(attribute(node, "scan_input_axes") or [0] * scanned)
    back = [int(b) for b in attribute(node, "scan_input_directions") or [0] * scanned]
    out_axes = list(attribute(node, "scan_output_axes") or [0] * stacked)
    back += [int(b) for b in attribute(node, "scan_output_directions") or [0] * stacked]
    values = list(node.inputs)
    length = 0
    for index, axis in enumerate(axes, first):
        value = values[index]
        assert value is not None
        length = shape_of(value)[axis]
        # What is scanned has its steps on axis 0 in the isolated form.
        values[index] = _moved(node, value, int(axis), 0)
    node.resize_inputs(len(values) + 2)
    # Two places in front: trip count and condition, which a Scan does not have.
    for index, value in enumerate([None, None, *values]):
        node.replace_input_with(index, value)
    for index, axis in enumerate(out_axes, first):
        _move_result(node, node.outputs[index], int(axis))
    return scanned, back, length


def _perm(rank: int, source: int, target: int) -> list[int]:
    """The axes in order when axis `source` comes to `target`."""
    rest = [a for a in range(rank) if a != source]
    rest.insert(target, source)
    return rest


def _moved(node: ir.Node, value: ir.Value, source: int, target: int) -> ir.Value:
    """`value` with axis `source` at `target`."""
    rank = len(shape_of(value))
    source += rank if source < 0 else 0
    if source == target:
        return value
    perm = _perm(rank, source, target)
    shape = [shape_of(value)[p] for p in perm]
    edit = Editor(graph_of(node))
    return edit.node("Transpose", [value], {"perm": perm}, before=node, shape=shape)


def _move_result(node: ir.Node, value: ir.Value, axis: int) -> None:
    """Let `value`, stacked along `axis`, come out of `node` along axis 0, with a Transpose behind
    it.
    """
    rank = len(shape_of(value)) if value.name else 0
    axis += rank if axis < 0 else 0
    if axis == 0 or not value.name:
        return
    graph = graph_of(node)
    perm = _perm(rank, 0, axis)
    turn = ir.Node("", "Transpose", [value], [attribute_of("perm", perm)], num_outputs=1)
    turn.name = f"{node.name}_transposed"
    turn.metadata_props.update(node.metadata_props)
    result, shape = turn.outputs[0], shape_of(value)
    set_type(result, int(dtype_of(value)), shape)
    result.name = Editor(graph).fresh(str(value.name))
    graph.insert_after(node, turn)
    # Readers take the Transpose's result before it reads the value, else it would read itself.
    turn.replace_input_with(0, None)
    Editor(graph).replace(value, result)
    turn.replace_input_with(0, value)
    set_type(
        value, int(dtype_of(value)), (shape[axis], *(d for a, d in enumerate(shape) if a != axis))
    )


def _capture(node: ir.Node) -> None:
    """Make values that bodies read from around them operands of `node`; constants become the
    bodies' own.
    """
    graphs = bodies(node)
    found: dict[int, ir.Value] = {}
    for body in graphs:
        for value in outside_values(body):
            tensor = constant(value)
            # A constant costs nothing in the body and can be folded there.
            if tensor is not None:
                _substitute(body, value, Editor(body).tensor(tensor, str(value.name)))
            else:
                found[id(value)] = value
    first = len(node.inputs)
    node.resize_inputs(first + len(found))
    for index, value in enumerate(found.values(), first):
        node.replace_input_with(index, value)
        for body in graphs:
            _substitute(
                body, value, _input(body, int(dtype_of(value)), shape_of(value), value.name)
            )


def _input(body: ir.Graph, dtype: int, shape: tuple[int, ...], hint: str | None) -> ir.Value:
    """A new last input of a body."""
    value = ir.Value(name=Editor(body).fresh(str(hint)))
    set_type(value, dtype, shape)
    body.inputs.append(value)
    return value


def _constant(body: ir.Graph, data: np.ndarray[Any, Any], hint: str) -> ir.Value:
    return Editor(body).const(data, hint)


def _substitute(body: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Let the body and graphs within it read `new` instead of `old`."""
    inside = {id(n) for n in all_nodes(body)}
    for use in list(old.uses()):
        if id(use.node) in inside:
            use.node.replace_input_with(use.idx, new)
    for graph in [body, *subgraphs(body)]:
        for index, value in enumerate(list(graph.outputs)):
            if value is old:
                graph.outputs[index] = _copied(graph, new)


def _copied(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """A copy of `value` behind all nodes: each output of a body is the result of a node."""
    made = ir.Node("", "Identity", [value], num_outputs=1)
    set_type(made.outputs[0], int(dtype_of(value)), shape_of(value))
    made.outputs[0].name = Editor(graph).fresh(str(value.name))
    graph.append(made)
    return made.outputs[0]


# -- simplifying -------------------------------------------------------------------------------


def simplify(node: ir.Node) -> bool:
    """Make known what has become known of an isolated node; whether anything had."""
    changed = _simplify_inputs(node)
    if node.op_type == "Loop":
        changed = _simplify_loop(node) or changed
    return changed


def _simplify_inputs(node: ir.Node) -> bool:
    """Drop operands that no body reads, constants become the bodies' own; whether any was
    dropped.
    """
    graphs = bodies(node)
    loop = Loop(node) if node.op_type == "Loop" else None
    first = 1 if loop is None else 2 + loop.states + loop.scanned
    shift = 1 if loop is None else 2 - int(loop.counts)
    kept = list(node.inputs)
    # From behind, so that the places of those before stay what they are.
    for index in reversed(range(first, len(kept))):
        outer, inner = kept[index], [g.inputs[index - shift] for g in graphs]
        tensor = constant(outer)
        if tensor is not None:
            for body, own in zip(graphs, inner, strict=True):
                if is_used(own):
                    _substitute(body, own, Editor(body).tensor(tensor, str(own.name)))
        if not any(map(is_used, inner)):
            for body in graphs:
                body.inputs.pop(index - shift)
            kept.pop(index)
    if len(kept) == len(node.inputs):
        return False
    for index, value in enumerate(kept):
        node.replace_input_with(index, value)
    node.resize_inputs(len(kept))
    return True


def _simplify_loop(node: ir.Node) -> bool:
    """A known trip count is a bound, a known condition none, an unused count no input.

    What would leave rows of a stack without a step stays as it is: its type has them.
    """
    loop = Loop(node)
    most, changed = loop.most, False
    stacked = [o for o in node.outputs[loop.states :] if o.name]
    trips, start = array(loop.trips), array(loop.start)
    steps = None if trips is None else max(0, int(trips.ravel()[0]))
    # Fewer steps than the bound leave rows of a stack without a value: the type says the bound.
    if steps is not None and (steps >= most or not stacked):
        most = steps if most < 0 else min(most, steps)
        most = -1 if most >= MOST else most
        node.replace_input_with(0, None)
        changed = True
    starts = start is None or bool(start.ravel()[0])
    if start is not None and (starts or most == 0 or not stacked):
        most = most if starts else 0
        node.replace_input_with(1, None)
        changed = True
    # A condition that a body does not change is the one that it began with.
    going = array(loop.body.outputs[0]) if loop.goes else None
    if loop.goes and going is None:
        going = _through(loop.body.outputs[0])
    goes = going is None or bool(going.ravel()[0])
    # A body that says stop in its first step runs at most once.
    if going is not None and (goes or 0 <= most <= 1 or not stacked):
        most = most if goes else (1 if most < 0 else min(most, 1))
        loop.body.outputs.pop(0)
        node.attributes["goes"] = attribute_of("goes", 0)
        changed = True
    if loop.counts and not is_used(loop.body.inputs[0]):
        loop.body.inputs.pop(0)
        node.attributes["counts"] = attribute_of("counts", 0)
        changed = True
    if most != loop.most:
        node.attributes["most"] = attribute_of("most", most)
    return changed


def _through(value: ir.Value) -> Any:
    """The elements of a constant that Identities hand on, else None."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and not node.domain:
        source = operand(node, 0)
        value, node = source, source.producer()
    return array(value)


def type_results(node: ir.Node) -> None:
    """Type the results of an isolated node (a copy's have no type yet) from its typed bodies."""
    if node.op_type == "If":
        for value, inner in zip(node.outputs, bodies(node)[0].outputs, strict=True):
            _type(value, inner, ())
        return
    loop = Loop(node)
    for index, (value, inner) in enumerate(zip(node.outputs, loop.results(), strict=True)):
        _type(value, inner, () if index < loop.states else (loop.most,))


def _type(value: ir.Value, inner: ir.Value, rows: tuple[int, ...]) -> None:
    """Give `value` the type of `inner`, with `rows` in front of its shape, unless it has one."""
    if value.name and not is_typed(value) and is_typed(inner):
        set_type(value, int(dtype_of(inner)), (*rows, *shape_of(inner)))


def isolated_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """The control flow of a graph, that within bodies not."""
    return (n for n in graph if is_isolated(n))
