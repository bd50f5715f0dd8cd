# SPDX-License-Identifier: Apache-2.0
"""Independent proof that a partition is sound; runs in every compile, shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from aot.errors import InternalError
from aot.ir.deferred_import import ir
from aot.ir.node_traits import moves_no_byte
from aot.partition.result import Partition, Selected
from aot.vendor.backend import Backend
from aot.vendor.limits import UNLIMITED
from aot.vendor.match import ValueRef


def check_partition(
    graph: ir.Graph, partition: Partition, backends: Sequence[Backend] = ()
) -> None:
    """Raise InternalError unless every claim of a partition holds.

    Every node is in exactly one match; a vendor's matches pass its own checks; every region has
    one vendor and is within the limits of `backends`; what the user asks for is done; items are in
    topological order with regions contiguous; the quotient graph, each region one vertex and each
    portable match another, has no cycle; the count is as certified.
    """
    _once(graph, partition.items)
    _supported(partition.items)
    # With `--offload-limit` only some regions are left, so a user's region may be missing.
    if len({s.region for s in partition.items if s.region >= 0}) == partition.certificate.count:
        _check_user_regions(partition.items)
    for backend in (b for b in backends if b.limits != UNLIMITED):
        _within_limits(graph, partition, backend)
    group = _groups(partition.items)
    needs = _needs(partition.items)
    _acyclic(group, needs)
    _ordered(group, needs)
    offloaded = sorted({s.region for s in partition.items if s.region >= 0})
    certificate = partition.certificate
    # The command stream and the manifest count on numbers without gaps.
    if offloaded != list(range(len(offloaded))):
        raise InternalError(f"regions are numbered {offloaded}")
    if not certificate.lower_bound <= certificate.count or len(offloaded) > certificate.count:
        raise InternalError(f"{len(offloaded)} regions, but the certificate says {certificate}")
    if certificate.optimal and certificate.count != certificate.lower_bound:
        raise InternalError(f"{certificate.count} regions are called the fewest possible")


def _within_limits(graph: ir.Graph, partition: Partition, backend: Backend) -> None:
    """Raise InternalError unless each region of `backend` keeps its limits, in the order in which
    it runs.

    The counts are taken anew from the graph: values that enter and leave, operators, bytes of
    constants, and bytes held at a time. Views are not counted.
    """
    limits = backend.limits
    results = {id(v) for v in graph.outputs}
    for region in partition.regions:
        if region.backend != backend.name:
            continue
        nodes = [n.ir for s in region.items for n in s.match.nodes]
        counted = [s for s in region.items if not _is_view(s)]
        inside = {id(n) for n in nodes}
        made = {id(v): v for n in nodes for v in n.outputs}
        read = {id(v): v for n in nodes for v in n.inputs if v is not None and id(v) not in made}
        constants = {k: v for k, v in read.items() if v.const_value is not None}
        entering = {k: v for k, v in read.items() if k not in constants}
        leaving = {
            k: v
            for k, v in made.items()
            if k in results or any(id(use.node) not in inside for use in v.uses())
        }
        for what, most, found in (
            ("inputs", limits.inputs, len(entering)),
            ("outputs", limits.outputs, len(leaving)),
            ("operators", limits.nodes, sum(len(s.match.nodes) for s in counted)),
            ("bytes of constants", limits.constant_bytes, _bytes(constants.values())),
            ("bytes at a time", limits.live_bytes, _most_held(region.items, entering, leaving)),
        ):
            if most is not None and found > most:
                raise InternalError(f"region {region.index} has {found} {what}, not {most}")
        if limits.connected and not _is_connected(region.items):
            raise InternalError(f"region {region.index} is not connected")
        # A backend with `whole` takes everything that computes, or nothing.
        whole = [s for s in partition.items if not _is_view(s)]
        if limits.whole and len(counted) != len(whole):
            raise InternalError(f"region {region.index} is not the whole graph")


def _is_view(item: Selected) -> bool:
    """Whether an item is a view, which is nobody's."""
    node = item.match.root.ir
    return len(item.match.nodes) == 1 and moves_no_byte([node])


def _bytes(values: Iterable[ir.Value]) -> int:
    return sum(ValueRef(v).dtype.bits * math.prod(ValueRef(v).shape) + 7 >> 3 for v in values)


def _most_held(
    items: Sequence[Selected],
    entering: Mapping[int, ir.Value],
    leaving: Mapping[int, ir.Value],
) -> int:
    """The most bytes of values that a region holds while one of its matches runs.

    Held are values that enter until their last reader has run, results that leave from their match
    on, and every other result until its last reader. `entering` and `leaving` are values by their
    id().
    """
    most, born = 0, dict[int, ir.Value]()
    for at, s in enumerate(items):
        now = {id(v.ir): v.ir for v in s.match.outputs()}
        born.update(now)
        later = {id(v) for i in items[at:] for n in i.match.nodes for v in n.ir.inputs}
        held = {k: v for k, v in entering.items() if k in later} | now
        held |= {k: v for k, v in born.items() if k in later or k in leaving}
        most = max(most, _bytes(held.values()))
    return most


def _is_connected(items: Sequence[Selected]) -> bool:
    """Whether values made in the region join all of its matches."""
    parts = [{id(v) for n in s.match.nodes for v in n.ir.outputs} for s in items]
    for s in items:
        values = {id(v) for n in s.match.nodes for v in (*n.ir.inputs, *n.ir.outputs)}
        touched = [p for p in parts if p & values]
        parts = [p for p in parts if not p & values] + [set[int]().union(*touched)]
    return len(parts) == 1


Group = tuple[str, int]


def _once(graph: ir.Graph, items: Sequence[Selected]) -> None:
    """Raise InternalError unless the matches compute each node of the graph once, and no other
    node.
    """
    count: dict[int, int] = {}
    for s in items:
        for node in s.match.nodes:
            count[id(node.ir)] = count.get(id(node.ir), 0) + 1
    for n in graph:
        times = count.pop(id(n), 0)
        if times != 1:
            raise InternalError(f"node {n.name} is computed {times} times")
    if count:
        raise InternalError(f"{len(count)} nodes of a match are not in the graph")


def _supported(items: Sequence[Selected]) -> None:
    """Raise InternalError unless each match is in a region exactly if a vendor has it, and may be
    there.

    A region belongs to one vendor, and the checks of a match's pattern refuse nothing.
    """
    owner: dict[int, str] = {}
    for s in items:
        if s.backend != s.pattern.backend or (s.region >= 0) != (s.backend not in ("c", "none")):
            raise InternalError(f"{s.name}: {s.pattern.backend}.{s.pattern.name} in {s.region}")
        if s.region < 0:
            continue
        if owner.setdefault(s.region, s.backend) != s.backend:
            raise InternalError(f"region {s.region} has two vendors")
        reasons = s.pattern.refusals(s.match)
        if reasons:
            raise InternalError(f"{s.name} was given to {s.backend}, which refuses: {reasons[0]}")


def _check_user_regions(items: Sequence[Selected]) -> None:
    """Raise InternalError unless the backend that the user gave a node has it, in the region of its
    label.

    Nodes with one label are in one region, which has no node with another label or none.
    """
    regions: dict[int, set[str]] = {}
    places: dict[str, set[int]] = {}
    for s in (i for i in items if not _is_view(i)):
        for node in s.match.nodes:
            backend = node.ir.metadata_props.get("aot.backend", "")
            label = node.ir.metadata_props.get("aot.region", "")
            # A survey gives nodes without a backend to `none`.
            if s.backend == "none":
                continue
            if backend and backend != s.backend:
                raise InternalError(f"{node.name} is to be computed by {backend}, not {s.backend}")
            if s.region >= 0:
                regions.setdefault(s.region, set()).add(str(label))
                places.setdefault(str(label), set()).add(s.region)
    for region, labels in regions.items():
        if len(labels) > 1:
            raise InternalError(f"region {region} mixes the user's regions {sorted(labels)}")
    for label, numbers in places.items():
        if label and len(numbers) > 1:
            raise InternalError(f"the user's region {label} became {len(numbers)} regions")


def _groups(items: Sequence[Selected]) -> list[Group]:
    return [("region", s.region) if s.region >= 0 else ("alone", i) for i, s in enumerate(items)]


def _needs(items: Sequence[Selected]) -> list[list[int]]:
    """Indices of the items whose values each item reads."""
    maker = {id(v): i for i, s in enumerate(items) for n in s.match.nodes for v in n.ir.outputs}
    needs = []
    for i, s in enumerate(items):
        values = [v for n in s.match.nodes for v in _reads(n.ir)]
        needs.append([j for v in values if (j := maker.get(id(v), i)) != i])
    return needs


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node reads, inside its bodies, too: their outputs and their nodes'
    reads.
    """
    yield from (v for v in node.inputs if v is not None)
    for a in node.attributes.values():
        if a.type.name not in ("GRAPH", "GRAPHS"):
            continue
        for body in [a.value] if a.type.name == "GRAPH" else list(a.value):
            yield from body.outputs
            for inner in body:
                yield from _reads(inner)


def _acyclic(group: Sequence[Group], needs: Sequence[Sequence[int]]) -> None:
    """Raise InternalError if the groups need each other in a circle.

    `group[i]` is the group of item i, `needs[i]` lists items that item i reads from.
    """
    needed: dict[Group, set[Group]] = {g: set() for g in group}
    for i, before in enumerate(needs):
        needed[group[i]].update(group[j] for j in before if group[j] != group[i])
    try:
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        stuck = sorted(set(error.args[1]))
        raise InternalError(f"the graph of regions has a cycle through {stuck[:4]}") from error


def _ordered(group: Sequence[Group], needs: Sequence[Sequence[int]]) -> None:
    """Raise InternalError if an item comes before one that it needs, or if a group is not
    contiguous.
    """
    for i, before in enumerate(needs):
        for j in before:
            if j > i:
                raise InternalError(f"item {i} of the partition needs item {j}, which comes later")
    ended: set[Group] = set()
    for i, g in enumerate(group):
        if i and g != group[i - 1]:
            ended.add(group[i - 1])
        if g in ended:
            raise InternalError(f"{g[0]} {g[1]} is not contiguous")
