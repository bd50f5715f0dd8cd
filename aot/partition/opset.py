# SPDX-License-Identifier: Apache-2.0
"""The lowest opset in which the nodes of a canonical graph mean what they mean."""

from __future__ import annotations

from typing import Any

from aot.errors import ModelError, UsageError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import all_nodes, title
from aot.ir.opset import canonical_opset

#: Changes up to this opset may be of meaning, not only of the types allowed: they are not undone.
FLOOR = 22
#: Operators whose text changed later under the same signature.
STRICT = ("Attention",)


def lowest_opset(graph: ir.Graph, wanted: int | None = None) -> int:
    """The lowest version for all nodes of the graph, or `wanted` if that is enough.

    Raises UsageError for a version onnx does not know, ModelError for one below some node's.
    """
    newest = canonical_opset()
    if wanted is not None and not 1 <= wanted <= newest:
        raise UsageError(f"--opset {wanted}: onnx knows 1 to {newest}")
    lowest, culprit = 1, None
    # The message names the node that asks for most, so that a user sees what to change.
    for node in all_nodes(graph):
        if node.domain in ("", "ai.onnx"):
            version = _lowest(node, newest)
            if version > lowest:
                lowest, culprit = version, node
    if wanted is None:
        return lowest
    if wanted < lowest:
        assert culprit is not None
        raise ModelError(
            f"{title(culprit)} needs opset {lowest}, not {wanted}",
            "--opset",
            f"leave it out: {lowest} is the lowest that fits",
        )
    return wanted


def _lowest(node: ir.Node, newest: int) -> int:
    """The lowest opset at which `node` means the same as at the opset `newest`, at least FLOOR."""
    now = onnx.defs.get_schema(node.op_type, newest, "")
    version = int(now.since_version)
    while version > FLOOR and node.op_type not in STRICT:
        try:
            before = onnx.defs.get_schema(node.op_type, version - 1, "")
        except onnx.defs.SchemaError:
            break
        if not _means_the_same(node, before, now):
            break
        version = int(before.since_version)
    return version


def _means_the_same(node: ir.Node, before: onnx.defs.OpSchema, now: onnx.defs.OpSchema) -> bool:
    """Whether the older signature serves the node: same operands, attributes, and its types."""
    if [i.name for i in before.inputs] != [i.name for i in now.inputs]:
        return False
    if [o.name for o in before.outputs] != [o.name for o in now.outputs]:
        return False
    for name in set(before.attributes) | set(now.attributes):
        given = name in node.attributes
        if name not in now.attributes or (given and name not in before.attributes):
            return False
        both = name in before.attributes
        if both and not given and _default(before, name) != _default(now, name):
            return False
    return _types_fit(node.inputs, before.inputs, before) and _types_fit(
        node.outputs, before.outputs, before
    )


def _default(schema: onnx.defs.OpSchema, name: str) -> bytes:
    return bytes(schema.attributes[name].default_value.SerializeToString())


def _types_fit(values: Any, formals: Any, schema: onnx.defs.OpSchema) -> bool:
    """Whether the types of `values` are among those that `schema` allows for the operands
    `formals`.
    """
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    for index, value in enumerate(values):
        if value is None or not value.name or value.dtype is None:
            continue
        if not formals:
            return False
        formal = formals[min(index, len(formals) - 1)]
        kinds = allowed.get(formal.type_str, {formal.type_str})
        if f"tensor({_spelled(value.dtype)})" not in kinds:
            return False
    return True


def _spelled(dtype: ir.DataType) -> str:
    """onnx's word for an element type in signatures."""
    words = {"FLOAT": "float", "DOUBLE": "double", "STRING": "string"}
    return words.get(dtype.name, dtype.name.lower())
