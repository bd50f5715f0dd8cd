# SPDX-License-Identifier: Apache-2.0
"""The user's own partition: which backend computes a node, which nodes are one region.

It comes from the model's metadata (see `aot.load.marks`), from `--keep` and `--regions`, and beats
what backends would choose. After loading it is metadata of the nodes, which every rewrite of
`normalise` carries over: a node takes the marks of the node it replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot.errors import AotError, UsageError, raise_all
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import original_name
from aot.load.marks import BACKEND_KEY, PATTERN_KEY, REGION_KEY
from aot.options import check_regions
from aot.partition.graph import read_by
from aot.partition.kept import Kept, note_kept
from aot.textfile import read_toml

PORTABLE = "c"


@dataclass(frozen=True, slots=True)
class Mark:
    """Who computes a node ("" = anybody), the name of its region ("" = none).

    `pattern` is the backend's pattern that ends there, which is followed where it exists.
    """

    backend: str = ""
    region: str = ""
    pattern: str = ""


def mark_of(node: ir.Node) -> Mark:
    """The user's word on a node."""
    backend = str(node.metadata_props.get(BACKEND_KEY, ""))
    region = str(node.metadata_props.get(REGION_KEY, ""))
    pattern = str(node.metadata_props.get(PATTERN_KEY, "")) if backend else ""
    return Mark(backend, "" if backend == PORTABLE else region, pattern)


def user_backends(keep: Mapping[str, str], regions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Backends that the options name."""
    return [*keep.values(), *(r["backend"] for r in regions.values() if r.get("backend"))]


def annotate(
    model: ir.Model,
    keep: Mapping[str, str],
    regions: Mapping[str, Mapping[str, Any]],
    preferred: str = "",
) -> list[Kept]:
    """Note on the nodes of a loaded model what the options ask for.

    `keep` maps a node, by its ONNX name or the name of a value it computes, to a backend.
    A region has a `backend` (else `preferred`) and `nodes`, or `begin` and `end`: names of values;
    it is what depends on one of `begin` and is needed for one of `end`, each absent list meaning
    the inputs and the outputs of the model. Returns what `check_kept` looks for after normalising.
    Raises UsageError for names that do not exist.
    """
    named = _by_name(model.graph)
    # All wrong names are told at once: a user's file often has several.
    errors: list[AotError] = []
    given: dict[int, str] = {}
    for label, region in regions.items():
        try:
            for node in _members(model.graph, label, region, named):
                other = given.setdefault(id(node), label)
                if other != label:
                    what = f"node {original_name(node)} is in two regions: {other} and {label}"
                    raise UsageError(what, f"region {label}")
                node.metadata_props[REGION_KEY] = label
                node.metadata_props[BACKEND_KEY] = _backend(region, label, preferred)
        except UsageError as error:
            errors.append(error)
    for name, backend in keep.items():
        if name not in named:
            errors.append(_unknown(f"--keep {name}={backend}", "node", name, named))
            continue
        for node in named[name]:
            # A single node's backend is more exact than the region around it, so the node leaves
            # the region.
            if node.metadata_props.get(BACKEND_KEY, backend) != backend:
                node.metadata_props.pop(REGION_KEY, None)
                node.metadata_props.pop(PATTERN_KEY, None)
            node.metadata_props[BACKEND_KEY] = backend
    raise_all(errors)
    _complete(model.graph, preferred)
    return note_kept(model.graph, keep, named)


def _backend(region: Mapping[str, Any], label: str, preferred: str) -> str:
    """The backend of the user's region `label`: its own, else `preferred`; UsageError if both are
    empty.
    """
    backend = str(region.get("backend", "") or preferred)
    if not backend:
        hint = "give it a `backend`, or name one with --backend"
        raise UsageError(f"region {label} has no backend", hint=hint)
    return backend


def _complete(graph: ir.Graph, preferred: str) -> None:
    """A region in the metadata that names no backend is the preferred one's."""
    for node in graph:
        label = node.metadata_props.get(REGION_KEY)
        if label and not node.metadata_props.get(BACKEND_KEY):
            node.metadata_props[BACKEND_KEY] = _backend({}, str(label), preferred)


def _by_name(graph: ir.Graph) -> dict[str, list[ir.Node]]:
    """Nodes by ONNX name, and by the names of values that they compute.

    The name of a value stands for its node unless a node with that very name computes it.
    """
    named: dict[str, list[ir.Node]] = {}
    for node in graph:
        name = original_name(node)
        if name:
            named.setdefault(name, []).append(node)
    for node in graph:
        for value in node.outputs:
            name = original_name(value) if value.name else ""
            if name and all(node is not n for n in named.get(name, ())):
                named.setdefault(name, [node])
    return named


def _members(
    graph: ir.Graph, label: str, region: Mapping[str, Any], named: Mapping[str, list[ir.Node]]
) -> list[ir.Node]:
    """The nodes of the user's region called `label`, in the order of the graph or of its list.

    A region lists `nodes`, or it is everything on paths from the values `begin` to the values
    `end`; inputs and outputs of the graph stand for an end that is not given. UsageError for a name
    that the model lacks and for a region without a node.
    """
    if "nodes" in region:
        missing = [n for n in region["nodes"] if n not in named]
        if missing:
            raise _unknown(f"region {label}", "node", missing[0], named)
        return [node for n in region["nodes"] for node in named[n]]
    values = {original_name(v): v for v in _values(graph)}
    for name in (*region.get("begin", ()), *region.get("end", ())):
        if name not in values:
            raise _unknown(f"region {label}", "value", name, values)
    # A side that is not given is open: the model's own inputs or outputs stand there.
    start = [values[n] for n in region.get("begin", ())] or list(graph.inputs)
    stop = [values[n] for n in region.get("end", ())] or list(graph.outputs)
    after, before = _reached(graph, start), _needed(graph, stop)
    found = [n for n in graph if id(n) in after and id(n) in before]
    if not found:
        what = f"region {label} is empty: no path leads from {_names(start)} to {_names(stop)}"
        raise UsageError(what, hint="`begin` and `end` are names of values")
    return found


def _names(values: Sequence[ir.Value]) -> str:
    return ", ".join(original_name(v) for v in values[:3]) + (", …" if len(values) > 3 else "")


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the inputs of the graph, then every named result of its nodes."""
    yield from graph.inputs
    for node in graph:
        yield from (v for v in node.outputs if v.name)


def _reached(graph: ir.Graph, start: Sequence[ir.Value]) -> set[int]:
    """id() of the nodes that depend on one of `start`."""
    known = {id(v) for v in start}
    found: set[int] = set()
    for node in graph:
        if any(id(v) in known for v in read_by(node)):
            found.add(id(node))
            known.update(id(v) for v in node.outputs)
    return found


def _needed(graph: ir.Graph, stop: Sequence[ir.Value]) -> set[int]:
    """id() of the nodes that one of `stop` depends on."""
    known = {id(v) for v in stop}
    found: set[int] = set()
    for node in reversed(list(graph)):
        if any(id(v) in known for v in node.outputs):
            found.add(id(node))
            known.update(id(v) for v in read_by(node))
    return found


def _unknown(where: str, what: str, name: str, known: Collection[str]) -> UsageError:
    """The error for the name of a `what` (node, value) that the model lacks, with the nearest names
    known.
    """
    # Only an error needs it.
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 3)
    hint = f"there is {', '.join(near)}" if near else "`aotc explain` lists the nodes"
    return UsageError(f"the model has no {what} called {name!r}", where, hint)


def regions_from_toml(path: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(regions, keep) of a `--regions` file. Raises UsageError for what it must not hold.

    [regions.head]          # a name of your own
    backend = "dnnl"
    begin = ["pool5"]       # values; or nodes = ["conv1", "relu1"]
    end = ["prob"]

    [keep]
    conv1 = "c"
    """
    from pathlib import Path

    read = read_toml(Path(path), "--regions", UsageError)
    unknown = sorted(set(read) - {"regions", "keep"})
    if unknown:
        raise UsageError(f"{path}: unknown table {unknown[0]!r}", hint="known: regions, keep")
    regions, keep = read.get("regions", {}), read.get("keep", {})
    check_regions(regions, keep)
    return regions, keep
