# SPDX-License-Identifier: Apache-2.0
"""Random graphs with limits on regions, and the fewest regions by brute force.

Nothing here uses the partitioner's own measures: a region's extent is counted from its definition.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from aot.partition.limits import Flow, Rule, Vertex
from aot.vendor.limits import Limits
from region_rules import is_acyclic


@dataclass(frozen=True)
class Problem:
    """A flow with its edges, the colour of every vertex and the limits of every colour."""

    flow: Flow
    preds: list[tuple[int, ...]]
    colours: list[int]
    limits: dict[int, Limits]

    @property
    def rules(self) -> dict[int, Rule]:
        return {c: Rule(f"v{c}", self.flow, limit) for c, limit in self.limits.items()}


def random_limits(r: random.Random) -> Limits:
    def some(*choices: int) -> int | None:
        return r.choice(choices) if r.random() < 0.35 else None

    return Limits(
        inputs=some(1, 2, 2, 3, 4),
        outputs=some(1, 1, 2, 3),
        nodes=some(1, 2, 3, 5, 20),
        constant_bytes=some(0, 8, 16, 40),
        live_bytes=some(8, 16, 24, 40),
        connected=r.random() < 0.3,
    )


def random_problem(seed: int, size: int | None = None) -> Problem:
    """1 to 3 backends, most with limits; vertices read up to three of the last values."""
    r = random.Random(seed)
    n = size or r.randint(3, 60)
    backends, window = r.randint(1, 3), r.choice((3, 6, 12, 40))
    portable = r.choice((0.0, 0.15, 0.4))
    nbytes = [r.choice((1, 4, 8)) for _ in range(4)]  # the inputs
    weights = [r.choice((2, 8, 12)) for _ in range(5)]
    values, maker = list(range(4)), dict.fromkeys(range(4), -1)
    constants = range(4, 9)
    nbytes += weights
    vertices, preds, colours = [], [], []
    for v in range(n):
        reads = sorted(set(r.choices(values[-window:], k=r.choice((1, 1, 2, 2, 3)))))
        held = tuple(sorted(set(r.choices(constants, k=r.choice((0, 0, 1, 2))))))
        made = list(range(len(nbytes), len(nbytes) + r.choice((1, 1, 1, 2))))
        nbytes += [r.choice((1, 4, 8)) for _ in made]
        vertices.append(Vertex(tuple(reads), held, tuple(made), r.choice((1, 1, 2))))
        preds.append(tuple(sorted({maker[u] for u in reads} - {-1})))
        colours.append(-1 if r.random() < portable else r.randrange(backends))
        values += made
        maker.update(dict.fromkeys(made, v))
    read = {u for x in vertices for u in x.reads}
    loose = [u for x in vertices for u in x.makes if u not in read]
    results = frozenset(u for u in loose if r.random() < 0.9) | {loose[-1]}
    limits = {c: random_limits(r) for c in range(backends) if r.random() < 0.9}
    return Problem(Flow(vertices, nbytes, results), preds, colours, limits)


def exceeded(problem: Problem, members: Sequence[int]) -> str:
    """The limit that a region of `members`, in ascending order, exceeds; "" for none."""
    flow = problem.flow
    limits = problem.limits.get(problem.colours[members[0]])
    if limits is None:
        return ""
    inside = [flow.vertices[v] for v in members]
    outside = [x for v, x in enumerate(flow.vertices) if v not in set(members)]
    made = {u for x in inside for u in x.makes}
    entering = {u for x in inside for u in x.reads if u not in made}
    leaving = {u for u in made if u in flow.results or any(u in x.reads for x in outside)}
    held = {u for x in inside for u in x.constants}
    found = {
        "inputs": len(entering),
        "outputs": len(leaving),
        "nodes": sum(x.nodes for x in inside),
        "constant_bytes": sum(flow.nbytes[u] for u in held),
        "live_bytes": max(_held(flow, inside, entering, leaving, t) for t in range(len(inside))),
    }
    for name, amount in found.items():
        most = getattr(limits, name)
        if most is not None and amount > most:
            return name
    return "connected" if limits.connected and not _is_connected(inside) else ""


def _held(
    flow: Flow, inside: Sequence[Vertex], entering: set[int], leaving: set[int], step: int
) -> int:
    """Bytes of the values held while vertex `step` runs."""
    later = {u for x in inside[step:] for u in x.reads}
    born = {u for x in inside[: step + 1] for u in x.makes}
    now = set(inside[step].makes)
    return sum(flow.nbytes[u] for u in (entering & later) | (born & (later | leaving)) | now)


def _is_connected(inside: Sequence[Vertex]) -> bool:
    seen, stack = {0}, [0]
    while stack:
        x = inside[stack.pop()]
        for i, other in enumerate(inside):
            joined = set(x.makes) & set(other.reads) or set(x.reads) & set(other.makes)
            if joined and i not in seen:
                seen.add(i)
                stack.append(i)
    return len(seen) == len(inside)


def violations(problem: Problem, region: Sequence[int]) -> list[str]:
    """All that is wrong with a grouping: limits, colours, cycles."""
    groups: dict[int, list[int]] = {}
    for v, number in enumerate(region):
        if number >= 0:
            groups.setdefault(number, []).append(v)
    wrong = [why for members in groups.values() if (why := exceeded(problem, members))]
    wrong += ["colour" for m in groups.values() if len({problem.colours[v] for v in m}) > 1]
    wrong += ["portable" for m in groups.values() if problem.colours[m[0]] < 0]
    group = [r if r >= 0 else len(region) + v for v, r in enumerate(region)]
    return wrong + ([] if is_acyclic(problem.preds, group) else ["cycle"])


def best_by_brute_force(problem: Problem) -> tuple[int, int]:
    """(vertices given back, regions) of the best grouping: all are tried."""
    fitting: dict[int, list[tuple[int, ...]]] = {}
    inside = [v for v, c in enumerate(problem.colours) if c >= 0]
    for bits in range(1, 1 << len(inside)):
        members = tuple(v for i, v in enumerate(inside) if bits >> i & 1)
        if len({problem.colours[v] for v in members}) == 1 and not exceeded(problem, members):
            fitting.setdefault(members[0], []).append(members)
    best = (len(inside), 0)

    def place(region: dict[int, int], given_back: int, regions: int) -> None:
        nonlocal best
        if (given_back, regions) >= best:
            return
        open_ = next((v for v in inside if v not in region), None)
        if open_ is None:
            group = [region.get(v, -1) for v in range(len(problem.preds))]
            group = [g if g >= 0 else len(group) + v for v, g in enumerate(group)]
            if is_acyclic(problem.preds, group):
                best = (given_back, regions)
            return
        for members in reversed(fitting.get(open_, [])):
            if not any(v in region for v in members):
                place({**region, **dict.fromkeys(members, regions)}, given_back, regions + 1)
        place({**region, open_: -1}, given_back + 1, regions)

    place({}, 0, 0)
    return best


def outcome(region: Sequence[int], colours: Sequence[int]) -> tuple[int, int]:
    """(vertices given back, regions)."""
    back = sum(c >= 0 > r for c, r in zip(colours, region, strict=True))
    return back, len(set(region) - {-1})
