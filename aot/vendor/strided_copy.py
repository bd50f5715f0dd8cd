# SPDX-License-Identifier: Apache-2.0
"""Data movement as strided copies: axes are collapsed first, then the cheapest kernel is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aot.errors import UnsupportedError
from aot.ir.rows import Rowwise
from aot.vendor.arguments import Used
from aot.vendor.layouts import is_channels_last
from aot.vendor.match import ValueRef
from aot.vendor.recorder import Recorder

Shape = tuple[int, ...]
AXES = 8  # loops of the strided kernels
_LIMIT = 2**31 - 1  # offsets in elements are int32 in the kernels' parameters


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop of a copy: extent, strides of the result and of the source in elements."""

    extent: int
    y: int
    x: int


def stored(value: ValueRef) -> Shape:
    """The shape in memory of a value, in the layout in which this match sees it."""
    return value.layout.physical(value.shape)


def strides(shape: Sequence[int]) -> Shape:
    """The strides, in elements, of a dense array of this shape with the last axis fastest."""
    result, step = [], 1
    for extent in reversed(shape):
        result.append(step)
        step *= extent
    return tuple(reversed(result))


def split_at(shape: Shape, axis: int) -> tuple[int, int, int]:
    """(elements before, along, after) `axis`: products of the sizes there."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def collapse(axes: Sequence[Axis]) -> list[Axis]:
    """The same copy in the fewest loops; `axes` and the result go from the outermost loop to the
    innermost.

    Strides count elements, y is the result and x the source. Axes of extent 1 go, and neighbours
    merge whose strides continue each other in both.
    """
    result: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        last = result[-1] if result else None
        if last and last.y == axis.y * axis.extent and last.x == axis.x * axis.extent:
            result[-1] = Axis(last.extent * axis.extent, axis.y, axis.x)
        else:
            result.append(axis)
    return result


def padded(values: Sequence[int], fill: int, length: int = AXES) -> Shape:
    """`values` right-aligned in `length` places, with `fill` before them.

    Raises UnsupportedError if they are more than that.
    """
    if len(values) > length:
        raise UnsupportedError(f"moving data needs {len(values)} nested loops (at most {length})")
    return (fill,) * (length - len(values)) + tuple(values)


def is_view(axes: Sequence[Axis]) -> bool:
    """Whether a collapsed copy (`collapse`) moves one contiguous run of elements."""
    return not axes or (len(axes) == 1 and axes[0].y == 1 and axes[0].x == 1)


def move(
    c: Recorder,
    y: ValueRef,
    x: ValueRef,
    axes: Sequence[Axis],
    y_offset: int = 0,
    x_offset: int = 0,
    rows: int = 0,
) -> None:
    """Record the copy of `axes` from x (first element x_offset) to y (first element y_offset).

    Where both are images of `rows` rows, the first axis of several elements, rows can be copied one
    by one; the last axis is then channels, those of all in y its stride before.
    Raises UnsupportedError for more elements than an index of the kernel counts.
    """
    elem = y.dtype.nbytes
    if max(math.prod(stored(y)), math.prod(stored(x))) > _LIMIT:
        raise UnsupportedError(f"a move has {math.prod(stored(y))} elements (at most {_LIMIT})")
    to = c.write(y, y_offset * elem)
    if any(a.extent == 0 for a in axes):
        c.copy(to, c.read(x, x_offset * elem), 0)
        return
    down = sum(-a.x * (a.extent - 1) for a in axes if a.x < 0)
    source = c.read(x, x_offset * elem, down * elem)
    loops = collapse(axes)
    if is_view(loops):
        c.copy(to, source, elem * math.prod(a.extent for a in loops))
        return
    inner = next((i for i, a in enumerate(loops) if a.x == 1), None)
    if loops[-1].y == 1 and loops[-1].x > 1 and inner is not None and len(loops) <= AXES:
        rest = [a for i, a in enumerate(loops[:-1]) if i != inner]
        a, b = loops[inner], loops[-1]
        params = c.params(
            dims=padded([r.extent for r in rest], 1, 6),
            ys=padded([r.y for r in rest], 0, 6),
            xs=padded([r.x for r in rest], 0, 6),
            a=a.extent,
            b=b.extent,
            ya=a.y,
            xb=b.x,
        )
        file = "aot_transpose.h"  # also where a vendor's lowering moves data
        c.call("aot_transpose", to, source, params, instance={"E": elem}, header=file)
        return
    rowwise = None
    if rows > 1 and len(loops) <= AXES:
        # The outermost loop goes over rows: a row has as many times fewer steps of it.
        few = (("dims", AXES - len(loops), str(loops[0].extent // rows)),)
        strip = (axes[-1].extent * elem, axes[-2].y * elem)
        rowwise = Rowwise(rows, (0, 1), fields=few, strip=strip)
    _copied(c, to, source, loops, elem, rowwise)


def _copied(
    c: Recorder,
    y: Used,
    x: Used,
    loops: Sequence[Axis],
    elem: int,
    rowwise: Rowwise | None = None,
) -> None:
    """Record aot_strided_copy of collapsed `loops` for elements of `elem` bytes."""
    params = c.params(
        dims=padded([a.extent for a in loops], 1),
        ys=padded([a.y for a in loops], 0),
        xs=padded([a.x for a in loops], 0),
    )
    file = "aot_strided_copy.h"
    c.call("aot_strided_copy", y, x, params, instance={"E": elem}, header=file, rowwise=rowwise)


def copy_bytes(c: Recorder, y: Used, x: Used, axes: Sequence[Axis]) -> None:
    """Record the copy of `axes` of elements of a byte; both operands say where they begin."""
    _copied(c, y, x, collapse(axes), 1)


def view_or_move(c: Recorder, y: ValueRef, x: ValueRef, axes: Sequence[Axis], at: int) -> None:
    """Record a whole result `y` as a copy of `axes` from element `at` of x.

    Where the elements are one contiguous run, y becomes a view of x and nothing is copied.
    """
    loops = collapse(axes)
    if is_view(loops) and all(a.extent for a in axes):
        c.view(y, x, at * y.dtype.nbytes)
    else:
        move(c, y, x, axes, 0, at)


def copy_permuted(c: Recorder, y: ValueRef, x: ValueRef, shape: Shape, perm: Sequence[int]) -> None:
    """Record y as x, seen as `shape`, with its axes in the order `perm`: a view where that moves
    nothing.
    """
    source = strides(shape)
    result = strides([shape[p] for p in perm])
    axes = [Axis(shape[p], s, source[p]) for p, s in zip(perm, result, strict=True)]
    view_or_move(c, y, x, axes, 0)


def copy_part(c: Recorder, y: ValueRef, part: ValueRef, axis: int, start: int) -> None:
    """Record the copy of `part` to y from index `start` of the stored axis `axis` on."""
    own = stored(part)
    ys, xs = strides(stored(y)), strides(own)
    axes = [Axis(n, a, b) for n, a, b in zip(own, ys, xs, strict=True)]
    # Channels that are stored last, of one image: the rows of the parts are those of the whole.
    lone = is_channels_last(y, y.layout) and axis == len(own) - 1 and y.rank == 4
    rows = own[2] if lone and y.shape[0] == 1 else 0
    move(c, y, part, axes, start * ys[axis], rows=rows)
