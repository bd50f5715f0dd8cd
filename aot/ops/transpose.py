# SPDX-License-Identifier: Apache-2.0
"""Permutations of axes: Transpose, DepthToSpace, SpaceToDepth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, attribute, operand, shape_of
from aot.ir.layout import Layout, blocked, can_block
from aot.ir.operators import AtLeast, Exact, Moves, OneOf, View
from aot.load.encode_strings import Strings, encodes
from aot.normalise.attributes import canonical, rank_of
from aot.normalise.identities import identity
from aot.ops.conv import feeds_depthwise
from aot.ops.registry import op, portable
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import fitted, require_equal
from aot.shapes.dynamic.rules import dynamic, needed, only_first, pass_on
from aot.shapes.evaluate import evaluates, need
from aot.shapes.operands import operand_shape, operands_fit
from aot.shapes.partial_values import PartialValues
from aot.shapes.reference import Inputs
from aot.vendor import OP, Match, Recorder, channels_last, wildcard
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.strided_copy import Axis, copy_permuted, move, stored


@identity("Transpose")
def in_order(node: ir.Node) -> bool:
    """Whether a Transpose moves no element: the axes longer than 1 stay in order."""
    shape = shape_of(operand(node, 0))
    perm = attribute(node, "perm") or range(len(shape))[::-1]
    moved = [a for a in perm if shape[a] != 1]
    return moved == sorted(moved)


transpose = op("Transpose", "x", traits=[Moves(), View(when=in_order)], perm=None)
depth_to_space = op(
    "DepthToSpace",
    "x",
    traits=[Moves(bytes_only=True), Exact()],
    blocksize=AtLeast(1, 1),
    mode=OneOf("DCR CRD", "DCR"),
)
space_to_depth = op(
    "SpaceToDepth",
    "x",
    traits=[Moves(bytes_only=True), Exact()],
    blocksize=AtLeast(1, 1),
    mode=OneOf("DCR CRD", "DCR"),
)


@evaluates("Transpose")
def transpose_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant with its axes in another order."""
    return [np.transpose(need(inputs, 0), attribute(node, "perm"))]


def permutation(m: Match) -> tuple[int, ...]:
    """For each axis of the result the axis of x; reversed order without the attribute."""
    return tuple(m.perm) if m.perm is not None else tuple(reversed(range(m.x.rank)))


@transpose.layouts
def reads_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: a Transpose to channels last reads blocked channels as they are.

    8-bit quantised values that arrive channels last and get their channels in front stay where they
    are.
    """
    layout, perm = incoming["x"], permutation(m)
    if _makes_channels_last(m) and not layout.blocked:
        return {"y": channels_last(m.y)}
    if not layout.blocked or perm != (0, *range(2, m.x.rank), 1):
        return {}
    channels = m.x.shape[1]
    fits = channels % layout.block == 0 or channels < layout.block
    return {"x": layout} if fits else {}


def _makes_channels_last(m: Match) -> bool:
    """Whether a Transpose brings the last axis of 8-bit values to axis 1, a view of
    channels last.
    """
    rank = m.x.rank
    return (
        can_block(m.x.shape)
        and m.x.dtype.nbytes == 1
        and (permutation(m) == (0, rank - 1, *range(1, rank - 1)))
    )


@transpose.lower
def transpose_to_kernel(c: Recorder, m: Match) -> None:
    """Record a Transpose: a view where no element moves, else a strided copy of the stored x."""
    if m.y.layout.blocked:
        c.view(m.y, m.x)
        return
    rank, block = m.x.rank, m.x.layout.block
    if not block:
        copy_permuted(c, m.y, m.x, m.x.shape, permutation(m))
    elif m.x.shape[1] % block == 0:
        copy_permuted(c, m.y, m.x, stored(m.x), (0, *range(2, rank), 1, rank))
    else:
        n, channels, *_ = m.x.shape
        space = math.prod(m.x.shape[2:])
        axes = [Axis(n * space, channels, block), Axis(channels, 1, 1)]
        move(c, m.y, m.x, axes)


@transpose.cases
def transpose_cases() -> Iterator[Case]:
    """Transpose(data): many permutations, elements of 1, 4 and 8 bytes."""
    yield case(f32(2, 3, 4))
    yield case(f32(3, 37, 41), perm=[0, 2, 1])
    yield case(f32(2, 3, 4, 5), perm=[0, 2, 3, 1])
    yield case(f32(1, 5, 6, 3), perm=[0, 3, 1, 2])
    yield case(f32(2, 3, 4, 5), perm=[2, 0, 1, 3])
    yield case(ints(5, 3, 4, 2, dtype="int8"), perm=[3, 1, 2, 0])
    yield case(ints(2, 3, 4, 5, dtype="int8"), perm=[0, 3, 1, 2])
    yield case(ints(17, 33, dtype="int64"), perm=[1, 0])
    yield case(f32(1, 5, 1, 3), perm=[2, 1, 0, 3])
    yield case(f32(2, 32, 3, 4), perm=[0, 2, 3, 1])
    yield case(f32(2, 1, 3, 2, 2, 3), perm=[5, 3, 1, 0, 2, 4])


channel_shuffle = portable.declare(
    "channel_shuffle",
    OP.Reshape(
        OP.Transpose(OP.Reshape(wildcard("x"), wildcard("split")), _outputs=["turn"]),
        wildcard("merged"),
    ),
)


@channel_shuffle.check
def groups_swapped(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that channels are split in two axes, which change places, and are joined again."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    yield m.x.shape == m.y.shape, f"{list(m.x.shape)} becomes {list(m.y.shape)}"
    perm = tuple(m.turn.attr("perm") or ())
    want = (0, 2, 1, *range(3, m.x.rank + 1))
    yield perm == want, f"perm {list(perm)} (needs {list(want)})"
    if m.split.is_const and len(m.split.data) == m.x.rank + 1:
        kept = _groups(m)[2]
        yield kept, f"split {[int(s) for s in m.split.data]} of {list(m.x.shape)}"
    else:
        yield False, "no split of the channels in two"


def _groups(m: Match) -> tuple[int, int, bool]:
    """(groups, channels in a group, whether the split leaves other axes alone) of a shuffle."""
    middle = m.turn_out.shape
    inner, groups = middle[1:3]
    others = middle[:1] + middle[3:] == m.x.shape[:1] + m.x.shape[2:]
    return groups, inner, others and groups * inner == m.x.shape[1]


@channel_shuffle.layouts
def shuffles_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocked channels stay blocked, plain ones become so for a depthwise
    convolution.
    """
    layout = incoming["x"]
    if not layout.blocked and vlen > 1 and feeds_depthwise(m.y):
        return {"x": layout, "y": blocked(vlen)}
    return {"x": layout, "y": layout} if layout.blocked else {}


@channel_shuffle.lower
def shuffle_to_kernel(c: Recorder, m: Match) -> None:
    """Record a copy of plain channels, or aot_channel_gather with a table into blocks."""
    groups, inner, _ = _groups(m)
    n, channels, *space = m.x.shape
    size = math.prod(space)
    if not m.y.layout.blocked:
        copy_permuted(c, m.y, m.x, (n, groups, inner, size), (0, 2, 1, 3))
        return
    table = np.arange(channels, dtype=np.int32).reshape(groups, inner).T.ravel()
    params = c.params(n=n, c=channels, s=size, x_step=math.prod(stored(m.x)[1:]))
    lanes, x_lanes = m.y.layout.block, m.x.layout.block or 1
    instance = {"E": m.x.dtype.nbytes, "V": lanes, "XV": x_lanes}
    c.call("aot_channel_gather", m.y, m.x, c.const(table, "table"), params, instance=instance)


@channel_shuffle.cases
def shuffle_cases() -> Iterator[Case]:
    """Channels shuffled among groups: Reshape, Transpose, Reshape."""
    for shape, groups in (((2, 12, 3, 5), 3), ((1, 40, 2, 3), 4)):
        n, channels, *space = shape
        split = i64(n, groups, channels // groups, *space)
        turn: dict[str, Any] = {"turn.perm": [0, 2, 1, 3, 4]}
        yield case(f32(*shape), split, i64(*shape), const=(1, 2), **turn)


@depth_to_space.check
@space_to_depth.check
def depth_mode(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the mode and of four axes."""
    yield m.mode in ("DCR", "CRD"), f"mode {m.mode!r} (needs DCR or CRD)"
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"


@space_to_depth.check
def whole_blocks(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that rows and columns are multiples of the block size."""
    odd = [n for n in m.x.shape[2:] if n % m.blocksize]
    yield not odd, f"{odd[0] if odd else 0} rows or columns in blocks of {m.blocksize}"


@depth_to_space.lower
def depth_to_kernel(c: Recorder, m: Match) -> None:
    """Record a DepthToSpace as a permutation of six axes."""
    n, ch, h, w = m.x.shape
    b = m.blocksize
    if m.mode == "DCR":
        copy_permuted(c, m.y, m.x, (n, b, b, ch // (b * b), h, w), (0, 3, 4, 1, 5, 2))
    else:
        copy_permuted(c, m.y, m.x, (n, ch // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3))


@depth_to_space.cases
def depth_cases() -> Iterator[Case]:
    """DepthToSpace(input [N, C, H, W]) in both modes."""
    yield case(f32(2, 12, 3, 5), blocksize=2)
    yield case(f32(1, 18, 2, 3), blocksize=3, mode="CRD")


@space_to_depth.lower
def space_to_kernel(c: Recorder, m: Match) -> None:
    """Record a SpaceToDepth as a permutation of six axes."""
    n, ch, h, w = m.x.shape
    b = m.blocksize
    order = (0, 3, 5, 1, 2, 4) if m.mode == "DCR" else (0, 1, 3, 5, 2, 4)
    copy_permuted(c, m.y, m.x, (n, ch, h // b, b, w // b, b), order)


@space_to_depth.cases
def space_cases() -> Iterator[Case]:
    """SpaceToDepth(input [N, C, H, W]) in both modes."""
    yield case(f32(2, 3, 4, 6), blocksize=2)
    x = f32(2, 3, 4, 6)
    crd = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 2, 3)
    yield case(x, blocksize=2, mode="CRD", expected=(crd,))


@dynamic("Transpose")
def transpose_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Transpose move with their axes."""
    data = needed(node, 0)
    rank = len(shape_of(data))
    perm = attribute(node, "perm") or list(reversed(range(rank)))
    pass_on(
        x, node, {i: x.run_sizes(data)[a] for i, a in enumerate(perm) if a in x.run_sizes(data)}
    )


@dynamic("DepthToSpace SpaceToDepth")
def blocks_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic rows and columns of DepthToSpace and SpaceToDepth: times the block size, or divided
    by it.

    A run fails if they are no multiple. UnsupportedError for dynamic channels.
    """
    data = only_first(x, node)
    own = x.run_sizes(data)
    if 1 in own:
        raise refused(node, "has channels whose number is known at run time only")
    size = int(attribute(node, "blocksize", 1))
    block = x.ints(node, [size])
    wider = node.op_type == "DepthToSpace"
    for axis in (a for a in own if a >= 2 and not wider):  # the bound may be no multiple
        most = shape_of(data)[axis]
        data = fitted(x, node, data, axis, most - most % size)
    node.replace_input_with(0, data)
    x.sweep.type_outputs(node)
    axes = {a: n for a, n in own.items() if a < 2}
    for axis in (a for a in own if a >= 2):
        n = x.mul(node, own[axis], block) if wider else x.div(node, own[axis], block)
        if not wider:
            whole = x.mul(node, n, block)
            require_equal(x, node, own[axis], whole, f"needs a multiple of {size} rows and columns")
        axes[axis] = x.new(n, shape_of(node.outputs[0])[axis])
    x.set(node.outputs[0], axes)


@operands_fit("DepthToSpace")
def depth_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the channels of a DepthToSpace are no whole blocks; "" if they are."""
    x, block = operand_shape(node, 0) or (), int(attribute(node, "blocksize", 1))
    if len(x) != 4 or x[1] % block**2:
        return f"blocks of {block} by {block} of an input {list(x)}"
    return ""


@operands_fit("Transpose")
def transpose_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why `perm` does not name each axis once; "" if it does.

    ONNX's own inference does not count them.
    """
    rank, perm = len(operand_shape(node, 0) or ()), attribute(node, "perm", None)
    if perm is None or sorted(int(p) for p in perm) == list(range(rank)):
        return ""
    return f"perm {[int(p) for p in perm]} of a tensor of {rank} axes"


@canonical("Transpose")
def explicit_perm(edit: Editor, node: ir.Node) -> None:
    """Write out the attribute `perm` of a Transpose."""
    rank = rank_of(node)
    edit.set_attribute(node, "perm", list(attribute(node, "perm") or range(rank)[::-1]))


@encodes("Transpose")
def bytes_stay_last(s: Strings, node: ir.Node) -> None:
    """Let a Transpose of encoded strings keep the bytes as the last axis."""
    rank = len(shape_of(needed(node, 0)))
    perm = [int(p) for p in attribute(node, "perm") or range(rank)[::-1]]
    s.editor(node).set_attribute(node, "perm", [*perm, rank])
