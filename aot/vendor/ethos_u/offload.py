# SPDX-License-Identifier: Apache-2.0
"""The backend: patterns of one NPU, checks that ask Vela, regions as one call each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from aot.vendor import (
    Backend,
    BackendError,
    BackendOptions,
    InternalError,
    Match,
    Operand,
    Recorder,
    RegionView,
    Speed,
    ValueRef,
    channels_last,
)
from aot.vendor.ethos_u.configs import DEFAULT, Npu, configured, named
from aot.vendor.ethos_u.layer import Layer
from aot.vendor.ethos_u.layers import LAYERS as COMPUTING
from aot.vendor.ethos_u.moves import LAYERS as MOVING
from aot.vendor.ethos_u.products import LAYERS as PRODUCTS
from aot.vendor.ethos_u.values import Builder, Checks, tensors_fit
from aot.vendor.ethos_u.vela import Compiled, VelaError, worker

NAME, HEADER = "ethos_u", "aot_ethos_u.h"
FOLDER = Path(__file__).parent
SOURCES = ("aot_ethos_u.c", "aot_ethos_u_standin.c", "aot_ethos_u_driver.h", HEADER)
LAYERS: dict[str, Layer] = {layer.name: layer for layer in (*PRODUCTS, *COMPUTING, *MOVING)}
#: Layers that a region cannot be of alone.
MOVES = ("qreshape", "qtranspose")
#: Tensors that enter and leave a region: what one call can name.
MOST_TENSORS = 8
#: Bytes to whose multiples the NPU's addresses are aligned.
ALIGN = 16
#: Nanoseconds to start the NPU and to take its interrupt.
ENTER_NS = 10_000.0
#: Cycles in a nanosecond, where Vela is not asked.
CLOCK = 0.5
#: Variables of the stand-in for the driver.
STANDIN_BYTES = 2600
#: Where no driver is known the sources only check what they are given.
STANDIN = "NOT TARGET ethosu_core_driver AND NOT AOT_ETHOS_U_ROOT"


@dataclass(frozen=True, slots=True)
class Machine:
    """The NPU and the objective of Vela's schedule, which checks, costs and the lowering ask."""

    npu: Npu
    objective: str

    def check(self, layer: Layer, m: Match) -> Checks:
        """Yield the layer's conditions and, if all hold, whether Vela compiles the match for the
        NPU alone.

        Vela is asked last because that takes longest; the reason is then the text of its VelaError.
        """
        clean = True
        for ok, why in (*tensors_fit(m, *layer.tensors.split()), *layer.check(m, self.npu)):
            clean = clean and bool(ok)
            yield ok, why
        if clean:
            try:
                self.alone(layer, m)
            except VelaError as refused:
                yield False, str(refused)

    def alone(self, layer: Layer, m: Match) -> Compiled | None:
        """A match as a network of its own, None for one that moves nothing; raises VelaError."""
        arriving = {n: channels_last(v) for n, v in m.inputs() if v.rank > 2}
        incoming = {n: arriving.get(n, v.layout) for n, v in m.inputs()}
        stored = m.with_layouts(layer.layouts(m, incoming, 1))
        inputs = [v for _, v in stored.inputs() if not v.is_const]
        network = network_of([(layer, stored)], inputs, stored.outputs())
        return worker.compile(self.npu, network, self.objective) if network else None

    def nanoseconds(self, layer: Layer, m: Match) -> float:
        """Vela's estimate of a match alone."""
        try:
            made = self.alone(layer, m)
        except VelaError:
            return float("inf")
        return 0.0 if made is None else made.cycles * 1e9 / self.npu.clock

    def fits(self, region: RegionView) -> Checks:
        """Checks of a region: what one call can name, and that it computes something."""
        count = len(region.inputs) + len(region.outputs)
        yield count <= MOST_TENSORS, f"{count} inputs and outputs (at most {MOST_TENSORS})"
        yield any(p.name not in MOVES for p, _ in region.matches), "nothing of it computes"

    def lower(self, c: Recorder, region: RegionView) -> None:
        """A region as one call of the driver: its command stream, weights and scratch.

        Raises BackendError where Vela leaves a part of it to the CPU.
        """
        matches = [(LAYERS[p.name], m) for p, m in region.matches]
        network = network_of(matches, region.inputs, region.outputs)
        try:
            made = worker.compile(self.npu, network, self.objective)
        except VelaError as refused:
            what = f"ethos_u: the region cannot be compiled: {refused}"
            raise BackendError(what, hint="--offload-limit N finds the region") from refused
        flash = len(made.commands) + len(made.weights)
        estimate = f"{made.cycles} cycles, {made.scratch} bytes of SRAM, {flash} of flash by Vela"
        c.covers([m for _, m in region.matches], f"{made.operations} operations, {estimate}")
        record(c, made, self.npu, region)
        name = f"ethos_u/region_{region.index}"
        c.attach(f"{name}.tflite", network)
        c.attach(f"{name}.json", report(made, self.npu, region))


def network_of(
    matches: Iterable[tuple[Layer, Match]],
    inputs: Iterable[ValueRef],
    outputs: Iterable[ValueRef],
) -> bytes:
    """The TFLite file that computes `outputs` from `inputs` by the layers of `matches`, in order.

    The answer is b"" where no operator computes anything.
    """
    b = Builder()
    heads = [b.enter(v) for v in inputs]
    for layer, m in matches:
        layer.emit(b, m)
    tails = [b.read(v) for v in outputs]
    return b.net.data(heads, tails) if b.net.computes else b""


def record(c: Recorder, made: Compiled, npu: Npu, region: RegionView) -> None:
    """Record the call that runs a compiled region.

    Raises InternalError where Vela's inputs and outputs are not as large as the region's.
    """
    ends = zip((*region.inputs, *region.outputs), (*made.inputs, *made.outputs), strict=True)
    if any(math.prod(value.shape) != place[2] for value, place in ends):
        raise InternalError("ethos_u: Vela's inputs and outputs have other sizes than the region's")
    stream = c.const(np.frombuffer(made.commands, np.uint8), "commands", align=ALIGN)
    # A constant without bytes would have no address.
    weights = c.const(np.frombuffer(made.weights or bytes(ALIGN), np.uint8), "weights", align=ALIGN)
    scratch = c.scratch(made.scratch, "activations", align=ALIGN)
    fast = c.scratch(made.fast, "fast", align=ALIGN)
    tensors: list[Operand] = [*map(c.read, region.inputs), *map(c.write, region.outputs)]
    unused = MOST_TENSORS - len(tensors)
    # The function takes a fixed number of tensors; unused places are null.
    places = [*made.inputs, *made.outputs, *[(0, 0, 0)] * unused]
    params = c.params(
        product=npu.product,
        log_macs=npu.log_macs,
        commands=len(made.commands),
        weights=max(len(made.weights), ALIGN),
        scratch=made.scratch,
        fast=made.fast,
        inputs=len(region.inputs),
        outputs=len(region.outputs),
        region=[p[0] for p in places],
        at=[p[1] for p in places],
        bytes=[p[2] for p in places],
    )
    operands = [stream, weights, scratch, fast, *tensors, *[None] * unused, params]
    c.call("aot_ethos_u_run", *operands, status=True, macs=made.macs)


def report(made: Compiled, npu: Npu, region: RegionView) -> bytes:
    """The inputs and results of a region and Vela's estimates of the region, as JSON in UTF-8.

    Commands and weights are counted in bytes.
    """
    numbers = {k: v for k, v in asdict(made).items() if isinstance(v, int | dict)}
    known = {"npu": npu.name, "system": npu.system, "memory": npu.memory, "clock": npu.clock}
    sizes = {"commands": len(made.commands), "weights": len(made.weights)}
    ends = {
        kind: [{"name": v.onnx_name, "channels_last": v.layout.blocked} for v in values]
        for kind, values in (("inputs", region.inputs), ("outputs", region.outputs))
    }
    return (
        json.dumps({**known, **numbers, **sizes, **ends}, indent=1, sort_keys=True).encode() + b"\n"
    )


def backend_for(npu: Npu, objective: str = "latency") -> Backend:
    """The backend for one NPU."""
    machine = Machine(npu, "Size" if objective == "ram" else "Performance")
    made = Backend(
        NAME,
        header=HEADER,
        sources=SOURCES,
        find="find_ethos_u.cmake",
        folder=FOLDER,
        # A region is one stream of commands: entering it costs, its layers do not.
        speed=Speed(
            macs_per_ns=npu.macs * CLOCK,
            bytes_per_ns=8 * CLOCK,
            call_ns=0.0,
            enter_ns=ENTER_NS,
        ),
        definitions=(
            f"AOT_ETHOS_U_PRODUCT={npu.product}",
            f"AOT_ETHOS_U_LOG_MACS={npu.log_macs}",
        ),
        memory=STANDIN_BYTES,
        configure=configure,
        standin=STANDIN,
    )
    for layer in LAYERS.values():
        made.declare(
            layer.name,
            layer.graph,
            partial(machine.check, layer),
            layouts=layer.layouts,
            cost=partial(machine.nanoseconds, layer),
            cases=layer.cases,
        )
    made.region(machine.lower)
    made.fits(machine.fits)
    return made


def configure(said: BackendOptions) -> Backend:
    """The backend as the user asks for it."""
    return backend_for(configured(said), said.objective)


backend = backend_for(named(DEFAULT))
