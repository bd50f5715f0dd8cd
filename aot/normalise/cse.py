# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions and equal constants.

Before: a = Relu(x); b = Relu(x); y = Add(a, b)      After: a = Relu(x); y = Add(a, a)
Before: a = Cast(Reshape(x, s)); b = Cast(Reshape(x, t))
After: a = Cast(Reshape(x, s)); b = Reshape(a, t)
"""

from __future__ import annotations

from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import shape_of
from aot.ir.node_traits import is_view
from aot.ir.operators import Random, element_places, trait_of
from aot.load.marks import KEPT_KEY, MARKS
from aot.load.options import LoadOptions
from aot.shapes.limits import SMALL_ELEMENTS


def cse(edit: Editor, options: LoadOptions) -> None:
    """Let equal constants and equal nodes be one."""
    _constants(edit)
    seen: dict[tuple[Any, ...], ir.Node] = {}
    for node in edit.graph:
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is not node and _can_merge(first, node):
            for old, new in zip(node.outputs, first.outputs, strict=True):
                edit.replace(old, _shaped(edit, new, old, node))
            kept = [n.metadata_props.get(KEPT_KEY, "") for n in (first, node)]
            if kept[1]:
                first.metadata_props[KEPT_KEY] = "\n".join(filter(None, kept))
            edit.remove(node)


def _shaped(edit: Editor, new: ir.Value, old: ir.Value, node: ir.Node) -> ir.Value:
    """`new`, in the shape of `old`, a result of `node`: it has the same elements in their order."""
    if new.shape is None or old.shape is None or shape_of(new) == shape_of(old):
        return new
    shape = shape_of(old)
    target = edit.ints(shape, f"{old.name}_shape")
    return edit.node(
        "Reshape", [new, target], {"allowzero": int(0 in shape)}, before=node, shape=shape
    )


def _source(node: ir.Node, value: ir.Value | None) -> ir.Value | None:
    """The value whose elements an elementwise node of one input reads, in whatever shape."""
    if len(node.inputs) == 1 and element_places(node) == (0,):
        while (view := producer(value)) is not None and is_view(view):
            value = view.inputs[0]
    return value


def _can_merge(first: ir.Node, node: ir.Node) -> bool:
    """Graph outputs stay results of nodes of their own."""
    if any(o.is_graph_output() for o in node.outputs):
        return False
    same = zip(first.outputs, node.outputs, strict=False)
    return len(first.outputs) == len(node.outputs) and all(
        bool(a.name) == bool(b.name) for a, b in same
    )


def _constants(edit: Editor) -> None:
    """Let readers of small constants of equal type, shape and bytes read the first of them."""
    seen: dict[tuple[Any, ...], ir.Value] = {}
    for value in list(edit.graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or tensor.size > SMALL_ELEMENTS or value.is_graph_input():
            continue
        if not value.uses() or value.is_graph_output():
            continue
        key = (int(tensor.dtype), tuple(tensor.shape.numpy()), tensor.tobytes())
        first = seen.setdefault(key, value)
        if first is not value:
            value.replace_all_uses_with(first)


def _key(node: ir.Node) -> tuple[Any, ...] | None:
    """The key that equal nodes share; None for nodes that are never merged."""
    if node.domain or trait_of(node, Random) is not None:
        return None
    inputs = tuple(id(i) if i is not None else 0 for i in (_source(node, v) for v in node.inputs))
    try:
        attributes = tuple(
            (name, _hashable(node.attributes[name].value)) for name in sorted(node.attributes)
        )
    except TypeError:
        return None
    marks = tuple(str(node.metadata_props.get(key, "")) for key in MARKS)
    return node.op_type, len(node.outputs), inputs, attributes, marks


def _hashable(value: Any) -> Any:
    """The value of an attribute as a part of a key, with its type; TypeError for tensors and
    graphs.
    """
    if isinstance(value, (int, float, str, bytes)):
        return type(value).__name__, value
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(v) for v in value)
    raise TypeError
