# SPDX-License-Identifier: Apache-2.0
"""float32: convolutions, fully connected layers, pooling, sums and products, clamps.

Every product and sum is rounded on its own, in the order of the window's rows, columns, channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    F32,
    OP,
    Case,
    Match,
    Pat,
    WindowShape,
    activated,
    case,
    constant_bounds,
    either,
    f32,
    outside_of_quantised,
    same_shapes,
    wildcard,
)
from aot.vendor.accel_sim.images import Images, image, refusal
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Array, Layer, LayerKind, Window
from aot.vendor.accel_sim.specs import Checks, Spec
from aot.vendor.accel_sim.vectors import (
    aligned,
    images,
    operand,
    operands_fit,
    pool_fits,
    pool_window,
)


def _floats(m: Match) -> Checks:
    """Checks that all values are float32 and not empty, and that no value around them is quantised.

    Between quantised values the whole is computed on integers instead. Bounds of a Clip must be
    constant.
    """
    for name, v in m.values.items():
        if v is not None and name not in ("axes", "shape"):
            yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"
            yield 0 not in v.shape, f"an empty tensor {list(v.shape)}"
    yield from outside_of_quantised(m)
    yield from constant_bounds(m)


def limits_of(m: Match) -> tuple[float, float]:
    """(lower, upper) limit to which the activation of the match clamps results; infinite where it
    has none.

    Relu gives (0, inf); a Clip gives its constant bounds.
    """
    act = getattr(m, "act", None)
    if act is None:
        return -np.inf, np.inf
    if act.op_type == "Relu":
        return 0.0, np.inf
    found = [-np.inf, np.inf]
    for i, name in enumerate(("low", "high")):
        v = m.values.get(name)
        if v is not None:
            found[i] = float(np.asarray(v.data).reshape(()))
    return found[0], found[1]


def _bias(given: Any, count: int) -> Array:
    """The bias as float32 of shape [count]: zeros for no bias, one number repeated for all
    channels.
    """
    if given is None:
        return np.zeros(count, np.float32)
    data = np.asarray(given.data, np.float32).reshape(-1)
    return np.ascontiguousarray(np.broadcast_to(data, (count,)))


# -- convolutions -------------------------------------------------------------------------------


def conv_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a convolution of rank 3 or 4 with constant weights and bias; a residual `r` of y's
    shape.
    """
    yield from _floats(m)
    yield from images(m.x, m.y)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    constant = m.w.is_const and (m.f is None or m.f.is_const)
    yield constant, "weights or a bias that are computed at run time"
    pads = m.conv.attr("pads") or [0]
    yield min(pads) >= 0, f"pads {pads} (must be >= 0)"
    groups = int(m.conv.attr("group", 1))
    fits = groups == 1 or groups == m.x.shape[1] == m.w.shape[0]
    yield fits, f"{groups} groups (needs 1, or one for each channel)"
    if "r" in m.values:
        yield same_shapes(m, m.r)
        yield not m.r.is_const, "the sum with a constant"


def build_conv(b: Images, m: Match) -> None:
    """Add one convolution layer to `b`: weights go from [co, ci, *kernel] to [co, kh, kw, ci].

    A convolution of one axis becomes one of two. The residual `r` of the match is a second input;
    as many groups as channels make a depthwise layer.
    """
    data = np.asarray(m.w.data, np.float32)
    wide = WindowShape.of(m.conv, data.shape[2:]).widened(2)
    stored = data.reshape(*data.shape[:2], *wide.kernel).transpose(0, 2, 3, 1)
    window = Window(*wide.kernel, *wide.strides, *wide.dilations, *wide.before)
    source = b.read(m.x)
    extra = (b.read(m.r),) if "r" in m.values else ()
    target = b.write(m.y)
    groups = int(m.conv.attr("group", 1))
    # The checks allow several groups only where each is one channel.
    kind: LayerKind = "dw" if groups > 1 else "conv"
    made = Layer(
        kind,
        m.conv.name,
        (source, *extra),
        target,
        window,
        np.ascontiguousarray(stored),
        _bias(m.f, len(data)),
        limits=limits_of(m),
    )
    b.layer(made)


# -- fully connected ----------------------------------------------------------------------------


def _weights(m: Match) -> Array:
    """The constant weights of a matrix product as float32 [output channels, input channels]."""
    data = np.asarray(m.w.data, np.float32)
    return data if m.dot.attr("transB", 0) else np.ascontiguousarray(data.T)


def dense_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a product of matrices with constant weights.

    A bias must be one number or have one element per output channel; x must be of rank 2.
    """
    yield from _floats(m)
    constant = m.w.is_const and m.w.rank == 2 and (m.f is None or m.f.is_const)
    yield constant, "weights or a bias that are computed at run time, or not of rank 2"
    plain = not m.dot.attr("transA", 0)
    plain = plain and all(float(m.dot.attr(k, 1.0)) == 1.0 for k in ("alpha", "beta"))
    yield plain, "Gemm with transA, alpha or beta"
    yield m.x.rank == 2, f"rank {m.x.rank} (needs 2)"
    if constant and m.x.rank == 2:
        count = len(_weights(m))
        yield m.y.shape == (m.x.shape[0], count), "a bias that adds axes"
        size = 1 if m.f is None else math.prod(m.f.shape)
        row = size == 1 or (size == count == m.f.shape[-1])
        yield row, f"a bias of {size} elements for {count} channels"


def build_dense(b: Images, m: Match) -> None:
    """Add a matrix product to `b` as a 1 x 1 convolution: each row of x is a pixel."""
    w = _weights(m)
    source, target = b.read(m.x), b.write(m.y)
    stored = w.reshape(len(w), 1, 1, -1)
    bias = _bias(m.f, len(w))
    product = (Window(), stored, bias)
    b.layer(Layer("conv", m.dot.name, (source,), target, *product, limits=limits_of(m)))


# -- pooling ------------------------------------------------------------------------------------


def pool_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a pool: explicit pads, padding that does not count."""
    yield from _floats(m)
    yield from pool_fits(m, m.root)
    pads = any(m.root.attr("pads") or ())
    yield not (pads and m.root.attr("count_include_pad", 0)), "padding that counts"
    pad = m.root.attr("auto_pad", "NOTSET")
    yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"


def build_pool(b: Images, m: Match) -> None:
    """Add one pooling layer to `b`; for a global pool the window is the whole image."""
    source, target = b.read(m.x), b.write(m.y)
    kind: LayerKind = "max" if m.root.op_type in ("MaxPool", "GlobalMaxPool") else "average"
    if m.root.op_type.startswith("Global"):
        h, w, _ = b.tensors[source].shape
        window = Window(h, w)
    else:
        window = pool_window(m.root)
    b.layer(Layer(kind, m.root.name, (source,), target, window))


# -- elementwise --------------------------------------------------------------------------------

KINDS: dict[str, LayerKind] = {"Add": "add", "Mul": "mul", "Max": "maximum", "Min": "minimum"}


def pair_supported(m: Match, rq: Rq) -> Checks:
    """Checks of two float32 operands that broadcast, at least one of them computed.

    Only Add and Mul may have an activation behind them.
    """
    yield from _floats(m)
    yield not (m.a.is_const and m.b.is_const), "two constants"
    yield from operands_fit(m)
    clamped = limits_of(m) != (-np.inf, np.inf)
    yield m.op.op_type in ("Add", "Mul") or not clamped, f"{m.op.op_type} with an activation"


def build_pair(b: Images, m: Match) -> None:
    """Add one elementwise layer to `b`: a sum, product, maximum or minimum of two operands."""
    pair = operand(b, m.a, m.y), operand(b, m.b, m.y)
    target = b.write(m.y)
    b.layer(Layer(KINDS[m.op.op_type], m.op.name, pair, target, limits=limits_of(m)))


def clip_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a Relu or Clip of a float32 image."""
    yield from _floats(m)
    yield from images(m.x)


def build_clip(b: Images, m: Match) -> None:
    """Add one clamping layer to `b`, with the limits of the Relu or Clip."""
    source, target = b.read(m.x), b.write(m.y)
    b.layer(Layer("clip", m.act.name, (source,), target, limits=limits_of(m)))


def _slope(m: Match) -> Array:
    """The factors of negative values as float32: one number of a LeakyRelu, or the slopes of a
    PRelu.
    """
    if m.root.op_type == "LeakyRelu":
        return np.array(np.float32(m.root.attr("alpha", 0.01)))
    return np.asarray(m.slope.data, np.float32)


def leaky_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a LeakyRelu or PRelu of an image: constant slopes of 0 to 1, one or one per
    channel.
    """
    yield from _floats(m)
    yield from images(m.x)
    constant = m.slope is None or m.slope.is_const
    yield constant, "slopes that are computed at run time"
    if not constant or refusal(m.x.shape):
        return
    slope = _slope(m)
    yield bool(np.all((slope >= 0) & (slope <= 1))), "slopes outside of 0 to 1"
    shape = aligned(slope.shape, m.x.rank)
    single = not refusal(shape) and image(shape) in ((1, 1, 1), (1, 1, image(m.x.shape)[2]))
    yield single, f"slopes of shape {list(slope.shape)}"


def build_leaky(b: Images, m: Match) -> None:
    """LeakyRelu and PRelu in two layers, max(x, x * slope), which is right for slopes in 0..1."""
    source = b.read(m.x)
    h, w, c = b.tensors[source].shape
    slope = _slope(m).reshape(aligned(_slope(m).shape, m.x.rank))
    factor = b.constant(slope, m.y, c)
    product = b.inner(source, (h, w, c), f"{m.root.name}_product")
    b.layer(Layer("mul", m.root.name, (source, factor), product))
    b.layer(Layer("maximum", m.root.name, (source, product), b.write(m.y)))


# -- patterns -----------------------------------------------------------------------------------


_CONV = OP.Conv(*map(wildcard, "xwf"), _outputs=["conv"], _optional=1)


def _dense() -> Pat:
    """The graph of a matrix product of x and w: MatMul with or without an Add of f behind it, or
    Gemm.
    """
    x, w, f = map(wildcard, "xwf")
    product = OP.MatMul(x, w, _outputs=["dot"])
    return either(OP.Add(product, f), OP.Gemm(x, w, f, _outputs=["dot"], _optional=1), product)


_CLAMP = either(
    OP.Relu(wildcard("x"), _outputs=["act"]),
    OP.Clip(*map(wildcard, ("x", "low", "high")), _optional=2, _outputs=["act"]),
)
_PAIR = OP.any_of("Add", "Mul", "Max", "Min")(wildcard("a"), wildcard("b"), _outputs=["op"])


def _cases() -> Iterator[Case]:
    """A float32 convolution x, w, b: padded, depthwise with strides, 1-D dilated."""
    for shape, kernel, attrs in (
        ((1, 5, 9, 7), (6, 5, 3, 3), {"conv.pads": [1, 1, 1, 1]}),
        ((1, 8, 6, 6), (8, 1, 3, 3), {"conv.group": 8, "conv.strides": [2, 2]}),
        ((1, 7, 11), (4, 7, 3), {"conv.dilations": [2]}),
    ):
        more: dict[str, Any] = attrs
        yield case(f32(*shape), f32(*kernel), f32(kernel[0]), const=(1, 2), **more)


SPECS = (
    Spec(
        "conv_sum",
        activated(OP.Add(_CONV, wildcard("r"), _outputs=["sum"])),
        conv_supported,
        build_conv,
    ),
    Spec("conv", activated(_CONV), conv_supported, build_conv, cases=_cases),
    Spec("dense", activated(_dense()), dense_supported, build_dense),
    Spec(
        "pool",
        OP.any_of("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")(wildcard("x")),
        pool_supported,
        build_pool,
    ),
    Spec("pair", activated(_PAIR), pair_supported, build_pair),
    Spec("clip", _CLAMP, clip_supported, build_clip),
    Spec(
        "leaky",
        either(OP.LeakyRelu(wildcard("x")), OP.PRelu(wildcard("x"), wildcard("slope"))),
        leaky_supported,
        build_leaky,
        cases=lambda: [case(f32(1, 5, 6, 7), alpha=0.3)],
    ),
)
