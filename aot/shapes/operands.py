# SPDX-License-Identifier: Apache-2.0
"""Operands that belong to each other by ONNX's text, and that its inference does not compare.

Kernels read as many elements as the shapes of others say: a bias of one element beside eight
channels would be read behind its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from aot.ir.graph_nodes import attribute, shape_of
from aot.shapes.partial_values import Facts

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

Shape = tuple[int, ...]


def given(node: ir.Node, index: int) -> Shape | None:
    """The shape of an operand, None if there is none."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else shape_of(value)


def wrong(name: str, found: Shape | None, *wanted: Shape) -> str:
    """What to say of an operand that is there and has none of these shapes."""
    if found is None or found in wanted:
        return ""
    return f"{name} {list(found)} should be {' or '.join(str(list(w)) for w in wanted)}"


def repeats(name: str, found: Shape | None, to: Shape) -> str:
    """What to say of an operand that does not repeat to a shape as it is."""
    if found is None or (len(found) <= len(to) and repeats_along(found, to)):
        return ""
    return f"{name} {list(found)} does not repeat to {list(to)}"


def repeats_along(found: Shape, to: Shape) -> bool:
    """Whether the last extents are 1 or those of a shape."""
    return all(a in (1, b) for a, b in zip(reversed(found), reversed(to), strict=False))


def without_ones(shape: Shape) -> Shape:
    """A shape from its first extent other than 1 on."""
    return shape[next((i for i, n in enumerate(shape) if n != 1), len(shape)) :]


def first(*reasons: str) -> str:
    """The first of the reasons that says something."""
    return next((r for r in reasons if r), "")


def _gemm(node: ir.Node, facts: Facts) -> str:
    a, b = given(node, 0) or (), given(node, 1) or ()
    if len(a) != 2 or len(b) != 2:
        return f"a product of {list(a)} and {list(b)} (needs two axes each)"
    rows = a[1 if attribute(node, "transA", 0) else 0]
    columns = b[0 if attribute(node, "transB", 0) else 1]
    return repeats("the addend", given(node, 2), (rows, columns))


def _ungrouped(node: ir.Node, weights: int, transposed: bool = False) -> str:
    """Why the weights of a convolution are none for its input and group."""
    x, w, group = given(node, 0), given(node, weights), int(attribute(node, "group", 1))
    if x is None or w is None or len(w) != len(x) or len(x) < 3:
        return f"weights {list(w or ())} for {list(x or ())}"
    inputs = w[0] if transposed else w[1] * group
    if group < 1 or w[0] % group or inputs != x[1]:
        return f"group {group} does not fit {x[1]} input channels and weights {list(w)}"
    return ""


def _transposed(node: ir.Node, facts: Facts) -> str:
    w, group = given(node, 1) or (), int(attribute(node, "group", 1))
    return _ungrouped(node, 1, True) or wrong("bias", given(node, 2), (w[1] * group,))


def _convolved(weights: int, bias: int, points: Mapping[int, str]) -> Callable[..., str]:
    """A convolution: `points` are zero points and scales, per tensor or output channel."""

    def check(node: ir.Node, facts: Facts) -> str:
        w = given(node, weights) or ()
        if reason := _ungrouped(node, weights):
            return reason
        each: tuple[Shape, ...] = ((), (1,))
        reasons = [
            wrong(name, given(node, i), *each, *([(w[0],)] if name.startswith("w_") else []))
            for i, name in points.items()
        ]
        return first(*reasons, wrong("bias", given(node, bias), (w[0],)) if bias else "")

    return check


def _deformed(node: ir.Node, facts: Facts) -> str:
    w = given(node, 1)
    return wrong("bias", given(node, 3), (w[0],)) if w else "weights without axes"


def _lines(node: ir.Node, facts: Facts) -> str:
    """LayerNormalization and RMSNormalization: scale and bias repeat to the input."""
    x = given(node, 0)
    if not x:
        return "an input without axes"
    return first(repeats("scale", given(node, 1), x), repeats("bias", given(node, 2), x))


def _channels(least: int, *names: str) -> Callable[..., str]:
    """Operands with an element per channel, behind an input of at least so many axes."""

    def check(node: ir.Node, facts: Facts) -> str:
        x = given(node, 0)
        if x is None or len(x) < least:
            return f"an input {list(x or ())} (needs {least} axes or more)"
        found = (wrong(n, given(node, i), (x[1],)) for i, n in enumerate(names, 1))
        return first(*found)

    return check


def _axes(node: ir.Node, facts: Facts) -> str:
    """MeanVarianceNormalization: its axes are there."""
    rank = len(given(node, 0) or ())
    axes = [int(a) for a in attribute(node, "axes", None) or (0, 2, 3)]
    outside = [a for a in axes if not -rank <= a < rank]
    return f"axis {outside[0]} of a tensor of {rank} axes" if outside else ""


def _points(node: ir.Node, facts: Facts) -> str:
    """GatherND: indices share the batch axes, and point at axes that are there."""
    data, index = given(node, 0) or (), given(node, 1) or ()
    batch = int(attribute(node, "batch_dims", 0))
    if not 0 <= batch < min(len(data), len(index)) or data[:batch] != index[:batch]:
        return f"batch_dims {batch} of data {list(data)} and indices {list(index)}"
    if index[-1] > len(data) - batch:
        return f"indices {list(index)} point beyond the axes of the data {list(data)}"
    return ""


def _lengths(node: ir.Node, facts: Facts) -> str:
    x, axis = given(node, 0) or (), int(attribute(node, "batch_axis", 1))
    if len(x) < 2 or not -len(x) <= axis < len(x):
        return f"batch_axis {axis} of {list(x)}"
    return wrong("sequence_lens", given(node, 1), (x[axis],))


def _attention(node: ir.Node, facts: Facts) -> str:
    """Queries, keys and values of as many batches, heads, positions and elements as each other."""
    q, k, v = (given(node, i) or () for i in range(3))
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        return f"queries {list(q)}, keys {list(k)}, values {list(v)} (need 3 or 4 axes each)"
    if len(q) == 3:
        heads, pairs = (int(attribute(node, n, 0)) for n in ("q_num_heads", "kv_num_heads"))
        if heads < 1 or pairs < 1 or q[2] % heads or k[2] % pairs or v[2] % pairs:
            return f"{heads} and {pairs} heads of {list(q)}, {list(k)} and {list(v)}"
        q = (q[0], heads, q[1], q[2] // heads)
        k, v = ((t[0], pairs, t[1], t[2] // pairs) for t in (k, v))
    same = q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3]
    if not same or not q[3] or not k[1] or q[1] % k[1]:
        return f"queries {list(q)}, keys {list(k)} and values {list(v)} that do not fit"
    past, past_v, mask = given(node, 4), given(node, 5), given(node, 3)
    if past is not None:
        more = past[2] if len(past) == 4 else 0
        reason = wrong("past_key", past, (*k[:2], more, k[3]))
        reason = reason or wrong("past_value", past_v, (*v[:2], more, v[3]))
        if reason:
            return reason
        k = (*k[:2], k[2] + more, k[3])
    if mask is None:
        return wrong("nonpad_kv_seqlen", given(node, 6), (q[0],))
    columns = mask[-1] if mask else 0
    fits = bool(mask) and columns <= k[2] and (columns > 0 or not k[2])
    if not fits or repeats("", mask[:-1], q[:3]):
        return f"a mask {list(mask)} for {list((*q[:3], k[2]))}"
    return wrong("nonpad_kv_seqlen", given(node, 6), (q[0],))


def _slopes(node: ir.Node, facts: Facts) -> str:
    """PRelu: the slope repeats to the input, not the input to the slope."""
    return repeats("the slope", given(node, 1), given(node, 0) or ())


def _nbits(node: ir.Node, facts: Facts) -> str:
    """MatMulNBits: weights [N, blocks, bytes of a block], a scale and a zero point of each block.

    Zero points of the scales' type are as many as they are; else their bits are packed like the
    weights', each column in whole bytes.
    """
    columns, depth, size = (int(attribute(node, n, 0)) for n in ("N", "K", "block_size"))
    bits = int(attribute(node, "bits", 4))
    if min(columns, depth, size, bits) < 1 or size * bits % 8:
        return f"N {columns}, K {depth}, block_size {size}, bits {bits}"
    blocks = -(-depth // size)
    each = ((columns, blocks), (columns * blocks,))
    scales, zero = (node.inputs[i] if i < len(node.inputs) else None for i in (2, 3))
    packed = zero is not None and scales is not None and zero.dtype != scales.dtype
    width = -(-blocks * bits // 8)
    points = ((columns, width), (columns * width,)) if packed else each
    return first(
        wrong("B", given(node, 1), (columns, blocks, size * bits // 8)),
        wrong("scales", given(node, 2), *each),
        wrong("zero_points", given(node, 3), *points),
        wrong("bias", given(node, 5), (columns,)),
    )


def _one(index: int, name: str) -> Callable[..., str]:
    """An operand that is one number."""

    def check(node: ir.Node, facts: Facts) -> str:
        found = given(node, index)
        return "" if found is None or prod(found) == 1 else f"{name} {list(found)} is not one"

    return check


def _lists(*operands: tuple[int, str], scalar: bool = False) -> Callable[..., str]:
    """Operands that list numbers have one axis; a `scalar` is a list of one, where others agree."""

    def check(node: ir.Node, facts: Facts) -> str:
        for index, name in operands:
            found = given(node, index)
            if found is not None and len(found) != 1 and not (scalar and found == ()):
                return f"{name} {list(found)} should be a list, of one axis"
        return ""

    return check


def _reduced(node: ir.Node, facts: Facts) -> str:
    return _lists((1, "axes"))(node, facts)


def _sliced(node: ir.Node, facts: Facts) -> str:
    """As many starts as ends, axes and steps."""
    names = ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    starts = given(node, 1) or ()
    others = (wrong(name, given(node, i), starts) for i, name in names[1:])
    return _lists(*names)(node, facts) or first(*others)


def _padded(node: ir.Node, facts: Facts) -> str:
    return _lists((1, "pads"), (3, "axes"))(node, facts) or _one(2, "the constant")(node, facts)


def _summed(node: ir.Node, facts: Facts) -> str:
    return _one(1, "the axis")(node, facts) or _ranked(1)(node, facts)


def _permuted(node: ir.Node, facts: Facts) -> str:
    """Each axis once; onnx's inference does not count them."""
    rank, perm = len(given(node, 0) or ()), attribute(node, "perm", None)
    if perm is None or sorted(int(p) for p in perm) == list(range(rank)):
        return ""
    return f"perm {[int(p) for p in perm]} of a tensor of {rank} axes"


def _deep(node: ir.Node, facts: Facts) -> str:
    """DepthToSpace: channels are as many blocks."""
    x, block = given(node, 0) or (), int(attribute(node, "blocksize", 1))
    if len(x) != 4 or block < 1 or x[1] % block**2:
        return f"blocks of {block} by {block} of an input {list(x)}"
    return ""


def _rotated(node: ir.Node, facts: Facts) -> str:
    """RotaryEmbedding: a sine and a cosine for each pair of elements that turns."""
    x, cos, sin, places = (given(node, i) for i in range(4))
    heads, turns = (int(attribute(node, n, 0)) for n in ("num_heads", "rotary_embedding_dim"))
    if x is None or len(x) not in (3, 4) or (len(x) == 3 and (heads < 1 or x[2] % heads)):
        return f"{heads} heads of an input {list(x or ())}"
    batch, positions = x[0], x[1] if len(x) == 3 else x[2]
    width = x[3] if len(x) == 4 else x[2] // heads
    pairs = (turns or width) // 2
    if turns < 0 or turns > width or (turns or width) % 2:
        return f"rotary_embedding_dim {turns} of {width} elements"
    if cos is None or sin is None or cos != sin:
        return f"cosines {list(cos or ())} and sines {list(sin or ())} should be of one shape"
    if places is None:
        return wrong("cosines", cos, (batch, positions, pairs))
    wanted = (*cos[:1], pairs)
    return wrong("cosines", cos, wanted) or wrong("position_ids", places, (batch, positions))


def _diagonal(node: ir.Node, facts: Facts) -> str:
    """Einsum: a letter that an operand has twice stands for one extent."""
    terms = str(attribute(node, "equation", "")).replace(" ", "").split("->")[0].split(",")
    for i, term in enumerate(terms):
        shape = given(node, i)
        if shape is None or "..." in term or len(term) != len(shape):
            continue
        for letter in dict.fromkeys(term):
            extents = {n for c, n in zip(term, shape, strict=True) if c == letter}
            if len(extents) > 1:
                return f'"{letter}" of "{term}" is {min(extents)} and {max(extents)}'
    return ""


def _integers(node: ir.Node, facts: Facts) -> str:
    """MatMulInteger: zero points of a row of A and of a column of B, or one for all."""
    a, b = given(node, 0) or (), given(node, 1) or ()
    left, right = given(node, 2), given(node, 3)
    one: tuple[Shape, ...] = ((), (1,))
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    of_rows = [rows, (*a[:-1], 1)] if rows else []
    of_columns = [columns, (*b[:-2], 1, *columns)] if columns else []
    reason = wrong("a_zero_point", left, *one, *of_rows)
    return reason or wrong("b_zero_point", right, *one, *of_columns)


def _ranked(least: int) -> Callable[..., str]:
    """An input of at least so many axes."""

    def check(node: ir.Node, facts: Facts) -> str:
        x = given(node, 0) or ()
        return "" if len(x) >= least else f"an input {list(x)} (needs {least} axes or more)"

    return check


def _quantised(node: ir.Node, facts: Facts) -> str:
    """Scales of a tensor, of each index of an axis, or of blocks along it; as many zero points."""
    x, scale, zero = (given(node, i) for i in range(3))
    if x is None or scale is None:
        return ""
    one: tuple[Shape, ...] = ((), (1,))
    if zero is not None and zero != scale and not (zero in one and scale in one):
        needs = "they need the same shape"
        return f"zero points of shape {list(zero)} for scales of shape {list(scale)} ({needs})"
    axis, block = int(attribute(node, "axis", 1)), int(attribute(node, "block_size", 0))
    if scale in one:
        return ""
    if not -len(x) <= axis < len(x):
        return f"axis {axis} of a tensor of {len(x)} axes"
    axis %= len(x)
    if len(scale) == 1:
        fits = scale[0] == x[axis]
        return "" if fits else f"{scale[0]} scales for axis {axis} of {list(x)}"
    if block < 1:
        return f"scales {list(scale)} without block_size"
    return wrong("scales", scale, (*x[:axis], -(-x[axis] // block), *x[axis + 1 :]))


POINTS = {1: "x_scale", 2: "x_zero_point", 4: "w_scale", 5: "w_zero_point"}
OPERANDS: dict[str, Callable[..., str]] = {
    "Attention": _attention,
    "Conv": _convolved(1, 2, {}),
    "ConvInteger": _convolved(1, 0, {2: "x_zero_point", 3: "w_zero_point"}),
    "ConvTranspose": _transposed,
    "ConstantOfShape": _lists((0, "the shape")),
    "CumProd": _summed,
    "CumSum": _summed,
    "DeformConv": _deformed,
    "DepthToSpace": _deep,
    "DequantizeLinear": _quantised,
    "Einsum": _diagonal,
    "GatherND": _points,
    "Gemm": _gemm,
    "GroupNormalization": _channels(2, "scale", "bias"),
    "InstanceNormalization": _channels(3, "scale", "B"),
    "LayerNormalization": _lines,
    "LpNormalization": _ranked(1),
    "MatMulInteger": _integers,
    "MaxUnpool": _lists((2, "output_shape")),
    "MeanVarianceNormalization": _axes,
    "Pad": _padded,
    "PRelu": _slopes,
    "QLinearConv": _convolved(3, 8, {**POINTS, 6: "y_scale", 7: "y_zero_point"}),
    "QuantizeLinear": _quantised,
    "RMSNormalization": _lines,
    "Reshape": _lists((1, "the shape")),
    "ReverseSequence": _lengths,
    "RotaryEmbedding": _rotated,
    "Slice": _sliced,
    "Split": _lists((1, "the lengths")),
    "Squeeze": _lists((1, "axes")),
    "Transpose": _permuted,
    "Trilu": _one(1, "k"),
    "Unsqueeze": _lists((1, "axes"), scalar=True),
    **{
        f"Reduce{kind}": _reduced
        for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
    },
    "com.microsoft.MatMulNBits": _nbits,
    "ai.onnx.ml.TreeEnsemble": _ranked(1),
    "ai.onnx.ml.TreeEnsembleClassifier": _ranked(1),
    "ai.onnx.ml.TreeEnsembleRegressor": _ranked(1),
}
