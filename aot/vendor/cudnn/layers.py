# SPDX-License-Identifier: Apache-2.0
"""Convolutions, products, attention, pooling, normalisation, elementwise operators and moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    Match,
    case,
    constant_bounds,
    either,
    f32,
    images,
    outside_of_quantised,
    wildcard,
)
from aot.vendor.cudnn.base import ALIGN, Four, Steps, declare, four

#: x · sigmoid(x · p(x²)) is Gelu up to 7e-7: coefficients of p from the highest down, fitted to
#: log(Φ / (1 - Φ)) / x for x up to 5.5. For Gelu by tanh and for Swish the form is exact.
GELU = (3.75483e-09, -2.7333e-07, 8.04383e-06, -0.000111276, -6.34384e-05, 0.0726643, 1.59577)
GELU_TANH = (2 * math.sqrt(2 / math.pi) * 0.044715, 2 * math.sqrt(2 / math.pi))
FLOATS = images.floats, outside_of_quantised
PAIRS = "Add Sub Mul Div Min Max".split()
ATTENTION = "scale softmax_precision qk_matmul_output_mode".split()
#: The library's operation, and the sign of its second operand, of those that it has not.
INVERSE = {"Div": ("Mul", 1.0), "Sub": ("Add", -1.0)}


def rounded(shape: Sequence[int]) -> int:
    """Bytes of a tensor, rounded up so that another may follow it."""
    return -(-4 * math.prod(shape) // ALIGN) * ALIGN


def within_four(m: Match) -> images.Checks:
    """Checks of ranks: the libraries' tensors have four axes."""
    values = ((n, v) for n, v in m.values.items() if v is not None)
    return [(v.rank <= 4, f"{n} of rank {v.rank} (needs 4 or less)") for n, v in values]


# -- Windows ------------------------------------------------------------------------------------


def window_of(m: Match) -> images.Fields:
    """Fields of the window of a convolution or of pooling, with as much padding on both sides."""
    found = images.conv_fields(m) if "w" in m.values else images.pool_fields(m)
    return found | {"pad": (found["pad"][0], found["pad"][3]), "window": found["kernel"]}


def even(m: Match) -> images.Checks:
    """The check that a window with as much padding behind as in front gives the result's size."""
    if m.x.rank not in (3, 4):  # which another check refuses
        return
    w, conv = window_of(m), "w" in m.values
    yield conv or max(w["dilation"]) == 1, f"dilations {list(w['dilation'])} (pooling needs 1)"
    axes = zip(images.extents(m.x), w["pad"], w["kernel"], w["dilation"], w["stride"], strict=True)
    sizes = tuple((n + 2 * pad - (k - 1) * d - 1) // s + 1 for n, pad, k, d, s in axes)
    own = (m.conv if conv else m.pool).shape[2:] or (1,)
    yield (
        sizes[-len(own) :] == tuple(own),
        f"{list(sizes)} windows of a result {list(own)} (needs as much padding on both sides)",
    )


def windowed(m: Match) -> images.Fields:
    """Fields of a window over images that are x, to images that are y."""
    known = ("pad", "stride", "dilation", "groups", "window")
    fields = {n: v for n, v in window_of(m).items() if n in known}
    return fields | {n: (*v.shape[:2], *images.extents(v)) for n, v in (("a", m.x), ("y", m.y))}


def residual_fits(m: Match) -> images.Checks:
    """The check that the residual of a convolution is computed, and has the result's shape."""
    fits = m.z is None or (not m.z.is_const and m.z.shape == m.conv.shape)
    return [(fits, f"an operand {m.z and list(m.z.shape)} beside a convolution {m.conv.shape}")]


def to_conv(steps: Steps, m: Match) -> None:
    """A convolution, with bias, with something added, with Relu. TF32 only where any is allowed."""
    relu, short = m.root.op_type == "Relu", steps.c.accuracy == "fast"
    weights = (*m.w.shape[:2], *(1,) * (4 - m.w.rank), *m.w.shape[2:])
    bias = np.zeros(m.w.shape[0]) if m.b is None else m.b.data
    fields = {**windowed(m), "b": weights, "flags": relu + 2 * short}
    steps.add("conv", m.y, m.x, m.w, bias, m.z, **fields)


def to_pool(steps: Steps, m: Match) -> None:
    """The largest elements or means of windows, or means over all positions."""
    steps.add("largest" if "Max" in m.pool.op_type else "mean", m.y, m.x, **windowed(m))


# -- Products -----------------------------------------------------------------------------------


def batches(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """(rows per matrix of a that count for one, products, matrices to the next a, to the next b).

    Nothing where one step from product to product does not do.
    """
    left, right = math.prod(a[:-2]), math.prod(b[:-2])
    if right == 1:
        return left, 1, 0, 0
    if left == 1:
        return 1, right, 0, 1
    return (1, left, 1, 1) if tuple(a[:-2]) == tuple(b[:-2]) else ()


def product_fits(m: Match) -> images.Checks:
    """Checks of the operands of a product, and of the operand that is added to it."""
    yield min(m.a.rank, m.b.rank) >= 2, f"ranks {m.a.rank} and {m.b.rank} (need two axes or more)"
    shapes = f"{list(m.a.shape)} by {list(m.b.shape)}"
    yield batches(m.a.shape, m.b.shape) != (), f"matrices {shapes} (needs a common step)"
    yield m.y.shape == m.node.shape, f"result {m.y.shape}, product {m.node.shape}"


def multiply(
    steps: Steps, y: Any, a: Any, b: Any, left: Four, right: Four, flags: int = 0, scale: float = 1
) -> None:
    """The step y = scale · a · b; `left` and `right` are their shapes as they are stored."""
    times, count, next_a, next_b = batches(left, right)
    depth, rows = left[-2:] if flags & 1 else left[:-3:-1]
    columns = right[-2] if flags & 2 else right[-1]
    strides = rows * columns, next_a * rows * depth, next_b * depth * columns
    sizes = (rows * times, columns, depth, count, *strides[1:])
    steps.add("product", y, a, b, sizes=sizes, flags=flags, alpha=scale)


def to_product(steps: Steps, m: Match) -> None:
    """Record a MatMul or Gemm, and the sum of its result and the operand added to it."""
    gemm = m.node.op_type == "Gemm"
    said = [m.node.attr(n, default) if gemm else default for n, default in
            (("transA", 0), ("transB", 0), ("alpha", 1.0), ("beta", 1.0))]  # fmt: skip
    flags = bool(said[0]) + 2 * bool(said[1])
    multiply(steps, m.y, m.a, m.b, m.a.shape, m.b.shape, flags, said[2])
    if m.values.get("c") is not None:
        shapes = {"a": four(m.c.shape), "y": four(m.y.shape)}
        steps.add("accumulate", m.y, m.c, alpha=said[3], **shapes)


def attention_fits(m: Match) -> images.Checks:
    """Checks of an Attention without past: as many heads everywhere, a mask that is added."""
    attributes = [a for a, v in m.root.ir.attributes.items() if v.value and a not in ATTENTION]
    yield m.root.first_alone
    yield not attributes, f"attributes {attributes} (needs none but scale)"
    yield m.q.rank == 4 and m.q.shape[:2] == m.k.shape[:2], f"q {m.q.shape}, k {m.k.shape}"


def scores_of(m: Match) -> Four:
    """The shape of the scores of an Attention: batch, heads, queries, keys."""
    return (*m.q.shape[:3], m.k.shape[2])


def to_attention(steps: Steps, m: Match) -> None:
    """Scores, the mask added to them, Softmax, and the sum of v with these weights."""
    scores, shape = steps.scratch(m), scores_of(m)
    weights = scores + rounded(shape)
    scale = m.root.attr("scale", None) or 1 / math.sqrt(m.q.shape[-1])
    multiply(steps, scores, m.q, m.k, m.q.shape, m.k.shape, 2, scale)
    if m.mask is not None:
        steps.add("accumulate", scores, m.mask, a=four(m.mask.shape), y=shape)
    steps.add("softmax", weights, scores, a=(math.prod(shape[:3]), shape[3], 1, 1))
    if m.mask is not None:  # a row of -inf, whose Softmax is NaN, has no keys: its weights are zero
        steps.add("Relu", weights, weights, a=(1, 1, 1, math.prod(shape)), flags=1)
    multiply(steps, m.y, weights, m.v, shape, m.v.shape)


# -- Rows and elements --------------------------------------------------------------------------


def flat(m: Match) -> Four:
    """The shape of the result as one row, [1, 1, 1, elements]."""
    return (1, 1, 1, math.prod(m.y.shape))


def to_softmax(steps: Steps, m: Match) -> None:
    """Add the step of a Softmax along any axis: x as [before the axis, axis, behind it, 1]."""
    outer, inside = norm_axes(m)
    width = m.x.shape[int(m.root.attr("axis", -1))] if m.x.rank else 1
    steps.add("softmax", m.y, m.x, a=(outer, width, inside // max(width, 1), 1))


def norm_axes(m: Match) -> tuple[int, int]:
    """(positions before the axis of the node, elements from it on)."""
    axis = int(m.root.attr("axis", -1)) % max(m.x.rank, 1)
    return math.prod(m.x.shape[:axis]), math.prod(m.x.shape[axis:])


def norm_fits(m: Match) -> images.Checks:
    """Checks of scale and bias: one of each per element of a row."""
    sizes = [math.prod(v.shape) for v in (m.scale, m.bias) if v is not None]
    yield m.root.first_alone
    yield set(sizes) == {norm_axes(m)[1]}, f"scale and bias of {sizes} elements, one row has others"


def to_norm(steps: Steps, m: Match) -> None:
    """Rows are normalised as channels of a batch are, then scaled and moved element by element."""
    rows, columns = norm_axes(m)
    row, own, y = steps.scratch(m), (1, 1, rows, columns), (1, 1, 1, columns)
    fields = {"a": (1, rows, 1, columns), "alpha": m.root.attr("epsilon", 1e-5)}
    steps.add("normalise", row, m.x, np.ones(rows), np.zeros(rows), **fields)
    steps.add("Mul", m.y, row, m.scale, a=own, b=y)
    if m.bias is not None:
        steps.add("accumulate", m.y, m.bias, a=y, y=own)


def gate(m: Match) -> tuple[float, ...]:
    """Coefficients of p where the operator is x · sigmoid(x · p(x²)), from the highest down."""
    if m.root.op_type == "Swish":
        return (float(m.root.attr("alpha", 1.0)),)
    return GELU_TANH if m.root.attr("approximate", "none") == "tanh" else GELU


def to_gated(steps: Steps, m: Match) -> None:
    """A Gelu or Swish: a polynomial by Horner's rule, its Sigmoid, the product."""
    first, *others = gate(m)
    row = {"a": flat(m), "b": flat(m)}
    square, here, there = (steps.scratch(m) + k * rounded(m.y.shape) for k in range(3))
    if others:
        steps.add("Mul", square, m.x, m.x, **row)
    powers = [square] * (len(others) - 1) + [m.x] * bool(others)
    steps.add("copy", here, square if others else m.x, a=flat(m), alpha=first)
    for number, power in zip(others, powers, strict=True):
        steps.add("accumulate", here, np.array([number], np.float32), a=(1, 1, 1, 1), y=flat(m))
        steps.add("Mul", there, here, power, **row)
        here, there = there, here
    steps.add("Sigmoid", there, here, a=flat(m))
    steps.add("Mul", m.y, m.x, there, **row)


def clip_fits(m: Match) -> images.Checks:
    """Checks of a Clip, which the library has from zero on."""
    ends = images.bounds_of(m)
    wanted = ends["low"] == 0 and (m.root.op_type != "Clip" or 0 < ends["high"] < math.inf)
    plain = m.root.op_type not in ("Clip", "Relu") or wanted
    return [*constant_bounds(m), (plain, f"bounds {list(ends.values())} (need 0 and a number)")]


def to_unary(steps: Steps, m: Match) -> None:
    """Add the step of a function of every element, over x as one row.

    `alpha` is the number of the library's function: the upper bound of a Clip, the factor -1 of a
    copy that negates, else the operator's own `alpha` (Elu) or 1.
    """
    alpha = {"Clip": images.bounds_of(m)["high"], "Neg": -1.0}.get(
        m.root.op_type, float(m.root.attr("alpha", 1.0))
    )
    kind = {"Clip": "clipped", "Neg": "copy"}.get(m.root.op_type, m.root.op_type)
    steps.add(kind, m.y, m.x, a=flat(m), b=flat(m), alpha=alpha)


def pair_fits(m: Match) -> images.Checks:
    """Checks of two operands: one is as large as the result, a divisor is constant."""
    full = [v for v in (m.a, m.b) if v.shape == m.y.shape]
    shapes = f"{list(m.a.shape)} and {list(m.b.shape)}"
    yield bool(full), f"operands {shapes} (one needs to be as large as the result)"
    if m.root.op_type == "Div":
        fits = m.b.is_const and m.a.shape == m.y.shape and bool(np.all(m.b.data))
        yield fits, "a divisor (needs constants that are not zero)"
    yield not (m.a.is_const and m.b.is_const), "both operands are constant"


def to_pair(steps: Steps, m: Match) -> None:
    """Add the step of an operation of two tensors, y = alpha * first op beta * other.

    The library broadcasts `other` alone, so `first` has the result's shape. A difference adds with
    beta -1; a quotient multiplies by the reciprocals of its constant divisor.
    """
    kind, sign = INVERSE.get(m.root.op_type, (m.root.op_type, 1.0))
    second = np.float32(1) / np.asarray(m.b.data) if m.root.op_type == "Div" else m.b
    operands = [(m.a, four(m.a.shape), 1.0), (second, four(m.b.shape), sign)]
    if m.a.shape != m.y.shape:
        operands.reverse()
    (first, a, alpha), (other, b, beta) = operands
    steps.add(kind, m.y, first, other, a=a, b=b, alpha=alpha, beta=beta)


# -- Moves --------------------------------------------------------------------------------------


def moved(m: Match) -> list[tuple[int, int]]:
    """(extent, step in x) of each axis of a Transpose's result, with axes joined that stay so."""
    shape, found = m.x.shape, list[tuple[int, int]]()
    perm = [int(p) for p in m.root.attr("perm") or range(m.x.rank)[::-1]]
    for n, step in ((shape[axis], math.prod(shape[axis + 1 :])) for axis in perm):
        if found and found[-1][1] == n * step:
            found[-1] = found[-1][0] * n, step
        elif n > 1:
            found.append((n, step))
    return found


def move_fits(m: Match) -> images.Checks:
    """The check of the axes of a Transpose."""
    return [(len(moved(m)) <= 4, f"{len(moved(m))} axes that move (4 or less)")]


def to_move(steps: Steps, m: Match) -> None:
    """Add the step of a Transpose: a copy with the result's shape and strides in x, in elements."""
    total = math.prod(m.x.shape)
    axes = [*[(1, total)] * (4 - len(moved(m))), *moved(m)]
    shape, strides = zip(*axes, strict=True)
    steps.add("copy", m.y, m.x, a=shape, a_stride=strides)


def to_concat(steps: Steps, m: Match) -> None:
    """Add a step per operand of a Concat that copies it into its part of the result."""
    axis, at = int(m.root.attr("axis")) % m.y.rank, steps.found(m.y)[1]
    outer, width = math.prod(m.y.shape[:axis]), math.prod(m.y.shape[axis:])
    total = outer * width
    for v in m.xs:
        part = math.prod(v.shape[axis:])
        shape = {"a": (1, 1, outer, part), "a_stride": (total, total, part, 1)}
        steps.add("copy", at, v, **shape, y_stride=(total, total, width, 1))
        at += 4 * part


_x, _pool = wildcard("x"), {"_outputs": ["pool"]}
_conv = OP.Conv(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)
_kernels = [
    *(r for r in images.KERNELS if r[2].get("pads", [0])[::3] in ([0], [1, 1])),
    ((1, 5, 7, 9), (10, 1, 3, 3), {"group": 5, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
]
for _name, _graph, _checks, _lower, _cases, _scratch in (
    (
        "conv",
        either(OP.Relu(_conv), OP.Relu(OP.Add(_conv, wildcard("z"))), _conv),
        (images.conv_fits, even, residual_fits),
        to_conv,
        lambda: [images.convolution(*row) for row in _kernels],
        None,
    ),
    (
        "pool",
        OP.any_of("MaxPool", "AveragePool")(_x, **_pool),
        (images.window_fits, even),
        to_pool,
        lambda: [case(f32(*shape), **a) for shape, a in images.WINDOWS],
        None,
    ),
    (
        "mean",
        either(
            OP.GlobalAveragePool(_x, **_pool),
            OP.ReduceMean(_x, wildcard("axes"), **_pool, _optional=1),
        ),
        (images.mean_fits,),
        to_pool,
        lambda: [case(f32(*shape)) for shape in ((2, 21, 5, 6), (1, 3, 7))],
        None,
    ),
    (
        "product",
        images.PRODUCT,
        (within_four, product_fits),
        to_product,
        lambda: [case(f32(4, 19), f32(19, 7, seed=1), f32(7, seed=2), const=(1, 2))],
        None,
    ),
    (
        "attention",
        OP.Attention(*map(wildcard, ("q", "k", "v", "mask")), _optional=1),
        (within_four, attention_fits),
        to_attention,
        lambda: [
            case(*(f32(1, 2, n, 8, seed=n) for n in (3, 5)), f32(1, 2, 5, 4), f32(1, 1, 3, 5)),
            case(*(f32(2, 2, 3, 4, seed=k) for k in range(3)), scale=0.5),
        ],
        lambda m: 2 * rounded(scores_of(m)),
    ),
    (
        "softmax",
        OP.Softmax(_x),
        (),
        to_softmax,
        lambda: [case(f32(3, 21), axis=-1), case(f32(2, 5, 3, 7), axis=1)],
        None,
    ),
    (
        "norm",
        OP.LayerNormalization(*map(wildcard, ("x", "scale", "bias")), _optional=1),
        (norm_fits,),
        to_norm,
        lambda: [case(f32(2, 3, 9), f32(9, seed=1), f32(9, seed=2), axis=-1)],
        lambda m: rounded(m.y.shape),
    ),
    (
        "gated",
        OP.any_of("Gelu", "Swish")(_x),
        (),
        to_gated,
        lambda: [case(f32(3, 21, low=-9, high=9))],
        lambda m: 3 * rounded(m.y.shape),
    ),
    (
        "unary",
        either(
            OP.any_of("Relu", "Sigmoid", "Tanh", "Elu", "Sqrt", "Neg")(_x),
            OP.Clip(_x, wildcard("low"), wildcard("high"), _optional=2),
        ),
        (clip_fits,),
        to_unary,
        lambda: [case(f32(2, 5, 3, 7))],
        None,
    ),
    (
        "pair",
        OP.any_of(*PAIRS)(wildcard("a"), wildcard("b")),
        (within_four, pair_fits),
        to_pair,
        lambda: [
            case(f32(2, 5, 3, 7), f32(2, 5, 3, 7, seed=1)),
            case(f32(5, 1, 1), f32(2, 5, 3, 7, seed=1)),
        ],
        None,
    ),
    (
        "move",
        OP.Transpose(_x),
        (move_fits,),
        to_move,
        lambda: [case(f32(2, 3, 4, 5), perm=[0, 2, 1, 3]), case(f32(4, 5), perm=[1, 0])],
        None,
    ),
    (
        "concat",
        OP.Concat(wildcard("xs"), _optional=-1),
        (),
        to_concat,
        lambda: [case(f32(2, 3, 4), f32(2, 5, 4, seed=1), axis=1)],
        None,
    ),
    (
        "view",
        OP.any_of("Reshape", "Flatten", "Squeeze", "Unsqueeze")(_x, wildcard("axes"), _optional=1),
        (),
        lambda steps, m: None,  # the result lies where the operand does
        list,
        None,
    ),
):
    declare(_name, _graph, (*FLOATS, *_checks), _lower, _cases, _scratch or (lambda m: 0))
