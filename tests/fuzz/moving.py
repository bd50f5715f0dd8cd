# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and compute nothing, of every element type."""

from __future__ import annotations

import numpy as np

from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family


def ranked(a: np.ndarray) -> bool:
    """At least one axis."""
    return a.ndim >= 1


def filled(a: np.ndarray) -> bool:
    """At least one axis and one element."""
    return a.ndim >= 1 and a.size > 0


@family(3)
def concat(d: Draft) -> None:
    x = d.pick(ranked)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)

    def fits(b: np.ndarray) -> bool:
        same = b.dtype == a.dtype and b.ndim == a.ndim
        return same and all(
            p == q for i, (p, q) in enumerate(zip(a.shape, b.shape, strict=True)) if i != axis
        )

    names = [x] + [d.pick(fits) for _ in range(d.upto(0, 3))]
    if d.chance(0.3):
        shape = list(a.shape)
        shape[axis] = d.upto(1, 3)
        names.append(d.operand(shape, a.dtype))
    d.rng.shuffle(names)
    d.add("Concat", names, axis=axis if d.chance(0.7) else axis - a.ndim)


@family(2)
def split(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and max(a.shape) > 1)
    a = d.values[x]
    axis = d.one(*[i for i, s in enumerate(a.shape) if s > 1])
    extent = a.shape[axis]
    if d.chance(0.3):
        d.add("Split", [x], 2, axis=axis, num_outputs=2)
        return
    first = d.upto(1, extent - 1)
    sizes = [first, extent - first]
    if extent - first > 1 and d.chance(0.4):
        sizes = [first, 1, extent - first - 1]
    d.add("Split", [x, d.ints(*sizes)], len(sizes), axis=axis)


@family(3)
def slice_(d: Draft) -> None:
    x = d.pick(ranked)
    a = d.values[x]
    axes = sorted(d.rng.permutation(a.ndim)[: d.upto(1, min(2, a.ndim))].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = a.shape[axis]
        step = d.one(1, 1, 1, 2, -1, -2)
        low, high = d.upto(-extent - 1, extent + 1), d.upto(-extent - 1, extent + 2)
        high = d.one(high, -(10**9)) if step < 0 else d.one(high, 2**62, 2**31 - 1)
        if len(range(*slice(low, high, step).indices(extent))) == 0 and extent:
            raise Reject
        starts.append(low)
        ends.append(high)
        steps.append(step)
    d.add("Slice", [x, d.ints(*starts), d.ints(*ends), d.ints(*axes), d.ints(*steps)])


@family(3)
def reshape(d: Draft) -> None:
    x = d.pick()
    a = d.values[x]
    if a.size == 0:
        d.add("Reshape", [x, d.ints(*a.shape[::-1])], allowzero=1)
        return
    rest, shape = a.size, []
    for _ in range(d.upto(0, 3)):
        shape.append(d.one(*[q for q in range(1, min(rest, 40) + 1) if rest % q == 0]))
        rest //= shape[-1]
    shape.append(rest)
    d.rng.shuffle(shape)
    if d.chance(0.3):
        shape[d.upto(0, len(shape) - 1)] = -1
    d.add("Reshape", [x, d.ints(*shape)])


@family(2)
def axes(d: Draft) -> None:
    x = d.pick()
    a = d.values[x]
    op = d.word("Unsqueeze Squeeze Flatten")
    if op == "Unsqueeze" and a.ndim < 5:
        d.add(op, [x, d.ints(d.upto(-a.ndim - 1, a.ndim))])
    elif op == "Squeeze" and 1 in a.shape:
        ones = [i for i, s in enumerate(a.shape) if s == 1]
        d.add(op, [x] if d.chance(0.3) else [x, d.ints(d.one(*ones))])
    else:
        d.add("Flatten", [x], axis=d.upto(0, a.ndim))


@family(3)
def transpose(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim >= 2)
    perm = d.rng.permutation(d.values[x].ndim).tolist()
    d.add("Transpose", [x], perm=perm) if d.chance(0.8) else d.add("Transpose", [x])


@family(1.5)
def pad(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    mode = d.word("constant constant reflect edge wrap" if d.opset >= 19 else "constant edge")
    amounts = [d.upto(0, min(2, s - 1)) for s in (*a.shape, *a.shape)]
    if mode == "constant" and d.chance(0.3):
        amounts = [p if d.chance(0.6) else -d.upto(0, 1) for p in amounts]
    inputs = [x, d.ints(*amounts)]
    if mode == "constant" and d.chance(0.6):
        inputs.append(d.const(np.array(d.one(0, 1, 2)).astype(a.dtype)))
    d.add("Pad", inputs, mode=mode)


@family(1.5)
def gather(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)
    extent = a.shape[axis]
    shape = d.one([], [1], [3], [2, 2])
    drawn = np.asarray(d.rng.integers(-extent, extent, shape))
    drawn = drawn.astype(d.one(np.int64, np.int64, np.int32))
    d.add("Gather", [x, d.const(drawn) if d.chance(0.6) else d.feed(drawn)], axis=axis)


@family(0.8)
def gather_computed(d: Draft) -> None:
    x = d.pick(filled)
    i = d.pick(lambda a: a.dtype == np.int64 and a.size > 0)
    a, b = d.values[x], d.values[i]
    axis = d.upto(0, a.ndim - 1)
    if b.max() >= a.shape[axis] or b.min() < -a.shape[axis]:
        raise Reject
    d.add("Gather", [x, i], axis=axis)


@family(0.8)
def gather_elements(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)
    shape = [d.upto(1, s) for s in a.shape]
    shape[axis] = d.upto(1, 4)
    drawn = np.asarray(d.rng.integers(-a.shape[axis], a.shape[axis], shape))
    i = d.const(drawn) if d.chance(0.5) else d.feed(drawn)
    d.add("GatherElements", [x, i], axis=axis)


@family(0.8)
def gather_nd(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    batch = d.upto(0, min(1, a.ndim - 1))
    depth = d.upto(1, a.ndim - batch)
    lead = [*a.shape[:batch], d.upto(1, 3)]
    drawn = np.stack([d.rng.integers(-s, s, lead) for s in a.shape[batch : batch + depth]], -1)
    i = d.const(drawn) if d.chance(0.5) else d.feed(drawn)
    d.add("GatherND", [x, i], batch_dims=batch)


@family(0.8)
def scatter_nd(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    n = d.upto(1, a.shape[0])
    index = d.rng.permutation(a.shape[0])[:n].astype(np.int64).reshape(-1, 1)
    i = d.const(index) if d.chance(0.5) else d.feed(index)
    updates = d.operand([n, *a.shape[1:]], a.dtype)
    reduced = is_float(a) or a.dtype.name in ("int32", "int64")
    reduction = d.word("none none add mul max min") if reduced and d.chance(0.6) else "none"
    d.add("ScatterND", [x, i, updates], reduction=reduction)


@family(0.8)
def scatter_elements(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    axis = d.upto(0, a.ndim - 1)
    shape = [d.upto(1, s) for s in a.shape]
    order = [d.rng.permutation(a.shape[axis]) for _ in range(a.size)]
    count = int(np.prod(shape)) // shape[axis]
    rows = np.stack([o[: shape[axis]] for o in order[:count]])
    rest = [s for i, s in enumerate(shape) if i != axis]
    index = np.moveaxis(rows.reshape(*rest, shape[axis]), -1, axis).astype(np.int64)
    i = d.const(index) if d.chance(0.5) else d.feed(np.ascontiguousarray(index))
    reduced = is_float(a) or a.dtype.name in ("int32", "int64")
    reduction = d.word("none none add mul max min") if reduced and d.chance(0.6) else "none"
    d.add("ScatterElements", [x, i, d.operand(shape, a.dtype)], axis=axis, reduction=reduction)


@family(1)
def expand(d: Draft) -> None:
    x = d.pick(lambda a: a.size < 3000)
    a = d.values[x]
    shape = [d.one(2, 3) if s == 1 and d.chance(0.7) else s for s in a.shape]
    if d.chance(0.3) and a.ndim < 4:
        shape = [2, *shape]
    d.add("Expand", [x, d.ints(*shape)])


@family(1)
def tile(d: Draft) -> None:
    x = d.pick(lambda a: a.size < 3000 and a.ndim > 0)
    d.add("Tile", [x, d.ints(*[d.one(1, 1, 2, 3) for _ in d.shape(x)])])


@family(1)
def space(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim == 4 and a.size > 0 and is_float(a))
    _n, c, h, w = d.shape(x)
    if c % 4 == 0 and d.chance(0.6):
        d.add("DepthToSpace", [x], blocksize=2, mode=d.one("DCR", "CRD"))
    elif h % 2 == 0 and w % 2 == 0:
        d.add("SpaceToDepth", [x], blocksize=2)


@family(0.5)
def trilu(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim >= 2)
    inputs = [x, d.const(np.array(d.upto(-2, 2), np.int64))] if d.chance(0.6) else [x]
    d.add("Trilu", inputs, upper=d.upto(0, 1))


@family(0.5)
def reverse_sequence(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim >= 2 and a.size > 0 and is_float(a))
    time, batch = d.one((0, 1), (1, 0))
    shape = d.shape(x)
    lengths = d.rng.integers(1, shape[time] + 1, shape[batch]).astype(np.int64)
    i = d.const(lengths) if d.chance(0.5) else d.feed(lengths)
    d.add("ReverseSequence", [x, i], time_axis=time, batch_axis=batch)


@family(0.5)
def one_hot(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype.name in ("int64", "int32") and a.ndim and 0 < a.size < 500)
    values = d.const(np.array([0, 1]).astype(d.one(np.float32, np.int64, np.int32)))
    depth = d.const(np.array(d.upto(3, 9), np.int64))
    d.add("OneHot", [x, depth, values], axis=d.one(-1, 0))


@family(0.6)
def shapes(d: Draft) -> None:
    """What only asks for shapes: folded, all of it."""
    x = d.pick(ranked)
    a = d.values[x]
    s = d.add(d.word("Shape Shape Size"), [x])[0]
    if d.values[s].ndim and d.chance(0.5):
        picked = d.add("Gather", [s, d.ints(0)])[0]
        y = d.add("ConstantOfShape", [picked])[0]
        d.add("Concat", [y, y], axis=0)
    elif d.values[s].ndim and a.size:
        d.add("Expand", [d.operand([1] * a.ndim, a.dtype), s])


@family(0.3)
def eye(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim == 2)
    d.add("EyeLike", [x], k=d.upto(-1, 2), dtype=d.one(1, 7, 6))


@family(0.4)
def center_crop_pad(d: Draft) -> None:
    x = d.pick(filled)
    a = d.values[x]
    d.add("CenterCropPad", [x, d.ints(*[max(1, s + d.upto(-2, 2)) for s in a.shape])])
