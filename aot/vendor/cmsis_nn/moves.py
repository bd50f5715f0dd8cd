# SPDX-License-Identifier: Apache-2.0
"""Operators that move int8 quantised values: Concat, Pad, Transpose."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.vendor import (
    OP,
    Case,
    Layout,
    Match,
    Recorder,
    ValueRef,
    case,
    channels_last,
    const,
    quantised_values,
    tflite_layers as shared,
    wildcard,
)
from aot.vendor.cmsis_nn.base import Checks, declare

#: The library counts extents of what it joins in 16 bits; 7 of those that it transposes.
LONGEST, LONGEST_TURNED = 2**16, 2**16 // 7
#: How many times as long as in portable C, which joins and pads in place where it can.
SLOWER = 2.0

concat = declare("concat", OP.Concat(wildcard("xs"), _optional=-1), SLOWER)
_WHERE = const(wildcard("pads")), wildcard("value"), wildcard("axes")
pad = declare("pad", OP.Pad(wildcard("x"), *_WHERE, _optional=2), SLOWER)
transpose = declare("transpose", OP.Transpose(wildcard("x")), SLOWER)


def four(value: ValueRef) -> tuple[int, ...]:
    """The four extents of a value in its order in memory, the outer ones 1 where it has fewer."""
    if value.layout.blocked:
        return shared.extents(value)
    return (1,) * (4 - value.rank) + value.shape


def place(value: ValueRef, axis: int) -> int:
    """Which of the `four` extents axis `axis` is."""
    if value.layout.blocked:
        return {0: 0, 1: 3}.get(axis, axis + 3 - value.rank)
    return axis + 4 - value.rank


def moved(m: Match, value: ValueRef) -> Checks:
    """Checks of every move: int8 of rank 1 to 4, not empty."""
    yield from shared.signed(value, "x")
    yield 1 <= value.rank <= 4, f"rank {value.rank} (needs 1 to 4)"
    yield 0 not in m.y.shape + value.shape, f"an empty tensor {list(value.shape)}"


@concat.layouts
@pad.layouts
def as_they_come(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last for all values as soon as one operand of rank 3 or 4 has them so."""
    same = m.y.dtype, m.y.rank
    values = {n: v for n, v in m.values.items() if v and same == (v.dtype, v.rank) and v.rank > 2}
    found = any(incoming[n].blocked for n in values if n in incoming)
    return {n: channels_last(v) for n, v in values.items()} if found else {}


# -- Concat -------------------------------------------------------------------------------------


@concat.check
def concat_fits(m: Match) -> Checks:
    """Checks of the parts of a Concat."""
    for part in m.xs:
        yield from moved(m, part)
    longest = max(m.y.shape, default=0)
    yield longest < LONGEST, f"an extent of {longest} (needs less than {LONGEST})"


@concat.lower
def to_concat(c: Recorder, m: Match) -> None:
    """Record a Concat: no call where the parts can be made in their places, else one for each."""
    axis = int(m.root.attr("axis")) % m.y.rank
    at, shape, starts = place(m.y, axis), four(m.y), [0]
    for part in m.xs:
        starts.append(starts[-1] + part.shape[axis])
    row = math.prod(shape[at + 1 :])
    if math.prod(shape[:at]) == 1 and c.concat_view(m.y, m.xs, [row * s for s in starts[:-1]]):
        return
    # Only the first call makes y; a later one must keep what is there.
    for i, (part, start) in enumerate(zip(m.xs, starts, strict=False)):
        y = c.update(m.y) if i else c.write(m.y)
        params = c.params(x=four(part), axis=at, whole=shape[at], start=start)
        c.call("aot_cmsis_nn_concat", y, c.read(part), params, status=True)


@concat.cases
def concat_examples() -> Iterator[Case]:
    """Concat of int8 along each axis."""
    for shape, axis in (((2, 3, 4, 5), 0), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), 2), ((2, 3), -1)):
        parts = [quantised_values(*shape, seed=s) for s in range(2)]
        wider = list(shape)
        wider[axis] += 3
        yield case(*parts, quantised_values(*wider, seed=2), axis=axis)


# -- Pad ----------------------------------------------------------------------------------------


def amounts(m: Match) -> tuple[list[int], list[int]]:
    """Elements that a Pad adds before and behind each of the `four` extents of x."""
    pads, found = [int(p) for p in m.pads.data], ([0] * 4, [0] * 4)
    axes = range(m.x.rank) if m.axes is None else [int(a) % m.x.rank for a in m.axes.data]
    for i, axis in enumerate(axes):
        for side, half in zip(found, (pads[: len(axes)], pads[len(axes) :]), strict=True):
            side[place(m.x, axis)] = half[i]
    return found


@pad.check
def pad_fits(m: Match) -> Checks:
    """Checks of a Pad: a constant around int8, nothing cut."""
    yield from moved(m, m.x)
    mode = m.root.attr("mode", "constant")
    yield mode == "constant", f"mode {mode!r} (needs 'constant')"
    for name in ("value", "axes"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"{name} computed at run time (needs a constant)"
    pads = [int(p) for p in m.pads.data]
    yield min(pads, default=0) >= 0, f"pads {pads} (need 0 or more)"


@pad.lower
def to_pad(c: Recorder, m: Match) -> None:
    """Record the call of a Pad."""
    before, after = amounts(m)
    value = 0 if m.value is None else int(m.value.data.reshape(-1)[0])
    params = c.params(x=four(m.x), before=before, after=after, value=value)
    c.call("aot_cmsis_nn_pad", m.y, m.x, params, status=True)


@pad.cases
def pad_examples() -> Iterator[Case]:
    """Pad of int8 on all axes, on one, and of a matrix."""
    value = np.array(-7, np.int8)
    for shape, pads, axes in (
        ((2, 3, 4, 5), [0, 1, 2, 0, 1, 0, 1, 3], None),
        ((1, 3, 4, 5), [1, 2], [3]),
        ((3, 4), [0, 2, 1, 0], None),
    ):
        numbers = np.array(pads, np.int64), value, None if axes is None else np.array(axes)
        fixed = tuple(i + 1 for i, v in enumerate(numbers) if v is not None)
        yield case(quantised_values(*shape), *numbers, const=fixed)


# -- Transpose ----------------------------------------------------------------------------------


def permutation(m: Match) -> list[int]:
    """For each axis of the result that of x."""
    return list(m.root.attr("perm") or range(m.x.rank)[::-1])


@transpose.check
def transpose_fits(m: Match) -> Checks:
    """Checks of a Transpose of int8 that is more than another view of channels stored last."""
    yield from moved(m, m.x)
    longest = max(m.x.shape, default=0)
    yield longest < LONGEST_TURNED, f"an extent of {longest} (needs less than {LONGEST_TURNED})"
    perm, inner = permutation(m), range(1, m.x.rank)
    views = [[0, *inner[1:], 1], [0, inner[-1], *inner[:-1]]] if m.x.rank > 2 else []
    yield perm not in views, f"perm {perm} (channels that are stored last do not move)"


@transpose.lower
def to_transpose(c: Recorder, m: Match) -> None:
    """Record the call of a Transpose; the library has the outer axes first."""
    perm, ones = permutation(m), (1,) * (4 - m.x.rank)
    places = (*perm, *range(m.x.rank, 4))
    params = c.params(rank=m.x.rank, x=m.x.shape + ones, y=m.y.shape + ones, perm=places)
    c.call("aot_cmsis_nn_transpose", m.y, m.x, params, status=True)


@transpose.cases
def transpose_examples() -> Iterator[Case]:
    """Transpose of int8 of two to four axes."""
    for shape, perm in (
        ((5, 3), [1, 0]),
        ((2, 3, 4), [1, 0, 2]),
        ((5, 3, 4, 2), [3, 1, 2, 0]),
        ((2, 3, 17, 5), [0, 1, 3, 2]),
        ((2, 3, 4, 5), [0, 2, 1, 3]),
    ):
        yield case(quantised_values(*shape), perm=perm)
