# SPDX-License-Identifier: Apache-2.0
"""Reductions, extremes, sorting, running sums."""

from __future__ import annotations

import numpy as np

from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family

OPS = (
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceL2 ReduceSumSquare ReduceL1 ReduceProd "
    "ReduceLogSumExp ReduceLogSum"
)
INT_OPS = "ReduceSum ReduceMax ReduceMin ReduceMean ReduceL1 ReduceProd ReduceSumSquare ReduceL2"


def axes_of(d: Draft, rank: int) -> list[str]:
    """The optional second input."""
    axes = [i - rank if d.chance(0.3) else i for i in range(rank) if d.chance(0.5)]
    return [d.ints(*axes)] if axes else []


@family(3)
def reduce(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype == d.dtype and a.size > 0)
    op = d.word(OPS)
    if op == "ReduceLogSum":
        x = d.add("Abs", [x])[0]
    axes = axes_of(d, d.values[x].ndim)
    attrs = {"noop_with_empty_axes": 1} if not axes and d.chance(0.2) else {}
    d.add(op, [x, *axes], keepdims=d.upto(0, 1), **attrs)


@family(1.2)
def int_reduce(d: Draft) -> None:
    op = d.word(INT_OPS)
    kinds = "int32 int64 uint32 uint64"
    if op in ("ReduceMax", "ReduceMin"):
        kinds += " int8 uint8" + (" bool" if d.opset >= 20 else "")
    x = d.pick(lambda a: a.dtype.name in kinds.split() and a.size > 0)
    a = d.values[x]
    if a.dtype != np.bool_ and np.abs(a.astype(np.float64)).max() ** 2 * a.size > 1e6:
        raise Reject
    if op == "ReduceProd" and (np.abs(a.astype(np.float64)) > 1).sum() > 8:
        raise Reject
    d.add(op, [x, *axes_of(d, a.ndim)], keepdims=d.upto(0, 1))


@family(1.5)
def arg(d: Draft) -> None:
    kinds = "float32 float64 float16 bfloat16 int8 int32 int64 uint8 uint64".split()
    x = d.pick(lambda a: a.dtype.name in kinds and a.ndim > 0 and a.size > 0)
    rank = d.values[x].ndim
    attrs = {"keepdims": d.upto(0, 1), "select_last_index": d.upto(0, 1)}
    d.add(d.word("ArgMax ArgMin"), [x], axis=d.upto(-rank, rank - 1), **attrs)


@family(1)
def top_k(d: Draft) -> None:
    kinds = "float32 float64 float16 bfloat16 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    x = d.pick(lambda a: a.dtype.name in kinds and a.ndim > 0 and a.size > 0)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)
    if is_float(a) and len(np.unique(a.astype(np.float64))) < a.size:
        raise Reject
    d.add("TopK", [x, d.ints(d.upto(1, a.shape[axis]))], 2, axis=axis, largest=d.upto(0, 1))


@family(1)
def running(d: Draft) -> None:
    kinds = (d.float_, "int32", "int64", "uint64")
    op = "CumProd" if d.opset >= 26 and d.chance(0.4) else "CumSum"
    x = d.pick(lambda a: a.dtype.name in kinds and a.ndim > 0 and 0 < a.size < 2000)
    axis = d.const(np.array(d.upto(0, d.values[x].ndim - 1), np.int64))
    d.add(op, [x, axis], exclusive=d.upto(0, 1), reverse=d.upto(0, 1))


__all__ = ["OPS"]
