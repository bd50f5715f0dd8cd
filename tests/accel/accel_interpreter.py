# SPDX-License-Identifier: Apache-2.0
"""What a program computes, on NumPy arrays, instruction by instruction in program order.

Written from the instruction table, not from the C simulator: tests compare them bit by bit. Program
order is one of the orders that the tokens of a verified program allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import accel_arithmetic as arith
import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.frontend import Step, View, expand
from aot.vendor.accel_sim.kinds import Alu, DType, Fault, Mem, Rq, Unit
from aot.vendor.accel_sim.pack import unpack
from aot.vendor.accel_sim.timing import Region

Array = np.ndarray[Any, Any]


def grid(view: View, y: Array, x: Array) -> tuple[Array, Array]:
    """(byte of every pixel (y, x), whether the tensor has it)."""
    lines = np.where(view.ring > 0, y % max(view.ring, 1), y)
    ok = (y >= 0) & (y < view.height) & (x >= 0) & (x < view.width)
    return view.base + lines * view.row + x * view.pixel, ok


def box(view: View, y: int, x: int, rows: int, cols: int) -> tuple[Array, Array]:
    """`grid` of a rectangle, [rows, cols]."""
    return grid(view, y + np.arange(rows)[:, None], x + np.arange(cols)[None, :])


class Machine:
    """Local memories and regions; `run` executes a stream of region 0."""

    def __init__(self, c: Config, regions: Sequence[bytearray], kinds: Sequence[Region]) -> None:
        self.c, self.regions, self.kinds = c, regions, kinds
        self.spm = np.zeros(c.spm, np.uint8)
        self.wgt = np.zeros((c.wgt_rows, c.m), np.uint8)
        self.acc = np.zeros((c.acc_rows, c.m), np.int32)
        self.prm = np.zeros((c.prm_channels, 3), np.int64)
        self.lut = np.zeros(c.lut, np.uint8)

    def run(self, entry: int = 0) -> None:
        """Execute until HALT; raises StreamError."""
        actions: dict[str, Callable[[Step], None]] = {
            "LD": self.move,
            "ST": self.move,
            "LDL": self.linear,
            "MM": self.product,
            "DW": self.depthwise,
            "DRAIN": self.drain,
            "ALU": self.alu,
            "POOL": self.pool,
        }
        for step in expand(bytes(self.regions[0]), entry):
            if step.unit is not Unit.FE:
                actions[step.i.name](step)

    # -- memories ---------------------------------------------------------------------------------

    def at(self, where: Array, ok: Array | None, size: int) -> Array:
        """Indices of `size` bytes from each of `where`; raises StreamError outside SPM."""
        used = where if ok is None else where[ok]
        if used.size and (used.min() < 0 or used.max() + size > self.c.spm):
            raise StreamError(Fault.LOCAL, f"byte {int(used.max()) + size} of SPM")
        return np.clip(where, 0, self.c.spm - size)[..., None] + np.arange(size)

    def rect(self, view: View, step: Step, y: int, x: int, at: int, size: int) -> Array:
        """Indices [rows, cols, size] of pixels that all must be in the view."""
        where, ok = box(view, y, x, step.f["rows"], step.f["cols"])
        if not ok.all():
            raise StreamError(Fault.LOCAL, f"{step.i.name} leaves its view", f"0x{step.pc:x}")
        return self.at(where + at, None, size)

    def result(self, step: Step, at: int = 0) -> Array:
        """Indices of the pixels of a result."""
        size = step.f["ch"] * step.size
        return self.rect(step.view, step, step.f["y"], step.f["x"], at, size)

    def load(self, index: Array, dtype: int) -> Array:
        """Elements at byte indices [..., bytes]: int64 or float32."""
        raw = np.ascontiguousarray(self.spm[index])
        return raw.view(np.float32) if dtype == DType.F32 else raw.view(np.int8).astype(np.int64)

    def store(self, index: Array, values: Array, dtype: int) -> None:
        """The other way; quantised values are within int8."""
        kind = np.float32 if dtype == DType.F32 else np.int8
        raw = np.ascontiguousarray(values.astype(kind)).view(np.uint8)
        self.spm[index] = raw.reshape(index.shape)

    # -- DMA --------------------------------------------------------------------------------------

    def _system(self, step: Step) -> Array:
        """Byte of every element [rows, cols, ch] in the region."""
        f, s = step.f, step.strides
        where = (
            f["offset"]
            + np.arange(f["rows"])[:, None, None] * s.row
            + np.arange(f["cols"])[None, :, None] * s.pixel
            + np.arange(f["ch"])[None, None, :] * s.channel
        )
        size = len(self.regions[f["region"]])
        if where.min() < 0 or where.max() + step.size > size:
            raise StreamError(Fault.REGION, f"byte {where.max()} of {size}", f"0x{step.pc:x}")
        return where

    def move(self, step: Step) -> None:
        """LD and ST."""
        where = (self._system(step)[..., None] + np.arange(step.size)).reshape(
            step.f["rows"], step.f["cols"], -1
        )
        region = np.frombuffer(self.regions[step.f["region"]], np.uint8)
        flip = 128 if step.i.dtype == DType.U8 else 0
        local = self.result(step)
        if step.i.name == "LD":
            self.spm[local] = region[where] ^ flip
            return
        if not self.kinds[step.f["region"]].writable:
            raise StreamError(Fault.READ_ONLY, f"region {step.f['region']}", f"0x{step.pc:x}")
        region[where] = self.spm[local] ^ flip

    def linear(self, step: Step) -> None:
        """LDL."""
        f, size = step.f, step.f["bytes"]
        region = self.regions[f["region"]]
        end = f["offset"] + (f["packed"] or size)
        if end > len(region):
            raise StreamError(Fault.REGION, f"byte {end} of {len(region)}", f"0x{step.pc:x}")
        data = bytes(region[f["offset"] : end])
        raw = np.frombuffer(unpack(data, size) if f["packed"] else data, np.uint8)
        if f["mem"] == Mem.PRM:
            self._parameters(raw, f["to"], 9 if f["record"] else 8)
        elif f["mem"] == Mem.WGT:
            flat = self.wgt.reshape(-1)
            flat[(f["to"] * self.c.m + np.arange(size)) % flat.size] = raw
        else:
            memory = self.lut if f["mem"] == Mem.LUT else self.spm
            if f["to"] + size > memory.size:
                raise StreamError(Fault.LOCAL, f"byte {f['to'] + size}", f"0x{step.pc:x}")
            memory[f["to"] : f["to"] + size] = raw

    def _parameters(self, raw: Array, to: int, record: int) -> None:
        rows = raw[: len(raw) // record * record].reshape(-1, record)
        channel = (to + np.arange(len(rows))) % self.c.prm_channels
        self.prm[channel, 0] = np.ascontiguousarray(rows[:, :4]).view("<i4")[:, 0]
        self.prm[channel, 1] = np.ascontiguousarray(rows[:, 4:8]).view("<i4")[:, 0]
        self.prm[channel, 2] = rows[:, 8].astype(np.int8) if record == 9 else 0

    # -- products ---------------------------------------------------------------------------------

    def windows(self, step: Step, view: View, y: int, x: int, at: int, ch: int) -> tuple[Any, Any]:
        """(elements [pixels, taps, ch], which taps are inside [pixels, taps]) of all windows."""
        k, f = step.kern, step.f
        oy, ox = np.divmod(np.arange(f["rows"] * f["cols"]), f["cols"])
        ky, kx = np.divmod(np.arange(k.taps), k.kw)
        rows = y + oy[:, None] * k.sh + ky[None, :] * k.dh
        cols = x + ox[:, None] * k.sw + kx[None, :] * k.dw
        where, ok = grid(view, rows, cols)
        found = self.load(self.at(where + at, ok, ch * step.size), step.i.dtype)
        pad = view.pad if step.i.dtype == DType.I8 else 0
        return np.where(ok[..., None], found, np.asarray(pad, found.dtype)), ok

    def weights(self, row: int, count: int, dtype: int) -> Array:
        """Rows of WGT: int64 or float32."""
        raw = self.wgt[(row + np.arange(count)) % self.c.wgt_rows]
        return raw.view(np.float32) if dtype == DType.F32 else raw.view(np.int8).astype(np.int64)

    def sums(self, row: int, count: int, dtype: int) -> tuple[Array, Array]:
        """(indices, values) of rows of ACC."""
        index = (row + np.arange(count)) % self.c.acc_rows
        raw = self.acc[index]
        lanes = self.c.lanes(4)
        return index, raw[:, :lanes].view(np.float32) if dtype else raw.astype(np.int64)

    def _put_sums(self, index: Array, values: Array, dtype: int) -> None:
        if dtype == DType.F32:
            lanes = self.c.lanes(4)
            self.acc[index[:, None], np.arange(lanes)] = np.ascontiguousarray(
                values.astype(np.float32)
            ).view(np.int32)
        else:
            self.acc[index] = arith.wrap(values).astype(np.int32)

    def _tiles(self, step: Step, x: Array, depth: int) -> None:
        """Every tile's sums; x is [pixels, depth] or, for DW, [pixels, depth, tiles * lanes]."""
        f, dtype = step.f, step.i.dtype
        lanes, pixels = self.c.lanes(step.size), len(x)
        for t in range(f["tiles"]):
            w = self.weights(f["wgt"] + t * depth, depth, dtype)
            index, old = self.sums(f["acc"] + t * pixels, pixels, dtype)
            total = old if f["add"] else np.zeros_like(old)
            own = x[:, :, None] if x.ndim == 2 else x[:, :, t * lanes : (t + 1) * lanes]
            for e in range(depth):
                with np.errstate(all="ignore"):
                    total = total + own[:, e] * w[e][None, :]
            self._put_sums(index, total, dtype)

    def fits(self, step: Step, depth: int) -> None:
        """Raise StreamError unless weights and sums fit their memories."""
        tiles, pixels = step.f["tiles"], step.f["rows"] * step.f["cols"]
        if depth * tiles > self.c.wgt_rows or pixels * tiles > self.c.acc_rows:
            raise StreamError(
                Fault.LOCAL, f"{depth * tiles} rows of weights, {pixels * tiles} of sums"
            )

    def product(self, step: Step) -> None:
        """MM."""
        f = step.f
        self.fits(step, step.kern.taps * step.kern.ci)
        x, _ = self.windows(step, step.view, f["y"], f["x"], f["at"], step.kern.ci)
        self._tiles(step, x.reshape(len(x), -1), step.kern.taps * step.kern.ci)

    def depthwise(self, step: Step) -> None:
        """DW."""
        f, lanes = step.f, self.c.lanes(step.size)
        self.fits(step, step.kern.taps)
        first, wanted = f["at"] // step.size, f["tiles"] * lanes
        there = max(0, min(wanted, step.kern.ci - first))
        x, _ = self.windows(step, step.view, f["y"], f["x"], f["at"], there)
        rest = np.zeros((*x.shape[:2], wanted - there), x.dtype)
        self._tiles(step, np.concatenate([x, rest], axis=2), step.kern.taps)

    # -- vectors ----------------------------------------------------------------------------------

    def drain(self, step: Step) -> None:
        """DRAIN."""
        f, dtype, lanes = step.f, step.i.dtype, self.c.lanes(step.size)
        pixels, tiles = f["rows"] * f["cols"], -(-f["ch"] // lanes)
        if pixels * tiles > self.c.acc_rows or f["ch"] > self.c.prm_channels:
            raise StreamError(Fault.LOCAL, f"{pixels * tiles} rows of sums, {f['ch']} channels")
        parts = [self.sums(f["acc"] + t * pixels, pixels, dtype)[1] for t in range(tiles)]
        acc = np.concatenate(parts, axis=1)[:, : f["ch"]].reshape(f["rows"], f["cols"], -1)
        prm = self.prm[(f["prm"] + np.arange(f["ch"])) % self.c.prm_channels]
        out = self.result(step, f["at"])
        if f["res"]:
            where = self.rect(step.other, step, f["y"], f["x"], f["at"], f["ch"] * step.size)
            other = self.load(where, dtype)
        if dtype == DType.F32:
            value = acc + arith.floats(prm[:, 0])
            value = value + other if f["res"] else value
            self.store(out, self._limited(value, step), dtype)
            return
        s = step.vset
        total = arith.wrap(acc + prm[:, 0])
        value = arith.requantise(total, prm[:, 1], prm[:, 2], s.get("first", "rq"))
        code = self._coded(value, step)
        code = arith.add_quantised(code, other, s) if f["res"] else code
        self.store(out, self._table(code, f["lut"] - 1) if f["lut"] else code, dtype)

    def _coded(self, value: Array, step: Step) -> Array:
        s = step.vset
        zero, lo, hi = (s.get("first", n) for n in ("zero", "lo", "hi"))
        return arith.clamp(value, lo - zero, hi - zero) + zero

    def _limited(self, value: Array, step: Step) -> Array:
        s = step.vset
        return arith.clamp(
            value, arith.floats(s.get("add", "ma")), arith.floats(s.get("add", "mb"))
        )

    def _table(self, code: Array, table: int) -> Array:
        found: Array = self.lut[256 * table + 128 + code].view(np.int8).astype(np.int64)
        return found

    def alu(self, step: Step) -> None:
        """ALU."""
        f, dtype, s, op = step.f, step.i.dtype, step.vset, Alu(step.f["op"])
        n = f["ch"] * step.size
        out = self.result(step)
        if op is Alu.FILL:
            zero = s.get("first", "zero")
            value = arith.floats(s.get("add", "ma")) if dtype else np.int64(zero)
            self.store(out, np.broadcast_to(value, (*out.shape[:2], f["ch"])), dtype)
            return
        a = self.load(self.rect(step.source, step, f["from_y"], f["from_x"], 0, n), dtype)
        if op in (Alu.ADD, Alu.MUL, Alu.MAX, Alu.MIN):
            b = self.load(self.rect(step.other, step, f["y"], f["x"], 0, n), dtype)
            value = self._pair(op, a, b, step)
        elif op is Alu.COPY:
            value = a
        elif op is Alu.CLIP and dtype:
            value = self._limited(a, step)
        elif op is Alu.CLIP:
            value = arith.clamp(a, s.get("first", "lo"), s.get("first", "hi"))
        elif op is Alu.LUT:
            value = self._table(a, f["table"])
        else:
            table = self.lut.view("<i4")
            rows = [arith.softmax(row, table, s) for row in a.reshape(-1, f["ch"])]
            value = np.stack(rows).reshape(a.shape)
        self.store(out, value, dtype)

    def _pair(self, op: Alu, a: Array, b: Array, step: Step) -> Array:
        s = step.vset
        if op is Alu.MAX:
            return np.where(a > b, a, b)
        if op is Alu.MIN:
            return np.where(a < b, a, b)
        if step.i.dtype == DType.F32:
            return self._limited(a + b if op is Alu.ADD else a * b, step)
        if op is Alu.ADD:
            return arith.add_quantised(a, b, s)
        product = (a - s.get("first", "za")) * (b - s.get("first", "zb"))
        mult, shift = np.int64(s.get("first", "mult")), np.int64(s.get("first", "shift"))
        return self._coded(arith.requantise(product, mult, shift, s.get("first", "rq")), step)

    def pool(self, step: Step) -> None:
        """POOL."""
        f, dtype = step.f, step.i.dtype
        x, ok = self.windows(step, step.source, f["from_y"], f["from_x"], 0, f["ch"])
        out, positions = self.result(step), ok.sum(axis=1)[:, None]
        if not positions.all():
            raise StreamError(Fault.LOCAL, "POOL: a window without positions", f"0x{step.pc:x}")
        inside = ok[:, :, None]
        if not f["op"]:
            lowest = np.asarray(-np.inf if dtype else -128, x.dtype)
            value = np.full((len(x), f["ch"]), lowest)
            for tap in range(step.kern.taps):
                t = np.where(inside[:, tap], x[:, tap], lowest)
                value = np.where(t > value, t, value)
        elif dtype == DType.F32:
            total = np.zeros((len(x), f["ch"]), np.float32)
            for tap in range(step.kern.taps):
                total = np.where(inside[:, tap], total + x[:, tap], total)
            value = total / positions.astype(np.float32)
        else:
            value = self._average(np.where(inside, x, 0).sum(axis=1), positions, step)
        self.store(out, value.reshape(*out.shape[:2], -1), dtype)

    def _average(self, total: Array, positions: Array, step: Step) -> Array:
        s = step.vset
        if s.get("first", "rq") == Rq.DIVIDE:
            size = (np.abs(total) + positions // 2) // positions
            return arith.clamp(
                np.where(total > 0, size, -size), s.get("first", "lo"), s.get("first", "hi")
            )
        mult, shift = np.int64(s.get("first", "mult")), np.int64(s.get("first", "shift"))
        centred = total - positions * s.get("first", "za")
        return self._coded(arith.requantise(centred, mult, shift, s.get("first", "rq")), step)
