# SPDX-License-Identifier: Apache-2.0
"""The main list of items of a network: layers are cut and tensors have places already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.vendor.accel_sim.builder import Buffer, Builder
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.layers import (
    Products,
    RowStep,
    Tiling,
    Vectors,
    first_row,
    rows_read,
    windowed,
)
from aot.vendor.accel_sim.network import Layer, Tensor
from aot.vendor.accel_sim.nodes import SPILL
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.resident import Request, allocate

#: A tensor comes in pieces of at least so many bytes.
MIN_PIECE = 768


@dataclass(slots=True)
class Layout:
    """How every layer is cut (`tilings`), and which roots pass through rings (`streamed`).

    `single`: groups whose rings hold one step, not two. `bases` are bytes of SPM by (root,) or
    (root, group), `rings` rows by (root, group), `spills` bytes in region 2 by root.
    """

    tilings: list[Tiling]
    streamed: set[int] = field(default_factory=set)
    single: set[int] = field(default_factory=set)
    merged: dict[int, int] = field(default_factory=dict)
    bases: dict[tuple[int, ...], int] = field(default_factory=dict)
    rings: dict[tuple[int, int], int] = field(default_factory=dict)
    spills: dict[int, int] = field(default_factory=dict)
    spill: int = 0
    top: int = 0


def stepped(b: Builder, number: int, layer: Layer, tiling: Tiling) -> list[RowStep]:
    """The row steps of any layer."""
    kind = Products if layer.kind in ("conv", "dw") else Vectors
    return kind(b, number, layer, tiling).steps()


def step_rows(layer: Layer, tiling: Tiling, height: int) -> int:
    """Rows of the output in a step."""
    return height if tiling.outer else min(tiling.rows, height)


def ring_rows(plan: Plan, layer: Layer, tiling: Tiling, index: int, single: bool) -> int:
    """Rows of a streamed tensor that a layer needs in SPM at once: of two steps, or of a `single`."""
    t, y = plan.tensors[index], plan.tensors[layer.output]
    rows = step_rows(layer, tiling, y.height)
    steps = [(at, min(at + rows, y.height)) for at in range(0, y.height, rows)]
    most = rows if index == layer.output else 0
    for first, last in steps:
        low, high = rows_needed(plan, layer, index, first, last)
        most = max(most, high - low)
    stride = layer.window.sh if windowed(layer, index) else 1
    return min(t.height, most + (0 if single else rows * stride))


def rows_needed(plan: Plan, layer: Layer, index: int, first: int, last: int) -> tuple[int, int]:
    """(first, end) of the rows of a tensor that some rows of the output read, by every operand."""
    t = plan.tensors[index]
    windows = [n for n, other in enumerate(layer.inputs) if other == index]
    low, high = t.height, 0
    for n in windows:
        low = min(low, first_row(layer, n, t, first))
        high = max(high, rows_read(layer, n, t, last))
    return min(low, high), high


def uses(plan: Plan) -> dict[int, list[int]]:
    """The groups that touch every root, in order."""
    found: dict[int, list[int]] = {root: [] for root in plan.sizes}
    for g, layer in enumerate(plan.layers):
        for index in (*layer.inputs, layer.output):
            root = plan.places[index].root
            if not found[root] or found[root][-1] != g:
                found[root].append(g)
    return found


def joined(plan: Plan, streamed: set[int]) -> dict[int, int]:
    """Roots that can take the place of an operand that ends there: result -> operand."""
    touched, found = uses(plan), dict[int, int]()
    for g, layer in enumerate(plan.layers):
        if layer.kind in ("conv", "dw"):
            candidates = layer.inputs[1:]
        elif layer.kind in ("max", "average", "softmax"):
            candidates = ()
        else:
            candidates = layer.inputs
        y = layer.output
        for index in candidates:
            if index in layer.inputs[:1] and layer.kind in ("conv", "dw"):
                continue
            same = plan.tensors[index].shape == plan.tensors[y].shape
            alone = plan.whole(index) and plan.whole(y)
            ends = touched[plan.places[index].root][-1] == g and touched[y][0] == g if alone else 0
            if same and alone and ends and not {index, y} & streamed:
                found[y] = index
                break
    return found


def requests(plan: Plan, layout: Layout) -> list[Request]:
    """What has to be in SPM, and when; sets `rings` and `merged`."""
    touched = uses(plan)
    layout.merged = joined(plan, layout.streamed)
    layout.rings = {}
    spans: dict[int, list[int]] = {}
    found: list[Request] = []
    for root, groups in touched.items():
        if root not in layout.streamed:
            if groups:
                spans[root] = [groups[0], groups[-1]]
            continue
        for g in groups:
            layer = plan.layers[g]
            t = plan.tensors[root]
            rows = ring_rows(plan, layer, layout.tilings[g], root, g in layout.single)
            layout.rings[root, g] = rows
            size = rows * t.width * t.channels * t.itemsize
            found.append(Request((root, g), g, g, size))
    for result in sorted(layout.merged, reverse=True):
        base = _base(layout, result)
        spans[base][0] = min(spans[base][0], spans[result][0])
        spans[base][1] = max(spans[base][1], spans[result][1])
    stays = [r for r in spans if r not in layout.merged]
    found += [Request((r,), spans[r][0], spans[r][1], plan.sizes[r]) for r in stays]
    return found


def _base(layout: Layout, root: int) -> int:
    while root in layout.merged:
        root = layout.merged[root]
    return root


def settle(plan: Plan, layout: Layout) -> None:
    """Give everything its place in SPM and in the scratch of the system."""
    layout.bases, layout.top = allocate(requests(plan, layout))
    for root in layout.merged:
        layout.bases[root,] = layout.bases[_base(layout, root),]
    touched = uses(plan)
    inner = [r for r in sorted(layout.streamed) if plan.tensors[r].where == "inner"]
    wanted = [Request((r,), touched[r][0], touched[r][-1], plan.sizes[r]) for r in inner]
    places, layout.spill = allocate(wanted)
    layout.spills = {key[0]: at for key, at in places.items()}


class _Feed:
    """Rows of a tensor that came from the system so far."""

    def __init__(self, composer: Composer, index: int) -> None:
        self.composer, self.index, self.loaded = composer, index, 0
        t = composer.plan.tensors[index]
        row = t.width * t.channels * t.itemsize
        self.piece = max(1, -(-MIN_PIECE // row))

    def ensure(self, group: int, low: int, high: int, ring: int) -> None:
        """Load up to row `high`; rows from `low` on stay."""
        t = self.composer.plan.tensors[self.index]
        region, offset = self.composer.home(self.index)
        if ring < t.height:
            self.loaded = max(self.loaded, low)
        while self.loaded < high:
            last = min(t.height, max(high, self.loaded + self.piece))
            last = min(last, low + ring, self.loaded + self.piece if not ring else last)
            last = max(last, self.loaded + 1)
            self.composer.b.move("LD", group, self.index, region, offset, self.loaded, last)
            self.loaded = last


class Composer:
    """Writes the items of all layers in order."""

    def __init__(
        self, c: Config, plan: Plan, layout: Layout, homes: Mapping[int, tuple[int, int]]
    ) -> None:
        self.plan, self.layout, self.homes = plan, layout, homes
        self.b = Builder(c, plan)
        self.feeds: dict[int, _Feed] = {}
        self.stored: dict[int, int] = {}
        self.touched = uses(plan)

    def home(self, index: int) -> tuple[int, int]:
        """(region, offset) of a tensor in the system."""
        if index in self.homes:
            return self.homes[index]
        return SPILL, self.layout.spills[index]

    def run(self) -> Builder:
        """Everything."""
        for g, layer in enumerate(self.plan.layers):
            self._buffers(g, layer)
            for step in stepped(self.b, g, layer, self.layout.tilings[g]):
                for index in layer.inputs:
                    self._feed(g, layer, index, step)
                step.emit()
                self._store(g, layer.output, step.last)
            self.b.forget(g)
            self._finish(g)
        self._rest()
        return self.b

    def _buffers(self, g: int, layer: Layer) -> None:
        for index in (*layer.inputs, layer.output):
            root = self.plan.places[index].root
            if root not in self.layout.streamed:
                self.b.buffers[root] = Buffer(self.layout.bases[root,])
                continue
            ring, height = self.layout.rings[root, g], self.plan.tensors[root].height
            self.b.buffers[root] = Buffer(self.layout.bases[root, g], 0 if ring == height else ring)
            if index in layer.inputs:
                self.feeds.pop(root, None)

    def _feed(self, g: int, layer: Layer, index: int, step: RowStep) -> None:
        """Load what a step reads and is not there."""
        root = self.plan.places[index].root
        t = self.plan.tensors[index]
        if root in self.layout.streamed or (root == index and self.plan.whole(index)):
            if root not in self.layout.streamed and not _outside(t):
                return
            feed = self.feeds.setdefault(index, _Feed(self, index))
            low, high = rows_needed(self.plan, layer, index, step.first, step.last)
            ring = self.layout.rings.get((root, g), 0)
            feed.ensure(g, low, high, ring if ring and ring < t.height else t.height)
            return
        for other in self.plan.owners(root):
            source = self.plan.tensors[other]
            if _outside(source):
                self.feeds.setdefault(other, _Feed(self, other)).ensure(
                    g, 0, source.height, source.height
                )

    def _store(self, g: int, index: int, rows: int) -> None:
        """Store rows of a result that are complete."""
        t, root = self.plan.tensors[index], self.plan.places[index].root
        mine = root == index and self.plan.whole(index)
        if mine and (t.where == "output" or root in self.layout.streamed):
            done = self.stored.get(index, 0)
            row = t.width * t.channels * t.itemsize
            enough = (rows - done) * row >= MIN_PIECE or rows == t.height
            if rows > done and (enough or root in self.layout.streamed):
                self.b.move("ST", g, index, *self.home(index), done, rows)
                self.stored[index] = rows

    def _finish(self, g: int) -> None:
        """Store results that lie in shared roots, after the last group that writes there."""
        for index, t in enumerate(self.plan.tensors):
            if t.where != "output" or index in self.stored or index not in self.plan.places:
                continue
            root = self.plan.places[index].root
            writers = [
                n
                for n, layer in enumerate(self.plan.layers)
                if self.plan.places[layer.output].root == root
            ]
            if writers and writers[-1] == g:
                self._whole(g, index)

    def _rest(self) -> None:
        """Results that no layer computes: parts of inputs."""
        for index, t in enumerate(self.plan.tensors):
            if t.where == "output" and index not in self.stored and index in self.plan.places:
                root = self.plan.places[index].root
                self.b.buffers[root] = Buffer(self.layout.bases[root,])
                self._whole(max(0, len(self.plan.layers) - 1), index)

    def _whole(self, g: int, index: int) -> None:
        root = self.plan.places[index].root
        for other in self.plan.owners(root):
            source = self.plan.tensors[other]
            if _outside(source):
                self.feeds.setdefault(other, _Feed(self, other)).ensure(
                    g, 0, source.height, source.height
                )
        t = self.plan.tensors[index]
        self.b.move("ST", g, index, *self.home(index), 0, t.height)
        self.stored[index] = t.height


def _outside(t: Tensor) -> bool:
    return t.where in ("input", "const")
