# SPDX-License-Identifier: Apache-2.0
"""Operators that no backend computes, as the smaller operators ONNX defines them by.

Before: y = SwiGLU(x, gate)      After: s = Swish(gate); y = Mul(x, s)
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_edit import Editor, graphs, hoist_constants, open_body
from aot.ir.graph_nodes import (
    NAME_KEY,
    dtype_of,
    graph_of,
    is_typed,
    original_name,
    shape_of,
    subgraphs,
    title,
)
from aot.load.marks import KEPT_KEY, MARKS
from aot.load.options import LoadOptions
from aot.normalise.decompose import constants_only, decompose, own_body
from aot.normalise.unroll import captured, is_unrollable, renamed, unrolled
from aot.shapes.infer import infer

MOST = 20_000
"""Nodes that may be expanded in one model."""

BODY = "aot.body"
"""The domain of a body while it is inlined."""


def expand(model: ir.Model, options: LoadOptions) -> bool:
    """Replace the nodes of unknown operators by their bodies; whether any was replaced.

    Postcondition: every value is typed. Operators in `options.native` are left alone.
    """
    if options.native is None:
        return False
    count = 0
    for graph in list(graphs(model)):
        for node in list(graph):
            if node.op_type in options.keeps or not has_body(node, model):
                continue
            # A body may be slower than a kernel, so operators that a backend takes stay whole.
            if not is_unrollable(node) and _is_supported(node, options):
                continue
            body = _body(node, model)
            if body is not None:
                _replace(node, body)
                count += 1
            # A function that contains itself would be replaced without end.
            if count > MOST:
                raise ModelError(f"more than {MOST} nodes are functions of ONNX")
    if count:
        infer(model, None, options.rules)
    return count > 0


def _is_supported(node: ir.Node, options: LoadOptions) -> bool:
    """Whether some backend computes the node as it is."""
    if f"{node.domain}::{node.op_type}" not in (options.native or ()):
        return False
    refuses = constants_only.of(node)
    if refuses is not None and refuses(node):
        return False
    return options.supports is None or options.supports(node)


def has_body(node: ir.Node, model: ir.Model) -> bool:
    """Whether ONNX defines the operator by smaller ones."""
    if is_unrollable(node) or decompose.of(node) is not None:
        return True
    version = model.opset_imports.get(node.domain, 0)
    if not version or not onnx.defs.has(node.op_type, version, node.domain):
        return False
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _body(node: ir.Node, model: ir.Model) -> ir.Graph | None:
    """The graph that computes `node`, in the model's opset, None if neither ONNX nor a rule gives
    one.
    """
    # Imported here: onnx takes long to import, and most models need no body.
    from onnx import inliner

    if is_unrollable(node):
        return _steps_of(node, model)
    single = _alone(node, model)
    if not _define(single, own_body(node, model.opset_imports)):
        return None
    try:
        result = inliner.inline_local_functions(single, convert_version=True)
    # No version converter for one of its operators: the operator is reported as unknown instead.
    except RuntimeError:
        return None
    # The inliner left something behind that only this body names, so the body is not complete.
    if any(n.domain == BODY for n in result.graph.node):
        return None
    return _hoisted(result)


def _steps_of(node: ir.Node, model: ir.Model) -> ir.Graph:
    """The steps of a loop as a graph with the names of the node's inputs and outputs."""
    single = _alone(node, model)
    nodes, results = unrolled(node)
    for value, name in zip(node.outputs, results, strict=True):
        if value.name:
            nodes.append(onnx.helper.make_node("Identity", [name], [value.name]))
    del single.graph.node[:]
    single.graph.node.extend(nodes)
    return _hoisted(single)


def _hoisted(single: onnx.ModelProto) -> ir.Graph:
    """The graph of the model, with constants in place of the nodes that make them."""
    body: ir.Graph = ir.from_proto(single).graph
    for graph in [body, *subgraphs(body)]:
        hoist_constants(graph)
    return body


def _define(single: onnx.ModelProto, function: onnx.FunctionProto | None) -> bool:
    """Make the only node a call of a function of the model: `function` or ONNX's body."""
    (node,) = single.graph.node
    function = function or _standard_body(single)
    if function is None:
        return False
    function.domain = node.domain = BODY
    single.functions.append(function)
    single.opset_import.append(onnx.helper.make_opsetid(BODY, 1))
    return True


def _standard_body(single: onnx.ModelProto) -> onnx.FunctionProto | None:
    """The body ONNX gives the only node for the types of its inputs."""
    (node,) = single.graph.node
    versions = {o.domain: o.version for o in single.opset_import}
    version = versions[node.domain]
    if not onnx.defs.has(node.op_type, version, node.domain):
        return None
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _plain_names(attribute.g)
    types = {i.name: i.type.SerializeToString() for i in single.graph.input}
    # Some bodies depend on the types of the operands (`context dependent`): the newest fits first.
    given = [types.get(name, b"") for name in node.input]
    made = b""
    if schema.has_context_dependent_function:
        for opset in reversed(list(schema.context_dependent_function_opset_versions)):
            if opset <= version and not made:
                made = schema.get_context_dependent_function_with_opset_version(
                    opset, node.SerializeToString(), given
                )
    if not made and schema.has_function:
        opset = max(v for v in schema.function_opset_versions if v <= version)
        made = schema.get_function_with_opset_version(opset)
    return onnx.FunctionProto.FromString(made) if made else None


def _plain_names(graph: onnx.GraphProto) -> None:
    """Identifiers for what a graph defines: ONNX writes some bodies as text."""
    own = [*(t.name for t in graph.initializer), *(o for n in graph.node for o in n.output if o)]
    names = {name: f"own_{k}" for k, name in enumerate(own)}
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    for node in graph.node:
        node.name = ""
        renamed(node, names)
        for k, name in enumerate(node.output):
            node.output[k] = names.get(name, name)
    del graph.value_info[:]
    for output in graph.output:
        output.name = names.get(output.name, output.name)


def _alone(node: ir.Node, model: ir.Model) -> onnx.ModelProto:
    """A model of this node and the types of what it reads and writes."""
    single = onnx.ModelProto(ir_version=10)
    single.opset_import.extend(
        onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()
    )
    single.graph.name = "node"
    alone = ir.serde.serialize_node(node)
    # Defaults are written out: the body's opset may have others than the node's.
    _say_defaults(alone, model.opset_imports[node.domain])
    single.graph.node.append(alone)
    seen: set[str] = set()
    for values, infos in (
        ([*node.inputs, *captured(node).values()], single.graph.input),
        (node.outputs, single.graph.output),
    ):
        for value in values:
            # Bodies read values by name, those that they capture from outside as well.
            if value is not None and value.name and value.name not in seen and is_typed(value):
                seen.add(value.name)
                kind, shape = int(dtype_of(value)), shape_of(value)
                infos.append(onnx.helper.make_tensor_value_info(value.name, kind, shape))
    return single


def _say_defaults(node: onnx.NodeProto, version: int) -> None:
    """Spell out the attributes left to their defaults: the body may refer to them."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return
    given = {a.name for a in node.attribute}
    formals = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
    for name, formal in sorted(formals.items()):
        if name not in given and formal.default_value.name:
            node.attribute.append(formal.default_value)


def _replace(node: ir.Node, body: ir.Graph) -> None:
    """Put the nodes of `body`, whose interface has the names of `node`'s, in its place."""
    edit = Editor(graph_of(node))
    # A name of the body may be one of an operand's: it means that operand.
    outside = {str(v.name): v for v in node.inputs if v is not None} | captured(node)
    for value in list(body.inputs):
        value.replace_all_uses_with(outside[str(value.name)])
    results = {str(v.name): v for v in body.outputs}
    _name(node, list(body))
    open_body(edit, node, body)
    for old in node.outputs:
        # An output that is an operand itself has no maker in the body.
        if old.name:
            found = results[old.name]
            source = outside.get(old.name, found)
            kept = edit.node(
                "Identity", [source], before=node, shape=shape_of(old), dtype=old.dtype
            )
            edit.replace(old, kept)
    edit.remove(node)


def _name(node: ir.Node, inner: Sequence[ir.Node]) -> None:
    """Names that say which node this was."""
    stem = original_name(node) or node.op_type
    for index, made in enumerate(inner):
        graph_of(node).opset_imports.setdefault(made.domain, 1)
        made.name = f"{stem}_{index}_{made.op_type}"
        made.metadata_props[NAME_KEY] = title(node)
        for key in (*MARKS, KEPT_KEY):
            if key in node.metadata_props:
                made.metadata_props[key] = node.metadata_props[key]
        for value in made.outputs:
            if value.name:
                value.name = f"{stem}_{value.name} {index}"


__all__ = ["expand", "has_body"]
