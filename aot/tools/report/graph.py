# SPDX-License-Identifier: Apache-2.0
"""Graphs of calls and of regions: boxes in layers, lanes for values that skip some of them.

A layer is the longest way from an input. A value that is read further below has a point in every
layer between: its lane, which all of its readers share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any

#: A graph of more boxes is drawn with neighbours of the schedule joined.
MOST = 300
#: Pixels: a box, and what is free beside and below it; how wide a lane is.
WIDTH, HEIGHT, BESIDE, BELOW, LANE = 190, 46, 24, 34, 18
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Box:
    """Calls in a row (none: an input or an output) with two lines of text."""

    calls: Sequence[int]
    backend: str
    lines: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """Boxes with their corners, and SVG paths between them with whether they end at a box."""

    title: str
    boxes: Sequence[tuple[Box, float, float]]
    edges: Sequence[tuple[str, bool]]
    width: float
    height: float


def pictures(manifest: Mapping[str, Any], titles: Sequence[str]) -> list[Graph]:
    """The graph of calls, and before it that of regions where vendors have some."""
    nodes, every = manifest["nodes"], range(len(titles))
    keys = [(n["backend"], n["region"]) for n in nodes]
    runs = [[*run] for _, run in groupby(every, keys.__getitem__)]
    few = max(1, -(-len(nodes) // MOST))
    title = "Calls" if few == 1 else f"Calls, {few} in a box"
    found = [(title, [_box(every[i : i + few], nodes, titles) for i in every[::few]])]
    if manifest["regions"] and len(runs) <= MOST:
        found.insert(0, ("Regions", [_run(r, nodes[r[0]], titles) for r in runs]))
    return [_graph(title, manifest, own) for title, own in found if own]


def _box(group: Sequence[int], nodes: Sequence[Any], titles: Sequence[str]) -> Box:
    """One call, or some that follow each other."""
    first = nodes[group[0]]
    lines = f"calls {group[0]} to {group[-1]}", _ops(group, titles)
    if len(group) == 1:
        lines = (
            f"{group[0]}: {titles[group[0]]}",
            next(map(spelled, first.get("writes", ())), first["kernel"]),
        )
    return Box(group, first["backend"], lines)


def _run(group: Sequence[int], node: Mapping[str, Any], titles: Sequence[str]) -> Box:
    """A vendor's region, or portable C between two of them."""
    name = f"region {node['region']}: {node['backend']}" if node["region"] >= 0 else "portable C"
    count = f"{len(group)} call{'s' * (len(group) > 1)}"
    return Box(group, node["backend"], (f"{name}, {count}", _ops(group, titles)))


def _ops(group: Sequence[int], titles: Sequence[str]) -> str:
    """`3 Conv + Relu, 2 Add`, the most frequent first."""
    count = Counter(titles[i] for i in group).most_common()
    return ", ".join(f"{n} {op}" if n > 1 else op for op, n in count)


def spelled(tensor: Mapping[str, Any]) -> str:
    """`float32[1,16,8,8]`."""
    return f"{tensor['dtype']}[{','.join(map(str, tensor['shape']))}]"


def _graph(title: str, manifest: Mapping[str, Any], own: list[Box]) -> Graph:
    """The boxes with those of inputs and outputs around them, at their places."""
    ins, outs = (
        [Box((), str(t["identifier"]), (f"{kind} {t['name']}", spelled(t))) for t in tensors]
        for kind, tensors in (("input", manifest["inputs"]), ("output", manifest["outputs"]))
    )
    boxes = [*ins, *own, *outs]
    # Where calls are, and the memory of inputs and outputs.
    home = {call: i for i, box in enumerate(boxes) for call in box.calls or (box.backend,)}
    edges = [
        *((home.get(maker, 0), home[node["call"]])
          for node in manifest["nodes"] for read in node.get("reads", ())
          for maker in read["calls"] or (read["buffer"],) if maker in home),
        *((home[node["call"]], home[written["buffer"]])
          for node in manifest["nodes"] for written in node.get("writes", ())
          if written.get("buffer") in home),
    ]  # fmt: skip
    x, depth, links = layered(len(boxes), {(a, b) for a, b in edges if a < b})
    left, high = min(x.values()) - WIDTH / 2, HEIGHT + BELOW
    places = {p: (at - left, p[1] * high, p[1] != depth[p[0]]) for p, at in x.items()}
    return Graph(
        title,
        [(b, x[i, depth[i]] - left - WIDTH / 2, depth[i] * high) for i, b in enumerate(boxes)],
        [_curve(places[a], places[b]) for a, b in links],
        max(x.values()) - left + WIDTH / 2,
        max(depth) * high + HEIGHT,
    )


def _curve(upper: tuple[float, float, bool], lower: tuple[float, float, bool]) -> tuple[str, bool]:
    """(SVG path from one point to that of the next layer, whether it ends at a box).

    Lanes go through their own layer.
    """
    (x, y, _), (to, end, lane) = upper, lower
    bend = (y + HEIGHT + end) / 2
    path = f"M{x:.0f} {y + HEIGHT:.0f}C{x:.0f} {bend:.0f} {to:.0f} {bend:.0f} {to:.0f} {end:.0f}"
    return path + (f"v{HEIGHT}" if lane else ""), not lane


def layered(
    count: int, edges: set[tuple[int, int]]
) -> tuple[dict[Point, float], list[int], list[tuple[Point, Point]]]:
    """(x of every point, layer of every box, links between points of neighbouring layers).

    `edges` lead from lower to higher numbers. A point is (box, layer): the box itself in its own
    layer, its lane in those below.
    """
    depth, reach = [0] * count, [0] * count
    for a, b in sorted(edges):
        depth[b] = max(depth[b], depth[a] + 1)
    for a, b in edges:
        reach[a] = max(reach[a], depth[b])
    lanes = (((a, d), (a, d + 1)) for a in range(count) for d in range(depth[a], reach[a] - 1))
    links = sorted({*lanes, *(((a, depth[b] - 1), (b, depth[b])) for a, b in edges)})
    near: list[dict[Point, list[Point]]] = [defaultdict(list), defaultdict(list)]
    for upper, lower in links:
        near[0][lower].append(upper)
        near[1][upper].append(lower)
    points = sorted(
        {*enumerate(depth), *(p for link in links for p in link)}, key=lambda p: p[::-1]
    )
    rows = [[*row] for _, row in groupby(points, lambda p: p[1])]
    x = dict.fromkeys(points, 0.0)
    # Each layer moves towards those above it, then towards those below: lines become straight.
    for turn in range(8):
        for row in rows[:: -1 if turn % 2 else 1]:
            wish = {p: fmean([x[q] for q in near[turn % 2][p]] or [x[p]]) for p in row}
            row.sort(key=wish.__getitem__)
            x |= _placed([(wish[p], WIDTH if p[1] == depth[p[0]] else LANE, p) for p in row])
    return x, depth, links


def _placed(row: Sequence[tuple[float, int, Point]]) -> dict[Point, float]:
    """The x of points in a row, given (x that it wishes, width, point): as near as fits."""
    found, end = {}, float("-inf")
    for wish, width, point in row:
        found[point] = max(wish, end + width / 2)
        end = found[point] + width / 2 + BESIDE
    shift = fmean(wish - found[point] for wish, _, point in row)
    return {point: at + shift for point, at in found.items()}
