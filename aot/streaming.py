# SPDX-License-Identifier: Apache-2.0
"""Which inputs and outputs of a model look like a state that one run hands to the next.

A pair has one shape and type, and something that says it is a state: its names, or the graph (the
input starts a recurrent layer, or is joined with new data from which the output is cut). This is
for proposals only; nothing is compiled by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

#: Words of names that states have.
_WORDS = re.compile(
    r"(^|[^a-z])(state|states|hidden|cell|cache|memory|past|present|carry|context|hn|cn|h0|c0|h|c)"
    r"(n|out|in|[0-9]*)($|[^a-z])"
)
#: What such names lose before they are compared.
_MARKS = re.compile(r"(prev|previous|past|present|new|next|input|output|in|out|n|[0-9]+|[^a-z0-9])")
_MOVES = frozenset(
    "Cast Concat Expand Flatten Gather Identity Pad Reshape Slice Split Squeeze Transpose"
    " Unsqueeze".split()
)
#: Recurrent operators → inputs that are initial states.
_STARTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}


def state_pairs(graph: onnx.GraphProto) -> list[tuple[str, str]]:
    """(input, output), the clearest first; at least one input and one output are left over."""
    from aot.load.pin import user_inputs

    inputs, outputs = user_inputs(graph), graph.output
    scored = sorted(
        (-_evidence(graph, info.name, o.name), i, k)
        for i, info in enumerate(inputs)
        for k, o in enumerate(outputs)
        if info.type == o.type and info.type.HasField("tensor_type")
    )
    found: dict[int, int] = {}
    for score, i, k in scored:
        room = len(found) + 1 < min(len(inputs), len(outputs))
        if score < 0 and room and i not in found and k not in found.values():
            found[i] = k
    return [(inputs[i].name, outputs[k].name) for i, k in sorted(found.items())]


def _evidence(graph: onnx.GraphProto, source: str, result: str) -> int:
    """How much says that `result` is the next `source`."""
    named = sounds_like_state(source) + sounds_like_state(result)
    alike = _MARKS.sub("", source.lower()) == _MARKS.sub("", result.lower())
    return 2 * _recurs(graph, source, result) + named + (1 if alike and named else 0)


def sounds_like_state(name: str) -> bool:
    """Whether the name of an input is one that states have."""
    return bool(_WORDS.search(_spaced(name)))


def _spaced(name: str) -> str:
    """`stateN` as `state_n`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _recurs(graph: onnx.GraphProto, source: str, result: str) -> bool:
    """Whether data movements lead from the input to an initial state, or on to the output."""
    made = {o: n for n in graph.node for o in n.output}
    reached, joined = _reached(graph, source)
    for node in graph.node:
        starts = _STARTS.get(node.op_type, ())
        if any(i < len(node.input) and node.input[i] in reached for i in starts):
            return any(made.get(v) is node for v in _origins(made, result))
    return result in joined


def _reached(graph: onnx.GraphProto, source: str) -> tuple[set[str], set[str]]:
    """Values that data movements make of `source`, and those of them that hold more than it."""
    reached, joined = {source}, set[str]()
    for node in graph.node:  # which are in order
        moved = node.input if node.op_type == "Concat" else node.input[:1]
        if node.op_type in _MOVES and any(i in reached for i in moved):
            reached.update(node.output)
            if node.op_type == "Concat" or any(i in joined for i in moved):
                joined.update(node.output)
    return reached, joined


def _origins(made: Mapping[str, onnx.NodeProto], result: str) -> Iterator[str]:
    """`result` and the values that data movements make it of."""
    waiting, seen = [result], {result}
    while waiting:
        value = waiting.pop()
        yield value
        node = made.get(value)
        if node is not None and node.op_type in _MOVES:
            fresh = [i for i in node.input if i not in seen]
            seen.update(fresh)
            waiting += fresh
