# SPDX-License-Identifier: Apache-2.0
"""From ordered nodes to a stream, and what the reports say about it."""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor.accel_sim.encode import Instr, encode_all, instr
from aot.vendor.accel_sim.estimate import Timeline
from aot.vendor.accel_sim.items import Load
from aot.vendor.accel_sim.network import Layer, LayerReport
from aot.vendor.accel_sim.nodes import Node
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.slots import Slots
from aot.vendor.accel_sim.tokens import tokens

#: Ends the tiling of a layer that is cut into tiles of channels.
TILES = ", in tiles of channels"


def written(order: Sequence[Node]) -> list[Instr]:
    """The program of ordered nodes: each with its tokens, behind instructions that set slots it
    reads.

    HALT comes last; nothing is rolled into loops. The items get their `wait` and `signal`.
    """
    slots, code = Slots(), list[Instr]()
    for node, (wait, signal) in zip(order, tokens(order), strict=True):
        node.item.wait, node.item.signal = wait, signal
        where, made = slots.place(node.item)
        code += [*made, node.item.encoded(where)]
    code.append(instr("HALT", {}))
    return code


def stream_of(code: Sequence[Instr]) -> bytes:
    """The bytes of a program, 16 per instruction."""
    return encode_all(code)


def needed_macs(plan: Plan, layer: Layer) -> int:
    """The number of products that the mathematics of a layer needs; 0 for one without weights."""
    if layer.weights is None:
        return 0
    y = plan.tensors[layer.output]
    return y.height * y.width * int(layer.weights.size)


def reports(
    plan: Plan,
    order: Sequence[Node],
    loads: Sequence[Load],
    timeline: Timeline,
    tilings: Sequence[str],
) -> tuple[LayerReport, ...]:
    """A report per layer of the plan, in order; neighbours of one name and kind are one report.

    `order` are the nodes of the program and `timeline` has a span (cycles) for each of them. Loads
    of weights count as busy cycles but are not between start and end of a layer. Weights are bytes
    as they are loaded, compressed where `loads` are. `tilings` has a text per layer.
    """
    count = len(plan.layers)
    start, end = [timeline.total] * count, [0] * count
    busy = [[0] * 4 for _ in range(count)]
    for node, span in zip(order, timeline.spans, strict=True):
        n = node.item.layer
        busy[n][span.unit] += span.end - span.start
        if node.load < 0:
            start[n], end[n] = min(start[n], span.start), max(end[n], span.end)
    moved = [0] * count
    for load in loads:
        moved[load.layer] += load.packed or len(load.data)
    found: list[LayerReport] = []
    for n, (layer, b) in enumerate(zip(plan.layers, busy, strict=True)):
        own = LayerReport(
            layer.name, layer.kind, start[n], end[n], (b[0], b[1], b[2], b[3]),
            needed_macs(plan, layer), moved[n], tilings[n],
        )  # fmt: skip
        if found and (found[-1].name, found[-1].kind) == (layer.name, layer.kind):
            own = _joined(found.pop(), own)
        found.append(own)
    return tuple(found)


def _joined(layer: LayerReport, b: LayerReport) -> LayerReport:
    """One report for two tiles of channels of the same layer, `layer` and `b`: sums of cycles and
    bytes.
    """
    busy = [x + y for x, y in zip(layer.busy, b.busy, strict=True)]
    return LayerReport(
        layer.name, layer.kind, min(layer.start, b.start), max(layer.end, b.end),
        (busy[0], busy[1], busy[2], busy[3]), layer.macs + b.macs, layer.weights + b.weights,
        layer.tiling if layer.tiling.endswith(TILES) else layer.tiling + TILES,
    )  # fmt: skip
