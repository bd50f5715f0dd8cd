# SPDX-License-Identifier: Apache-2.0
"""The records of a partition: matches, regions, bodies, with their text form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aot.ir.deferred_import import ir
from aot.partition.cost.pricing import SEVERAL_FORMS, Pricing
from aot.partition.covering import Refusal
from aot.partition.graph import is_view
from aot.partition.regions import RegionCertificate
from aot.vendor.backend import Pattern
from aot.vendor.match import Match

NO_PRICING = Pricing()


NO_REGIONS = RegionCertificate(0, 0, True, ())


@dataclass(frozen=True, slots=True)
class Selected:
    """A match that will be lowered by `pattern`; `region` is -1 for portable C."""

    pattern: Pattern
    match: Match
    backend: str
    region: int = -1

    @property
    def is_view(self) -> bool:
        """Whether this is a view, which no backend computes."""
        return is_view(self.match)

    @property
    def name(self) -> str:
        """The name of the node that ends the match."""
        return self.match.root.name


@dataclass(frozen=True, slots=True)
class Region:
    """Region `index` of a vendor: its matches in the order they run."""

    index: int
    backend: str
    items: tuple[Selected, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes inside, in the order they run."""
        return tuple(n.name for s in self.items for n in reversed(s.match.nodes))


@dataclass(frozen=True, slots=True)
class BodyPart:
    """The partition of a body: attribute `label` of the control-flow node called `node`."""

    node: str
    label: str
    graph: ir.Graph
    partition: Partition


@dataclass(frozen=True, slots=True)
class Partition:
    """Every node of the graph in exactly one selected match.

    The order is topological and every region is contiguous in it. `certificate` says how near to
    the fewest regions are; with `--offload-limit` it speaks of all regions, kept or not.
    `bodies` are those of control flow, the numbers of whose regions go on from these.
    """

    items: tuple[Selected, ...]
    refusals: tuple[Refusal, ...]
    certificate: RegionCertificate = NO_REGIONS
    pricing: Pricing = NO_PRICING
    bodies: tuple[BodyPart, ...] = ()

    def tree(self) -> Iterator[Partition]:
        """The partition and those of all bodies, each before those within it."""
        yield self
        for body in self.bodies:
            yield from body.partition.tree()

    @property
    def regions(self) -> tuple[Region, ...]:
        """The vendors' regions in the order they run."""
        groups: dict[int, list[Selected]] = {}
        for s in self.items:
            if s.region >= 0:
                groups.setdefault(s.region, []).append(s)
        return tuple(Region(r, g[0].backend, tuple(g)) for r, g in sorted(groups.items()))

    def text(self) -> str:
        """The partition as text: a line per match, per refusal, and about regions and cost; bodies
        indented.
        """
        lines = []
        for s in self.items:
            nodes = " + ".join(n.name for n in reversed(s.match.nodes))
            region = f" region {s.region}" if s.region >= 0 else ""
            maker = "a view" if s.is_view else f"{s.backend}.{s.pattern.name}"
            lines.append(f"{nodes}: {maker}{region}")
        lines += [f"{r.node}: {r.source} refused: {r.reason}" for r in self.refusals]
        if self.certificate.count:
            kept = len(self.regions)
            limited = f", the first {kept} offloaded" if kept < self.certificate.count else ""
            lines.append(self.certificate.text() + limited)
        if self.pricing.prices:
            lines.append(self.pricing.text())
        for body in self.bodies:
            lines.append(f"{body.label} of {body.node}:")
            lines += [f"  {line}" for line in body.partition.text().splitlines()]
        return "\n".join(lines) + "\n"


def cheaper(
    first: tuple[ir.Model, Partition], second: tuple[ir.Model, Partition]
) -> tuple[ir.Model, Partition]:
    """The form of the model that costs less; it is proven only if the other form is, too."""
    prices = first[1].pricing, second[1].pricing
    better = bool(prices[1].prices) and prices[1].total < prices[0].total
    (model, partition), rest = (second, prices[0]) if better else (first, prices[1])
    if rest.prices and not rest.optimal:
        partition = replace(partition, pricing=partition.pricing.doubting(SEVERAL_FORMS))
    return model, partition
