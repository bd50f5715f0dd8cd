# SPDX-License-Identifier: Apache-2.0
"""Other cuts of single layers, tried on the whole program: what a layer costs depends on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.compose import Layout
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.fitting import Fitter
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import AccelOptions
from aot.vendor.accel_sim.places import Plan

#: Items of all programs that are tried; (bytes, groups) of LDLs to try.
BUDGET = 3000
#: Networks of more layers are not searched.
LAYERS = 100
LOADS = ((1024, 4), (2048, 2), (2048, 4), (4096, 2), (8192, 1), (14336, 1))
#: Cuts of a layer that are tried, if they take no more than so much longer on their own (SAVING:
#: where energy counts).
CUTS, LONGER, SAVING = 4, 1.25, 2.0


def search(
    plan: Plan,
    c: Config,
    options: AccelOptions,
    layout: Layout,
    cycles: Callable[[Layout], tuple[int, int]],
) -> Layout:
    """A layout at least as fast as `layout`; `cycles` gives (cycles, items) of a layout.

    Changes are tried one by one and kept where they save cycles, until BUDGET items were scheduled.
    Networks of more than LAYERS layers are returned as they are.
    """
    if not BUDGET or len(plan.layers) > LAYERS:
        return layout
    best, (least, items) = layout, cycles(layout)
    left = BUDGET // items if items else 0
    for trial in _trials(plan, c, options, layout):
        if left <= 0:
            break
        left -= 1
        found = trial(best)
        try:
            total = cycles(found)[0]
        except UnsupportedError:  # loads that do not fit beside each other
            continue
        if total < least:
            best, least = found, total
    return best


def _trials(
    plan: Plan, c: Config, options: AccelOptions, layout: Layout
) -> list[Callable[[Layout], Layout]]:
    """Functions that change a layout in one way each, in the order in which they should be tried.

    They are other sizes of loads, then other tilings of convolutions that lie in SPM as a whole.
    """
    found: list[Callable[[Layout], Layout]] = []
    for chunk, groups in LOADS:
        if chunk > c.wgt // 2:
            continue
        found.append(partial(_loads, chunk=chunk, groups=groups))
    fitter = Fitter(plan, c, options)
    fitter.streamed = layout.streamed
    ranked: list[tuple[int, int, int]] = []
    for n, layer in enumerate(plan.layers):
        cascaded = layout.span(n) != (n, n)
        if layer.kind not in ("conv", "dw") or cascaded or fitter.passing(n):
            continue
        scored = fitter.scored(n)
        longer = LONGER if options.objective != "energy" else SAVING
        for rank, (cost, _) in enumerate(scored[1 : 1 + CUTS], 1):
            if cost.alone <= longer * scored[0][0].alone:
                # Second-best tilings of the costliest layers come before third-best ones of any
                # layer.
                ranked.append((rank, -scored[0][0].alone, n))
    for rank, _, n in sorted(ranked):
        t = fitter.scored(n)[rank][1]
        found.append(partial(_cut, number=n, tiling=t))
    return found


def _loads(layout: Layout, chunk: int, groups: int) -> Layout:
    """`layout` with loads of at least `chunk` bytes of weights and 1 / `groups` of the
    parameters.
    """
    return replace(layout, chunk=chunk, groups=groups)


def _cut(layout: Layout, number: int, tiling: Tiling) -> Layout:
    """`layout` with layer `number` cut by `tiling`."""
    tilings = list(layout.tilings)
    tilings[number] = tiling
    return replace(layout, tilings=tilings)
