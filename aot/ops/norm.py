# SPDX-License-Identifier: Apache-2.0
"""Normalisations of float32: layer, RMS, instance, group, batch, Lp, local response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import attribute
from aot.ir.operators import Along, AtLeast, AxisOf, Rowwise
from aot.ir.splits import Split
from aot.ir.value_traits import Scales
from aot.normalise.attributes import canonical
from aot.ops.binary import combine
from aot.ops.broadcast import pack, stored
from aot.ops.registry import op
from aot.ops.softmax import split_at
from aot.shapes.operands import (
    channels,
    first,
    operand_shape,
    operands_fit,
    ranked,
    repeats,
    repeats_along,
    without_ones,
)
from aot.shapes.partial_values import PartialValues
from aot.vendor import F32, Case, Handle, Match, Recorder, UnsupportedError, ValueRef, case, f32
from aot.vendor.layouts import follow

HEADER = "aot_norm_f32.h"


def all_float(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that every input is float32."""
    for _, v in m.inputs():
        yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"


def line(c: Recorder, value: ValueRef, shape: tuple[int, ...]) -> ValueRef | Handle:
    """`value` with every element of `shape`: a constant is broadcast to it, others must have it."""
    if value.is_const:
        data = np.asarray(value.data).reshape(without_ones(value.shape))
        return c.const(np.broadcast_to(data, shape))
    return value


def full_line(m: Match, value: ValueRef, name: str) -> tuple[bool, str]:
    """(whether a scale or bias has exactly the normalised axes, reason); a constant may repeat."""
    axes, own = without_ones(m.x.shape[m.axis :]), without_ones(value.shape)
    repeated = value.is_const and len(own) <= len(axes) and repeats_along(own, axes)
    whole = own == axes or repeated
    return whole, f"{name} of shape {value.shape} computed at run time (needs {axes})"


layernorm = op(
    "LayerNormalization",
    "x scale bias?",
    "y mean? invstd?",
    traits=[Rowwise("axis"), Scales("scale", "bias")],
    axis=AxisOf("x", -1),
    epsilon=1e-5,
    stash_type=1,
    lower=lambda c, m: normalise_lines(c, m, m.bias, m.mean, m.invstd, rms=0),
)
rmsnorm = op(
    "RMSNormalization",
    "x scale",
    traits=[Rowwise("axis"), Scales("scale")],
    axis=AxisOf("x", -1),
    epsilon=1e-5,
    stash_type=1,
    lower=lambda c, m: normalise_lines(c, m, None, None, None, rms=1),
)


@layernorm.check
@rmsnorm.check
def layernorm_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of float32, and that the scale has the normalised axes."""
    yield from all_float(m)
    yield m.stash_type == 1, f"stash_type {m.stash_type} (needs 1, float32)"
    yield full_line(m, m.scale, "scale")


@layernorm.check
def bias_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the bias has the normalised axes."""
    if m.bias is not None:
        yield full_line(m, m.bias, "bias")


def normalise_lines(
    c: Recorder,
    m: Match,
    bias: ValueRef | None,
    mean: ValueRef | None,
    invstd: ValueRef | None,
    rms: int,
) -> None:
    """Record layer normalisation (`rms` 0) or RMS normalisation (1) of x from m.axis on.

    x is rows × n in float32; scale and `bias` have n elements, or are broadcast to them. `mean` and
    `invstd` are results with an element per row, or None. The result may take x's place.
    """
    axis = m.axis % m.x.rank
    shape = m.x.shape[axis:]
    rows, row = math.prod(m.x.shape[:axis]), 4 * math.prod(shape)
    params = c.params(rows=rows, n=math.prod(shape), epsilon=float(np.float32(m.epsilon)))
    flags = {"RMS": rms, "BIAS": bias, "MEAN": mean, "INVSTD": invstd}
    c.call(
        "aot_layernorm_f32",
        m.y,
        mean,
        invstd,
        m.x,
        line(c, m.scale, shape),
        None if bias is None else line(c, bias, shape),
        params,
        instance={k: v if isinstance(v, int) else int(v is not None) for k, v in flags.items()},
        header=HEADER,
        inplace=[(m.y, m.x)],
        # Each row is normalised for itself, so threads share the rows.
        splits=[Split.pieces("rows", rows, [(0, row), (1, 4), (2, 4), (3, row)])],
    )


@layernorm.cases
def layernorm_cases() -> Iterator[Case]:
    """LayerNormalization(X, Scale, B): a mean far from 0, three results."""
    yield case(f32(2, 3, 37), f32(37, seed=1), f32(37, seed=2), const=(1, 2))
    yield case(100 + f32(4, 129), f32(129, seed=1), axis=1, epsilon=1e-3)
    yield case(f32(2, 3, 5), f32(3, 5, seed=1), f32(3, 5, seed=2), axis=1, outputs=3)
    yield case(f32(2, 6), f32(1), f32(1), const=(1, 2))


@rmsnorm.cases
def rmsnorm_cases() -> Iterator[Case]:
    """RMSNormalization(X, scale): the last axis, the last two."""
    yield case(f32(2, 3, 37), f32(37, seed=1), const=(1,))
    yield case(f32(2, 3, 5), f32(3, 5, seed=1), axis=1, epsilon=1e-3)


instancenorm = op(
    "InstanceNormalization",
    "x scale bias",
    traits=[Scales("scale", "bias")],
    epsilon=1e-5,
    check=all_float,
    rules=[operands_fit.by(channels(3, "scale", "B"))],
    lower=lambda c, m: normalise_groups(c, m, m.x.shape[1]),
)
groupnorm = op(
    "GroupNormalization",
    "x scale bias",
    traits=[Scales("scale", "bias")],
    epsilon=1e-5,
    num_groups=AtLeast(1, 1),
    stash_type=1,
    check=all_float,
    rules=[operands_fit.by(channels(2, "scale", "bias"))],
    lower=lambda c, m: normalise_groups(c, m, m.num_groups),
)


@groupnorm.check
def groups_fit(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the groups divide the channels and the scale has one number per channel."""
    channels = m.x.shape[1]
    yield channels % max(1, m.num_groups) == 0, f"{m.num_groups} groups, {channels} channels"
    yield m.scale.shape == (channels,), f"scale of shape {m.scale.shape} (needs [{channels}])"
    yield m.stash_type == 1, f"stash_type {m.stash_type} (needs 1, float32)"


def normalise_groups(c: Recorder, m: Match, groups: int) -> None:
    """Record aot_groupnorm_f32 with `groups` groups of channels; y may take x's place."""
    n, channels, *spatial = m.x.shape
    params = c.params(
        n=n,
        groups=groups,
        channels=channels // max(1, groups),
        s=math.prod(spatial),
        epsilon=float(np.float32(m.epsilon)),
    )
    c.call(
        "aot_groupnorm_f32",
        m.y,
        m.x,
        m.scale,
        m.bias,
        params,
        header=HEADER,
        inplace=[(m.y, m.x)],
    )


@instancenorm.cases
def instancenorm_cases() -> Iterator[Case]:
    """InstanceNormalization(input, scale, B): a mean far from 0."""
    yield case(f32(2, 3, 5, 7), f32(3), f32(3, seed=1), const=(1, 2))
    yield case(50 + f32(1, 3, 33), f32(3), f32(3, seed=1), epsilon=1e-2, rtol=1e-2)


@groupnorm.cases
def groupnorm_cases() -> Iterator[Case]:
    """GroupNormalization(X, scale, bias): two groups of three channels."""
    yield case(f32(2, 6, 5, 3), f32(6), f32(6, seed=1), const=(1, 2), num_groups=2)


batchnorm = op(
    "BatchNormalization",
    "x scale bias mean var",
    "y running_mean? running_var? saved_mean? saved_var?",
    traits=[Scales("scale", "bias")],
    epsilon=1e-5,
    momentum=0.9,
    training_mode=0,
    layouts=follow,
    check=all_float,
)


@batchnorm.check
def batchnorm_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of inference with constant statistics, scale and bias."""
    yield m.training_mode == 0, f"training_mode {m.training_mode} (needs 0: inference)"
    for name in ("scale", "bias", "mean", "var"):
        yield getattr(m, name).is_const, f"{name} is computed at run time (needs a constant)"


@batchnorm.lower
def batchnorm_to_kernel(c: Recorder, m: Match) -> None:
    """Record y = x * s + t with s and t per channel, computed here in float64.

    Raises UnsupportedError if a variance makes s or t infinite.
    """
    gamma, beta, mean, var = (
        np.asarray(v.data, np.float64) for v in (m.scale, m.bias, m.mean, m.var)
    )
    with np.errstate(all="ignore"):  # refused below, in words
        s = gamma / np.sqrt(var + m.epsilon)
        t = beta - mean * s
    if not (np.isfinite(s).all() and np.isfinite(t).all()):
        lowest = var[np.argmin(np.where(np.isfinite(s) & np.isfinite(t), np.inf, var))]
        what = f"no finite scale and shift: the least variance there is {lowest:g}"
        raise UnsupportedError(f"{what}, epsilon {m.epsilon:g}")
    shape = (-1,) + (1,) * (m.x.rank - 2)
    s32, t32 = (pack(c, a.astype(np.float32).reshape(shape), m.y) for a in (s, t))
    operands: list[tuple[ValueRef | Handle, tuple[int, ...]]] = [(m.x, stored(m.x)), s32, t32]
    combine(c, "muladd", F32, m.y, stored(m.y), operands)


@batchnorm.cases
def batchnorm_cases() -> Iterator[Case]:
    """BatchNormalization(X, scale, B, mean, var) of constants: ranks 2 to 4."""

    def statistics(n: int) -> list[Any]:
        return [f32(n, seed=1), f32(n, seed=2), f32(n, seed=3), f32(n, seed=4, low=0.5, high=2)]

    yield case(f32(2, 5, 3, 3), *statistics(5), const=(1, 2, 3, 4))
    yield case(f32(2, 5), *statistics(5), const=(1, 2, 3, 4))
    yield case(f32(1, 19, 7), *statistics(19), const=(1, 2, 3, 4))


lpnorm = op(
    "LpNormalization",
    "x",
    traits=[Along("axis", 0)],
    types=(F32,),
    axis=AxisOf("x", -1),
    p=2,
    rules=[operands_fit.by(ranked(1))],
)


@lpnorm.check
def lpnorm_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that p is 1 or 2."""
    yield m.p in (1, 2), f"p {m.p} (needs 1 or 2)"


@lpnorm.lower
def lpnorm_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_lpnorm_f32 on x [outer, axis, inner]; y may take x's place."""
    outer, axis, inner = split_at(m.x.shape, m.axis)
    c.call(
        "aot_lpnorm_f32",
        m.y,
        m.x,
        c.params(outer=outer, axis=axis, inner=inner),
        instance={"P": m.p},
        header=HEADER,
        inplace=[(m.y, m.x)],
    )


@lpnorm.cases
def lpnorm_cases() -> Iterator[Case]:
    """LpNormalization(input): p 1 and 2, each axis."""
    yield case(f32(2, 3, 5), axis=1)
    yield case(f32(2, 3, 5, low=0.1), p=1)  # onnx.reference forgets the absolute value


lrn = op("LRN", "x", types=(F32,), alpha=1e-4, beta=0.75, bias=1.0, size=AtLeast(1, 1))


@lrn.check
def lrn_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x has a batch, channels and a spatial axis."""
    yield m.x.rank >= 3, f"rank {m.x.rank} (needs a batch, a channel and a spatial axis)"


@lrn.lower
def lrn_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_lrn_f32: sums of squares over `size` neighbouring channels."""
    n, channels, *spatial = m.x.shape
    values = (m.alpha / m.size, m.beta, m.bias)
    alpha, beta, bias = (float(np.float32(v)) for v in values)
    params = c.params(
        n=n,
        c=channels,
        s=math.prod(spatial),
        size=m.size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )
    c.call("aot_lrn_f32", m.y, m.x, params, header=HEADER)


@lrn.cases
def lrn_cases() -> Iterator[Case]:
    """LRN(X [N, C, *S]): odd and even sizes."""
    # As many samples as channels: onnx.reference mistakes one for the other.
    yield case(f32(7, 7, 5, 5), size=3)
    yield case(f32(5, 5, 3, 19), size=4, alpha=0.1, beta=0.5, bias=2.0)


mvn = op("MeanVarianceNormalization", "x", types=(F32,), axes=(0, 2, 3))


@mvn.check
def mvn_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the axes are the last ones, or all but the channels."""
    axes = sorted(a % m.x.rank for a in m.axes)
    last = axes == list(range(m.x.rank - len(axes), m.x.rank))
    yield (
        last or _all_but_channels(m, axes),
        f"axes {list(m.axes)} of {m.x.shape} (needs the last axes, or all but the channels)",
    )


def _all_but_channels(m: Match, axes: list[int]) -> bool:
    """Whether the sorted axes are all of x's but axis 1."""
    return axes == [0, *range(2, m.x.rank)]


@mvn.lower
def mvn_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_mvn_f32 per channel or per line of the last axes; y may take x's place."""
    axes = sorted(a % m.x.rank for a in m.axes)
    # (x - E[x]) / (sqrt(E[x^2] - E[x]^2) + 1e-9): the last term only guards against 0 / 0.
    channelwise = _all_but_channels(m, axes) and axes[0] == 0
    first = 2 if channelwise else axes[0] if axes else m.x.rank
    params = c.params(
        n=m.x.shape[0] if channelwise else 1,
        groups=m.x.shape[1] if channelwise else math.prod(m.x.shape[:first]),
        s=math.prod(m.x.shape[first:]),
    )
    c.call("aot_mvn_f32", m.y, m.x, params, header=HEADER, inplace=[(m.y, m.x)])


@mvn.cases
def mvn_cases() -> Iterator[Case]:
    """MeanVarianceNormalization(X): the default axes, others."""
    yield case(f32(2, 3, 5, 7))
    yield case(f32(2, 3, 5, 7), axes=[2, 3])
    yield case(f32(2, 3, 35), axes=[-1])


@operands_fit("LayerNormalization RMSNormalization")
def norm_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why scale or bias of a layer or RMS normalisation do not repeat to x; "" if they
    do.
    """
    x = operand_shape(node, 0)
    if not x:
        return "an input without axes"
    return first(
        repeats("scale", operand_shape(node, 1), x), repeats("bias", operand_shape(node, 2), x)
    )


@operands_fit("MeanVarianceNormalization")
def variance_axes(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why an axis of a MeanVarianceNormalization does not exist; "" if all do."""
    rank = len(operand_shape(node, 0) or ())
    axes = [int(a) for a in attribute(node, "axes", None) or (0, 2, 3)]
    outside = [a for a in axes if not -rank <= a < rank]
    return f"axis {outside[0]} of a tensor of {rank} axes" if outside else ""


@canonical("LayerNormalization")
def explicit_epsilon(edit: Editor, node: ir.Node) -> None:
    """Write out the attribute `epsilon` of a LayerNormalization."""
    edit.set_attribute(node, "epsilon", float(attribute(node, "epsilon", 1e-5)))
