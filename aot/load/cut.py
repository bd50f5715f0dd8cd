# SPDX-License-Identifier: Apache-2.0
"""The part of a model between values: `--cut-inputs A,B` and `--cut-outputs A,B`.

Before: x -> Tokenizer -> ids -> Gather -> y -> Loop -> z
After `--cut-inputs ids --cut-outputs y`: ids -> Gather -> y
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aot.errors import ModelError, meant, typed
from aot.ir.deferred_import import onnx
from aot.ir.onnx_subprocess import infer_shapes
from aot.load import weights
from aot.load.check import all_graphs, check_form, node_title, subgraphs
from aot.load.source import Opened
from aot.options import Options

INPUTS, OUTPUTS = "--cut-inputs", "--cut-outputs"
#: How onnx's inference calls sizes that it cannot tell.
_UNKNOWN = "unk__"


def cut(opened: Opened, inputs: Sequence[str], outputs: Sequence[str]) -> Opened:
    """The part of a model that computes the values `outputs` (none: the model's own) from the
    values `inputs` and from those inputs of the model that are needed besides. A value whose type
    nothing tells is given with it: `ids:int64`.

    Raises ModelError for names that the model does not have, for inputs that no output needs and
    for inputs of unknown type. The model of `opened` is not changed.
    """
    if not inputs and not outputs:
        return opened
    # Cutting reads names and bodies of all nodes, which only a well-formed model has.
    check_form(opened.proto)
    graph = opened.proto.graph
    inputs, said = _with_types(graph, inputs)
    _check_names(graph, inputs, outputs)
    wanted = list(outputs) or [o.name for o in graph.output]
    nodes, needed = _between(graph, inputs, wanted)
    for name in inputs:
        if name not in needed:
            some = ", ".join(f'"{o}"' for o in wanted[:3])
            raise ModelError(f'no output depends on the value "{name}"', INPUTS, f"outputs: {some}")
    part = _part(opened.proto, nodes, needed)
    types = _types(opened, {*inputs, *wanted}, part.graph, said)
    part.graph.input.extend(
        types[n] for n in dict.fromkeys(inputs) if not any(i.name == n for i in graph.input)
    )
    part.graph.output.extend(types[n] for n in dict.fromkeys(wanted))
    return opened._replace(proto=part)


def part_of(opened: Opened, options: Options) -> tuple[Opened, Options]:
    """The part of a model that `options` cut out, and the options that are left for it: none cuts,
    and none names a dimension or an input that only the rest of the model has.
    """
    part = cut(opened, options.cut_inputs, options.cut_outputs)
    if part is opened:
        return opened, options
    names, all_names = _names_of(part.proto.graph), _names_of(opened.proto.graph)

    def kept(given: Mapping[str, Any]) -> dict[str, Any]:
        # A name that the whole model lacks, too, stays, so that it is refused with the usual
        # message.
        return {n: v for n, v in given.items() if n in names or n not in all_names}

    return part, replace(
        options,
        cut_inputs=(),
        cut_outputs=(),
        dims=kept(options.dims),
        input_shapes=kept(options.input_shapes),
        bindings=kept(options.bindings),
    )


def _names_of(graph: onnx.GraphProto) -> set[str]:
    """The names of inputs and of their dimensions."""
    dims = {d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim}
    return {i.name for i in graph.input} | dims


def known_types(opened: Opened) -> dict[str, onnx.ValueInfoProto]:
    """The types and shapes of values that the file declares or onnx infers, by name."""
    graph = opened.proto.graph
    declared = {v.name: v for v in (*graph.input, *graph.output, *graph.value_info)}
    shaped = {n: v for n, v in declared.items() if _is_shaped(v)}
    return {**{n: v for n, v in _inferred(opened).items() if _is_shaped(v)}, **shaped}


def with_nodes(
    opened: Opened, nodes: Sequence[onnx.NodeProto], fed: dict[str, onnx.ValueInfoProto]
) -> Opened:
    """`opened` with a model of `nodes` only, the initializers that they read, the functions that
    they call, and all inputs of the model.

    `fed`, by value name, adds inputs for values whose node is left out. Outputs are results that
    the model declares as outputs and results that none of `nodes` reads; one that the model does
    not declare gets element type 0 (unknown) and no shape. The model of `opened` is not changed.
    """
    graph = opened.proto.graph
    read = {x for n in nodes for x in reads(n)}
    part = _part(opened.proto, nodes, read | {i.name for i in graph.input})
    part.graph.input.extend(fed.values())
    declared = {v.name: v for v in graph.output}
    for name in (o for n in nodes for o in n.output if o and (o in declared or o not in read)):
        info = part.graph.output.add(name=name)
        info.type.tensor_type.elem_type = 0
        if name in declared:
            info.type.CopyFrom(declared[name].type)
    return opened._replace(proto=part)


def _with_types(graph: onnx.GraphProto, inputs: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """The names in `inputs` (NAME or NAME:TYPE), and by name the numbers that ONNX gives TYPE."""
    made = {o for n in graph.node for o in n.output} | {i.name for i in graph.input}
    names, said = [], {}
    for given in inputs:
        name, _, kind = given.rpartition(":")
        number = _type_number(kind)
        names.append(name if given not in made and number and name else given)
        if names[-1] != given:
            said[name] = number
    return names, said


def _check_names(graph: onnx.GraphProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """ModelError for a name that no node of the model's graph computes."""
    made = {o for n in graph.node for o in n.output if o}
    fed = {i.name for i in graph.input}
    constants = {t.name for t in graph.initializer}
    # Only a value that is computed can be an output; an input may be one of the model's.
    for option, names, known in ((INPUTS, inputs, made | fed), (OUTPUTS, outputs, made)):
        for name in names:
            if name in known and name not in constants:
                continue
            if name in constants:
                raise ModelError(f'"{name}" is a constant of the model', option)
            if name in fed:
                raise ModelError(f'"{name}" is an input of the model: no node computes it', option)
            if owner := _owner(graph, name):
                what = f'the value "{name}" is in a body of {owner}'
                raise ModelError(what, option, "cut before or behind that node")
            hint = meant(name, sorted(known), "names are those of the values, not of the nodes")
            raise ModelError(f'the model has no value "{name}"', option, hint)


def _owner(graph: onnx.GraphProto, name: str) -> str:
    """The node of `graph` whose bodies compute `name`, "" if there is none."""
    for index, node in enumerate(graph.node):
        for body in subgraphs(node):
            if any(name in n.output for g in all_graphs(body) for n in g.node):
                return node_title(node, index)
    return ""


def reads(node: onnx.NodeProto) -> set[str]:
    """The names that a node and its bodies read."""
    found = set(node.input)
    for body in subgraphs(node):
        for graph in all_graphs(body):
            found.update(o.name for o in graph.output)
            found.update(x for n in graph.node for x in n.input)
    return found - {""}


def _between(
    graph: onnx.GraphProto, inputs: Collection[str], outputs: Iterable[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes between, in order, and the names that these and the outputs read."""
    needed, kept, stop = set(outputs), [], set(inputs)
    for node in reversed(graph.node):
        if any(o in needed and o not in stop for o in node.output):
            kept.append(node)
            needed |= reads(node)
    return kept[::-1], needed


def _part(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], needed: Collection[str]
) -> onnx.ModelProto:
    """A model of `nodes`, their constants and the functions they call, without outputs."""
    part = onnx.ModelProto()
    for field in ("ir_version", "producer_name", "producer_version", "domain"):
        setattr(part, field, getattr(model, field))
    part.opset_import.extend(model.opset_import)
    part.metadata_props.extend(model.metadata_props)
    part.functions.extend(_called(model, nodes))
    graph, old = part.graph, model.graph
    graph.name = old.name or "graph"
    graph.node.extend(nodes)
    graph.input.extend(i for i in old.input if i.name in needed)
    graph.initializer.extend(t for t in old.initializer if t.name in needed)
    graph.sparse_initializer.extend(s for s in old.sparse_initializer if s.values.name in needed)
    return part


def _called(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
    """The functions of the model that `nodes` call, also through others."""
    known = {(f.domain, f.name): f for f in model.functions}
    found: dict[tuple[str, str], onnx.FunctionProto] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        stack += [n for body in subgraphs(node) for n in body.node]
        key = (node.domain, node.op_type)
        if key in known and key not in found:
            found[key] = known[key]
            stack += known[key].node
    return [f for f in model.functions if (f.domain, f.name) in found]


def _types(
    opened: Opened, names: Collection[str], part: onnx.GraphProto, said: Mapping[str, int]
) -> dict[str, onnx.ValueInfoProto]:
    """The types and shapes of the values `names`, as inputs and outputs of `part` need them.

    They are those that the file declares, else those that onnx infers. `said` has the element types
    that the user gave, as numbers of ONNX, for values without one. Another value that `part` reads
    and does not make has the element type that its readers take; ModelError if they take several.
    An output may stay without a type. Shapes of values that `part` makes, but for outputs of the
    model, are left to inference.
    """
    graph = opened.proto.graph
    declared = {v.name: v for v in (*graph.input, *graph.output, *graph.value_info)}
    inferred: dict[str, onnx.ValueInfoProto] = {}
    if any(not _is_shaped(declared.get(n)) for n in names):
        inferred = _inferred(opened)
    made = {o for n in part.node for o in n.output}
    outputs = {o.name for o in graph.output}
    known = {**inferred, **{n: v for n, v in declared.items() if _elements(v)}}
    found: dict[str, onnx.ValueInfoProto] = {}
    for name in sorted(names):
        info = onnx.ValueInfoProto(name=name)
        first, more = declared.get(name), inferred.get(name)
        best = more if more is not None and not _is_shaped(first) else first
        if best is not None:
            info.type.CopyFrom(best.type)
        if name in said and not _elements(info):
            info.type.tensor_type.elem_type = said[name]
        elif name not in made and not _elements(info):
            info.type.tensor_type.elem_type = _taken(opened.proto, part, name, known)
        if not info.type.WhichOneof("value"):
            info.type.tensor_type.elem_type = 0
        if name in made and info.type.HasField("tensor_type") and name not in outputs:
            info.type.tensor_type.ClearField("shape")  # inner shapes of files may be stale
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param.startswith(_UNKNOWN):
                dim.ClearField("dim_param")
        found[name] = info
    return found


def _elements(info: onnx.ValueInfoProto | None) -> int:
    """The element type of a tensor, 1 for what is no tensor, 0 if it is not known."""
    kind = None if info is None else info.type.WhichOneof("value")
    if info is None or kind != "tensor_type":
        return int(kind is not None)
    return int(info.type.tensor_type.elem_type)


def _is_shaped(info: onnx.ValueInfoProto | None) -> bool:
    """Whether a declaration says element type and shape."""
    tensor = info is not None and info.type.HasField("tensor_type")
    return (
        _elements(info) > 0
        and info is not None
        and (not tensor or info.type.tensor_type.HasField("shape"))
    )


def _inferred(opened: Opened) -> dict[str, onnx.ValueInfoProto]:
    """What onnx infers of the values; nothing where it fails."""
    light, big = weights.split(opened.proto, opened.folder)
    weights.stand_in(light.graph, big)
    try:
        graph = infer_shapes(light).graph
    except RuntimeError:
        return {}
    return {v.name: v for v in (*graph.value_info, *graph.output)}


def _taken(
    model: onnx.ModelProto,
    part: onnx.GraphProto,
    name: str,
    known: dict[str, onnx.ValueInfoProto],
) -> int:
    """The element type that every reader of a value takes; of both widths of an index the wider.

    ModelError if there are others.
    """
    versions = {o.domain: o.version for o in model.opset_import}
    constants = {t.name: t.data_type for t in part.initializer}
    found: set[int] | None = None
    for node in part.node:
        for index, read in enumerate(node.input):
            if read != name:
                continue
            try:
                schema = onnx.defs.get_schema(
                    node.op_type, versions.get(node.domain, 1), node.domain
                )
            # Without a schema an operator says nothing about types; other readers may.
            except onnx.defs.SchemaError:
                continue
            formals = [
                schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(node.input))
            ]
            types = {_type_number(t) for t in formals[index].types} - {0}
            for other, formal in zip(node.input, formals, strict=True):
                kind = constants.get(other, 0) or _elements(known.get(other))
                if formal.type_str == formals[index].type_str and other != name and kind:
                    types &= {kind}
            found = types if found is None else found & types
    if found == {6, 7}:
        return 7
    if found is None or len(found) != 1:
        hint = f"say it, as {typed(INPUTS, f'{name}:int64')} does"
        raise ModelError(f'the type of the value "{name}" is not known', INPUTS, hint)
    return next(iter(found))


def _type_number(text: str) -> int:
    """TensorProto.DataType of a text like `tensor(int64)`, 0 for other types."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    kinds = onnx.TensorProto.DataType
    return int(kinds.Value(name)) if name in kinds.keys() else 0  # noqa: SIM118 (no mapping)
