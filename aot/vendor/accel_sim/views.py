# SPDX-License-Identifier: Apache-2.0
"""What only moves elements: shapes that keep the machine's order, transposes at the borders of the
graph, Concat and Slice.

They are taken next to something that the machine computes, so that a region is not cut there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.vendor import F32, OP, Match, ValueRef, wildcard
from aot.vendor.accel_sim.images import Images, image, order, refusal, same_order
from aot.vendor.accel_sim.int8_products import EIGHT
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Layer
from aot.vendor.accel_sim.specs import Checks, Spec
from aot.vendor.accel_sim.vectors import images

#: Operators next to which a view belongs: of quantised values, of float32.
INT8 = frozenset("QuantizeLinear DequantizeLinear MaxPool Concat".split())
FLOAT32 = frozenset("Conv Gemm MatMul MaxPool AveragePool GlobalAveragePool Add Relu Clip".split())
#: Parts of a Concat: each may be a region of the system, of which there are five.
MOST_PARTS = 4


def _neighbours(value: ValueRef, forward: bool) -> set[str]:
    """The operators of the nodes that read `value` (`forward`), or of the one that makes it.

    Empty for a value that no node makes.
    """
    if forward:
        return {str(use.node.op_type) for use in value.ir.uses()}
    producer = value.ir.producer()
    return set() if producer is None else {str(producer.op_type)}


def beside_work(m: Match, x: ValueRef) -> Checks:
    """Check that a node before `x` or behind the result is one that the machine computes.

    A lone move would be a region by itself, which costs more than moving on the CPU.
    """
    kinds = INT8 if x.dtype in EIGHT else FLOAT32
    near = (_neighbours(x, forward=False) | _neighbours(m.y, forward=True)) & kinds
    yield bool(near), "nothing beside it is computed here"


def _element(value: ValueRef) -> Checks:
    """Check of the element types that the accelerator moves."""
    known = value.dtype in EIGHT or value.dtype is F32
    yield known, f"dtype {value.dtype} (needs int8, uint8 or float32)"


def _copied(m: Match) -> Checks:
    """Checks that x and y are images beside a layer, and that x is no constant."""
    yield from _element(m.x)
    yield from images(m.x, m.y)
    yield from beside_work(m, m.x)
    yield not m.x.is_const, "a constant"


# -- shapes -------------------------------------------------------------------------------------


def shape_supported(m: Match, rq: Rq) -> Checks:
    """Checks of an operator that changes x's shape only: it moves no element of the image.

    At the border of the region the transfer moves them. A layer of the accelerator is beside
    it.
    """
    yield from _copied(m)
    if not refusal(m.x.shape) and not refusal(m.y.shape):
        free = _at_border(m) or same_order(m.x.shape, m.y.shape)
        what = f"{list(m.x.shape)} to {list(m.y.shape)}"
        yield free, f"{what} moves elements where channels are last"


def _at_border(m: Match) -> bool:
    """Whether strides of a graph input or output can do the move: x is an input, or y only an
    output.
    """
    return bool(m.x.is_input or (m.y.is_output and not m.y.uses))


def _perm(m: Match) -> list[int]:
    """The permutation of the root Transpose of a match, for each result axis the axis of x."""
    return _perm_of(m.root, m.x.rank)


def _perm_of(node: Any, rank: int) -> list[int]:
    """The permutation of a Transpose of `rank` axes; without the attribute the axes are
    reversed.
    """
    return [int(p) for p in node.attr("perm") or range(rank)[::-1]]


def _free(x: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether the transposed image has the elements in the order of x."""
    flat = np.arange(int(np.prod(x))).reshape(tuple(x) or (1,))
    permuted = np.transpose(flat, perm) if len(x) else flat
    there = np.moveaxis(permuted, 1, -1) if permuted.ndim > 2 else permuted
    return np.array_equal(order(x), there.reshape(-1))


def transpose_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a Transpose that moves no element of the image, or is at the border."""
    yield from _copied(m)
    if refusal(m.x.shape) or refusal(m.y.shape):
        return
    free = _at_border(m) or _free(m.x.shape, _perm(m))
    yield free, f"perm {_perm(m)} of {list(m.x.shape)} between two layers"


def build_transpose(b: Images, m: Match) -> None:
    """Let `y` be `x` transposed: by strides in system memory at the border, else as an alias."""
    if _at_border(m):
        b.transposed(m.y, m.x, _perm(m))
    else:
        b.alias(m.y, m.x)


def transpose_reshape_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a Reshape and a Transpose that together move no element of the image."""
    yield from _copied(m)
    if not refusal(m.x.shape) and not refusal(m.y.shape):
        yield stays(m.x.shape, _perm_of(m.turn, m.x.rank), m.y.shape), "elements move"


def stays(x: Sequence[int], perm: Sequence[int], y: Sequence[int]) -> bool:
    """Whether a Transpose of x, then a Reshape to y, move nothing where channels are last.

    So it is with images that are flattened by rows, as frameworks with channels last do.
    """
    flat = np.transpose(np.arange(int(np.prod(x))).reshape(tuple(x) or (1,)), perm).reshape(-1)
    return np.array_equal(flat[order(y)], order(x))


# -- parts --------------------------------------------------------------------------------------


def image_axis(rank: int, axis: int) -> str:
    """The axis of the image, "y", "x" or "c", along which an axis of a value runs; "" for the
    batch.
    """
    names: dict[int, Sequence[str]] = {1: "c", 2: "xc", 3: ("", "c", "x"), 4: ("", "c", "y", "x")}
    return str(names[rank][axis % rank])


def concat_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a Concat of images, not along the batch, beside a layer of AX1."""
    parts = [v for v in m.xs if v is not None]
    yield len(parts) == len(m.xs) > 0, "a part is absent"
    yield from _element(m.y)
    yield from images(m.y, *parts)
    yield len(parts) <= MOST_PARTS, f"{len(parts)} parts (needs at most {MOST_PARTS})"
    yield not all(v.is_const for v in parts), "constants only"
    if refusal(m.y.shape) or not m.y.rank:
        return
    yield bool(image_axis(m.y.rank, int(m.root.attr("axis")))), "along the batch"
    near = any(not list(c for c in beside_work(m, v) if not c[0]) for v in parts)
    yield near, "nothing beside it is computed here"


def build_concat(b: Images, m: Match) -> None:
    """Add a concat layer to `b`, whose parts are places in the result."""
    parts = tuple(b.read(v) for v in m.xs)
    axis: Any = image_axis(m.y.rank, int(m.root.attr("axis")))
    target = b.write(m.y)
    b.layer(Layer("concat", m.root.name, parts, target, axis=axis))


def _starts(m: Match) -> list[int] | None:
    """The first element along each axis of a Slice; None unless bounds are constant and steps are
    1.

    Starts are clipped to 0 .. size of the axis; negative ones count from the end.
    """
    given = [m.starts, m.ends, m.axes, m.steps]
    if any(v is not None and not v.is_const for v in given):
        return None
    starts = [int(v) for v in np.ravel(m.starts.data)]
    axes = range(len(starts)) if m.axes is None else [int(v) for v in np.ravel(m.axes.data)]
    steps = [1] * len(starts) if m.steps is None else [int(v) for v in np.ravel(m.steps.data)]
    if any(s != 1 for s in steps):
        return None
    found = [0] * m.x.rank
    for axis, start in zip(axes, starts, strict=True):
        extent = m.x.shape[axis]
        found[axis % m.x.rank] = max(0, min(extent, start + extent if start < 0 else start))
    return found


def slice_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a Slice of an image by steps of 1 between constant bounds."""
    yield from _copied(m)
    starts = _starts(m)
    yield starts is not None, "steps other than 1, or bounds computed at run time"
    yield m.x.rank >= 1 and m.x.rank == m.y.rank, f"rank {m.x.rank}"


def build_slice(b: Images, m: Match) -> None:
    """Add a slice layer to `b`, whose result is a place in its input."""
    starts = _starts(m)
    assert starts is not None
    at = {"y": 0, "x": 0, "c": 0}
    for axis, start in enumerate(starts):
        name = image_axis(m.x.rank, axis)
        if name:
            at[name] = start
    source = b.read(m.x)
    target = b.write(m.y)
    first = (at["y"], at["x"], at["c"])
    b.layer(Layer("slice", m.root.name, (source,), target, start=first))
    assert all(
        s + n <= whole
        for s, n, whole in zip(first, image(m.y.shape), b.tensors[source].shape, strict=True)
    )


_X = wildcard("x")


SPECS = (
    Spec(
        "transpose_reshape",
        OP.Reshape(OP.Transpose(_X, _outputs=["turn"]), wildcard("how")),
        transpose_reshape_supported,
        lambda b, m: b.alias(m.y, m.x),  # both together move no element of the image
        True,
    ),
    Spec(
        "reshape",
        OP.Reshape(_X, wildcard("how")),
        shape_supported,
        lambda b, m: b.reshaped(m.y, m.x),
        True,
    ),
    Spec(
        "transpose",
        OP.Transpose(_X),
        transpose_supported,
        build_transpose,
        True,
    ),
    Spec(
        "concat",
        OP.Concat(wildcard("xs"), _optional=-1),
        concat_supported,
        build_concat,
        True,
    ),
    Spec(
        "slice",
        OP.Slice(_X, *map(wildcard, ("starts", "ends", "axes", "steps")), _optional=2),
        slice_supported,
        build_slice,
        True,
    ),
)
