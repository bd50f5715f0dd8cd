# SPDX-License-Identifier: Apache-2.0
"""Strings become rows of bytes: after inference, before anything else looks at the graph.

Before: y = StringConcat(a, b)       a, b, y: string[3]
After: y = aot.text.Join(a, b)       a, b, y: uint8[3, 64], UTF-8 with zeros behind
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aot.errors import AotError, UnsupportedError, raise_all
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, graphs
from aot.ir.graph_nodes import (
    TEXT,
    TEXTS,
    attribute,
    graph_of,
    maker_of,
    original_name,
    set_type,
    shape_of,
    title,
)
from aot.ir.node_traits import is_view
from aot.ir.operators import Interface
from aot.ir.string_rows import encode
from aot.shapes.dynamic.dims import INT64, RUN_TIME_SHAPES
from aot.shapes.dynamic.rules import needed

UINT8 = 2


def open_strings(model: ir.Model, width: int) -> None:
    """Rewrite every value of strings as uint8 with a last axis of `width`, in place.

    Raises UnsupportedError for operators that cannot be met on bytes.
    """
    if not any(_is_text(v) for g in graphs(model) for v in _values(g)):
        return
    model.opset_imports.setdefault(TEXT, 1)
    ends = [v for v in (*model.graph.inputs, *model.graph.outputs) if _is_text(v)]
    model.graph.meta[TEXTS] = tuple(original_name(v) for v in ends)
    work = Strings(width)
    every = list(graphs(model))
    # Readers go first: a node finds strings where it reads, and what it writes is read as bytes.
    for graph in reversed(every):
        for node in reversed(list(graph)):
            values = [v for v in [*node.inputs, *node.outputs] if v is not None]
            if any(_is_text(v) for v in values):
                try:
                    work.rewrite(node)
                except AotError as error:
                    work.errors.append(error)
    raise_all(reversed(work.errors))
    work.shapes(model.graph)
    for graph in every:
        for value in _values(graph):
            if _is_text(value):
                work.open(graph, value)


def _values(graph: ir.Graph) -> list[ir.Value]:
    """All values of a graph, each once."""
    found = [*graph.inputs, *graph.initializers.values()]
    found += [o for node in graph for o in node.outputs]
    return list(dict.fromkeys(found))


def _is_text(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.name == "STRING"


#: Rewrites a node of strings as nodes of rows of bytes: rules of `aot/ops`. A view needs none.
#: A rule raises UnsupportedError where bytes cannot do it, ModelError for a node that is wrong.
encodes: Interface[Callable[[Strings, ir.Node], None]] = Interface("encodes")


class Strings:
    """Rewrites nodes while their values still say that they are strings.

    `width` is the number of bytes of a string.
    """

    def __init__(self, width: int) -> None:
        """Strings have at most `width` bytes; `errors` collects nodes that no rule spells."""
        self.width = width
        self.errors: list[AotError] = []

    def rewrite(self, node: ir.Node) -> None:
        """Let the node compute on bytes. Raises UnsupportedError if it cannot."""
        rule = encodes.of(node) or (as_reshape if is_view(node) else None)
        if rule is None:
            what = f"{title(node)}: the operator is not supported on strings"
            raise UnsupportedError(what)
        rule(self, node)

    def open(self, graph: ir.Graph, value: ir.Value) -> None:
        """Give one value its bytes."""
        shape = shape_of(value)
        if value.const_value is not None and not value.is_graph_input():
            data = self.encoded(value.const_value.numpy(), f'"{original_name(value)}"')
            value.const_value = ir.Tensor(data)
        set_type(value, UINT8, (*shape, self.width))

    def encoded(self, texts: Any, where: str) -> np.ndarray[Any, Any]:
        """Bytes of constants. UnsupportedError for one that is too long."""
        try:
            return encode(texts, self.width)
        except ValueError as error:
            what = f"{where}: {error} (--max-string {self.width})"
            raise UnsupportedError(what, hint="a larger --max-string allows it") from None

    def shapes(self, graph: ir.Graph) -> None:
        """Let the true shapes of outputs of strings end in the number of their bytes."""
        known = graph.meta.get(RUN_TIME_SHAPES, ())
        first = len(graph.outputs) - len(known)
        for at, (index, _) in enumerate(known):
            if index >= 0 and _is_text(graph.outputs[index]):
                value = graph.outputs[first + at]
                edit = Editor(graph)
                end = _last(graph, value)
                graph.outputs[first + at] = self.longer(edit, end, value)
                graph.remove(end, safe=True)

    def longer(self, edit: Editor, node: ir.Node, shape: ir.Value) -> ir.Value:
        """A shape with the bytes of a string behind."""
        count = shape_of(shape)[0] + 1
        parts = [shape, edit.ints([self.width], "bytes")]
        return self.make(node, "Concat", parts, INT64, (count,), {"axis": 0})

    def make(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value],
        dtype: int,
        shape: Sequence[int],
        attributes: dict[str, Any] | None = None,
        domain: str = "",
    ) -> ir.Value:
        """The output of a new node in front of `node`; of strings, `shape` has their bytes."""
        kind = ir.DataType(dtype)
        made = self.editor(node).node(
            op_type, inputs, attributes, before=node, shape=shape, dtype=kind
        )
        producer = maker_of(made)
        producer.domain = domain
        return made

    def replace(self, node: ir.Node, value: ir.Value) -> None:
        """The first output of the node is `value` from now on, and the node goes."""
        edit = self.editor(node)
        edit.replace(node.outputs[0], value)
        edit.graph.remove(node, safe=True)

    def editor(self, node: ir.Node) -> Editor:
        """The editor of the node's graph."""
        return Editor(graph_of(node))

    def ints(self, node: ir.Node, values: Sequence[int]) -> ir.Value:
        """A constant of int64 in the node's graph."""
        return self.editor(node).ints(values, "ints")


def _last(graph: ir.Graph, value: ir.Value) -> ir.Node:
    """A last node, in front of which others can be put."""
    made = ir.Node("", "Identity", [value], num_outputs=1)
    made.outputs[0].name = f"{value.name}_end"
    graph.append(made)
    return made


def as_reshape(s: Strings, node: ir.Node) -> None:
    """Reshape and its kin: the shape of the result is known."""
    shape = (*shape_of(node.outputs[0]), s.width)
    new = s.make(node, "Reshape", [needed(node, 0), s.ints(node, shape)], UINT8, shape)
    s.replace(node, new)


def axis_from_front(s: Strings, node: ir.Node) -> None:
    """The axis of the node is counted from the front: the bytes are a further one at the end."""
    rank = len(shape_of(needed(node, 0)))
    s.editor(node).set_attribute(node, "axis", int(attribute(node, "axis", 0)) % max(rank, 1))


def unchanged(s: Strings, node: ir.Node) -> None:
    """The node does with rows of bytes what it does with strings."""
