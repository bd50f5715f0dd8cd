# SPDX-License-Identifier: Apache-2.0
"""Layers of networks: convolutions, pools, normalisations, products of matrices, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family


def small(d: Draft, shape: list[int]) -> np.ndarray:
    """Weights whose products stay small."""
    fan = max(1, int(np.prod(shape[1:])))
    drawn = d.rng.standard_normal(shape)  # finite: pads times infinity are nothing or NaN
    return np.asarray(drawn * (1.2 / fan**0.5)).astype(d.dtype)


def tame(d: Draft) -> None:
    """Weights of zero times infinity: no two agree on what is not a number then."""
    if d.wild:
        raise Reject


def window(d: Draft, rank: int) -> dict[str, Any]:
    """Kernel, strides, dilations and pads of a convolution."""
    kernel = [d.one(1, 1, 3, 3, 2, 5) for _ in range(rank)]
    if d.chance(0.5):
        kernel = [d.one(1, 3)] * rank
    found: dict[str, Any] = {
        "kernel": kernel,
        "strides": [d.one(1, 1, 1, 2, 3) for _ in range(rank)],
        "dilations": [d.one(1, 1, 1, 2) for _ in range(rank)],
    }
    if d.chance(0.3):
        found["strides"] = [d.one(1, 2)] * rank
        found["dilations"] = [1] * rank
    if d.chance(0.25):
        found["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER", "VALID")
    elif d.chance(0.4):
        found["pads"] = [d.upto(0, 2) for _ in range(2 * rank)]
    else:
        found["pads"] = [k // 2 for k in kernel] * 2
    return found


@family(5)
def conv(d: Draft) -> None:
    x = d.floats((3, 4, 5))
    channels, rank = d.shape(x)[1], d.values[x].ndim - 2
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    group = d.one(1, 1, 1, channels, d.one(*divisors))
    out = group * d.one(1, 1, 2, 3, 4, 8) if group > 1 else d.one(1, 2, 3, 4, 5, 8, 16, 17, 24, 33)
    w = window(d, rank)
    weights = small(d, [out, channels // group, *w.pop("kernel")])
    inputs = [x, d.const(weights) if d.chance(0.92) else d.feed(weights)]
    if d.chance(0.6):
        inputs.append(d.operand([out]))
    y = d.add("Conv", inputs, group=group, **w)[0]
    after(d, y)


def after(d: Draft, y: str) -> str:
    """What follows a layer: an activation, a clip, a residual."""
    draw = d.rng.random()
    if draw < 0.3:
        return d.add(d.word("Relu HardSwish Sigmoid LeakyRelu Tanh Elu"), [y])[0]
    if draw < 0.4:
        low, high = (d.const(np.array(v).astype(d.dtype)) for v in (0, 6))
        return d.add("Clip", [y, low, high])[0]
    if draw < 0.5:
        y = d.add("Add", [y, d.like(y)] if d.chance(0.5) else [d.like(y), y])[0]
        return d.add("Relu", [y])[0] if d.chance(0.5) else y
    if draw < 0.58 and d.values[y].ndim > 1:
        y = batch_norm_on(d, y)
        return d.add("Relu", [y])[0] if d.chance(0.5) else y
    return y


@family(1.2)
def conv_transpose(d: Draft) -> None:
    x = d.floats((3, 4))
    channels, rank = d.shape(x)[1], d.values[x].ndim - 2
    group, out = d.one(1, 1, channels), d.one(1, 2, 5, 8)
    kernel, strides = [d.one(1, 2, 3) for _ in range(rank)], [d.one(1, 2) for _ in range(rank)]
    inputs = [x, d.const(small(d, [channels, out, *kernel]))]
    if d.chance(0.5):
        inputs.append(d.operand([out * group]))
    attrs = {"pads": [d.upto(0, (k - 1) // 2) for k in kernel * 2]}
    if d.chance(0.3):
        attrs["dilations"] = [d.one(1, 2) for _ in range(rank)]
    attrs["output_padding"] = [d.upto(0, s - 1) for s in strides]
    d.add("ConvTranspose", inputs, group=group, strides=strides, **attrs)


@family(0.5)
def deform_conv(d: Draft) -> None:
    tame(d)
    x = d.floats((4,))
    n, c, h, w = d.shape(x)
    if h < 2 or w < 2 or c > 9:
        raise Reject
    out = d.one(1, 2, 4)
    offset = np.clip(d.array([n, 8, h - 1, w - 1], np.float32), -1.5, 1.5).astype(d.dtype)
    inputs = [x, d.const(small(d, [out, c, 2, 2])), d.feed(offset)]
    if d.chance(0.5):
        inputs += (
            [d.operand([out])] if d.chance(0.5) else ["", d.feed(d.array([n, 4, h - 1, w - 1]))]
        )
    d.add("DeformConv", inputs, kernel_shape=[2, 2], pads=[0, 0, 0, 0])


@family(3)
def pool(d: Draft) -> None:
    op = d.word("MaxPool AveragePool MaxPool AveragePool LpPool")
    if op == "AveragePool":
        tame(d)
    quantised = op == "MaxPool"
    x = d.pick(
        lambda a: (
            a.ndim in (3, 4, 5)
            and a.size > 0
            and (a.dtype == d.dtype or (quantised and a.dtype.name in ("int8", "uint8")))
        )
    )
    rank = d.values[x].ndim - 2
    kernel = [d.one(1, 2, 3) for _ in range(rank)]
    if d.chance(0.5):
        kernel = [d.one(2, 3)] * rank
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    attrs["strides"] = [d.one(1, 2, 3) for _ in range(rank)]
    if d.chance(0.25):
        attrs["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attrs["pads"] = [d.upto(0, k - 1) for k in kernel + kernel]
        attrs["ceil_mode"] = int(d.chance(0.3))
    if d.chance(0.2) and "auto_pad" not in attrs and (op == "MaxPool" or d.opset >= 19):
        attrs["dilations"] = [d.one(1, 2) for _ in range(rank)]
    if op == "AveragePool":
        attrs["count_include_pad"] = d.upto(0, 1)
    if op == "LpPool":
        attrs["p"] = d.one(1, 2, 3)
        attrs.pop("ceil_mode", None)
    both = op == "MaxPool" and d.chance(0.2)
    d.add(op, [x], 2 if both else 1, **attrs)


@family(0.5)
def unpool(d: Draft) -> None:
    x = d.floats((4,))
    _n, _c, h, w = d.shape(x)
    if h < 2 or w < 2:
        raise Reject
    y, i = d.add("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    d.add("MaxUnpool", [y, i], kernel_shape=[2, 2], strides=[2, 2])


@family(1)
def global_pool(d: Draft) -> None:
    op = d.word("GlobalAveragePool GlobalMaxPool GlobalAveragePool GlobalLpPool")
    attrs = {"p": d.one(1, 2, 3)} if op == "GlobalLpPool" else {}
    d.add(op, [d.floats((3, 4, 5))], **attrs)


def batch_norm_on(d: Draft, x: str) -> str:
    """BatchNormalization with constants."""
    c = d.shape(x)[1]
    scale, bias, mean = (d.const(d.array([c])) for _ in range(3))
    variance = np.abs(d.array([c], np.float32)) + np.float32(0.5)
    return d.add("BatchNormalization", [x, scale, bias, mean, d.const(variance.astype(d.dtype))])[0]


@family(1)
def batch_norm(d: Draft) -> None:
    batch_norm_on(d, d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 2))


@family(1)
def instance_norm(d: Draft) -> None:
    x = d.floats((3, 4))
    c = d.shape(x)[1]
    d.add("InstanceNormalization", [x, d.operand([c]), d.operand([c])])


@family(0.6)
def group_norm(d: Draft) -> None:
    if d.opset < 21:
        raise Reject
    x = d.floats((3, 4))
    c = d.shape(x)[1]
    groups = d.one(*[g for g in range(1, c + 1) if c % g == 0])
    d.add("GroupNormalization", [x, d.operand([c]), d.operand([c])], num_groups=groups)


@family(1)
def layer_norm(d: Draft) -> None:
    if d.float_ == "float64":  # its statistics are float32
        raise Reject
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 1 and a.size > 0)
    axis = d.upto(0, d.values[x].ndim - 1)
    shape = d.shape(x)[axis:]
    op = "RMSNormalization" if d.opset >= 23 and d.chance(0.5) else "LayerNormalization"
    inputs = [x, d.operand(shape)]
    if op == "LayerNormalization" and d.chance(0.6):
        inputs.append(d.operand(shape))
    d.add(op, inputs, axis=axis)


@family(0.8)
def other_norm(d: Draft) -> None:
    op = d.word("LRN LpNormalization MeanVarianceNormalization")
    x = d.floats((4,)) if op != "LpNormalization" else d.floats((1, 2, 3, 4))
    if op == "LRN":
        d.add(op, [x], size=d.one(1, 3, 5), alpha=0.01, beta=0.75, bias=1.0)
    elif op == "LpNormalization":
        d.add(op, [x], axis=d.upto(-1, d.values[x].ndim - 1), p=d.upto(1, 2))
    else:
        d.add(op, [x], axes=d.one([0, 2, 3], [2, 3], [1]))


@family(2)
def softmax(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 1)
    rank = d.values[x].ndim
    op = d.word("Softmax Softmax LogSoftmax Hardmax")
    d.add(op, [x], axis=d.upto(-rank, rank - 1))


@family(3)
def matmul(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 1)
    shape = d.shape(x)
    k, n = shape[-1], d.one(1, 2, 3, 4, 7, 16, 17, 33)
    if k == 0:
        raise Reject
    other = [k, n]
    if d.chance(0.25) and len(shape) > 2:
        other = [s if d.chance(0.6) else 1 for s in shape[:-2]] + other
    if d.chance(0.1):
        other = [k]
    w = small(d, other)
    y = d.add("MatMul", [x, d.const(w) if d.chance(0.7) else d.feed(w)])[0]
    if d.chance(0.5) and len(other) > 1:
        y = d.add("Add", [y, d.operand([n])] if d.chance(0.6) else [d.operand([n]), y])[0]
    if d.chance(0.3):
        d.add(d.word("Relu Gelu Sigmoid Tanh"), [y])


@family(1.5)
def matmul_computed(d: Draft) -> None:
    x = d.floats((2, 3, 4))
    a = d.values[x]
    perm = list(range(a.ndim))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    y = d.add("Transpose", [d.like(x)], perm=perm)[0]
    scaled = d.add("MatMul", [x, y])[0]
    if d.chance(0.6):
        scaled = d.add("Mul", [scaled, d.const(np.array(0.25).astype(d.dtype))])[0]
    if d.chance(0.4):
        d.add("Softmax", [scaled], axis=-1)


@family(0.7)
def matmul_ints(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype.name in ("int32", "int64") and a.ndim >= 2 and a.size > 0)
    if np.abs(d.values[x]).max() > 1000:
        raise Reject
    d.add("MatMul", [x, d.operand([d.shape(x)[-1], d.one(1, 3, 5)], d.values[x].dtype)])


@family(1.5)
def gemm(d: Draft) -> None:
    x = d.floats((2,))
    a = d.values[x]
    ta, tb, n = d.upto(0, 1), d.upto(0, 1), d.one(1, 3, 8, 17)
    k, m = (a.shape[0], a.shape[1]) if ta else (a.shape[1], a.shape[0])
    w = small(d, [n, k] if tb else [k, n])
    inputs = [x, d.const(w) if d.chance(0.8) else d.feed(w)]
    if d.chance(0.7):
        inputs.append(d.operand(d.one([n], [1, n], [m, 1], [m, n], [], [1])))
    attrs = {"alpha": d.one(1.0, 0.5), "beta": d.one(1.0, 2.0, 0.0)}
    y = d.add("Gemm", inputs, transA=ta, transB=tb, **attrs)[0]
    if d.chance(0.3):
        d.add(d.word("Relu Tanh"), [y])


EQUATIONS = (
    ("abc,cd->abd", lambda s, n: [s[2], n]),
    ("abc,abd->acd", lambda s, n: [s[0], s[1], n]),
    ("abc,ac->ab", lambda s, n: [s[0], s[2]]),
    ("abc,dc->dab", lambda s, n: [n, s[2]]),
    ("abc,cb", lambda s, n: [s[2], s[1]]),
    ("a...c,c->...a", lambda s, n: [s[2]]),
)


@family(1)
def einsum(d: Draft) -> None:
    x = d.floats((3,))
    equation, other = d.one(*EQUATIONS)
    inputs = [x, d.operand(other(d.shape(x), d.one(1, 3, 5)))]
    if d.chance(0.2):
        equation, inputs = d.one("abc->cb", "abc->acb", "abc->b", "abc->"), [x]
    d.add("Einsum", inputs, equation=equation)


@family(1.5)
def resize(d: Draft) -> None:
    tame(d)
    x = d.pick(lambda a: (a.dtype == d.dtype or a.dtype == np.uint8) and a.ndim == 4 and a.size > 0)
    mode = d.word("nearest nearest linear cubic")
    if d.values[x].dtype == np.uint8:
        mode = "nearest"
    attrs: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": d.word(
            "asymmetric half_pixel align_corners pytorch_half_pixel"
        ),
    }
    if mode == "nearest":
        attrs["coordinate_transformation_mode"] = d.word("asymmetric half_pixel")
        attrs["nearest_mode"] = d.word("floor round_prefer_floor ceil round_prefer_ceil")
    h, w = d.shape(x)[2:]
    if d.chance(0.6):
        scales = [1.0, 1.0, d.one(2.0, 3.0, 0.5), d.one(2.0, 1.0, 0.5)]
        pairs = list(zip(scales[2:], (h, w), strict=True))
        if any(s < 1 and e < 2 for s, e in pairs):
            raise Reject
        # Oracles divide by other lengths where one is no integer: docs/oracles.md.
        aligned = attrs["coordinate_transformation_mode"] == "align_corners"
        if aligned and any(s * e % 1 for s, e in pairs):
            raise Reject
        d.add("Resize", [x, "", d.const(np.array(scales, np.float32))], **attrs)
    else:
        n, c = d.shape(x)[:2]
        sizes = d.ints(n, c, h * d.one(1, 2, 3), w * d.one(1, 2))
        d.add("Resize", [x, "", "", sizes], **attrs)


@family(0.6)
def grid_sample(d: Draft) -> None:
    tame(d)
    if d.opset < 20:
        raise Reject
    x = d.floats((4,))
    n = d.shape(x)[0]
    grid = np.clip(d.array([n, d.upto(1, 4), d.upto(1, 4), 2], np.float32) * 0.6, -1.3, 1.3)
    mode, padding = d.word("linear nearest cubic"), d.word("zeros border reflection")
    if mode == "cubic" and padding == "border":  # one moves places outside to the border first
        grid = np.clip(grid, -0.95, 0.95)
    d.add(
        "GridSample",
        [x, d.feed(grid.astype(d.dtype))],
        mode=mode,
        padding_mode=padding,
        align_corners=d.upto(0, 1),
    )


@family(0.4)
def roi_align(d: Draft) -> None:
    tame(d)
    x = d.floats((4,))
    n, _, h, w = d.shape(x)
    k = d.upto(1, 3)
    low = d.rng.uniform(0, 0.4, (k, 2)) * [w, h]
    high = low + d.rng.uniform(0.2, 0.6, (k, 2)) * [w, h]
    rois = d.feed(np.concatenate([low, high], 1).astype(d.dtype))
    index = d.const(d.rng.integers(0, n, k).astype(np.int64))
    attrs = {"mode": d.one("avg", "max"), "sampling_ratio": d.one(1, 2)}
    attrs["coordinate_transformation_mode"] = d.one("half_pixel", "output_half_pixel")
    d.add("RoiAlign", [x, rois, index], output_height=d.upto(1, 3), output_width=2, **attrs)


@family(0.4)
def affine_grid(d: Draft) -> None:
    tame(d)
    if d.opset < 20:
        raise Reject
    theta, corners = d.operand([2, 2, 3], constant=0.2), d.upto(0, 1)
    sides = [d.upto(1 + corners, 4) for _ in "hw"]  # one place has no two corners to align
    d.add("AffineGrid", [theta, d.ints(2, 1, *sides)], align_corners=corners)


@family(0.4)
def det(d: Draft) -> None:
    k = d.upto(1, 4)
    d.add("Det", [d.feed(d.array([2, k, k]))])


@family(0.4)
def col2im(d: Draft) -> None:
    h, w = d.upto(2, 4), d.upto(2, 4)
    x = d.feed(d.array([1, 2 * 4, (h - 1) * (w - 1)]))
    d.add("Col2Im", [x, d.ints(h, w), d.ints(2, 2)])


@family(0.5)
def spectral(d: Draft) -> None:
    tame(d)
    if d.float_ != "float32" or d.opset < 20:
        raise Reject
    n = d.one(4, 5, 8)
    x = d.feed(d.array([1, n, 1]))
    d.add("DFT", [x, "", d.const(np.array(1, np.int64))], onesided=d.upto(0, 1))


@family(0.4)
def loss(d: Draft) -> None:
    n, c = d.upto(1, 4), d.upto(2, 5)
    scores, labels = d.feed(d.array([n, c])), d.feed(d.rng.integers(0, c, n))
    op = d.word("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
    d.add(op, [scores, labels], reduction=d.word("mean sum none"))


__all__ = ["after", "is_float", "small"]
