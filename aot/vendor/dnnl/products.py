# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products, with bias, residual and activation in the same primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from aot.vendor import (
    ACTIVATIONS,
    PLAIN,
    Act,
    Case,
    Layout,
    Match,
    MatrixProduct,
    NodeRef,
    Operand,
    Pattern,
    Recorder,
    ValueRef,
    WindowShape,
    case,
    f32,
    same_shapes,
)
from aot.vendor.dnnl.base import (
    blocked_by,
    blocks,
    declare,
    floats,
    primitive,
    record_matmul,
    type_of,
)

Constants = Callable[[Match], Act]
Checks = Iterator[tuple[bool, str]]
Array = np.ndarray[Any, Any]
#: Suffix, extra parameters, how the activation looks, its constants (see aot.ops.fused).
ACTS = (*ACTIVATIONS, ("mish", (), lambda op, v: op.Mish(v), lambda m: Act(11)))


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution costs: multiply-accumulates and bytes of scratch in the arena.

    Scratch is what the library's kernels are known to want; where a version wants more it takes
    memory of its own, so this is no matter of correctness.
    """

    macs: int
    scratch: int


def family(
    name: str, params: tuple[str, ...], build: Callable[..., Any]
) -> Iterator[tuple[Pattern, Constants]]:
    """Declare the pattern of `build(op, *params)` alone and followed by each activation of `ACTS`.

    Yields each pattern with the function that reads its activation off a match; a pattern has the
    name `name` or name_suffix. The bounds of a Clip follow `params` as further parameters.
    """
    yield declare(name, params, build), lambda m: Act()
    for suffix, extra, act, constants in ACTS:

        def whole(op: Any, *values: Any, _act: Callable[..., Any] = act) -> Any:
            """The graph of the product and its activation; the last values are the activation's
            operands.
            """
            return _act(op, build(op, *values[: len(params)]), *values[len(params) :])

        made = declare(f"{name}_{suffix}", (*params, *extra), whole)
        if extra:
            made.check(ordered_bounds)
        yield made, constants


#: Operators of two tensors behind a product and its activation, as aot_dnnl.h numbers them.
POSTS = {"Add": 1, "Mul": 2}


def chained(
    name: str, params: tuple[str, ...], build: Callable[..., Any]
) -> Iterator[tuple[Pattern, Constants]]:
    """The pattern of `build`, each activation or none, then a sum or product with a tensor.

    A sum with nothing between is a family of its own: there the library adds in place.
    """
    none = ("", (), lambda op, v: v, lambda m: Act())
    for (suffix, extra, act, constants), post in product((none, *ACTS), POSTS):
        if not suffix and post == "Add":
            continue

        # The defaults bind the values of this pass of the loop; the names alone would mean the last
        # ones.
        def whole(op: Any, *values: Any, _act: Callable[..., Any] = act, _post: str = post) -> Any:
            """The graph of product, activation and a second operator on the last operand."""
            inner = _act(op, build(op, *values[: len(params)]), *values[len(params) : -1])
            return getattr(op, _post)(inner, values[-1])

        words = [name, *([suffix] if suffix else []), "then", post.lower()]
        made = declare("_".join(words), (*params, *extra, "post"), whole)
        made.check(same_shape)
        if extra:
            made.check(ordered_bounds)
        yield made, constants


def same_shape(m: Match) -> Checks:
    """The tensor behind the activation has the result's type and shape."""
    yield from floats(m.y, m.post)
    yield same_shapes(m, m.post)


def post_of(m: Match) -> int:
    """The number (POSTS) of the operation that follows the activation, 0 if none follows."""
    return POSTS[m.root.op_type] if "post" in m.values else 0


def ordered_bounds(m: Match) -> Checks:
    """Check that the bounds `low` and `high` of a Clip are constant or absent, and low <= high."""
    known: list[float] = []
    for name in ("low", "high"):
        v = m.values.get(name)
        yield v is None or v.is_const, f"Clip's {name} bound is not constant"
        if v is not None and v.data is not None:
            known.append(float(np.asarray(v.data).reshape(())))
    yield len(known) < 2 or known[0] <= known[1], f"Clip's bounds {known} are not in order"


def run(
    c: Recorder, m: Match, state: Operand, x: ValueRef, residual: ValueRef | None, work: Work
) -> None:
    """Record the call that executes the primitive `state` on x, with `work.scratch` bytes of
    scratch.

    An operand `post` or the `residual` (None: there is none) is passed too. The result y may share
    the residual's memory unless x is the same value.
    """
    scratch = c.scratch(work.scratch)
    if "post" in m.values:
        c.call("aot_dnnl_run_post", state, m.y, x, m.post, scratch, status=True, macs=work.macs)
        return
    if residual is None:
        c.call("aot_dnnl_run", state, m.y, x, scratch, status=True, macs=work.macs)
        return
    # The library adds to what lies at the result, which x must not be: it is read for every
    # element.
    pair = [(m.y, residual)] if residual.ir is not x.ir else []
    c.call(
        "aot_dnnl_run_sum",
        state,
        m.y,
        x,
        residual,
        scratch,
        inplace=pair,
        status=True,
        macs=work.macs,
    )


def _example(made: Pattern, *arrays: Array) -> Case:
    """A case from `arrays`: an activation, constants, and a residual in "add" patterns.

    The bounds of a Clip are appended in "clip" patterns. The operand of a second operator ("then")
    stays last. That operand, the residual and the activation are inputs, all others constants.
    """
    bounds = [np.array(v, np.float32) for v in (-0.5, 0.75)] if "clip" in made.name else []
    if "then" in made.name:
        every = [*arrays[:-1], *bounds, arrays[-1]]
        return case(*every, const=tuple(range(1, len(every) - 1)))
    residual = len(arrays) - 1 if "add" in made.name else -1
    every = [*arrays, *bounds]
    return case(*every, const=tuple(i for i in range(1, len(every)) if i != residual))


# -- convolutions -----------------------------------------------------------------------------


def depthwise(m: Match, groups: int) -> bool:
    """Whether a convolution has one group per channel, as many outputs as inputs, and several
    groups.
    """
    return bool(groups == m.x.shape[1] == m.y.shape[1] and groups > 1)


def conv_layouts(m: Match, node: NodeRef, vlen: int) -> dict[str, Layout]:
    """Blocks of `vlen` channels for x, y, a residual r and the operand `post`.

    The x of a Conv with at most 3 channels stays plain: the library has kernels for such images.
    {}, all plain, if the library has no such blocks or two groups would share a block.
    """
    groups, x, y = int(node.attr("group", 1)), m.x.shape, m.y.shape
    shared = groups > 1 and not depthwise(m, groups)
    if not blocked_by(m.x, vlen) or (shared and (x[1] // groups % vlen or y[1] // groups % vlen)):
        return {}
    few = groups == 1 and x[1] <= 3 and node.op_type == "Conv"
    wanted = {"x": PLAIN if few else blocks(x, vlen), "y": blocks(y, vlen)}
    return {**wanted, **{n: wanted["y"] for n in ("r", "post") if n in m.values}}


def conv_fits(m: Match, node: NodeRef) -> Checks:
    """Checks of the convolution `node` of floats, transposed or not, with constant weights and
    bias.

    A residual `r` has the shape of the result. Pads are not negative, at the end of a
    transposed one either, where output_padding lessens them.
    """
    yield from floats(m.x, m.w, m.b, m.values.get("r"))
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    yield m.w.is_const, "weights are computed at run time (need constants)"
    yield m.b is None or m.b.is_const, "the bias is computed at run time (needs a constant)"
    r = m.values.get("r")
    if r is not None:
        yield same_shapes(m, r)
    pads = [int(p) for p in node.attr("pads", [0])]
    yield min(pads) >= 0, f"pads {pads} (must not be negative)"
    if node.op_type == "ConvTranspose":
        after = transposed_after(m, node)
        yield min(after) >= 0, f"output_padding needs pads {after} at the end (must be >= 0)"


def transposed_after(m: Match, node: NodeRef) -> list[int]:
    """Pads at the end of each axis that give the result's extents."""
    window = WindowShape.of(node, m.w.shape[2:])
    axes = zip(m.x.shape[2:], m.y.shape[2:], *window.axes(), strict=True)
    return [(i - 1) * s + (k - 1) * d + 1 - before - o for i, o, k, s, d, before, _ in axes]


def conv_weights(m: Match, groups: int, transposed: bool) -> Array:
    """The weights as [oc, ic, k...], or [groups, oc, ic, k...] with channels counted per group.

    A transposed convolution has its weights as [ic, oc, k...] in ONNX; those axes are swapped.
    """
    w = np.asarray(m.w.data)
    if transposed:
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    else:
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    return np.ascontiguousarray(w[0] if groups == 1 else w)


def conv_scratch(m: Match, node: NodeRef) -> int:
    """Bytes of scratch that the library's kernels are known to want; 0 for most convolutions.

    A depthwise bias is padded to blocks; the points of a 1 x 1 kernel with strides are gathered.
    """
    strides = WindowShape.of(node, m.w.shape[2:]).strides
    block = m.x.layout.block or 1
    channels: int = -(-m.x.shape[1] // block) * block
    if depthwise(m, int(node.attr("group", 1))):
        return 4 * channels + 256
    gathered = math.prod(m.w.shape[2:]) == 1 and max(strides) > 1
    pixels: int = math.prod(m.y.shape[2:])
    return 4 * channels * pixels + 256 if gathered else 0


def record_conv(c: Recorder, m: Match, node: NodeRef, act: Act) -> None:
    """Record the convolution `node`, the activation `act`, a residual or second operator, and the
    call.
    """
    rank, groups = m.x.rank, int(node.attr("group", 1))
    transposed = node.op_type == "ConvTranspose"
    window = WindowShape.of(node, m.w.shape[2:])
    w = conv_weights(m, groups, transposed)
    scratch = conv_scratch(m, node)
    params = c.params(
        type=type_of(m.x),
        rank=rank,
        w_rank=w.ndim,
        x_block=m.x.layout.block,
        y_block=m.y.layout.block,
        transposed=transposed,
        sum=m.values.get("r") is not None,
        post=post_of(m),
        act=act.kind,
        alpha=act.alpha,
        beta=act.beta,
        scratch=scratch,
        x=m.x.shape,
        y=m.y.shape,
        w=w.shape,
        s=window.strides,
        # oneDNN counts the elements left out: 0 is a dense kernel
        d=[d - 1 for d in window.dilations],
        before=window.before,
        after=transposed_after(m, node) if transposed else window.after,
    )
    b = None if m.b is None else c.const(np.asarray(m.b.data, np.float32), "b")
    state = primitive(c, "aot_dnnl_conv", c.const(w, "w"), b, params)
    points = math.prod(m.x.shape if transposed else m.y.shape)
    run(c, m, state, m.x, m.values.get("r"), Work(points * math.prod(m.w.shape[1:]), scratch))


def _conv(op: Any, x: Any, w: Any, b: Any) -> Any:
    """The graph of a Conv named "conv"; the bias b may be absent."""
    return op.Conv(x, w, b, _outputs=["conv"], _optional=1)


def _conv_add(op: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
    """The graph of a Conv plus a residual r."""
    return op.Add(_conv(op, x, w, b), r)


def _transposed(op: Any, x: Any, w: Any, b: Any) -> Any:
    """The graph of a ConvTranspose named "conv"; the bias b may be absent."""
    return op.ConvTranspose(x, w, b, _outputs=["conv"], _optional=1)


def _declare_conv(made: Pattern, constants: Constants) -> None:
    """Add checks, layouts, lowering and cases to `made`, a pattern with a convolution named "conv".

    `constants(match)` gives the activation behind the convolution. The pattern is changed in place.
    """

    @made.check
    def fits(m: Match) -> Checks:
        """Check the convolution of the match."""
        yield from conv_fits(m, m.conv)

    @made.layouts
    def layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """The layouts that the convolution of the match wants."""
        return conv_layouts(m, m.conv, vlen)

    @made.lower
    def lowered(c: Recorder, m: Match) -> None:
        """Record the convolution with the activation of the match."""
        record_conv(c, m, m.conv, constants(m))

    @made.cases
    def examples() -> Iterator[Case]:
        """A case of 5 input, 24 output channels; a second operand is [1, 24, 5, 6]."""
        # The weights of a transposed convolution have the input channels first.
        w = f32(5, 24, 3, 3, low=-0.2, high=0.2)
        if "add" in made.name or "then" in made.name:
            yield _example(made, f32(1, 5, 7, 8), w.reshape(24, 5, 3, 3), f32(24), f32(1, 24, 5, 6))
        elif "transpose" in made.name:
            yield _example(made, f32(1, 5, 7, 8), w, f32(24))
        else:
            yield _example(made, f32(1, 5, 7, 8), w.reshape(24, 5, 3, 3), f32(24))


for _made, _constants in (
    *family("conv", ("x", "w", "b"), _conv),
    *family("conv_add", ("x", "w", "b", "r"), _conv_add),
    *family("convtranspose", ("x", "w", "b"), _transposed),
    *chained("conv", ("x", "w", "b"), _conv),
):
    _declare_conv(_made, _constants)


# -- products with constant weights -----------------------------------------------------------


def dense_fits(m: Match, node: NodeRef) -> Checks:
    """Checks of the product `node` of floats by a constant matrix.

    `c` is a bias of its columns; `r` is one too, or a residual of the shape of the result.
    """
    yield from floats(m.a, m.b, m.y, *(m.values.get(n) for n in ("c", "r")))
    yield m.a.rank >= 2, f"rank {m.a.rank} (needs 2 or more)"
    found = MatrixProduct.of(m, node)
    w = found.weights
    yield (
        w is not None,
        "needs a constant matrix on the right and no transA (bfloat16: no alpha)",
    )
    if w is None:
        return
    yield m.y.shape == node.shape, f"result {m.y.shape}, product {node.shape}"
    for name in ("c", "r"):
        v = m.values.get(name)
        fits = v is None or name in found.biases or (name == "r" and name in found.residuals)
        yield fits, f"operand of shape {v and v.shape} is no bias of {w.shape[1]} columns"


def record_dense(c: Recorder, m: Match, node: NodeRef, act: Act) -> None:
    """Record the product `node` by a constant matrix [k, n], the activation `act` and the call.

    Biases are summed into one float32 row; the leading axes of a become m rows.
    """
    found = MatrixProduct.of(m, node)
    w, biases, residuals = found.weights, found.biases.values(), [*found.residuals.values()]
    assert w is not None
    k, n = w.shape
    rows = math.prod(m.a.shape[:-1])
    scratch = 4 * n + 512 if rows == 1 else 0  # a row of sums, as k is split
    params = c.params(
        type=type_of(m.a),
        m=rows,
        k=k,
        n=n,
        sum=bool(residuals),
        post=post_of(m),
        act=act.kind,
        alpha=act.alpha,
        beta=act.beta,
        scratch=scratch,
    )
    bias = c.const(np.asarray(sum(biases), np.float32), "b") if biases else None
    state = primitive(c, "aot_dnnl_dense", c.const(np.asarray(w), "w"), bias, params)
    work = Work(rows * w.size, scratch)
    run(c, m, state, m.a, residuals[0] if residuals else None, work)


def _gemm(op: Any, a: Any, b: Any, c: Any) -> Any:
    """The graph of a Gemm named "node"; the bias c may be absent."""
    return op.Gemm(a, b, c, _outputs=["node"], _optional=1)


def _matmul(op: Any, a: Any, b: Any) -> Any:
    """The graph of a MatMul named "node"."""
    return op.MatMul(a, b, _outputs=["node"])


def _matmul_add(op: Any, a: Any, b: Any, r: Any) -> Any:
    """The graph of a MatMul plus r, a bias or a residual."""
    return op.Add(_matmul(op, a, b), r)


def _matmul_bias_add(op: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
    """The graph of a MatMul plus a bias c plus r, a bias or a residual."""
    return op.Add(op.Add(_matmul(op, a, b), c), r)


def _gemm_add(op: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
    """The graph of a Gemm plus r, a bias or a residual."""
    return op.Add(_gemm(op, a, b, c), r)


def _declare_dense(made: Pattern, constants: Constants) -> None:
    """Add checks, lowering and cases to `made`, a pattern with a product named "node".

    `constants(match)` gives the activation behind the product. The pattern is changed in place.
    """

    @made.check
    def fits(m: Match) -> Checks:
        """Check the product of the match."""
        yield from dense_fits(m, m.node)

    @made.lower
    def lowered(c: Recorder, m: Match) -> None:
        """Record the product with the activation of the match."""
        record_dense(c, m, m.node, constants(m))

    @made.cases
    def examples() -> Iterator[Case]:
        """A case of a matrix [33, 20], with the bias and second operand of the pattern."""
        # A MatMul takes rows of any rank, a Gemm a matrix.
        rows = [f32(2, 5, 33)] if made.name.startswith("dense") else [f32(5, 33)]
        biased = made.name.startswith(("gemm", "dense_bias"))
        more = [f32(20)] if biased else []
        second = "add" in made.name or "then" in made.name
        more += [f32(*rows[0].shape[:-1], 20)] if second else []
        yield _example(made, *rows, f32(33, 20, low=-0.3, high=0.3), *more)


for _made, _constants in (
    *family("gemm", ("a", "b", "c"), _gemm),
    *family("gemm_add", ("a", "b", "c", "r"), _gemm_add),
    *family("dense", ("a", "b"), _matmul),
    *family("dense_add", ("a", "b", "r"), _matmul_add),
    *family("dense_bias_add", ("a", "b", "c", "r"), _matmul_bias_add),
    *chained("gemm", ("a", "b", "c"), _gemm),
    *chained("dense", ("a", "b"), _matmul),
):
    _declare_dense(_made, _constants)


# -- products of activations ------------------------------------------------------------------

matmul = declare("matmul", ("a", "b"), lambda op, a, b: op.MatMul(a, b))


@matmul.check
def batches_agree(m: Match) -> Checks:
    """Checks of a product of two tensors of floats, each of rank 2 to 6."""
    yield from floats(m.a, m.b, m.y)
    ranks = (m.a.rank, m.b.rank)
    yield all(2 <= r <= 6 for r in ranks), f"ranks {ranks} (need 2 to 6)"


@matmul.lower
def to_matmul(c: Recorder, m: Match) -> None:
    """Record the product of two activations and its call; both get the rank of y by leading
    ones.
    """
    ranks = (m.y.rank - v.rank for v in (m.a, m.b))
    x, x1 = ((*[1] * more, *v.shape) for more, v in zip(ranks, (m.a, m.b), strict=True))
    record_matmul(c, m.y, m.a, m.b, x, x1, m.y.shape)
