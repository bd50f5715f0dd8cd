# SPDX-License-Identifier: Apache-2.0
"""Float models in the one form that onnxruntime's quantiser turns into models that mean the same.

The quantiser addresses nodes by name and makes names by suffixes; it merges a Relu or Clip into
what it reads by the ranges alone; it scales a bias by one product's scales, once per name. So here
every name becomes unique (and is given back afterwards), what it would merge wrongly is excluded or
kept apart, and every product has constants and a bias of its own in the form that it handles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, Literal

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import Array
from aot.ir.node_traits import proto_operands, proto_trait
from aot.ir.operators import Along, Linear, Moves
from aot.ir.value_traits import Clamp, Scales
from aot.load.check import all_graphs, subgraphs

_TOKEN = re.compile(r"aotc\.([0-9]+)\.")


@dataclass
class Prepared:
    """The model, its nodes that stay float, and what its names were."""

    model: onnx.ModelProto
    excluded: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    """Name n of the given model is now `aotc.n.`."""

    def new(self, name: str) -> str:
        """What an input of the given model is called now."""
        return _token(self.old.index(name))


def prepare(model: onnx.ModelProto, spelling: Literal["qdq", "qoperator"]) -> Prepared:
    """`model` (float, constants folded) changed in place for the quantiser and one spelling.

    Values get names that cannot meet names of added ones; nodes that must stay float are listed.
    """
    prepared = Prepared(model)
    _unique_names(prepared)
    graph = _Graph(model.graph)
    for node in list(model.graph.node):
        while node.input and not node.input[-1]:
            del node.input[-1]
        if node.op_type == "Gemm":
            _plain_gemm(graph, node)
    _own_constants(graph)
    _keep_taps(graph)
    prepared.excluded = [n.name for n in model.graph.node if _stays_float(graph, n, spelling)]
    return prepared


def restore(prepared: Prepared, made: onnx.ModelProto) -> None:
    """Give the quantised model, in place, the names of values that `prepared` took away.

    A value or node that the quantiser added gets the name of the value that it was made for, with
    the quantiser's ending, made unique.
    """
    graph = made.graph
    # The quantiser adds nodes at the end, but ONNX wants makers before readers.
    _sort(graph)
    ends = [*graph.input, *graph.output]
    names = {v.name: prepared.old[_number(v.name)] for v in ends}
    taken = set(names.values())

    def renamed(name: str) -> str:
        """The user's name of a value; a free one made of it for a value that the quantiser
        added.
        """
        if name and name not in names:
            wanted = _TOKEN.sub(lambda m: prepared.old[int(m[1])], name)
            names[name] = _free(wanted, taken)
        return names.get(name, "")

    _rename(graph, renamed)
    labels: set[str] = set()
    for node in graph.node:
        wanted = _TOKEN.sub(lambda m: prepared.old[int(m[1])], node.name)
        node.name = _free(wanted or node.op_type, labels)


def unique_labels(graph: onnx.GraphProto) -> None:
    """A name of its own for every node of `graph` and its bodies, which onnxruntime asks for."""
    taken: set[str] = set()
    for node in _all_nodes(graph):
        node.name = _free(node.name or node.op_type, taken)


def _sort(graph: onnx.GraphProto) -> None:
    """Every node behind those whose results it or its bodies read, which the quantiser misses."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [
        {makers[name] for name in (*node.input, *_captured(node)) if name in makers}
        for node in graph.node
    ]
    order = tuple(TopologicalSorter(dict(enumerate(needs))).static_order())
    nodes = [graph.node[i] for i in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _captured(node: onnx.NodeProto) -> set[str]:
    """The names that the bodies of a node read; more than those are its graph's is no harm."""
    found: set[str] = set()
    for body in subgraphs(node):
        found.update(n for inner in _all_nodes(body) for n in inner.input if n)
        found.update(v.name for v in body.output)
    return found


def _free(name: str, taken: set[str]) -> str:
    """`name`, with the first number from 2 on that makes it free if it is taken; adds it."""
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


def _token(number: int) -> str:
    return f"aotc.{number}."


def _number(token: str) -> int:
    """The number in a name that `_token` made."""
    found = _TOKEN.fullmatch(token)
    assert found is not None, token
    return int(found[1])


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    return (node for inner in all_graphs(graph) for node in inner.node)


def _rename(graph: onnx.GraphProto, renamed: Callable[[str], str]) -> None:
    """Rename every value of `graph`, in the bodies those that they capture."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = renamed(value.name)
    for constant in graph.initializer:
        constant.name = renamed(constant.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed(sparse.values.name)
    for node in graph.node:
        node.input[:] = [renamed(n) for n in node.input]
        node.output[:] = [renamed(n) for n in node.output]
        for body in subgraphs(node):
            _rename_captured(body, renamed, set())


def _rename_captured(body: onnx.GraphProto, renamed: Callable[[str], str], outer: set[str]) -> None:
    """Rename, in a body, the values that it reads from around it; `outer` are names it must
    leave.
    """
    own = outer | {v.name for v in body.input} | {i.name for i in body.initializer}
    own |= {i.values.name for i in body.sparse_initializer}
    own |= {name for node in body.node for name in node.output}
    for node in body.node:
        node.input[:] = [n if n in own else renamed(n) for n in node.input]
        for inner in subgraphs(node):
            _rename_captured(inner, renamed, own)
    for value in body.output:
        value.name = value.name if value.name in own else renamed(value.name)


def _unique_names(prepared: Prepared) -> None:
    """Values become `aotc.0.`, `aotc.1.` …: what is added to them meets no other name."""
    numbers: dict[str, str] = {}

    def renamed(name: str) -> str:
        """The new name of a value, a new one at its first mention; "" stays."""
        if name and name not in numbers:
            numbers[name] = _token(len(prepared.old))
            prepared.old.append(name)
        return numbers.get(name, "")

    graph = prepared.model.graph
    _rename(graph, renamed)
    for node in graph.node:
        label = _token(len(prepared.old))
        prepared.old.append(node.name)
        node.name = label


class _Graph:
    """The graph with who reads what; new names are those of a value with something added."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Wrap a graph with its constants, its outputs and all names in use."""
        self.proto = graph
        self.constants = {i.name: i for i in graph.initializer}
        self.outputs = {o.name for o in graph.output}
        self.names = {*self.constants, *(i.name for i in graph.input)}
        self.names |= {name for n in graph.node for name in n.output}

    def readers(self) -> Counter[str]:
        """By value name, the number of reads of the value in the graph.

        A node counts once for each of its inputs that is the value, and once if its bodies mention
        the name, however often; the graph counts once if the value is one of its outputs. Names
        that only bodies define appear, too.
        """
        count = Counter(self.outputs)
        for node in self.proto.node:
            count.update(name for name in node.input if name)
            count.update(_captured(node))
        return count

    def array(self, name: str) -> Array | None:
        """The numbers of a constant."""
        found = self.constants.get(name)
        return None if found is None else np.asarray(onnx.numpy_helper.to_array(found))

    def constant(self, data: Array, like: str) -> str:
        """The name of a new constant."""
        made = onnx.numpy_helper.from_array(data, _free(f"{like}own", self.names))
        self.constants[made.name] = made
        self.proto.initializer.append(made)
        return str(made.name)

    def insert(self, after: onnx.NodeProto, *nodes: onnx.NodeProto) -> None:
        """Put `nodes` behind a node."""
        place = next(i for i, n in enumerate(self.proto.node) if n is after or n == after)
        for offset, node in enumerate(nodes):
            self.proto.node.insert(place + 1 + offset, node)


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute, or `default`."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)


def _plain_gemm(graph: _Graph, node: onnx.NodeProto) -> None:
    """Put alpha, beta and a bias that is repeated into constants [N] where there are such.

    What is no plain Gemm afterwards (`_is_plain`) stays float.
    """
    factor, share = (np.float32(_attribute(node, n, 1.0)) for n in ("alpha", "beta"))
    weights = graph.array(node.input[1])
    # With beta 0 the bias does not count, whatever it holds.
    if share == 0:
        del node.input[2:]
    bias = graph.array(node.input[2]) if len(node.input) == 3 else None
    repeats = bias is None or bias.size != (bias.shape or (1,))[-1]
    if weights is None or (len(node.input) == 3 and repeats):
        return
    if factor != 1:
        node.input[1] = graph.constant((weights * factor).astype(weights.dtype), node.input[1])
    if bias is not None:
        columns = weights.shape[0 if _attribute(node, "transB", 0) else 1]
        row = np.broadcast_to((bias * share).astype(bias.dtype).reshape(-1), (columns,))
        node.input[2] = graph.constant(np.ascontiguousarray(row), node.input[2])
    kept = [a for a in node.attribute if a.name not in ("alpha", "beta")]
    del node.attribute[:]
    node.attribute.extend(kept)


def _is_plain(graph: _Graph, node: onnx.NodeProto) -> bool:
    """Whether a Gemm has no factors, and no bias but of a product with constants."""
    if any(_attribute(node, name, 1.0) != 1 for name in ("alpha", "beta")):
        return False
    bias = graph.array(node.input[2]) if len(node.input) == 3 else None
    constant = bias is not None and bias.ndim == 1 and node.input[1] in graph.constants
    return len(node.input) < 3 or constant


def _own_constants(graph: _Graph) -> None:
    """Biases, scalings and pad values that others read too become copies; so do weights that other
    operators read, whose scales are along another axis."""
    roles: dict[str, set[tuple[Any, ...]]] = {}
    for node in graph.proto.node:
        for place, name in enumerate(node.input):
            if name in graph.constants:
                roles.setdefault(name, set()).add(_role(node, place))
    readers = graph.readers()
    for node in graph.proto.node:
        for place, name in enumerate(node.input):
            if name not in graph.constants or readers[name] < 2:
                continue
            if name in _own(node) or (name in _weights(node) and len(roles[name]) > 1):
                data = graph.array(name)
                assert data is not None
                node.input[place] = graph.constant(data, name)
                readers[name] -= 1


def _role(node: onnx.NodeProto, place: int) -> tuple[Any, ...]:
    """What is the same for two operands with scales along one axis."""
    return node.op_type, place, _attribute(node, "transB", 0)


def _own(node: onnx.NodeProto) -> list[str]:
    """The operands that the quantiser scales for this node alone: biases, scalings, pad values."""
    product, scales = proto_trait(node, Linear), proto_trait(node, Scales)
    moves = proto_trait(node, Moves)
    names = [product.bias] if product is not None else []
    names += [scales.scale, scales.shift] if scales is not None else []
    names += [moves.fills] if moves is not None else []
    return [value for name in names if name for value in proto_operands(node, name)]


def _weights(node: onnx.NodeProto) -> list[str]:
    """The weights of a product."""
    product = proto_trait(node, Linear)
    return [] if product is None else proto_operands(node, product.weights)


def _keep_taps(graph: _Graph) -> None:
    """Bodies read what an Identity gives; so does the caller what a Relu or Clip reads too."""
    captured = {name for node in graph.proto.node for name in _captured(node)}
    merged = {n.input[0] for n in graph.proto.node if proto_trait(n, Clamp) is not None}
    kept = captured | (merged & graph.outputs)
    for source in list(graph.proto.node):
        for place, name in enumerate(source.output):
            if name not in kept:
                continue
            inner = _free(f"{name}tap", graph.names)
            source.output[place] = inner
            for reader in graph.proto.node:
                reader.input[:] = [inner if n == name else n for n in reader.input]
            graph.insert(source, onnx.helper.make_node("Identity", [inner], [name], f"{name}tap"))


def _stays_float(graph: _Graph, node: onnx.NodeProto, spelling: str) -> bool:
    """Whether the quantiser would make of a node what no runtime computes, so that it must stay
    float.
    """
    operators = spelling == "qoperator"
    clamp, product = proto_trait(node, Clamp), proto_trait(node, Linear)
    if clamp is not None:
        name = node.input[0]
        merges = any(name in n.output and _has_own_range(n) for n in graph.proto.node)
        kept = operators and (graph.readers()[name] > 1 or not merges)
        return kept or not _ends_at_quantised(graph, node, clamp)
    if product is not None:
        return _is_float_product(graph, node, product, operators)
    moves = proto_trait(node, Moves)
    return moves is not None and operators and not _moves_quantised(graph, node, moves)


def _has_own_range(node: onnx.NodeProto) -> bool:
    """Whether quantised values have a range of the node's own, so that a clamp behind it may be
    that range.

    The quantiser gives moved and clamped elements the range that they had, and lines of one sum a
    fixed range.
    """
    return all(proto_trait(node, kind) is None for kind in (Moves, Clamp, Along))


def _moves_quantised(graph: _Graph, node: onnx.NodeProto, moves: Moves) -> bool:
    """Whether quantised values move as numbers do: nothing but zeros comes in, and no number is
    computed."""
    values = [graph.array(v) for v in proto_operands(node, moves.fills)] if moves.fills else []
    fills = any(v is None or bool(np.any(v)) for v in values)
    return not fills and (moves.when is None or moves.when(ir.from_proto(node)))


def _is_float_product(
    graph: _Graph, node: onnx.NodeProto, product: Linear, operators: bool
) -> bool:
    """Whether the quantiser takes another product than this one."""
    if product.groups:
        return any(n not in graph.constants for n in node.input[1:])
    if product.bias:
        return not _is_plain(graph, node)
    weights = graph.array(node.input[1])
    return operators and weights is not None and weights.ndim != 2


def _ends_at_quantised(graph: _Graph, node: onnx.NodeProto, clamp: Clamp) -> bool:
    """Whether quantised values that saturate do what the node does: its bounds are known, zero is
    between."""
    low = _bound(graph, node, clamp.low, -np.inf)
    high = _bound(graph, node, clamp.high, np.inf)
    return low is not None and high is not None and low <= 0 <= high and low < high


def _bound(graph: _Graph, node: onnx.NodeProto, bound: float | str, none: float) -> float | None:
    """A bound of a clamp, `none` where there is no such operand; None if a run says it."""
    given = proto_operands(node, bound) if isinstance(bound, str) else []
    if not given:
        return none if isinstance(bound, str) else bound
    data = graph.array(given[0])
    return None if data is None else float(data.item())
