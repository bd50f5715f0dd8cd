# SPDX-License-Identifier: Apache-2.0
"""Which tensors stay in the scratchpad, and how layers are cut so that it is large enough."""

from __future__ import annotations

from collections.abc import Iterator

from aot.errors import UnsupportedError
from aot.vendor.accel_sim.compose import Layout, requests, settle
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import AccelOptions
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.resident import peak
from aot.vendor.accel_sim.tiling import product_tiling, vector_tiling


def cut(plan: Plan, c: Config, number: int, streamed: set[int], least: bool) -> Tiling:
    """The tiling of a layer; `least`: the one that needs the fewest rows at once."""
    layer = plan.layers[number]
    x, y = plan.tensors[layer.inputs[0]], plan.tensors[layer.output]
    touched = {plan.places[n].root for n in (*layer.inputs, layer.output)}
    by_rows = bool(touched & streamed)
    if layer.kind not in ("conv", "dw"):
        t = vector_tiling(c, layer, x, y, by_rows)
        return Tiling(1, t.cols) if least else t
    found = [t for _, t in product_tiling(c, layer, x, y, by_rows)]
    if not found:
        raise UnsupportedError("accel_sim: fits no tiling", layer.name)
    return min(found, key=lambda t: (t.outer, t.rows)) if least else found[0]


def layouts(plan: Plan, c: Config, options: AccelOptions) -> Iterator[Layout]:
    """Layouts that fit the scratchpad, to be compared; raises UnsupportedError if none does."""
    streamed: set[int] = set()
    least: set[int] = set()
    while True:
        tilings = [cut(plan, c, n, streamed, n in least) for n in range(len(plan.layers))]
        layout = Layout(tilings, set(streamed), set(least))
        settle(plan, layout)
        if layout.top <= c.spm:
            yield layout
            return
        _relax(plan, c, layout, streamed, least)


def _relax(plan: Plan, c: Config, layout: Layout, streamed: set[int], least: set[int]) -> None:
    """Stream the largest tensor of the fullest group, or make its steps smaller."""
    wanted = requests(plan, layout)
    group, size = peak(wanted)
    there = [r for r in wanted if r.first <= group <= r.last]
    free = [
        r for r in there if len(r.key) == 1 and plan.whole(r.key[0]) and r.key[0] not in streamed
    ]
    # Tensors that only pass by go first, then those of the layer itself.
    if free:
        streamed.add(max(free, key=lambda r: (r.size, -r.key[0])).key[0])
        return
    if group not in least:
        least.add(group)
        return
    layer = plan.layers[group]
    raise UnsupportedError(
        f"accel_sim: {layer.name} needs {size} bytes of the scratchpad's {c.spm}", layer.name
    )
