# SPDX-License-Identifier: Apache-2.0
"""The backend: patterns that the machine supports, for one configuration of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from aot.vendor import (
    PLAIN,
    Backend,
    BackendOptions,
    Layout,
    Match,
    Speed,
    UsageError,
    ValueRef,
    channels_last,
)
from aot.vendor.accel_sim.checks import layer_cycles, layer_refusal
from aot.vendor.accel_sim.config import Config, config
from aot.vendor.accel_sim.float32 import SPECS as FLOAT32
from aot.vendor.accel_sim.images import Images
from aot.vendor.accel_sim.int8_products import SPECS as PRODUCTS
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import AccelOptions, Layer
from aot.vendor.accel_sim.region import Lowering
from aot.vendor.accel_sim.sources import DRIVER, DRIVER_HEADERS, SIMULATOR, SIMULATOR_HEADERS
from aot.vendor.accel_sim.specs import Checks, Spec
from aot.vendor.accel_sim.vectors import SPECS as VECTORS
from aot.vendor.accel_sim.views import SPECS as VIEWS

NAME, HEADER = "accel_sim", "aot_ax1.h"
FOLDER = Path(__file__).parent
SPECS = (*PRODUCTS, *VECTORS, *VIEWS, *FLOAT32)
CHOICES = {"weights": ("flash", "sram"), "compress": ("auto", "on", "off")}
SOURCES = (
    *("aot_ax1.c", "aot_ax1.h", *DRIVER, *DRIVER_HEADERS),
    *(*SIMULATOR, *SIMULATOR_HEADERS),
)
#: MHz at which cycles become time for `--partition cost`: a small accelerator beside a
#: microcontroller.
CLOCK = 200
#: Starting a program, its interrupt and the look at its result, in cycles.
START_CYCLES = 500
#: Boards of which the simulator knows timer and interrupt controller (ax1_board.h).
INTERRUPTS = ("mps2-an385", "mps2-an386", "mps2-an500", "virt")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, the arithmetic of quantised values and the compiler's options, which checks and
    costs ask."""

    config: Config
    rq: Rq
    options: AccelOptions

    def check(self, spec: Spec, m: Match) -> Checks:
        """The conditions of a pattern's match; if all hold, whether its layers fit the machine.

        Yields (condition, reason for which it fails).
        """
        clean = True
        for ok, why in spec.check(m, self.rq):
            clean = clean and ok
            yield ok, why
        if clean:
            b = self.layers(spec, m)
            for layer in b.layers:
                reason = layer_refusal(layer, tuple(b.tensors), self.config)
                yield not reason, reason or ""
                yield self._rows_fit(layer, b)

    def _rows_fit(self, layer: Layer, b: Images) -> tuple[bool, str]:
        """(whether the scratchpad holds one result row of a layer with the input rows it needs,
        reason).
        """
        y = b.tensors[layer.output]
        windowed = layer.kind in ("conv", "dw", "max", "average")
        lines = 1 + (layer.window.kh - 1) * layer.window.dh if windowed else 1
        need = y.width * y.channels * y.itemsize
        for n, i in enumerate(layer.inputs):
            t = b.tensors[i]
            rows = min(t.height, lines if n == 0 else 1)
            need += rows * t.width * t.channels * t.itemsize
        room = self.config.spm
        what = f"a row of the result takes {need} bytes with what it needs (room for {room})"
        return need <= room, what

    def layers(self, spec: Spec, m: Match) -> Images:
        """The tensors and layers of one match alone, as its pattern builds them."""
        b = Images(self.rq)
        spec.build(b, m)
        return b

    def nanoseconds(self, spec: Spec, m: Match) -> float:
        """The estimated time of a match inside a region, in nanoseconds."""
        b = self.layers(spec, m)
        tensors = tuple(b.tensors)
        cycles = sum(layer_cycles(n, tensors, self.config, self.options) for n in b.layers)
        return cycles * 1000.0 / CLOCK


def _layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layout of each operand and result of a match, by name.

    Operands are read as they come, channels last or plain; quantised results leave with their
    channels last, as other kernels read them.
    """
    wanted = {}
    for name, v in m.inputs():
        own = v.rank > 2 and incoming[name].block == v.shape[1]
        wanted[name] = Layout(v.shape[1]) if own else PLAIN
    for name in m.output_names:
        y = m.values[name]
        if y is not None:
            wanted[name] = _result_layout(y)
    return wanted


def _result_layout(y: ValueRef) -> Layout:
    """Channels last for 8-bit results of rank 3 or more inside the graph; plain for all others."""
    blocked = y.dtype.nbytes == 1 and y.rank > 2 and not y.is_output
    return channels_last(y) if blocked else PLAIN


def options_of(said: BackendOptions) -> AccelOptions:
    """The options of the compiler from `--backend-option accel_sim.KEY=V` and `--objective`.

    Raises UsageError for a key or a value that the compiler does not have.
    """
    given: Mapping[str, str] = said.options
    said.only(NAME, CHOICES)
    for key, value in given.items():
        if value not in CHOICES[key]:
            raise UsageError(f"accel_sim.{key}={value}: not one of {', '.join(CHOICES[key])}")
    return AccelOptions(
        weights=cast(Any, given.get("weights", "flash")),
        compress=cast(Any, given.get("compress", "auto")),
        objective=cast(Any, said.objective),
    )


def make(said: BackendOptions) -> Backend:
    """The backend for the machine, arithmetic and options that the user asked for.

    BackendError for an unknown machine, UsageError for an unknown option.
    """
    chosen = config(said.config or 256)
    rq = Rq.TFLITE if said.requant == "tflite" else Rq.FLOAT
    machine = Machine(chosen, rq, options_of(said))
    # All layers of a region are one program: starting it costs, going from layer to layer does not.
    speed = Speed(
        macs_per_ns=chosen.macs * CLOCK / 1000,
        bytes_per_ns=chosen.sram_rate * CLOCK / 1000,
        call_ns=0.0,
        enter_ns=START_CYCLES * 1000 / CLOCK,
    )
    made = Backend(
        NAME,
        header=HEADER,
        sources=SOURCES,
        find="ax1.cmake",
        definitions=_definitions(chosen, said.machine),
        memory=simulator_bytes(chosen),
        folder=FOLDER,
        speed=speed,
        configure=make,
    )
    for spec in SPECS:
        made.declare(
            spec.name,
            spec.graph,
            partial(machine.check, spec),
            layouts=_layouts,
            cost=partial(machine.nanoseconds, spec),
            cases=spec.cases,
        )
    made.region(Lowering({s.name: s for s in SPECS}, chosen, rq, machine.options))
    return made


def _definitions(chosen: Config, machine: str) -> tuple[str, ...]:
    """C preprocessor definitions for the vendor's sources: the machine, and the board's interrupt
    code.
    """
    own = (f"AX1_MACS={chosen.macs}",)
    return (*own, 'AX1_BOARD="ax1_board.h"') if machine in INTERRUPTS else own


def simulator_bytes(c: Config) -> int:
    """RAM of the simulated machine, rounded up: memories, a buffer, queues and registers."""
    return c.spm + c.wgt + c.acc + 12 * c.prm_channels + c.lut + 1024 * c.m + 12 * 1024


backend = make(BackendOptions())
