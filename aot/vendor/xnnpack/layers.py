# SPDX-License-Identifier: Apache-2.0
"""Pooling, Softmax, bilinear Resize, functions of one element, operations of two tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    S8,
    Layout,
    Match,
    Operand,
    QuantisedPair,
    QuantisedPool,
    Recorder,
    Resize,
    activated,
    either,
    images,
    quantised,
    wildcard,
)
from aot.vendor.xnnpack.base import FLOATS, backend, run
from aot.vendor.xnnpack.cases import CASES

#: Operators of one operand by their numbers in aot_xnnpack.c; Mul is one of a value by itself.
UNARY = (
    "Abs Round Ceil Floor HardSwish Neg Sigmoid Mul Sqrt Softmax Clip LeakyRelu Elu PRelu".split()
)
FACTORS, CLAMPS = {"LeakyRelu": 0.01, "Elu": 1.0}, {"Relu": "Clip"}
#: Operators of two operands by their numbers; those of int8 values have numbers OF_INT8 higher.
PAIRS, OF_INT8 = ("Add", "Sub", "Mul", "Div", "Max", "Min"), 6
#: Kinds of pooling: in windows, that of int8 next to the maximum; over all positions.
AVERAGE, MAXIMUM, MEAN, MEAN_INT8 = 0, 1, 3, 4
#: Powers of two between which the library takes quotients of scales: means, sums, products.
MEANS, SUMS, PRODUCTS = (-8, 8), (-10, 8), (-16, 8)
#: How near positions of a Resize must be to the library's, which are float32; by its flags, where
#: results y lie on an axis of `source` elements that becomes one of `result`.
EXACT, PLACES = (
    1e-5,
    {
        0: lambda y, source, result: (y + 0.5) * source / result - 0.5,
        8: lambda y, source, result: y * (source - 1) / max(result - 1, 1),
        4: lambda y, source, result: y * source / result,
    },
)


def to_pool(c: Recorder, m: Match) -> None:
    """Record pooling in windows."""
    int8, ends = m.x.dtype is S8, {"low": -128.0, "high": 127.0}
    kind = MAXIMUM + int8 if "Max" in m.pool.op_type else AVERAGE
    run(
        c,
        m,
        "pool",
        [m.x],
        kind=kind,
        **images.pool_fields(m),
        **(ends if int8 else images.bounds_of(m)),
    )


def qmean_fits(m: Match) -> images.Checks:
    """Checks of a mean of int8 over all positions."""
    windowed = "an average in windows (the library has it of unsigned values only)"
    every = (
        images.image(m),
        (m.pool.op_type != "AveragePool", windowed),
        *QuantisedPool.checks(m, (S8,)),
    )
    return images.integers(m, QuantisedPool, every, lambda p: [within(MEANS, float(p.x.s / p.y.s))])


def within(powers: tuple[int, int], *quotients: float) -> tuple[bool, str]:
    """The condition of quotients of scales."""
    fits = all(2.0 ** powers[0] <= q < 2.0 ** powers[1] for q in quotients)
    return fits, "quotients of scales {} (need 2^{} to 2^{})".format(quotients, *powers)


def to_mean(c: Recorder, m: Match) -> None:
    """Record a mean over all positions, of floats or of quantised values."""
    found = QuantisedPool.of(m) if m.x.dtype is S8 else None
    how = images.bounds_of(m) if found is None else images.codes(found.limits, found.x, found.y)
    kind = MEAN if found is None else MEAN_INT8
    run(c, m, "pool", [m.x], macs=math.prod(m.x.shape), kind=kind, **images.stored(m), **how)


def elements(c: Recorder, m: Match, op_type: str, slope: Operand = None, **fields: Any) -> None:
    """Record the operator of one operand that is called `op_type`; the result may be in place."""
    run(
        c,
        m,
        "unary",
        [m.x],
        [slope],
        [m.x],
        macs=fields["rows"] * fields["channels"],
        kind=UNARY.index(op_type),
        **fields,
    )


def to_rows(c: Recorder, m: Match) -> None:
    """Record a Softmax or a PRelu."""
    channels, n, slope = m.x.shape[images.rows_axis(m)], math.prod(m.x.shape), m.values.get("slope")
    each = np.zeros(1) if slope is None else np.ravel(slope.data)  # type: ignore[arg-type]
    given = c.const(np.ascontiguousarray(np.broadcast_to(each, channels), np.float32), "slope")
    elements(c, m, m.root.op_type, given, rows=n // channels, channels=channels)


def to_unary(c: Recorder, m: Match) -> None:
    """Record a function of every element, pad lanes included."""
    op_type, n = m.root.op_type, math.prod(m.x.layout.physical(m.x.shape))
    factor = float(np.float32(m.root.attr("alpha", FACTORS.get(op_type, 0.0))))
    alpha, beta = (factor, 0.0) if op_type in FACTORS else images.bounds_of(m).values()
    elements(c, m, CLAMPS.get(op_type, op_type), rows=1, channels=n, alpha=alpha, beta=beta)


def factor_fits(m: Match) -> images.Checks:
    """The check of a factor: that of an Elu is above 0."""
    alpha, least = float(m.root.attr("alpha", 1.0)), 0.0 if m.root.op_type == "Elu" else -math.inf
    return [(least < alpha < math.inf, f"alpha {alpha:g} (needs a finite one, of Elu above 0)")]


def resize_flags(m: Match) -> int | None:
    """The library's flags with which positions are those of the Resize, None if there are none."""
    spec = Resize.of(m)
    return next((f for f in PLACES if all(_nearby(spec, p, f) for p in spec.plans())), None)


def _nearby(spec: Resize, plan: Any, flags: int) -> bool:
    """Whether all positions on an axis are the library's, but for what lies outside."""
    own = PLACES[flags](np.arange(plan.result), plan.source, plan.result)
    found, wanted = (np.clip(v, 0, plan.source - 1) for v in (own, spec.positions(plan)))
    return bool(np.abs(found - wanted).max(initial=0) < EXACT)


def resize_fits(m: Match) -> images.Checks:
    """Checks of a linear Resize of positions."""
    spec, how = Resize.of(m), m.root.attr("coordinate_transformation_mode", "half_pixel")
    plain = spec.mode == "linear" and how != "tf_crop_and_resize" and not spec.antialias
    known = plain and all(ok for ok, _ in spec.checks()) and all(p.axis > 1 for p in spec.plans())
    text = f"mode {spec.mode!r}, positions {how!r} (needs linear ones that the library has)"
    return [images.image(m), *spec.checks(), (known and resize_flags(m) is not None, text)]


def to_resize(c: Recorder, m: Match) -> None:
    """Record a bilinear Resize."""
    run(
        c,
        m,
        "resize",
        [m.x],
        **images.stored(m),
        result=images.extents(m.y),
        flags=resize_flags(m) or 0,
    )


def to_pair(c: Recorder, m: Match) -> None:
    """Record an operation of two tensors, of floats or of quantised values."""
    found = QuantisedPair.of(m) if "sy" in m.values else None
    how = images.codes(found.limits, found.a, found.b, found.y) if found else images.bounds_of(m)
    (a, left), (b, right) = (images.operand(c, m, v) for v in (m.a, m.b))
    whole, both = m.y.layout.physical(m.y.shape) or (1,), ((m.a, left), (m.b, right))
    places = [v for v, s in both if s == whole and not v.is_const and m.a.ir is not m.b.ir]
    how |= {"kind": PAIRS.index(m.op.op_type) + OF_INT8 * bool(found), "rank": len(whole)}
    run(c, m, "pair", [a, b], (), places, macs=math.prod(whole), a=left, b=right, **how)


def qpair_fits(m: Match) -> images.Checks:
    """Checks of a sum or product of int8; quotients of scales that the library takes."""
    checks = QuantisedPair.checks(m, (S8,))
    return images.integers(m, QuantisedPair, checks, lambda p: [_scales(p)])


def _scales(pair: QuantisedPair) -> tuple[bool, str]:
    a, b, y = (float(k.s) for k in (pair.a, pair.b, pair.y))
    return within(PRODUCTS, a * b / y) if pair.op_type == "Mul" else within(SUMS, a / y, b / y)


_x, _pair, _roi = wildcard("x"), tuple(map(wildcard, "ab")), ("roi", "scales", "sizes")
_positions, _pool, _op = images.last("x", "y"), {"_outputs": ["pool"]}, {"_outputs": ["op"]}
for _name, _graph, _checks, _lower, _layouts in (
    (
        "pool",
        activated(
            either(OP.any_of("MaxPool", "AveragePool")(_x, **_pool), OP.GlobalMaxPool(_x, **_pool))
        ),
        (*FLOATS, images.window_fits),
        to_pool,
        _positions,
    ),
    ("qmaxpool", OP.MaxPool(_x, **_pool), (images.window_fits,), to_pool, _positions),
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
        _positions,
    ),
    (
        "qmean",
        quantised(activated(QuantisedPool.average_pattern())),
        (qmean_fits,),
        to_mean,
        _positions,
    ),
    ("softmax", OP.Softmax(_x), (*FLOATS, images.rows_fit), to_rows, images.rows_layouts),
    (
        "prelu",
        OP.PRelu(_x, wildcard("slope")),
        (*FLOATS, images.rows_fit),
        to_rows,
        images.rows_layouts,
    ),
    (
        "resize",
        OP.Resize(_x, *map(wildcard, _roi), _optional=3),
        (*FLOATS, resize_fits),
        to_resize,
        _positions,
    ),
    (
        "unary",
        either(
            OP.any_of("Relu", *UNARY[:7], *UNARY[8:9], *FACTORS)(_x),
            OP.Clip(_x, wildcard("low"), wildcard("high"), _optional=2),
            OP.Mul(_x, _x),
        ),
        (*FLOATS, factor_fits),
        to_unary,
        lambda m, incoming, vlen: {"x": incoming["x"], "y": Layout(incoming["x"].block)},
    ),
    (
        "pair",
        activated(OP.any_of(*PAIRS[:4])(*_pair, **_op)),
        (*FLOATS, images.pair_fits),
        to_pair,
        images.pair_layouts,
    ),
    (
        "extremum",
        OP.any_of(*PAIRS[4:])(*_pair, **_op),
        (*FLOATS, images.pair_fits),
        to_pair,
        images.pair_layouts,
    ),
    (
        "qpair",
        quantised(activated(QuantisedPair.pattern(*PAIRS[:3]))),
        (images.pair_fits, qpair_fits),
        to_pair,
        images.pair_layouts,
    ),
):
    backend.declare(_name, _graph, *_checks, lower=_lower, layouts=_layouts, cases=CASES[_name])
