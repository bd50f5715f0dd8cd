# SPDX-License-Identifier: Apache-2.0
"""How long each instruction takes: the cycle model, the same as in ax1_timing.c."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Kernel, Step
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import UNITS, Alu, Rq


@dataclass(frozen=True, slots=True)
class Region:
    """A part of system memory: where it lies decides how fast it is, and whether it may change."""

    size: int
    flash: bool = False
    writable: bool = False


@dataclass(slots=True)
class FrontEnd:
    """Clocks of the front end and of the units, in cycles, while instructions are given in order.

    `flash` says where the program lies. `free` is when each unit has done all it was given,
    `queues` when the instructions that wait for it, or run, end.
    """

    c: Config
    flash: bool
    fetched: int = 0
    issued: deque[int] = field(default_factory=deque)
    now: int = 0
    free: list[int] = field(default_factory=lambda: [0] * len(UNITS))
    queues: list[deque[int]] = field(default_factory=lambda: [deque() for _ in UNITS])

    def fetch(self) -> int:
        """The cycle from which on the front end may look at the next instruction.

        The prefetch buffer gets a place when an older instruction is issued; only the first fetch
        pays the latency of memory.
        """
        burst = -(-BYTES // self.c.rate(self.flash))
        if not self.issued:
            self.fetched = self.c.latency(self.flash)
        room = self.issued.popleft() if len(self.issued) == self.c.prefetch else 0
        self.fetched = max(self.fetched, room) + burst
        return max(self.fetched, self.now)

    def issue(self, at: int) -> None:
        """Note that the front end is done with an instruction in cycle `at`; the next is one cycle
        later.
        """
        self.issued.append(at)
        self.now = at + 1


def _up(a: int, b: int) -> int:
    """`a` divided by `b`, rounded up."""
    return -(-a // b)


def lines(step: Step) -> tuple[int, int, bool]:
    """(number, bytes of each, scattered) of the contiguous pieces that LD or ST moves."""
    s, size = step.strides, step.size
    rows, cols, ch = step.f["rows"], step.f["cols"], step.f["ch"]
    if ch > 1 and s.channel != size:
        if cols == 1 or s.pixel == size:
            return rows * ch, cols * size, True
        return rows * cols * ch, size, True
    pixel = ch * size
    if cols > 1 and s.pixel != pixel:
        return rows * cols, pixel, False
    if rows > 1 and s.row != cols * pixel:
        return rows, cols * pixel, False
    return 1, rows * cols * pixel, False


def dma_cycles(c: Config, flash: bool, number: int, size: int, scattered: bool = False) -> int:
    """Cycles of LD and ST: latency, and `number` pieces of `size` bytes each with gaps between
    them.

    `scattered` pieces, whose channels are not adjacent, move at a lower rate.
    """
    rate = min(c.rate(flash), c.scatter) if scattered else c.rate(flash)
    gaps = c.row_gap * number if number > 1 else 0
    return c.latency(flash) + number * max(1, _up(size, rate)) + gaps


def linear_cycles(c: Config, flash: bool, out: int, packed: int = 0, zero_blocks: int = 0) -> int:
    """Cycles of LDL of `out` bytes, or of `packed` compressed bytes (0: not compressed) that give
    these.

    `zero_blocks` of the blocks are zeros, which the decompressor takes faster.
    """
    if not packed:
        return c.latency(flash) + _up(out, c.rate(flash))
    coded = max(0, out - 32 * zero_blocks)
    unpack = _up(coded, c.unpack_rate) + zero_blocks * c.zero_block
    return c.latency(flash) + max(_up(packed, c.rate(flash)), unpack)


def segments(kernel: Kernel, pixel: int, size: int, first: int, last: int) -> int:
    """How many contiguous pieces of SPM hold elements `first` to `last` of one window.

    `pixel` is the bytes from pixel to pixel of the view. Elements count row, column, channel.
    """
    joined = kernel.dw == 1 and pixel == kernel.ci * size
    run = kernel.ci * kernel.kw if joined else kernel.ci
    return last // run - first // run + 1


def product_cycles(
    c: Config, kernel: Kernel, pixel: int, pixels: int, tiles: int, size: int = 1
) -> int:
    """Cycles of MM of `pixels` pixels and `tiles` tiles, on elements of `size` bytes."""
    deep, total, cycles = c.depth(size), kernel.taps * kernel.ci, 0
    for first in range(0, total, deep):
        last = min(first + deep, total) - 1
        reads = _up(segments(kernel, pixel, size, first, last), c.segments)
        cycles += max(pixels * reads, c.k)
    return cycles * tiles + c.k + c.m


def depthwise_cycles(c: Config, taps: int, pixels: int, tiles: int, size: int = 1) -> int:
    """Cycles of DW with `taps` window positions, for `pixels` pixels and `tiles` tiles of
    channels.
    """
    return pixels * tiles * _up(taps, min(c.k, c.dw_taps) // size) + c.dw_fill


def drain_cycles(
    c: Config, pixels: int, ch: int, residual: bool = False, rounded: bool = True, size: int = 1
) -> int:
    """Cycles of DRAIN of `pixels` pixels and `ch` channels, with a residual or not.

    `rounded`: sums become quantised values through float32, which takes a few cycles more.
    """
    rows = pixels * _up(ch, c.lanes(size)) * _up(c.m * (1 + residual), c.port)
    return rows + c.vx_fill + (c.float_fill if rounded and size == 1 else 0)


def vector(step: Step, c: Config) -> int:
    """Cycles of DRAIN, ALU and POOL: bytes over the unit's port, and a fixed number per
    instruction.
    """
    f, fill = step.f, c.vx_fill
    pixels = f["rows"] * f["cols"]
    requant = c.float_fill if step.size == 1 and step.vset.get("first", "rq") == Rq.FLOAT else 0
    if step.i.name == "DRAIN":
        return drain_cycles(c, pixels, f["ch"], bool(f["res"]), bool(requant), step.size)
    rows = pixels * _up(f["ch"] * step.size, c.port)
    if step.i.name == "POOL":
        return rows * step.kern.taps + fill + (requant if f["op"] else 0)
    if f["op"] == Alu.SOFTMAX:
        return pixels * (3 * f["ch"] + c.softmax_fill) + fill
    operands = {Alu.FILL: 1, Alu.COPY: 2, Alu.CLIP: 2, Alu.LUT: 2}.get(Alu(f["op"]), 3)
    return rows * operands + fill + (requant if f["op"] == Alu.MUL else 0)


def cycles(step: Step, c: Config, regions: Sequence[Region], zero_blocks: int = 0) -> int:
    """Cycles of any instruction that a unit executes; `zero_blocks` of an LDL's are zeros."""
    name, f, k = step.i.name, step.f, step.kern
    if name in ("MM", "DW"):
        pixels, tiles = f["rows"] * f["cols"], f["tiles"]
        if name == "DW":
            return depthwise_cycles(c, k.taps, pixels, tiles, step.size)
        return product_cycles(c, k, step.view.pixel, pixels, tiles, step.size)
    if name not in ("LD", "ST", "LDL"):
        return vector(step, c)
    flash = regions[f["region"]].flash
    if name == "LDL":
        return linear_cycles(c, flash, f["bytes"], f["packed"], zero_blocks)
    return dma_cycles(c, flash, *lines(step))


def macs(step: Step, c: Config) -> int:
    """The products that an MM or DW makes, with padding and lanes that have no channel; 0 for
    others.
    """
    pixels = step.f.get("rows", 0) * step.f.get("cols", 0)
    if step.i.name == "MM":
        return pixels * step.kern.taps * step.kern.ci * step.f["tiles"] * c.lanes(step.size)
    if step.i.name == "DW":
        return pixels * step.kern.taps * step.f["tiles"] * c.lanes(step.size)
    return 0
