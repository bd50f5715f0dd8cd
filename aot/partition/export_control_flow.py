# SPDX-License-Identifier: Apache-2.0
"""Isolated control flow as ONNX says it again: bodies read what is around them.

Before: y = aot.control.If(c, x, then={x1 -> Add(x1, w)}, else={x2 -> Neg(x2)})
After: y = If(c, then={Add(x, w)}, else={Neg(x)})
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, attribute_of
from aot.ir.graph_nodes import graph_of, set_type
from aot.load.marks import BACKEND_KEY, PATTERN_KEY, REGION_KEY
from aot.partition.result import Partition
from aot.shapes.control_flow_isolated import BOOL, INT64, Loop, bodies, isolated_nodes


def reopen(graph: ir.Graph, partition: Partition) -> None:
    """Rewrite, in place, the isolated control flow of a partitioned graph as ONNX's If, Loop and
    Scan.

    Nodes of bodies get marks that say who computes them. Bodies read values from around them again.
    """
    for body in partition.bodies:
        _mark(body.partition)
        reopen(body.graph, body.partition)
    for node in list(isolated_nodes(graph)):
        if node.op_type == "If":
            _release(node, 1, 0)
        else:
            _reopen_loop(node)
        node.domain = ""


def _mark(partition: Partition) -> None:
    """Mark nodes of a body with their backend, region and pattern, as a user would mark them."""
    for item in partition.items:
        for ref in item.match.nodes:
            props = ref.ir.metadata_props
            props[BACKEND_KEY] = item.backend
            props.pop(REGION_KEY, None)
            if item.region >= 0:
                props[REGION_KEY] = f"{item.backend}_{item.region}"
        if item.region >= 0:
            item.match.root.ir.metadata_props[PATTERN_KEY] = item.pattern.name


def _release(node: ir.Node, outer: int, inner: int) -> None:
    """Let bodies read the node's inputs from `outer` on instead of their own from `inner` on."""
    for body in bodies(node):
        for own, value in zip(list(body.inputs[inner:]), node.inputs[outer:], strict=True):
            assert value is not None
            own.replace_all_uses_with(value)
        while len(body.inputs) > inner:
            body.inputs.pop()
    node.resize_inputs(outer)


def _reopen_loop(node: ir.Node) -> None:
    """Make an isolated loop a Scan, if it walks along inputs, or a Loop as ONNX writes them, in
    place.
    """
    loop = Loop(node)
    body, states = loop.body, loop.states
    kept = states + loop.scanned
    _release(node, 2 + kept, int(loop.counts) + kept)
    held = node.attributes["body"]
    if loop.scanned:
        values = list(node.inputs[2:])
        for index, value in enumerate(values):
            node.replace_input_with(index, value)
        node.resize_inputs(len(values))
        node.op_type = "Scan"
        back, n = loop.backward, loop.scanned
        node.attributes.clear()
        node.attributes["body"] = held
        node.attributes["num_scan_inputs"] = attribute_of("num_scan_inputs", n)
        for name, found in (
            ("scan_input_directions", back[:n]),
            ("scan_output_directions", back[n:]),
        ):
            if any(found):
                node.attributes[name] = attribute_of(name, found)
        return
    # ONNX's body takes the number of the trip and the condition first.
    if not loop.counts:
        body.inputs.insert(0, _value(body, "count", INT64))
    going = _value(body, "going", BOOL)
    body.inputs.insert(1, going)
    if not loop.goes:
        # A loop of one trip whose condition is not kept ends after it.
        end = Editor(body).const(np.array(False), "stop") if loop.most == 1 else going
        body.outputs.insert(0, _copy(body, end))
    if loop.trips is None and loop.most >= 0:
        node.replace_input_with(
            0, Editor(graph_of(node)).const(np.array(loop.most, np.int64), "trips")
        )
    node.attributes.clear()
    node.attributes["body"] = held


def _value(body: ir.Graph, hint: str, kind: int) -> ir.Value:
    """A new scalar of ONNX's element type `kind` for `body`; `hint` ends its name."""
    value = ir.Value(name=Editor(body).fresh(f"{body.outputs[-1].name}_{hint}"))
    set_type(value, kind, ())
    return value


def _copy(body: ir.Graph, value: ir.Value) -> ir.Value:
    """Append an Identity of a boolean scalar to `body`, computed by portable C; its result.

    A Loop's body must put out its condition; this gives the condition a node of its own.
    """
    made = ir.Node("", "Identity", [value], name=f"{value.name}_on", num_outputs=1)
    made.outputs[0].name = Editor(body).fresh(f"{value.name}_on")
    set_type(made.outputs[0], BOOL, ())
    made.metadata_props[BACKEND_KEY] = "c"
    body.append(made)
    return made.outputs[0]
