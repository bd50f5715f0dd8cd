# SPDX-License-Identifier: Apache-2.0
"""The main list of items of a network: layers are cut and tensors have places already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.vendor.accel_sim.builder import Buffer, Builder, System
from aot.vendor.accel_sim.cascade import Cascade, rings, rows_needed
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.kinds import DType
from aot.vendor.accel_sim.layers import (
    Products,
    RowStep,
    Tiling,
    Vectors,
)
from aot.vendor.accel_sim.network import Layer, Tensor
from aot.vendor.accel_sim.nodes import SPILL
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.scratchpad import Request, allocate

#: A tensor comes in pieces of at least so many bytes.
MIN_PIECE = 768


@dataclass(slots=True)
class Layout:
    """How every layer is cut (`tilings`), and which roots stay in the system (`streamed`).

    `single`: groups whose rings hold one step, not two. `bases` are bytes of SPM by (root,) or, for
    tensors of streamed roots, (tensor, group), `rings` rows by (tensor, group), `spills` bytes in
    region 2 by root. `chunk`, `groups`: see Builder. `cascades`: (first, last) of layers that take
    turns; tensors in `passed` are seen by them alone and have a ring; `ahead` are the first layers
    of cascades whose members work a step ahead.
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
    chunk: int = 1024
    groups: int = 2
    cascades: tuple[tuple[int, int], ...] = ()
    passed: frozenset[int] = frozenset()
    ahead: frozenset[int] = frozenset()

    def span(self, layer: int) -> tuple[int, int]:
        """(first, last) of the layers of the cascade that holds `layer`, or of that layer alone."""
        return next((s for s in self.cascades if s[0] <= layer <= s[1]), (layer, layer))

    def spans(self, count: int) -> list[tuple[int, int]]:
        """(first, last) of every cascade and of every layer outside of one, for `count` layers in
        order.
        """
        return list(dict.fromkeys(self.span(n) for n in range(count)))

    def windowed(self, plan: Plan, index: int) -> bool:
        """Whether tensor `index` passes through SPM by rows: its root is streamed or inside a
        cascade.
        """
        root = plan.places[index].root
        return root in self.streamed or root in self.passed


def stepped(b: Builder, number: int, layer: Layer, tiling: Tiling) -> list[RowStep]:
    """The row steps of layer number `number` in order; emitting one writes its items to `b`."""
    kind = Products if layer.kind in ("conv", "dw") else Vectors
    return kind(b, number, layer, tiling).steps()


def ring_rows(
    plan: Plan, layer: int, tilings: Mapping[int, Tiling], index: int, single: bool
) -> int:
    """How many rows of tensor number `index` the scratchpad holds while layer number `layer` runs.

    The layer is cut as `tilings[layer]` says. There is room for the rows of a step and for those by
    which the next step moves on, so that moving and computing overlap, unless `single`; never more
    than the tensor's height.
    """
    return rings(plan, (layer,), tilings, (index,), single)[index]


def passing(plan: Plan, layout: Layout, span: tuple[int, int]) -> list[int]:
    """The numbers, ascending, of tensors that the layers of `span` touch and that pass SPM by rows.

    `span` is (first, last), both inclusive.
    """
    layers = plan.layers[span[0] : span[1] + 1]
    used = {n for layer in layers for n in (*layer.inputs, layer.output)}
    return sorted(n for n in used if layout.windowed(plan, n))


def uses(plan: Plan) -> dict[int, list[int]]:
    """The numbers of the layers that touch each root, ascending; a root that no layer touches has
    [].
    """
    found: dict[int, list[int]] = {root: [] for root in plan.sizes}
    for g, layer in enumerate(plan.layers):
        for index in (*layer.inputs, layer.output):
            root = plan.places[index].root
            if not found[root] or found[root][-1] != g:
                found[root].append(g)
    return found


def joined(plan: Plan, layout: Layout) -> dict[int, int]:
    """Results that may take the place of an operand: {tensor of the result: operand}.

    The operand's root ends at the layer, the result's begins there, both are whole tensors of one
    shape in SPM, and the layer is no member of a cascade. Products read their first operand often,
    so only others qualify; pools and softmax have none.
    """
    touched, found = uses(plan), dict[int, int]()
    kept_out = layout.streamed | layout.passed
    for g, layer in enumerate(plan.layers):
        if layout.span(g) != (g, g):
            continue
        if layer.kind in ("conv", "dw"):
            candidates = layer.inputs[1:]
        elif layer.kind in ("max", "average", "softmax"):
            candidates = ()
        else:
            candidates = layer.inputs
        y = layer.output
        for index in candidates:
            # An operand that is the product's own input as well is read again by later windows.
            if index in layer.inputs[:1] and layer.kind in ("conv", "dw"):
                continue
            same = plan.tensors[index].shape == plan.tensors[y].shape
            alone = plan.whole(index) and plan.whole(y)
            # A neighbour in the buffer, or a reader behind the layer, would lose bytes that it
            # still needs.
            ends = touched[plan.places[index].root][-1] == g and touched[y][0] == g if alone else 0
            if same and alone and ends and not {index, y} & kept_out:
                found[y] = index
                break
    return found


def requests(plan: Plan, layout: Layout) -> list[Request]:
    """The bytes of SPM that are needed and from which group to which: for `allocate`.

    Roots in SPM are requested from their first group to their last; what is read or made by rows
    has a ring buffer per tensor and span of groups. Sets `layout.merged` (results that take the
    place of an operand, which is requested for both) and `layout.rings` (rows by tensor and group).
    """
    layout.merged = joined(plan, layout)
    layout.rings = {}
    found: list[Request] = []
    for span in layout.spans(len(plan.layers)):
        members = range(span[0], span[1] + 1)
        own = passing(plan, layout, span)
        single, ahead = any(m in layout.single for m in members), span[0] in layout.ahead
        for index, rows in rings(plan, members, layout.tilings, own, single, ahead).items():
            t = plan.tensors[index]
            layout.rings[index, span[0]] = rows
            size = rows * t.width * t.channels * t.itemsize
            found.append(Request((index, span[0]), *span, size))
    spans = {
        root: [layout.span(layers[0])[0], layout.span(layers[-1])[1]]
        for root, layers in uses(plan).items()
        if layers and not layout.windowed(plan, root)
    }
    # The base's buffer holds the results that were merged into it, so it is needed as long as they.
    for result in sorted(layout.merged, reverse=True):
        base = _base(layout, result)
        spans[base][0] = min(spans[base][0], spans[result][0])
        spans[base][1] = max(spans[base][1], spans[result][1])
    stays = [r for r in spans if r not in layout.merged]
    found += [Request((r,), spans[r][0], spans[r][1], plan.sizes[r]) for r in stays]
    return found


def _base(layout: Layout, root: int) -> int:
    """The root whose memory `root` takes in the end, by following `merged`; itself if it takes
    none.
    """
    while root in layout.merged:
        root = layout.merged[root]
    return root


def allocate_buffers(plan: Plan, layout: Layout) -> None:
    """Set, in `layout`, the place of every buffer in SPM and of streamed roots in scratch memory
    (bytes).

    `top` becomes the bytes of SPM and `spill` those of scratch that are needed; nothing checks here
    whether that fits.
    """
    layout.bases, layout.top = allocate(requests(plan, layout))
    for root in layout.merged:
        layout.bases[root,] = layout.bases[_base(layout, root),]
    touched = uses(plan)
    # Inputs and outputs that are streamed lie in memory of the caller already.
    inner = [r for r in sorted(layout.streamed) if plan.tensors[r].where == "inner"]
    wanted = [
        Request((r,), layout.span(touched[r][0])[0], layout.span(touched[r][-1])[1], plan.sizes[r])
        for r in inner
    ]
    places, layout.spill = allocate(wanted)
    layout.spills = {key[0]: at for key, at in places.items()}


class _Feed:
    """Rows of a tensor that came from the system so far."""

    def __init__(self, composer: Composer, index: int) -> None:
        """Start with no row loaded of tensor `index`; `piece` is the least number of rows of a
        load.
        """
        self.composer, self.index, self.loaded = composer, index, 0
        t = composer.plan.tensors[index]
        row = t.width * t.channels * t.itemsize
        self.piece = max(1, -(-MIN_PIECE // row))

    def ensure(self, group: int, low: int, high: int, ring: int) -> None:
        """Emit loads for layer `group` until the rows before `high` are in SPM; the rows from `low`
        on stay.

        `ring` is the number of rows that SPM holds; a load takes several rows where these have
        room. Rows before `low` that were never loaded are skipped where a ring is smaller than the
        tensor.
        """
        t = self.composer.plan.tensors[self.index]
        source = self.composer.home(self.index)
        if ring < t.height:
            self.loaded = max(self.loaded, low)
        while self.loaded < high:
            # A piece of a few rows costs a burst of its own, so more rows than needed are taken.
            last = min(t.height, max(high, self.loaded + self.piece), low + ring)
            last = max(last, self.loaded + 1)
            self.composer.b.move("LD", group, self.index, source, self.loaded, last)
            self.loaded = last


class Composer:
    """Writes the items of all layers in order."""

    def __init__(
        self, c: Config, plan: Plan, layout: Layout, homes: Mapping[int, tuple[int, int]]
    ) -> None:
        """Prepare to write the items of all layers of `plan`.

        `homes` has (memory region, byte offset) of inputs, outputs and constants, by tensor.
        """
        self.plan, self.layout, self.homes = plan, layout, homes
        self.b = Builder(c, plan, chunk=layout.chunk, groups=layout.groups)
        self.feeds: dict[int, _Feed] = {}
        self.stored: set[int] = set()
        self.touched = uses(plan)

    def home(self, index: int) -> System:
        """Where tensor `index` lies in system memory: region, byte offset, strides in bytes,
        element type.

        A tensor of its own has the strides that the caller uses; a part of a root has the root's.
        """
        root = self.plan.places[index].root
        base = index if index in self.homes else root
        t = self.plan.tensors[base]
        dtype = {"i8": DType.I8, "u8": DType.U8, "f32": DType.F32}[t.dtype]
        if base == index:
            row, pixel, channel = (s * t.itemsize for s in t.element_strides)
            further = 0
        else:
            further, row, pixel, channel = self.plan.system(index)
        if base in self.homes:
            region, offset = self.homes[base]
        else:
            region, offset = SPILL, self.layout.spills[base]
        return System(region, offset + further, (row, pixel, channel), dtype)

    def run(self) -> Builder:
        """Write the items of all layers; returned is the builder that holds the items and loads."""
        for span in self.layout.spans(len(self.plan.layers)):
            self._group(span)
        return self.b

    def _group(self, span: tuple[int, int]) -> None:
        """Write the items of the layers `span` (first, last), mostly one layer, else a cascade.

        A step is preceded by the loads of rows that it reads and followed by the stores of complete
        rows.
        """
        members = range(span[0], span[1] + 1)
        self._buffers(span)
        cascade = Cascade(self.plan, members, self.layout.tilings, span[0] in self.layout.ahead)
        layers = self.plan.layers
        steps = {m: stepped(self.b, m, layers[m], self.layout.tilings[m]) for m in members}
        done = dict.fromkeys(members, 0)
        for m, number in cascade.order():
            step = steps[m][number]
            for index in dict.fromkeys(layers[m].inputs):
                self._feed(m, index, step, cascade)
            step.emit()
            done[m] = self._store(m, layers[m].output, done[m], step.last)
        for m in members:
            # The loads of these layers are used up: their places in the rings are free from here.
            self.b.evict(m)
            self._finish(m)

    def _buffers(self, span: tuple[int, int]) -> None:
        """Note where each tensor lies that layers `span` (first, last; both inclusive) touch.

        A whole tensor gets an address in the system's memory (`b.buffers`, by its root). A tensor
        of which the accelerator holds some rows gets an address there and a number of rows
        (`b.windows`, 0: all of its height): tensors between the layers of a cascade, and tensors
        of the system that come by rows.
        """
        self.b.windows = {}
        for layer in self.plan.layers[span[0] : span[1] + 1]:
            for index in (*layer.inputs, layer.output):
                if not self.layout.windowed(self.plan, index):
                    root = self.plan.places[index].root
                    self.b.buffers[root] = Buffer(self.layout.bases[root,])
                    continue
                ring = self.layout.rings[index, span[0]]
                at = self.layout.bases[index, span[0]]
                height = self.plan.tensors[index].height
                self.b.windows[index] = Buffer(at, 0 if ring == height else ring)
                self.feeds.pop(index, None)

    def _feed(self, group: int, index: int, step: RowStep, cascade: Cascade) -> None:
        """Load the rows of tensor `index` that a step of layer `group` reads and that are not in
        SPM yet.

        Nothing is loaded where a layer of the same cascade makes the rows.
        """
        t, layer = self.plan.tensors[index], self.plan.layers[group]
        root = self.plan.places[index].root
        high = rows_needed(self.plan, layer, index, step.first, step.last)[1]
        if root in self.layout.passed or (
            cascade.maker(index) is not None and root in self.layout.streamed
        ):
            return
        if root in self.layout.streamed:
            ring = self.layout.rings[index, cascade.members[0]]
            self._from(index).ensure(group, cascade.low(index), high, ring)
        elif _outside(t):
            self._from(index).ensure(group, 0, high, t.height)
        else:
            self._inputs(group, root)

    def _from(self, index: int) -> _Feed:
        """The record of the rows of tensor `index` that came from the system; a new one at
        first.
        """
        return self.feeds.setdefault(index, _Feed(self, index))

    def _inputs(self, group: int, root: int) -> None:
        """Load the inputs and constants that lie in `root`, which stays in SPM, as a whole if not
        yet there.
        """
        for index in self.plan.owners(root):
            t = self.plan.tensors[index]
            if _outside(t):
                self._from(index).ensure(group, 0, t.height, t.height)

    def _store(self, group: int, index: int, done: int, rows: int) -> int:
        """Store rows `done` to `rows` - 1 of result `index` where it goes to the system.

        Returned is the number of rows that need no store any more. Few rows of a tensor that stays
        in SPM wait for more, until the piece has MIN_PIECE bytes or the tensor is complete.
        """
        t = self.plan.tensors[index]
        root = self.plan.places[index].root
        streamed = root in self.layout.streamed
        whole = t.where == "output" and self.plan.whole(index)
        if root in self.layout.passed or not (streamed or whole):
            return rows
        row = t.width * t.channels * t.itemsize
        if not streamed and (rows - done) * row < MIN_PIECE and rows < t.height:
            return done
        self.b.move("ST", group, index, self.home(index), done, rows)
        if rows == t.height and t.where == "output":
            self.stored.add(index)
        return rows

    def _finish(self, group: int) -> None:
        """Store the outputs that lie in roots whose last writer is layer `group` and that are not
        stored yet.
        """
        for index, t in enumerate(self.plan.tensors):
            if t.where != "output" or index in self.stored or index not in self.plan.places:
                continue
            root = self.plan.places[index].root
            writers = [
                n
                for n, layer in enumerate(self.plan.layers)
                if self.plan.places[layer.output].root == root
            ]
            if writers and writers[-1] == group:
                self._whole(group, index)

    def _whole(self, group: int, index: int) -> None:
        """Store output `index` as a whole, after loading inputs that share its root; mark it as
        stored.

        A streamed root is in system memory already: nothing is emitted for it.
        """
        self.stored.add(index)
        if self.plan.places[index].root in self.layout.streamed:
            return
        self._inputs(group, self.plan.places[index].root)
        self.b.move("ST", group, index, self.home(index), 0, self.plan.tensors[index].height)


def _outside(tensor: Tensor) -> bool:
    """Whether a tensor comes from the system: it is an input or a constant."""
    return tensor.where in ("input", "const")
