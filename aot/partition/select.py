# SPDX-License-Identifier: Apache-2.0
"""Choice by priority: backends in the user's order, larger patterns first, portable C last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aot.errors import AotError, BackendError, UnsupportedError, raise_all
from aot.partition.match import Match, NodeRef
from aot.partition.pattern import root_ops
from aot.vendor.backend import Backend, Pattern

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Selected:
    """A match that will be lowered by `pattern`; `region` is -1 for portable C."""

    pattern: Pattern
    match: Match
    backend: str
    region: int = -1

    @property
    def name(self) -> str:
        """The name of the node that ends the match."""
        return self.match.root.name


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why `backend` does not compute a node."""

    node: str
    op_type: str
    backend: str
    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Every node of the graph in exactly one selected match, in topological order."""

    items: tuple[Selected, ...]
    refusals: tuple[Refusal, ...]

    def text(self) -> str:
        """One line per match, one per refusal."""
        lines = []
        for s in self.items:
            nodes = " + ".join(n.name for n in reversed(s.match.nodes))
            region = f" region {s.region}" if s.region >= 0 else ""
            lines.append(f"{nodes}: {s.backend}.{s.pattern.name}{region}")
        lines += [f"{r.node}: {r.backend}.{r.pattern} refused: {r.reason}" for r in self.refusals]
        return "\n".join(lines) + "\n"


def select(graph: ir.Graph, backends: Sequence[Backend]) -> Partition:
    """Cover `graph` with matches of `backends`, the first named winning.

    Precondition: the graph is normalised and topologically sorted. Raises UnsupportedError that
    gathers every node no backend takes, with the reasons.
    """
    nodes = list(graph)
    position = {id(n): i for i, n in enumerate(nodes)}
    owner: dict[int, Selected] = {}
    refusals: list[Refusal] = []
    regions = 0
    for backend in backends:
        for pattern in backend.ordered():
            roots = set(root_ops(pattern.graph))
            for node in nodes:
                if (node.domain, node.op_type) not in roots or id(node) in owner:
                    continue
                match = _try(backend, pattern, node, refusals)
                if match is None or any(id(n.ir) in owner for n in match.nodes):
                    continue
                region = -1 if backend.name == "c" else regions
                regions += region >= 0
                chosen = Selected(pattern, match, backend.name, region)
                owner.update((id(n.ir), chosen) for n in match.nodes)
    raise_all(_unsupported(n, backends, refusals) for n in nodes if id(n) not in owner)
    unique = {id(s): s for n in nodes if (s := owner[id(n)])}
    items = sorted(unique.values(), key=lambda s: position[id(s.match.root.ir)])
    taken = {n.name for s in items if s.backend != "c" for n in s.match.nodes}
    kept = tuple(r for r in refusals if r.backend != "c" and r.node not in taken)
    return Partition(tuple(items), kept)


def _try(
    backend: Backend, pattern: Pattern, node: ir.Node, refusals: list[Refusal]
) -> Match | None:
    match = pattern.match(node)
    if match is None:
        return None
    try:
        reasons = pattern.refusals(match)
    except AotError:
        raise
    except Exception as error:
        raise BackendError(
            f"{backend.name}.{pattern.name}: its check raised {type(error).__name__}: {error}",
            f"node {NodeRef(node).onnx_name} ({node.op_type})",
            "this is a defect of the backend, not of the model",
        ) from error
    if reasons:
        name = str(node.name)
        refusals.extend(Refusal(name, node.op_type, backend.name, pattern.name, r) for r in reasons)
        return None
    return match


def _unsupported(
    node: ir.Node, backends: Sequence[Backend], refusals: list[Refusal]
) -> UnsupportedError:
    ref = NodeRef(node)
    own = [r for r in refusals if r.node == ref.name and r.backend == backends[-1].name]
    # The pattern of the single operator says most; longer patterns come earlier in the list.
    why = own[-1].reason if own else "no backend has this operator"
    op = node.op_type if not node.domain else f"{node.domain}.{node.op_type}"
    return UnsupportedError(
        f"node {ref.onnx_name} ({op}): {why}",
        hint="" if own else "`aotc ops` lists the operators of this version",
    )
