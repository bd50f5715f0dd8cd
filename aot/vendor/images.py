# SPDX-License-Identifier: Apache-2.0
"""Checks, layouts and fields for libraries that store an image's channels last, as XNNPACK does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from aot.ir.dtypes import F32
from aot.ir.layout import Layout
from aot.vendor.arguments import Operand
from aot.vendor.cases import Case, case, f32
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match, NodeRef, ValueRef
from aot.vendor.matrix_product import MatrixProduct
from aot.vendor.pattern import OP, either, wildcard
from aot.vendor.quantisation import Quantisation
from aot.vendor.recorder import Recorder
from aot.vendor.window_shape import WindowShape

#: The conditions of a check, each with the reason why the library cannot compute a match.
Checks = Iterable[tuple[bool, str]]
#: Fields of a parameter struct by name.
Fields = dict[str, Any]
_dot = OP.MatMul(wildcard("a"), wildcard("b"), _outputs=["node"])
#: A product of two matrices, and something added to it.
PRODUCT = either(
    OP.Gemm(*map(wildcard, "abc"), _outputs=["node"], _optional=1),
    OP.Add(_dot, wildcard("c")),
    _dot,
)


def floats(m: Match) -> Checks:
    """Checks that all values are float32 and of a size that the library can count."""
    return [
        (
            v.dtype is F32 and 0 < 4 * math.prod(v.shape) < 2**31,
            f"{n} is {v.dtype}{list(v.shape)} (needs float32, 1 to 2^29 elements)",
        )
        for n, v in m.values.items()
        if v is not None and n not in ("axes", "sizes")
    ]


def last(*names: str) -> Callable[[Match, dict[str, Layout], int], dict[str, Layout]]:
    """The layout rule that stores the channels of these values last where they have positions."""
    return lambda m, incoming, vlen: {
        n: channels_last(v) for n in names if (v := m.values[n]) is not None and v.rank > 2
    }


def extents(value: ValueRef) -> tuple[int, ...]:
    """[height, width] of a value of rank 3 or 4; checks refuse others."""
    return (1,) * (4 - value.rank) + value.shape[2:]


def stored(m: Match) -> Fields:
    """Fields of the images x: how many there are, [height, width], channels."""
    return {"batch": m.x.shape[0], "size": extents(m.x), "channels": m.x.shape[1]}


def image(m: Match) -> tuple[bool, str]:
    """The condition of the rank of x."""
    return m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"


def windows(m: Match, node: NodeRef, kernel: Sequence[int]) -> Fields:
    """Fields of a window on two axes, padded at the end as far as its last position reaches.

    A transposed convolution is padded as its result says, or has `extra` positions at the end.
    """
    window, back = WindowShape.of(node, kernel).widened(2), node.op_type == "ConvTranspose"
    small, large = (extents(v) for v in ((m.x, m.y) if back else (m.y, m.x)))
    axes = zip(small, large, *window.axes(), strict=False)
    after = [(n - 1) * s + (k - 1) * d + 1 - b - whole for n, whole, k, s, d, b, _ in axes]
    extra, pads = [max(0, -a) for a in after], [max(0, a) for a in after]
    return {
        **stored(m),
        "kernel": window.kernel,
        "stride": window.strides,
        "dilation": window.dilations,
        "pad": (window.before[0], pads[-1], pads[0], window.before[-1]),
        **({"transposed": 1, "extra": extra} if back else {}),
    }


def bounds_of(m: Match) -> Fields:
    """Fields of the lowest and highest float of the result: those of a Relu, of a Clip, or none."""
    ends = {"low": 0.0 if m.root.op_type == "Relu" else -math.inf, "high": math.inf}
    given = {n: v.data for n in ends if (v := m.values.get(n)) is not None and v.data is not None}
    return {n: float(np.ravel(given[n])[0]) if n in given else end for n, end in ends.items()}


def ordered_bounds(m: Match) -> Checks:
    """The checks that the bounds of a Clip are constants in order."""
    bounds, given = bounds_of(m), [m.values.get(n) for n in ("low", "high")]
    return [
        (
            all(v is None or v.is_const for v in given),
            "a bound of Clip is computed at run time (needs a constant)",
        ),
        (bounds["low"] < bounds["high"], f"bounds {list(bounds.values())} (need to be in order)"),
    ]


def codes(limits: tuple[int, int], *kinds: Quantisation) -> Fields:
    """Fields of quantised values: zero points, scales, and the ends of the result."""
    zero, scale = [k.z for k in kinds], [float(k.s) for k in kinds]
    return {"zero": zero, "scale": scale, "low": float(limits[0]), "high": float(limits[1])}


def integers(m: Match, record: Any, conditions: Checks, more: Callable[[Any], Checks]) -> Checks:
    """The conditions of quantised values, and if all hold those that `record` of the match must
    meet."""
    found = list(conditions)
    if not all(ok for ok, _ in found):
        return found
    made = record.of(m)
    several = made.limits[0] < made.limits[1]
    return [*found, (several, f"a result that is {made.limits[0]} everywhere"), *more(made)]


def conv_fields(m: Match) -> Fields:
    """Fields of a convolution, transposed or not, that say what it reads where."""
    groups = int(m.conv.attr("group", 1))
    channels = m.x.shape[1] // groups, m.y.shape[1] // groups
    return {**windows(m, m.conv, m.w.shape[2:]), "groups": groups, "channels": channels}


def rows_fields(rows: int, depth: int, columns: int) -> Fields:
    """Fields of a product of [rows, depth] by [depth, columns]."""
    sizes = {"batch": 1, "size": (rows, 1), "groups": 1, "channels": (depth, columns)}
    return sizes | dict.fromkeys(("kernel", "stride", "dilation"), (1, 1))


def dense(c: Recorder, m: Match) -> tuple[list[Operand], Fields]:
    """Constants (weights, bias, no scales) and fields, without bounds, of a product of floats."""
    found, rows = MatrixProduct.of(m, m.node), math.prod(m.a.shape[:-1])
    w = np.ascontiguousarray(np.transpose(found.weights))  # type: ignore[arg-type]
    b = next((c.const(np.ascontiguousarray(d), "b") for d in found.biases.values()), None)
    return [c.const(w, "w"), b, None], rows_fields(rows, *w.shape[::-1])


def conv_fits(m: Match) -> Checks:
    """Checks of the window of a convolution, and that weights and bias are constant."""
    fields, pads = conv_fields(m), [int(p) for p in m.conv.attr("pads") or [0]]
    given, ends = (m.w, m.values.get("b")), (fields.get("extra", ()), fields["stride"])
    return [
        image(m),
        (all(v is None or v.is_const for v in given), "weights or bias that a run computes"),
        (min(pads) >= 0, f"pads {pads} (need 0 or more)"),
        (all(e < s for e, s in zip(*ends, strict=False)), "output padding of a whole stride"),
    ]


def macs_of(m: Match, fields: Fields) -> int:
    """Multiplications of a product: of every result, transposed of every element of x."""
    shape, back = (m.x.shape, 1) if "transposed" in fields else (m.y.shape, 0)
    return math.prod((*shape, *fields["kernel"], fields["channels"][back]))


def dense_fits(m: Match) -> Checks:
    """Checks of a product of floats by a constant matrix, with a constant bias or without."""
    found, c = MatrixProduct.of(m, m.node), m.values.get("c")
    return [
        (found.weights is not None, "needs a constant matrix on the right and no transA"),
        (c is None or "c" in found.biases, f"operand {c and list(c.shape)} is no constant bias"),
        (m.y.shape == m.node.shape, f"result {m.y.shape}, product {m.node.shape}"),
    ]


def pool_fields(m: Match) -> Fields:
    """Fields of a pooling node; without a window it is the whole image."""
    return windows(m, m.pool, [int(k) for k in m.pool.attr("kernel_shape") or m.x.shape[2:]])


def window_fits(m: Match) -> Checks:
    """Checks of a window of two positions or more, each of which is in the image somewhere."""
    auto, dtype = m.pool.attr("auto_pad", "NOTSET"), str(m.x.dtype)
    kernel, pads, dilations = (pool_fields(m)[n] for n in ("kernel", "pad", "dilation"))
    inside = min(pads) >= 0 and all(p < k for p, k in zip(pads, kernel[::-1] * 2, strict=False))
    average, padded, dense = m.pool.op_type == "AveragePool", any(pads), max(dilations) == 1
    return [
        image(m),
        (dtype in ("float32", "int8"), f"x is of {dtype} (needs float32 or int8)"),
        (auto in ("NOTSET", "VALID"), f"auto_pad {auto!r} (needs explicit pads)"),
        m.pool.first_alone,
        (0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"),
        (math.prod(kernel) > 1, "a window of one position"),
        (inside, f"pads {list(pads)} (need to be smaller than the window {list(kernel)})"),
        (dense or not (average or padded), f"dilations {list(dilations)} (need to be 1)"),
        (not (average and padded and m.pool.attr("count_include_pad", 0)), "padding that counts"),
    ]


def mean_fits(m: Match) -> Checks:
    """Checks of a mean over all positions."""
    axes = m.values.get("axes")
    found = [] if axes is None or axes.data is None else sorted(np.ravel(axes.data) % m.x.rank)
    whole = m.pool.op_type == "GlobalAveragePool" or found == list(range(2, m.x.rank))
    return [image(m), (whole, f"axes {found} (needs all positions)")]


def rows_axis(m: Match) -> int:
    """The axis of the rows that an operator reads: channels of a PRelu, that of a Softmax."""
    return 1 if m.root.op_type == "PRelu" else int(m.root.attr("axis", -1)) % max(m.x.rank, 1)


def rows_fit(m: Match) -> Checks:
    """Checks of a Softmax, or of a PRelu with constant slopes, along channels or the last axis."""
    axis, slope, rank = rows_axis(m), m.values.get("slope"), m.x.rank
    channels = (1, *m.x.shape[1:2], *(1,) * (rank - 2))
    shape = channels if slope is None else (1,) * (rank - slope.rank) + slope.shape
    constant = shape in (channels, (1,) * rank) and (slope is None or slope.is_const)
    return [
        (
            rank > 0 and axis in (rank - 1, 1 if rank <= 5 else rank - 1),
            f"axis {axis} of {list(m.x.shape)} (needs channels or the last)",
        ),
        (constant, f"a slope of {list(shape)} (needs constants, one for all or per channel)"),
    ]


def rows_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last where rows are along them."""
    return last("x", "y")(m, incoming, vlen) if rows_axis(m) < m.x.rank - 1 else {}


def pair_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last as soon as one operand is; blocks where both have the result's shape."""
    values = {n: v for n in "aby" if (v := m.values[n]) is not None and not v.is_const}
    arriving = [incoming[n] for n in values if n != "y" and incoming[n].blocked]
    whole = all(v.shape == m.y.shape for v in values.values()) and len(values) == 3
    ranked = arriving and all(v.rank == m.y.rank for v in values.values())
    if ranked and channels_last(m.y) in arriving:
        return {n: channels_last(v) for n, v in values.items()}
    return dict.fromkeys(values, Layout(arriving[0].block)) if whole and arriving else {}


def operand(c: Recorder, m: Match, value: ValueRef) -> tuple[Operand, tuple[int, ...]]:
    """An operand and its stored extents: constants are stored as the result is."""
    shape = (1,) * (m.y.rank - value.rank) + value.shape
    if not value.is_const:
        return value, value.layout.physical(shape) or (1,)
    data = np.asarray(value.data).reshape(shape or (1,))
    data = np.moveaxis(data[:, None], 2, -1) if m.y.layout.blocked else data
    return c.const(np.ascontiguousarray(data), "operand"), data.shape


def pair_fits(m: Match) -> Checks:
    """Checks of two tensors, one of which is computed."""
    most = 5 if 3 <= m.y.rank <= 5 else 6
    return [(m.y.rank <= most and not (m.a.is_const and m.b.is_const), f"rank {m.y.rank}")]


#: Windows of pooling: padded and strided, uneven and on one axis.
WINDOWS: tuple[tuple[tuple[int, ...], Fields], ...] = (
    ((2, 5, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 17, 6, 7), {"kernel_shape": [2, 4], "strides": [2, 1]}),
    ((1, 3, 11), {"kernel_shape": [5], "strides": [3]}),
)
#: Convolutions: dense with pads; grouped, strided and uneven; on one axis.
KERNELS: tuple[tuple[tuple[int, ...], tuple[int, ...], Fields], ...] = (
    ((2, 5, 9, 8), (5, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 6, 7, 9), (6, 3, 3, 2), {"group": 2, "strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 3, 11), (3, 3, 4), {"strides": [3]}),
)


def of_node(name: str, attributes: Fields) -> Fields:
    """The attributes as those of the node that a pattern calls `name`."""
    return {f"{name}.{key}": value for key, value in attributes.items()}


def convolution(shape: tuple[int, ...], kernel: tuple[int, ...], attributes: Fields) -> Case:
    """A convolution by constant weights [outputs, channels of a group, *window]."""
    given = f32(*shape), f32(*kernel, low=-0.3, high=0.3, seed=1), f32(kernel[0], seed=2)
    return case(*given, const=(1, 2), **of_node("conv", attributes))
