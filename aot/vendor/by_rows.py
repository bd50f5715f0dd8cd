# SPDX-License-Identifier: Apache-2.0
"""How a call tells that it makes its result row by row: what `c.call(rowwise=…)` takes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from aot.errors import BackendError
from aot.ir.layout import blocked
from aot.ir.rows import Planes, Rowwise, Window
from aot.vendor.match import ValueRef
from aot.vendor.window_shape import WindowShape

#: What a parameter of a kernel may be told: rows of the image, rows of the window above it, 1.
TOLD = ("rows", "above", "one")


def by_elements(y: Any, args: Sequence[int], member: str, index: int = -1) -> Rowwise | None:
    """How a kernel of one operation per element makes its result by rows, piece by piece.

    `args`, the result 0 first, are stored like `y`; field `member` (of an array, [index]) of the
    parameters is how many elements there are. None but for one image of several rows.
    """
    if not has_rows(y):
        return None
    _, count, _, *rest = y.layout.physical(y.shape)
    planes = tuple(Planes(k, count, math.prod(rest), "") for k in args)
    return Rowwise(y.shape[2], tuple(args), fields=((member, index, "piece"),), planes=planes)


def by_windows(
    y: ValueRef, x: ValueRef, window: WindowShape, fields: Mapping[str, str]
) -> Rowwise | None:
    """How a function makes its result, argument 0, from windows of rows of argument 1.

    It is given the rows of x that one row of y needs, one behind the other, as an image of their
    own, and the place of that row. `fields` maps members of the parameters, as `pad[0]`, to one of
    TOLD. None but for one image of several rows whose channels are stored last, where every window
    has a row of the image. Raises BackendError for another word than those of TOLD.
    """
    for member, told in fields.items():
        if told not in TOLD or not re.fullmatch(r"[A-Za-z_]\w*(\[\d+\])?", member, re.ASCII):
            raise BackendError(f"rows: {member!r} is told {told!r} (needs one of {TOLD})")
    ends = (x, y)
    if not all(has_rows(v) and v.layout == blocked(v.shape[1]) for v in ends):
        return None
    # A window may have axes before the rows, of extent 1.
    sizes = (axis[-2] for axis in window.widened(2).axes())
    taps, stride, dilation, before, _ = sizes
    made = Window(1, x.shape[2], taps, stride, dilation, before)
    # A library may take an image without rows for one that has no windows, and write nothing.
    if not all(made.rows(row) for row in range(y.shape[2])):
        return None
    named = ((m.partition("["), told) for m, told in fields.items())
    found = tuple((n, int(i[:-1]) if i else -1, told) for (n, _, i), told in named)
    return Rowwise(y.shape[2], (0,), made, found, together=True)


def has_rows(value: Any) -> bool:
    """Whether a value is one image of several rows, with elements of whole bytes."""
    image = isinstance(value, ValueRef) and value.rank == 4 and value.shape[0] == 1
    return image and value.shape[2] > 1 and 0 not in value.shape and value.dtype.bits >= 8
