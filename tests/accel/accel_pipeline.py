# SPDX-License-Identifier: Apache-2.0
"""A convolution in stripes that all four units work on at once, with loops or without."""

from __future__ import annotations

import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.program import EX, LD, ST, VX, Program
from aot.vendor.accel_sim.timing import Region

ROWS, COLS, STRIPES = 2, 16, 6


def conv(c: Config, seed: int = 0) -> tuple[Program, list[bytes], list[Region]]:
    """3x3, c.m channels to c.m channels, ROWS rows at a time: LD of a stripe with its halo into one
    of two buffers, MM into one of two halves of ACC, DRAIN to one of two buffers, ST."""
    m, p = c.m, Program()
    line = COLS * m
    weights, params = 9 * m * m, 8 * m
    halo = (ROWS + 2) * line
    for n in range(2):
        p.view(slot=n, base=n * halo, pixel=m, row=line, height=ROWS + 2, width=COLS, pad=3)
        p.view(
            slot=2 + n, base=2 * halo + n * ROWS * line, pixel=m, row=line, height=ROWS, width=COLS
        )
    p.strd(slot=0, row=line, pixel=m).kern(slot=0, kh=3, kw=3, ci=m).vset0(slot=0, zero=5)
    p.ldl(region=1, offset=0, mem=1, to=0, bytes=weights)
    p.ldl(region=1, offset=weights, mem=2, to=0, bytes=params, signal=VX)
    for s in range(STRIPES):
        b = s % 2
        # Buffers and halves are free when who read them two stripes ago is done.
        p.ld(
            region=2,
            offset=s * ROWS * line,
            view=b,
            strides=0,
            rows=ROWS + 2,
            cols=COLS,
            ch=m,
            signal=EX,
            wait=EX if s > 1 else 0,
        )
        p.mm(
            view=b,
            kern=0,
            x=-1,
            rows=ROWS,
            cols=COLS,
            acc=b * ROWS * COLS,
            wait=LD | (VX if s > 1 else 0),
            signal=VX | (LD if s < STRIPES - 2 else 0),
        )
        p.drain(
            view=2 + b,
            rows=ROWS,
            cols=COLS,
            ch=m,
            acc=b * ROWS * COLS,
            wait=EX | (LD if s == 0 else 0) | (ST if s > 1 else 0),
            signal=ST | (EX if s < STRIPES - 2 else 0),
        )
        p.st(
            region=3,
            offset=s * ROWS * line,
            view=2 + b,
            strides=0,
            rows=ROWS,
            cols=COLS,
            ch=m,
            wait=VX,
            signal=VX if s < STRIPES - 2 else 0,
        )
    p.halt(status=7)
    rng = np.random.default_rng(seed)
    flash = rng.integers(-128, 128, weights).astype(np.int8).tobytes()
    table = np.zeros((m, 2), np.int32)
    table[:, 0] = rng.integers(-3000, 3000, m)
    table[:, 1] = np.full(m, 0.002, np.float32).view(np.int32)
    flash += table.tobytes()
    source = rng.integers(0, 256, (STRIPES * ROWS + 2) * line).astype(np.uint8).tobytes()
    out = bytes(STRIPES * ROWS * line)
    kinds = [
        Region(p.size, flash=True),
        Region(len(flash), flash=True),
        Region(len(source)),
        Region(len(out), writable=True),
    ]
    return p, [p.bytes(), flash, source, out], kinds
