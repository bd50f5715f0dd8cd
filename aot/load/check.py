# SPDX-License-Identifier: Apache-2.0
"""Is this ModelProto a graph at all? Our own rules first, then onnx's checker for the details.

onnx's checker is no validator: it lets negative and absurd dimensions, missing outputs and
truncated constants pass. Everything a later stage relies on is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from graphlib import CycleError, TopologicalSorter

from aot.errors import AotError, ModelError, UnsupportedError, meant, raise_all
from aot.ir.deferred_import import onnx
from aot.load.external import is_external
from aot.load.packages import lacking
from aot.load.tensors import check_tensor, element_count
from aot.load.utf8_check import check_strings
from aot.shapes.types import infer_types

#: Checks and passes call themselves for each level, and Python nests calls only so deep.
MAX_DEPTH = 24
MAX_LOOPS = 4
"""Loops in loops: steps multiply, and so do the ways to unroll them."""
#: Every subgraph is checked and inferred for itself; a node of 20 000 names took 30 seconds.
MAX_GRAPHS = 2000
MAX_NAMES = 8192
STANDARD_DOMAINS = ("", "ai.onnx")
ADOPTED = ("SimplifiedLayerNormalization",)
"""Operators that onnxruntime's own files put in ONNX's domain."""


def node_title(node: onnx.NodeProto, index: int | None = None) -> str:
    """How messages call a node: its name, else what it computes; and its operator."""
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if node.name:
        return f"{node.name} ({op})"
    first = next((o for o in node.output if o), "")
    return f'the {op} that computes "{first}"' if first else f"node {index or 0} ({op})"


def check_structure(model: onnx.ModelProto, claimed: Collection[str]) -> None:
    """Raise the errors of the graph's structure, all of a kind at once."""
    check_form(model)
    raise_all(_opset_errors(model))
    raise_all(_operator_errors(model, claimed))
    raise_all(_reference_errors(model.graph))
    raise_all(_einsum_errors(model))


def check_form(model: onnx.ModelProto) -> None:
    """Raise the errors of a model that is no graph, whatever its operators are: nesting, names,
    tensors.
    """
    graph = model.graph
    raise_all(_depth_errors(graph, 0))
    raise_all(_loop_errors(graph, 0))
    count = sum(1 for _ in all_graphs(graph))
    if count > MAX_GRAPHS:
        raise ModelError(f"the graph holds {count - 1} subgraphs (limit {MAX_GRAPHS})")
    raise_all(_width_errors(model))
    check_strings(model)
    if not graph.output:
        raise ModelError("the graph has no outputs", f'graph "{graph.name}"')
    raise_all(_tensor_errors(model))
    check_scopes(graph)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs a node holds in its attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _depth_errors(graph: onnx.GraphProto, depth: int) -> Iterator[AotError]:
    """Yield an error for subgraphs nested deeper than MAX_DEPTH; `depth` is that of `graph`."""
    if depth > MAX_DEPTH:
        what = f"subgraphs are nested more than {MAX_DEPTH} deep"
        yield ModelError(what, f'graph "{graph.name}"')
        return
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _depth_errors(inner, depth + 1)


def _width_errors(model: onnx.ModelProto) -> Iterator[AotError]:
    """Inputs and outputs of nodes: replacing one takes as long as there are inputs."""
    functions = [f.node for f in model.functions]
    for nodes in (*(g.node for g in all_graphs(model.graph)), *functions):
        for index, node in enumerate(nodes):
            for what, names in (("inputs", node.input), ("outputs", node.output)):
                if len(names) > MAX_NAMES:
                    title = node_title(node, index)
                    yield ModelError(f"{title}: {len(names)} {what} (limit {MAX_NAMES})")


def _loop_errors(graph: onnx.GraphProto, depth: int) -> Iterator[AotError]:
    """Yield an error for loops nested deeper than MAX_LOOPS; `depth` counts those around
    `graph`.
    """
    for index, node in enumerate(graph.node):
        inside = depth + (node.op_type in ("Loop", "Scan"))
        if inside > MAX_LOOPS:
            title = node_title(node, index)
            yield UnsupportedError(f"{title}: loops are nested more than {MAX_LOOPS} deep")
            return
        for inner in subgraphs(node):
            yield from _loop_errors(inner, inside)


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """`graph` and everything nested in it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every constant of the model: initialisers and tensor attributes, functions included."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        yield from _attribute_tensors(graph.node)
    for function in model.functions:
        yield from _attribute_tensors(function.node)
        for node in function.node:
            for inner in subgraphs(node):
                for graph in all_graphs(inner):
                    yield from graph.initializer
                    yield from _attribute_tensors(graph.node)


def _attribute_tensors(nodes: Collection[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in attributes of nodes."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _tensor_errors(model: onnx.ModelProto) -> Iterator[AotError]:
    """Yield the errors of constants whose shape, type and data do not agree."""
    for tensor in tensors(model):
        try:
            if is_external(tensor):
                element_count(tensor)
            else:
                check_tensor(tensor)
        except ModelError as e:
            yield e


def check_scopes(graph: onnx.GraphProto) -> None:
    """Raise the errors of names: each is defined once and before it is read."""
    raise_all(_scope_errors(graph, frozenset()))


def _scope_errors(graph: onnx.GraphProto, outer: frozenset[str]) -> Iterator[AotError]:
    """Yield errors of names: each must be defined once, before its first use. `outer` are known
    around.
    """
    known: set[str] = set()
    initializers = [i.name for i in graph.initializer]
    initializers += [s.values.name for s in graph.sparse_initializer]
    for kind, names in (("input", [i.name for i in graph.input]), ("initializer", initializers)):
        # An initialiser may have the name of an input: it is the default of that input.
        seen: set[str] = set()
        for name in names:
            if name in seen or not name:
                yield ModelError(f'{kind} name "{name}" is {"taken" if name else "empty"}')
            seen.add(name)
        known |= seen
    later = {o for node in graph.node for o in node.output if o}
    for index, node in enumerate(graph.node):
        title = node_title(node, index)
        for name in node.input:
            if name and name not in known and name not in outer:
                yield _undefined(graph, title, name, later)
        for inner in subgraphs(node):
            yield from _scope_errors(inner, outer | known)
        for name in node.output:
            if name in known:
                yield ModelError(f'{title}: the name "{name}" is defined twice')
            if name:
                known.add(name)
    for output in graph.output:
        if output.name not in known and (output.name not in outer or not output.name):
            yield ModelError(f'graph output "{output.name}" is never computed')


def _undefined(graph: onnx.GraphProto, title: str, name: str, later: set[str]) -> AotError:
    """The error for a name that is used before it is computed, in a circle, or never defined."""
    if name not in later:
        return ModelError(f'{title}: input "{name}" is defined nowhere')
    if _is_cyclic(graph):
        return ModelError(f'{title}: input "{name}" depends on its own output (cyclic graph)')
    hint = "nodes must be in topological order"
    return ModelError(f'{title}: input "{name}" is used before it is computed', hint=hint)


def _is_cyclic(graph: onnx.GraphProto) -> bool:
    """Whether nodes of the graph need each other in a circle."""
    producer = {o: i for i, n in enumerate(graph.node) for o in n.output if o}
    needs = [{producer[x] for x in n.input if x in producer} for n in graph.node]
    try:
        TopologicalSorter(dict(enumerate(needs))).prepare()
    except CycleError:
        return True
    return False


def _opset_errors(model: onnx.ModelProto) -> Iterator[AotError]:
    """Versions that onnx's own tables cannot be asked for, and two of one domain."""
    for holder in (model, *model.functions):
        versions: dict[str, int] = {}
        for opset in holder.opset_import:
            name = opset.domain or "ai.onnx"
            if not 0 <= opset.version < 1 << 31:
                yield ModelError(f'opset {opset.version} of "{name}" does not exist')
            first = versions.setdefault(domain_of(opset.domain), opset.version)
            if first != opset.version:
                where = "the model" if holder is model else f"function {holder.name}"
                yield ModelError(f'{where} imports opsets {first} and {opset.version} of "{name}"')


def _reference_errors(graph: onnx.GraphProto) -> Iterator[AotError]:
    """Attributes that are to come from a function's caller, where there is no function."""
    for inner in all_graphs(graph):
        for index, node in enumerate(inner.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    what = f'attribute {attribute.name} refers to "{attribute.ref_attr_name}"'
                    yield ModelError(f"{node_title(node, index)}: {what}, outside a function")


def _operator_errors(model: onnx.ModelProto, claimed: Collection[str]) -> Iterator[AotError]:
    """Yield errors for operators that neither ONNX, nor aotc, nor `claimed`
    ("domain::type") knows.
    """
    functions = {(domain_of(f.domain), f.name) for f in model.functions}
    unknown = _unknown_operator(claimed)
    bodies = [("", model.opset_import, graph.node) for graph in all_graphs(model.graph)]
    bodies += [(f"function {f.domain}.{f.name}", f.opset_import, f.node) for f in model.functions]
    for where, opsets, nodes in bodies:
        versions = {domain_of(o.domain): o.version for o in opsets}
        for index, node in enumerate(nodes):
            domain, name = key = domain_of(node.domain), node.op_type
            if key in functions:
                continue
            title = node_title(node, index)
            if reason := unknown(domain, name, versions):
                yield UnsupportedError(f"{title}: {reason}", where, _advice(node)).of(node.output)
            elif f"{domain}::{name}" not in claimed and (error := lacking(title, name, domain)):
                yield error.of(node.output)


def _advice(node: onnx.NodeProto) -> str:
    """What to do about an operator that the opset does not have: another name, or a body for it."""
    domain = domain_of(node.domain)
    if (key := f"{domain}.{node.op_type}") in _OF_DOMAINS or (key := domain) in _OF_DOMAINS:
        return _OF_DOMAINS[key]
    names = {s.name for s in onnx.defs.get_all_schemas() if s.domain == domain}
    if node.op_type in names:
        return "the opset that the model imports may be wrong: export it again"
    return meant(node.op_type, sorted(names), _CUSTOM)


#: What to do about all operators of a domain, or one of them.
_OF_DOMAINS = {
    "com.microsoft.nchwc": "onnxruntime optimised the file for one processor: save it at the level "
    "ORT_ENABLE_EXTENDED",
    "ai.onnx.contrib": "onnxruntime-extensions reads texts and images so: do that in the "
    "application, and name the results of these nodes with --cut-inputs",
}
_CUSTOM = (
    "export it as operators of ONNX or as a function of the model, or let a backend of yours take "
    "it: `aotc new-backend mine` starts one"
)


def _einsum_errors(model: onnx.ModelProto) -> Iterator[AotError]:
    """Equations onnx's inference would never return from."""
    bodies = [graph.node for graph in all_graphs(model.graph)]
    bodies += [function.node for function in model.functions]
    for index, node in enumerate(n for nodes in bodies for n in nodes):
        if node.op_type == "Einsum" and not node.domain:
            for attribute in node.attribute:
                text = attribute.s.decode("utf-8", "replace")
                if attribute.name == "equation" and not _is_equation(text):
                    what = f'{node_title(node, index)}: the equation "{text[:80]}" is malformed'
                    yield ModelError(what)


def _is_equation(text: str) -> bool:
    """Whether the terms of an Einsum equation are letters with at most one ellipsis each."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = [*left.split(","), right] if arrow else left.split(",")
    letters = [term.replace("...", "", 1) for term in terms]
    return all(not part or (part.isascii() and part.isalpha()) for part in letters)


def domain_of(domain: str) -> str:
    """`domain` of a node, a function or an opset, with "" for both spellings of ONNX's own."""
    return "" if domain in STANDARD_DOMAINS else domain


def _unknown_operator(claimed: Collection[str]) -> Callable[[str, str, dict[str, int]], str]:
    """A function that gives the reason why an operator is unknown, "" if it is known."""
    # Every answer is kept: a model has thousands of nodes, but few operators.
    known: dict[tuple[str, str, int], str] = {}

    def reason(domain: str, op_type: str, versions: dict[str, int]) -> str:
        """The reason why an operator is unknown in the opsets `versions` by domain, "" if it is
        known.
        """
        if f"{domain}::{op_type}" in claimed or (domain and infer_types.named(op_type, domain)):
            return ""
        if not domain and op_type in ADOPTED:
            return ""
        if domain not in versions:
            return f'the model imports no opset for the domain "{domain}"'
        key = (domain, op_type, versions[domain])
        if key not in known:
            known[key] = _lookup(*key)
        return known[key]

    return reason


def _lookup(domain: str, op_type: str, version: int) -> str:
    """The reason why onnx does not have an operator in an opset, "" if it has."""
    if not onnx.defs.has(op_type, domain):
        where = f'the domain "{domain}"' if domain else "ONNX"
        return f"unknown operator {op_type} in {where}"
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return f"operator {op_type} does not exist in opset {version}"
    if schema.deprecated:
        return f"operator {op_type} is removed in opset {version}"
    return ""


def check_details(light: onnx.ModelProto) -> None:
    """onnx's own checker, for attributes and arities; on a model without big constants."""
    try:
        onnx.checker.check_model(light)
    except onnx.checker.ValidationError as e:
        text = " ".join(str(e).split())
        raise ModelError(f"not valid ONNX: {text[:600]}") from None
