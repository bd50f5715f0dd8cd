# SPDX-License-Identifier: Apache-2.0
"""Pooling with a window and over all spatial axes; local response normalisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from aot.vendor import OP, Case, Layout, Match, NodeRef, Recorder, case, f32, wildcard
from aot.vendor.dnnl.base import (
    Checks,
    declare,
    floats,
    like,
    record,
    type_of,
)

MAX, AVERAGE_PADDED, AVERAGE = 0, 1, 2  # aot_dnnl_pool_params.kind


def window_of(m: Match, node: NodeRef) -> dict[str, list[int]]:
    """The window of a pooling node by axis: `k` sizes, `s` strides, `d` dilations less one, pads.

    Pads `before` and `given` are those of the node; `after` are at least as many as the last window
    of the result reads, which with ceil_mode are more. All count elements.
    """
    rank = m.x.rank - 2
    ones = [1] * rank
    if node.op_type.startswith("Global"):
        k, strides, dilations, before, given = list(m.x.shape[2:]), ones, ones, [0], [0]
        before, given = before * rank, given * rank
    else:
        k = [int(v) for v in node.attr("kernel_shape")]
        strides = [int(v) for v in node.attr("strides", ones)]
        dilations = [int(v) for v in node.attr("dilations", ones)]
        pads = [int(v) for v in node.attr("pads", [0] * (2 * rank))]
        before, given = pads[:rank], pads[rank:]
    # The library knows no ceil_mode: the padding has to be large enough for the result's last
    # window.
    reach = [
        (o - 1) * strides[a] + (k[a] - 1) * dilations[a] + 1 - i - before[a]
        for a, (i, o) in enumerate(zip(m.x.shape[2:], m.y.shape[2:], strict=True))
    ]
    after = [max(g, n) for g, n in zip(given, reach, strict=True)]
    return {
        "k": k,
        "s": strides,
        "d": [d - 1 for d in dilations],
        "before": before,
        "after": after,
        "given": given,
    }


def kind_of(node: NodeRef) -> int:
    """The kind of a pooling node, as in aot_dnnl_pool_params."""
    if "Max" in node.op_type:
        return MAX
    return AVERAGE_PADDED if node.attr("count_include_pad", 0) else AVERAGE


def _fits(m: Match) -> Checks:
    """Checks of a pool of floats: one result, and a window that oneDNN has."""
    yield from floats(m.x)
    yield m.root.first_alone
    yield from window_fits(m, m.root)


def window_fits(m: Match, node: NodeRef) -> Checks:
    """Check rank 3 to 5, explicit pads smaller than the window, and no dilated average.

    A padding that ceil_mode adds is refused where the average counts padding: the library would
    count the added padding too. Global pools have no window to check.
    """
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if node.op_type.startswith("Global"):
        return
    auto = node.attr("auto_pad", "NOTSET")
    yield auto in ("NOTSET", "VALID"), f"auto_pad {auto!r} (needs explicit pads)"
    w = window_of(m, node)
    pads = [*w["before"], *w["after"]]
    inside = all(p < k for p, k in zip(pads, w["k"] * 2, strict=True)) and min(pads) >= 0
    yield inside, f"pads {pads} are not smaller than the window {w['k']}"
    exact = kind_of(node) != AVERAGE_PADDED or w["after"] == w["given"]
    yield exact, f"ceil_mode adds padding {w['after']} that count_include_pad must not count"
    plain = kind_of(node) == MAX or not any(w["d"])
    yield plain, f"dilations {[d + 1 for d in w['d']]} of an average (needs 1)"


def _record(c: Recorder, m: Match) -> None:
    """Record the primitive of a pool and its call; multiply-accumulates are window sizes times
    outputs.
    """
    fields = {
        "type": type_of(m.x),
        "rank": m.x.rank,
        "block": m.x.layout.block,
        "kind": kind_of(m.root),
    }
    record_pool(c, m, "aot_dnnl_pool", fields, window_of(m, m.root))


def record_pool(
    c: Recorder, m: Match, create: str, fields: dict[str, Any], window: dict[str, list[int]]
) -> None:
    """Record the primitive that `create` makes of a pool over `window`, and its call.

    `fields` are the parameters before the extents of x and y.
    """
    sizes = {n: v for n, v in window.items() if n != "given"}
    macs = math.prod(m.y.shape) * math.prod(window["k"])
    record(c, create, {**fields, "x": m.x.shape, "y": m.y.shape, **sizes}, [m.y, m.x], macs)


def blocks_that_arrive(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocks or channels last if they arrive so: lanes do not mix, and those of the result become
    zero.
    """
    kept = like(incoming["x"], m.x.shape)
    return {"x": incoming["x"], "y": kept} if kept.blocked else {}


def odd_window(m: Match) -> Checks:
    """Checks of an LRN of floats [N, C, H, W] of odd size, which has a middle."""
    yield from floats(m.x)
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"
    size = int(m.root.attr("size", 1))
    yield size % 2 == 1, f"size {size} (needs an odd one)"


def to_lrn(c: Recorder, m: Match) -> None:
    """Record the primitive of an LRN and its call; attributes that are left out have ONNX's
    defaults.
    """
    size = int(m.root.attr("size", 1))
    fields = {
        "type": type_of(m.x),
        "block": m.x.layout.block,
        "size": size,
        "alpha": m.root.attr("alpha", 1e-4),
        "beta": m.root.attr("beta", 0.75),
        "bias": m.root.attr("bias", 1.0),
        "x": m.x.shape,
    }
    record(c, "aot_dnnl_lrn", fields, [m.y, m.x], size * math.prod(m.x.shape))


def lrn_cases() -> Iterator[Case]:
    """LRN(X [N, C, H, W]) of several sizes."""
    for size in (3, 5):  # as many samples as channels: onnx.reference mistakes one for the other
        yield case(f32(21, 21, 2, 3), size=size, alpha=0.01, beta=0.6, bias=1.5)
        yield case(f32(32, 32, 2, 3), size=size, alpha=0.02)


for _op in ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"):
    declare(
        _op.lower(),
        getattr(OP, _op)(wildcard("x")),
        _fits,
        lower=_record,
        layouts=blocks_that_arrive,
    )
declare(
    "lrn",
    OP.LRN(wildcard("x")),
    odd_window,
    lower=to_lrn,
    layouts=blocks_that_arrive,
    cases=lrn_cases,
)
