# SPDX-License-Identifier: Apache-2.0
"""What the patterns of integer networks share: quantised values with their parameters, bounds,
signs.

Wildcards have fixed names: quantised values `x` have the scale `sx` and the zero point `zx`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aot.ir.dtypes import S8, S16, U8, U16
from aot.ir.splits import Split
from aot.ops.broadcast import collapse, stored
from aot.ops.registry import portable
from aot.vendor import Handle, Match, Pattern, Recorder, ValueRef
from aot.vendor.backend import Check
from aot.vendor.pattern import Pat
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    bounds,
    quantisation,
    quantised as requantised,
    value_of,
)


def quantised(name: str, inner: Pat, *checks: Check, **fields: Any) -> Pattern:
    """Declare the pattern QuantizeLinear(inner); its result are the quantised values `y`.

    `checks` and `fields` are those of `Backend.declare`.
    """
    folder = Path(__file__).parent
    return portable.declare(name, requantised(inner), *checks, folder=folder, **fields)


def some_wide(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that quantised values x or y have 16 bits."""
    wide = bool({m.x.dtype, m.y.dtype} & {S16, U16})
    yield wide, f"quantised values of {m.x.dtype} and {m.y.dtype} (needs 16 bits)"


def quantised_fields(m: Match, operands: str = "x", signed: bool = True) -> dict[str, int]:
    """Parameters of a kernel: the operands' zero points, `y_zero`, and the final quantised values'
    `lo`, `hi`.

    `operands` are names of one letter. With `signed`, they and the result are int8 quantised values
    in place of uint8 ones.
    """
    read = {k: quantisation(m, k) for k in (*operands, "y")}
    zeros = {f"{k}_zero": (v.signed() if signed else v).z for k, v in read.items()}
    offset = zeros["y_zero"] - read["y"].z
    low, high = bounds(m, read["y"])
    return {**zeros, "lo": low + offset, "hi": high + offset}


def type_constants(m: Match, names: str = "xy") -> dict[str, int]:
    """The instance constants XT, YT …: the numbers of the types of the values `names`, a letter
    each.
    """
    return {f"{k.upper()}T": QUANTISED_TYPES.index(value_of(m, k).dtype) for k in names}


def signed_input(c: Recorder, x: ValueRef) -> ValueRef | Handle:
    """`x` as int8 quantised values: itself, or a temporary copy of uint8 ones with the top bit
    flipped.

    The copy is recorded as a call.
    """
    if x.dtype is not U8:
        return x
    copy = c.temp(x.shape, S8, x.layout, "signed")
    flip(c, c.write(copy), c.read(x), x)
    return copy


def signed_output(c: Recorder, y: ValueRef) -> ValueRef | Handle:
    """Where a kernel that makes int8 quantised values writes: `y`, or a temporary if y is uint8.

    `finish` must follow the kernel's call.
    """
    return y if y.dtype is not U8 else c.temp(y.shape, S8, y.layout, "signed")


def finish(c: Recorder, y: ValueRef, made: ValueRef | Handle) -> None:
    """Record the flip of top bits from the temporary `made` to `y`; nothing if `made` is y
    itself.
    """
    if isinstance(made, Handle):
        flip(c, y, made, y)


@contextmanager
def signed_result(c: Recorder, y: ValueRef) -> Iterator[ValueRef | Handle]:
    """A context that gives the place where a kernel of int8 quantised values writes `y`.

    At its end uint8 quantised values are made of them.
    """
    made = signed_output(c, y)
    yield made
    finish(c, y, made)


def flip(c: Recorder, y: Any, x: Any, like: ValueRef) -> None:
    """Record y = x with the top bit of every quantised value flipped: int8 to uint8 or back."""
    size = math.prod(stored(like))
    splits = Split.elements(size, 1, 1)
    c.call("aot_qflip", y, x, c.params(n=size), inplace=[(y, x)], splits=splits)


def batched(m: Match) -> dict[str, Any]:
    """Parameters of a product of matrices `a` [..., m, k] and `b` [..., k, n] with leading axes."""
    batch = collapse(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])
    (rows, depth), columns = m.a.shape[-2:], m.b.shape[-1]
    a_stride, b_stride = (
        tuple(s * size for s in own)
        for own, size in zip(batch.strides, (rows * depth, depth * columns), strict=True)
    )
    steps = {"dims": batch.dims, "a_stride": a_stride, "b_stride": b_stride}
    return {**steps, "m": rows, "k": depth, "n": columns}
