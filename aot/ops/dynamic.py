# SPDX-License-Identifier: Apache-2.0
"""What computes with sizes known at run time only; `aot.shapes.dynamic` puts these in the graph.

Tensors are stored at their bounds. `n` is an int64 vector of one element, the size of an axis;
`shape` an int64 vector of all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import BOOL, F32, F64, S64, DType
from aot.ir.graph_nodes import DYNAMIC, attribute, maker_of, shape_of
from aot.load.encode_strings import Strings, encodes
from aot.ops.kernels import INTS, SIGNED
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, zero_padding
from aot.shapes.dynamic.rows import made_by
from aot.shapes.dynamic.rules import needed
from aot.shapes.interval_analysis import gathers, positions
from aot.shapes.symbolic import polynomials
from aot.vendor import Layout, Match, NodeRef, Recorder, ValueRef
from aot.vendor.strided_copy import split_at

HEADER = "aot_dynamic.h"
MOST_AXES = 8

nonzero = op(
    "NonZero",
    "x",
    "y n",
    domain=DYNAMIC,
    rules=[positions.by(lambda node: (0, max(shape_of(needed(node, 0)), default=1)))],
)
fill_padding = op(
    "FillPadding", "x n fill", domain=DYNAMIC, axis=0, rules=[gathers.by(lambda node: (0, 2))]
)
compact = op("Compact", "x shape", domain=DYNAMIC)
spread = op("Spread", "x shape", domain=DYNAMIC)
require_equal = op(
    "RequireEqual",
    "a b",
    domain=DYNAMIC,
    lower=lambda c, m: c.call("aot_require_equal", m.y, m.a, m.b, header=HEADER, status=True),
)
inside = op("Within", "x", domain=DYNAMIC, most=0)
from_start = op("FromStart", "x n", domain=DYNAMIC, padded=0)
join = op(
    "Join",
    "xs*",
    domain=DYNAMIC,
    axis=0,
    rules=[gathers.by(lambda node: range(1, len(node.inputs)))],
)
append = op("Append", "x rows n m", domain=DYNAMIC, axis=0, rules=[gathers.by(lambda node: (0, 1))])
cut = op("Cut", "x shape starts ends steps", "y out", domain=DYNAMIC, axes=())
unique = op("Unique", "x m", "y first inverse counts n", domain=DYNAMIC, axis=0, sorted=1)
nms = op(
    "NonMaxSuppression",
    "boxes scores most? iou? threshold? shape?",
    "y n",
    domain=DYNAMIC,
    types=(F32,),
    typed="boxes scores",
    center_point_box=0,
    rules=[positions.by(lambda node: (0, max(shape_of(needed(node, 1)))))],
)


# The kernels' parameters have room for so many axes.
for _pattern in (nonzero, compact, cut):
    _pattern.check(lambda m: [(m.x.rank <= MOST_AXES, f"rank {m.x.rank} (at most {MOST_AXES})")])


def _eight(values: Sequence[int]) -> tuple[int, ...]:
    """`values` followed by zeros, eight numbers together."""
    return (*values, *[0] * (MOST_AXES - len(values)))


@nonzero.lower
def nonzero_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_nonzero: y [rank, bound] and the number n of its real columns."""
    params = c.params(rank=m.x.rank, dims=_eight(m.x.shape), count=math.prod(m.x.shape))
    c.call("aot_nonzero", m.y, m.n, m.x, params, header=HEADER)


@fill_padding.layouts
def fill_padding_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: a blocked input stays blocked unless channels are dynamic; pad lanes may get
    `fill`.
    """
    if not incoming["x"].blocked or m.axis == 1:
        return {}
    return {"x": incoming["x"], "y": Layout(incoming["x"].block)}


@fill_padding.lower
def fill_padding_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_tail: elements from index n of `axis` on become `fill`, in place where
    possible.
    """
    outer, axis, inner = split_at(m.y.layout.physical(m.y.shape), m.axis)
    params = c.params(outer=outer, axis=axis, inner=inner)
    c.call(
        "aot_tail",
        m.y,
        m.x,
        m.n,
        m.fill,
        params,
        instance={"E": m.x.dtype.nbytes},
        inplace=[(m.y, m.x)],
        header=HEADER,
    )


@compact.lower
def compact_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_compact: the real elements, of sizes `shape`, move together at the front."""
    params = c.params(rank=m.x.rank, dims=_eight(m.x.shape))
    c.call(
        "aot_compact",
        m.y,
        m.x,
        m.shape,
        params,
        instance={"E": m.x.dtype.nbytes},
        inplace=[(m.y, m.x)],
        header=HEADER,
    )


@spread.check
def spread_axes(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that y has no more axes than the kernel's parameters have room for."""
    yield m.y.rank <= MOST_AXES, f"rank {m.y.rank} (at most {MOST_AXES})"


@spread.lower
def spread_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_spread: elements that lie together move to their places at the upper bounds."""
    params = c.params(rank=m.y.rank, dims=_eight(m.y.shape))
    instance = {"E": m.x.dtype.nbytes}
    c.call("aot_spread", m.y, m.x, m.shape, params, instance=instance, header=HEADER)


@inside.infer
def inside_types(
    node: NodeRef, inputs: tuple[ValueRef | None, ...]
) -> list[tuple[tuple[int, ...], DType]]:
    """The type of Within's result: one int64."""
    return [((1,), S64)]


@inside.lower
def inside_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_within: y is x; the run fails if x is beyond `most`."""
    params = c.params(most=int(m.most))
    c.call("aot_within", m.y, m.x, params, inplace=[(m.y, m.x)], header=HEADER, status=True)


@from_start.lower
def from_start_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_from_start: y is x counted from the start; the run fails outside of n elements."""
    params = c.params(count=math.prod(m.x.shape), depth=m.n.shape[0])
    c.call(
        "aot_from_start",
        *(m.y, m.x, m.n, params),
        instance={"I": m.x.dtype.nbytes, "PADDED": m.padded},
        inplace=[(m.y, m.x)],
        header=HEADER,
        status=True,
    )


@join.lower
def join_to_kernel(c: Recorder, m: Match) -> None:
    """Record one call of aot_join per part, which puts it behind the parts before it.

    The first input holds the sizes of the others along the axis.
    """
    sizes, *parts = m.xs
    for i, x in enumerate(parts):
        outer, to, inner = split_at(m.y.shape, m.axis)
        params = c.params(outer=outer, to=to, part=x.shape[m.axis], inner=inner, index=i)
        y = c.update(m.y) if i else m.y
        instance = {"E": x.dtype.nbytes}
        c.call("aot_join", y, x, sizes, params, instance=instance, header=HEADER)


@append.lower
def append_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_append: the first `m` of `rows` follow the first `n` of x, in place where
    possible.
    """
    outer, to, inner = split_at(m.y.shape, m.axis)
    params = c.params(outer=outer, to=to, part=m.rows.shape[m.axis], inner=inner)
    operands = (m.y, m.x, m.rows, m.n, m.m, params)
    instance = {"E": m.x.dtype.nbytes}
    c.call("aot_append", *operands, instance=instance, inplace=[(m.y, m.x)], header=HEADER)


@zero_padding("Append", DYNAMIC)
def zeros_behind(
    x: DynamicDims, before: ir.Node, value: ir.Value, axes: Sequence[int]
) -> ir.Value | None:
    """`value`, the result of an Append, if zeros are behind its new rows; None if that is not sure.

    It is so where zeros were behind the rows that the new ones follow.
    """
    node = maker_of(value)
    source, own = node.inputs[0], x.run_sizes(value)
    spread = source is not None and (source in x.kept or made_by(source, "Spread"))
    return value if spread and list(own) == [attribute(node, "axis")] else None


# Batch, class and box: the scores have all three as axes.
gathers("Compact Spread Cut Unique", DYNAMIC)(lambda node: (0,))
polynomials("RequireEqual Within", DYNAMIC)(lambda terms, node: terms.of(needed(node, 0)))


@cut.lower
def cut_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_cut: a Slice of the real elements, with its sizes at run time in `out`."""
    axes = tuple(int(a) for a in m.axes)
    params = c.params(
        rank=m.x.rank,
        sliced=len(axes),
        axes=_eight(axes),
        bounds=_eight(m.x.shape),
        dims=_eight(m.y.shape),
    )
    out = m.out or c.temp((m.x.rank,), S64, name="extents")
    operands = (m.y, out, m.x, m.shape, m.starts, m.ends, m.steps, params)
    c.call("aot_cut", *operands, instance={"E": m.x.dtype.nbytes}, header=HEADER)


@unique.check
def unique_types(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x has a type whose elements the kernel can compare."""
    known = m.x.dtype in (F32, F64, BOOL, *INTS)
    yield known, f"dtype {m.x.dtype} (needs float32, float64, bool or an integer)"


@unique.lower
def unique_to_kernel(c: Recorder, m: Match) -> None:
    """A call of aot_unique on x [outer, axis, inner]: slices along `axis` that differ.

    `m.m`, int64 [1], says how many slices of x are real in this run, `m.n` how many differ. Of the
    results y, first, inverse and counts, those that the node does not have go to temporary
    tensors. Two scratch buffers hold 8 bytes per slice: their order, and their group.
    """
    outer, axis, inner = split_at(m.x.shape, m.axis)
    params = c.params(outer=outer, axis=axis, inner=inner, sorted=int(m.sorted))
    places = [
        v or c.temp((axis,), S64, name=name)
        for v, name in ((m.first, "first"), (m.inverse, "inverse"), (m.counts, "counts"))
    ]
    y = m.y or c.temp(m.x.shape, m.x.dtype, name="values")
    n = m.n or c.temp((1,), S64, name="count")
    scratch = [c.scratch(8 * max(axis, 1), name) for name in ("order", "group")]
    instance = {"E": m.x.dtype.nbytes, "K": _kind(m.x.dtype)}
    operands = (y, *places, n, m.x, m.m, *scratch, params)
    c.call("aot_unique", *operands, instance=instance)


def _kind(dtype: DType) -> int:
    """How the kernel compares elements: 0 unsigned, 1 signed, 2 float."""
    return 2 if dtype in (F32, F64) else int(dtype in SIGNED)


@nms.lower
def nms_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_nms_f32: selected boxes y [bound, 3] and their number n; scratch holds a heap."""
    batch, classes, boxes = m.scores.shape
    params = c.params(
        batch=batch,
        classes=classes,
        boxes=boxes,
        limit=m.y.shape[0] // max(batch * classes, 1),
        center=int(m.center_point_box),
    )
    n = m.n or c.temp((1,), S64, name="count")
    heap = c.scratch(8 * max(boxes, 1), "heap")
    operands = (m.y, n, m.boxes, m.scores, m.most, m.iou, m.threshold, m.shape, heap, params)
    c.call("aot_nms_f32", *operands)


@encodes("FillPadding", DYNAMIC)
def fill_strings(s: Strings, node: ir.Node) -> None:
    """Let a FillPadding of empty strings fill bytes with zeros."""
    edit = s.editor(node)
    edit.set_input(node, 2, edit.const(np.zeros(1, np.uint8), "zero"))


@encodes("Compact", DYNAMIC)
def compact_strings(s: Strings, node: ir.Node) -> None:
    """Let the shape that a Compact of encoded strings reads end in the bytes of a string."""
    edit = s.editor(node)
    edit.set_input(node, 1, s.longer(edit, node, needed(node, 1)))
