# SPDX-License-Identifier: Apache-2.0
"""Inputs that are sequences or optionals become tensors.

Before: input s: sequence of float[3]       After: inputs s/0 … s/31: float[3], s/count: int64
        input o: optional of float[3]              inputs o: float[3], o/present: bool

The graph begins with a SequenceConstruct or Optional that makes of them what the nodes read. A
sequence whose elements are given shapes (`--input-shape s/0=…`) or whose count is bound has exactly
these; an optional whose presence is bound has no flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.pins import Pin
from aot.load.options import LoadOptions, Size
from aot.options import MAX_BOUND
from aot.shapes.containers import COUNT, INNER, PRESENT

BOOL, INT64 = 9, 7


@dataclass
class _Opening:
    """State of opening a graph's inputs."""

    options: LoadOptions
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    shapes: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    bindings: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def is_container(info: onnx.ValueInfoProto) -> bool:
    """Whether an input or output is a sequence or an optional."""
    return info.type.WhichOneof("value") in ("sequence_type", "optional_type")


def open_inputs(graph: onnx.GraphProto, options: LoadOptions) -> LoadOptions:
    """Open the inputs of `graph` in place; the options that are meant for what they have become."""
    if not any(is_container(i) for i in graph.input):
        return options
    state = _Opening(options, [], [], dict(options.input_shapes), dict(options.bindings))
    for info in graph.input:
        kind = info.type.WhichOneof("value")
        if kind == "sequence_type":
            _sequence(state, info.name, info.type.sequence_type.elem_type, info.name)
        elif kind == "optional_type":
            _optional(state, graph, info)
        else:
            state.inputs.append(info)
    _check_names(graph, state)
    del graph.input[:]
    graph.input.extend(state.inputs)
    # Readers of a sequence come behind the nodes that join its parts.
    nodes = [*state.nodes, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return replace(options, input_shapes=state.shapes, bindings=state.bindings, counts=state.counts)


def _check_names(graph: onnx.GraphProto, state: _Opening) -> None:
    """What inputs are called now must not be the name of something else."""
    taken = {o for node in graph.node for o in node.output} | {t.name for t in graph.initializer}
    names = [i.name for i in state.inputs]
    for name in [*names, *(o for node in state.nodes for o in node.output)]:
        if name in taken or names.count(name) > 1:
            raise ModelError(f'the name "{name}" is taken, the parts of an input need it')


def _tensor(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """The declaration of an input called `name`, of type `kind`."""
    info = onnx.ValueInfoProto(name=name)
    info.type.CopyFrom(kind)
    return info


def _free_symbols(info: onnx.ValueInfoProto, options: LoadOptions) -> None:
    """Elements need not agree on the sizes that the file calls by one name."""
    for dim in info.type.tensor_type.shape.dim:
        size = options.dims.get(dim.dim_param)
        if isinstance(size, tuple):
            what = f'"{info.name}": the elements of a sequence cannot have a range of sizes'
            add = [Pin("--dim", dim.dim_param, (size[1],), instead=True)]
            raise UnsupportedError(
                f"{what} ({dim.dim_param})", hint="with a size of yours", add=add
            )
        if size is not None:
            dim.dim_value = size
        elif dim.HasField("dim_param"):
            dim.ClearField("dim_param")


def _scalar(name: str, dtype: int) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, dtype, [])


def _sequence(state: _Opening, name: str, element: onnx.TypeProto, result: str) -> None:
    """Open an input that is a sequence, in `state`: an input per element, a count, and nodes that
    join them.

    `result` is the name that readers of the sequence know.
    """
    if element.WhichOneof("value") != "tensor_type":
        what = f'input "{name}" is a sequence of no tensors'
        raise UnsupportedError(what, hint="elements must be dense tensors")
    count, fixed = _count(state, name, element)
    given = state.shapes.pop(name, None)
    for i in range(count):
        part = _tensor(f"{name}/{i}", element)
        # A shape that was given for one element says more than that of the whole sequence.
        if given is not None:
            state.shapes.setdefault(part.name, given)
        # An element with a shape of its own must not tie the names of its axes to those of others.
        if part.name in state.shapes:
            _free_symbols(part, state.options)
        state.inputs.append(part)
    if not fixed:
        state.inputs.append(_scalar(name + COUNT, INT64))
        state.counts[name + COUNT] = count
    parts = [f"{name}/{i}" for i in range(count)]
    if parts:
        state.nodes.append(onnx.helper.make_node("SequenceConstruct", parts, [result]))
    else:
        dtype = element.tensor_type.elem_type
        state.nodes.append(onnx.helper.make_node("SequenceEmpty", [], [result], dtype=dtype))


def _count(state: _Opening, name: str, element: onnx.TypeProto) -> tuple[int, bool]:
    """How many tensors a sequence becomes, and whether it always has that many elements."""
    most = state.options.max_sequence
    bound = state.bindings.pop(name + COUNT, None)
    if bound is not None:
        count = int(np.asarray(bound).ravel()[0])
        if not 0 <= count <= most:
            hint = f"--max-sequence {count} allows it" if 0 < count <= MAX_BOUND else ""
            raise ModelError(f'input "{name}": a sequence of {count} (0 to {most})', hint=hint)
        return count, True
    shaped = list(_shaped(name, state.options))
    if shaped:
        return len(shaped), True
    # Later nothing could bound elements of unknown rank.
    known = element.tensor_type.HasField("shape") or name in state.shapes
    if not known:
        what = f'input "{name}" is a sequence whose elements have no shape'
        add = [Pin("--input-shape", f"{name}/0", (1,)), Pin("--input-shape", f"{name}/1", (1,))]
        raise ModelError(what, hint="with shapes of yours, one for every element", add=add)
    return most, False


def _shaped(name: str, options: LoadOptions) -> Iterator[str]:
    """The elements in a row that the user gives shapes."""
    index = 0
    while f"{name}/{index}" in options.input_shapes:
        yield f"{name}/{index}"
        index += 1


def _optional(state: _Opening, graph: onnx.GraphProto, info: onnx.ValueInfoProto) -> None:
    """Open an input that is an optional, in `state`: its content, and an input that says if it is
    there.
    """
    name, element = info.name, info.type.optional_type.elem_type
    held = element.WhichOneof("value")
    if held not in ("tensor_type", "sequence_type"):
        raise UnsupportedError(f'input "{name}" is an optional of neither tensor nor sequence')
    bound = state.bindings.pop(name + PRESENT, None)
    source = name if held == "tensor_type" else name + INNER + INNER
    result = name + INNER
    _rename(graph, name, result)
    if bound is not None and not np.asarray(bound).any():
        # The input is gone, and a shape for an input that does not exist would be refused.
        state.shapes.pop(name, None)
        state.nodes.append(onnx.helper.make_node("Optional", [], [result], type=element))
        return
    if held == "tensor_type":
        state.inputs.append(_tensor(name, element))
    else:
        _sequence(state, name, element.sequence_type.elem_type, source)
    if bound is None:
        state.inputs.append(_scalar(name + PRESENT, BOOL))
    state.nodes.append(onnx.helper.make_node("Optional", [source], [result]))


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Let every node, and every graph inside that does not define the name itself, read `new`."""
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == old:
                node.input[i] = new
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                if all(v.name != old for v in inner.input):
                    _rename(inner, old, new)
    for output in graph.output:
        if output.name == old:
            output.name = new


__all__ = ["is_container", "open_inputs"]
