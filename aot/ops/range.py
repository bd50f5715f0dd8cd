# SPDX-License-Identifier: Apache-2.0
"""Range: its result is as long as its operands say, so the compiler computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, original_name
from aot.ir.operators import DataSized, operator
from aot.shapes.cures import Sizing, sizings, zeros
from aot.shapes.dynamic.dims import INT64, DynamicDims, no_bound
from aot.shapes.dynamic.rules import dynamic, needed
from aot.shapes.evaluate import Invalid, evaluates, need
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup
from aot.shapes.reference import Inputs, Unknown

#: More elements stay for the run: a constant of them would fill the bundle.
MOST_ELEMENTS = 1 << 24
DOUBLE = 11


operator(
    "Range",
    "start limit delta",
    traits=[DataSized()],
    rules=[sizings.by(Sizing(data=0, real=True, examples={0: zeros}))],
)


@evaluates("Range")
def numbers(node: ir.Node, inputs: Inputs) -> list[Array]:
    """start, start + delta and so on below (or above) limit, if all are constants.

    Invalid for delta 0; Unknown for more than MOST_ELEMENTS elements, which would fill the bundle.
    """
    start, limit, delta = (need(inputs, i).reshape(()) for i in range(3))
    if delta == 0:
        raise Invalid("delta is 0")
    count = max(0, int(np.ceil((limit.astype(np.float64) - start) / delta)))
    if start.dtype.kind in "iu":
        count = max(0, -(-(int(limit) - int(start)) // int(delta)))
    if count > MOST_ELEMENTS:
        raise Unknown
    return [(start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)]


@dynamic("Range")
def range_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Range of ends read at run time by start + i * delta, up to its upper bound.

    UnsupportedError if the number of elements has no upper bound.
    """
    start, limit, delta = (needed(node, i) for i in range(3))
    kind = int(start.dtype or 0)
    parts = [_one(x, node, v) for v in (start, limit, delta)]
    n = _plain_count(x, node)
    span = x.interval(n)
    bound = int(span.high[0]) if span is not None and span.high[0] <= MAX_ELEMENTS else -1
    if bound < 0:
        bound = _range_bound(x, node)
    if n is None:
        n = _range_count(x, node, parts, kind)
        # Intervals may be rough: no count may be more than there is memory for.
        n = x.smallest(node, n, x.ints(node, [bound]))
        n = x.largest(node, n, x.ints(node, [0]))
    steps = x.const(node, np.arange(bound).astype(parts[0].dtype.numpy()), start)  # type: ignore[union-attr]
    typed = [(kind, (bound,))]
    moved = x.node(node, "Mul", [steps, parts[2]], typed)[0]
    y = x.node(node, "Add", [moved, parts[0]], typed)[0]
    known = span is not None and span.low[0] == span.high[0]
    x.substitute(node, y, {} if known else {0: x.new(n, bound)})


def _plain_count(x: DynamicDims, node: ir.Node) -> ir.Value | None:
    """Limit - start of an integer Range in steps of 1, if that is surely not negative; else
    None.
    """
    start, limit, delta = (needed(node, i) for i in range(3))
    known = lookup(delta, x.sweep.partial_values)
    if known is None or not known.full or known.data.ravel()[0] != 1 or limit.dtype is None:
        return None
    if limit.dtype.numpy().kind not in "iu":
        return None
    span = x.sub(node, x.as_vector(node, limit), x.as_vector(node, start))
    limits = x.interval(span)
    return span if limits is not None and limits.low[0] >= 0 else None


def _one(x: DynamicDims, node: ir.Node, value: ir.Value) -> ir.Value:
    """A scalar as a vector of one element, by a Reshape in front of `node`."""
    where = x.ints(node, [1])
    return x.node(node, "Reshape", [value, where], [(int(value.dtype or 0), (1,))])[0]


def _range_bound(x: DynamicDims, node: ir.Node) -> int:
    """The largest number of elements that a Range can have, from the intervals of its operands.

    UnsupportedError if one of them is unbounded, or the step may have either sign.
    """
    start, limit, delta = (x.interval(needed(node, i)) for i in range(3))
    names = [original_name(needed(node, i)) for i in range(3)]
    if start is None or limit is None or delta is None:
        raise no_bound(node, f'it goes from "{names[0]}" to "{names[1]}" in steps of "{names[2]}"')
    low, high = float(delta.low.ravel()[0]), float(delta.high.ravel()[0])
    if low > 0:
        span = float(limit.high.ravel()[0]) - float(start.low.ravel()[0])
        count = np.ceil(span / low)
    elif high < 0:
        span = float(start.high.ravel()[0]) - float(limit.low.ravel()[0])
        count = np.ceil(span / -high)
    else:
        raise no_bound(node, f'the step "{names[2]}" can be of either sign')
    # Written so that infinity and NaN are refused, too.
    if not count <= MAX_ELEMENTS:
        raise no_bound(node, f'"{names[0]}" and "{names[1]}" can be any distance apart')
    return max(0, int(count))


def _range_count(x: DynamicDims, node: ir.Node, parts: Sequence[ir.Value], kind: int) -> ir.Value:
    """The number of elements ceil((limit - start) / delta) as int64 [1], computed in float64.

    `parts` are the three operands as vectors of the type `kind`; the result may be negative.
    """
    start, limit, delta = parts
    span = x.node(node, "Sub", [limit, start], [(kind, (1,))])[0]
    double = [(DOUBLE, (1,))]
    ends = [x.node(node, "Cast", [v], double, to=DOUBLE)[0] for v in (span, delta)]
    whole = x.node(node, "Ceil", x.node(node, "Div", ends, double), double)
    return x.node(node, "Cast", whole, [(INT64, (1,))], to=INT64)[0]
