# SPDX-License-Identifier: Apache-2.0
"""Broadcasting on stored shapes: collapsed iteration spaces for the elementwise kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir import layout as lay
from aot.ir.rows import Planes, Rowwise
from aot.ir.splits import ELEMENTS, PartField, Split
from aot.vendor import Handle, Recorder, UnsupportedError, ValueRef
from aot.vendor.by_rows import by_elements, has_rows

Shape = tuple[int, ...]
Operand = tuple["ValueRef | Handle", Shape]  # what to pass, and its stored shape
DIMS = 6  # AOT_BROADCAST_DIMS of runtime_c/kernels/aot_broadcast.h


@dataclass(frozen=True, slots=True)
class Space:
    """An iteration space of DIMS axes, outermost first, and each operand's element strides.

    Strides are 0 where an operand is broadcast; the innermost ones are 0 or 1.
    """

    dims: Shape
    strides: tuple[Shape, ...]

    def inner(self, operand: int) -> int:
        """1 if the operand is contiguous along the innermost axis, 0 if it is broadcast."""
        return self.strides[operand][-1]

    def covers(self, operand: int) -> bool:
        """Whether the operand has every element of the result (so may share its memory)."""
        return all(s or d == 1 for s, d in zip(self.strides[operand], self.dims, strict=True))

    def splits(self, made: int, *sizes: int) -> tuple[Split, ...]:
        """How threads share a kernel over the space: by the outermost axis longer than 1.

        An element has `made` bytes in the result, argument 0, and so many in each operand.
        """
        axis = next((i for i, n in enumerate(self.dims) if n > 1), DIMS - 1)
        steps = [size * s[axis] for size, s in zip(sizes, self.strides, strict=True)]
        field = PartField("dims", "count", index=axis)
        moves = enumerate([made * math.prod(self.dims[axis + 1 :]), *steps])
        tile = ELEMENTS if axis == DIMS - 1 else 1
        return (Split(self.dims[axis], (field,), tuple(moves), tile=tile),)


def collapses(out: Shape, operands: Sequence[Shape]) -> Iterator[tuple[bool, str]]:
    """A failed check with the reason if `collapse` finds no space for these shapes; else
    nothing.
    """
    try:
        collapse(out, operands)
    except UnsupportedError as error:
        yield False, error.what


def collapse(out: Shape, operands: Sequence[Shape]) -> Space:
    """The smallest iteration space of `operands` (stored shapes) broadcast to `out`.

    Raises UnsupportedError if more than DIMS axes are left.
    """
    rank = len(out)
    full = [(1,) * (rank - len(s)) + tuple(s) for s in operands]
    strides = [_strides(s) for s in full]
    axes = [a for a in range(rank) if out[a] != 1]
    groups: list[tuple[int, list[int]]] = []
    for a in axes:
        own = [s[a] for s in strides]
        if groups and all(g == o * out[a] for g, o in zip(groups[-1][1], own, strict=True)):
            groups[-1] = (groups[-1][0] * out[a], own)
        else:
            groups.append((out[a], own))
    if len(groups) > DIMS:
        raise UnsupportedError(
            f"broadcasting {', '.join(map(str, operands))} to {out} needs {len(groups)} loops "
            f"(at most {DIMS})"
        )
    # Kernels take 0 or 1 as the steps of the innermost loop: other steps get a loop inside of
    # theirs.
    if groups and any(s > 1 for s in groups[-1][1]):
        groups.append((1, [1] * len(operands)))
    pad = DIMS - len(groups)
    dims = (1,) * pad + tuple(d for d, _ in groups)
    columns = tuple((0,) * pad + tuple(g[1][k] for g in groups) for k in range(len(operands)))
    return Space(dims, columns)


def _strides(shape: Shape) -> Shape:
    """Row-major strides of a stored shape in elements, 0 along axes of size 1."""
    result, step = [], 1
    for d in reversed(shape):
        result.append(0 if d == 1 else step)
        step *= d
    return tuple(reversed(result))


def combined_by_rows(y: Any, space: Space, operands: Sequence[Operand]) -> Rowwise | None:
    """How the kernel makes its result by rows.

    Operands are whole tensors, or the same at every position: numbers, or a number per channel.
    Computed ones of these are needed as a whole.
    """
    if not has_rows(y):
        return None
    full = [k for k in range(len(operands)) if space.covers(k)]
    others = [k for k in range(len(operands)) if k not in full]
    whole = tuple(k + 1 for k in others if not _is_const(operands[k][0]))
    made = (0, *(k + 1 for k in full))
    if full and not whole and math.prod(space.dims[:-1]) == 1:
        numbers = not any(any(space.strides[k]) for k in others)
        return by_elements(y, made, "dims", DIMS - 1) if numbers else None
    _, planes, height, width, *rest = y.layout.physical(y.shape)
    lanes = math.prod(rest)
    at = DIMS - 2 if lanes > 1 else DIMS - 1  # the axis of positions; that of planes is before it
    alike = space.dims == (*(1,) * (at - 1), planes, height * width, *(lanes,) * (DIMS - 1 - at))
    if not (full and alike) or any(space.strides[k][at] for k in others):
        return None
    fields = [("dims", at, str(width)), ("dims", at - 1, "pieces")]
    fields += [("s" + "abc"[k], at - 1, str(width * lanes)) for k in full]
    apart = [Planes(k, planes, width * lanes, "") for k in made]
    apart += [Planes(k + 1, planes, lanes, "") for k in others if space.strides[k][at - 1]]
    fields = fields if planes > 1 else fields[:1]
    return Rowwise(height, made, None, tuple(fields), whole=whole, planes=tuple(apart))


def _is_const(what: ValueRef | Handle) -> bool:
    return isinstance(what, Handle) or what.is_const


def stored(value: ValueRef) -> Shape:
    """The shape in memory of a value, in the layout in which this match sees it."""
    return value.layout.physical(value.shape)


def operand(c: Recorder, value: ValueRef, y: ValueRef) -> tuple[ValueRef | Handle, Shape]:
    """(the argument for `value`, its stored shape), for an operand that is broadcast to `y`.

    With `y` blocked, constants are packed in its layout, and an operand without a channel axis of
    its own is read plain with an innermost axis of 1.
    """
    if not y.layout.blocked:
        return value, value.shape
    full = (1,) * (y.rank - value.rank) + value.shape
    if value.is_const:
        return pack(c, np.asarray(value.data), y)
    if value.layout.blocked:
        return value, stored(value)
    return value, (*full, 1)


def pack(c: Recorder, data: np.ndarray[Any, Any], y: ValueRef) -> tuple[Handle, Shape]:
    """A constant that broadcasts to `y`, stored in y's layout, and its stored shape.

    With y blocked, a constant without channels of its own is stored plain with a last axis of 1.
    """
    if not y.layout.blocked:
        return c.const(data), data.shape
    full = data.reshape((1,) * (y.rank - data.ndim) + data.shape)
    if full.shape[1] == 1:
        return c.const(data), (*full.shape, 1)
    return c.const(lay.to_physical(full, y.layout)), y.layout.physical(full.shape)
