# SPDX-License-Identifier: Apache-2.0
"""Convolutions, matrix products, pooling, functions of one element, operations of two tensors."""

from __future__ import annotations

import math

import numpy as np

from aot.vendor import (
    OP,
    S8,
    Layout,
    Match,
    QuantisedPair,
    QuantisedProduct,
    Recorder,
    activated,
    case,
    either,
    f32,
    images,
    outside_of_quantised,
    quantised,
    quantised_values,
    wildcard,
)
from aot.vendor.acl.base import backend, run

#: The checks of every pattern of floats.
FLOATS = images.floats, outside_of_quantised, images.ordered_bounds
#: Operators of one operand by their numbers in aot_acl.cpp; a Relu is a Clip.
UNARY = "Abs HardSwish Sigmoid Tanh Sqrt Elu LeakyRelu Softmax Clip".split()
#: The constants of their functions where the nodes have none.
FACTORS = {"Elu": 1.0, "LeakyRelu": 0.01}
#: Operators of two operands by their numbers.
PAIRS = "Add Sub Mul Div Max Min".split()
AVERAGE, MAXIMUM, MEAN = range(3)
#: The library takes factors of sums below 1e-5 as 0, and none from 1 on. SPAN is the largest
#: magnitude of a value less its zero point, MOVED how far a result may move before it is rounded.
LEAST, MOST, SPAN, MOVED = 1.001e-5, 0.999, 255, 0.25


def conv_fields(m: Match) -> images.Fields:
    """Fields of a convolution, with the extents of its result."""
    return {**images.conv_fields(m), "result": images.extents(m.y)}


def groups_fit(m: Match) -> images.Checks:
    """Checks of groups: there is one, or one of each channel."""
    groups, channels = int(m.conv.attr("group", 1)), m.x.shape[1]
    known = groups in (1, channels)
    return [(known, f"{groups} groups of {channels} channels (needs 1, or one of each channel)")]


def stored_weights(w: np.ndarray, depthwise: bool) -> np.ndarray:
    """Weights [outputs, channels, *window] with channels last, of depthwise ones outputs last."""
    moved = np.moveaxis(w[:, 0], 0, -1) if depthwise else np.moveaxis(w, 1, -1)
    return np.ascontiguousarray(moved)


def to_conv(c: Recorder, m: Match) -> None:
    """Record a convolution of floats."""
    fields = conv_fields(m)
    w = stored_weights(np.asarray(m.w.data), fields["groups"] > 1)
    b = None if m.b is None else c.const(np.asarray(m.b.data), "b")
    macs, given = images.macs_of(m, fields), (c.const(w, "w"), b, None)
    run(c, m, "conv", [m.x], given, macs=macs, **fields, **images.bounds_of(m))


def to_dense(c: Recorder, m: Match) -> None:
    """Record a product of floats by a constant matrix."""
    given, fields = images.dense(c, m)
    fields |= {"result": fields["size"], **images.bounds_of(m)}
    run(c, m, "conv", [m.a], given, macs=images.macs_of(m, fields), **fields)


def product_fits(m: Match) -> images.Checks:
    """Checks of a product of int8 with symmetric weights."""
    conditions = QuantisedProduct.checks(m, (S8,), symmetric=True)
    return images.integers(m, QuantisedProduct, conditions, requantised)


def requantised(p: QuantisedProduct) -> list[tuple[bool, str]]:
    """The condition of the factors of sums: the library's kernels only shift to the right."""
    factors = p.x.s * p.w.scale / p.y.s
    least, most = (f"{float(f):g}" for f in (factors.min(), factors.max()))
    text = f"sums multiplied by {least} to {most} (needs {LEAST:g} to 1)"
    return [(rescaled(p)[3] < MOVED, text)]


def rescaled(p: QuantisedProduct) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Weights, bias and scales per channel of which all factors are from LEAST to 1, and how far
    they move the result before it is rounded.

    Weights divided by a number and a scale multiplied by it give the same result where the weights
    stay whole: those of a constant channel are 0. Where the factor is small the bias outweighs all
    products.
    """
    w, bias = p.w.stored, p.bias
    scale = np.broadcast_to(p.w.scale.reshape(-1), w.shape[:1]).astype(np.float64)
    factor = p.x.s * scale / p.y.s
    halves = 2.0 ** -(np.floor(np.log2(factor / MOST)) + 1)
    times = np.where(factor < MOST, np.maximum(np.ceil(LEAST / factor), 1), halves)
    each = times.reshape(-1, *[1] * (w.ndim - 1))
    # A bias of more than half of int32's range is cut: the result moves too far then, and the
    # product is refused.
    whole, sums = (
        np.clip(np.rint(w / each), -128, 127),
        np.clip(np.rint(bias / times), -(2**30), 2**30),
    )
    lost = SPAN * abs(w - whole * each).reshape(len(w), -1).sum(1) + abs(bias - sums * times)
    return whole.astype(w.dtype), sums, scale * times, float((lost * factor).max())


def of_int8(found: QuantisedPair | QuantisedProduct) -> images.Fields:
    """Fields of a function of int8 values; their bounds are said as floats, inf for none."""
    operands = (found.a, found.b) if isinstance(found, QuantisedPair) else (found.x,)
    codes = images.codes(found.limits, *operands, found.y)
    for name, end, none in (("low", -128, -math.inf), ("high", 127, math.inf)):
        real = (codes[name] - codes["zero"][-1]) * codes["scale"][-1]
        codes[name] = none if codes[name] == end else real
    return {**codes, "type": 1}


def to_product(c: Recorder, m: Match) -> None:
    """Record a product of quantised values."""
    found, rows = QuantisedProduct.of(m), math.prod(m.x.shape[:-1])
    w, bias, scales, _ = rescaled(found)
    fields = conv_fields(m) if found.window else images.rows_fields(rows, *w.shape[::-1])
    fields.setdefault("result", fields["size"])
    stored = stored_weights(w, fields["groups"] > 1) if found.window else w
    b, scale = c.const(bias.astype(np.int32), "b"), c.const(scales.astype(np.float32), "scales")
    given = c.const(np.ascontiguousarray(stored), "w"), b, scale
    run(
        c,
        m,
        "conv",
        [m.x],
        given,
        macs=images.macs_of(m, fields),
        **fields | of_int8(found),
    )


def window_fits(m: Match) -> images.Checks:
    """Checks of a window of floats: it is dense, and pads do not count."""
    dilations = images.pool_fields(m)["dilation"]
    dense = max(dilations) == 1, f"dilations {list(dilations)} (need to be 1)"
    return [*images.window_fits(m), dense]


def to_pool(c: Recorder, m: Match) -> None:
    """Record pooling in windows."""
    fields = images.pool_fields(m)
    del fields["dilation"]
    kind = MAXIMUM if "Max" in m.pool.op_type else AVERAGE
    fields |= {"kind": kind, "result": images.extents(m.y), **images.bounds_of(m)}
    run(c, m, "pool", [m.x], **fields)


def to_mean(c: Recorder, m: Match) -> None:
    """Record a mean over all positions."""
    fields = {**images.stored(m), "kind": MEAN, "result": (1, 1)}
    run(c, m, "pool", [m.x], macs=math.prod(m.x.shape), **fields, **images.bounds_of(m))


def qpair_fits(m: Match) -> images.Checks:
    """Checks of a sum, a difference or a product of int8."""
    return images.integers(m, QuantisedPair, QuantisedPair.checks(m, (S8,)), lambda p: ())


def to_unary(c: Recorder, m: Match) -> None:
    """Record a function of every element, pad lanes included, or a Softmax of rows."""
    op_type, shape = m.root.op_type, m.x.layout.physical(m.x.shape)
    channels = shape[-1] if op_type == "Softmax" else math.prod(shape)
    factor = float(np.float32(m.root.attr("alpha", FACTORS.get(op_type, 1.0))))
    alpha, beta = (factor, 1.0) if op_type in UNARY[:-1] else images.bounds_of(m).values()
    kind = UNARY.index("Clip" if op_type == "Relu" else op_type)
    fields = {"rows": math.prod(shape) // channels, "channels": channels, "kind": kind}
    run(c, m, "unary", [m.x], (), [m.x], math.prod(shape), **fields, alpha=alpha, beta=beta)


def to_pair(c: Recorder, m: Match) -> None:
    """Record an operation of two tensors."""
    (a, left), (b, right) = (images.operand(c, m, v) for v in (m.a, m.b))
    whole = m.y.layout.physical(m.y.shape) or (1,)
    both = (m.a, left), (m.b, right)
    places = [v for v, s in both if s == whole and not v.is_const and m.a.ir is not m.b.ir]
    shapes = {"rank": len(whole), "a": left, "b": right, "y": whole}
    codes = of_int8(QuantisedPair.of(m)) if m.y.dtype is S8 else images.bounds_of(m)
    fields = {"kind": PAIRS.index(m.op.op_type), **shapes, **codes}
    run(c, m, "pair", [a, b], (), places, math.prod(whole), **fields)


_x, _images, _pool = wildcard("x"), images.last("x", "y"), {"_outputs": ["pool"]}
_conv = OP.Conv(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)
_own = {"group": 5, "strides": [2, 1], "pads": [0, 1, 2, 0]}
_kernels = [r for r in images.KERNELS if "group" not in r[2]]
_kernels += [((2, 5, 1, 7), (4, 5, 1, 1), {}), ((1, 5, 1, 1), (4, 5, 1, 1), {})]
_kernels += [((1, 5, 7, 9), (10, 1, 3, 2), _own), ((2, 8, 9, 9), (8, 1, 3, 3), {"group": 8})]
for _name, _graph, _checks, _lower, _layouts, _cases in (
    (
        "conv",
        activated(_conv),
        (*FLOATS, images.conv_fits, groups_fit),
        to_conv,
        _images,
        lambda: [images.convolution(*row) for row in _kernels],
    ),
    (
        "qconv",
        quantised(activated(QuantisedProduct.conv_pattern("Conv"))),
        (images.conv_fits, groups_fit, product_fits),
        to_product,
        _images,
        lambda: [
            *QuantisedProduct.conv_cases(),
            *(
                QuantisedProduct.example(quantised_values(*shape), quantised_values(6, 5, 1, 1), 0)
                for shape in ((1, 5, 1, 1), (2, 5, 1, 7), (1, 5, 7, 1))
            ),
        ],
    ),
    (
        "dense",
        activated(images.PRODUCT),
        (*FLOATS, images.dense_fits),
        to_dense,
        images.last(),
        lambda: [case(f32(4, 19), f32(19, 7, seed=1), f32(7, seed=2), const=(1, 2))],
    ),
    (
        "qdense",
        quantised(activated(QuantisedProduct.dense_pattern())),
        (product_fits,),
        to_product,
        images.last(),
        QuantisedProduct.dense_cases,
    ),
    (
        "pool",
        activated(OP.any_of("MaxPool", "AveragePool")(_x, **_pool)),
        (*FLOATS, window_fits),
        to_pool,
        _images,
        lambda: [case(f32(*shape), **images.of_node("pool", a)) for shape, a in images.WINDOWS],
    ),
    (
        "mean",
        activated(
            either(
                OP.GlobalAveragePool(_x, **_pool),
                OP.ReduceMean(_x, wildcard("axes"), **_pool, _optional=1),
            )
        ),
        (*FLOATS, images.mean_fits),
        to_mean,
        _images,
        lambda: [case(f32(*shape)) for shape in ((2, 21, 5, 6), (1, 3, 7))],
    ),
    (
        "qpair",
        quantised(activated(QuantisedPair.pattern(*PAIRS[:3]))),
        (images.pair_fits, qpair_fits),
        to_pair,
        images.pair_layouts,
        QuantisedPair.cases,
    ),
    (
        "softmax",
        OP.Softmax(_x),
        (*FLOATS, images.rows_fit),
        to_unary,
        images.rows_layouts,
        lambda: [case(f32(3, 21), axis=-1), case(f32(2, 5, 3, 7), axis=1)],
    ),
    (
        "unary",
        either(
            OP.any_of("Relu", *UNARY[:-2])(_x),
            OP.Clip(_x, wildcard("low"), wildcard("high"), _optional=2),
        ),
        FLOATS,
        to_unary,
        lambda m, incoming, vlen: {"x": incoming["x"], "y": Layout(incoming["x"].block)},
        lambda: [case(f32(*shape)) for shape in ((2, 5, 3, 7), (21,))],
    ),
    (
        "pair",
        activated(OP.any_of(*PAIRS)(wildcard("a"), wildcard("b"), _outputs=["op"])),
        (*FLOATS, images.pair_fits),
        to_pair,
        images.pair_layouts,
        lambda: [
            case(f32(2, 5, 3, 7), f32(2, 5, 3, 7, seed=1, low=0.5)),
            case(f32(2, 5, 3, 7), f32(5, 1, 1, seed=1, low=0.5)),
            case(f32(3, 11), f32(11, seed=1, low=0.5), const=(1,)),
        ],
    ),
):
    backend.declare(_name, _graph, *_checks, lower=_lower, layouts=_layouts, cases=_cases)
