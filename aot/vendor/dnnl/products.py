# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and what they share with convolutions: families of patterns with bias,
residual and activation in the same primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from aot.vendor import (
    ACTIVATIONS,
    OP,
    Act,
    Case,
    Match,
    MatrixProduct,
    Operand,
    Pat,
    Recorder,
    ValueRef,
    case,
    f32,
    same_shapes,
    wildcard,
)
from aot.vendor.dnnl.base import (
    Array,
    Check,
    Checks,
    declare,
    floats,
    primitive,
    record_matmul,
    type_of,
)

Constants = Callable[[Match], Act]
#: Suffix, extra parameters, how the activation looks, its constants (see aot.ops.fused).
Activation = tuple[str, tuple[str, ...], Callable[..., Any], Constants]
NONE: Activation = ("", (), lambda op, v: v, lambda m: Act())
ACTS: tuple[Activation, ...] = (
    *ACTIVATIONS,
    ("mish", (), lambda op, v: op.Mish(v), lambda m: Act(11)),
)


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution costs: multiply-accumulates and bytes of scratch in the arena.

    Scratch is what the library's kernels are known to want; where a version wants more it takes
    memory of its own, so this is no matter of correctness.
    """

    macs: int
    scratch: int


#: A pattern's name and graph, its checks, and the function that reads its activation off a match.
Member = tuple[str, Pat, tuple[Check, ...], Constants]


def family(name: str, graph: Pat) -> Iterator[Member]:
    """The pattern of `graph` alone and followed by each activation of `ACTS`.

    A pattern has the name `name` or name_suffix.
    """
    yield name, graph, (), NONE[-1]
    for suffix, extra, act, constants in ACTS:
        whole = act(OP, graph, *map(wildcard, extra))
        yield f"{name}_{suffix}", whole, (ordered_bounds,) if extra else (), constants


#: Operators of two tensors behind a product and its activation, as aot_dnnl.h numbers them.
POSTS = {"Add": 1, "Mul": 2}


def chained(name: str, graph: Pat) -> Iterator[Member]:
    """The pattern of `graph`, each activation or none, then a sum or product with a tensor.

    A sum with nothing between is a family of its own: there the library adds in place.
    """
    for (suffix, extra, act, constants), post in product((NONE, *ACTS), POSTS):
        if not suffix and post == "Add":
            continue
        inner = act(OP, graph, *map(wildcard, extra))
        words = [name, *([suffix] if suffix else []), "then", post.lower()]
        checks = (same_shape, ordered_bounds) if extra else (same_shape,)
        yield "_".join(words), getattr(OP, post)(inner, wildcard("post")), checks, constants


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


def example(name: str, *arrays: Array) -> Case:
    """A case of the pattern `name` from `arrays`: an activation, constants, and a residual in "add"
    patterns.

    The bounds of a Clip are appended in "clip" patterns. The operand of a second operator ("then")
    stays last. That operand, the residual and the activation are inputs, all others constants.
    """
    bounds = [np.array(v, np.float32) for v in (-0.5, 0.75)] if "clip" in name else []
    if "then" in name:
        every = [*arrays[:-1], *bounds, arrays[-1]]
        return case(*every, const=tuple(range(1, len(every) - 1)))
    residual = len(arrays) - 1 if "add" in name else -1
    every = [*arrays, *bounds]
    return case(*every, const=tuple(i for i in range(1, len(every)) if i != residual))


# -- products with constant weights -----------------------------------------------------------


def dense_fits(m: Match) -> Checks:
    """Checks of the product `m.node` of floats by a constant matrix.

    `c` is a bias of its columns; `r` is one too, or a residual of the shape of the result.
    """
    yield from floats(m.a, m.b, m.y, *(m.values.get(n) for n in ("c", "r")))
    yield m.a.rank >= 2, f"rank {m.a.rank} (needs 2 or more)"
    found = MatrixProduct.of(m, m.node)
    w = found.weights
    yield (
        w is not None,
        "needs a constant matrix on the right and no transA (bfloat16: no alpha)",
    )
    if w is None:
        return
    yield m.y.shape == m.node.shape, f"result {m.y.shape}, product {m.node.shape}"
    for name in ("c", "r"):
        v = m.values.get(name)
        fits = v is None or name in found.biases or (name == "r" and name in found.residuals)
        yield fits, f"operand of shape {v and v.shape} is no bias of {w.shape[1]} columns"


def record_dense(constants: Constants, c: Recorder, m: Match) -> None:
    """Record the product `m.node` by a constant matrix [k, n], its activation and the call.

    Biases are summed into one float32 row; the leading axes of a become m rows.
    """
    found, act = MatrixProduct.of(m, m.node), constants(m)
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


def dense_examples(name: str) -> Iterator[Case]:
    """A case of a matrix [33, 20], with the bias and second operand of the pattern `name`."""
    # A MatMul takes rows of any rank, a Gemm a matrix.
    rows = [f32(2, 5, 33)] if name.startswith("dense") else [f32(5, 33)]
    more = [f32(20)] if name.startswith(("gemm", "dense_bias")) else []
    more += [f32(*rows[0].shape[:-1], 20)] if "add" in name or "then" in name else []
    yield example(name, *rows, f32(33, 20, low=-0.3, high=0.3), *more)


_A, _B, _C, _R = map(wildcard, "abcr")
# `r` is a bias or a residual.
_GEMM = OP.Gemm(_A, _B, _C, _outputs=["node"], _optional=1)
_MATMUL = OP.MatMul(_A, _B, _outputs=["node"])
for _name, _graph, _checks, _constants in (
    *family("gemm", _GEMM),
    *family("gemm_add", OP.Add(_GEMM, _R)),
    *family("dense", _MATMUL),
    *family("dense_add", OP.Add(_MATMUL, _R)),
    *family("dense_bias_add", OP.Add(OP.Add(_MATMUL, _C), _R)),
    *chained("gemm", _GEMM),
    *chained("dense", _MATMUL),
):
    declare(
        _name,
        _graph,
        *_checks,
        dense_fits,
        lower=partial(record_dense, _constants),
        cases=partial(dense_examples, _name),
    )


# -- products of activations ------------------------------------------------------------------


def batches_agree(m: Match) -> Checks:
    """Checks of a product of two tensors of floats, each of rank 2 to 6."""
    yield from floats(m.a, m.b, m.y)
    ranks = (m.a.rank, m.b.rank)
    yield all(2 <= r <= 6 for r in ranks), f"ranks {ranks} (need 2 to 6)"


def to_matmul(c: Recorder, m: Match) -> None:
    """Record the product of two activations and its call; both get the rank of y by leading
    ones.
    """
    ranks = (m.y.rank - v.rank for v in (m.a, m.b))
    x, x1 = ((*[1] * more, *v.shape) for more, v in zip(ranks, (m.a, m.b), strict=True))
    record_matmul(c, m.y, m.a, m.b, x, x1, m.y.shape)


declare("matmul", OP.MatMul(_A, _B), batches_agree, lower=to_matmul)
