# SPDX-License-Identifier: Apache-2.0
"""Whether normalise left a node for what the user said of it with `--keep` and `--regions`.

A node that another one takes in leaves no trace of its own; its `--keep` would be ignored. So each
node carries what was asked for through every rewrite, and is looked for afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.errors import UsageError, typed
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import all_nodes, original_name
from aot.load.marks import BACKEND_KEY, KEPT_KEY, REGION_KEY
from aot.partition.graph import read_by

#: Nodes around a kept one that are looked at when it is gone.
MOST_NEAR = 24


@dataclass(frozen=True, slots=True)
class Kept:
    """`--keep name=backend`: the operator of the node, the names of those around, nearest first."""

    name: str
    backend: str
    op_type: str
    near: tuple[str, ...]


def note_kept(
    graph: ir.Graph, keep: Mapping[str, str], named: Mapping[str, Sequence[ir.Node]]
) -> list[Kept]:
    """Write the names of `keep` into the metadata of their nodes, before rewrites; one record each.

    `keep` is `--keep`: backends by node name. `named` has the nodes that a name means, at least
    one; a node with several names carries them all, one per line. Rewrites pass the metadata on, so
    that `check_kept` finds which node a name became. A record has the neighbours of its first node,
    for the message of a name that no node carries any more.
    """
    found = []
    for name, backend in keep.items():
        for node in named[name]:
            old = str(node.metadata_props.get(KEPT_KEY, ""))
            node.metadata_props[KEPT_KEY] = f"{old}\n{name}" if old else name
        first = named[name][0]
        found.append(Kept(name, backend, first.op_type, tuple(_around(graph, first))))
    return found


def _around(graph: ir.Graph, node: ir.Node) -> Iterator[str]:
    """Yield names of nodes near `node`, nearest first: by the number of values that lie in between.

    The search ends with the ring in which MOST_NEAR nodes are reached.
    """
    seen, ring, count = {id(node)}, [node], 0
    while ring and count < MOST_NEAR:
        around: list[ir.Node] = []
        for n in ring:
            makers = [p for v in read_by(n) if (p := v.producer()) is not None]
            readers = [use.node for v in n.outputs for use in v.uses()]
            around += [p for p in (*makers, *readers) if p.graph is graph]
        ring = [n for n in {id(n): n for n in around}.values() if id(n) not in seen]
        seen.update(id(n) for n in ring)
        count += len(ring)
        yield from (name for n in ring if (name := original_name(n)))


def check_kept(model: ir.Model, kept: Sequence[Kept], regions: Collection[str]) -> list[UsageError]:
    """An error for each of `kept` and `regions` that no node of the normalised model stands for.

    What was merged into a neighbour that the user gives to the same backend is no error. Every node
    loses its note.
    """
    given: dict[str, set[str]] = {}
    left: dict[str, set[str]] = {}
    labels = set()
    for node in all_nodes(model.graph):
        backend = str(node.metadata_props.get(BACKEND_KEY, ""))
        for name in str(node.metadata_props.pop(KEPT_KEY, "")).splitlines():
            given.setdefault(name, set()).add(backend)
        left.setdefault(original_name(node), set()).add(backend)
        labels.add(str(node.metadata_props.get(REGION_KEY, "")))
    errors = [
        _gone(k, left)
        for k in kept
        if k.backend not in given.get(k.name, ()) and not _joined(k, left)
    ]
    return errors + [_empty(label) for label in regions if label not in labels]


def _joined(kept: Kept, left: Mapping[str, Collection[str]]) -> bool:
    """Whether the nearest node that is left has the same backend of the user's."""
    nearest = next((n for n in kept.near if n in left), None)
    return nearest is not None and kept.backend in left[nearest]


def _gone(kept: Kept, left: Mapping[str, Collection[str]]) -> UsageError:
    """The error for a node of `--keep` that normalising removed, with the nearest node that is
    left.
    """
    near = next((n for n in kept.near if n in left), "")
    what = (
        f"node {kept.name} ({kept.op_type}) is no node of its own after normalising: it became "
        "part of another node or of a constant, or did nothing"
    )
    hint = "`aotc explain` lists the nodes that are left"
    if near:
        option = typed("--keep", f"{near}={kept.backend}")
        hint = f"{option} gives the nearest node that is left to {kept.backend}"
    return UsageError(what, f"--keep {kept.name}={kept.backend}", hint)


def _empty(label: str) -> UsageError:
    """The error for a user's region of which normalising left no node."""
    what = f"region {label} is empty after normalising: none of its nodes is left"
    return UsageError(what, hint="`aotc explain` lists the nodes that are left")
