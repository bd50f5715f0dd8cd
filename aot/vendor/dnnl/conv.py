# SPDX-License-Identifier: Apache-2.0
"""Convolutions, transposed ones too, with bias, residual and activation in the same primitive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from aot.vendor import (
    F32,
    OP,
    PLAIN,
    Case,
    Layout,
    Match,
    Recorder,
    WindowShape,
    channels_last,
    f32,
    same_shapes,
    wildcard,
)
from aot.vendor.dnnl.base import (
    Array,
    Checks,
    blocked_by,
    blocks,
    declare,
    floats,
    primitive,
    type_of,
)
from aot.vendor.dnnl.products import (
    Constants,
    Work,
    chained,
    example,
    family,
    post_of,
    run,
)

#: Pixels of a row and channels from which the library's kernels on blocks are the faster ones.
ROW, MANY = 14, 128


def depthwise(m: Match, groups: int) -> bool:
    """Whether a convolution has one group per channel, as many outputs as inputs, and several
    groups.
    """
    return bool(groups == m.x.shape[1] == m.y.shape[1] and groups > 1)


def short_rows(m: Match) -> bool:
    """Whether the library is faster on channels last: on dense windows of float images whose rows
    have fewer than ROW pixels, of at least MANY channels.

    Its kernels on blocks of channels compute within a row, and a short one fills few of their
    registers; those on channels last take several rows at once (oneDNN 3.5 on a Zen 4, 512
    channels: 0.86 of the time at 7 pixels a row, 0.97 at 14; products of 1 x 1 windows 1.04).
    """
    x, y = m.x.shape, m.y.shape
    dense = m.conv.op_type == "Conv" and m.x.rank == 4 and int(m.conv.attr("group", 1)) == 1
    wide = dense and m.x.dtype is F32 and min(x[1], y[1]) >= MANY
    return wide and max(m.w.shape[2:]) > 1 and y[3] < ROW


def conv_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocks of `vlen` channels for x, y, a residual r and the operand `post`, or channels last
    where rows are short.

    The x of a Conv with at most 3 channels stays plain: the library has kernels for such images.
    {}, all plain, if the library has no such blocks or two groups would share a block.
    """
    groups, x, y = int(m.conv.attr("group", 1)), m.x.shape, m.y.shape
    shared = groups > 1 and not depthwise(m, groups)
    if not blocked_by(m.x, vlen) or (shared and (x[1] // groups % vlen or y[1] // groups % vlen)):
        return {}
    few = groups == 1 and x[1] <= 3 and m.conv.op_type == "Conv"
    wanted = {"x": PLAIN if few else blocks(x, vlen), "y": blocks(y, vlen)}
    if short_rows(m):
        wanted = {"x": channels_last(m.x), "y": channels_last(m.y)}
    return {**wanted, **{n: wanted["y"] for n in ("r", "post") if n in m.values}}


def conv_fits(m: Match) -> Checks:
    """Checks of the convolution `m.conv` of floats, transposed or not, with constant weights and
    bias.

    A residual `r` has the shape of the result. Pads are not negative, at the end of a
    transposed one either, where output_padding lessens them.
    """
    yield from floats(m.x, m.w, m.b, m.values.get("r"))
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    yield m.w.is_const, "weights are computed at run time (need constants)"
    yield m.b is None or m.b.is_const, "the bias is computed at run time (needs a constant)"
    r = m.values.get("r")
    if r is not None:
        yield same_shapes(m, r)
    pads = [int(p) for p in m.conv.attr("pads", [0])]
    yield min(pads) >= 0, f"pads {pads} (must not be negative)"
    if m.conv.op_type == "ConvTranspose":
        after = transposed_after(m)
        yield min(after) >= 0, f"output_padding needs pads {after} at the end (must be >= 0)"


def transposed_after(m: Match) -> list[int]:
    """Pads at the end of each axis that give the result's extents."""
    window = WindowShape.of(m.conv, m.w.shape[2:])
    axes = zip(m.x.shape[2:], m.y.shape[2:], *window.axes(), strict=True)
    return [(i - 1) * s + (k - 1) * d + 1 - before - o for i, o, k, s, d, before, _ in axes]


def conv_weights(m: Match, groups: int, transposed: bool) -> Array:
    """The weights as [oc, ic, k...], or [groups, oc, ic, k...] with channels counted per group.

    A transposed convolution has its weights as [ic, oc, k...] in ONNX; those axes are swapped.
    """
    w = np.asarray(m.w.data)
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    w = w.swapaxes(1, 2) if transposed else w
    return np.ascontiguousarray(w[0] if groups == 1 else w)


def conv_scratch(m: Match) -> int:
    """Bytes of scratch that the library's kernels are known to want; 0 for most convolutions.

    A depthwise bias is padded to blocks; the points of a 1 x 1 kernel with strides are gathered.
    """
    strides = WindowShape.of(m.conv, m.w.shape[2:]).strides
    block = m.x.layout.block or 1
    channels: int = -(-m.x.shape[1] // block) * block
    if depthwise(m, int(m.conv.attr("group", 1))):
        return 4 * channels + 256
    gathered = math.prod(m.w.shape[2:]) == 1 and max(strides) > 1
    pixels: int = math.prod(m.y.shape[2:])
    return 4 * channels * pixels + 256 if gathered else 0


def record_conv(constants: Constants, c: Recorder, m: Match) -> None:
    """Record the convolution `m.conv`, its activation, a residual or second operator, and the
    call.
    """
    rank, groups, act = m.x.rank, int(m.conv.attr("group", 1)), constants(m)
    transposed = m.conv.op_type == "ConvTranspose"
    window = WindowShape.of(m.conv, m.w.shape[2:])
    w = conv_weights(m, groups, transposed)
    scratch = conv_scratch(m)
    params = c.params(
        type=type_of(m.x),
        rank=rank,
        w_rank=w.ndim,
        x_block=m.x.layout.block,
        y_block=m.y.layout.block,
        transposed=transposed,
        sum=m.values.get("r") is not None,
        post=post_of(m),
        act=act.kind,
        alpha=act.alpha,
        beta=act.beta,
        scratch=scratch,
        x=m.x.shape,
        y=m.y.shape,
        w=w.shape,
        s=window.strides,
        # oneDNN counts the elements left out: 0 is a dense kernel
        d=[d - 1 for d in window.dilations],
        before=window.before,
        after=transposed_after(m) if transposed else window.after,
    )
    b = None if m.b is None else c.const(np.asarray(m.b.data, np.float32), "b")
    state = primitive(c, "aot_dnnl_conv", c.const(w, "w"), b, params)
    points = math.prod(m.x.shape if transposed else m.y.shape)
    run(c, m, state, m.x, m.values.get("r"), Work(points * math.prod(m.w.shape[1:]), scratch))


def examples(name: str) -> Iterator[Case]:
    """A case of 5 input, 24 output channels; a second operand is [1, 24, 5, 6]."""
    # The weights of a transposed convolution have the input channels first.
    x, w = f32(1, 5, 7, 8), f32(5, 24, 3, 3, low=-0.2, high=0.2)
    if "transpose" not in name:
        w = w.reshape(24, 5, 3, 3)
    more = [f32(1, 24, 5, 6)] if "add" in name or "then" in name else []
    yield example(name, x, w, f32(24), *more)


_CONV, _TRANSPOSED = (
    getattr(OP, op_type)(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)
    for op_type in ("Conv", "ConvTranspose")
)
for _name, _graph, _checks, _constants in (
    *family("conv", _CONV),
    *family("conv_add", OP.Add(_CONV, wildcard("r"))),
    *family("convtranspose", _TRANSPOSED),
    *chained("conv", _CONV),
):
    declare(
        _name,
        _graph,
        *_checks,
        conv_fits,
        lower=partial(record_conv, _constants),
        layouts=conv_layouts,
        cases=partial(examples, _name),
    )
