# SPDX-License-Identifier: Apache-2.0
"""Which layers become a cascade: those with large tensors between them that would travel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aot.vendor.accel_sim.compose import Layout, allocate_buffers, uses
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.fitting import Fitter
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.load_addresses import TABLES
from aot.vendor.accel_sim.network import AccelOptions
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.weights import depth_parts

#: Layers of a cascade; rows of a step that are tried (0: any).
LONGEST = 8
ROWS = (0, 4, 2, 1)

Span = tuple[int, int]


class CascadeChoice:
    """Cascades for one layout."""

    def __init__(self, plan: Plan, c: Config, options: AccelOptions) -> None:
        """Prepare the choice of cascades for the layers of `plan` on the machine `c`.

        `touched` has the layers that touch each root; `flash` says that weights come from flash.
        """
        self.plan, self.c, self.options = plan, c, options
        self.fitter = Fitter(plan, c, options)
        self.touched = uses(plan)
        self.flash = options.weights == "flash"

    def better(self, layout: Layout) -> Layout:
        """`layout` with cascades where they save cycles (or bytes, for `ram`).

        The largest tensors that would be stored in system memory are tried first.
        """
        streamed = [r for r in layout.streamed if self._inside(r)]
        for root in sorted(streamed, key=lambda r: (-self.plan.sizes[r], r)):
            if root in layout.passed:
                continue
            layers = self.touched[root]
            for span in self._spans(layout, (layers[0], layers[-1])):
                found = self._try(layout, span)
                if found is not None:
                    layout = found
                    break
        return layout

    def _inside(self, root: int) -> bool:
        """Whether `root` is one whole tensor that is neither an input, an output nor a constant."""
        return self.plan.tensors[root].where == "inner" and self.plan.whole(root)

    def _spans(self, layout: Layout, span: Span) -> Iterator[Span]:
        """The (first, last) layer of a cascade to try: `span`, widened by the cascades that it
        meets.
        """
        first = min(layout.span(n)[0] for n in range(span[0], span[1] + 1))
        last = max(layout.span(n)[1] for n in range(span[0], span[1] + 1))
        yield first, last

    def _try(self, layout: Layout, span: Span) -> Layout | None:
        """`layout` with the layers of `span` (first, last) as one cascade; None if that does not
        fit or pay.

        Steps of more rows are tried before steps of fewer, and rings of two steps before rings of
        one. Tensors that only these layers touch get a ring buffer instead of memory.
        """
        if span[1] - span[0] >= LONGEST or span[0] == span[1]:
            return None
        members = range(span[0], span[1] + 1)
        passed = {
            r
            for r, layers in self.touched.items()
            if layers and self._inside(r) and all(n in members for n in layers)
        }
        cascades = [s for s in layout.cascades if s[1] < span[0] or s[0] > span[1]]
        base = replace(
            layout,
            streamed=layout.streamed - passed,
            single=layout.single - set(members),
            passed=layout.passed | passed,
            cascades=tuple(sorted([*cascades, span])),
        )
        # Fewer rows per step need less memory, but the weights pass the array more often.
        for limit in ROWS:
            cut = self._tilings(members, limit)
            if cut is None:
                return None
            tilings = [cut.get(n, t) for n, t in enumerate(layout.tilings)]
            if not self._pays(layout, tilings, members, passed):
                continue
            for ahead, single in ((True, False), (False, False), (False, True)):
                found = replace(
                    base,
                    tilings=tilings,
                    single=base.single | (set(members) if single else set()),
                    ahead=base.ahead - set(members) | ({span[0]} if ahead else set()),
                )
                allocate_buffers(self.plan, found)
                if found.top <= self.c.spm:
                    return found
        return None

    def _tilings(self, members: range, limit: int) -> dict[int, Tiling] | None:
        """For each of the layers `members` a tiling that keeps its weights in WGT, those of all at
        once; None if rows of WGT or tables do not suffice, or a layer has no such tiling.

        With `limit` a tiling makes at most so many rows. Where the channels of all exceed the
        parameters' memory, every layer loads its parameters again.
        """
        rows = channels = tables = 0
        found: dict[int, Tiling] = {}
        for n in members:
            layer = self.plan.layers[n]
            tables += TABLES if layer.kind == "softmax" else layer.table is not None
            fit = [t for t in self.fitter.choices(n) if not limit or t.rows <= limit]
            if layer.kind in ("conv", "dw"):
                # Members take turns row by row: weights that do not stay would be loaded at every
                # step.
                fit = [t for t in fit if t.keep and not t.outer]
                x, y = self.plan.tensors[layer.inputs[0]], self.plan.tensors[layer.output]
                rows += self._rows(n, x.itemsize)
                channels += y.channels
            if not fit:
                return None
            found[n] = fit[0]
        if rows > self.c.wgt_rows or tables > TABLES:
            return None
        # Members overwrite each other's parameters where all of them do not fit at once.
        if channels > self.c.prm_channels:
            found = {n: replace(t, renew=True) for n, t in found.items()}
        return found

    def _rows(self, number: int, size: int) -> int:
        """The rows of the weight memory that all weights of layer `number` take, for elements of
        `size` bytes.

        A convolution whose window is computed in parts gets more rows than there are: its weights
        cannot stay.
        """
        layer = self.plan.layers[number]
        assert layer.weights is not None
        tiles = -(-layer.weights.shape[0] // self.c.lanes(size))
        parts = depth_parts(layer, self.c, size) if layer.kind == "conv" else []
        if len(parts) > 1:
            return self.c.wgt_rows + 1
        return int(tiles * layer.weights[0].size)

    def _pays(
        self, layout: Layout, tilings: list[Tiling], members: range, passed: set[int]
    ) -> bool:
        """Whether a cascade of `members` saves more cycles of moving than it adds cycles of
        computing.

        Saved are the store and the load of each tensor of `passed` that `layout` streams; added are
        dearer tilings and parameters that are loaded again. For the objective `ram` the answer is
        always True.
        """
        if self.options.objective == "ram":
            return True
        moved = sum(2 * self.plan.sizes[r] for r in passed & layout.streamed) // self.c.sram_rate
        more = 0
        for n in members:
            layer, t = self.plan.layers[n], tilings[n]
            y = self.plan.tensors[layer.output]
            if layer.kind not in ("conv", "dw"):
                continue
            costs = {x: cost.alone for cost, x in self.fitter.scored(n)}
            more += costs[replace(t, renew=False)] - costs.get(layout.tilings[n], 0)
            if t.renew:
                calls = -(-y.height // t.rows) * -(-y.width // t.cols)
                # 9 bytes: the larger of the two forms in which a channel's parameters are stored.
                own = 9 * y.channels // self.c.rate(self.flash) + self.c.latency(self.flash)
                more += calls * own
        return moved > more
