# SPDX-License-Identifier: Apache-2.0
"""The value of a node whose inputs are known, in NumPy; rarer operators by onnx.reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.graph_nodes import Array, attribute, title, words
from aot.ir.operators import Exact, trait_of
from aot.shapes.images import decode_image
from aot.shapes.reference import Inputs, Unknown, by_reference, one_line, rounded, widened

if TYPE_CHECKING:
    import onnx_ir as ir

Rule = Callable[["ir.Node", Inputs], list[Array]]

# Same inputs, other results; or results that are no arrays.
IMPURE = words(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial "
    "Dropout If Loop Scan SequenceMap Optional OptionalGetElement OptionalHasElement"
)


class Invalid(Exception):
    """The node is wrong for these inputs whatever the rest of the graph does."""


def evaluate(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The outputs of `node` for constant `inputs` (None where absent).

    Raises Unknown where there is no rule, Invalid where the operator has no result.
    """
    given, short = widened(node, inputs)
    rule = None if node.domain else RULES.get(node.op_type)
    if rule is None:
        return rounded(by_reference(node, given), short)
    with np.errstate(all="ignore"):
        try:
            return rounded([np.asarray(a) for a in rule(node, given)], short)
        except (ValueError, IndexError, OverflowError, np.exceptions.AxisError) as e:
            raise Invalid(one_line(e)) from None


def is_computable(node: ir.Node) -> bool:
    """Whether `evaluate` has a rule for the operator, or trusts onnx.reference with it."""
    return not node.domain and (node.op_type in RULES or trait_of(node, Exact) is not None)


def _need(inputs: Inputs, index: int) -> Array:
    found = inputs[index] if index < len(inputs) else None
    if found is None:
        raise Unknown
    return found


def _optional(inputs: Inputs, index: int) -> Array | None:
    return inputs[index] if index < len(inputs) else None


def _ints(array: Array | None) -> list[int]:
    return [] if array is None else [int(v) for v in np.ravel(array)]


def _unary(function: Callable[..., Any]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        x = _need(inputs, 0)
        return [np.asarray(function(x)).astype(x.dtype, copy=False)]

    return rule


def _binary(function: Callable[..., Any]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        a, b = _need(inputs, 0), _need(inputs, 1)
        return [np.asarray(function(a, b)).astype(a.dtype, copy=False)]

    return rule


def _compare(function: Callable[..., Any]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        return [np.asarray(function(_need(inputs, 0), _need(inputs, 1)), dtype=np.bool_)]

    return rule


def _variadic(function: Callable[..., Any]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        total = _need(inputs, 0)
        for i in range(1, len(inputs)):
            total = function(total, _need(inputs, i)).astype(total.dtype, copy=False)
        return [total]

    return rule


def _divide(a: Array, b: Array) -> Array:
    """Integers round towards zero; INT_MIN / -1 wraps, x / 0 has no meaning."""
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if np.any(b == 0):
        raise Unknown
    quotient = a // b
    return np.asarray(quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


def _modulo(node: ir.Node, inputs: Inputs) -> list[Array]:
    a, b = _need(inputs, 0), _need(inputs, 1)
    if a.dtype.kind in "iu" and np.any(b == 0):
        raise Unknown
    result = np.fmod(a, b) if attribute(node, "fmod", 0) else np.mod(a, b)
    return [result.astype(a.dtype, copy=False)]


def _shape(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [shape_slice(node, _need(inputs, 0).shape)]


def shape_slice(node: ir.Node, shape: Sequence[int]) -> Array:
    """What the Shape node gives for an input of `shape`."""
    rank = len(shape)
    start = int(attribute(node, "start", 0))
    end = int(attribute(node, "end", rank))
    start, end = (max(0, v + rank) if v < 0 else min(v, rank) for v in (start, end))
    return np.array(shape[start:end], dtype=np.int64)


def _gather(node: ir.Node, inputs: Inputs) -> list[Array]:
    data, index = _need(inputs, 0), _need(inputs, 1)
    axis = int(attribute(node, "axis", 0))
    size = data.shape[axis]
    if index.size and (index.min() < -size or index.max() >= size):
        bad = int(index.min() if index.min() < -size else index.max())
        raise Invalid(f"index {bad} is outside axis {axis} of size {size}")
    return [np.take(data, np.where(index < 0, index + size, index), axis=axis)]


def _slice(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = _need(inputs, 0)
    starts, ends = _ints(_need(inputs, 1)), _ints(_need(inputs, 2))
    axes = _ints(_optional(inputs, 3)) or list(range(len(starts)))
    steps = _ints(_optional(inputs, 4)) or [1] * len(starts)
    where = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where[axis] = slice_of(start, end, step, data.shape[axis])
    return [data[tuple(where)]]


def slice_of(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's (start, end, step) on an axis of `size` as a Python slice."""
    if step == 0:
        raise Invalid("step 0")
    if step > 0:
        first = min(max(start + size if start < 0 else start, 0), size)
        last = min(max(end + size if end < 0 else end, 0), size)
        return slice(first, last, step)
    if size == 0:
        return slice(0, 0)
    first = min(max(start + size if start < 0 else start, 0), size - 1)
    last = min(max(end + size if end < 0 else end, -1), size - 1)
    return slice(first, None if last < 0 else last, step)


def _concat(node: ir.Node, inputs: Inputs) -> list[Array]:
    parts = [_need(inputs, i) for i in range(len(inputs))]
    return [np.concatenate(parts, axis=int(attribute(node, "axis", 0)))]


def _unsqueeze(node: ir.Node, inputs: Inputs) -> list[Array]:
    data, axes = _need(inputs, 0), _ints(_need(inputs, 1))
    rank = data.ndim + len(axes)
    places = {a % rank for a in axes}
    sizes = iter(data.shape)
    return [data.reshape([1 if i in places else next(sizes) for i in range(rank)])]


def _squeeze(node: ir.Node, inputs: Inputs) -> list[Array]:
    data, axes = _need(inputs, 0), _optional(inputs, 1)
    return [np.squeeze(data, None if axes is None else tuple(_ints(axes)))]


def _reshape(node: ir.Node, inputs: Inputs) -> list[Array]:
    data, shape = _need(inputs, 0), _ints(_need(inputs, 1))
    return [data.reshape(target_shape(data.shape, shape, bool(attribute(node, "allowzero", 0))))]


def target_shape(old: Sequence[int], wanted: Sequence[int], allow_zero: bool) -> list[int]:
    """Reshape's zeros filled in from `old` (its -1 is left to the caller)."""
    return [old[i] if s == 0 and not allow_zero else s for i, s in enumerate(wanted)]


def _flatten(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = _need(inputs, 0)
    axis = int(attribute(node, "axis", 1))
    axis = axis + data.ndim if axis < 0 else axis
    return [data.reshape(int(np.prod(data.shape[:axis], dtype=np.int64)), -1)]


def _transpose(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [np.transpose(_need(inputs, 0), attribute(node, "perm"))]


def _expand(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = _need(inputs, 0)
    shape = np.broadcast_shapes(data.shape, tuple(_ints(_need(inputs, 1))))
    return [np.broadcast_to(data, shape)]


def _tile(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [np.tile(_need(inputs, 0), _ints(_need(inputs, 1)))]


def _split(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = _need(inputs, 0)
    axis = int(attribute(node, "axis", 0))
    sizes = _ints(_optional(inputs, 1))
    if not sizes:
        count = int(attribute(node, "num_outputs", len(node.outputs)))
        chunk = -(-data.shape[axis] // count)
        sizes = [chunk] * (count - 1) + [data.shape[axis] - chunk * (count - 1)]
    return list(np.split(data, np.cumsum(sizes)[:-1], axis=axis))


def _cast(node: ir.Node, inputs: Inputs) -> list[Array]:
    import onnx_ir as ir

    return _converted(node, inputs, ir.DataType(int(attribute(node, "to"))).numpy())


def _cast_like(node: ir.Node, inputs: Inputs) -> list[Array]:
    return _converted(node, inputs, _need(inputs, 1).dtype)


def _converted(node: ir.Node, inputs: Inputs, target: np.dtype[Any]) -> list[Array]:
    """The first input as another type; those of few bits saturate as the node says."""
    x = _need(inputs, 0)
    if not (_is_numpys(x.dtype) and _is_numpys(target)):
        if _is_numpys(x.dtype) and not _is_float32(x):
            raise Unknown  # the reference would round twice, by way of float32
        return by_reference(node, inputs)
    if target.kind in "iu" and x.dtype.kind == "f":
        limits, whole = np.iinfo(target), np.trunc(x)
        if not np.all((whole >= limits.min) & (whole <= limits.max)):  # no NaN either
            raise Unknown
    return [x.astype(target)]


def _is_numpys(kind: np.dtype[Any]) -> bool:
    """Whether NumPy itself has this type of numbers."""
    return kind.isbuiltin == 1 and kind.kind in "biuf"


def _is_float32(x: Array) -> bool:
    """Whether float32 holds every element."""
    if x.dtype.kind == "f":
        return np.array_equal(x.astype(np.float32), x, equal_nan=True)
    return bool(np.all((x >= -(1 << 24)) & (x <= 1 << 24))) if x.dtype.itemsize > 2 else True


def _where(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [np.where(_need(inputs, 0), _need(inputs, 1), _need(inputs, 2))]


def _reduce(function: Callable[..., Any]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        data, axes = _need(inputs, 0), _ints(_optional(inputs, 1))
        if not axes and attribute(node, "noop_with_empty_axes", 0):
            return [data]
        if not data.size:
            return by_reference(node, inputs)
        keep = bool(attribute(node, "keepdims", 1))
        result = function(data, axis=tuple(axes) if axes else None, keepdims=keep)
        return [np.asarray(result).astype(data.dtype, copy=False)]

    return rule


def _range(node: ir.Node, inputs: Inputs) -> list[Array]:
    start, limit, delta = (_need(inputs, i).reshape(()) for i in range(3))
    if delta == 0:
        raise Invalid("Range with delta 0")
    count = max(0, int(np.ceil((limit.astype(np.float64) - start) / delta)))
    if start.dtype.kind in "iu":
        count = max(0, -(-(int(limit) - int(start)) // int(delta)))
    if count > 1 << 24:
        raise Unknown
    return [(start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)]


def _constant_of_shape(node: ir.Node, inputs: Inputs) -> list[Array]:
    tensor = attribute(node, "value")
    fill = np.zeros(1, np.float32) if tensor is None else tensor.numpy()
    return [np.broadcast_to(fill.reshape(()), tuple(_ints(_need(inputs, 0))))]


def _image(node: ir.Node, inputs: Inputs) -> list[Array]:

    data, kind = _need(inputs, 0).tobytes(), str(attribute(node, "pixel_format", "RGB"))
    try:
        return [decode_image(data, kind)]
    except UnsupportedError as error:
        raise UnsupportedError(f"{title(node)}: {error.what}", hint=error.hint) from None


def _identity(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [_need(inputs, 0)]


def _erf(x: Array) -> Array:
    """All digits of a float64; the reference computes float32."""
    found: Array = np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))
    return found


def _prelu(node: ir.Node, inputs: Inputs) -> list[Array]:
    """Zero is not multiplied: the slope may be infinite."""
    x, slope = _need(inputs, 0), _need(inputs, 1)
    return [np.where(x < 0, x * slope, x).astype(x.dtype, copy=False)]


def _gelu(node: ir.Node, inputs: Inputs) -> list[Array]:
    """Computed in float64; the reference implementation knows it as a function only."""
    x = _need(inputs, 0)
    wide = x.astype(np.float64)
    if str(attribute(node, "approximate", "none")) == "tanh":
        share = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    else:
        share = _erf(wide / math.sqrt(2))
    return [(0.5 * wide * (1 + share)).astype(x.dtype)]


def _one_hot(node: ir.Node, inputs: Inputs) -> list[Array]:
    """Picks on or off: of infinities there is no difference to multiply."""
    indices, values = _need(inputs, 0), _need(inputs, 2)
    depth = int(_need(inputs, 1).ravel()[0])
    axis = int(attribute(node, "axis", -1))
    if depth < 0 or not -indices.ndim - 1 <= axis <= indices.ndim:
        raise ValueError(f"OneHot of depth {depth} along axis {axis}")
    places = indices.astype(np.int64)
    if not np.array_equal(places.astype(indices.dtype), indices):
        raise Unknown  # no integers
    places = np.where(places < 0, places + depth, places)
    axis += indices.ndim + 1 if axis < 0 else 0
    line = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(indices.ndim + 1)])
    hit = np.expand_dims(places, axis) == line
    return [np.where(hit, values[1], values[0]).astype(values.dtype, copy=False)]


RULES: dict[str, Rule] = {
    "OneHot": _one_hot,
    "Gelu": _gelu,
    "Erf": _unary(_erf),
    "PRelu": _prelu,
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _binary(_divide),
    "Mod": _modulo,
    "Neg": _unary(np.negative),
    "Abs": _unary(np.abs),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Sqrt": _unary(np.sqrt),
    "Relu": _unary(lambda x: np.maximum(x, x.dtype.type(0))),
    "Min": _variadic(np.minimum),
    "Max": _variadic(np.maximum),
    "Sum": _variadic(np.add),
    "Equal": _compare(np.equal),
    "Less": _compare(np.less),
    "LessOrEqual": _compare(np.less_equal),
    "Greater": _compare(np.greater),
    "GreaterOrEqual": _compare(np.greater_equal),
    "And": _compare(np.logical_and),
    "Or": _compare(np.logical_or),
    "Xor": _compare(np.logical_xor),
    "Not": _unary(np.logical_not),
    "Where": _where,
    "Shape": _shape,
    "Size": lambda node, inputs: [np.array(_need(inputs, 0).size, np.int64)],
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Split": _split,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Identity": _identity,
    "ImageDecoder": _image,
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
}
