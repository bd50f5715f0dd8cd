# SPDX-License-Identifier: Apache-2.0
"""Small networks of several families, each with two dimensions that a run says.

They compute with sizes as exporters write it: Shape, Gather, Concat, Reshape to -1, Expand, Range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from decoders import Graph

WIDTH, HEADS = 16, 2
Shapes = Mapping[str, tuple[int, list[str | int]]]


def _model(g: Graph, inputs: Shapes, output: str) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    ends = [info(n, kind, shape) for n, (kind, shape) in inputs.items()]
    results = [info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(g.nodes, "two_dims", ends, results, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _size(g: Graph, value: str, axis: int) -> str:
    """The length of an axis, int64 [1]."""
    return g("Gather", g("Shape", value), g.const([axis]))


def _rows(g: Graph, x: str) -> list[str]:
    """The first two sizes of [batch, rows, width]."""
    return [_size(g, x, a) for a in (0, 1)]


def _attention(g: Graph, x: str, other: str, bias: str = "") -> str:
    """x attends to `other`, both [batch, rows, WIDTH]."""
    depth = WIDTH // HEADS
    parts = []
    for source in (x, other, other):
        shape = g("Concat", *_rows(g, source), g.const([HEADS, depth]), axis=0)
        made = g("Reshape", g.linear(source, WIDTH, WIDTH), shape)
        parts.append(g("Transpose", made, perm=[0, 2, 1, 3]))
    scores = g("MatMul", parts[0], g("Transpose", parts[1], perm=[0, 1, 3, 2]))
    scores = g("Add", scores, bias) if bias else scores
    y = g("MatMul", g("Softmax", scores, axis=-1), parts[2])
    shape = g("Concat", *_rows(g, x), g.const([-1]), axis=0)
    y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), shape)
    return g.norm(g("Add", x, g.linear(y, WIDTH, WIDTH)), WIDTH)


def encoder() -> onnx.ModelProto:
    """BERT: words and a mask [batch, sequence]."""
    g = Graph(0)
    shape = ["batch", "sequence"]
    x = g("Gather", g.weight(40, WIDTH), "ids")
    places = g("Slice", g.weight(32, WIDTH), g.const([0]), _size(g, "ids", 1), g.const([0]))
    x = g("Add", x, places)
    kept = g("Cast", g("Unsqueeze", "mask", g.const([1, 2])), to=TensorProto.FLOAT)
    bias = g("Mul", g("Sub", g.const(1.0), kept), g.const(-1e9))
    y = _attention(g, x, x, bias)
    return _model(g, {n: (TensorProto.INT64, shape) for n in ("ids", "mask")}, y)


def translator() -> onnx.ModelProto:
    """T5: a decoder that sees its past, and an encoder of another length."""
    g = Graph(1)
    table = g.weight(40, WIDTH)
    source, x = (g("Gather", table, n) for n in ("source_ids", "target_ids"))
    source = _attention(g, source, source)
    length = g("Squeeze", _size(g, "target_ids", 1), g.const([0]))
    rows = g("Range", g.const(np.int64(0)), length, g.const(np.int64(1)))
    later = g("Less", g("Unsqueeze", rows, g.const([1])), g("Unsqueeze", rows, g.const([0])))
    x = _attention(g, x, x, g("Where", later, g.const(-1e9), g.const(0.0)))
    shapes = {f"{n}_ids": (TensorProto.INT64, [1, n]) for n in ("source", "target")}
    return _model(g, shapes, _attention(g, x, source))


def patches() -> onnx.ModelProto:
    """ViT: places of patches are resized to the image's."""
    g = Graph(2)
    image = g("Conv", "image", g.weight(WIDTH, 3, 4, 4), strides=[4, 4])
    sizes = [_size(g, image, a) for a in (2, 3)]
    whole = g("Concat", g.const([1, WIDTH]), *sizes, axis=0)
    grid = g("Resize", g.weight(1, WIDTH, 4, 4), "", "", whole, mode="cubic")
    flat = g.const([1, WIDTH, -1])
    x, places = (g("Transpose", g("Reshape", v, flat), perm=[0, 2, 1]) for v in (image, grid))
    x = g("Concat", g.weight(1, 1, WIDTH), g("Add", x, places), axis=1)
    return _model(g, {"image": (TensorProto.FLOAT, [1, 3, "height", "width"])}, _attention(g, x, x))


def _conv(g: Graph, x: str, before: int, behind: int, stride: int = 1) -> str:
    made = g("Conv", x, g.weight(behind, before, 3, 3), pads=[1] * 4, strides=[stride] * 2)
    return g("Relu", made)


def halves() -> onnx.ModelProto:
    """U-Net: half the size, back, padded to the size before, joined."""
    g = Graph(3)
    one = _conv(g, "image", 3, 8)
    low = _conv(g, g("MaxPool", one, kernel_shape=[2, 2], strides=[2, 2]), 8, 8)
    back = g("ConvTranspose", low, g.weight(8, 8, 2, 2), strides=[2, 2])
    rest = [g("Sub", _size(g, one, a), _size(g, back, a)) for a in (2, 3)]
    pads = g("Concat", g.const([0] * 6), *rest, axis=0)
    y = _conv(g, g("Concat", one, g("Pad", back, pads), axis=1), 16, 4)
    return _model(g, {"image": (TensorProto.FLOAT, [1, 3, "height", "width"])}, y)


def boxes() -> onnx.ModelProto:
    """YOLO: two scales, one of them enlarged; boxes of all cells beside their places."""
    g = Graph(4)
    fine = _conv(g, "image", 3, 8, 2)
    coarse = _conv(g, fine, 8, 8, 2)
    scales = g.const(np.array([1, 1, 2, 2], np.float32))
    fine = g("Concat", g("Resize", coarse, "", scales, mode="nearest"), fine, axis=1)
    found = []
    for x, channels in ((fine, 16), (coarse, 8)):
        sizes = [_size(g, x, a) for a in (2, 3)]
        ends = [g("Squeeze", s, g.const([0])) for s in sizes]
        zero, step = g.const(np.int64(0)), g.const(np.int64(1))
        axes = [g("Cast", g("Range", zero, e, step), to=TensorProto.FLOAT) for e in ends]
        whole = g("Concat", *sizes, axis=0)
        axes = [g("Unsqueeze", v, g.const([k])) for v, k in zip(axes, (1, 0), strict=True)]
        places = [g("Reshape", g("Expand", v, whole), g.const([1, 1, -1])) for v in axes]
        x = g("Reshape", _conv(g, x, channels, 4), g.const([1, 4, -1]))
        found.append(g("Concat", x, *places, axis=1))
    shapes = {"image": (TensorProto.FLOAT, [1, 3, "height", "width"])}
    return _model(g, shapes, g("Concat", *found, axis=2))


def recurrent() -> onnx.ModelProto:
    """A bidirectional LSTM of words, states that begin with zeros of the batch's size."""
    g = Graph(5)
    x = g("Transpose", g("Gather", g.weight(40, 8), "ids"), perm=[1, 0, 2])
    state = g("Concat", g.const([2]), _size(g, x, 1), g.const([WIDTH]), axis=0)
    zeros = g("Expand", g.const(0.0), state)
    weights = [g.weight(2, 4 * WIDTH, n) for n in (8, WIDTH)]
    y = g(
        "LSTM", x, *weights, g.weight(2, 8 * WIDTH), "", zeros, zeros,
        hidden_size=WIDTH, direction="bidirectional",
    )  # fmt: skip
    y = g("Transpose", y, perm=[2, 0, 1, 3])
    y = g("Reshape", y, g("Concat", *_rows(g, y), g.const([-1]), axis=0))
    return _model(g, {"ids": (TensorProto.INT64, ["batch", "sequence"])}, y)


#: Networks with the ranges of their dimensions and the number that sizes are multiples of.
FAMILIES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, tuple[int, int]], int]] = {
    "BERT": (encoder, {"batch": (1, 3), "sequence": (1, 12)}, 1),
    "T5": (translator, {"source": (1, 9), "target": (1, 7)}, 1),
    "ViT": (patches, {"height": (8, 32), "width": (8, 32)}, 1),
    "U-Net": (halves, {"height": (4, 20), "width": (4, 20)}, 1),
    "YOLO": (boxes, {"height": (4, 24), "width": (4, 24)}, 4),
    "LSTM": (recurrent, {"batch": (1, 3), "sequence": (1, 8)}, 1),
}


def sizes(ranges: Mapping[str, tuple[int, int]], of: int, seed: int) -> Iterable[dict[str, int]]:
    """The largest, the smallest and three others."""
    rng = np.random.default_rng(seed)
    yield {n: high for n, (_, high) in ranges.items()}
    yield {n: low for n, (low, _) in ranges.items()}
    for _ in range(3):
        found = {n: int(rng.integers(low, high + 1)) for n, (low, high) in ranges.items()}
        yield {n: max(of, v // of * of) for n, v in found.items()}
