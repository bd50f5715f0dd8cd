# SPDX-License-Identifier: Apache-2.0
"""Which inputs and outputs of a model look like a state that one run hands to the next.

A pair has one shape and type, and something that says it is a state: its names, or the graph (the
input starts a recurrent layer, or is joined with new data from which the output is cut). This is
for proposals only; nothing is compiled by it.
"""

from __future__ import annotations

import re

from aot.ir.deferred_import import onnx
from aot.ir.node_traits import moved_operands, proto_operands, proto_trait
from aot.ir.value_traits import Recurrent
from aot.load.inputs import user_inputs

#: Words of names that states have.
_WORDS = re.compile(
    r"(^|[^a-z])(state|states|hidden|cell|cache|memory|past|present|carry|context|hn|cn|h0|c0|h|c)"
    r"(n|out|in|[0-9]*)($|[^a-z])"
)
#: What such names lose before they are compared.
_MARKS = re.compile(r"(prev|previous|past|present|new|next|input|output|in|out|n|[0-9]+|[^a-z0-9])")


def state_pairs(graph: onnx.GraphProto) -> list[tuple[str, str]]:
    """(input, output) that look like a state and its next value, the clearest first.

    Evidence is a recurrence in the graph, then like names; an input and an output are left over.
    """

    inputs, outputs = user_inputs(graph), graph.output
    scored: list[tuple[int, int, int]] = []
    for i, info in enumerate(inputs):
        if info.type.HasField("tensor_type"):
            alike = [(k, o.name) for k, o in enumerate(outputs) if info.type == o.type]
            recurring = _recurring(graph, info.name) if alike else set[str]()
            for k, name in alike:
                evidence = 2 * (name in recurring) + _named(info.name, name)
                scored.append((-evidence, i, k))
    found: dict[int, int] = {}
    for score, i, k in sorted(scored):
        # An input and an output are left: a network of nothing but states would compute nothing.
        room = len(found) + 1 < min(len(inputs), len(outputs))
        if score < 0 and room and i not in found and k not in found.values():
            found[i] = k
    return [(inputs[i].name, outputs[k].name) for i, k in sorted(found.items())]


def _named(source: str, result: str) -> int:
    """How much the names say that `result` is the next `source`, from 0 to 3."""
    named = sounds_like_state(source) + sounds_like_state(result)
    alike = _MARKS.sub("", source.lower()) == _MARKS.sub("", result.lower())
    return named + (1 if alike and named else 0)


def sounds_like_state(name: str) -> bool:
    """Whether the name of an input is one that states have."""
    # A name in camel case gets underscores: "stateN" becomes "state_n".
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return bool(_WORDS.search(spaced))


def _recurring(graph: onnx.GraphProto, source: str) -> set[str]:
    """The values that may be the next `source`.

    Where data movements lead from `source` to the initial state of a recurrent layer, they are
    moved from the outputs of that layer; elsewhere they are joined from `source` and new data.
    """
    reached, joined = _reached(graph, source)
    for node in graph.node:
        layer = proto_trait(node, Recurrent)
        if layer is not None and not reached.isdisjoint(proto_operands(node, layer.states)):
            return _moved(graph, node)
    return joined


def _reached(graph: onnx.GraphProto, source: str) -> tuple[set[str], set[str]]:
    """Values that data movements make of `source`, and those of them that hold more than it."""
    reached, joined = {source}, set[str]()
    for node in graph.node:  # which are in order
        moved = moved_operands(node)
        if not reached.isdisjoint(moved):
            reached.update(node.output)
            if len(moved) > 1 or not joined.isdisjoint(moved):
                joined.update(node.output)
    return reached, joined


def _moved(graph: onnx.GraphProto, layer: onnx.NodeProto) -> set[str]:
    """The outputs of `layer`, and every value that data movements make of them."""
    found = set(layer.output) - {""}
    for node in graph.node:  # which are in order
        if not found.isdisjoint(moved_operands(node)):
            found.update(node.output)
    return found
