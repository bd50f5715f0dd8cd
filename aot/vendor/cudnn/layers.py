# SPDX-License-Identifier: Apache-2.0
"""Convolutions, products, attention, pooling, normalisation, elementwise operators and moves."""

from __future__ import annotations

import itertools
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


def rounded(shape: Sequence[int]) -> int:
    """Bytes of a tensor, rounded up so that another may follow it."""
    return -(-4 * math.prod(shape) // ALIGN) * ALIGN


def size(m: Match) -> int:
    """Bytes of the result of a match, rounded up."""
    return rounded(m.y.shape)


def result_alone(m: Match) -> images.Checks:
    """The check that nobody reads another result of the node than the first."""
    used = [v for v in m.root.ir.outputs[1:] if v.name and (v.uses() or v.is_graph_output())]
    return [(not used, "output 1 is used (only output 0 is computed)")]


def within_four(m: Match) -> images.Checks:
    """Checks of ranks: the libraries' tensors have four axes."""
    ranks = {n: v.rank for n, v in m.values.items() if v is not None}
    return [(max(ranks.values()) <= 4, f"ranks {ranks} (need to be 4 or less)")]


# -- Windows ------------------------------------------------------------------------------------


def window_of(m: Match) -> images.Fields:
    """Fields of the window of a convolution or of pooling, with as much padding on both sides."""
    found = images.conv_fields(m) if "w" in m.values else images.pool_fields(m)
    return found | {"pad": (found["pad"][0], found["pad"][3])}


def even(m: Match) -> images.Checks:
    """The check that a window with as much padding behind as in front gives the result's size."""
    if m.x.rank not in (3, 4):  # which another check refuses
        return
    w = window_of(m)
    dense = "w" in m.values or max(w["dilation"]) == 1
    yield dense, f"dilations {list(w['dilation'])} (pooling needs 1)"
    axes = zip(images.extents(m.x), w["pad"], w["kernel"], w["dilation"], w["stride"], strict=True)
    sizes = tuple((n + 2 * pad - (k - 1) * d - 1) // s + 1 for n, pad, k, d, s in axes)
    own = (m.conv if "w" in m.values else m.pool).shape[2:] or (1,)
    said = f"{list(sizes)} windows of a result {list(own)} (needs as much padding on both sides)"
    yield sizes[-len(own) :] == tuple(own), said


def windowed(m: Match) -> images.Fields:
    """Fields of a window over images that are x, to images that are y."""
    fields = {n: v for n, v in window_of(m).items() if n in ("pad", "stride", "dilation", "groups")}
    fields["window"] = window_of(m)["kernel"]
    return fields | {n: (*v.shape[:2], *images.extents(v)) for n, v in (("a", m.x), ("y", m.y))}


def residual_fits(m: Match) -> images.Checks:
    """The check that what is added to a convolution is computed, and as large."""
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


def batches(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int, int] | None:
    """(rows per matrix of a that count for one, products, matrices to the next a, to the next b).

    None where one step from product to product does not do.
    """
    left, right = math.prod(a[:-2]), math.prod(b[:-2])
    if right == 1:
        return left, 1, 0, 0
    if left == 1:
        return 1, right, 0, 1
    return (1, left, 1, 1) if tuple(a[:-2]) == tuple(b[:-2]) else None


def product_fits(m: Match) -> images.Checks:
    """Checks of the operands of a product, and of what is added to it."""
    yield min(m.a.rank, m.b.rank) >= 2, f"ranks {m.a.rank} and {m.b.rank} (need two axes or more)"
    shapes = f"{list(m.a.shape)} by {list(m.b.shape)}"
    yield batches(m.a.shape, m.b.shape) is not None, f"matrices {shapes} (needs a common step)"
    yield m.y.shape == m.node.shape, f"result {m.y.shape}, product {m.node.shape}"


def multiply(
    steps: Steps, y: Any, a: Any, b: Any, left: Four, right: Four, flags: int = 0, scale: float = 1
) -> None:
    """The step y = scale · a · b; `left` and `right` are their shapes as they are stored."""
    found = batches(left, right)
    assert found is not None
    times, count, next_a, next_b = found
    depth, rows = left[-2:] if flags & 1 else left[:-3:-1]
    columns = right[-2] if flags & 2 else right[-1]
    strides = rows * columns, next_a * rows * depth, next_b * depth * columns
    sizes = (rows * times, columns, depth, count, *strides[1:])
    steps.add("product", y, a, b, sizes=sizes, flags=flags, alpha=scale)


def to_product(steps: Steps, m: Match) -> None:
    """A MatMul or Gemm, and what is added to its result."""
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
    known = {"scale", "softmax_precision", "qk_matmul_output_mode"}
    other = [a for a, v in m.root.ir.attributes.items() if a not in known and v.value]
    yield not other, f"attributes {other} (needs none but scale)"
    yield m.q.rank == 4 and m.q.shape[:2] == m.k.shape[:2], f"q {m.q.shape}, k {m.k.shape}"


def scores_of(m: Match) -> Four:
    """The shape of the scores of an Attention: batch, heads, queries, keys."""
    return (*m.q.shape[:3], m.k.shape[2])


def scores_size(m: Match) -> int:
    """Bytes of scores and weights of an Attention."""
    return rounded(scores_of(m))


def to_attention(steps: Steps, m: Match) -> None:
    """Scores, the mask added to them, Softmax, and the sum of v with these weights."""
    scores, shape = steps.scratch(m), scores_of(m)
    weights = scores + scores_size(m)
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
    """The result as one row."""
    return (1, 1, 1, math.prod(m.y.shape))


def to_softmax(steps: Steps, m: Match) -> None:
    """A Softmax along any axis."""
    axis = int(m.root.attr("axis", -1)) % max(m.x.rank, 1)
    outer, inner = math.prod(m.x.shape[:axis]), math.prod(m.x.shape[axis + 1 :])
    steps.add("softmax", m.y, m.x, a=(outer, math.prod(m.x.shape[axis : axis + 1]), inner, 1))


def norm_axes(m: Match) -> tuple[int, int]:
    """(rows, elements of each) of a LayerNormalization."""
    axis = int(m.root.attr("axis", -1)) % max(m.x.rank, 1)
    return math.prod(m.x.shape[:axis]), math.prod(m.x.shape[axis:])


def norm_fits(m: Match) -> images.Checks:
    """Checks of scale and bias: one of each per element of a row."""
    given = [v for v in (m.scale, m.bias) if v is not None]
    sizes = [math.prod(v.shape) for v in given]
    yield set(sizes) == {norm_axes(m)[1]}, f"scale and bias of {sizes} elements, one row has others"


def to_norm(steps: Steps, m: Match) -> None:
    """Rows are normalised as channels of a batch are, then scaled and moved element by element."""
    rows, columns = norm_axes(m)
    row, own, y = steps.scratch(m), (1, 1, rows, columns), (1, 1, 1, columns)
    one, zero, eps = np.ones(rows), np.zeros(rows), m.root.attr("epsilon", 1e-5)
    steps.add("normalise", row, m.x, one, zero, a=(1, rows, 1, columns), alpha=eps)
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
    row, n = {"a": flat(m), "b": flat(m)}, size(m)
    square, here, there = (steps.scratch(m) + k * n for k in range(3))
    if others:
        steps.add("Mul", square, m.x, m.x, **row)
        steps.add("copy", here, square, a=flat(m), alpha=first)
    for k, number in enumerate(others):
        if k:
            steps.add("Mul", there, here, square, **row)
            here, there = there, here
        steps.add("accumulate", here, np.array([number], np.float32), a=(1, 1, 1, 1), y=flat(m))
    if others:
        steps.add("Mul", there, here, m.x, **row)
    else:
        steps.add("copy", there, m.x, a=flat(m), alpha=first)
    steps.add("Sigmoid", here, there, a=flat(m))
    steps.add("Mul", m.y, m.x, here, **row)


def clip_fits(m: Match) -> images.Checks:
    """Checks of a Clip, which the library has from zero on."""
    ends = images.bounds_of(m)
    wanted = ends["low"] == 0 and (m.root.op_type != "Clip" or 0 < ends["high"] < math.inf)
    plain = m.root.op_type not in ("Clip", "Relu") or wanted
    return [*constant_bounds(m), (plain, f"bounds {list(ends.values())} (need 0 and a number)")]


def to_unary(steps: Steps, m: Match) -> None:
    """A function of every element."""
    kind, alpha = m.root.op_type, float(m.root.attr("alpha", 1.0))
    if kind == "Clip":
        kind, alpha = "clipped", images.bounds_of(m)["high"]
    steps.add("copy" if kind == "Neg" else kind, m.y, m.x, a=flat(m), b=flat(m),
              alpha=-1.0 if kind == "Neg" else alpha)  # fmt: skip


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
    """An operation of two tensors; that of the result's shape is the library's first."""
    kind, signs, b = m.root.op_type, (1.0, 1.0), m.b
    shapes = {m.a.ir: four(m.a.shape), m.b.ir: four(m.b.shape)}
    first, second = m.a, m.b
    if kind == "Div":
        kind, second = "Mul", np.float32(1) / np.asarray(b.data)
    if kind == "Sub":
        kind, signs = "Add", (1.0, -1.0)
    extents = shapes[m.a.ir], shapes[m.b.ir]
    if m.a.shape != m.y.shape:
        first, second, extents, signs = m.b, m.a, extents[::-1], signs[::-1]
    fields = {"a": extents[0], "b": extents[1], "alpha": signs[0], "beta": signs[1]}
    steps.add(kind, m.y, first, second, **fields)


# -- Moves --------------------------------------------------------------------------------------


def moved(m: Match) -> list[tuple[int, int]]:
    """(extent, step in x) of each axis of a Transpose's result, with axes joined that stay so."""
    shape, found = m.x.shape, list[tuple[int, int]]()
    perm = [int(p) for p in m.root.attr("perm") or range(m.x.rank)[::-1]]
    for axis in perm:
        n, step = shape[axis], math.prod(shape[axis + 1 :])
        if found and found[-1][1] == n * step:
            found[-1] = found[-1][0] * n, step
        elif n > 1:
            found.append((n, step))
    return found


def move_fits(m: Match) -> images.Checks:
    """The check of the axes of a Transpose."""
    return [(len(moved(m)) <= 4, f"{len(moved(m))} axes that move (4 or less)")]


def to_move(steps: Steps, m: Match) -> None:
    """A Transpose as a copy by strides."""
    total = math.prod(m.x.shape)
    axes = [*[(1, total)] * (4 - len(moved(m))), *moved(m)]
    shape, strides = zip(*axes, strict=True)
    steps.add("copy", m.y, m.x, a=shape, a_stride=strides)


def to_concat(steps: Steps, m: Match) -> None:
    """Each operand copied into its part of the result."""
    axis = int(m.root.attr("axis")) % m.y.rank
    outer, width = math.prod(m.y.shape[:axis]), math.prod(m.y.shape[axis:])
    parts = [math.prod(v.shape[axis:]) for v in m.xs]
    total = outer * width
    for v, part, start in zip(m.xs, parts, itertools.accumulate(parts, initial=0)):  # noqa: B905
        shape = {"a": (1, 1, outer, part), "a_stride": (total, total, part, 1)}
        strides = total, total, width, 1
        steps.add("copy", steps.place(m.y) + 4 * start, v, **shape, y_stride=strides)


def to_view(steps: Steps, m: Match) -> None:
    """Nothing: the result lies where the operand does."""


_x, _pool = wildcard("x"), {"_outputs": ["pool"]}
_conv = OP.Conv(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)
_gemm = OP.Gemm(*map(wildcard, "abc"), _outputs=["node"], _optional=1)
_dot = OP.MatMul(wildcard("a"), wildcard("b"), _outputs=["node"])
_bounds = map(wildcard, ("low", "high"))
_own = {"group": 5, "strides": [2, 2], "pads": [1, 1, 1, 1]}
_even = [r for r in images.KERNELS if r[2].get("pads", [0])[::3] in ([0], [1, 1])]
_kernels = [*_even, ((1, 5, 7, 9), (10, 1, 3, 3), _own)]
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
        (images.window_fits, even, result_alone),
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
        either(_gemm, OP.Add(_dot, wildcard("c")), _dot),
        (within_four, product_fits),
        to_product,
        lambda: [case(f32(4, 19), f32(19, 7, seed=1), f32(7, seed=2), const=(1, 2))],
        None,
    ),
    (
        "attention",
        OP.Attention(*map(wildcard, ("q", "k", "v", "mask")), _optional=1),
        (within_four, attention_fits, result_alone),
        to_attention,
        lambda: [
            case(*(f32(1, 2, n, 8, seed=n) for n in (3, 5)), f32(1, 2, 5, 4), f32(1, 1, 3, 5)),
            case(*(f32(2, 2, 3, 4, seed=k) for k in range(3)), scale=0.5),
        ],
        lambda m: 2 * scores_size(m),
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
        (norm_fits, result_alone),
        to_norm,
        lambda: [case(f32(2, 3, 9), f32(9, seed=1), f32(9, seed=2), axis=-1)],
        size,
    ),
    (
        "gated",
        OP.any_of("Gelu", "Swish")(_x),
        (),
        to_gated,
        lambda: [case(f32(3, 21, low=-9, high=9))],
        lambda m: 3 * size(m),
    ),
    (
        "unary",
        either(
            OP.any_of("Relu", "Sigmoid", "Tanh", "Elu", "Sqrt", "Neg")(_x),
            OP.Clip(_x, *_bounds, _optional=2),
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
        to_view,
        list,
        None,
    ),
):
    declare(_name, _graph, (*FLOATS, *_checks), _lower, _cases, _scratch or (lambda m: 0))
