# SPDX-License-Identifier: Apache-2.0
"""Sequences of nodes that the compiler recognises, and near misses of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.draft import Draft, Reject
from fuzz.families import family
from fuzz.layers import small


def scalar(d: Draft, value: float) -> str:
    """A constant of the float type."""
    return d.const(np.array(value).astype(d.dtype))


@family(1)
def squeeze_excite(d: Draft) -> None:
    x = d.floats((4,))
    c = d.shape(x)[1]
    m = max(1, c // 2)
    y = d.add("GlobalAveragePool", [x])[0]
    y = d.add("Conv", [y, d.const(small(d, [m, c, 1, 1])), d.operand([m])])[0]
    y = d.add("Relu", [y])[0]
    y = d.add("Conv", [y, d.const(small(d, [c, m, 1, 1]))])[0]
    y = d.add(d.word("Sigmoid HardSigmoid"), [y])[0]
    d.add("Mul", [x, y] if d.chance(0.5) else [y, x])


@family(1)
def gated(d: Draft) -> None:
    """Swish, hard swish, Mish or something near."""
    x = d.floats()
    y = d.add(d.word("Sigmoid HardSigmoid Tanh Softplus"), [x])[0]
    if d.chance(0.2):
        y = d.add("Tanh", [y])[0]
    d.add("Mul", [x, y] if d.chance(0.5) else [y, x])


@family(0.8)
def gelu_spelled(d: Draft) -> None:
    x = d.floats()
    root = scalar(d, float(np.sqrt(2.0)) if d.chance(0.8) else 1.5)
    y = d.add("Div", [x, root])[0]
    y = d.add("Erf", [y])[0]
    y = d.add("Add", [y, scalar(d, 1.0)])[0]
    if d.chance(0.5):
        y = d.add("Mul", [x, y])[0]
        d.add("Mul", [y, scalar(d, 0.5)])
    else:
        half = d.add("Mul", [x, scalar(d, 0.5)])[0]
        d.add("Mul", [half, y])


@family(0.8)
def norm_spelled(d: Draft) -> None:
    x = d.floats((2, 3, 4))
    axes = d.ints(-1) if d.chance(0.7) else d.ints(-2, -1)
    mean = d.add("ReduceMean", [x, axes])[0]
    centred = d.add("Sub", [x, mean])[0]
    if d.chance(0.5):
        square = d.add("Mul", [centred, centred])[0]
    else:
        square = d.add("Pow", [centred, scalar(d, 2.0)])[0]
    variance = d.add("ReduceMean", [square, axes])[0]
    root = d.add("Sqrt", [d.add("Add", [variance, scalar(d, 1e-2)])[0]])[0]
    y = d.add("Div", [centred, root])[0]
    if d.chance(0.7):
        y = d.add("Mul", [y, d.operand(d.shape(x)[-1:])])[0]
        d.add("Add", [y, d.operand(d.shape(x)[-1:])])


@family(0.6)
def softmax_spelled(d: Draft) -> None:
    x = d.floats((2, 3))
    axes = d.ints(-1)
    top = d.add("ReduceMax", [x, axes])[0]
    e = d.add("Exp", [d.add("Sub", [x, top])[0]])[0]
    d.add("Div", [e, d.add("ReduceSum", [e, axes])[0]])


@family(0.8)
def attention_spelled(d: Draft) -> None:
    x = d.floats((3,))
    b, s, e = d.shape(x)
    heads = d.one(*[h for h in (1, 2, 4) if e % h == 0])
    if s > 12:
        raise Reject

    def projected(perm: list[int]) -> str:
        y = d.add("MatMul", [x, d.const(small(d, [e, e]))])[0]
        if d.chance(0.6):
            y = d.add("Add", [y, d.operand([e])])[0]
        y = d.add("Reshape", [y, d.ints(b, s, heads, e // heads)])[0]
        return d.add("Transpose", [y], perm=perm)[0]

    scores = d.add("MatMul", [projected([0, 2, 1, 3]), projected([0, 2, 3, 1])])[0]
    scores = d.add(d.one("Mul", "Div"), [scores, scalar(d, 0.5)])[0]
    if d.chance(0.4):
        scores = d.add("Add", [scores, d.operand([1, 1, s, s])])[0]
    weights = d.add("Softmax", [scores], axis=-1)[0]
    y = d.add("MatMul", [weights, projected([0, 2, 1, 3])])[0]
    y = d.add("Transpose", [y], perm=[0, 2, 1, 3])[0]
    d.add("Reshape", [y, d.ints(b, s, e)])


@family(0.8)
def inverse_pair(d: Draft) -> None:
    """Nodes that undo each other, or nearly."""
    x = d.pick(lambda a: a.ndim >= 2 and a.size > 0)
    rank = d.values[x].ndim
    perm = d.rng.permutation(rank).tolist()
    y = d.add("Transpose", [x], perm=perm)[0]
    if d.chance(0.5) and d.values[y].dtype == d.dtype:
        y = d.add(d.word("Relu Neg Sigmoid"), [y])[0]
    back = np.argsort(perm).tolist() if d.chance(0.7) else perm
    d.add("Transpose", [y], perm=back)


@family(0.8)
def affine_chain(d: Draft) -> None:
    """Multiplications and additions by constants per channel behind a layer: foldable."""
    x = d.floats((3, 4))
    c = d.shape(x)[1]
    y = d.add("Conv", [x, d.const(small(d, [d.one(c, 4), c] + [1] * (d.values[x].ndim - 2)))])[0]
    shape = [d.shape(y)[1]] + [1] * (d.values[x].ndim - 2)
    for _ in range(d.upto(1, 3)):
        pair = [y, d.const(safe(d, shape))]
        op = d.word("Mul Add Sub Div")
        y = d.add(op, pair if op == "Div" or d.chance(0.7) else pair[::-1])[0]
    if d.chance(0.4):
        d.add("Relu", [y])


def safe(d: Draft, shape: list[int]) -> np.ndarray:
    """Elements away from zero."""
    drawn = d.array(shape, np.float32)
    return (np.sign(drawn) * (np.abs(drawn) + 0.5)).astype(d.dtype)


@family(0.8)
def pad_conv(d: Draft) -> None:
    x = d.floats((4,))
    c = d.shape(x)[1]
    pads = [0, 0, d.upto(0, 2), d.upto(0, 2), 0, 0, d.upto(0, 2), d.upto(0, 2)]
    y = d.add("Pad", [x, d.ints(*pads)], mode=d.one("constant", "constant", "edge"))[0]
    op = d.word("Conv AveragePool MaxPool")
    if op == "Conv":
        w = d.const(small(d, [4, c, 1, 1] if d.chance(0.3) else [4, c, 2, 2]))
        d.add("Conv", [y, w], pads=[0, 0, d.upto(0, 1), 0])
    else:
        d.add(op, [y], kernel_shape=[2, 2])


@family(0.8)
def twice(d: Draft) -> None:
    """The same node twice, and their difference or sum."""
    x = d.floats()
    op = d.word("Sigmoid Exp Relu Tanh Neg")
    d.add(d.word("Add Mul Max"), [d.add(op, [x])[0], d.add(op, [x])[0]])


#: Operators, and attributes of which each makes another result.
ALIKE: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (
    ("LeakyRelu", ({"alpha": 0.1}, {"alpha": 0.4})),
    ("Elu", ({"alpha": 1.0}, {"alpha": 0.3})),
    ("Softmax", ({"axis": -1}, {"axis": 0})),
    ("LogSoftmax", ({"axis": -1}, {"axis": 0})),
    ("ReduceMax", ({"keepdims": 1}, {"keepdims": 0})),
    ("Cast", ({"to": 1}, {"to": 11})),
)


@family(0.6)
def alike(d: Draft) -> None:
    """An operator twice on one value, with other attributes."""
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim > 0 and a.size > 0)
    op, choices = d.one(*ALIKE)
    for k in d.rng.permutation(len(choices)):
        d.add(op, [x], **choices[k])


@family(0.6)
def split_concat(d: Draft) -> None:
    x = d.floats((3, 4))
    c = d.shape(x)[1]
    if c < 2:
        raise Reject
    a, b = d.add("Split", [x, d.ints(c // 2, c - c // 2)], 2, axis=1)
    if d.chance(0.7):
        a = d.add(d.word("Relu Sigmoid Neg"), [a])[0]
    y = d.add("Concat", [a, b] if d.chance(0.5) else [b, a], axis=1)[0]
    if d.chance(0.4):  # channel shuffle
        shape = d.shape(y)
        if shape[1] % 2 == 0:
            y = d.add("Reshape", [y, d.ints(shape[0], 2, shape[1] // 2, *shape[2:])])[0]
            y = d.add("Transpose", [y], perm=[0, 2, 1, *range(3, len(shape) + 1)])[0]
            d.add("Reshape", [y, d.ints(*shape)])


@family(0.5)
def constant_math(d: Draft) -> None:
    """What folds away, a part of it an operand of something that does not."""
    x = d.floats()
    n = d.shape(x)[-1] if d.values[x].ndim else 1
    c = d.add(d.word("Add Mul Sub"), [d.const(d.array([n])), d.const(d.array([n]))])[0]
    c = d.add(d.word("Relu Neg Exp"), [c])[0]
    d.add("Add", [x, c])


@family(1)
def turned(d: Draft) -> None:
    """A Transpose that can sink through what reads it alone."""
    x = d.pick(lambda a: a.ndim >= 3 and a.size > 0 and a.dtype == d.dtype)
    rank = d.values[x].ndim
    perm = d.rng.permutation(rank).tolist()
    y = d.add("Transpose", [x], perm=perm)[0]
    if d.chance(0.3):
        y = d.add(d.word("Relu Neg Sigmoid"), [y])[0]
    op = d.word("ReduceSum ReduceMax ReduceMean Softmax Slice Pad Concat")
    axis = d.upto(0, rank - 1)
    if op.startswith("Reduce"):
        d.add(op, [y, d.ints(axis)], keepdims=int(d.chance(0.3)))
    elif op == "Softmax":
        d.add(op, [y], axis=axis)
    elif op == "Slice":
        d.add(op, [y, d.ints(0), d.ints(max(1, d.shape(y)[axis] - 1)), d.ints(axis)])
    elif op == "Pad":
        d.add(op, [y, d.ints(*[d.upto(0, 2) for _ in range(2 * rank)])])
    else:
        d.add(op, [y, d.add("Transpose", [d.like(x)], perm=perm)[0]], axis=axis)
