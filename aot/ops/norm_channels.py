# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization and RMSNormalization of channels that two Transposes bring to the back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.ir.layout import Layout, blocked
from aot.ir.splits import Split
from aot.ops.broadcast import pack
from aot.ops.norm import HEADER, all_float
from aot.ops.registry import portable
from aot.vendor import OP, Case, Match, Recorder, ValueRef, case, f32, wildcard


def fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of float32, of Transposes of the channels alone, and of constant scale and bias."""
    yield from all_float(m)
    rank = m.x.rank
    yield 3 <= rank <= 5, f"rank {rank} (needs 3 to 5)"
    for node, want in (
        (m.back, [0, *range(2, rank), 1]),
        (m.root, [0, rank - 1, *range(1, rank - 1)]),
    ):
        perm = [int(p) for p in node.attr("perm") or ()]
        yield perm == want, f"perm {perm} (needs {want})"
    axis, stash = int(m.norm.attr("axis", -1)), m.norm.attr("stash_type", 1)
    yield axis in (-1, rank - 1), f"axis {axis} (needs the last)"
    yield stash == 1, f"stash_type {stash} (needs 1, float32)"
    for name in ("scale", "bias"):
        value = m.values.get(name)
        if value is not None:
            yield value.is_const and value.rank == 1, f"{name} is no constant row"


def in_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocks of channels."""
    return {"x": blocked(vlen), "y": blocked(vlen)} if vlen > 1 else {}


def to_kernel(c: Recorder, m: Match, rms: int) -> None:
    """Record aot_channelnorm_f32 on x [N, C, *S] in blocks of channels; y may take x's place."""
    n, channels, *space = m.x.shape
    size, bias = math.prod(space), m.values.get("bias")
    plane = size * c.vlen

    def line(value: ValueRef) -> Any:
        """The constant, an element per channel, as blocks of channels have it."""
        full = np.broadcast_to(np.asarray(value.data), (channels,)).astype(np.float32)
        return pack(c, full.reshape(channels, *[1] * len(space)), m.y)[0]

    fields = {
        "n": n,
        "c": channels,
        "s": size,
        "plane": plane,
        "batch": plane * -(-channels // c.vlen),
    }
    c.call(
        "aot_channelnorm_f32",
        m.y,
        m.x,
        line(m.scale),
        None if bias is None else line(bias),
        c.params(**fields, epsilon=float(np.float32(m.norm.attr("epsilon", 1e-5)))),
        instance={"RMS": rms, "BIAS": int(bias is not None)},
        header=HEADER,
        inplace=[(m.y, m.x)],
        # Pixels are normalised alone; a kernel takes as many at once as a vector has lanes.
        splits=[Split.pieces("s", size, [(0, 4 * c.vlen), (1, 4 * c.vlen)], tile=c.vlen)]
        if n == 1
        else (),
    )


def channel_cases(rms: bool) -> Iterator[Case]:
    """Channels that fill vectors and others, one and two images, a mean far from 0."""
    for shape in ((1, 21, 5, 7), (2, 32, 19)):
        rows = [f32(shape[1], seed=1), *([] if rms else [f32(shape[1], seed=2)])]
        turns: dict[str, Any] = {
            "back.perm": [0, *range(2, len(shape)), 1],
            "perm": [0, len(shape) - 1, *range(1, len(shape) - 1)],
        }
        yield case(10 + f32(*shape), *rows, const=tuple(range(1, 1 + len(rows))), **turns)


_X = OP.Transpose(wildcard("x"), _outputs=["back"])
_LAYER = OP.LayerNormalization(
    _X, wildcard("scale"), wildcard("bias"), _optional=1, _outputs=["norm"]
)
_RMS = OP.RMSNormalization(_X, wildcard("scale"), _outputs=["norm"])
for _name, _graph, _rms in (("layer", _LAYER, 0), ("rms", _RMS, 1)):
    portable.declare(
        f"channel_{_name}norm",
        OP.Transpose(_graph),
        fits,
        lower=partial(to_kernel, rms=_rms),
        layouts=in_blocks,
        cases=partial(channel_cases, bool(_rms)),
    )
