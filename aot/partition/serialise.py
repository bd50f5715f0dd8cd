# SPDX-License-Identifier: Apache-2.0
"""A partition as an ONNX model: one local function per region, who computes what as metadata.

Compiled again, with no `--backend`, it gives the same regions and kernels; onnxruntime runs it as
any other model. Constants stay initialisers of the graph and are inputs of the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import (
    CONTROL,
    DYNAMIC,
    NAME_KEY,
    all_nodes,
    original_name,
    subgraphs,
    title,
)
from aot.load.marks import BACKEND_KEY, PATTERN_KEY, REGION_KEY
from aot.npz import write_bytes
from aot.partition.export_control_flow import reopen
from aot.partition.graph import read_by
from aot.partition.opset import lowest_opset
from aot.partition.result import Partition, Region
from aot.shapes.dynamic.input_dims import dimensions_of, single
from aot.version import __version__

DOMAIN = "aot.partition"
#: Functions and nodes carry metadata from this version on.
IR_VERSION = 10


def serialise(model: ir.Model, partition: Partition, opset: int | None = None) -> onnx.ModelProto:
    """The partitioned, normalised `model` as ONNX; its values get back the names they had.

    `opset` forces the version of the standard operators; else it is the lowest in which each means
    the same. Raises ModelError, naming the node, if `opset` is below that or unknown.
    """
    _check_static(model.graph)
    reopen(model.graph, partition)
    # The lowest version that means the same lets older tools read the file.
    version = lowest_opset(model.graph, opset)
    _rename(model.graph)
    made = onnx.ModelProto(producer_name="aotc", producer_version=__version__)
    imports = {"": version}
    known = sorted(model.opset_imports.items())
    imports |= {d: v for d, v in known if d not in ("", "ai.onnx", CONTROL)}
    regions = partition.regions
    labels = _labels(regions)
    made.graph.name = str(model.graph.name or "model")
    ordered = list(_ordered(model.graph, partition))
    _interface(model.graph, [n for _, nodes in ordered for n in nodes], made.graph)
    # Values inside a region must not be seen outside; values that leave it are its outputs.
    readers = _readers(model.graph)
    patterns = {id(s.match.root.ir): s.pattern.name for r in regions for s in r.items}
    for region, nodes in ordered:
        if region is None:
            made.graph.node.extend(_marked(n) for n in nodes)
            continue
        label = labels[region.index]
        function = _function(nodes, region.backend, label, imports, readers, patterns)
        made.functions.append(function)
        call = onnx.helper.make_node(
            label, list(function.input), list(function.output), name=label, domain=DOMAIN
        )
        made.graph.node.append(call)
    if regions:
        imports[DOMAIN] = 1
    made.opset_import.extend(onnx.helper.make_opsetid(d, v) for d, v in imports.items())
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in imports.items() if d in ("", "ai.onnx.ml")]
    lowest = onnx.helper.find_min_ir_version_for(opsets)
    made.ir_version = max(IR_VERSION, lowest)
    return made


def _check_static(graph: ir.Graph) -> None:
    """UnsupportedError for what no ONNX operator says: sizes of values at their bounds."""
    for node in all_nodes(graph):
        if node.domain == DYNAMIC:
            what = f"{title(node)}: shapes that a run decides cannot be written as ONNX"
            pins = [single(d, list(graph.inputs)) for d in dimensions_of(graph)]
            hint = "" if pins else "leave out the nodes that make such shapes"
            raise UnsupportedError(what, hint=hint, add=pins)


def _labels(regions: Sequence[Region]) -> list[str]:
    """A name per region, all different: the user's, or the backend and a number."""
    found: list[str] = []
    for region in regions:
        first = region.items[0].match.root.ir
        wanted = str(first.metadata_props.get(REGION_KEY, "")) or f"{region.backend}_{region.index}"
        label = "".join(c if c.isalnum() or c in "._-" else "_" for c in wanted) or "region"
        while label in found:
            label += "_"
        found.append(label)
    return found


def _rename(graph: ir.Graph) -> None:
    """Give values and nodes the names they have in the user's file, as far as those are unique."""
    values = [*graph.inputs, *graph.outputs, *graph.initializers.values()]
    for body in subgraphs(graph):
        values += [*body.inputs, *body.initializers.values()]
    values += [v for n in all_nodes(graph) for v in n.outputs if v.name]
    _restore(list({id(v): v for v in values}.values()))
    _restore(list(all_nodes(graph)))


def _restore(things: Sequence[Any]) -> None:
    """Give `things` (values or nodes), in place, their names of the user's file, made unique by
    "_".
    """
    names = [original_name(t) for t in things]
    taken: dict[str, None] = {}
    final = []
    for thing, name in zip(things, names, strict=True):
        name = name or str(thing.name)
        while name in taken:
            name = f"{name}_" if name == thing.name else str(thing.name)
        taken.setdefault(name)
        final.append(name)
    for i, thing in enumerate(things):
        if thing.name != final[i]:
            # Two things may swap names, and onnx_ir refuses a name that is taken.
            thing.name = f"aot rename {i}"
    for i, thing in enumerate(things):
        if thing.name != final[i]:
            thing.name = final[i]


def _interface(graph: ir.Graph, nodes: Sequence[ir.Node], made: onnx.GraphProto) -> None:
    """Fill `made` with inputs, outputs, constants of `graph`, and types of values between its
    nodes.
    """

    def info(value: ir.Value) -> onnx.ValueInfoProto:
        """The name, type and shape of a value, as ONNX writes them."""
        assert value.dtype is not None and value.shape is not None
        return onnx.helper.make_tensor_value_info(
            str(value.name), int(value.dtype), [int(str(d)) for d in value.shape]
        )

    made.input.extend(info(v) for v in graph.inputs)
    made.output.extend(info(v) for v in graph.outputs)
    for value in graph.initializers.values():
        tensor = value.const_value
        assert tensor is not None
        # A copy: the initializer of the model may be mapped from a file that goes away.
        held = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=value.name)
        made.initializer.append(ir.serde.serialize_tensor(held))
    between = [v for n in nodes for v in n.outputs if v.name and not v.is_graph_output()]
    # Types between nodes save readers the inference of shapes, which knows no vendor's operators.
    made.value_info.extend(info(v) for v in between if v.dtype is not None and v.shape is not None)


def _ordered(
    graph: ir.Graph, partition: Partition
) -> Iterator[tuple[Region | None, list[ir.Node]]]:
    """Yield (region, its nodes) and (None, nodes of portable C), in the order in which they run."""
    position = {id(n): i for i, n in enumerate(graph)}
    regions = {r.index: r for r in partition.regions}
    open_: tuple[Region | None, list[ir.Node]] | None = None
    for item in partition.items:
        nodes = sorted((n.ir for n in item.match.nodes), key=lambda n: position[id(n)])
        region = regions.get(item.region)
        if open_ is not None and open_[0] is region:
            open_[1].extend(nodes)
            continue
        if open_ is not None:
            yield open_
        open_ = (region, nodes)
    if open_ is not None:
        yield open_


def _marked(node: ir.Node, backend: str = "c", pattern: str = "") -> onnx.NodeProto:
    """The node as ONNX writes it, with the backend and the pattern that compute it among its
    properties.

    Properties of aotc's own are left out; "" for `backend` or `pattern` sets none, as inside a
    function, whose call says it.
    """
    proto: onnx.NodeProto = ir.serde.serialize_node(node)
    own = [(p.key, p.value) for p in proto.metadata_props]
    del proto.metadata_props[:]
    for key, value in own:
        if key not in (NAME_KEY, BACKEND_KEY, REGION_KEY, PATTERN_KEY):
            proto.metadata_props.add(key=key, value=value)
    if backend:
        proto.metadata_props.add(key=BACKEND_KEY, value=backend)
    if pattern:
        proto.metadata_props.add(key=PATTERN_KEY, value=pattern)
    return proto


def _function(
    nodes: Sequence[ir.Node],
    backend: str,
    label: str,
    imports: dict[str, int],
    readers: Mapping[int, Sequence[int]],
    patterns: Mapping[int, str],
) -> onnx.FunctionProto:
    """A region: its inputs in order of first use, its outputs in order of computation.

    `readers` are the nodes that read each value of the graph, `patterns` what ends at a node, both
    by id().
    """
    # Ids, not names: names are unique in a graph only, and functions have their own.
    inside = {id(v) for n in nodes for v in n.outputs}
    covered = {id(n) for n in nodes}
    read = {id(v): v for n in nodes for v in read_by(n) if id(v) in readers and id(v) not in inside}
    made = [
        v
        for n in nodes
        for v in n.outputs
        if v.name and (v.is_graph_output() or any(r not in covered for r in readers[id(v)]))
    ]
    protos = [_marked(n, "", patterns.get(id(n), "")) for n in nodes]
    used = {n.domain for n in protos}
    function = onnx.helper.make_function(
        DOMAIN,
        label,
        [str(v.name) for v in read.values()],
        [str(v.name) for v in made],
        protos,
        [onnx.helper.make_opsetid(d, v) for d, v in imports.items() if d in used or not d],
    )
    function.metadata_props.add(key=BACKEND_KEY, value=backend)
    function.metadata_props.add(key=REGION_KEY, value=label)
    return function


def _readers(graph: ir.Graph) -> dict[int, list[int]]:
    """id() of the nodes that read each value of the graph, if only in a graph of their own."""
    own = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    readers: dict[int, list[int]] = {id(v): [] for v in own}
    for node in graph:
        for value in read_by(node):
            if id(value) in readers:
                readers[id(value)].append(id(node))
    return readers


def save(model: onnx.ModelProto, path: Any) -> None:
    """Write the model in one step. Raises AotError if it cannot be written."""
    from pathlib import Path

    size = model.ByteSize()
    if size >= 1 << 31:
        raise ModelError(
            f"the partitioned model has {size} bytes (limit 2 GiB)",
            hint="partition the model in parts",
        )
    write_bytes(Path(path), model.SerializeToString(deterministic=True))
