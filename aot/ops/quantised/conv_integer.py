# SPDX-License-Identifier: Apache-2.0
"""ConvInteger: convolutions of 8-bit values whose zero point a run finds; the sums are int32.

With vectors, constant weights, and one group or a filter per channel, weights are packed: x has its
channels last, and the sums have theirs in blocks, as the float operators behind them read them.
Everything else is scalar loops over plain tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.operators import AUTO_PAD, AtLeast, ShapeOf, Window
from aot.ir.splits import Split
from aot.normalise.decompose import DOUBLE, INT32, Body, decompose
from aot.ops.conv import loops_of
from aot.ops.quantised import conv_dot, conv_vector
from aot.ops.quantised.common import signed_input
from aot.ops.quantised.dynamic import HEADER, LONGEST, pair, points, step
from aot.ops.quantised.shapes import QConv, padded, round_up
from aot.ops.registry import op
from aot.shapes.checks import checks, window_fits
from aot.shapes.operands import convolved, operands_fit
from aot.vendor import (
    Case,
    Layout,
    Match,
    Recorder,
    WindowShape,
    case,
    channels_last,
    quantised_values,
)
from aot.vendor.quantisation import QUANTISED_TYPES

conv = op(
    "ConvInteger",
    "x w xz? wz?",
    traits=[Window("x", kernel="w", padding="xz")],
    auto_pad=replace(AUTO_PAD, default="NOTSET"),
    dilations=None,
    group=AtLeast(1, 1),
    kernel_shape=ShapeOf("w"),
    pads=None,
    strides=None,
    rules=[
        operands_fit.by(convolved(1, 0, {2: "x_zero_point", 3: "w_zero_point"})),
        checks.by(window_fits),
    ],
)


@conv.check
def conv_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a ConvInteger: types, ranks, pads, sums that fit int32, groups, zero points."""
    yield from pair(m.x, m.w, m.y)
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    yield m.auto_pad in ("NOTSET", "VALID"), f"auto_pad {m.auto_pad!r} (needs explicit pads)"
    terms = math.prod(m.w.shape[1:])
    yield terms <= LONGEST, f"sums of {terms} products (at most {LONGEST})"
    groups = int(m.group)
    fits = groups > 0 and m.x.shape[1] == groups * m.w.shape[1] and m.w.shape[0] % groups == 0
    yield fits, f"group {groups} does not fit {m.x.shape[1]} channels, weights {m.w.shape}"
    yield from points(m.xz, 1)
    yield from points(m.wz, m.w.shape[0])


def _packable(m: Match) -> bool:
    """Whether weights are constant and one group, or of a filter per channel; two axes at most."""
    constant: bool = (
        m.w.is_const and (m.wz is None or m.wz.is_const) and 0 not in m.y.shape + m.w.shape
    )
    return constant and m.x.rank < 5 and (int(m.group) == 1 or _depthwise(m))


def _depthwise(m: Match) -> bool:
    """Whether every channel has one filter of its own."""
    return bool(int(m.group) == m.w.shape[0] == m.x.shape[1])


@conv.layouts
def conv_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels of x last and of the sums in blocks, where weights are packed for vectors."""
    packed = vlen > 1 and _packable(m)
    return {"x": channels_last(m.x), "y": Layout(vlen)} if packed else {}


def _record_packed(c: Recorder, m: Match) -> None:
    """Record the convolution with weights packed at compile time: by dot products, else in
    vectors.
    """
    window, lead, t = (
        WindowShape.of(m.root, m.w.shape[2:]).widened(2),
        (1,) * (4 - m.x.rank),
        c.target,
    )
    sizes = (*m.x.shape[:2], *lead, *m.x.shape[2:], m.w.shape[0], *lead, *m.y.shape[2:])
    moves = window.kernel + window.strides + window.dilations + window.before
    units: dict[str, Any] = {"arch": t.arch, "simd": t.simd, "vlen": c.vlen}
    units |= {"kind": "dwconv" if _depthwise(m) else "conv"}
    units |= dict.fromkeys(("x_zero", "y_zero", "lo", "hi"), 0)
    shape = QConv(*sizes, *moves, **units)
    data, zero = m.w.data, np.int64(0) if m.wz is None else m.wz.data
    assert data is not None and zero is not None
    w = data.astype(np.int64) - zero.astype(np.int64).reshape(-1, *[1] * (data.ndim - 1))
    w = w.reshape(*w.shape[:2], *window.kernel)
    sums, none = w.reshape(shape.oc, -1).sum(axis=1), np.zeros(shape.oc, np.int64)
    instance, x = {"XT": QUANTISED_TYPES.index(m.x.dtype)}, m.x
    if shape.kind == "dwconv":
        call = conv_vector.plan(shape, w, none)
        instance["W16"] = call.instance["W16"]
        tables, scratch = [padded(sums.astype(np.int32), c.vlen)], []
        kernel, x = "aot_dwconvinteger__vec", signed_input(c, m.x)
    elif t.simd == "dot":
        call = conv_dot.plan(shape, w, none, 0 if c.objective == "ram" else conv_dot.STRIP)
        tables = [call.bias, padded(sums.astype(np.int32), c.vlen)]
        scratch = [c.scratch(round_up(4 * len(call.bias), 64) + call.scratch)]
        kernel, instance = "aot_convinteger__dot", {**instance, **call.instance}
    else:
        stored, lacking = conv_dot.split(w)
        call = conv_vector.plan(shape, stored, none)
        tables = [call.bias, padded(lacking, c.vlen * call.instance["O"])]
        scratch = [c.scratch(call.scratch)]
        instance |= {"WZ": int(lacking.any()), **call.instance}
        kernel = "aot_convinteger__vec"
    c.call(
        kernel,
        m.y,
        x,
        c.const(call.weights, "w"),
        *(c.const(t, "sums") for t in tables),
        m.xz,
        *scratch,
        c.params(**shape.fields()),
        instance=instance,
        macs=shape.macs,
        splits=(Split.rows(shape.oh),),
    )


@conv.lower
def conv_to_kernel(c: Recorder, m: Match) -> None:
    """Record a ConvInteger: packed for vectors if its weights are constant, else by scalar
    loops.
    """
    if c.vlen > 1 and _packable(m):
        _record_packed(c, m)
        return
    params = c.params(**loops_of(m, m.root), w_step=step(m.wz))
    instance = {"XT": QUANTISED_TYPES.index(m.x.dtype), "WT": QUANTISED_TYPES.index(m.w.dtype)}
    macs = math.prod(m.y.shape) * math.prod(m.w.shape[1:])
    operands = (m.y, m.x, m.w, m.xz, m.wz, params)
    c.call("aot_convinteger", *operands, instance=instance, macs=macs, header=HEADER)


@conv.cases
def conv_cases() -> Iterator[Case]:
    """ConvInteger: images with groups, filters per channel and zero points, a row without; uint8
    and int8; weights that are computed.
    """
    x, w = quantised_values(1, 4, 6, 5, dtype="uint8"), quantised_values(6, 2, 3, 2, dtype="uint8")
    named: dict[str, Any] = {"pads": [1, 0, 1, 1], "strides": [2, 1], "group": 2}
    zero = np.array(9, np.uint8)
    yield case(x, w, zero, zero, const=(1,), **named)
    yield case(quantised_values(1, 3, 8), quantised_values(2, 3, 3))
    yield case(quantised_values(1, 3, 8), quantised_values(2, 3, 3), const=(1,))
    image = quantised_values(2, 19, 7, 6, dtype="uint8", seed=2)
    padding: dict[str, Any] = {"pads": [1, 2, 0, 1]}
    more: tuple[tuple[Array, dict[str, Any]], ...] = (
        (quantised_values(35, 19, 3, 3, dtype="uint8"), {"strides": [1, 2]}),
        (quantised_values(6, 19, 3, 2, dtype="uint8", seed=3), {"dilations": [2, 1]}),
        (quantised_values(19, 1, 3, 3, dtype="uint8", seed=4), {"group": 19}),
    )
    for weights, named in more:
        zeros = np.array(77, np.uint8), np.array(130, np.uint8)
        yield case(image, weights, *zeros, const=(1, 3), **padding, **named)
    yield case(image, quantised_values(40, 19, 1, 1), zeros[0], const=(1,))


@decompose("ConvInteger")
def _conv_integer(b: Body) -> bool:
    # Sums of products of 9-bit numbers are exact in float64.
    """Decompose a ConvInteger: float64 operands less their zero points, convolved, cast to
    int32.
    """
    left, right = b.centred(0, 2, DOUBLE, 1), b.centred(1, 3, DOUBLE, 0)
    b.add("Cast", b.add("Conv", left, right, **b.attributes()), to=INT32, out="o0")
    return True
