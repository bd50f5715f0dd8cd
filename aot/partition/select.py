# SPDX-License-Identifier: Apache-2.0
"""Choice by priority: backends in the user's order, larger patterns first, portable C last.

Matches of vendors are then merged into regions (see `regions`), and the result checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aot.errors import AotError, UnsupportedError, raise_all
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import NAME_KEY, WHY_KEY
from aot.ir.node_traits import moves_no_byte
from aot.partition.annotate import mark_of
from aot.partition.check import check_partition
from aot.partition.cost.costs import Costs
from aot.partition.cost.pricing import LIMITED, Pricing
from aot.partition.cost.tiles import cheapest
from aot.partition.covering import FREE, PORTABLE, Cover, Refusal
from aot.partition.graph import dependencies, is_view, node_dependencies
from aot.partition.limits import Rule
from aot.partition.no_match_reasons import no_match_reasons
from aot.partition.region_rules import not_whole, rules_for
from aot.partition.region_search import in_order
from aot.partition.regions import RegionCertificate, Regions, merge_regions, quotient_order
from aot.partition.result import Partition, Selected
from aot.partition.user_regions import merge_around, prove_convex
from aot.partition.views import Chosen, made_inside, without_last
from aot.shapes.cures import YOURS, binds
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import OpPat, Var

NO_BACKEND = "none"
Groups = Mapping[int, str]
NO_GROUPS: Groups = {}


def select(
    graph: ir.Graph,
    backends: Sequence[Backend],
    offload_limit: int | None = None,
    survey: bool = False,
    marked_only: Collection[str] = (),
    costs: Costs | None = None,
) -> Partition:
    """Cover `graph` with matches of `backends`, the first named winning.

    What the user says of a node (`annotate`) comes first; the backends named in `marked_only` get
    nothing else. With `costs` the partition is the cheapest one found instead.
    `offload_limit` keeps only that many regions, the first in the order they run; what the others
    held goes to portable C. With `survey` a node that no backend supports is given to the backend
    `none`, and every reason is kept: for reading, not for lowering (nothing is priced then).
    Precondition: the graph is normalised and topologically sorted.
    Raises UnsupportedError that gathers every node no backend supports, with the reasons, and
    BackendError naming vendor, pattern and node when a backend's code raises.
    """
    cover = Cover(graph)
    _check_convex(cover)
    filling = _Filling(backends, marked_only, survey)
    for backend in backends:
        # Portable C comes last, when every refusal of the vendors is known.
        if survey and backend is backends[-1]:
            cover.remember(no_match_reasons(cover, backends[:-1], marked_only))
        cover.match(backend, backend.name in marked_only)
    complete = not cover.missing()
    filling.fill(cover)
    pricing = Pricing()
    if costs is None or not complete:
        chosen, regions, certificate = _with_regions(cover, filling)
    else:
        cover, chosen, regions, certificate, pricing = _cheapest(graph, cover, filling, costs)
    # What is beyond the limit goes back to portable C, which may then take several nodes at once.
    if offload_limit is not None and offload_limit < certificate.count:
        for (pattern, match), region in zip(chosen, regions, strict=True):
            if region >= offload_limit:
                cover.give_back(pattern, match)
        for backend in backends:
            if backend.name == PORTABLE:
                cover.match(backend, freely=True)
        raise_all(_unsupported(n, backends, cover.refusals) for n in cover.missing())
        chosen, regions = _renumbered(cover, chosen, regions, offload_limit)
        pricing = pricing.doubting(LIMITED) if pricing.prices else pricing
    items = _in_order(chosen, regions)
    nobodys = (PORTABLE, NO_BACKEND)
    # A node that somebody took needs no reason; portable C's reasons matter where nobody did.
    matched = {n.name for s in items if s.backend not in nobodys for n in s.match.nodes}
    open_ = {n.name for s in items if s.backend == NO_BACKEND for n in s.match.nodes}
    kept = [
        r
        for r in cover.refusals
        if r.node not in matched and (r.backend != PORTABLE or r.node in open_)
    ]
    partition = Partition(tuple(items), tuple(kept), certificate, pricing)
    # The checker knows nothing of how the partition was found.
    check_partition(graph, partition, backends)
    return partition


@dataclass(frozen=True, slots=True)
class _Filling:
    """Who computes the nodes that nobody has yet: `backends` in order, as `select` says."""

    backends: Sequence[Backend]
    marked_only: Collection[str]
    survey: bool

    def fill(self, cover: Cover) -> None:
        """Offer the nodes that nobody computes yet to each backend in order, and note in `cover`
        who takes which.

        A backend in `marked_only` gets only nodes that the user gave it by name. In a survey the
        nodes that are left go to the backend `none`, also nodes that the user gave to another
        backend. Raises one UnsupportedError that gathers every node that nobody computes, with the
        reasons of all backends.
        """
        for backend in self.backends:
            cover.match(backend, backend.name in self.marked_only)
        if self.survey:
            cover.match(_no_backend(cover.missing()), freely=True)
        raise_all(_unsupported(n, self.backends, cover.refusals) for n in cover.missing())


Merged = tuple[Chosen, list[int], RegionCertificate]


def _cheapest(
    graph: ir.Graph, preferred: Cover, filling: _Filling, costs: Costs
) -> tuple[Cover, Chosen, list[int], RegionCertificate, Pricing]:
    """The cheapest of the partitions tried: the best of the search, and that of every vendor alone.

    `preferred` is the cover by priority. Regions of the search that no merge can keep are cut, so
    the partition made of its solution may cost more, and each is priced when it is ready.
    """
    backends, marked_only = filling.backends, filling.marked_only
    tiles, solution, cover, groups = cheapest(graph, backends, marked_only, costs)
    covers = [(cover, groups), (cover, NO_GROUPS), (preferred, NO_GROUPS)]
    # Every vendor alone is tried too, so that the result is not worse than the best of these.
    for first in backends:
        alone = Cover(graph)
        for backend in (first, *backends):
            others = backend is not first and backend.name != PORTABLE
            alone.match(backend, others or backend.name in marked_only)
        covers.append((alone, NO_GROUPS))
    bound = solution.bound if solution is not None else 0.0
    best: tuple[float, Cover, Merged] | None = None
    for tried, own in ((c, groups) for c, groups in covers if not c.missing()):
        found = _with_regions(tried, filling, own)
        total = tiles.total(graph, _in_order(found[0], found[1]))
        if best is None or total < best[0]:
            best = total, tried, found
        # The bound is met: no other partition can be cheaper.
        if best[0] <= bound * (1 + 1e-9):
            break
    assert best is not None
    total, cover, (chosen, regions, certificate) = best
    cover.remember(preferred.refusals)
    prices = [tiles.price(p.backend, m) for p, m in chosen if not is_view(m)]
    pricing = Pricing(tuple(prices), total, bound, tuple(tiles.doubts))
    return cover, chosen, regions, certificate, pricing


def _in_order(chosen: Chosen, regions: Sequence[int]) -> list[Selected]:
    """The matches in the order they run."""
    order = quotient_order(dependencies([m for _, m in chosen]), regions)
    return [Selected(*chosen[i], chosen[i][0].backend, regions[i]) for i in order]


def portable_items(graph: ir.Graph, nodes: Collection[int], portable: Backend) -> list[Selected]:
    """The nodes of `graph` whose id() is in `nodes`, computed by portable C, in order.

    Raises UnsupportedError that names what it cannot compute.
    """
    cover = Cover(graph, nodes)
    cover.match(portable, freely=True)
    raise_all(_unsupported(n, [portable], cover.refusals) for n in cover.missing())
    chosen = cover.matches()
    order = quotient_order(dependencies([m for _, m in chosen]), [-1] * len(chosen))
    return [Selected(chosen[i][0], chosen[i][1], PORTABLE) for i in order]


def _no_backend(nodes: Sequence[ir.Node]) -> Backend:
    """A backend that matches what is left, so that a survey covers every node."""
    kinds = sorted({(n.domain, n.op_type) for n in nodes})
    graphs = [OpPat(op, domain, (Var("xs"),), (), (), -1) for domain, op in kinds]
    patterns = [Pattern(g.op_type, g, NO_BACKEND, outputs=()) for g in graphs]
    return Backend(NO_BACKEND, folder=Path(__file__).parent, patterns=patterns)


def _with_regions(cover: Cover, filling: _Filling, groups: Groups = NO_GROUPS) -> Merged:
    """(matches in topological order, the region of each or -1, the certificate of the merge).

    Matches that the limits of their backend leave in no region are refused in `cover`, with the
    reason, and `filling` gives their nodes to other backends, until no limit refuses one. A view
    is in the region that makes its operand if something there reads it, else in portable C.
    `groups` has a label per id() of a match's last node: matches of one label are one region where
    all are within the limits.
    """
    backends = filling.backends
    number = {b.name: i for i, b in enumerate(backends) if b.name != PORTABLE}
    vendors = {b.name: b for b in backends if b.name in number}
    while True:
        portable = cover.matches()
        needs = dict(enumerate(dependencies([m for _, m in portable])))
        portable = [portable[i] for i in in_order(needs, range(len(needs)))]
        chosen, homes = made_inside(cover, portable, vendors)
        rules = rules_for(chosen, backends)
        colours = [number.get(p.backend, -1) for p, _ in chosen]
        returned = not_whole(chosen, colours, rules)
        if not returned:
            proven = {c: rule for c, rule in rules.items() if not rule.limits.whole}
            found = _merged(cover, chosen, colours, proven, homes, groups)
            returned = dict(found.given_back)
        if not returned:
            return *without_last(chosen, homes, found.region, portable), found.certificate
        for v, why in returned.items():
            if homes[v] == v:
                cover.refuse(*chosen[v], why)
        filling.fill(cover)
        groups = NO_GROUPS  # which are of matches that are no more


def _merged(
    cover: Cover,
    chosen: Chosen,
    colours: Sequence[int],
    rules: Mapping[int, Rule],
    homes: Sequence[int],
    groups: Groups,
) -> Regions:
    """The regions of `chosen`: views at home, the user's regions by themselves, `groups` where they
    fit.

    `colours` has a number per match (its backend), `rules` limits by colour, `homes` the match that
    each match (a view) follows, `groups` labels of a search by cost, by id() of a root. If a
    label's matches break a limit, labels of the search are dropped. The bound is that of a merge
    without them.
    """
    own = [_label(cover, p, m) for p, m in chosen]
    needs = dependencies([m for _, m in chosen])
    names = [_spelled(m) for _, m in chosen]

    def merged(labels: Sequence[str]) -> Regions:
        """The regions where matches with one of `labels` (by home) are one region."""
        at_home = [labels[i] for i in homes]
        if any(labels) or homes != list(range(len(chosen))):
            return merge_around(needs, colours, at_home, names, rules, homes)
        return merge_regions(needs, colours, rules=rules)

    found = merged(own)
    asked = [a or groups.get(id(m.root.ir), "") for a, (_, m) in zip(own, chosen, strict=True)]
    limited: dict[str, list[int]] = {}
    for v, home in enumerate(homes):
        if asked[home] and colours[v] in rules:
            limited.setdefault(asked[home], []).append(v)
    # Labels of the search are wishes: where one breaks a limit, regions are merged as without them.
    if asked == own or any(rules[colours[vs[0]]].why_not(vs) for vs in limited.values()):
        return found
    # The bound of the free merge holds for this one too, which has more to satisfy.
    least, found = found.certificate.lower_bound, merged(asked)
    count = found.certificate.count
    certificate = replace(found.certificate, lower_bound=least, optimal=count == least)
    return replace(found, certificate=certificate)


def _check_convex(cover: Cover) -> None:
    """Raise ModelError, with the path that breaks it, unless each of the user's regions is
    convex.
    """
    if not any(m.region for m in cover.marks.values()):
        return
    needs, labels = node_dependencies(cover.nodes), list[str]()
    for before, node in zip(needs, cover.nodes, strict=True):
        own = cover.marks.get(id(node), FREE).region
        inside = labels[before[0]] if before else ""
        labels.append(inside if moves_no_byte([node]) else own)
    names = [NodeRef(n).onnx_name for n in cover.nodes]
    prove_convex(needs, labels, names, range(len(names)))


def _label(cover: Cover, pattern: Pattern, match: Match) -> str:
    """The user's region that a match is in; "" for portable C and where no backend matches."""
    if pattern.backend in (PORTABLE, NO_BACKEND):
        return ""
    return cover.marks.get(id(match.root.ir), FREE).region


def _spelled(match: Match) -> str:
    return match.root.onnx_name


def _renumbered(
    cover: Cover, before: Chosen, regions: Sequence[int], limit: int
) -> tuple[Chosen, list[int]]:
    """The matches after some were given back; kept regions keep their numbers."""
    pairs = zip(before, regions, strict=True)
    kept = {id(pm[1].root.ir): (pm, r) for pm, r in pairs if 0 <= r < limit}
    found = [kept.get(id(pm[1].root.ir), (pm, -1)) for pm in cover.matches()]
    return [pm for pm, _ in found], [r for _, r in found]


_OPERATORS = (
    "`aotc ops` lists the operators of portable C, `aotc new-backend mine` starts a backend"
)


def _unsupported(
    node: ir.Node, backends: Sequence[Backend], refusals: Sequence[Refusal]
) -> AotError:
    """The error for a node that no backend computes, with the reason that helps the user most.

    Results of the node by their names in the user's file go with it, as places where to cut the
    model.
    """
    ref = NodeRef(node)
    mark = mark_of(node)
    user_backend = mark.backend or backends[-1].name
    own = [r for r in refusals if r.node == ref.name and r.backend == user_backend]
    # The pattern of the single operator says most; longer patterns come earlier in the list.
    said, advice = node.meta.get(WHY_KEY, ("", ""))
    why = own[-1].reason if own else said or "no backend has this operator"
    op = node.op_type if not node.domain else f"{node.domain}.{node.op_type}"
    if mark.backend:
        where = f' (region "{mark.region}")' if mark.region else ""
        return UnsupportedError(
            f"node {ref.onnx_name} ({op}) is given to {user_backend}{where}, which "
            f"does not compute it: {own[-1].reason if own else 'it has no pattern that fits'}",
            hint="take the node out of the region, or give it to another backend",
        )
    add = binds(node) if "run time" in why or "not constant" in why else []
    hint = advice or (YOURS if add else "" if own else _OPERATORS)
    error = UnsupportedError(f"node {ref.onnx_name} ({op}): {why}", hint=hint, add=add)
    return error.of(_named_results(node))


def _named_results(node: ir.Node) -> list[str]:
    """Names in the user's file of the nearest values behind `node` that have one."""
    stack, found, seen = list(node.outputs), list[str](), set[str]()
    while stack:
        value = stack.pop()
        if name := value.metadata_props.get(NAME_KEY):
            found.append(name)
        elif str(value.name) not in seen:
            seen.add(str(value.name))
            stack += [o for use in value.uses() for o in use.node.outputs]
    return found
