# SPDX-License-Identifier: Apache-2.0
"""Which tensors stay in the scratchpad, and how layers are cut so that it is large enough.

At first all stay. While they do not fit, the largest of the fullest group goes to the system, and
the layers that it meets are cut so that what passes through rings fits beside what stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.compose import Layout, allocate_buffers, requests, ring_rows
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import AccelOptions, Layer, Network, Tensor, Where
from aot.vendor.accel_sim.places import Plan, resolve
from aot.vendor.accel_sim.reshape_layers import reshape_layers
from aot.vendor.accel_sim.scratchpad import Request
from aot.vendor.accel_sim.tiling import Cost, ranked_tilings, vector_tilings
from aot.vendor.accel_sim.weight_tiles import weight_tiles


class Fitter:
    """Choices for one network on one machine."""

    def __init__(self, plan: Plan, c: Config, options: AccelOptions) -> None:
        """Start with every tensor staying in the scratchpad; `slack` are bytes that are kept free.

        Choices of a layer are computed once, as `choices`.
        """
        self.plan, self.c = plan, c
        self.flash = options.weights == "flash"
        self.streamed: set[int] = set()
        self.single: set[int] = set()
        self.slack = 0
        self.choices = lru_cache(maxsize=None)(self._choices)

    def scored(self, number: int) -> list[tuple[Cost, Tiling]]:
        """(cost, tiling) of a convolution with the number `number`, the cheapest first; [] if none
        fits.
        """
        layer = self.plan.layers[number]
        x, y = self.plan.tensors[layer.inputs[0]], self.plan.tensors[layer.output]
        return ranked_tilings(self.c, layer, x, y, self.flash)

    def _choices(self, number: int) -> list[Tiling]:
        """The tilings of layer `number`, the cheapest first; UnsupportedError if a convolution has
        none.
        """
        layer = self.plan.layers[number]
        if layer.kind not in ("conv", "dw"):
            return vector_tilings(self.c, layer, self.plan.tensors[layer.output])
        found = [t for _, t in self.scored(number)]
        if not found:
            raise UnsupportedError("accel_sim: fits no tiling", layer.name)
        return found

    def passing(self, number: int) -> list[int]:
        """The tensors that layer `number` reads or makes a few rows at a time, ascending.

        Their buffers lie in system memory (`streamed`); a ring buffer in the scratchpad
        holds the rows.
        """
        layer = self.plan.layers[number]
        used = sorted({*layer.inputs, layer.output})
        return [n for n in used if self.plan.places[n].root in self.streamed]

    def ring_bytes(self, number: int, tiling: Tiling, single: bool, tensors: list[int]) -> int:
        """Bytes of the ring buffers of `tensors` in layer `number`, each a multiple of 16.

        With `single` a ring holds the rows of one step of `tiling`, else of two, so that
        loading and computing overlap.
        """
        total = 0
        for n in tensors:
            x = self.plan.tensors[n]
            rows = ring_rows(self.plan, number, {number: tiling}, n, single)
            total += -(-rows * x.width * x.channels * x.itemsize // 16) * 16
        return total

    def cut(self, number: int, room: int) -> tuple[Tiling, bool] | None:
        """(tiling, whether rings hold one step only) of layer `number` with rings of at most `room`
        bytes.

        Rings of two steps come before rings of one, then the cheapest tiling; None if no tiling
        fits.
        """
        tensors = self.passing(number)
        if not tensors:
            return self.choices(number)[0], False
        for single in (False, True):
            for t in self.choices(number):
                if self.ring_bytes(number, t, single, tensors) <= room:
                    return t, single
        return None

    def rooms(self) -> list[int]:
        """Bytes of scratchpad, for each group of layers, beside the tensors that stay in it."""
        first = [self.choices(n)[0] for n in range(len(self.plan.layers))]
        stays = [
            r for r in requests(self.plan, Layout(first, set(self.streamed))) if len(r.key) == 1
        ]
        room = self.c.spm - self.slack
        return [
            room - sum(-(-r.size // 16) * 16 for r in stays if r.first <= g <= r.last)
            for g in range(len(self.plan.layers))
        ]

    def attempt(self) -> Layout | None:
        """A layout with the tensors that are streamed now; None if it does not fit.

        In that case another tensor is streamed, or more bytes are kept free, for the next attempt.
        """
        rooms = self.rooms()
        if rooms and min(rooms) < 0:
            self._evict(rooms.index(min(rooms)))
            return None
        tilings, single = [], set()
        for number, room in enumerate(rooms):
            found = self.cut(number, room)
            if found is None:
                self._evict(number)
                return None
            tilings.append(found[0])
            single |= {number} if found[1] else set()
        layout = Layout(tilings, set(self.streamed), single)
        allocate_buffers(self.plan, layout)
        if layout.top <= self.c.spm:
            return layout
        # The sum of sizes fits but their placement does not: gaps between buffers cost memory.
        if self.slack < self.c.spm // 4:
            self.slack += 1024
            return None
        self.slack = 0
        self._evict(rooms.index(min(rooms)))
        return None

    def _evict(self, group: int) -> None:
        """Stream the largest root that lies in SPM during layer `group`.

        UnsupportedError if no root there may leave: then the layer does not fit the scratchpad.
        """
        first = [self.choices(n)[0] for n in range(len(self.plan.layers))]
        wanted = requests(self.plan, Layout(first, set(self.streamed)))
        there = [r for r in wanted if r.first <= group <= r.last and self._movable(r)]
        if not there:
            layer = self.plan.layers[group]
            raise UnsupportedError(
                f"accel_sim: {layer.name} does not fit the scratchpad of {self.c.spm} bytes",
                layer.name,
            )
        self.streamed.add(max(there, key=lambda r: (r.size, -r.key[0])).key[0])

    def _movable(self, request: Request) -> bool:
        """Whether a request is for a whole root (not a ring buffer) that may lie in system
        memory.
        """
        return len(request.key) == 1 and self.plan.streamable(request.key[0])


def _layout(plan: Plan, c: Config, options: AccelOptions) -> Layout:
    """The first layout that fits; each attempt streams more. UnsupportedError if a layer never
    fits.
    """
    fitter = Fitter(plan, c, options)
    while True:
        layout = fitter.attempt()
        if layout is not None:
            return layout


def planned(network: Network, c: Config, options: AccelOptions) -> tuple[Plan, Layout]:
    """The layers with places of their tensors, and how rows of each are cut to fit the scratchpad.

    Layers whose weights would be loaded often are split into weight tiles if that saves cycles.
    Raises UnsupportedError for a layer of which not one row fits.
    """
    reshaped = reshape_layers(network, c)
    plan, layout = _either(reshaped, c, options)
    cut = weight_tiles(reshaped, c, options, plan, layout)
    return (plan, layout) if cut is None else _either(cut, c, options)


def _either(network: Network, c: Config, options: AccelOptions) -> tuple[Plan, Layout]:
    """Plan and layout with results of Concat and Slice in place, or copied where that does
    not fit.
    """
    plan = resolve(network)
    try:
        return plan, _layout(plan, c, options)
    except UnsupportedError:
        plan = resolve(network, copies=True)
        return plan, _layout(plan, c, options)


def refusal_alone(layer: Layer, tensors: Sequence[Tensor], c: Config) -> str | None:
    """The reason why `layer` cannot be planned as the only layer of a network, or None if it can.

    Its operands become inputs (constants stay) and its result the output.
    """
    used = list(dict.fromkeys((*layer.inputs, layer.output)))
    own = [
        replace(tensors[n], where="output" if n == layer.output else _source(tensors[n]))
        for n in used
    ]
    inputs = tuple(used.index(n) for n in layer.inputs)
    one = replace(layer, inputs=inputs, output=used.index(layer.output))
    try:
        planned(Network(tuple(own), (one,)), c, AccelOptions())
    except UnsupportedError as error:
        return error.what.removeprefix("accel_sim: ")
    return None


def _source(tensor: Tensor) -> Where:
    """How a tensor enters a network of one layer: a constant stays one, anything else is an
    input.
    """
    return "const" if tensor.where == "const" else "input"
