# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and what they share with convolutions: families of patterns with bias,
residual and activation in the same primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from aot.vendor import (
    ACTIVATIONS,
    Act,
    Case,
    Match,
    MatrixProduct,
    NodeRef,
    Operand,
    Pattern,
    Recorder,
    ValueRef,
    case,
    f32,
    same_shapes,
)
from aot.vendor.dnnl.base import (
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


def example(made: Pattern, *arrays: Array) -> Case:
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
        yield example(made, *rows, f32(33, 20, low=-0.3, high=0.3), *more)


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
