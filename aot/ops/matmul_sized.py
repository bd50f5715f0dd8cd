# SPDX-License-Identifier: Apache-2.0
"""Products of float32 along a dynamic dimension: the kernel stops at the true size of a run.

Before: scores = FillPadding(MatMul(q, k), n, 0)     After: one call, which reads n columns of k
        y = MatMul(FillPadding(p, n, 0), v)                 one call, which reads n rows of v

The sums are those of the whole product, bit by bit, because what is left out is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from aot.ir.dtypes import F32
from aot.ir.graph_nodes import DYNAMIC
from aot.ops.matmul import contiguous_rows, folds, record_views
from aot.ops.matmul_views import turned
from aot.ops.registry import portable
from aot.vendor import OP, Recorder, wildcard
from aot.vendor.match import Match, NodeRef
from aot.vendor.strided_copy import split_at

#: The axis that has a true size: columns of the result, or the summands of every sum.
COLUMNS, SUMMANDS = 1, 2


def fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Whether zeros are filled in along the last axis, between matrices that a run computes."""
    filled: NodeRef = m.filled
    yield m.a.dtype is F32, f"dtype {m.a.dtype} (needs float32)"
    yield min(m.a.rank, m.b.rank) >= 2, f"ranks {m.a.rank} and {m.b.rank} (needs matrices)"
    yield not (m.a.is_const or m.b.is_const), "constant weights are packed instead"
    rank = max(m.a.rank, m.b.rank) if filled is m.root else m.a.rank
    axis = filled.attr("axis", 0)
    yield axis == rank - 1, f"padding along axis {axis} of {rank} (needs the last)"
    yield m.fill.is_const and not m.fill.data.any(), "padding that is not 0"
    yield contiguous_rows(m), "a transpose moves the rows' elements apart"
    yield from folds(m)


def to_summands(c: Recorder, m: Match) -> None:
    """Record the filling of a, in place where nothing else reads a, and the product of n rows."""
    outer, axis, inner = split_at(m.a.shape, m.a.rank - 1)
    filled = c.temp(m.a.shape, F32, name="filled")
    c.call(
        "aot_tail",
        c.write(filled),
        m.a,
        m.n,
        m.fill,
        c.params(outer=outer, axis=axis, inner=inner),
        instance={"E": F32.nbytes},
        inplace=[(filled, m.a)],
        header="aot_dynamic.h",
    )
    record_views(c, m, left=filled, size=m.n, sized=SUMMANDS)


_A, _B, _N, _FILL = map(wildcard, ("a", "b", "n", "fill"))
_FILLED = {"_domain": DYNAMIC, "_outputs": ["filled"]}
_PRODUCT = OP.MatMul(turned("ta", _A), turned("tb", _B), _outputs=["product"])
# The rows of a and the columns of b have n elements that count.
_SUMMANDS = OP.MatMul(
    OP.FillPadding(_A, _N, _FILL, **_FILLED), turned("tb", _B), _outputs=["product"]
)
for _name, _graph, _lower in (
    # n columns have a meaning; the others become 0.
    (
        "matmul_columns",
        OP.FillPadding(_PRODUCT, _N, _FILL, **_FILLED),
        lambda c, m: record_views(c, m, size=m.n, sized=COLUMNS),
    ),
    ("matmul_summands", _SUMMANDS, to_summands),
    ("matmul_summands_ty", OP.Transpose(_SUMMANDS, _outputs=["ty"]), to_summands),
):
    portable.declare(_name, _graph, fits, lower=_lower)
