# SPDX-License-Identifier: Apache-2.0
"""How long each instruction takes: the cycle model, the same as in ax1_timing.c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Kernel, Step, View
from aot.vendor.accel_sim.kinds import Alu, Rq


@dataclass(frozen=True, slots=True)
class Region:
    """A part of system memory: where it lies decides how fast it is, and whether it may change."""

    size: int
    flash: bool = False
    writable: bool = False


def _up(a: int, b: int) -> int:
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


def dma(step: Step, c: Config, regions: Sequence[Region]) -> int:
    """Cycles of LD and ST."""
    flash = regions[step.f["region"]].flash
    number, size, scattered = lines(step)
    rate = min(c.rate(flash), c.scatter) if scattered else c.rate(flash)
    gaps = c.row_gap * number if number > 1 else 0
    return c.latency(flash) + number * max(1, _up(size, rate)) + gaps


def linear(step: Step, c: Config, regions: Sequence[Region], zero_blocks: int) -> int:
    """Cycles of LDL; `zero_blocks` of its compressed blocks are zeros."""
    flash = regions[step.f["region"]].flash
    packed, out = step.f["packed"], step.f["bytes"]
    if not packed:
        return c.latency(flash) + _up(out, c.rate(flash))
    coded = max(0, out - 32 * zero_blocks)
    unpack = _up(coded, c.unpack_rate) + zero_blocks * c.zero_block
    return c.latency(flash) + max(_up(packed, c.rate(flash)), unpack)


def segments(view: View, k: Kernel, size: int, first: int, last: int) -> int:
    """Pieces of SPM that elements first to last of a window come from."""
    joined = k.dw == 1 and view.pixel == k.ci * size
    run = k.ci * k.kw if joined else k.ci
    return last // run - first // run + 1


def product(step: Step, c: Config) -> int:
    """Cycles of MM."""
    deep, k = c.depth(step.size), step.kern
    pixels, total = step.f["rows"] * step.f["cols"], k.taps * k.ci
    cycles = 0
    for first in range(0, total, deep):
        last = min(first + deep, total) - 1
        reads = _up(segments(step.view, k, step.size, first, last), c.segments)
        cycles += max(pixels * reads, c.k)
    return cycles * step.f["tiles"] + c.k + c.m


def depthwise(step: Step, c: Config) -> int:
    """Cycles of DW."""
    at_once = min(c.k, c.dw_taps) // step.size
    pixels = step.f["rows"] * step.f["cols"]
    return pixels * step.f["tiles"] * _up(step.kern.taps, at_once) + c.dw_fill


def vector(step: Step, c: Config) -> int:
    """Cycles of DRAIN, ALU and POOL."""
    f, fill = step.f, c.vx_fill
    pixels = f["rows"] * f["cols"]
    requant = c.float_fill if step.size == 1 and step.vset.get("first", "rq") == Rq.FLOAT else 0
    if step.i.name == "DRAIN":
        rows = pixels * _up(f["ch"], c.lanes(step.size))
        return rows * _up(c.m * (1 + f["res"]), c.port) + fill + requant
    rows = pixels * _up(f["ch"] * step.size, c.port)
    if step.i.name == "POOL":
        return rows * step.kern.taps + fill + (requant if f["op"] else 0)
    if f["op"] == Alu.SOFTMAX:
        return pixels * (3 * f["ch"] + c.softmax_fill) + fill
    operands = {Alu.FILL: 1, Alu.COPY: 2, Alu.CLIP: 2, Alu.LUT: 2}.get(Alu(f["op"]), 3)
    return rows * operands + fill + (requant if f["op"] == Alu.MUL else 0)


def cycles(step: Step, c: Config, regions: Sequence[Region], zero_blocks: int = 0) -> int:
    """Cycles of any instruction that a unit executes."""
    name = step.i.name
    if name == "MM":
        return product(step, c)
    if name == "DW":
        return depthwise(step, c)
    if name == "LDL":
        return linear(step, c, regions, zero_blocks)
    return dma(step, c, regions) if name in ("LD", "ST") else vector(step, c)


def macs(step: Step, c: Config) -> int:
    """Products that count: those of lanes that exist, padding included."""
    pixels = step.f.get("rows", 0) * step.f.get("cols", 0)
    if step.i.name == "MM":
        return pixels * step.kern.taps * step.kern.ci * step.f["tiles"] * c.lanes(step.size)
    if step.i.name == "DW":
        return pixels * step.kern.taps * step.f["tiles"] * c.lanes(step.size)
    return 0
