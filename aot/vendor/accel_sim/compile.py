# SPDX-License-Identifier: Apache-2.0
"""From a network to a verified program.

    compiled = compile_network(network, config(256))

Layers are cut (`tiling.py`), tensors get places (`places.py`, `scratchpad.py`), the items are
written in order (`compose.py`), constants get theirs (`load_addresses.py`), loads are merged in
(`merge.py`), tokens follow from what the items touch (`nodes.py`, `tokens.py`), repetitions become
loops (`loops.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.blob import Blob, pack_loads
from aot.vendor.accel_sim.checks import (
    DEFAULTS,
    exceeded_limit,
    layer_cycles,
    layer_refusal,
    refuse,
)
from aot.vendor.accel_sim.choose_cascades import CascadeChoice
from aot.vendor.accel_sim.compose import Composer, Layout
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.energy import traffic
from aot.vendor.accel_sim.estimate import Timeline, estimate
from aot.vendor.accel_sim.finish import reports, stream_of, written
from aot.vendor.accel_sim.fitting import planned
from aot.vendor.accel_sim.items import Item, Load
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.load_addresses import DoesNotFit, assign, order
from aot.vendor.accel_sim.loops import roll
from aot.vendor.accel_sim.merge import Policy, merge
from aot.vendor.accel_sim.network import (
    FIRST_IO,
    MAX_IOS,
    AccelOptions,
    Compiled,
    Network,
)
from aot.vendor.accel_sim.nodes import Node, Tracker, ldl
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.search import search
from aot.vendor.accel_sim.timing import Region
from aot.vendor.accel_sim.verify import verify

__all__ = ["compile_network", "layer_cycles", "layer_refusal"]

#: A shorter stream may take one cycle in so many more.
LOOPS = 500
#: Programs of more items are merged in one way only.
MANY = 3000
#: Ways to merge loads into a program; which one is fastest depends on the network.
POLICIES = (Policy(), Policy(2000), Policy(6000), Policy(1 << 30, 6))


_Lists = tuple[list[Node], list[Node]]


@dataclass(slots=True)
class _Trial:
    """A finished program of one layout."""

    stream: bytes
    blob: Blob
    timeline: Timeline
    nodes: list[Node]
    loads: list[Load]
    layout: Layout
    regions: list[Region]


def compile_network(network: Network, config: Config, options: AccelOptions = DEFAULTS) -> Compiled:
    """Compile `network` to a verified program for the machine `config`.

    Raises UnsupportedError with the reason if a layer exceeds the machine or fits no tiling.
    """
    for layer in network.layers:
        reason = exceeded_limit(layer, network.tensors, config)
        if reason:
            raise UnsupportedError(f"accel_sim: {reason}", layer.name)
    refuse(network)
    plan, layout = planned(network, config, options)
    trials = _Trials(network, plan, config, options)
    # Without tensors in system memory a cascade has nothing to save.
    if layout.streamed:
        layout = trials.cascades(layout)
    layout = search(plan, config, options, layout, trials.quick)
    return _compiled(network, plan, config, trials.finish(layout))


def _compiled(network: Network, plan: Plan, config: Config, best: _Trial) -> Compiled:
    """The result record of the program `best`, after its command stream was verified.

    InternalError if the verifier finds a fault, which would be a bug of this compiler.
    """
    # The encoded stream is checked, not the nodes that it was made of: faults of encoding show,
    # too.
    data = [best.stream, best.blob.data]
    executed = verify(best.stream, config, best.regions, data, written=_written(network))
    inputs, outputs = network.ios()
    names = [_name(t) for t in best.layout.tilings]
    return Compiled(
        best.stream,
        best.blob.data,
        best.layout.spill,
        inputs,
        outputs,
        tuple(best.regions),
        best.timeline,
        reports(plan, best.nodes, best.loads, best.timeline, names),
        best.layout.top,
        executed,
    )


def _name(tiling: Tiling) -> str:
    """A tiling in words for reports: pixels, tiles of channels, and how often weights are
    loaded.
    """
    order = (
        "weights pass once"
        if tiling.outer
        else "weights stay"
        if tiling.keep
        else "weights pass again"
    )
    return f"{tiling.rows} x {tiling.cols} pixels, {tiling.tiles} tiles, {order}"


def _written(network: Network) -> dict[int, list[tuple[int, int]]]:
    """The byte ranges of each writable memory region that hold data before the program starts:
    none.

    Keys are the numbers of the scratch region and of the outputs; others may be read anywhere.
    """
    inputs, outputs = network.ios()
    first = FIRST_IO + len(inputs)
    found: dict[int, list[tuple[int, int]]] = {2: []}
    found.update({first + n: [] for n in range(len(outputs))})
    return found


def _homes(network: Network, plan: Plan, blob: Blob) -> dict[int, tuple[int, int]]:
    """(memory region, byte offset) of each input, output and constant, by the tensor's number.

    Constants are added to `blob`. UnsupportedError if inputs and outputs are more than the regions
    left.
    """
    inputs, outputs = network.ios()
    if len(inputs) + len(outputs) > MAX_IOS:
        raise UnsupportedError(
            f"accel_sim: {len(inputs) + len(outputs)} inputs and outputs (at most {MAX_IOS})"
        )
    found = {index: (FIRST_IO + n, 0) for n, index in enumerate((*inputs, *outputs))}
    for index, t in enumerate(plan.tensors):
        if t.where == "const":
            found[index] = (1, blob.constant(t))
    return found


def _regions(network: Network, options: AccelOptions, layout: Layout, blob: Blob) -> list[Region]:
    """The memory regions of a program by their numbers, with sizes in bytes.

    They are commands (size still 0), constants, scratch, then inputs, then outputs.
    """
    inputs, outputs = network.ios()
    flash = options.weights == "flash"
    fixed = [
        Region(0, flash=True),
        Region(max(16, len(blob.data)), flash=flash),
        Region(layout.spill, writable=True),
    ]
    fixed += [Region(network.tensors[n].extent) for n in inputs]
    return fixed + [Region(network.tensors[n].extent, writable=True) for n in outputs]


class _Trials:
    """Programs of one network for several layouts."""

    def __init__(self, network: Network, plan: Plan, config: Config, options: AccelOptions) -> None:
        """Keep what all trials share: the network, its plan, the machine and the options."""
        self.network, self.plan, self.config, self.options = network, plan, config, options

    def _begin(self, layout: Layout) -> tuple[Blob, list[Load], list[Region], _Lists]:
        """The constants, loads, memory regions and unordered nodes of a program with this layout.

        DoesNotFit if loads that are needed at the same time exceed their memory.
        """
        blob, c = Blob(), self.config
        b = Composer(c, self.plan, layout, _homes(self.network, self.plan, blob)).run()
        assign(c, b.items, b.loads)
        pack_loads(c, self.options, b.loads, blob)
        regions = _regions(self.network, self.options, layout, blob)
        return blob, b.loads, regions, _nodes(c, regions, b.items, b.loads)

    def cascades(self, layout: Layout) -> Layout:
        """`layout` with layers joined to cascades if the program becomes cheaper (`quick`), else as
        it is.

        For the objective `ram` less scratch memory is enough.
        """
        other = CascadeChoice(self.plan, self.config, self.options).better(layout)
        try:
            ram = self.options.objective == "ram" and other.spill < layout.spill
            return other if ram or self.quick(other) < self.quick(layout) else layout
        # The loads of a cascade's layers are in use at once and may not fit beside each other.
        except DoesNotFit:
            return layout

    def quick(self, layout: Layout) -> tuple[int, int]:
        """(cycles without tokens, or picojoules; items) of a layout, to compare layouts by."""
        _, _, regions, lists = self._begin(layout)
        total = merge(self.config, True, *lists, POLICIES[0])[1]
        if self.options.objective == "energy":
            steps = (node.item.stepped() for nodes in lists for node in nodes)
            total = int(traffic(steps, self.config, regions).energy())
        return total, len(lists[0])

    def finish(self, layout: Layout) -> _Trial:
        """The best program of `layout` among policies for loads, with and without loops.

        Only the two merges that are fastest on the clock of the merge are written out and
        estimated.
        """
        blob, loads, regions, lists = self._begin(layout)
        tried = POLICIES if len(lists[0]) < MANY else POLICIES[:1]
        merged = [merge(self.config, True, *lists, policy) for policy in tried]
        best: _Trial | None = None
        for nodes, _ in sorted(merged, key=lambda m: m[1])[:2]:
            code = written(nodes)
            for shape in (code, roll(code)):
                stream = stream_of(shape)
                regions[0] = Region(len(stream), flash=True)
                timeline = estimate(stream, self.config, regions, [stream, blob.data])
                found = _Trial(stream, blob, timeline, nodes, loads, layout, list(regions))
                if best is None or self._better(found, best):
                    best = found
        assert best is not None
        return best

    def _better(self, trial: _Trial, b: _Trial) -> bool:
        """Whether the program `trial` is preferred to `b`: the one that takes fewer cycles.

        A shorter command stream may take longer by one cycle in LOOPS; for the objective `flash`
        the shorter stream is always preferred.
        """
        longer = trial.timeline.total - b.timeline.total
        if len(trial.stream) < len(b.stream):
            return self.options.objective == "flash" or longer * LOOPS <= b.timeline.total
        return longer < 0 and self.options.objective != "flash"


def _nodes(
    config: Config, regions: Sequence[Region], items: Sequence[Item], loads: Sequence[Load]
) -> _Lists:
    """(nodes of the items, nodes of the loads), each list in program order.

    Every load is registered right before the item that uses it first, so that dependencies are
    found in the order in which they hold.
    """
    tracker = Tracker(config, regions)
    waiting = order(loads)
    found: list[Node] = []
    loaded: list[Node] = []
    for number, item in enumerate(items):
        while waiting and loads[waiting[0]].first <= number:
            load = waiting.pop(0)
            loaded.append(tracker.add(ldl(loads[load]), load, loads[load].zeros))
        found.append(tracker.add(item))
    return found, loaded
