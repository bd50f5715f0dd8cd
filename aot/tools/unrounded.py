# SPDX-License-Identifier: Apache-2.0
"""What a model gives in wider floats, for results that lie too far from a reference.

onnx.reference rounds to float16 or bfloat16 behind every node; a bundle rounds where operators do
not follow one another. Deep networks that take small differences for large ones, as detectors that
cut regions of an image out at computed places, do the same with the rounding of float32. Bundle and
reference may be far apart, and only one of them near what the weights say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.options import Options
from aot.tools.build import scratch
from aot.tools.reference import CannotRun, Reference, open_reference, saved
from aot.tools.value_conversion import Converted

#: The number in ONNX of a type to widen → of the type to which it is widened.
HALVES = {10: 1, 16: 1}
SINGLE = {1: 11}
#: Bytes of weights up to which float32 is widened: onnx.reference holds each several times.
LARGEST = 1 << 30
#: Types of ONNX that are widened, as NumPy has them.
NARROW = {
    1: np.dtype(np.float32),
    10: np.dtype(np.float16),
    16: np.dtype(ml_dtypes.bfloat16),
}


class Unrounded:
    """The model in `model` with every float16 and bfloat16 in float32 or, where it has none, with
    every float32 in float64 (up to a GiB of weights); it is read when it is asked for.

    `kind` is the reference asked for, `extra` are values inside the graph that it gives, too.
    `wide` is the type to which the model was widened.
    """

    def __init__(
        self, model: Path, kind: str | None, extra: Sequence[str], options: Options
    ) -> None:
        """Remember what to read."""
        self._source = model, kind, extra
        self._options = options
        self.wide: np.dtype[Any] = np.dtype(np.float32)
        self._types: dict[str, np.dtype[Any]] = {}
        self._values = list[str]()
        self._opened: Reference | None = None
        self._read = False

    def __call__(self, out: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs and `extra` in wider floats, by name; none where the model has no narrow ones.

        `inputs` are as the model takes them, or raw bits; `out` is the folder for temporary files.
        """
        if not self._read:
            self._read, self._opened = True, self._open(out)
        if self._opened is None:
            return {}
        feeds = {n: self._widened(a, self._types.get(n)) for n, a in inputs.items()}
        try:
            return self._opened(feeds, self._values)
        except CannotRun:
            return {}

    def _open(self, out: Path) -> Reference | None:
        """The reference on the widened model; None if nothing was to widen, if the model is too
        large, or if the reference refuses it, as where a node reads the bits of a number.
        """
        model, kind, extra = self._source
        proto = onnx.load(str(model))
        types = {i.name: i.type.tensor_type.elem_type for i in proto.graph.input}
        self._values = [*(o.name for o in proto.graph.output), *extra]
        self._types = {n: NARROW[t] for n, t in types.items() if t in NARROW}
        if not widen(proto, HALVES):
            # onnxruntime computes few operators in float64.
            kind, self.wide = "onnx", np.dtype(np.float64)
            size = sum(len(t.raw_data) for t in proto.graph.initializer)
            if size > LARGEST or not widen(proto, SINGLE):
                return None
        with scratch(out) as name, suppress(UnsupportedError):
            folder = Path(name)
            opened = open_reference(saved(proto, folder), kind, extra, folder)
            return Converted(opened, proto.graph, self._options)
        return None

    def _widened(self, array: Array, known: np.dtype[Any] | None) -> Array:
        """An input in wider floats if its type in the model, `known`, is narrow."""
        if known is None:
            return array
        return (array if array.dtype == known else array.view(known)).astype(self.wide)


def rounded(array: Array, dtype: str) -> Array:
    """A result as `dtype`, if that is a narrow float; bfloat16 as raw bits."""
    with np.errstate(over="ignore"):
        if dtype == "bfloat16":
            return array.astype(ml_dtypes.bfloat16).view(np.uint16)
        return array.astype(dtype) if dtype in ("float16", "float32") else array


def widen(proto: onnx.ModelProto, wider: Mapping[int, int]) -> bool:
    """Give all values of the types in `wider` the wider ones, in place; whether there was one."""
    nodes, found = list(_nodes(proto)), False
    for tensor in _tensors(proto, nodes):
        if tensor.data_type in wider:
            kind = onnx.helper.tensor_dtype_to_np_dtype(wider[tensor.data_type])
            wide = onnx.numpy_helper.to_array(tensor).astype(kind)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
            found = True
    for a in (a for n in nodes for a in n.attribute):
        if a.name in ("to", "dtype") and a.i in wider:
            a.i, found = wider[a.i], True
        elif a.name in ("value_float", "value_floats") and 1 in wider:  # of a Constant
            numbers = np.array(a.f if a.name == "value_float" else a.floats, np.float64)
            a.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(numbers)))
    for graph in _graphs(proto):
        del graph.value_info[:]
        for info in (*graph.input, *graph.output):
            found = _widen_type(info.type, wider) or found
    return found


def _widen_type(kind: onnx.TypeProto, wider: Mapping[int, int]) -> bool:
    """Widen the elements of a type, of whatever it holds; whether `wider` has their type."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _widen_type(getattr(kind, which).elem_type, wider)
    if which != "tensor_type" or kind.tensor_type.elem_type not in wider:
        return False
    kind.tensor_type.elem_type = wider[kind.tensor_type.elem_type]
    return True


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph, and the graphs inside it."""
    graphs = [proto.graph]
    for graph in graphs:
        held = [a for n in graph.node for a in n.attribute]
        graphs.extend(g for a in held for g in (a.g, *a.graphs) if g.node or g.output)
    yield from graphs


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node of every graph, and of the model's own functions."""
    for graph in _graphs(proto):
        yield from graph.node
    for function in proto.functions:
        yield from function.node


def _tensors(proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Every constant: initialisers, and tensors of attributes."""
    for graph in _graphs(proto):
        yield from graph.initializer
    for a in (a for n in nodes for a in n.attribute):
        yield from (t for t in (a.t, *a.tensors) if t.data_type)
