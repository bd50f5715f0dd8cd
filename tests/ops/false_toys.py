# SPDX-License-Identifier: Apache-2.0
"""Operators of which every record but the first is false."""

import numpy as np

from aot.ir.graph_nodes import attribute
from aot.ir.operators import (
    Along,
    AtLeast,
    AxesOf,
    AxisOf,
    Commutative,
    DataSized,
    Elementwise,
    Exact,
    Linear,
    Moves,
    OneOf,
    Random,
    Reduces,
    Rowwise,
    SizedBy,
    View,
    Window,
)
from aot.ir.value_traits import (
    Averages,
    Clamp,
    Compares,
    Converts,
    Curve,
    Dequantises,
    Indexes,
    Quantises,
    Recurrent,
    Scales,
)
from aot.ops.registry import op
from aot.shapes.evaluate import evaluates
from aot.vendor.cases import case, f32, i64

DRAWN = np.random.default_rng(3)


def toy(name, operands, value, *cases, traits=(), results="y", **attributes):
    op(name, operands, results, "toy", traits=traits, **attributes).cases(lambda: cases)

    @evaluates(name, domain="toy")
    def values(node, inputs):
        found = value(node, *inputs)
        return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


def softmax(x, axis):
    parts = np.exp(x - x.max(axis, keepdims=True))
    return parts / parts.sum(axis, keepdims=True)


def take(x, indices):
    return x[np.abs(indices)]


def padded(node, x):
    pads = attribute(node, "pads", [0] * 4)
    return np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=1)


def steps(node, x, w=0, r=0, h=0):
    y = x + (0 if h is None else h)
    return y, y[-1]


X, TWO = f32(3, 4), (f32(3, 4), f32(3, 4, seed=1))
HALF, FIVE = np.float32(0.5), np.int8(5)
NUMBERS = np.arange(-6, 6, dtype=np.int8)
AXIS = AxisOf("x", -1)
toy("True", "a b", lambda n, a, b: a * b, case(*TWO), traits=[Elementwise(), Commutative()])
toy("Elementwise", "x", lambda n, x: x[::-1], case(X), traits=[Elementwise()])
toy("Commutative", "a b", lambda n, a, b: a - b, case(*TWO), traits=[Commutative()])
toy("Moves", "x", lambda n, x: 2 * x, case(X), traits=[Moves()])
toy("Sorts", "x", lambda n, x: np.sort(x), case(X), traits=[Moves(by="place")])
toy("View", "x", lambda n, x: x.T, case(X), traits=[View()])
toy("Part", "x", lambda n, x: x[:, :2], case(X), traits=[View(part=True)])
toy("Exact", "x", lambda n, x: x, case(X), traits=[Exact()])
toy("Random", "x", lambda n, x: x + 1, case(X), traits=[Random()])
toy("Draws", "x", lambda n, x: x + DRAWN.random(), case(X))
toy("DataSized", "x", lambda n, x: x + 1, case(X), traits=[DataSized()])
toy("AxesOf", "x axes", lambda n, x, a: x + a[0], case(X, i64(1)), traits=[AxesOf("axes", "x")])
toy("AxisOf", "x", lambda n, x: x + attribute(n, "axis", 1), case(X), axis=AXIS)
toy(
    "OneOf",
    "x",
    lambda n, x: x * len(attribute(n, "mode", "long")),
    case(X),
    mode=OneOf("a b", "a"),
)
toy("AtLeast", "x", lambda n, x: x * attribute(n, "by", 2), case(X), by=AtLeast(1, 1))
toy(
    "Along",
    "x",
    lambda n, x: softmax(x, attribute(n, "axis", -1)),
    case(X),
    axis=AXIS,
    traits=[Along("axis", 0)],
)
toy(
    "Reduces",
    "x axes",
    lambda n, x, a: x.max(tuple(a), keepdims=True),
    case(-(X**2), i64(1)),
    traits=[Reduces(0, "axes")],
)
toy(
    "Window", "x", padded, case(f32(1, 2, 3, 3), pads=[1, 1, 0, 0]), traits=[Window("x", padding=0)]
)
toy(
    "Linear",
    "x w",
    lambda n, x, w: abs(x) @ w,
    case(X, f32(4, 5)),
    traits=[Linear("x", "w", out_axis=1)],
)
toy("Rowwise", "x", lambda n, x: x - x.mean(0), case(X), traits=[Rowwise()])
toy(
    "SizedBy",
    "x n m",
    lambda n, x, a, b: np.resize(x, abs(int(b[0])) + 7),
    case(X, i64(2), i64(30)),
    traits=[SizedBy("n")],
)
toy("Curve", "x", lambda n, x: np.floor(x), case(X), traits=[Elementwise(), Curve()])
toy("Clamp", "x", lambda n, x: x.clip(0, 1), case(X), traits=[Elementwise(), Clamp(0.0, 6.0)])
toy("Compares", "x", lambda n, x: abs(x).argmax(0), case(X), traits=[Compares()])
toy("Converts", "x", lambda n, x: x.astype(int) + 1, case(X), traits=[Converts()])
toy(
    "Averages",
    "x axes",
    lambda n, x, a: x.sum(tuple(a)),
    case(X, i64(1)),
    traits=[Averages("axes")],
)
toy(
    "Recurrent", "x w r h?", steps, case(X, X, X), results="y last", traits=[Recurrent("h", "tanh")]
)
toy(
    "Indexes",
    "x at",
    lambda n, x, at: take(x, at),
    case(f32(5), i64(1, 2)),
    axis=AxisOf("x", 0),
    traits=[Indexes("at", "x")],
)
toy(
    "Quantises",
    "x s z",
    lambda n, x, s, z: (np.floor(x / s) + z).astype(np.int8),
    case(X, HALF, FIVE),
    traits=[Quantises("s", "z")],
)
toy(
    "Dequantises",
    "x s z",
    lambda n, x, s, z: x * s,
    case(NUMBERS, HALF, FIVE),
    traits=[Dequantises("s", "z")],
)
toy("Scales", "x s", lambda n, x, s: x * s * s, case(X, f32(4)), traits=[Scales("s")])
