# SPDX-License-Identifier: Apache-2.0
"""What an instruction touches: indices into every memory, from its fields and slots alone.

SPM, LUT and WGT are counted in bytes, ACC in sums (row * M + lane), PRM in channels, SYS in bytes
of a region.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.frontend import Step, View
from aot.vendor.accel_sim.kinds import Alu, Fault, Mem

Array = np.ndarray[Any, Any]
PAIRS = (Alu.ADD, Alu.MUL, Alu.MAX, Alu.MIN)


@dataclass(frozen=True, slots=True)
class Access:
    """Indices of one memory (`region` -1: no region) that are read or written."""

    memory: str
    index: Array
    write: bool
    region: int = -1


def _fail(step: Step, fault: Fault, what: str) -> StreamError:
    """A StreamError that names the instruction, the reason `what` and the stream's address."""
    return StreamError(fault, f"{step.i.name}: {what}", f"the stream at 0x{step.pc:x}")


def _span(view: View, ys: Array, xs: Array, at: int, size: int) -> Array:
    """Byte addresses in SPM of `size` bytes, `at` bytes into each pixel of rows `ys` and columns
    `xs`.

    Every row is combined with every column; rows wrap where the view is a ring buffer.
    """
    lines = ys % view.ring if view.ring else ys
    pixels = view.base + lines[:, None] * view.row + xs[None, :] * view.pixel + at
    found: Array = (pixels.reshape(-1, 1) + np.arange(size)).reshape(-1)
    return found


def _bounded(step: Step, c: Config, index: Array) -> Array:
    """`index` (byte addresses in SPM), unchanged; StreamError if one is beyond the scratchpad."""
    if index.size and int(index.max()) >= c.spm:
        raise _fail(step, Fault.LOCAL, f"byte {int(index.max())} of {c.spm} of SPM")
    return index


def rectangle(step: Step, c: Config, view: View, y: int, x: int, at: int = 0) -> Array:
    """Byte addresses in SPM of the pixels of an operand or result, from row `y` and column `x` on.

    The rectangle has the instruction's rows, columns and channels; `at` bytes of each pixel come
    before them. StreamError if a pixel is outside the view or the view was never set.
    """
    f = step.f
    if view.number < 0:
        raise _fail(step, Fault.FIELD, "a view that was never set")
    if not (view.inside(y, x) and view.inside(y + f["rows"] - 1, x + f["cols"] - 1)):
        raise _fail(
            step,
            Fault.LOCAL,
            f"rows {y} to {y + f['rows'] - 1}, columns {x} to {x + f['cols'] - 1} of a view of "
            f"{view.height} x {view.width}",
        )
    ys, xs = y + np.arange(f["rows"]), x + np.arange(f["cols"])
    return _bounded(step, c, _span(view, ys, xs, at, f["ch"] * step.size))


def distinct(step: Step, view: View) -> bool:
    """Whether no two pixels of a result share a byte of SPM, by the strides of its view.

    The pixels must lie apart along columns within a row, or along rows within a column.
    """
    rows, cols, n = step.f["rows"], step.f["cols"], step.f["ch"] * step.size
    # A ring of fewer rows than the result has would overwrite the first ones.
    if view.ring and rows > view.ring:
        return False
    by_row = (cols == 1 or view.pixel >= n) and (
        rows == 1 or view.row >= (cols - 1) * view.pixel + n
    )
    by_pixel = (rows == 1 or view.row >= n) and (
        cols == 1 or view.pixel >= (rows - 1) * view.row + n
    )
    return by_row or by_pixel


def window(step: Step, c: Config, view: View, y: int, x: int, at: int, size: int) -> Array:
    """Byte addresses in SPM of all positions inside the view that windows read, without repetition
    of pixels.

    The first window begins at row `y`, column `x`, which may lie outside; `size` bytes are read
    `at` bytes into each pixel. StreamError without a view or a kernel.
    """
    if view.number < 0 or step.kern.number < 0:
        raise _fail(step, Fault.FIELD, "a view or kernel that was never set")
    k, f = step.kern, step.f
    ys = y + np.add.outer(np.arange(f["rows"]) * k.sh, np.arange(k.kh) * k.dh).reshape(-1)
    xs = x + np.add.outer(np.arange(f["cols"]) * k.sw, np.arange(k.kw) * k.dw).reshape(-1)
    ys = np.unique(ys[(ys >= 0) & (ys < view.height)])
    xs = np.unique(xs[(xs >= 0) & (xs < view.width)])
    return _bounded(step, c, _span(view, ys, xs, at, size))


def system(step: Step, size: int) -> Array:
    """Byte offsets that LD or ST moves of a region of `size` bytes, in the order rows, columns,
    channels.

    StreamError if one is outside of the region or the strides were never set.
    """
    f, s = step.f, step.strides
    if s.number < 0:
        raise _fail(step, Fault.FIELD, "strides that were never set")
    first = np.add.outer(np.arange(f["rows"]) * s.row, np.arange(f["cols"]) * s.pixel)
    index = f["offset"] + np.add.outer(first.reshape(-1), np.arange(f["ch"]) * s.channel)
    index = (index.reshape(-1, 1) + np.arange(step.size)).reshape(-1)
    if int(index.min()) < 0 or int(index.max()) >= size:
        raise _fail(step, Fault.REGION, f"bytes {index.min()} to {index.max()} of region of {size}")
    return index


def _linear(step: Step, c: Config, size: int) -> Iterator[Access]:
    """The accesses of LDL: bytes of a region of `size` bytes are read, a local memory is written.

    WGT and PRM are rings, so addresses wrap there. StreamError for bytes beyond a memory.
    """
    f, mem = step.f, Mem(step.f["mem"])
    end = f["offset"] + (f["packed"] or f["bytes"])
    if end > size:
        raise _fail(step, Fault.REGION, f"byte {end} of region {f['region']} of {size}")
    yield Access("SYS", np.arange(f["offset"], end), False, f["region"])
    if mem is Mem.WGT:
        # Addresses wrap, so a load longer than the memory would overwrite its own beginning.
        if f["bytes"] > c.wgt:
            raise _fail(step, Fault.LOCAL, f"{f['bytes']} bytes of weights (memory {c.wgt})")
        yield Access("WGT", (f["to"] * c.m + np.arange(f["bytes"])) % c.wgt, True)
        return
    if mem is Mem.PRM:
        count, rest = divmod(f["bytes"], 9 if f["record"] else 8)
        if rest or count > c.prm_channels:
            raise _fail(step, Fault.LOCAL, f"{f['bytes']} bytes of parameters")
        yield Access("PRM", (f["to"] + np.arange(count)) % c.prm_channels, True)
        return
    limit = c.lut if mem is Mem.LUT else c.spm
    if f["to"] + f["bytes"] > limit:
        raise _fail(step, Fault.LOCAL, f"byte {f['to'] + f['bytes']} of {mem.name} of {limit}")
    yield Access(mem.name, np.arange(f["to"], f["to"] + f["bytes"]), True)


def _sums(step: Step, c: Config, tiles: int, lanes: int) -> Array:
    """Indices of sums (row * M + lane) of `tiles` tiles of an instruction's pixels, `lanes` of each
    row.

    StreamError if these are more rows than the memory has; rows wrap around.
    """
    count = tiles * step.f["rows"] * step.f["cols"]
    if count > c.acc_rows:
        raise _fail(step, Fault.LOCAL, f"{count} rows of sums (memory holds {c.acc_rows})")
    rows = (step.f["acc"] + np.arange(count)) % c.acc_rows
    return np.add.outer(rows * c.m, np.arange(lanes)).reshape(-1)


def _product(step: Step, c: Config) -> Iterator[Access]:
    """The accesses of MM and DW: they read pixels and weights and write sums, which `add` also
    reads.

    StreamError for channels beyond the kernel's or more weights or sums than memory holds.
    """
    f, k = step.f, step.kern
    deep = step.i.name == "MM"
    lanes = c.lanes(step.size)
    # A depthwise product reads the channels of its own lanes only, and the last tile may have
    # fewer.
    there = k.ci if deep else min(k.ci - f["at"] // step.size, f["tiles"] * lanes)
    if there <= 0:
        raise _fail(step, Fault.FIELD, f"channels begin at byte {f['at']}, the kernel has {k.ci}")
    read = window(step, c, step.view, f["y"], f["x"], f["at"], there * step.size)
    yield Access("SPM", read, False)
    rows = f["tiles"] * k.taps * (k.ci if deep else 1)
    if rows > c.wgt_rows:
        raise _fail(step, Fault.LOCAL, f"{rows} rows of weights (memory holds {c.wgt_rows})")
    weights = (f["wgt"] + np.arange(rows)) % c.wgt_rows
    yield Access("WGT", np.add.outer(weights * c.m, np.arange(c.m)).reshape(-1), False)
    sums = _sums(step, c, f["tiles"], lanes)
    if f["add"]:
        yield Access("ACC", sums, False)
    yield Access("ACC", sums, True)


def _drain(step: Step, c: Config) -> Iterator[Access]:
    """The accesses of DRAIN: sums, parameters, the table and the residual are read, pixels are
    written.

    StreamError if vector constants that it needs were never set, or for too many channels.
    """
    f, lanes, s = step.f, c.lanes(step.size), step.vset
    needs = (
        s.first if step.size == 1 else s.add,
        s.add if f["res"] else s,
        s.rest or step.size == 4,
    )
    if needs[0] is None or (f["res"] and (s.add is None or not needs[2])):
        raise _fail(step, Fault.FIELD, "vector constants that were never set")
    sums = _sums(step, c, -(-f["ch"] // lanes), lanes)
    channel = (sums // c.m - f["acc"]) % c.acc_rows // (f["rows"] * f["cols"]) * lanes + sums % c.m
    # The last tile may have lanes without a channel; nobody reads their sums.
    yield Access("ACC", sums[channel < f["ch"]], False)
    if f["ch"] > c.prm_channels:
        raise _fail(step, Fault.LOCAL, f"{f['ch']} channels (parameters for {c.prm_channels})")
    yield Access("PRM", (f["prm"] + np.arange(f["ch"])) % c.prm_channels, False)
    if f["lut"]:
        yield Access("LUT", np.arange(256 * (f["lut"] - 1), 256 * f["lut"]), False)
    if f["res"]:
        yield Access("SPM", rectangle(step, c, step.other, f["y"], f["x"], f["at"]), False)
    yield Access("SPM", rectangle(step, c, step.view, f["y"], f["x"], f["at"]), True)


def _alu(step: Step, c: Config) -> Iterator[Access]:
    """The accesses of ALU: tables and one or two operands are read, pixels are written.

    StreamError if vector constants that the operation needs were never set.
    """
    f, op, s = step.f, Alu(step.f["op"]), step.vset
    own = s.first if step.size == 1 and op is not Alu.ADD else s.add
    free = op in (Alu.COPY, Alu.MAX, Alu.MIN, Alu.LUT)
    if not free and (own is None or (op is Alu.ADD and step.size == 1 and s.rest is None)):
        raise _fail(step, Fault.FIELD, "vector constants that were never set")
    if op is Alu.LUT:
        yield Access("LUT", np.arange(256 * f["table"], 256 * f["table"] + 256), False)
    elif op is Alu.SOFTMAX:
        yield Access("LUT", np.arange(4 * ((s.get("first", "za") & 255) + 1)), False)
    if op is not Alu.FILL:
        yield Access("SPM", rectangle(step, c, step.source, f["from_y"], f["from_x"]), False)
    if op in PAIRS:
        yield Access("SPM", rectangle(step, c, step.other, f["y"], f["x"]), False)
    yield Access("SPM", rectangle(step, c, step.view, f["y"], f["x"]), True)


def _pool(step: Step, c: Config) -> Iterator[Access]:
    """The accesses of POOL: windows are read, pixels are written.

    StreamError for a window with no position inside the view: its maximum or average would not
    exist.
    """
    f, k, v = step.f, step.kern, step.source
    if step.size == 1 and f["op"] and step.vset.first is None:
        raise _fail(step, Fault.FIELD, "vector constants that were never set")
    for first, count, stride, taps, dilation, limit in (
        (f["from_y"], f["rows"], k.sh, k.kh, k.dh, v.height),
        (f["from_x"], f["cols"], k.sw, k.kw, k.dw, v.width),
    ):
        where = first + np.add.outer(np.arange(count) * stride, np.arange(taps) * dilation)
        if not ((where >= 0) & (where < limit)).any(axis=1).all():
            raise _fail(step, Fault.LOCAL, "a window without positions")
    size = f["ch"] * step.size
    yield Access("SPM", window(step, c, v, f["from_y"], f["from_x"], 0, size), False)
    yield Access("SPM", rectangle(step, c, step.view, f["y"], f["x"]), True)


def accesses(step: Step, c: Config, sizes: list[int]) -> list[Access]:
    """Everything that a queued instruction reads and writes; `sizes` are the bytes of each region.

    Reads come before writes of the same data. Raises StreamError where it leaves a memory or uses a
    slot that was never set.
    """
    name, f = step.i.name, step.f
    if name in ("LD", "ST"):
        local = Access("SPM", rectangle(step, c, step.view, f["y"], f["x"]), name == "LD")
        remote = Access("SYS", system(step, sizes[f["region"]]), name == "ST", f["region"])
        return [remote, local] if name == "LD" else [local, remote]
    if name == "LDL":
        return list(_linear(step, c, sizes[f["region"]]))
    if name in ("MM", "DW"):
        return list(_product(step, c))
    return list({"DRAIN": _drain, "ALU": _alu, "POOL": _pool}[name](step, c))
