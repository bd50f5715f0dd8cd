# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan with bodies that take values from outside."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz.draft import Draft, Reject, initialiser, typed
from fuzz.families import family


def chain(d: Draft, x: str, others: list[str], depth: int = 2) -> tuple[list, str, np.ndarray]:
    """Nodes from `x`, operands by chance among `others` (of its shape); the last name and value."""
    nodes, value = [], d.values[x]
    inner = Draft(d.rng, d.opset, d.float_)
    inner.count = d.count + 100
    inner.values = {n: d.values[n] for n in [x, *others]}
    y = x
    for _ in range(d.upto(1, depth)):
        if d.chance(0.4) and others:
            y = inner.add(d.word("Add Mul Sub Max"), [y, d.one(*others)])[0]
        elif d.chance(0.3):
            bias = inner.add("Constant", [], value=initialiser("", d.array(value.shape)))[0]
            y = inner.add("Add", [y, bias])[0]
        else:
            y = inner.add(d.word("Relu Sigmoid Tanh Neg Identity Abs"), [y])[0]
    nodes = list(inner.nodes)
    d.count = inner.count
    return nodes, y, inner.values[y]


def body(name: str, nodes: list, inputs: list, outputs: list) -> onnx.GraphProto:
    """A graph of nodes."""
    return helper.make_graph(nodes, name, inputs, outputs)


def floats_of_size(d: Draft) -> str:
    """A float value to work on."""
    return d.pick(lambda a: a.dtype == d.dtype and 0 < a.size < 3000)


@family(1)
def if_(d: Draft) -> None:
    x = floats_of_size(d)
    other = d.like(x)
    kind = d.rng.random()
    if kind < 0.3:
        condition = d.const(np.array(d.chance(0.5)))
    elif kind < 0.6:
        condition = d.feed(np.array(d.chance(0.5)))
    else:
        total = d.add("ReduceSum", [x], keepdims=0)[0]
        condition = d.add("Greater", [total, d.const(np.array(0).astype(d.dtype))])[0]
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes, y, value = chain(d, x, [other])
        branches[name] = body(name, nodes, [], [typed(y, value)])
    d.adopt(helper.make_node("If", [condition], [d.name("v")], **branches))


@family(1)
def loop(d: Draft) -> None:
    x = floats_of_size(d)
    other = d.like(x)
    state, step, keep = (d.name("b") for _ in range(3))
    d.values[state] = d.values[x]
    try:
        nodes, y, value = chain(d, state, [other], 1)
    finally:
        del d.values[state]
    if y == state or value.shape != d.shape(x):
        raise Reject
    on = d.name("b")
    nodes.append(helper.make_node("Identity", [keep], [on]))
    outputs = [helper.make_tensor_value_info(on, TensorProto.BOOL, []), typed(y, value)]
    ends = 1
    if d.chance(0.5):
        scanned = d.name("b")
        nodes.append(helper.make_node("Neg", [y], [scanned]))
        outputs.append(typed(scanned, value))
        ends = 2
    inputs = [
        helper.make_tensor_value_info(step, TensorProto.INT64, []),
        helper.make_tensor_value_info(keep, TensorProto.BOOL, []),
        typed(state, d.values[x]),
    ]
    node = helper.make_node(
        "Loop",
        [d.const(np.array(d.upto(1, 4), np.int64)), d.const(np.array(True)), x],
        [d.name("v") for _ in range(ends)],
        body=body("body", nodes, inputs, outputs),
    )
    d.adopt(node)


@family(1)
def scan(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 2 and 0 < a.size < 2000)
    rows = d.shape(x)
    if rows[0] > 12:
        raise Reject
    state, row = d.name("b"), d.name("b")
    start = d.operand(rows[1:])
    total, out = d.name("b"), d.name("b")
    nodes = [
        helper.make_node(d.word("Add Max Sub"), [state, row], [total]),
        helper.make_node(d.word("Tanh Sigmoid Neg"), [total], [out]),
    ]
    sample = d.values[start]
    graph = body(
        "body",
        nodes,
        [typed(state, sample), typed(row, sample)],
        [typed(total, sample), typed(out, sample)],
    )
    attrs = {"scan_input_directions": [d.upto(0, 1)], "scan_output_directions": [d.upto(0, 1)]}
    ends = [d.name("v"), d.name("v")]
    d.adopt(helper.make_node("Scan", [start, x], ends, body=graph, num_scan_inputs=1, **attrs))
