# SPDX-License-Identifier: Apache-2.0
"""Random programs whose fields are all legal and whose instructions are a chain of tokens."""

from __future__ import annotations

import itertools
import random
import struct

import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.isa import BY_NAME
from aot.vendor.accel_sim.kinds import Alu, DType, Kind, Rq
from aot.vendor.accel_sim.pack import pack
from aot.vendor.accel_sim.program import Program
from aot.vendor.accel_sim.timing import Region

FLASH, RAM = 1 << 14, 1 << 14
ARENAS = 6  # pieces of SPM that views lie in, so that operands do not overlap


class Writer:
    """One random program: `p`, the bytes of its regions and their kinds."""

    def __init__(self, c: Config, seed: int) -> None:
        self.c, self.r, self.p = c, random.Random(seed), Program()
        self.rng = np.random.default_rng(seed)
        self.flash = bytearray(self.rng.integers(0, 256, FLASH).astype(np.uint8).tobytes())
        self._sensible()
        self.f32 = self.r.random() < 0.3
        self.size = 4 if self.f32 else 1
        self.rq = self.r.choice((Rq.FLOAT, Rq.TFLITE))

    def _sensible(self) -> None:
        """The first bytes of the flash: floats, parameters with sensible multipliers, tables."""
        floats = self.rng.normal(0, 1, 1024).astype(np.float32)
        self.flash[0:4096] = floats.tobytes()
        for n in range(128):
            bias = self.r.randint(-5000, 5000)
            scale = np.float32(10 ** self.r.uniform(-4, -1)).view(np.int32)
            fixed = self.r.randint(2**30, 2**31 - 1)
            shift = self.r.choice((-12, -9, -9, -8, -7, -5, -1, 0, 1, -31))
            self.flash[4096 + 8 * n : 4104 + 8 * n] = struct.pack("<ii", bias, scale)
            at = 6144 + 9 * n
            self.flash[at : at + 9] = struct.pack("<iib", bias, fixed, shift)

    def program(self, length: int) -> tuple[list[bytes], list[Region]]:
        self.set_up()
        table = (self.ld, self.ldl, self.mm, self.dw, self.drain, self.alu, self.pool, self.st)
        for slot in range(ARENAS):
            self.ld(slot)
        for which in range(4):
            self.ldl(which)
        for _ in range(length):
            if self.r.random() < 0.25:
                self.set_up(few=True)
            self.r.choice(table)()
        self.dump()
        self._emit()
        self.p.halt(status=self.r.randint(0, 65535))
        ram = self.rng.integers(0, 256, RAM).astype(np.uint8)
        if self.f32:
            ram = self.rng.normal(0, 1, RAM // 4).astype(np.float32).view(np.uint8)
        kinds = [Region(self.p.size, self.r.random() < 0.5), Region(len(self.flash), True)]
        return (
            [self.p.bytes(), bytes(self.flash), ram.tobytes(), bytes(self.c.spm)],
            [*kinds, Region(RAM, writable=True), Region(self.c.spm, writable=True)],
        )

    # Instructions are kept until the tokens between them are known.
    chain: list[tuple[str, dict[str, int]]]

    def push(self, name: str, **fields: int) -> None:
        self.chain.append((name, fields))

    def _emit(self) -> None:
        queued = [n for n, (name, _) in enumerate(self.chain) if BY_NAME[name].queued]
        for a, b in itertools.pairwise(queued):
            (first, given), (second, taken) = self.chain[a], self.chain[b]
            one, two = BY_NAME[first].unit, BY_NAME[second].unit
            if one != two:
                given["signal"] = 1 << two
                taken["wait"] = 1 << one
        for name, fields in self.chain:
            self.p.add(name, fields)

    # -- slots ------------------------------------------------------------------------------------

    def set_up(self, few: bool = False) -> None:
        if not few:
            self.chain = []
        r, part = self.r, self.c.spm // ARENAS // 16 * 16
        for slot in range(ARENAS) if not few else [r.randrange(ARENAS)]:
            pixel = r.choice((1, 2, 3, 4, 8, 16)) * (4 if self.f32 else r.choice((1, 4)))
            width = r.randint(4, 12)
            row = pixel * width + 4 * r.randint(0, 3)
            lines = part // row
            ring = r.choice((0, 0, min(5, lines)))
            self.push(
                "VIEW",
                slot=slot,
                base=slot * part,
                pixel=pixel,
                row=row,
                ring=ring,
                height=min(lines, 14),
                width=width,
                pad=r.randint(-128, 127),
            )
            self.views[slot] = (min(lines, 14), width, pixel)
        self.push(
            "KERN",
            slot=0,
            kh=r.randint(1, 4),
            kw=r.randint(1, 4),
            sh=r.randint(1, 2),
            sw=r.randint(1, 3),
            dh=r.randint(1, 2),
            dw=r.randint(1, 2),
            ci=r.choice((1, 1, 2, 3, 4, 8)),
        )
        self.push(
            "STRD",
            slot=0,
            row=r.randint(0, 200) * 4,
            pixel=r.choice((4, 8, 64)),
            channel=self.size if r.random() < 0.6 else r.choice((4, 16, 64)),
        )
        low = r.randint(-128, 0)
        self.push(
            "VSET0",
            slot=0,
            zero=r.randint(-128, 127),
            lo=low,
            hi=r.randint(low, 127),
            rq=self.rq if r.random() < 0.7 else Rq.DIVIDE,
            mult=self.mult(),
            shift=r.randint(-8, 0),
            za=r.randint(-128, 127),
            zb=r.randint(-128, 127),
        )
        bits = [int(np.float32(v).view(np.int32)) for v in (-1.5, 2.5)]
        linear = r.random() < 0.6
        numbers = bits if self.f32 else [r.randint(1, 2**20) for _ in range(2)]
        if not linear and not self.f32:
            numbers = [r.randint(2**30, 2**31 - 1) for _ in range(2)]
        self.push(
            "VSET1",
            slot=0,
            ma=numbers[0],
            mb=numbers[1],
            my=r.randint(0, 2**24) if linear else r.randint(2**30, 2**31 - 1),
        )
        self.push(
            "VSET2",
            slot=0,
            kind=r.choice((Kind.LINEAR, Kind.EVEN)) if linear else Kind.TFLITE,
            minus=r.randint(0, 1),
            sa=-r.randint(0, 3),
            sb=-r.randint(0, 3),
            sy=r.randint(10, 22) if linear else -r.randint(12, 20),
            za=r.randint(-128, 127),
            zb=r.randint(-128, 127),
            zy=r.randint(-128, 127),
            lo=-100,
            hi=120,
        )

    def mult(self) -> int:
        if self.rq == Rq.TFLITE:
            return self.r.randint(2**30, 2**31 - 1)
        return int(np.float32(10 ** self.r.uniform(-4, 0)).view(np.int32))

    @property
    def views(self) -> dict[int, tuple[int, int, int]]:
        return self.__dict__.setdefault("_views", {})

    def box(self, slot: int) -> dict[str, int]:
        height, width, _ = self.views[slot]
        rows, cols = self.r.randint(1, min(3, height)), self.r.randint(1, min(4, width))
        y, x = self.r.randint(0, height - rows), self.r.randint(0, width - cols)
        return {"view": slot, "y": y, "x": x, "rows": rows, "cols": cols}

    def dump(self) -> None:
        """All of SPM goes to region 3."""
        lines = self.c.spm // 4096
        self.push("VIEW", slot=15, base=0, pixel=16, row=4096, height=lines, width=256)
        self.push("STRD", slot=15, row=4096, pixel=16)
        self.push("ST", region=3, offset=0, view=15, strides=15, rows=lines, cols=256, ch=16)

    def channels(self, *slots: int) -> int:
        return self.r.randint(1, max(1, min(self.views[s][2] for s in slots) // self.size))

    @property
    def dtype(self) -> int:
        return DType.F32 if self.f32 else DType.I8

    # -- instructions -----------------------------------------------------------------------------

    def ld(self, slot: int | None = None) -> None:
        slot = self.r.randrange(ARENAS) if slot is None else slot
        dtype = self.dtype if self.f32 or self.r.random() < 0.7 else DType.U8
        region, limit = self.r.choice(((2 if self.f32 else 1, 1000), (2, 4000)))
        self.push(
            "LD",
            region=region,
            offset=4 * self.r.randint(0, limit // 4),
            strides=0,
            ch=self.channels(slot),
            dtype=dtype,
            **self.box(slot),
        )

    def st(self) -> None:
        slot = self.r.randrange(ARENAS)
        self.push(
            "ST",
            region=2,
            offset=4 * self.r.randint(0, 1000),
            strides=0,
            ch=self.channels(slot),
            dtype=self.dtype,
            **self.box(slot),
        )

    def near(self, limit: int) -> int:
        """A row of a memory: mostly one of the first, so that what is written is read."""
        return self.r.randrange(limit) if self.r.random() < 0.1 else self.r.randrange(16)

    def ldl(self, which: int | None = None) -> None:
        which = self.r.randrange(4) if which is None else which
        if which == 0:
            size = self.r.randint(1, 300)
            weights = np.clip(self.rng.normal(0, self.r.choice((0.2, 9, 60)), size), -128, 127)
            packed = pack(np.rint(weights).astype(np.int8).tobytes())
            self.flash += packed
            self.push(
                "LDL",
                region=1,
                offset=len(self.flash) - len(packed),
                mem=1,
                to=self.near(self.c.wgt_rows),
                bytes=size,
                packed=len(packed),
            )
        elif which == 1:
            self.push(
                "LDL",
                region=1,
                offset=4 * self.r.randint(0, 200),
                mem=1,
                to=self.near(self.c.wgt_rows) // 4 * 4,
                bytes=self.c.m * 64,
            )
        elif which == 2:
            record = int(self.rq == Rq.TFLITE and not self.f32)
            self.push(
                "LDL",
                region=1,
                offset=0 if self.f32 else 6144 if record else 4096,
                mem=2,
                record=record,
                to=self.near(64),
                bytes=(8 + record) * 64,
            )
        else:
            self.push("LDL", region=1, offset=self.r.randint(0, 9000), mem=3, bytes=1024)

    def product(self, name: str) -> None:
        slot, r = self.r.randrange(ARENAS), self.r
        self.push(
            name,
            view=slot,
            y=r.randint(-3, 4),
            x=r.randint(-3, 4),
            kern=0,
            wgt=self.near(self.c.wgt_rows),
            acc=self.near(self.c.acc_rows),
            tiles=r.randint(1, 3),
            rows=r.randint(1, 3),
            cols=r.randint(1, 5),
            at=self.size * r.randint(0, 1),
            add=r.randint(0, 1),
            dtype=self.dtype,
        )

    def mm(self) -> None:
        self.product("MM")
        self.drain()

    def dw(self) -> None:
        self.product("DW")
        self.drain()

    def drain(self) -> None:
        a, b = self.r.sample(range(ARENAS), 2)
        box = self.box(a)
        height, width, _ = self.views[b]
        fits = box["y"] + box["rows"] <= height and box["x"] + box["cols"] <= width
        self.push(
            "DRAIN",
            ch=self.channels(a, b),
            acc=self.near(self.c.acc_rows),
            prm=self.near(64),
            res=int(fits and self.r.random() < 0.5),
            res_view=b,
            vset=0,
            lut=0 if self.f32 else self.r.choice((0, 0, 1, 4)),
            dtype=self.dtype,
            **box,
        )

    def alu(self) -> None:
        a, b, d = self.r.sample(range(ARENAS), 3)
        box = self.box(d)
        ops = [o for o in Alu if not self.f32 or o not in (Alu.LUT, Alu.SOFTMAX)]
        op = self.r.choice(ops)
        height, width, _ = self.views[b]
        if box["y"] + box["rows"] > height or box["x"] + box["cols"] > width:
            op = Alu.COPY
        high, wide, _ = self.views[a]
        self.push(
            "ALU",
            op=op,
            ch=self.channels(a, b, d),
            from_view=a,
            b_view=b,
            vset=0,
            from_y=self.r.randint(0, high - box["rows"]),
            table=self.r.randrange(4),
            from_x=self.r.randint(0, wide - box["cols"]),
            dtype=self.dtype,
            **box,
        )

    def pool(self) -> None:
        a, d = self.r.sample(range(ARENAS), 2)
        self.push(
            "POOL",
            op=self.r.randint(0, 1),
            kern=0,
            ch=self.channels(a, d),
            from_view=a,
            vset=0,
            from_y=self.r.randint(0, 1),
            from_x=self.r.randint(0, 1),
            dtype=self.dtype,
            **{**self.box(d), "rows": 1, "cols": 1},
        )


class Racy(Writer):
    """A short program whose memories all hold something, with some of its tokens left out."""

    keep = 0.6

    def _emit(self) -> None:
        c, spm = self.c, self.c.spm
        for at in range(0, spm, FLASH):
            self.p.ldl(region=1, offset=0, mem=0, to=at, bytes=min(FLASH, spm - at))
        for row in range(0, c.wgt_rows, FLASH // c.m):
            self.p.ldl(region=1, offset=0, mem=1, to=row, bytes=min(FLASH, c.wgt))
        self.p.ldl(region=1, offset=4096, mem=2, bytes=8 * c.prm_channels)
        self.p.ldl(region=1, offset=0, mem=3, bytes=1024).fence()
        self.p.view(slot=0, pixel=16, row=256, height=16, width=16, base=0).kern(slot=0)
        self.p.mm(view=0, kern=0, rows=c.acc_rows // 16, cols=16).fence()
        queued = [n for n, (name, _) in enumerate(self.chain) if BY_NAME[name].queued]
        for a, b in itertools.pairwise(queued):
            (first, given), (second, taken) = self.chain[a], self.chain[b]
            one, two = BY_NAME[first].unit, BY_NAME[second].unit
            last = second == "ST" and taken["region"] == 3
            if one != two and not last and self.r.random() < self.keep:
                given["signal"] = 1 << two
                taken["wait"] = 1 << one
        for name, fields in self.chain:
            if name == "ST" and fields["region"] == 3:
                self.p.fence()
            self.p.add(name, fields)
