# SPDX-License-Identifier: Apache-2.0
"""Operators whose result is as long as the data say, and what may follow them."""

from __future__ import annotations

import numpy as np

from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family


def grown(d: Draft, names: list[str]) -> list[str]:
    """Mark values as of a shape that depends on the data."""
    d.dynamic.update(names)
    return names


@family(0.8)
def non_zero(d: Draft) -> None:
    x = d.pick(lambda a: 0 < a.size < 400 and a.ndim > 0)
    y = grown(d, d.add("NonZero", [x]))[0]
    if d.chance(0.5):
        y = grown(d, d.add("Transpose", [y], perm=[1, 0]))[0]
        if d.chance(0.5):
            grown(d, d.add("GatherND", [x, y]))


@family(0.8)
def compress(d: Draft) -> None:
    x = d.pick(lambda a: 0 < a.size < 2000 and a.ndim > 0)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)
    flags = d.feed(d.array([a.shape[axis]], np.bool_))
    follow(d, grown(d, d.add("Compress", [x, flags], axis=axis))[0], axis)


@family(0.5)
def unique(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype.name in ("float32", "int64") and 0 < a.size < 300 and a.ndim > 0)
    if np.isnan(d.values[x].astype(np.float64)).any():  # onnxruntime's order of NaN loses others
        raise Reject
    grown(d, d.add("Unique", [x], d.one(1, 2, 4), sorted=d.upto(0, 1)))


@family(0.5)
def range_(d: Draft) -> None:
    n = d.feed(np.array(d.upto(1, 9), np.int64))
    bound = d.add("Min", [n, d.const(np.array(12, np.int64))])[0]
    zero, one = (d.const(np.array(v, np.int64)) for v in (0, d.one(1, 2)))
    follow(d, grown(d, d.add("Range", [zero, bound, one]))[0], 0)


@family(0.5)
def top_k_computed(d: Draft) -> None:
    x = d.pick(lambda a: is_float(a) and a.ndim > 0 and 0 < a.size < 2000)
    a = d.values[x]
    if len(np.unique(a.astype(np.float64))) < a.size:
        raise Reject
    k = d.feed(np.array([d.upto(1, a.shape[-1])], np.int64))
    y = grown(d, d.add("TopK", [x, k], 2, axis=-1))[0]
    follow(d, y, a.ndim - 1)


@family(0.4)
def slice_computed(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim > 0 and 0 < a.size < 2000)
    end = d.feed(np.array([d.upto(1, d.shape(x)[0])], np.int64))
    follow(d, grown(d, d.add("Slice", [x, d.ints(0), end, d.ints(0)]))[0], 0)


def follow(d: Draft, y: str, axis: int) -> None:
    """Something that a value of unknown extent goes through."""
    a = d.values[y]
    if a.size == 0 or d.chance(0.4):
        return
    draw = d.rng.random()
    if draw < 0.3 and is_float(a):
        grown(d, d.add(d.word("Relu Sigmoid Neg Abs"), [y]))
    elif draw < 0.6 and a.dtype.name in ("float32", "int64"):
        d.add(d.word("ReduceSum ReduceMax"), [y, d.ints(axis)], keepdims=1)
    elif draw < 0.8:
        grown(d, d.add("Concat", [y, y], axis=axis))
    elif is_float(a):
        grown(d, d.add("Softmax", [y], axis=axis))


@family(0.4)
def suppress(d: Draft) -> None:
    n = d.upto(2, 8)
    corners = d.rng.uniform(0, 1, (1, n, 2))
    boxes = np.concatenate([corners, corners + d.rng.uniform(0.1, 0.6, (1, n, 2))], -1)
    scores = d.rng.permutation(n * 2).reshape(1, 2, n) / (2.0 * n)
    inputs = [d.feed(boxes.astype(np.float32)), d.feed(scores.astype(np.float32)), d.ints(3)]
    inputs += [d.const(np.float32(0.4)), d.const(np.float32(0.1))]
    grown(d, d.add("NonMaxSuppression", inputs))
