# SPDX-License-Identifier: Apache-2.0
"""Model-local functions: inlined, unless a backend claims them."""

from __future__ import annotations

from collections.abc import Iterator

from aot.errors import ModelError
from aot.ir.deferred_import import onnx
from aot.ir.onnx_subprocess import run_isolated
from aot.load.check import STANDARD_DOMAINS, all_graphs, check_scopes, domain_of, subgraphs
from aot.load.marks import push_marks
from aot.load.options import LoadOptions
from aot.load.splice import splice

Key = tuple[str, str]


def inline_functions(model: onnx.ModelProto, options: LoadOptions) -> onnx.ModelProto:
    """`model` without calls to functions, but for the claimed ones; marks go to the nodes."""
    if not model.functions:
        return model
    push_marks(model)
    _share_versions(model)
    splice(model, options.claimed)
    kept = [(f.domain, f.name) for f in model.functions if _is_kept(f, options)]
    if model.functions:
        _say_defaults(model)
        _say_types(model)
        model = _inline(model, kept)
    check_scopes(model.graph)  # a body need not compute what it is to return
    return model


def _share_versions(model: onnx.ModelProto) -> None:
    """A function imports what the model does where all its operators are the same in both.

    Before: opset 18 in a model of opset 21, o = Add(a, b)      After: opset 21, o = Add(a, b)
    onnx wants valid functions so; what it lets pass besides, in graphs within, its inliner brings
    to the model's version, for which it must know the type of every argument. What the model itself
    does not import it imports in the newest version that a function does.
    """
    own = {domain_of(o.domain) for o in model.opset_import}
    imports = [o for f in model.functions for o in f.opset_import]
    for entry in sorted(imports, key=lambda o: -o.version):
        if domain_of(entry.domain) not in own:
            own.add(domain_of(entry.domain))
            model.opset_import.append(entry)
    versions = {domain_of(o.domain): o.version for o in model.opset_import}
    for function in model.functions:
        for entry in function.opset_import:
            wanted = versions.get(domain_of(entry.domain))
            if wanted not in (None, entry.version) and _are_the_same(function, entry, wanted):
                entry.version = wanted


def _are_the_same(function: onnx.FunctionProto, entry: onnx.OperatorSetIdProto, new: int) -> bool:
    """Whether every operator of the domain has one definition in the entry's version and in `new`.

    False for an operator that onnx does not know.
    """
    domain = domain_of(entry.domain)
    try:
        for node in _nodes(function):
            if domain_of(node.domain) == domain:
                old, other = (
                    onnx.defs.get_schema(node.op_type, v, domain).since_version
                    for v in (entry.version, new)
                )
                if old != other:
                    return False
    except onnx.defs.SchemaError:
        return False
    return True


def _say_types(model: onnx.ModelProto) -> None:
    """Say the types of initialisers: onnx's inliner knows those of inputs and of nodes alone."""
    for graph in all_graphs(model.graph):
        said = {v.name for v in (*graph.input, *graph.value_info)}
        graph.value_info.extend(
            onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
            for t in graph.initializer
            if t.name not in said
        )


def _say_defaults(model: onnx.ModelProto) -> None:
    """Calls of functions get the attributes they leave out: onnx's inliner knows no defaults.

    Before: y = own.F(x), where F <a: float = 0.5> (x)      After: y = own.F <a = 0.5> (x)
    """
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions}
    nodes = [n for g in all_graphs(model.graph) for n in g.node]
    for node in (*nodes, *(n for f in model.functions for n in _nodes(f))):
        said = {a.name for a in node.attribute}
        missing = defaults.get((node.domain, node.op_type), ())
        node.attribute.extend(a for a in missing if a.name not in said)


def _nodes(function: onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a body and of the graphs within."""
    for node in function.node:
        yield node
        for graph in subgraphs(node):
            yield from (n for g in all_graphs(graph) for n in g.node)


def check_functions(model: onnx.ModelProto, options: LoadOptions) -> None:
    """ModelError for recursion and for functions that would grow past `function_nodes`."""
    if not model.functions:
        return
    _check_names(model)
    total = _inlined_size(model)
    if total > options.function_nodes:
        what = f"inlining the model's functions gives {total} nodes"
        raise ModelError(f"{what} (limit {options.function_nodes})", f'graph "{model.graph.name}"')


def _check_names(model: onnx.ModelProto) -> None:
    """ModelError for names of standard operators: ONNX leaves open which of the two is meant."""
    for function in model.functions:
        if function.domain in STANDARD_DOMAINS and onnx.defs.has(function.name, ""):
            what = f'the function "{function.name}" has the name of an operator of ONNX'
            raise ModelError(what, hint="give the function a domain of its own")


def _is_kept(function: onnx.FunctionProto, options: LoadOptions) -> bool:
    return f"{function.domain}::{function.name}" in options.claimed


def _inline(model: onnx.ModelProto, kept: list[Key]) -> onnx.ModelProto:
    """The model without calls to its functions, but for `kept` ones; ModelError if onnx refuses."""
    from onnx import inliner

    if kept:
        return inliner.inline_selected_functions(model, kept, exclude=True)
    # In a process of its own: onnx's C++ does not survive every damaged function.
    try:
        result = run_isolated(
            lambda m: inliner.inline_local_functions(m, convert_version=True), model
        )
    except RuntimeError as e:
        text = " ".join(str(e).split())[:300]
        raise ModelError(f"the model's functions cannot be inlined: {text}") from None
    left = [n for n in result.graph.node if (n.domain, n.op_type) in _keys(model)]
    if left:
        hint = "its opset may differ from the model's"
        what = f"function {left[0].domain}.{left[0].op_type} cannot be inlined"
        raise ModelError(what, hint=hint)
    return result


def _keys(model: onnx.ModelProto) -> set[Key]:
    """The (domain, name) of every function that the model defines; overloads count as one."""
    return {(f.domain, f.name) for f in model.functions}


def _inlined_size(model: onnx.ModelProto) -> int:
    """Nodes after inlining, computed without inlining; raises on recursion."""
    bodies = {(f.domain, f.name): list(_calls(f.node)) for f in model.functions}
    size: dict[Key, int] = {}
    for start in bodies:
        _measure(start, bodies, size)
    return sum(size.get(k, 1) for k in _calls(model.graph.node))


def _calls(nodes: object) -> Iterator[Key]:
    """Yield (domain, operator) of all nodes, those of bodies included."""
    for node in nodes:  # type: ignore[attr-defined]
        yield node.domain, node.op_type
        for inner in subgraphs(node):
            yield from _calls(inner.node)


def _measure(start: Key, bodies: dict[Key, list[Key]], size: dict[Key, int]) -> None:
    """Fill `size`, the nodes of a function with all it calls, for `start` and those it calls.

    ModelError for a function that calls itself.
    """
    stack, active = [start], {start}
    while stack:
        top = stack[-1]
        waiting = [k for k in bodies[top] if k in bodies and k not in size]
        if not waiting:
            size[top] = sum(size.get(k, 1) for k in bodies[top])
            active.discard(stack.pop())
        elif waiting[0] in active:
            what = f"function {waiting[0][0]}.{waiting[0][1]} calls itself"
            raise ModelError(what, f"function {top[0]}.{top[1]}")
        else:
            stack.append(waiting[0])
            active.add(waiting[0])
