# SPDX-License-Identifier: Apache-2.0
"""Editing an onnx_ir graph so that it stays typed, named and topologically sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import (
    CHANNELS_KEY,
    NAME_KEY,
    OFFSET_KEY,
    graph_of,
    maker_of,
    set_type,
    shape_of,
    subgraphs,
)

Shape = Sequence[int]
FRESH = " "
"""In names this module makes up, until `name_everything` runs."""
WIDE = 64
"""Inputs beyond which a node is taken apart by hand."""


def graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The main graph and every subgraph."""
    yield model.graph
    yield from subgraphs(model.graph)


def is_used(value: ir.Value) -> bool:
    """Whether anyone reads the value."""
    return bool(value.uses()) or value.is_graph_output()


def single_use(value: ir.Value) -> ir.Node | None:
    """The only node that reads the value, once, and nothing else does; else None."""
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    return uses[0].node


def producer(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node of a standard operator in `op_types` that computes `value`, else None."""
    node = None if value is None else value.producer()
    if node is None or node.domain or (op_types and node.op_type not in op_types):
        return None
    return node


class Editor:
    """Adds and replaces nodes of one graph. `changed` says whether anything was done."""

    def __init__(self, graph: ir.Graph) -> None:
        """Edit `graph`; `changed` becomes true with the first change."""
        self.graph = graph
        self.changed = False

    def const(self, data: Any, hint: str, dtype: ir.DataType | None = None) -> ir.Value:
        """A new constant; `dtype` only for element types NumPy has no name for."""
        array = np.asarray(data)
        tensor = ir.Tensor(array) if dtype is None else ir.Tensor(array, dtype=dtype)
        return self.tensor(tensor, hint)

    def tensor(self, tensor: ir.TensorProtocol, hint: str) -> ir.Value:
        """A new constant of the graph that holds `tensor`, named after `hint`."""
        value = ir.Value(
            name=self.fresh(hint),
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self.graph.register_initializer(value)
        return value

    def ints(self, values: Sequence[int], hint: str) -> ir.Value:
        """A new int64 vector."""
        return self.const(np.array(list(values), dtype=np.int64), hint)

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
        *,
        before: ir.Node,
        shape: Shape,
        dtype: ir.DataType | None = None,
        hint: str = "",
        domain: str = "",
    ) -> ir.Value:
        """The output, of `shape`, of a new node in front of `before`.

        Its element type is `dtype`, or that of the first input. The node takes over the marks of
        `before` (backend, region), as it computes a part of it.
        """
        first = next(i for i in inputs if i is not None)
        made = ir.Node(
            domain,
            op_type,
            list(inputs),
            [attribute_of(k, v) for k, v in (attributes or {}).items()],
            name=f"{before.name}_{op_type}" if before.name else None,
            num_outputs=1,
        )
        made.metadata_props.update(before.metadata_props)
        value = made.outputs[0]
        kind = dtype if dtype is not None else first.dtype
        assert kind is not None
        set_type(value, int(kind), tuple(shape))
        # C names are made of it, so no other value may have it.
        value.name = self.fresh(hint or f"{before.outputs[0].name}_{op_type}")
        self.graph.insert_before(before, made)
        return value

    def again(
        self,
        like: ir.Node,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
        *,
        before: ir.Node,
        shape: Shape | None = None,
        dtype: ir.DataType | None = None,
        hint: str = "",
        op_type: str = "",
    ) -> ir.Value:
        """The output of a node as `like`, of its name, on other inputs, in front of `before`.

        Attributes, shape and operator are those of `like` where they are not given.
        """
        said = dict(like.attributes.items()) if attributes is None else attributes
        size = shape_of(like.outputs[0]) if shape is None else shape
        value = self.node(
            op_type or like.op_type,
            inputs,
            said,
            before=before,
            shape=size,
            dtype=dtype,
            hint=hint,
            domain=like.domain,
        )
        made = maker_of(value)
        # Messages and reports speak of the node that the user knows.
        made.name = like.name
        made.metadata_props.update(like.metadata_props)
        return value

    def replace(self, old: ir.Value, new: ir.Value) -> bool:
        """Let everyone read `new` instead of `old`; False if `old` must stay as it is.

        A graph output keeps its name and stays computed by a node of its own. A value made by
        this editor takes over the name of what it replaces: it has the same elements.
        """
        if old.is_graph_output():
            if new.producer() is None or new.is_graph_output() or new.graph is not old.graph:
                return self._replace_inner_uses(old, new)
            for index, value in enumerate(self.graph.outputs):
                if value is old:
                    self.graph.outputs[index] = new
            _move_name(old, new)
        elif _is_fresh(new):
            _move_name(old, new)
        old.replace_all_uses_with(new)
        self.changed = True
        return True

    def _replace_inner_uses(self, old: ir.Value, new: ir.Value) -> bool:
        """Let users of `old` read `new` instead, and return False: `old` is no output of
        the graph.
        """
        uses = list(old.uses())
        for use in uses:
            use.node.replace_input_with(use.idx, new)
        self.changed = self.changed or bool(uses)
        return False

    def remove(self, *nodes: ir.Node) -> None:
        """Take nodes nobody reads any more out of the graph."""
        for node in nodes:
            if len(node.inputs) > WIDE:
                _detach(node)
            self.graph.remove(node, safe=True)
        self.changed = True

    def substitute(self, node: ir.Node, new: ir.Value) -> bool:
        """Let everyone read `new` instead of the first result of `node`, and take the node away.

        False, and the node stays, if its result must stay as it is (see `replace`).
        """
        if not self.replace(node.outputs[0], new):
            return False
        self.remove(node)
        return True

    def set_attribute(self, node: ir.Node, name: str, value: Any) -> None:
        """Give `node` the attribute unless it has that value already."""
        found = node.attributes.get(name)
        if found is not None and _same(found.value, value):
            return
        node.attributes[name] = attribute_of(name, value)
        self.changed = True

    def drop_attribute(self, node: ir.Node, name: str) -> None:
        """Take the attribute away if it is there."""
        if name in node.attributes:
            del node.attributes[name]
            self.changed = True

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Replace one input, growing the list if it is short."""
        if index >= len(node.inputs):
            node.resize_inputs(index + 1)
        if node.inputs[index] is not value:
            node.replace_input_with(index, value)
            self.changed = True

    def fresh(self, hint: str) -> str:
        """A name no value of the model has: the blank keeps it apart until names are made."""
        count = int(self.graph.meta.get("aot.fresh", 0)) + 1
        self.graph.meta["aot.fresh"] = count
        return f"{hint.split(FRESH)[0]}{FRESH}{count}"


def _detach(node: ir.Node) -> None:
    """Let a node read nothing: onnx_ir copies all inputs once for each that it takes away."""
    for index, value in enumerate(node.inputs):
        if value is not None:
            value._remove_usage(node, index)
    node._inputs = ()


def _is_fresh(value: ir.Value) -> bool:
    """Whether the value has no name of the user's, and may take one."""
    return FRESH in str(value.name) and value.producer() is not None


def _move_name(old: ir.Value, new: ir.Value) -> None:
    """Give `new` the name of `old`, with the user's name and what is noted of its codes and
    channels.
    """
    name = old.name
    old.name = f"{name}{FRESH}replaced"
    new.name = name
    new.metadata_props.pop(NAME_KEY, None)
    if NAME_KEY in old.metadata_props:
        new.metadata_props[NAME_KEY] = old.metadata_props[NAME_KEY]
    for key in (OFFSET_KEY, CHANNELS_KEY):
        if key in old.metadata_props:
            new.metadata_props[key] = old.metadata_props[key]


def attribute_of(name: str, value: Any) -> ir.Attr:
    """An attribute of the type its Python value suggests; an ir.Attr is taken as it is."""
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, (int, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if any(isinstance(v, str) for v in value):
        return ir.AttrStrings(name, list(value))
    if any(isinstance(v, float | np.floating) for v in value):
        return ir.AttrFloat32s(name, [float(v) for v in value])
    return ir.AttrInt64s(name, [int(v) for v in value])


def _same(left: Any, right: Any) -> bool:
    """Whether two values of attributes are equal, lists element by element."""
    if isinstance(left, Sequence) and not isinstance(left, str):
        return list(left) == list(right) if isinstance(right, Sequence) else False
    return bool(left == right)


def hoist_constants(graph: ir.Graph) -> None:
    """Constant nodes become initialisers.

    Before: c = Constant(value=…); y = Add(x, c)      After: y = Add(x, c), c an initialiser
    """
    edit = Editor(graph)
    for node in graph:
        tensor = _constant_tensor(node)
        if tensor is None:
            continue
        old, name = node.outputs[0], str(node.outputs[0].name)
        new = edit.tensor(tensor, name)
        for index, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[index] = new
        old.replace_all_uses_with(new)
        graph.remove(node, safe=True)
        new.name = name


def _constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor of a Constant with one number, list or tensor; None for anything else."""
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    (attribute,) = node.attributes.values()
    name, value = attribute.name, attribute.value
    if name == "value":
        return value  # type: ignore[no-any-return]
    if name in ("value_float", "value_floats"):
        return ir.Tensor(np.asarray(value, dtype=np.float32))
    if name in ("value_int", "value_ints"):
        return ir.Tensor(np.asarray(value, dtype=np.int64))
    return None


def open_body(edit: Editor, before: ir.Node, body: ir.Graph) -> None:
    """Move the nodes and constants of `body` in front of a node of the editor's graph.

    The body has no outputs afterwards.
    """
    body.outputs.clear()
    for value in list(body.initializers.values()):
        assert value.const_value is not None
        value.replace_all_uses_with(edit.tensor(value.const_value, str(value.name)))
    inner = list(body)
    body.remove(inner)
    edit.graph.insert_before(before, inner)


def inline_branch(node: ir.Node, branch: ir.Graph) -> None:
    """Put the nodes of `branch`, whose values have types, in the place of the If `node`.

    The If is removed; constants of the branch become constants of the graph around it.
    """
    edit = Editor(graph_of(node))
    results = list(branch.outputs)
    open_body(edit, node, branch)
    for old, new in zip(node.outputs, results, strict=True):
        copy = edit.node("Identity", [new], before=node, shape=shape_of(new))
        edit.replace(old, copy)
    edit.remove(node)
