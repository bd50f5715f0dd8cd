# SPDX-License-Identifier: Apache-2.0
"""Operators that only rename the axes: the result is a view of the input."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import BOOL, S32, U8
from aot.ir.graph_nodes import Array, attribute, given, shape_of
from aot.ir.layout import Layout, can_block
from aot.ir.operators import AxesOf, AxisOf, Elementwise, Exact, Moves, SizedBy, View
from aot.load.encode_strings import encodes, unchanged
from aot.normalise.identities import always, identity
from aot.ops.registry import op
from aot.shapes.checks import checks, shape_at
from aot.shapes.cures import Role, Sizing, axes, sizings
from aot.shapes.dynamic.dims import INT64, DynamicDims, axis_of, constant_ints, refused
from aot.shapes.dynamic.reshape_factor import reshape_to
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.evaluate import evaluates, integers, need, optional
from aot.shapes.infer_node import NodeError, solves
from aot.shapes.operands import lists, operands_fit
from aot.shapes.partial_values import PartialValues, lookup
from aot.shapes.reference import Inputs
from aot.shapes.types import Type
from aot.vendor import Match
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.layouts import follow

reshape = op(
    "Reshape",
    "x shape",
    traits=[SizedBy("shape"), Moves("x"), View()],
    allowzero=0,
    rules=[operands_fit.by(lists((1, "the shape")))],
)
squeeze = op(
    "Squeeze",
    "x axes?",
    traits=[Moves("x"), View(), AxesOf("axes", "x")],
    rules=[operands_fit.by(lists((1, "axes")))],
)
unsqueeze = op(
    "Unsqueeze",
    "x axes",
    traits=[Moves("x"), View()],
    rules=[
        sizings.by(Sizing(passes=True, examples={1: axes})),
        operands_fit.by(lists((1, "axes"), scalar=True)),
    ],
)
flatten = op("Flatten", "x", traits=[Moves(), View()], axis=AxisOf("x", 1, end=True))
hand_on = op(
    "Identity",
    "x",
    traits=[Elementwise(), Moves(), View()],
    layouts=follow,
    rules=[
        sizings.by(Sizing(passes=True)),
        encodes.by(unchanged),
        evaluates.by(lambda node, inputs: [need(inputs, 0)]),
    ],
)
bit_cast = op("BitCast", "x", traits=[Elementwise(), Exact()], to=0)


def reshape_example(role: Role, count: int) -> list[int]:
    """An example of a shape of `count` axes: all elements along the first axis."""
    return [-1, *[1] * (count - 1)] if count else []


def squeeze_example(role: Role, count: int) -> list[int]:
    """An example of `count` axes to remove: axes of size 1, or axis 1 where the shape has none."""
    return [a for a, n in enumerate(role.data or ()) if n == 1][:count] or [1] * count


identity("Identity Reshape Flatten Squeeze Unsqueeze")(always)
sizings("Reshape")(Sizing(passes=True, examples={1: reshape_example}))
sizings("Squeeze")(Sizing(passes=True, examples={1: squeeze_example}))


@evaluates("Unsqueeze")
def unsqueeze_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant with axes of size 1 at the constant places."""
    data, axes = need(inputs, 0), integers(need(inputs, 1))
    rank = data.ndim + len(axes)
    places = {a % rank for a in axes}
    sizes = iter(data.shape)
    return [data.reshape([1 if i in places else next(sizes) for i in range(rank)])]


@evaluates("Squeeze")
def squeeze_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant without the named axes, or without all of size 1."""
    data, axes = need(inputs, 0), optional(inputs, 1)
    return [np.squeeze(data, None if axes is None else tuple(integers(axes)))]


@evaluates("Reshape")
def reshape_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant under another shape; 0 keeps an axis unless allowzero."""
    data, wanted = need(inputs, 0), integers(need(inputs, 1))
    zero = bool(attribute(node, "allowzero", 0))
    kept = [data.shape[i] if s == 0 and not zero else s for i, s in enumerate(wanted)]
    return [data.reshape(kept)]


@evaluates("Flatten")
def flatten_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A constant as a matrix, cut in two at the axis."""
    data = need(inputs, 0)
    axis = int(attribute(node, "axis", 1))
    axis = axis + data.ndim if axis < 0 else axis
    return [data.reshape(int(np.prod(data.shape[:axis], dtype=np.int64)), -1)]


@solves("Reshape")
def reshape_type(node: ir.Node, partial_values: PartialValues) -> Type | None:
    """The type of a Reshape of which at most one target size is unknown; None for others.

    NodeError where the elements do not fit the shape.
    """
    if len(node.inputs) < 2:
        return None
    data, wanted = node.inputs[0], lookup(node.inputs[1], partial_values)
    if data is None or wanted is None or data.dtype is None:
        return None
    old = shape_of(data)
    zero = bool(attribute(node, "allowzero", 0))
    dims = [
        old[i] if s == 0 and not zero and i < len(old) else s for i, s in enumerate(wanted.items())
    ]
    # One size follows from the number of elements, whether it is written as -1 or unknown.
    open_axes = [i for i, s in enumerate(dims) if s is None or s == -1]
    if len(open_axes) > 1:
        return None
    if open_axes:
        rest = prod(s for s in dims if s is not None and s != -1)
        if rest == 0 or prod(old) % rest:
            text = [("?" if s is None else s) for s in dims]
            raise NodeError(f"cannot reshape {list(old)} to {text}")
        dims[open_axes[0]] = prod(old) // rest
    shape = tuple(s for s in dims if s is not None)
    if prod(shape) != prod(old):
        raise NodeError(f"cannot reshape {list(old)} to {list(shape)}")
    return int(data.dtype), shape


def keeps_blocks(m: Match, incoming: dict[str, Layout], _vlen: int) -> dict[str, Layout]:
    """The layouts: blocked channels stay so if batch and channels are the same axes on both
    sides.
    """
    layout = incoming["x"]
    if not layout.blocked or not can_block(m.y.shape) or m.x.shape[:2] != m.y.shape[:2]:
        return {}
    return {"x": layout, "y": layout}


for _pattern in (reshape, squeeze, unsqueeze, flatten, hand_on, bit_cast):
    _pattern.lower(lambda c, m: c.view(m.y, m.x))
for _pattern in (reshape, squeeze, unsqueeze, flatten, hand_on):
    _pattern.packed = True
for _pattern in (reshape, squeeze, unsqueeze):
    _pattern.layouts(keeps_blocks)


@reshape.cases
def reshape_cases() -> Iterator[Case]:
    """Reshape(data, shape): 0 and -1 in the shape, no elements."""
    yield case(f32(2, 3, 4), i64(6, 4), const=(1,))
    yield case(ints(2, 3, 4, dtype="int8"), i64(0, -1), const=(1,))
    yield case(np.zeros((0, 3), np.float32), i64(3, 0), const=(1,), allowzero=1)


@squeeze.cases
def squeeze_cases() -> Iterator[Case]:
    """Squeeze(data, axes): some axes, all of size 1."""
    yield case(f32(1, 3, 1, 4), i64(0, 2), const=(1,))
    yield case(f32(1, 3, 1))


@unsqueeze.cases
def unsqueeze_cases() -> Iterator[Case]:
    """Unsqueeze(data, axes), negative ones too."""
    yield case(f32(3, 4), i64(-1, 1), const=(1,))


@flatten.cases
def flatten_cases() -> Iterator[Case]:
    """Flatten(input) at an axis, and at 0."""
    yield case(f32(2, 3, 4), axis=2)
    yield case(f32(2, 3, 4), axis=0)


@bit_cast.check
def same_width(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that both types have as many bits, and no other type becomes bool."""
    yield m.x.dtype.bits == m.y.dtype.bits, f"{m.x.dtype} as {m.y.dtype} (needs equal widths)"
    # Any byte but 0 and 1 is no boolean.
    known = m.y.dtype is not BOOL or m.x.dtype is BOOL
    yield known, f"{m.x.dtype} as {m.y.dtype}"


@bit_cast.cases
def bit_cast_cases() -> Iterator[Case]:
    """BitCast(input) to a type of the same width."""
    yield case(f32(2, 3), to=S32.onnx)
    yield case(ints(5, dtype="int8"), to=U8.onnx)


@hand_on.cases
def identity_cases() -> Iterator[Case]:
    """Identity(input) of bytes."""
    yield case(ints(3, 4, dtype="uint8", low=0))


@dynamic("Squeeze")
def squeeze_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Squeeze stay; UnsupportedError if one would go, or axes are not
    known.
    """
    data = needed(node, 0)
    rank, given_axes = len(shape_of(data)), constant_ints(x, given(node, 1))
    if given_axes is None:
        raise refused(node, "may drop a dimension known at run time only (it names no axes)")
    gone = {a + rank if a < 0 else a for a in given_axes}
    if gone & set(x.run_sizes(data)):
        raise refused(node, "drops a dimension known at run time only")
    left = [a for a in range(rank) if a not in gone]
    pass_on(x, node, {left.index(a): n for a, n in x.run_sizes(data).items()})


@dynamic("Unsqueeze")
def unsqueeze_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of an Unsqueeze move behind new axes; UnsupportedError for unknown
    axes.
    """
    data, given_axes = needed(node, 0), constant_ints(x, given(node, 1))
    if given_axes is None:
        raise refused(node, "gets its axes at run time")
    rank = len(shape_of(data)) + len(given_axes)
    made = {a + rank if a < 0 else a for a in given_axes}
    left = [a for a in range(rank) if a not in made]
    pass_on(x, node, {left[a]: n for a, n in x.run_sizes(data).items()})


@dynamic("Flatten")
def flatten_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Flatten by a Reshape to two axes.

    UnsupportedError if dynamic axes are on both sides.
    """
    data = needed(node, 0)
    shape = shape_of(data)
    axis = axis_of(node, len(shape), 1)
    sides = (set(range(axis)), set(range(axis, len(shape))))
    static = [prod(shape[a] for a in s) for s in sides]
    if sides[0] & set(x.run_sizes(data)) and sides[1] & set(x.run_sizes(data)):
        raise refused(node, "joins several dimensions known at run time only")
    target = [-1 if s & set(x.run_sizes(data)) else n for s, n in zip(sides, static, strict=True)]
    reshape_to(x, node, data, x.ints(node, target))


@dynamic("Reshape")
def reshape_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Reshape of dynamic axes, or to a shape read at run time.

    Where a dynamic axis stays what it is the padded tensor is reshaped, else its real elements.
    """
    data, target = needed(node, 0), needed(node, 1)
    if x.run_sizes(target):
        raise refused(node, "gets a shape of unknown rank")
    reshape_to(x, node, data, target, not attribute(node, "allowzero", 0))


@dynamic("Shape")
def shape_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Shape by a vector of constants and run-time sizes."""
    data = needed(node, 0)
    rank = len(shape_of(data))
    start, end = int(attribute(node, "start", 0)), int(attribute(node, "end", rank))
    start, end = (max(0, v + rank) if v < 0 else min(v, rank) for v in (start, end))
    parts = [x.dim(node, data, a) for a in range(start, max(start, end))]
    y = x.joined(node, parts) if parts else x.ints(node, [])
    x.substitute(node, y, {})


@dynamic("Size")
def size_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Size by the product of the run-time shape."""
    whole = x.shape(node, needed(node, 0))
    total = x.node(node, "ReduceProd", [whole, x.ints(node, [0])], [(INT64, ())], keepdims=0)[0]
    x.substitute(node, total, {})


@checks("Reshape")
def same_count(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why a Reshape changes the number of elements; "" if it does not."""
    old, new = shape_at(node, 0), shape_of(node.outputs[0])
    if prod(old) != prod(new):
        return f"cannot reshape {list(old)} to {list(new)}"
    return ""
