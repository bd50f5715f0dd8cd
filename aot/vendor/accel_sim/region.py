# SPDX-License-Identifier: Apache-2.0
"""A region of the graph as programs of the machine: constants, scratch, and calls that run them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aot.vendor import (
    Handle,
    Match,
    Operand,
    Pattern,
    Recorder,
    RegionView,
    UnsupportedError,
    ValueRef,
)
from aot.vendor.accel_sim.compile import compile_network
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.images import Images
from aot.vendor.accel_sim.isa import VERSION
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import (
    FIRST_IO,
    MAX_IOS,
    AccelOptions,
    Compiled,
    Network,
)
from aot.vendor.accel_sim.performance import report
from aot.vendor.accel_sim.specs import Spec

FLASH, WRITABLE = 1, 2
#: Constants in this section of a board's image are copied to RAM at start-up.
RAM = ".data.ax1_weights"


@dataclass(frozen=True, slots=True)
class Part:
    """Matches of a region that become one program, and the values that leave it."""

    matches: tuple[tuple[Pattern, Match], ...]
    outputs: tuple[ValueRef, ...]


def first_part(matches: Sequence[tuple[Pattern, Match]], always: set[str], most: int) -> Part:
    """The longest run of first matches that one program can take: at most `most`, and few tensors.

    A program has MAX_IOS inputs and outputs together. Results whose names are in `always`, and
    those that later matches read, leave the part. Raises UnsupportedError if the first match alone
    has more.
    """
    last: dict[str, int] = {}
    for n, (_, m) in enumerate(matches):
        last |= {v.name: n for _, v in m.inputs()}
    made: dict[str, ValueRef] = {}
    entering: set[str] = set()
    best: Part | None = None
    for n, (_, m) in enumerate(matches[:most]):
        entering |= {v.name for _, v in m.inputs() if not v.is_const and v.name not in made}
        made |= {v.name: v for v in m.outputs()}
        outs = [v for v in made.values() if v.name in always or last.get(v.name, -1) > n]
        if len(entering) >= MAX_IOS:  # it never becomes less
            break
        if len(entering) + len(outs) <= MAX_IOS:
            best = Part(tuple(matches[: n + 1]), tuple(outs))
    if best is not None:
        return best
    m = matches[0][1]
    what = f"accel_sim: {len(entering) + 1} tensors of one operator (at most {MAX_IOS})"
    raise UnsupportedError(what, f"node {m.root.onnx_name}")


class Lowering:
    """`@backend.region`: builds the networks, compiles them, records the calls."""

    def __init__(
        self, specs: Mapping[str, Spec], config: Config, rq: Rq, options: AccelOptions
    ) -> None:
        """Keep how each pattern, by name, builds its layers, and the machine and options to compile
        for.
        """
        self.specs, self.config, self.rq, self.options = specs, config, rq, options

    def __call__(self, c: Recorder, region: RegionView) -> None:
        """Lower a region: record one call per program, with temporaries for values from one to the
        next.

        Raises UnsupportedError where a single match does not fit.
        """
        places: dict[str, Handle] = {}
        leaving = {v.name for v in region.outputs}
        for number, (part, compiled, sources) in enumerate(self.programs(region)):
            for v in part.outputs:
                if v.name not in leaving:  # from one program to the next, as it is stored
                    places[v.name] = c.temp(v.shape, v.dtype, v.layout, name=f"{v.name}_between")
            name = f"region_{region.index}" + (f"_{number}" if number else "")
            layers = f"{len(compiled.layers)} layers, {compiled.cycles} cycles"
            c.covers([m for _, m in part.matches], layers)
            self._record(c, name, compiled, sources, places)

    def programs(self, region: RegionView) -> Iterator[tuple[Part, Compiled, dict[int, ValueRef]]]:
        """(part, its program, values by region of memory) for the parts of `region` in order.

        A part that does not fit the machine is tried with half of its matches. Raises
        UnsupportedError where a single match does not fit.
        """
        always = {v.name for v in region.outputs}
        matches = list(region.matches)
        count = len(matches)
        while matches:
            part = first_part(matches, always, count)
            try:
                network, sources = self.network(part)
                compiled = compile_network(network, self.config, self.options)
            except UnsupportedError:
                # Halves, because every try compiles the part: the largest part that fits would take
                # many.
                count = len(part.matches) // 2
                if not count:
                    raise
                continue
            yield part, compiled, sources
            matches = matches[len(part.matches) :]
            count = len(matches)

    def network(self, part: Part) -> tuple[Network, dict[int, ValueRef]]:
        """The network of a part, and the values of the graph behind its inputs and outputs, by
        tensor.
        """
        b = Images(self.rq)
        for pattern, m in part.matches:
            self.specs[pattern.name].build(b, m)
        network = b.finish(part.outputs)
        return network, b.sources

    def _record(
        self,
        c: Recorder,
        name: str,
        compiled: Compiled,
        sources: Mapping[int, ValueRef],
        places: Mapping[str, Handle],
    ) -> None:
        """Record the call of one compiled program, its constants, device state and files for the
        bundle.

        `sources` has the values behind inputs and outputs; `places` temporaries that stand for
        values.
        """
        stream = c.const(np.frombuffer(compiled.stream, np.uint8), "commands")
        weights = stream  # of which no byte is read if there are none
        if compiled.weights:
            ram = RAM if self.options.weights == "sram" and c.target.board else ""
            weights = c.const(np.frombuffer(compiled.weights, np.uint8), "tiles", section=ram)
        prefix = f"ax1v{VERSION}_{self.config.macs}_aot"
        crc = {
            "commands": len(compiled.stream),
            "commands_crc": _crc(compiled.stream),
            "weights": len(compiled.weights),
            "weights_crc": _crc(compiled.weights),
        }
        device = c.state(
            f"{prefix}_open", stream, weights, c.params(**crc), release=f"{prefix}_close", slots=1
        )
        ins = [self._used(c, sources[i], places, False) for i in compiled.inputs]
        outs = [self._used(c, sources[i], places, True) for i in compiled.outputs]
        ios: list[Operand] = [*ins, *outs, *[None] * (MAX_IOS - len(ins) - len(outs))]
        sizes = [r.size for r in compiled.regions]
        flags = [FLASH * r.flash + WRITABLE * r.writable for r in compiled.regions]
        # The C parameters have a fixed number of regions; those that do not exist have 0 bytes.
        fill = FIRST_IO + MAX_IOS - len(sizes)
        params = c.params(count=len(sizes), bytes=[*sizes, *[0] * fill], attr=[*flags, *[0] * fill])
        scratch = c.scratch(compiled.spill, "activations")
        macs = sum(layer.macs for layer in compiled.layers)
        operands: list[Operand] = [device, stream, weights, scratch, *ios, params]
        async_kernels = f"{prefix}_start", f"{prefix}_wait"
        c.call(f"{prefix}_run", *operands, status=True, macs=macs, async_kernels=async_kernels)
        c.attach(f"accel/{name}.ax1", compiled.stream)
        c.attach(f"accel/{name}.json", report(compiled, self.config))

    @staticmethod
    def _used(c: Recorder, value: ValueRef, places: Mapping[str, Handle], written: bool) -> Operand:
        """The operand by which a call reads `value`, or writes it if `written`.

        A value that one program of the region hands to a later one has a temporary in `places`, by
        the name of the value; any other is used itself.
        """
        what = places.get(value.name, value)
        return c.write(what) if written else c.read(what)


def _crc(data: bytes) -> int:
    """The CRC-32 of `data` as a signed 32-bit number, as parameters of a call hold integers."""
    crc = zlib.crc32(data)
    return crc - (1 << 32) if crc >> 31 else crc
