# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose, alone or with an activation: float32, one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SAME, attribute, operand, shape_of
from aot.ir.layout import Layout, blocked
from aot.ir.operators import AUTO_PAD, AtLeast, Linear, ShapeOf
from aot.normalise.attributes import canonical
from aot.ops.fused import fuse, with_bounds
from aot.ops.registry import op
from aot.partition.cost.costs import multiplications
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.rules import dynamic, only_first
from aot.shapes.dynamic.windows import spatial_attribute
from aot.shapes.operands import operand_shape, operands_fit, ungrouped, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor import F32, OP, Case, Handle, Match, Recorder, WindowShape, case, f32, wildcard
from aot.vendor.activations import NO_ACT, Act
from aot.vendor.pattern import OpPat
from aot.vendor.quantised_product import product_node

transposed = op(
    "ConvTranspose",
    inputs="x w b?",
    traits=[Linear("x", "w", "b", out_axis=1, groups="group")],
    auto_pad=AUTO_PAD,
    group=AtLeast(1, 1),
    kernel_shape=ShapeOf("w"),
    rules=[multiplications.by(lambda node, x, w, y: math.prod(x) * math.prod(w[1:]))],
)


def pack(w: np.ndarray[Any, Any], groups: int, vlen: int) -> np.ndarray[Any, Any]:
    """Weights [C, M/g, *k] as [g, ceil(M/g/v), kd, kh, kw, C/g, v] float32, zero padded.

    `groups` is g and `vlen` v; missing outer spatial axes have size 1.
    """
    c, m, *k = w.shape
    taps = (1,) * (3 - len(k)) + tuple(k)
    blocks = -(-m // vlen)
    padded = np.zeros((groups, c // groups, blocks * vlen, *taps), np.float32)
    padded[:, :, :m] = w.reshape(groups, c // groups, m, *taps)
    split = padded.reshape(groups, c // groups, blocks, vlen, *taps)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 6, 1, 3))


def fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the operator and its fusions: float32, one to three spatial axes, groups
    that fit.
    """
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    groups = int(product_node(m).attr("group", 1))
    agree = m.w.shape[0] == m.x.shape[1] and m.x.shape[1] % groups == 0
    yield agree, f"group {groups} does not fit {m.x.shape[1]} channels, weights {m.w.shape}"
    yield 0 not in m.w.shape, f"empty weights {list(m.w.shape)}"


def layouts_of(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: input blocked where there is one group, result blocked if it fills half a
    vector.
    """
    if vlen == 1 or int(product_node(m).attr("group", 1)) != 1:
        return {}
    few = 2 * m.y.shape[1] < vlen
    return {"x": blocked(vlen)} if few else {"x": blocked(vlen), "y": blocked(vlen)}


def weights_of(c: Recorder, m: Match, groups: int, vlen: int) -> Handle:
    """The weights [channels, columns, *kernel] as panels of `vlen` columns, float32.

    Constant ones are packed at compile time. Others are packed at every run into a temporary, by a
    call of aot_panels_f32 per group, since the groups follow each other along the first axis.
    """
    if m.w.is_const:
        return c.const(pack(np.asarray(m.w.data), groups, vlen), "w")
    channels, columns, *k = m.w.shape
    taps, inner = math.prod(k), channels // groups
    size = -(-columns // vlen) * vlen * taps * inner
    whole = c.temp((groups * size,), F32, name="w")
    # The recorder checks that it is written, as it does for the results of the match.
    c.defines(whole)
    for g in range(groups):
        params = c.params(
            sections=1,
            columns=columns,
            padded=0,
            panels=-(-columns // vlen),
            outer=taps,
            inner=inner,
            plus_sections=0,
            row=taps,
            outer_step=1,
            inner_step=columns * taps,
        )
        source = c.read(m.w, 4 * g * inner * columns * taps)
        to = c.write(whole, 4 * g * size)
        c.call("aot_panels_f32", to, source, None, params, instance={"PANEL": vlen})
    return whole


def bias_of(c: Recorder, m: Match, channels: int, vlen: int) -> Handle:
    """The bias of `channels` floats, padded by zeros to a multiple of `vlen`; zeros without a bias.

    A constant bias is padded at compile time, one that is computed is copied to a temporary tensor.
    """
    # The kernel reads whole vectors.
    width = -(-channels // vlen) * vlen
    if m.b is None or m.b.is_const:
        bias = np.zeros(width, np.float32)
        if m.b is not None:
            bias[:channels] = np.asarray(m.b.data)
        return c.const(bias, "b")
    whole = c.temp((width,), F32, name="b")
    c.defines(whole)
    params = c.params(
        sections=1,
        columns=channels,
        padded=0,
        panels=width // vlen,
        outer=1,
        inner=1,
        plus_sections=0,
        row=1,
        outer_step=0,
        inner_step=0,
    )
    c.call("aot_panels_f32", whole, m.b, None, params, instance={"PANEL": vlen})
    return whole


def record(c: Recorder, m: Match, act: Act) -> None:
    """Record one call of aot_convtranspose_f32 with the activation `act`.

    The output's shape tells the kernel what output_padding added.
    """
    node = product_node(m)
    groups, v, oc = int(node.attr("group", 1)), m.x.layout.block or 1, m.y.shape[1]
    # The kernel has three spatial axes; those that the node lacks come first, with size 1.
    window, lead = WindowShape.of(node, m.w.shape[2:]).widened(3), (1,) * (5 - m.x.rank)
    c.call(
        "aot_convtranspose_f32",
        m.y,
        m.x,
        weights_of(c, m, groups, v),
        bias_of(c, m, oc, v),
        c.params(
            n=m.x.shape[0],
            ic=m.x.shape[1],
            oc=oc,
            group=groups,
            **{"in": lead + tuple(m.x.shape[2:]), "out": lead + tuple(m.y.shape[2:])},
            kernel=window.kernel,
            stride=window.strides,
            dilation=window.dilations,
            pad=window.before,
            act=act.kind,
            alpha=act.alpha,
            beta=act.beta,
        ),
        instance={"V": v, "YV": m.y.layout.block or 1},
        macs=math.prod(m.x.shape) * math.prod(m.w.shape[1:]),
    )


transposed.check(fits)
transposed.layouts(layouts_of)


@transposed.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a ConvTranspose without an activation."""
    record(c, m, NO_ACT)


def fused_case(graph: OpPat) -> Iterator[Case]:
    """A 3 x 3 transposed convolution with an activation."""
    arrays = [f32(1, 5, 4, 4), f32(5, 12, 3, 3, low=-0.2, high=0.2), f32(12)]
    yield with_bounds(graph, arrays)


fuse(
    "convtranspose",
    OP.ConvTranspose(*map(wildcard, "xwb"), _outputs=["conv"], _optional=1),
    fits,
    record=record,
    case_of=fused_case,
    layouts=layouts_of,
)


@transposed.cases
def cases() -> Iterator[Case]:
    """ConvTranspose(X [N, C, *S], W [C, M / group, *K], B): 1-D to 3-D."""
    const = (1, 2)
    yield case(f32(1, 3, 5, 5), f32(3, 8, 2, 2), f32(8), const=const, strides=[2, 2])
    yield case(f32(1, 3, 1, 1), f32(3, 2, 1, 1), f32(2), const=const)
    yield case(f32(1, 3, 5, 4), f32(3, 1, 3, 2), group=3, strides=[2, 1])
    yield case(f32(1, 3, 5, 5), f32(3, 20, 3, 2), f32(20), strides=[2, 2])
    yield case(f32(2, 18, 4, 3), f32(18, 20, 3, 3), f32(20), const=const, strides=[2, 1])
    yield case(f32(1, 4, 5, 7), f32(4, 3, 3, 3), const=const, pads=[1, 1, 1, 1], strides=[3, 2])
    yield case(f32(1, 3, 4, 4), f32(3, 1, 3, 3), const=const, group=3, strides=[2, 2])
    yield case(f32(1, 4, 9), f32(4, 17, 3), f32(17), const=const, dilations=[2], strides=[2])
    yield case(
        f32(1, 4, 3, 3),
        f32(4, 5, 3, 3),
        const=const,
        strides=[3, 2],
        output_padding=[1, 1],
        pads=[1, 0, 1, 0],
    )
    yield case(f32(1, 2, 2, 3, 2), f32(2, 4, 2, 2, 3), f32(4), const=const, strides=[2, 1, 2])


@dynamic("ConvTranspose")
def transposed_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a ConvTranspose: the result has stride * n + a constant, at least 0.

    Padding becomes 0 first. UnsupportedError for dynamic channels, or a fixed output_shape.
    """
    data = only_first(x, node)
    own, rank = x.run_sizes(data), len(shape_of(data)) - 2
    inside = [a for a in own if a >= 2]
    if 1 in own or (inside and attribute(node, "output_shape", None)):
        raise refused(node, "runs along a dimension known at run time only")
    strides = spatial_attribute(node, "strides", rank, 1)
    # Each element of the padding would be spread over results that count.
    if inside:
        data = x.neutral(node, data, 0, inside)
        node.replace_input_with(0, data)
    x.sweep.type_outputs(node)
    result = node.outputs[0]
    axes = {a: n for a, n in own.items() if a < 2}
    for axis in inside:
        stride = strides[axis - 2]
        more = shape_of(result)[axis] - stride * shape_of(data)[axis]
        n = x.mul(node, own[axis], x.ints(node, [stride]))
        n = x.add(node, n, x.ints(node, [more]))
        n = x.largest(node, n, x.ints(node, [0]))
        axes[axis] = x.new(n, shape_of(result)[axis])
    x.set(result, axes)


@operands_fit("ConvTranspose")
def transposed_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why weights and bias of a ConvTranspose do not fit; "" if they do."""
    w, group = operand_shape(node, 1) or (), int(attribute(node, "group", 1))
    return ungrouped(node, 1, True) or wrong("bias", operand_shape(node, 2), (w[1] * group,))


@canonical("ConvTranspose")
def explicit_pads(edit: Editor, node: ir.Node) -> None:
    """Before: ConvTranspose(x, w, auto_pad=…, output_shape=…). After: pads and output_padding.

    What the result lacks of the full size is padding, its odd element at the end for SAME_UPPER and
    at the beginning for others; what it has beyond the full size is output_padding. All of
    kernel_shape, strides, dilations, pads, output_padding and group are written out.
    """
    sizes, weights = shape_of(operand(node, 0))[2:], shape_of(operand(node, 1))
    result = shape_of(node.outputs[0])[2:]
    kernel, rank = list(weights[2:]), len(weights) - 2
    strides = [int(s) for s in attribute(node, "strides") or [1] * rank]
    dilations = [int(d) for d in attribute(node, "dilations") or [1] * rank]
    extra = [int(p) for p in attribute(node, "output_padding") or [0] * rank]
    pads = [int(p) for p in attribute(node, "pads") or [0] * (2 * rank)]
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    if auto == "VALID":
        pads = [0] * (2 * rank)
    if auto in SAME or attribute(node, "output_shape"):
        begins, ends = [], []
        for i in range(rank):
            full = strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = max(full - result[i], 0)
            half = total // 2
            begins.append(half if auto == "SAME_UPPER" else total - half)
            ends.append(total - begins[-1])
            extra[i] += max(result[i] - full, 0)
        pads = begins + ends
    for name in ("auto_pad", "output_shape"):
        edit.drop_attribute(node, name)
    for name, value in (
        ("kernel_shape", kernel),
        ("strides", strides),
        ("dilations", dilations),
        ("output_padding", extra),
        ("pads", pads),
    ):
        edit.set_attribute(node, name, value)
    edit.set_attribute(node, "group", int(attribute(node, "group", 1)))
