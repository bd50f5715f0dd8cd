# SPDX-License-Identifier: Apache-2.0
"""Conv, alone or with what follows it: residual Add and activation in the same pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import F32, F64
from aot.ir.layout import PLAIN, Layout, blocked
from aot.ir.operators import AUTO_PAD, AtLeast, Linear, ShapeOf, Window, operator
from aot.ops import conv_plan as plan, conv_winograd as winograd
from aot.ops.conv_bf16 import costs, plan_rounded
from aot.ops.conv_grouped import pixel_vectors, plan_grouped
from aot.ops.conv_plan import ConvShape, KernelCall
from aot.ops.fused import fuse, with_bounds
from aot.ops.narrow import rounds
from aot.ops.registry import op
from aot.partition.cost.costs import multiplications
from aot.shapes.checks import checks, window_fits
from aot.shapes.operands import POINTS, convolved, operands_fit
from aot.vendor import (
    OP,
    Case,
    Match,
    NodeRef,
    Recorder,
    ValueRef,
    WindowShape,
    case,
    f32,
    same_shapes,
    wildcard,
)
from aot.vendor.activations import NO_ACT, Act
from aot.vendor.layouts import narrow
from aot.vendor.pattern import OpPat, names
from aot.vendor.quantised_product import product_node

conv = op(
    "Conv",
    inputs="x w b?",
    traits=[Window("x", kernel="w"), Linear("x", "w", "b", out_axis=0, groups="group")],
    auto_pad=AUTO_PAD,
    group=AtLeast(1, 1),
    kernel_shape=ShapeOf("w"),
    rules=[
        operands_fit.by(convolved(1, 2, {})),
        multiplications.by(lambda node, x, w, y: math.prod(y) * math.prod(w[1:])),
    ],
)
operator(
    "QLinearConv",
    "x xs xz w ws wz ys yz b?",
    traits=[Window("x", kernel="w", padding="xz")],
    auto_pad=AUTO_PAD,
    group=AtLeast(1, 1),
    kernel_shape=ShapeOf("w"),
    rules=[operands_fit.by(convolved(3, 8, {**POINTS, 6: "y_scale", 7: "y_zero_point"}))],
)


def conv_shape(m: Match, node: NodeRef) -> ConvShape:
    """The sizes of the convolution `node`, as the planner of kernels takes them, in elements.

    A 1-D convolution [N, C, W] counts as a 2-D one of height 1. Pads are those before the image;
    what lies behind it follows from the sizes of x and y.
    """
    x, w, y = m.x.shape, m.w.shape, m.y.shape
    window = WindowShape.of(node, w[2:]).widened(2)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    ih, oh = (x[2], y[2]) if m.x.rank == 4 else (1, 1)
    pt, pl = window.before
    return ConvShape(
        x[0],
        x[1],
        ih,
        x[-1],
        w[0],
        oh,
        y[-1],
        kh,
        kw,
        sh,
        sw,
        dh,
        dw,
        pt,
        pl,
        int(node.attr("group", 1)),
    )


def packed(m: Match) -> bool:
    """Whether the fast kernels compute it: float32, one or two axes, constant weights, not
    empty.
    """
    b = m.values.get("b")
    constant = m.w.is_const and (b is None or b.is_const)
    return bool(
        m.x.dtype is F32 and m.x.rank in (3, 4) and constant and 0 not in m.x.shape + m.y.shape
    )


def reads_plain(sizes: ConvShape, incoming: Layout, lanes: int) -> bool:
    """Whether a plain input is read as it is, without converting it to blocks.

    That pays for few channels, long runs of columns, or few results. `lanes` are channels of a
    block.
    """
    if incoming.blocked or sizes.groups > 1:
        return False
    columns = 2 if narrow(sizes.oc, lanes) else min(sizes.ic, 8)
    return narrow(sizes.ic, lanes) or (sizes.dw == 1 and sizes.kw >= columns)


def writes_plain(m: Match, sizes: ConvShape, lanes: int) -> bool:
    """Whether the result is stored plain, since it has few channels.

    A depthwise convolution, and one whose result a depthwise convolution reads, needs blocks.
    """
    if not narrow(sizes.oc, lanes) or (sizes.depthwise and m.values.get("r") is None):
        return False
    return not feeds_depthwise(m.y)


def feeds_depthwise(value: ValueRef) -> bool:
    """Whether a depthwise convolution reads `value` [N, C, *S]."""
    convs = [use.node for use in value.ir.uses() if use.node.op_type == "Conv"]
    groups = [node.attributes.get("group") for node in convs]
    return any(g is not None and g.as_int() == value.shape[1] > 1 for g in groups)


def shapes_agree(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of every Conv: float32 or float64, one to three spatial axes, groups that fit
    channels.
    """
    yield m.x.dtype in (F32, F64), f"dtype {m.x.dtype} (needs float32 or float64)"
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    groups = int(product_node(m).attr("group", 1))
    fits = groups > 0 and m.x.shape[1] == groups * m.w.shape[1] and m.w.shape[0] % groups == 0
    yield fits, f"group {groups} does not fit {m.x.shape[1]} channels, weights {m.w.shape}"


def layouts_of(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts of a convolution: blocked input and result, except where few channels stay plain.

    A residual `r` has the layout of the result. {} (all plain) for what the fast kernels do not
    compute.
    """
    if not packed(m) or vlen == 1:
        return {}
    s = conv_shape(m, product_node(m))
    if pixel_vectors(s, vlen):
        return {}
    y = PLAIN if writes_plain(m, s, vlen) else blocked(vlen)
    wanted = {"x": PLAIN if reads_plain(s, incoming["x"], vlen) else blocked(vlen), "y": y}
    if "r" in m.values:
        wanted["r"] = y
    return wanted


def plan_of(m: Match, node: NodeRef, act: Act, c: Recorder) -> KernelCall:
    """The kernel, tiles, packed weights and parameters for a match with constant weights.

    Grouped, depthwise, plain, Winograd and direct kernels are tried in that order; direct ones
    multiply numbers of bfloat16 where `rounds` lets them.
    """
    s = conv_shape(m, node)
    w = np.asarray(m.w.data).reshape(s.oc, s.ic // s.groups, s.kh, s.kw)
    b = None if m.b is None else np.asarray(m.b.data)
    y_plain = not m.y.layout.blocked
    if c.vlen > 1 and pixel_vectors(s, c.vlen):
        return plan_grouped(s, w, b, c.vlen, act)
    lanes = s.in_lanes(c.vlen) and m.x.layout.blocked and not y_plain
    if (s.depthwise or lanes) and m.values.get("r") is None:
        return plan.plan_depthwise(s, w, b, c.vlen, act)
    if reads_plain(s, m.x.layout, c.vlen):
        return plan.plan_plain(s, w, b, c.vlen, act, y_plain)
    halves = s.groups == 1 and not y_plain and rounds(c, node, s.oh * s.ow) == "bf16"
    rounded, exact = costs(s, c.vlen) if halves else (1.0, 1.0)
    # Winograd rounds differently, and its weights and tiles take more memory.
    if c.accuracy != "strict" and c.objective not in ("ram", "flash"):
        first = s.ic * s.kh * s.kw <= winograd.EXACT_PRODUCTS
        error = winograd.FIRST_ERROR if first else winograd.ERROR
        error = winograd.ANY_ERROR if c.accuracy == "fast" else error
        direct = rounded / exact
        points = 0 if y_plain else winograd.choice(s, c.vlen, error, c.price, direct)
        if points:
            return winograd.plan_winograd(s, w, b, c.vlen, act, points)
    call = plan.plan_blocked(s, w, b, c.vlen, act, y_plain)
    return (plan_rounded(s, w, call, c.vlen) if halves else None) or call


def record(c: Recorder, m: Match, node: NodeRef, act: Act) -> None:
    """Record the call of a convolution with its fused residual and activation `act`.

    The residual may share memory with the result unless it is the input, too.
    """
    if not packed(m):
        record_general(c, m, node)
        return
    call = plan_of(m, node, act, c)
    r = m.values.get("r")
    args: list[Any] = [m.y, m.x, c.const(call.weights, "w")]
    if call.bias.size:
        args.append(c.const(call.bias, "b"))
    # Depthwise kernels have no operand for a residual.
    if "dwconv" not in call.kernel:
        args.append(r)
    if call.scratch is not None:
        args.append(c.scratch(call.scratch))
    in_place = r is not None and r.ir is not m.x.ir
    c.call(
        call.kernel,
        *args,
        c.params(**call.fields),
        instance=call.instance,
        inplace=[(m.y, r)] if in_place else (),
        macs=conv_shape(m, node).macs,
        rowwise=plan.rowwise(conv_shape(m, node), call, c.vlen, r is not None),
        splits=call.splits or plan.conv_splits(conv_shape(m, node), call, c.vlen),
    )


def record_general(c: Recorder, m: Match, node: NodeRef) -> None:
    """Record scalar loops on plain tensors: any rank, float64, weights that are computed at run
    time.
    """
    params = c.params(**loops_of(m, node))
    macs = math.prod(m.y.shape) * math.prod(m.w.shape[1:])
    c.call(f"aot_conv_{m.x.dtype.short}_ref", m.y, m.x, m.w, m.b, params, macs=macs)


def loops_of(m: Match, node: NodeRef) -> dict[str, Any]:
    """Parameters of kernels of scalar loops: sizes and window, with three spatial axes."""
    window, lead = WindowShape.of(node, m.w.shape[2:]).widened(3), (1,) * (5 - m.x.rank)
    return {
        "n": m.x.shape[0],
        "ic": m.x.shape[1],
        "oc": m.w.shape[0],
        "groups": int(node.attr("group", 1)),
        "in": lead + tuple(m.x.shape[2:]),
        "out": lead + tuple(m.y.shape[2:]),
        "k": window.kernel,
        "s": window.strides,
        "d": window.dilations,
        "pad": window.before,
    }


@conv.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a Conv without anything fused."""
    record(c, m, product_node(m), NO_ACT)


conv.check(shapes_agree)
conv.layouts(layouts_of)


def fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a Conv with fused operators: the fast kernels compute it, and a residual has the
    shape of the result.
    """
    yield packed(m), "only float32 convolutions with constant weights are fused"
    r = m.values.get("r")
    if r is not None:
        yield same_shapes(m, r)
        # The kernel of depthwise convolutions has no operand for a residual.
        one_each = m.x.shape[1] == m.w.shape[0] == int(m.conv.attr("group", 1)) > 1
        yield not one_each, "a depthwise convolution adds nothing"


def fused_case(graph: OpPat) -> Iterator[Case]:
    """A case of a 3 x 3 convolution with the operators that are fused behind it."""
    arrays = [f32(1, 5, 6, 6), f32(12, 5, 3, 3, low=-0.2, high=0.2), f32(12)]
    arrays += [f32(1, 12, 4, 4)] if "r" in names(graph)[0] else []
    yield with_bounds(graph, arrays)


_CONV = OP.Conv(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1)
for _name, _graph in (("conv", _CONV), ("conv_add", OP.Add(_CONV, wildcard("r")))):
    fuse(
        _name,
        _graph,
        shapes_agree,
        fits,
        record=lambda c, m, act: record(c, m, product_node(m), act),
        case_of=fused_case,
        layouts=layouts_of,
    )


@conv.cases
def cases() -> Iterator[Case]:
    """Conv(X [N, C, *S], W [M, C / group, *K], B): 1-D to 3-D, constant and computed weights."""
    const = (1, 2)
    yield case(f32(1, 3, 9, 9), f32(8, 3, 3, 3), f32(8), const=const, pads=[1, 1, 1, 1])
    yield case(f32(1, 3, 9, 8), f32(20, 3, 5, 3), const=const, strides=[2, 2], pads=[2, 0, 1, 1])
    yield case(f32(2, 16, 7, 5), f32(33, 16, 1, 1), f32(33), const=const)
    yield case(f32(1, 17, 6, 6), f32(24, 17, 3, 3), const=const, dilations=[2, 1])
    yield case(f32(1, 24, 9, 9), f32(24, 1, 3, 3), f32(24), const=const, group=24, strides=[2, 2])
    yield case(f32(1, 32, 6, 6), f32(64, 16, 3, 3), const=const, group=2, pads=[1, 1, 1, 1])
    yield case(f32(1, 12, 5, 5), f32(12, 3, 2, 2), f32(12), const=const, group=4)
    yield case(f32(2, 24, 6, 7), f32(68, 6, 1, 1), f32(68), const=const, group=4)
    yield case(f32(1, 36, 40), f32(20, 9, 1), const=const, group=4)
    for each, channels in ((2, 14), (4, 40), (8, 32)):
        w, b = f32(channels, each, 3, 3), f32(channels)
        yield case(f32(1, channels, 9, 7), w, b, const=const, group=channels // each, pads=[1] * 4)
    yield case(f32(1, 1, 60), f32(6, 1, 16), const=const, strides=[4])
    yield case(f32(1, 20, 15), f32(18, 20, 3), f32(18), const=const, pads=[2, 0], dilations=[2])
    yield case(f32(1, 2, 4, 5, 6), f32(4, 1, 3, 2, 2), f32(4), const=const, group=2)
    yield case(f32(1, 17, 2, 5), f32(24, 17, 3, 3), f32(24), const=const)  # no window has a place
    yield case(f32(1, 3, 6, 6), f32(4, 3, 3, 3), f32(4))
    yield case(f32(1, 64, 14, 14), f32(32, 64, 3, 3), f32(32), const=const, pads=[1, 1, 1, 1])
    double = [a.astype(np.float64) for a in (f32(1, 3, 6, 6), f32(4, 3, 3, 3))]
    yield case(*double, const=const, rtol=1e-7)


checks("Conv QLinearConv")(window_fits)
