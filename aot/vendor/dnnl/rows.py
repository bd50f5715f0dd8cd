# SPDX-License-Identifier: Apache-2.0
"""Along one axis: softmax, layer normalisation, reductions."""

from __future__ import annotations

import math

import numpy as np

from aot.vendor import F32, OP, Match, Recorder, wildcard
from aot.vendor.dnnl.base import (
    Checks,
    declare,
    floats,
    record,
    record_matmul,
    split_at,
    type_of,
)


def softmax_fits(m: Match) -> Checks:
    """Check types, a rank of at least 1, and that a LogSoftmax has more than one element to
    sum.
    """
    yield from floats(m.x)
    yield m.x.rank > 0, "a scalar has no axis"
    # One element has the probability 1, and its logarithm must be exactly 0.
    if m.root.op_type == "LogSoftmax" and m.x.rank:
        extent = m.x.shape[int(m.root.attr("axis", -1)) % m.x.rank]
        yield extent != 1, "the axis has one element: oneDNN's logarithm of 1 is 1.4e-6"


def record_softmax(c: Recorder, m: Match) -> None:
    """Record the primitive over [outer, axis, inner] and its call; y may share the
    memory of x.
    """
    axis = int(m.root.attr("axis", -1)) % m.x.rank
    outer, extent, inner = split_at(m.x.shape, axis, axis + 1)
    sizes = {"outer": outer, "axis": extent, "inner": inner}
    fields = {"type": type_of(m.x), **sizes, "log": m.root.op_type == "LogSoftmax"}
    macs, place = math.prod(m.x.shape), [(m.y, m.x)]
    record(c, "aot_dnnl_softmax", fields, [m.y, m.x], macs, inplace=place)


def row_fits(m: Match) -> Checks:
    """Check a LayerNormalization of floats: only output 0 is used; scale and shift are constants.

    Both have the shape of the normalised axes.
    """
    yield from floats(m.x, m.scale, m.shift)
    yield m.root.first_alone
    axis = int(m.root.attr("axis", -1)) % max(m.x.rank, 1)
    for name in ("scale", "shift"):
        v = m.values[name]
        if v is not None:
            yield v.is_const, f"{name} is computed at run time (needs a constant)"
            whole = v.shape == m.x.shape[axis:]
            yield whole, f"{name} {list(v.shape)} is not {list(m.x.shape[axis:])}"


def to_layernorm(c: Recorder, m: Match) -> None:
    """Record the primitive over [outer, inner] and its call; an absent shift becomes zeros."""
    axis = int(m.root.attr("axis", -1)) % m.x.rank
    outer, inner, _ = split_at(m.x.shape, axis, m.x.rank)
    scale = np.asarray(m.scale.data, np.float32).reshape(-1)
    given = None if m.shift is None else np.asarray(m.shift.data, np.float32)
    shift = np.zeros_like(scale) if given is None else given.reshape(-1)
    epsilon = float(np.float32(m.root.attr("epsilon", 1e-5)))
    fields = {"type": type_of(m.x), "outer": outer, "inner": inner, "epsilon": epsilon}
    consts = c.const(scale, "scale"), c.const(shift, "shift")
    record(c, "aot_dnnl_layernorm", fields, [m.y, m.x], 3 * outer * inner, consts)


#: The library adds one term after the other, so long sums lose digits.
MOST_SUMMED = 4096
KINDS = {"ReduceMean": 0, "ReduceSum": 1, "ReduceMax": 2, "ReduceMin": 3}


def _axes(m: Match) -> list[int]:
    """The reduced axes in order; all of them where none are given."""
    if m.axes is None or not math.prod(m.axes.shape):
        return list(range(m.x.rank))
    return sorted({int(a) % m.x.rank for a in np.asarray(m.axes.data).reshape(-1)})


def reduction_fits(m: Match) -> Checks:
    """Check types and that the axes are known, neighbours, and hold more than one element.

    A sum has at most `MOST_SUMMED` terms, because the library adds them in one float32.
    """
    yield from floats(m.x)
    known = m.axes is None or m.axes.is_const
    yield known, "axes are computed at run time (need a constant)"
    # No axes mean all of them, unless the attribute makes the node a copy.
    empty = m.axes is None or not math.prod(m.axes.shape)
    copies = empty and bool(m.root.attr("noop_with_empty_axes", 0))
    yield not copies and m.x.rank > 0, "no axes to reduce"
    if known and not copies and m.x.rank:
        axes = _axes(m)
        yield axes[-1] - axes[0] + 1 == len(axes), f"axes {axes} (need neighbours)"
        extent = math.prod(m.x.shape[axes[0] : axes[-1] + 1])
        yield extent > 1, f"axes {axes} of extent 1: nothing to reduce"
        exact = m.root.op_type in ("ReduceMax", "ReduceMin") or extent <= MOST_SUMMED
        yield exact, f"{extent} terms in one float32 sum (at most {MOST_SUMMED})"


def record_reduction(c: Recorder, m: Match) -> None:
    """Record the primitive over [outer, axis, inner], the reduced axes as one, and its call.

    A sum or mean of rows is a row of ones or of 1 / axis times x, because the library has fast
    code for reductions along the last axis only.
    """
    axes, op_type = _axes(m), m.root.op_type
    outer, extent, inner = split_at(m.x.shape, axes[0], axes[-1] + 1)
    if inner > 1 and m.x.dtype is F32 and op_type in ("ReduceSum", "ReduceMean"):
        row = np.full((1, 1, extent), 1 if op_type == "ReduceSum" else 1 / extent, np.float32)
        shapes = row.shape, (outer, extent, inner), (outer, 1, inner)
        record_matmul(c, m.y, c.const(row, "row"), m.x, *shapes)
        return
    sizes = {"outer": outer, "axis": extent, "inner": inner}
    fields = {"type": type_of(m.x), **sizes, "kind": KINDS[op_type]}
    record(c, "aot_dnnl_reduce", fields, [m.y, m.x], math.prod(m.x.shape))


_x, _affine = wildcard("x"), map(wildcard, ("scale", "shift"))
for _name, _graph, _fits, _lower in (
    *((n, getattr(OP, n)(_x), softmax_fits, record_softmax) for n in ("Softmax", "LogSoftmax")),
    (
        "LayerNormalization",
        OP.LayerNormalization(_x, *_affine, _optional=1),
        row_fits,
        to_layernorm,
    ),
    *(
        (n, getattr(OP, n)(_x, wildcard("axes"), _optional=1), reduction_fits, record_reduction)
        for n in KINDS
    ),
):
    declare(_name.lower(), _graph, _fits, lower=_lower)
