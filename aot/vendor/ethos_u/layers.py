# SPDX-License-Identifier: Apache-2.0
"""Pooling, sums and products, Softmax, activations: what is matched, what is asked, what becomes
of it in a network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    TFLITE,
    Case,
    Layout,
    Match,
    Pat,
    Quantisation,
    QuantisedPair,
    QuantisedPool,
    QuantisedSoftmax,
    QuantisedTable,
    ValueRef,
    WindowShape,
    activated,
    case,
    dequantised,
    either,
    quantised,
    quantised_values,
    wildcard,
)
from aot.vendor.ethos_u.configs import Npu
from aot.vendor.ethos_u.layer import (
    Layer,
    activation,
    activation_fits,
    finish_rows,
    rows_of,
    window_geometry,
)
from aot.vendor.ethos_u.rules import kept
from aot.vendor.ethos_u.tflite import SAME, VALID, ints
from aot.vendor.ethos_u.values import (
    Builder,
    Checks,
    order,
    shape_of,
    with_positions,
)

# -- pooling ------------------------------------------------------------------------------------


def average_fits(m: Match, npu: Npu) -> Checks:
    """Checks of an average whose result has the scale and zero point of x, of rank 3 or 4."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    if (yield from QuantisedPool.checks(m)) and m.x.rank in (3, 4):
        found = QuantisedPool.of(m)
        whole = average_window(found).kernel == _space(m) and max(found.result) == 1
        whole = whole and tuple(found.limits) == found.y.range  # MEAN has no activation
        yield whole or _same(found), "scale or zero point of the average differ from those of x"
        yield from activation_fits(found.limits, found.y)
        reaches = any(found.window.before + found.window.after)
        yield not (reaches and found.counts_padding), "padding that counts"
        yield from _pool_fits("average", average_window(found), m, npu)


def _same(found: QuantisedPool) -> bool:
    """Whether x and y of an average have the same scale and zero point."""
    return (found.x.s, found.x.z) == (found.y.s, found.y.z)


def _space(m: Match) -> tuple[int, ...]:
    """Height and width of x."""
    height, width = ((1,) * (4 - m.x.rank) + tuple(m.x.shape[2:]))[-2:]
    return height, width


def average_window(found: QuantisedPool) -> WindowShape:
    """The window of an average on height and width."""
    return WindowShape(*(axis[-2:] for axis in found.window.axes()))


def _pool_fits(kind: str, window: WindowShape, m: Match, npu: Npu) -> Checks:
    """Check that a pool has pads that TensorFlow Lite can name, no dilations, and keeps Vela's
    rules.

    `kind` names the rules: "average" or "maximum".
    """
    g = window_geometry(window, m)
    named = g.padding in (SAME, VALID)
    pads = list(window.before + window.after)
    yield named, f"pads {pads} (needs none, or those that TensorFlow Lite calls SAME)"
    yield max(window.dilations) == 1, f"dilations {list(window.dilations)} (needs 1)"
    if named:
        yield from kept(kind, g, npu)


def _pool(b: Builder, kind: str, window: WindowShape, m: Match, act: int) -> None:
    """Add the operator `kind` that pools x into y; `act` is the number of the fused activation."""
    b.net.op(
        kind,
        [b.read(m.x)],
        b.enter(m.y),
        padding=window_geometry(window, m).padding,
        stride_h=window.strides[0],
        stride_w=window.strides[1],
        kernel_h=window.kernel[0],
        kernel_w=window.kernel[1],
        activation=act,
    )


def emit_average(b: Builder, m: Match) -> None:
    """AVERAGE_POOL_2D, or MEAN where the result has a scale of its own."""
    found = QuantisedPool.of(m)
    act = activation(found.limits, found.y) or 0
    if not _same(found):
        b.net.op("MEAN", [b.read(m.x), b.net.const(ints([1, 2]))], b.enter(m.y), keep=True)
        return
    _pool(b, "AVERAGE_POOL_2D", average_window(found), m, act)


def maximum_window(m: Match) -> WindowShape:
    """The window of a MaxPool on height and width."""
    return WindowShape.of(m.root, [int(k) for k in m.root.attr("kernel_shape")]).widened(2)


def maximum_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a MaxPool of rank 3 or 4 with explicit pads, whose indices nobody reads."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    yield m.root.first_alone
    pad = m.root.attr("auto_pad", "NOTSET")
    yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"
    if m.x.rank in (3, 4):
        yield from _pool_fits("maximum", maximum_window(m), m, npu)


# -- two operands -------------------------------------------------------------------------------


def pair_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a sum, difference or product: computed operands have the result's rank."""
    ready = yield from QuantisedPair.checks(m)
    for v in (m.a, m.b):
        same = v.is_const or v.rank == m.y.rank
        yield same, f"an operand of rank {v.rank} beside {m.y.rank}"
    if ready:
        found = QuantisedPair.of(m)
        yield from activation_fits(found.limits, found.y)


def pair_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last as soon as one operand has them last."""
    names = [n for n in ("a", "b") if not getattr(m, n).is_const]
    if m.y.rank < 3 or not any(incoming[n].blocked for n in names):
        return {}
    return with_positions(*names, "y")(m, incoming, vlen)


def emit_pair(b: Builder, m: Match) -> None:
    """ADD, SUB or MUL."""
    found = QuantisedPair.of(m)
    operands = [_operand(b, v, q, m.y) for v, q in ((m.a, found.a), (m.b, found.b))]
    act = activation(found.limits, found.y) or 0
    b.net.op(found.op_type.upper(), operands, b.enter(m.y), activation=act)


def _operand(b: Builder, value: ValueRef, of: Quantisation, y: ValueRef) -> int:
    """The number of the tensor of an operand of a pair, quantised by `of`.

    A constant gets leading axes of extent 1 to the rank of y, and the axis order of y's layout.
    """
    if not value.is_const:
        return b.read(value)
    data = np.asarray(value.data).reshape((1,) * (y.rank - value.rank) + value.shape)
    stored = np.transpose(data, order(y.rank, y.layout))
    shape = stored.shape if len(shape_of(y)) == y.rank else (stored.shape[0], 1, *stored.shape[1:])
    return b.net.const(stored.reshape(shape), of.s, of.z)


# -- Softmax, activations alone -----------------------------------------------------------------


def softmax_fits(m: Match, npu: Npu) -> Checks:
    """Checks of a Softmax along the last axis, quantised as TensorFlow Lite does."""
    if (yield from QuantisedSoftmax.checks(m)):
        found = QuantisedSoftmax.of(m, TFLITE)
        yield found.tflite, f"scale {found.y.s:g}, zero point {found.y.z} (needs 1/256 and -128)"
        along = math.prod(m.x.shape[found.axis + 1 :]) == 1
        yield along, f"axis {found.axis} of {list(m.x.shape)} (needs the last one)"


def emit_softmax(b: Builder, m: Match) -> None:
    """SOFTMAX of rows."""
    size = m.x.shape[QuantisedSoftmax.of(m, TFLITE).axis]
    x = b.net.reshape(b.read(m.x), (math.prod(m.x.shape) // size, size))
    y = rows_of(b, m.y, size)
    b.net.op("SOFTMAX", [x], y, beta=1.0)
    finish_rows(b, m.y, y)


#: Operators of one operand: what they are in a network, the scale and zero point of their result.
UNARY: dict[str, tuple[str, tuple[float, int] | None]] = {
    "Relu": ("RELU", None),
    "Sigmoid": ("LOGISTIC", (1 / 256, -128)),
    "Tanh": ("TANH", (1 / 128, 0)),
    "HardSwish": ("HARD_SWISH", None),
    "LeakyRelu": ("LEAKY_RELU", None),
}
CLIPS: dict[tuple[float | None, float | None], str] = {
    (0.0, 6.0): "RELU6",
    (-1.0, 1.0): "RELU_N1_TO_1",
}


def unary_graph() -> Pat:
    """One operator of one operand between quantised values, or none: a requantisation."""
    return quantised(
        either(
            OP.any_of(*UNARY)(dequantised("x"), _outputs=["op"]),
            OP.Clip(
                dequantised("x"), wildcard("low"), wildcard("high"), _optional=2, _outputs=["op"]
            ),
            dequantised("x"),
        )
    )


def _unary(m: Match) -> tuple[str, tuple[float, int] | None]:
    """The operator in a network and what its result must be; "" where there is none."""
    if m.op is None:
        return "QUANTIZE", None
    if m.op.op_type != "Clip":
        return UNARY[m.op.op_type]
    low, high = (None if v is None or v.data is None else v.data.item() for v in (m.low, m.high))
    return CLIPS.get((low, high), ""), None


def unary_fits(m: Match, npu: Npu) -> Checks:
    """Check an operator of one operand: known to a network, with the scale and zero point it asks
    for.

    For example, a Clip must be Relu6 or from -1 to 1.
    """
    ready = yield from QuantisedTable.checks(m)
    kind, asked = _unary(m)
    yield bool(kind), "a Clip that is neither Relu6 nor from -1 to 1"
    if ready and asked is not None:
        y = QuantisedTable.of(m).y
        scale, zero = asked
        fits = (float(y.s), y.z) == asked
        yield fits, f"scale {y.s:g}, zero point {y.z} (needs 1/{1 / scale:g} and {zero})"


def emit_unary(b: Builder, m: Match) -> None:
    """The operator of a network."""
    kind, _ = _unary(m)
    alpha = {"alpha": m.op.attr("alpha", 0.01)} if kind == "LEAKY_RELU" else {}
    b.net.op(kind, [b.read(m.x)], b.enter(m.y), **alpha)


def follow(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Results are stored as x is, where that is channels last."""
    last = incoming["x"].blocked and m.x.rank > 2
    return with_positions("x", "y")(m, incoming, vlen) if last else {}


def average_cases() -> Iterator[Case]:
    """Windows with and without padding, over everything; the results have the scale of x."""
    step, zero = np.array(0.0311, np.float32), np.array(-7, np.int8)
    for shape, attrs in (
        ((1, 5, 24, 24), {"pool.kernel_shape": [3, 3], "pool.pads": [1, 1, 1, 1]}),
        ((1, 5, 8, 8), {"pool.kernel_shape": [3, 3], "pool.strides": [2, 2]}),
        ((1, 17, 7), {"pool.kernel_shape": [5], "pool.strides": [1]}),
    ):
        named: dict[str, Any] = attrs
        given = (quantised_values(*shape), step, zero, step, zero)
        yield case(*given, const=(1, 2, 3, 4), **named)
    square: dict[str, Any] = {"pool.kernel_shape": [5, 5]}
    other = np.array(0.0287, np.float32), np.array(-128, np.int8)
    yield case(quantised_values(1, 9, 5, 5), step, zero, *other, const=(1, 2, 3, 4), **square)


def maximum_cases() -> Iterator[Case]:
    """Windows with and without padding."""
    for size, named in (
        (8, {"kernel_shape": [2, 2], "strides": [2, 2]}),
        (7, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ):
        attrs: dict[str, Any] = named
        yield case(quantised_values(1, 17, size, size), **attrs)


LAYERS = (
    Layer(
        "qaverage",
        quantised(activated(QuantisedPool.average_pattern())),
        "x y",
        average_fits,
        emit_average,
        with_positions("x", "y"),
        average_cases,
    ),
    Layer(
        "qmaxpool",
        OP.MaxPool(wildcard("x")),
        "x y",
        maximum_fits,
        lambda b, m: _pool(b, "MAX_POOL_2D", maximum_window(m), m, 0),
        with_positions("x", "y"),
        maximum_cases,
    ),
    Layer(
        "qpair",
        quantised(activated(QuantisedPair.pattern("Add", "Sub", "Mul"))),
        "a b y",
        pair_fits,
        emit_pair,
        pair_layouts,
        QuantisedPair.cases,
    ),
    Layer(
        "qsoftmax",
        quantised(QuantisedSoftmax.pattern()),
        "x y",
        softmax_fits,
        emit_softmax,
        cases=QuantisedSoftmax.cases,
    ),
    Layer(
        "qunary",
        unary_graph(),
        "x y",
        unary_fits,
        emit_unary,
        follow,
        QuantisedTable.cases,
    ),
)
