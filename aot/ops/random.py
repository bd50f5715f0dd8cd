# SPDX-License-Identifier: Apache-2.0
"""Random numbers: a generator per node, seeded by its attribute or by its place in the model.

Draw i of a node since init is SplitMix64's output number i for the node's seed, so a run gives
other numbers than the last one, the same on every machine. `NAME_reset_state` starts again.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from typing import Any

from aot.ir.dtypes import F32, F64, U64
from aot.ops.registry import op
from aot.vendor.backend import Pattern
from aot.vendor.match import Match
from aot.vendor.recorder import Recorder


def seed_of(m: Match) -> int:
    """The bits of attribute `seed`; without it 64 bits from the node's name."""
    if m.seed is not None:
        return int(struct.unpack("<Q", struct.pack("<d", float(m.seed)))[0])
    digest = hashlib.blake2b(m.root.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def declare(op_type: str, inputs: str, normal: bool, **attrs: Any) -> Pattern:
    """One of the generators; `normal` is the shape of its distribution."""
    made = op(op_type, inputs, dtype=None, shape=None, seed=None, **attrs)

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        yield m.y.dtype in (F32, F64), f"dtype {m.y.dtype} (needs float32 or float64)"

    @made.lower
    def to_kernel(c: Recorder, m: Match) -> None:
        drawn = c.resident((1,), U64, "drawn")
        a, b = (m.mean, m.scale) if normal else (m.low, m.high)
        seed = seed_of(m)
        params = c.params(
            n=math.prod(m.y.shape),
            seed=seed - (1 << 64) if seed >= 1 << 63 else seed,
            a=float(a),
            b=float(b),
        )
        c.call(
            f"aot_random_{m.y.dtype.short}",
            m.y,
            c.update(drawn),
            params,
            instance={"NORMAL": int(normal)},
            header="aot_random.h",
        )

    return made


declare("RandomUniform", "", False, low=0.0, high=1.0)
declare("RandomUniformLike", "x", False, low=0.0, high=1.0)
declare("RandomNormal", "", True, mean=0.0, scale=1.0)
declare("RandomNormalLike", "x", True, mean=0.0, scale=1.0)
