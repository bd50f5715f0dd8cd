# SPDX-License-Identifier: Apache-2.0
"""Pooling: MaxPool, AveragePool, LpPool and their global forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, F64, S8, U8
from aot.ir.graph_nodes import SAME, attribute, dtype_of, maker_of, shape_of
from aot.ir.layout import blocked
from aot.ir.operators import AUTO_PAD, AtLeast, Moves, Reduces, Window
from aot.ir.rows import Planes, Rowwise, Window as RowWindow
from aot.ir.splits import Split
from aot.ir.value_traits import Averages
from aot.normalise.pools import over_space
from aot.ops.registry import op
from aot.shapes.checks import checks, window_fits, window_holds
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.rows import means
from aot.shapes.dynamic.rules import dynamic, needed, only_first
from aot.shapes.dynamic.windows import windowed
from aot.shapes.partial_values import PartialValues
from aot.vendor import Layout, Match, Pattern, WindowShape
from aot.vendor.arguments import ParamFields
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.layouts import narrow
from aot.vendor.recorder import Recorder
from aot.vendor.strided_copy import stored

AVERAGE, MAX = 0, 1  # AOT_GLOBALPOOL_* of runtime_c/kernels/aot_globalpool_f32.h

GEOMETRY: dict[str, Any] = {
    "kernel_shape": None,
    "strides": None,
    "pads": None,
    "dilations": None,
    "ceil_mode": 0,
    "auto_pad": replace(AUTO_PAD, default="NOTSET"),
}
max_pool = op(
    "MaxPool",
    "x",
    "y indices?",
    traits=[
        Moves(by="order", fewer=True, bytes_only=True),
        Window("x", padding=-math.inf, per_channel=True),
    ],
    types=(F32, F64, U8, S8),
    storage_order=0,
    **GEOMETRY,
)
_mean = Window("x", padding=None, per_channel=True)
average_pool = op(
    "AveragePool", "x", traits=[_mean], types=(F32, F64), count_include_pad=0, **GEOMETRY
)
lp_pool = op(
    "LpPool", "x", traits=[Window("x", per_channel=True)], types=(F32,), p=AtLeast(1, 2), **GEOMETRY
)
global_average = op("GlobalAveragePool", "x", traits=[Averages()], types=(F32,))
global_max = op("GlobalMaxPool", "x", traits=[Reduces(-math.inf)], types=(F32,))
over_space("AveragePool ReduceMean")("GlobalAveragePool")
over_space("MaxPool ReduceMax")("GlobalMaxPool")
global_lp = op("GlobalLpPool", "x", traits=[Reduces(0)], types=(F32,), p=AtLeast(1, 2))


@global_average.check
@global_max.check
@global_lp.check
def _spatial(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of one to three spatial axes; an empty x is fine where y is empty, too."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    yield 0 not in m.x.shape or 0 in m.y.shape, f"an empty tensor {list(m.x.shape)}"


@max_pool.check
@average_pool.check
@lp_pool.check
def _pooled(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a pool with windows: ranks, explicit pads and a kernel_shape."""
    yield from _spatial(m)
    yield m.auto_pad in ("NOTSET", "VALID"), f"auto_pad {m.auto_pad!r} (needs explicit pads)"
    yield m.kernel_shape is not None, "attribute kernel_shape is missing"


def geometry(c: Recorder, m: Match, order: int = 0) -> ParamFields:
    """The parameters every pooling kernel takes; missing spatial axes come first with size 1."""
    block, lead = m.x.layout.block, (1,) * (5 - m.x.rank)
    window = WindowShape.of(m.root, m.kernel_shape).widened(3)
    out = lead + tuple(m.y.shape[2:])
    return c.params(
        planes=m.x.shape[0] * (stored(m.x)[1] if block else m.x.shape[1]),
        **{"in": lead + tuple(m.x.shape[2:])},
        out=out,
        k=window.kernel,
        s=window.strides,
        d=window.dilations,
        before=window.before,
        after=window.after,
        # A segment that runs by rows sets its own.
        row0=0,
        row1=out[1],
        order=order,
        y_plane=math.prod(m.y.shape[2:]) * (block or 1),
        x_plane=math.prod(m.x.shape[2:]) * (block or 1),
    )


def _planes(m: Match) -> tuple[Split, ...]:
    """How threads share a pool: by planes of channels, or of blocks of channels."""
    planes = math.prod(stored(m.x)[:2])
    one = [math.prod(stored(v)[2:]) * v.dtype.nbytes for v in (m.y, m.x)]
    return (Split.pieces("planes", planes, list(enumerate(one))),)


def follows_blocks(m: Match, incoming: dict[str, Layout], _vlen: int) -> dict[str, Layout]:
    """The layouts: blocked x is pooled in blocks, unless it is float64 or indices are read."""
    layout = incoming["x"]
    if not layout.blocked or m.x.dtype is F64 or m.values.get("indices") is not None:
        return {}
    return {"x": layout, "y": layout}


def _width(m: Match) -> int:
    """The window's width where the blocked kernels have an unrolled form, else 0."""
    width = int(m.kernel_shape[-1])
    return width if width in (2, 3) else 0


def _shared(m: Match) -> int:
    """The step (1 or 2) of windows three wide that share columns, else 0."""
    steps = list(m.strides or [1])
    plain = len(m.kernel_shape) < 3 and all(d == 1 for d in m.dilations or [1])
    return int(steps[-1]) if plain and m.kernel_shape[-1] == 3 and steps[-1] < 3 else 0


def _window_rowwise(m: Match, x: int = 1) -> Rowwise | None:
    """How a pool makes rows of y from argument `x` one by one; None unless it is one image, of
    blocked quantised values with all channels in one block.
    """
    lone, floats = m.x.shape[0] == 1 and m.x.rank == 4, m.x.dtype is F32
    planes, lanes = stored(m.x)[1], m.x.layout.block or 1
    if not lone or 0 in m.y.shape or (lanes > 1 and not floats and planes > 1):
        return None
    shape = WindowShape.of(m.root, m.kernel_shape)
    window = RowWindow(
        x, m.x.shape[2], shape.kernel[0], shape.strides[0], shape.dilations[0], shape.before[0]
    )
    fields = (("in", 1, "rows"), ("before", 1, "above"), ("out", 1, "one"), ("row1", -1, "one"))
    apart = (
        Planes(0, planes, m.y.shape[3] * lanes, "y_plane"),
        Planes(x, planes, m.x.shape[3] * lanes, "x_plane"),
    )
    own = apart if floats or planes > 1 else ()
    return Rowwise(m.y.shape[2], (0,), window, fields, planes=own)


@max_pool.lower
def max_to_kernel(c: Recorder, m: Match) -> None:
    """Record MaxPool of X [N, C, *S] by the layout of X: quantised values or floats with blocked
    channels, or plain ones, where the kernel makes the indices of the maxima too.

    Of the constants of a kernel, V is the channels of a block and U tells unsigned values; KW and
    SW are the width of the window and the stride along it, COLUMN the order of the indices.
    """
    if m.x.layout.blocked and m.x.dtype is not F32:
        instance = {"V": m.x.layout.block, "U": int(m.x.dtype is U8)}
        kernel = "aot_maxpool_s8_blocked"
        operands = m.y, m.x, geometry(c, m)
        c.call(kernel, *operands, instance=instance, rowwise=_window_rowwise(m), splits=_planes(m))
        return
    if m.x.layout.blocked:
        c.call(
            "aot_maxpool_f32_blocked",
            m.y,
            m.x,
            geometry(c, m),
            instance={"KW": _width(m), "SW": _shared(m)},
            header="aot_pool_f32_blocked.h",
            rowwise=_window_rowwise(m),
            splits=_planes(m),
        )
        return
    # Indices count elements of the plain layout, so its kernel alone makes them.
    kernel = f"aot_maxpool_{m.x.dtype.short}"
    instance = {"COLUMN": int(m.storage_order)}
    params = geometry(c, m)
    rowwise = None if m.values.get("indices") is not None else _window_rowwise(m, 2)
    header = "aot_pool_plain.h"
    c.call(kernel, m.y, m.indices, m.x, params, instance=instance, header=header, rowwise=rowwise)


@max_pool.cases
def max_cases() -> Iterator[Case]:
    """MaxPool(X [N, C, *S]): strides, pads, dilations, ceil_mode, indices, 1-D to 3-D."""
    two: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield case(f32(1, 5, 7, 9), **two)
    yield case(f32(2, 19, 8, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield case(f32(1, 4, 11, 11), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield case(f32(1, 3, 7, 8), kernel_shape=[3, 2], strides=[1, 2], pads=[0, 1, 2, 0])
    yield case(f32(1, 3, 9, 9), kernel_shape=[3, 3], dilations=[2, 2])
    yield case(f32(2, 5, 12), kernel_shape=[4], strides=[3])
    yield case(f32(1, 3, 4, 5, 6), kernel_shape=[2, 3, 2], strides=[1, 2, 2])
    yield case(f32(1, 2, 5, 5), kernel_shape=[3, 3], strides=[2, 2], outputs=2)
    yield case(ints(1, 2, 6, 6, dtype="int8"), **two)
    yield case(ints(2, 21, 7, 6, dtype="int8"), kernel_shape=[3, 3], strides=[2, 1])
    yield case(ints(1, 2, 6, 6, low=0, high=99, dtype="uint8"), **two)
    none = np.zeros((2, 17, 0, 3), np.float32)  # onnx.reference refuses what has no window
    yield case(f32(2, 17, 2, 5), kernel_shape=[3, 3], expected=(none,))
    yield case(
        ints(1, 17, 2, 5, dtype="int8"), kernel_shape=[3, 3], expected=(none[:1].astype("i1"),)
    )
    yield case(none, kernel_shape=[1, 2], expected=(none[:, :, :, 1:],))


def _is_global(m: Match) -> bool:
    """Whether the only window is exactly the input."""
    if tuple(m.kernel_shape) != m.x.shape[2:] or math.prod(m.y.shape[2:]) != 1:
        return False
    return not any(m.pads or ()) and all(d == 1 for d in m.dilations or ())


@average_pool.lower
def average_to_kernel(c: Recorder, m: Match) -> None:
    """Record an AveragePool: one mean per channel if the window is all, else blocked or plain
    windows.
    """
    # A window over the whole image is a reduction, whose kernel reads everything once, in vectors.
    if m.x.dtype is F32 and _is_global(m):
        _global(c, m, AVERAGE)
        return
    padded = int(m.count_include_pad)
    if m.x.layout.blocked:
        c.call(
            "aot_avgpool_f32_blocked",
            m.y,
            m.x,
            geometry(c, m),
            instance={"KW": _width(m), "PADDED": padded},
            header="aot_pool_f32_blocked.h",
            rowwise=None if padded else _window_rowwise(m),
            splits=_planes(m),
        )
        return
    kernel, params = f"aot_avgpool_{m.x.dtype.short}", geometry(c, m)
    c.call(
        kernel,
        m.y,
        m.x,
        params,
        instance={"PADDED": padded},
        header="aot_pool_plain.h",
        rowwise=None if padded else _window_rowwise(m),
    )


@average_pool.cases
def average_cases() -> Iterator[Case]:
    """AveragePool(X [N, C, *S]): padding that counts or not, ceil_mode, no window at all."""
    ring: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield case(f32(1, 5, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    yield case(f32(1, 17, 7, 7), **ring)
    yield case(f32(1, 17, 7, 7), count_include_pad=1, **ring)
    yield case(f32(2, 5, 7, 7), kernel_shape=[7, 7])
    yield case(f32(1, 3, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield case(f32(1, 3, 10), kernel_shape=[3], strides=[2], pads=[1, 1])
    yield case(f32(1, 3, 9, 9), kernel_shape=[2, 3], dilations=[2, 3])
    yield case(f32(1, 2, 4, 4, 5), kernel_shape=[2, 2, 2], strides=[2, 1, 1])
    yield case(f32(1, 17, 2, 5), kernel_shape=[3, 3])  # no window has a place


@lp_pool.lower
def lp_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_lppool_f32 on plain tensors."""
    c.call("aot_lppool_f32", m.y, m.x, geometry(c, m, int(m.p)), header="aot_pool_plain.h")


@lp_pool.cases
def lp_cases() -> Iterator[Case]:
    """LpPool(X [N, C, *S]): p 1, 2 and 3, pads."""
    yield case(f32(1, 3, 6, 7), kernel_shape=[2, 2], strides=[2, 2])
    yield case(f32(1, 3, 6, 7), kernel_shape=[3, 3], p=1)
    yield case(f32(1, 3, 9), kernel_shape=[3], p=3)
    yield case(f32(1, 3, 1, 7), kernel_shape=[3, 3], strides=[2, 2])


def _global(c: Recorder, m: Match, kind: int) -> None:
    """Record one value per channel over all positions: `kind` AVERAGE or MAX."""
    size = math.prod(m.x.shape[2:])
    planes = math.prod(stored(m.x)[:2])
    kernel = "aot_globalpool_f32_blocked" if m.x.layout.blocked else "aot_globalpool_f32"
    params = c.params(planes=planes, size=size, x_plane=size * c.vlen)
    c.call(
        kernel,
        m.y,
        m.x,
        params,
        instance={"KIND": kind},
        header="aot_globalpool_f32.h",
        rowwise=_rowwise(m, kernel, planes, c.vlen),
        splits=_planes(m),
    )


def _rowwise(m: Match, kernel: str, planes: int, vlen: int) -> Rowwise | None:
    """How a global pool takes its image row after row; None unless it is one image in whole
    vectors.
    """
    if m.x.shape[0] != 1 or m.x.rank != 4 or not (m.x.layout.blocked or vlen == 1):
        return None
    rows, width = m.x.shape[2:]
    apart = (Planes(1, planes, width * vlen, "x_plane"),)
    window = RowWindow(1, rows)
    return Rowwise(1, (0,), window, sums=16 * planes * vlen, kernel=f"{kernel}_row", planes=apart)


def _declare_global(pattern: Pattern, kind: int) -> None:
    """Add layouts, lowering and cases to a pool over all positions."""
    pattern.layouts(follows_blocks)

    @pattern.lower
    def to_kernel(c: Recorder, m: Match) -> None:
        """Record the global pool."""
        _global(c, m, kind)

    @pattern.cases
    def cases() -> Iterator[Case]:
        """A pool over all of space, of ranks 3 to 5."""
        for x in (f32(2, 19, 7, 5), f32(1, 3, 130), f32(1, 4, 2, 3, 5)):
            spatial = tuple(range(2, x.ndim))
            fold = np.max if kind == MAX else np.mean
            yield case(x, expected=(fold(x, axis=spatial, keepdims=True),))


_declare_global(global_average, AVERAGE)
_declare_global(global_max, MAX)


@max_pool.layouts
@average_pool.layouts
def blocks_of_windows(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocks, also of a plain x of float32 whose channels fill vectors, as the
    kernels of plain tensors take one element at a time.
    """
    plain = not incoming["x"].blocked and m.x.dtype is F32 and m.x.rank == 4
    if plain and vlen > 1 and not narrow(m.x.shape[1], vlen):
        return follows_blocks(m, {"x": blocked(vlen)}, vlen)
    return follows_blocks(m, incoming, vlen)


@global_lp.lower
def global_lp_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_lppool_f32 with one window as large as the image."""
    n = m.x.rank - 2
    whole = (1,) * (3 - n) + m.x.shape[2:]
    params = c.params(
        planes=math.prod(m.x.shape[:2]),
        **{"in": whole},
        out=(1, 1, 1),
        k=whole,
        s=(1, 1, 1),
        d=(1, 1, 1),
        before=(0, 0, 0),
        after=(0, 0, 0),
        row0=0,
        row1=1,
        order=int(m.p),
    )
    c.call("aot_lppool_f32", m.y, m.x, params, header="aot_pool_plain.h")


@global_lp.cases
def global_lp_cases() -> Iterator[Case]:
    """GlobalLpPool(X): the p-norm over space."""
    x = f32(2, 3, 4, 5)
    norm = np.sqrt((x.astype(np.float64) ** 2).sum((2, 3), keepdims=True)).astype(np.float32)
    yield case(x, expected=(norm,))


#: The window of an AveragePool that counts the padding.
COUNTED = Window("x", per_channel=True)


@dynamic("AveragePool")
def average_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """AveragePool along a dynamic axis: the sum of a window by the number of elements in it.

    With count_include_pad and without ceil_mode the node stays, its padding made 0. Else both the
    data and ones [1, 1, *space], 0 where no element is, are pooled with the same window, and the
    quotient of the two is the average. Refused: pads that count together with ceil_mode.
    """
    data = only_first(x, node)
    own = x.run_sizes(data)
    inside = [a for a in own if a >= 2]
    counts = bool(attribute(node, "count_include_pad", 0))
    same = str(attribute(node, "auto_pad", "NOTSET")) in SAME
    padded = same or any(attribute(node, "pads", None) or [])
    ceil = bool(attribute(node, "ceil_mode", 0))
    if counts and ceil and padded and inside:
        raise refused(node, "counts padding in windows that end beyond it (ceil_mode)")
    if (counts and not ceil) or not inside:
        windowed(x, node, COUNTED)
        return
    shape = shape_of(data)
    ones = x.const(node, np.ones((1, 1, *shape[2:]), dtype_of(data).numpy()), data)
    kind = [(int(dtype_of(data)), (1, 1, *shape[2:]))]
    # A constant has no dynamic axes, but the result of a node may.
    ones = x.node(node, "Identity", [ones], kind)[0]
    x.set(ones, {a: own[a] for a in inside})
    how = {k: v.value for k, v in node.attributes.items()} | {"count_include_pad": 1}
    parts: list[ir.Value] = []
    for source in (data, ones):
        made = x.node(node, "AveragePool", [source], [None], **how)[0]
        made.name = f"{node.outputs[0].name} part {len(parts)}"
        maker = maker_of(made)
        made.type = data.type
        windowed(x, maker, COUNTED)
        parts.append(made)
    axes = x.run_sizes(parts[0])
    y = x.node(node, "Div", parts, [(int(dtype_of(data)), shape_of(parts[0]))])[0]
    x.substitute(node, y, axes)


@dynamic("GlobalAveragePool")
def global_average_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a GlobalAveragePool: the mean over the spatial axes without their
    padding.
    """
    data = needed(node, 0)
    y = means(x, data, node, list(range(2, len(shape_of(data)))))
    x.substitute(node, y, x.run_sizes(y))


@checks("MaxPool AveragePool LpPool")
def pool_window(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the window of a pool does not fit its input; "" if it does."""
    return window_fits(node, partial_values) or window_holds(node)
