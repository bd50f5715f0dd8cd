# SPDX-License-Identifier: Apache-2.0
"""Strings become rows of bytes: after inference, before anything else looks at the graph.

Before: y = StringConcat(a, b)       a, b, y: string[3]
After: y = aot.text.Join(a, b)       a, b, y: uint8[3, 64], UTF-8 with zeros behind
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.errors import AotError, ModelError, UnsupportedError, raise_all
from aot.ir.graph_edit import Editor, graphs
from aot.ir.graph_nodes import (
    DYNAMIC,
    TEXT,
    TEXTS,
    array,
    attribute,
    original_name,
    set_type,
    shape_of,
    title,
)
from aot.ir.string_rows import encode
from aot.load.regex import compile_regex
from aot.shapes.cures import YOURS, binds
from aot.shapes.dynamic.extents import RUN_TIME_SHAPES

if TYPE_CHECKING:
    import onnx_ir as ir

UINT8, BOOL, INT32, INT64 = 2, 9, 6, 7
ML = "ai.onnx.ml"


def open_strings(model: ir.Model, width: int) -> None:
    """Rewrite every value of strings as uint8 with a last axis of `width`, in place.

    Raises UnsupportedError for operators that cannot be met on bytes.
    """
    if not any(_is_text(v) for g in graphs(model) for v in _values(g)):
        return
    model.opset_imports.setdefault(TEXT, 1)
    ends = [v for v in (*model.graph.inputs, *model.graph.outputs) if _is_text(v)]
    model.graph.meta[TEXTS] = tuple(original_name(v) for v in ends)
    work = _Strings(width)
    every = list(graphs(model))
    for graph in every:
        for node in list(graph):
            values = [v for v in [*node.inputs, *node.outputs] if v is not None]
            if any(_is_text(v) for v in values) or node.op_type in TEXT_OPERATORS:
                try:
                    work.rewrite(node)
                except AotError as error:
                    work.errors.append(error)
    raise_all(work.errors)
    work.shapes(model.graph)
    for graph in every:
        for value in _values(graph):
            if _is_text(value):
                work.open(graph, value)


def _values(graph: ir.Graph) -> list[ir.Value]:
    found = [*graph.inputs, *graph.initializers.values()]
    found += [o for node in graph for o in node.outputs]
    return list(dict.fromkeys(found))


def _is_text(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.name == "STRING"


TEXT_OPERATORS = frozenset(("LabelEncoder",))


class _Strings:
    """Rewrites nodes while their values still say that they are strings."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.errors: list[AotError] = []

    def rewrite(self, node: ir.Node) -> None:
        if node.op_type in ("If", "Loop", "Scan", "Identity"):
            return
        rule = _RULES.get((node.domain, node.op_type))
        if rule is None:
            what = f"{title(node)}: the operator is not supported on strings"
            raise UnsupportedError(what)
        rule(self, node)

    def open(self, graph: ir.Graph, value: ir.Value) -> None:
        """Give one value its bytes."""
        import onnx_ir as ir

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
        """The shapes that the run gives outputs of strings end in their bytes."""
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
        import onnx_ir as ir

        assert node.graph is not None
        edit = Editor(node.graph)
        kind = ir.DataType(dtype)
        made = edit.node(op_type, inputs, attributes, before=node, shape=shape, dtype=kind)
        producer = made.producer()
        assert producer is not None
        producer.domain = domain
        return made

    def give(self, node: ir.Node, index: int, value: ir.Value) -> None:
        """Output `index` is `value` from now on."""
        assert node.graph is not None
        Editor(node.graph).replace(node.outputs[index], value)

    def ints(self, node: ir.Node, values: Sequence[int]) -> ir.Value:
        assert node.graph is not None
        return Editor(node.graph).ints(values, "ints")


Rule = Callable[[_Strings, "ir.Node"], None]


def _last(graph: ir.Graph, value: ir.Value) -> ir.Node:
    """A last node, in front of which others can be put."""
    import onnx_ir as ir

    made = ir.Node("", "Identity", [value], num_outputs=1)
    made.outputs[0].name = f"{value.name}_end"
    graph.append(made)
    return made


def _in(node: ir.Node, index: int = 0) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _drop(node: ir.Node) -> None:
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _as_reshape(s: _Strings, node: ir.Node) -> None:
    """Reshape and its kin: the result's shape is known."""
    out = node.outputs[0]
    shape = (*shape_of(out), s.width)
    new = s.make(node, "Reshape", [_in(node), s.ints(node, shape)], UINT8, shape)
    s.give(node, 0, new)
    _drop(node)


def _along_axis(s: _Strings, node: ir.Node) -> None:
    """Operators with an axis, which is counted from the front from now on."""
    rank = len(shape_of(_in(node)))
    edit = Editor(_graph(node))
    edit.set_attribute(node, "axis", int(attribute(node, "axis", 0)) % max(rank, 1))


def _graph(node: ir.Node) -> ir.Graph:
    """The graph of a node."""
    assert node.graph is not None
    return node.graph


def _transpose(s: _Strings, node: ir.Node) -> None:
    rank = len(shape_of(_in(node)))
    perm = [int(p) for p in attribute(node, "perm") or range(rank)[::-1]]
    Editor(_graph(node)).set_attribute(node, "perm", [*perm, rank])


def _expand(s: _Strings, node: ir.Node) -> None:
    shape = (*shape_of(node.outputs[0]), s.width)
    Editor(_graph(node)).set_input(node, 1, s.ints(node, shape))


def _tile(s: _Strings, node: ir.Node) -> None:
    repeats = array(node.inputs[1])
    if repeats is None:
        what = f"{title(node)}: repeats are known at run time only"
        raise UnsupportedError(what, hint=YOURS, add=binds(node))
    Editor(_graph(node)).set_input(node, 1, s.ints(node, [*map(int, repeats), 1]))


def _slice(s: _Strings, node: ir.Node) -> None:
    axes = array(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if axes is not None and (axes < 0).any():
        rank = len(shape_of(_in(node)))
        Editor(_graph(node)).set_input(node, 3, s.ints(node, [int(a) % rank for a in axes]))


def _where(s: _Strings, node: ir.Node) -> None:
    chooses = _in(node)
    shape = (*shape_of(chooses), 1)
    wide = s.make(node, "Reshape", [chooses, s.ints(node, shape)], BOOL, shape)
    Editor(_graph(node)).set_input(node, 0, wide)


def _shape(s: _Strings, node: ir.Node) -> None:
    """Of a static shape: a constant."""
    full = shape_of(_in(node))
    start, end = int(attribute(node, "start", 0)), int(attribute(node, "end", len(full)))
    data = np.array(full[slice(start, end)], np.int64)
    if node.op_type == "Size":
        data = np.array(int(np.prod(full)), np.int64)
    const = Editor(_graph(node)).const(data, "shape")
    s.give(node, 0, s.make(node, "Identity", [const], INT64, data.shape))
    _drop(node)


def _equal(s: _Strings, node: ir.Node) -> None:
    """All bytes of two strings are equal."""
    shape = shape_of(node.outputs[0])
    each = s.make(node, "Equal", [_in(node), _in(node, 1)], BOOL, (*shape, s.width))
    number = s.make(node, "Cast", [each], INT32, (*shape, s.width), {"to": INT32})
    last = s.ints(node, [len(shape)])
    least = s.make(node, "ReduceMin", [number, last], INT32, shape, {"keepdims": 0})
    s.give(node, 0, s.make(node, "Cast", [least], BOOL, shape, {"to": BOOL}))
    _drop(node)


def _concat(s: _Strings, node: ir.Node) -> None:
    shape = (*shape_of(node.outputs[0]), s.width)
    parts = []
    for value in (_in(node), _in(node, 1)):
        own = shape_of(value)
        if own != shape[:-1] and int(np.prod(own)) != 1:
            value = s.make(node, "Expand", [value, s.ints(node, shape)], UINT8, shape)
        parts.append(value)
    s.give(node, 0, s.make(node, "Join", parts, UINT8, shape, domain=TEXT))
    _drop(node)


def _regex(s: _Strings, node: ir.Node) -> None:

    pattern = str(attribute(node, "pattern", ""))
    try:
        compile_regex(pattern)
    except UnsupportedError as error:
        raise UnsupportedError(f"{title(node)}: {error.what}", hint=error.hint) from None
    shape = shape_of(node.outputs[0])
    new = s.make(node, "Match", [_in(node)], BOOL, shape, {"pattern": pattern}, TEXT)
    s.give(node, 0, new)
    _drop(node)


def _normalizer(s: _Strings, node: ir.Node) -> None:
    """Without stop words: only the case may change."""
    if attribute(node, "stopwords", None):
        what = "which strings are left depends on the data"
        raise UnsupportedError(f"{title(node)}: {what} (not supported yet)")
    action = str(attribute(node, "case_change_action", "NONE"))
    shape = (*shape_of(node.outputs[0]), s.width)
    new = _in(node)
    if action in ("LOWER", "UPPER"):
        upper = {"upper": int(action == "UPPER")}
        new = s.make(node, "Case", [new], UINT8, shape, upper, TEXT)
    elif action != "NONE":
        raise ModelError(f"{title(node)}: case_change_action {action!r}")
    s.give(node, 0, s.make(node, "Identity", [new], UINT8, shape))
    _drop(node)


def _as_it_is(s: _Strings, node: ir.Node) -> None:
    """Operators that inference made for strings."""


def _compact(s: _Strings, node: ir.Node) -> None:
    edit = Editor(_graph(node))
    edit.set_input(node, 1, s.longer(edit, node, _in(node, 1)))


def _label_table(node: ir.Node, what: str) -> np.ndarray[Any, Any]:
    """`keys` or `values` of a LabelEncoder."""
    tensor = attribute(node, f"{what}_tensor", None)
    if tensor is not None:
        found = np.asarray(tensor.numpy()).reshape(-1)
        return found.astype(object) if found.dtype.kind in "SU" else found
    kinds = (("strings", object), ("int64s", np.int64), ("floats", np.float32))
    for name, kind in kinds:
        given = attribute(node, f"{what}_{name}", None)
        if given:
            return np.array(list(given), kind)
    raise ModelError(f"{title(node)}: no {what}")


def _label_default(node: ir.Node, values: np.ndarray[Any, Any]) -> Any:
    tensor = attribute(node, "default_tensor", None)
    if tensor is not None:
        return np.asarray(tensor.numpy()).reshape(-1)[0]
    if values.dtype == object:
        return attribute(node, "default_string", "_Unused")
    if values.dtype.kind == "f":
        return attribute(node, "default_float", -0.0)
    return attribute(node, "default_int64", -1)


def _label_encoder(s: _Strings, node: ir.Node) -> None:
    """The place of the key, then the value there; behind the last one is the default."""
    keys, values = _label_table(node, "keys"), _label_table(node, "values")
    if keys.dtype != object and values.dtype != object:
        return
    if len(keys) != len(values):
        raise ModelError(f"{title(node)}: {len(keys)} keys and {len(values)} values")
    edit, shape = Editor(_graph(node)), shape_of(node.outputs[0])
    where = title(node)
    if keys.dtype == object:
        table = edit.const(s.encoded(keys, where), "keys")
        place = s.make(node, "Find", [_in(node), table], INT64, shape, None, TEXT)
    else:
        place = _numeric_place(s, node, keys)
    every = np.array([*values, _label_default(node, values)], values.dtype)
    text = values.dtype == object
    rows = edit.const(s.encoded(every, where) if text else every, "values")
    full = (*shape, s.width) if text else shape
    assert rows.dtype is not None
    s.give(node, 0, s.make(node, "Gather", [rows, place], int(rows.dtype), full, {"axis": 0}))
    _drop(node)


def _numeric_place(s: _Strings, node: ir.Node, keys: np.ndarray[Any, Any]) -> ir.Value:
    """The place of a number among the keys: a LabelEncoder of its own."""
    import onnx_ir as ir

    assert node.graph is not None
    edit = Editor(node.graph)
    made = ir.Node(
        ML,
        "LabelEncoder",
        [_in(node)],
        [
            ir.AttrTensor("keys_tensor", ir.Tensor(keys)),
            ir.AttrTensor("values_tensor", ir.Tensor(np.arange(len(keys), dtype=np.int64))),
            ir.AttrTensor("default_tensor", ir.Tensor(np.array([len(keys)], np.int64))),
        ],
        num_outputs=1,
        name=f"{node.name}_place",
    )
    place = made.outputs[0]
    place.name = edit.fresh("place")
    set_type(place, INT64, shape_of(node.outputs[0]))
    node.graph.insert_before(node, made)
    return place


_RULES: dict[tuple[str, str], Rule] = {
    (DYNAMIC, "Compact"): _compact,
    (TEXT, "Keep"): _as_it_is,
    (TEXT, "Split"): _as_it_is,
    ("", "Concat"): _along_axis,
    ("", "Equal"): _equal,
    ("", "Expand"): _expand,
    ("", "Flatten"): _as_reshape,
    ("", "Gather"): _along_axis,
    ("", "RegexFullMatch"): _regex,
    ("", "Reshape"): _as_reshape,
    ("", "Shape"): _shape,
    ("", "Size"): _shape,
    ("", "Slice"): _slice,
    ("", "Split"): _along_axis,
    ("", "Squeeze"): _as_reshape,
    ("", "StringConcat"): _concat,
    ("", "StringNormalizer"): _normalizer,
    ("", "Tile"): _tile,
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _as_reshape,
    ("", "Where"): _where,
    (ML, "LabelEncoder"): _label_encoder,
}
