# SPDX-License-Identifier: Apache-2.0
"""What a model of half precision gives in float32, for results that lie too far from a reference.

onnx.reference rounds to float16 or bfloat16 behind every node; a bundle rounds where operators do
not follow one another. Both may be far apart, and only one of them near what the weights say.
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

#: Halves by their number in ONNX, as NumPy has them.
HALVES = {10: np.dtype(np.float16), 16: np.dtype(ml_dtypes.bfloat16)}
FLOAT = 1


class Unrounded:
    """The model in `model` with every float16 and bfloat16 in float32, read when it is asked for.

    `kind` is the reference asked for, `extra` are values inside the graph that it gives, too.
    """

    def __init__(
        self, model: Path, kind: str | None, extra: Sequence[str], options: Options
    ) -> None:
        """Remember what to read."""
        self._source = model, kind, extra
        self._options = options
        self._halves: dict[str, np.dtype[Any]] = {}
        self._values = list[str]()
        self._opened: Reference | None = None
        self._read = False

    def __call__(self, out: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs and `extra` in float32, by name; none where the model has no half precision.

        `inputs` are as the model takes them, or raw bits; `out` is the folder for temporary files.
        """
        if not self._read:
            self._read, self._opened = True, self._open(out)
        if self._opened is None:
            return {}
        feeds = {n: _single(a, self._halves.get(n)) for n, a in inputs.items()}
        try:
            return self._opened(feeds, self._values)
        except CannotRun:
            return {}

    def _open(self, out: Path) -> Reference | None:
        """The reference on the widened model; None if nothing was to widen, or if it refuses the
        model, as where a node reads the bits of a number.
        """
        model, kind, extra = self._source
        proto = onnx.load(str(model))
        types = {i.name: i.type.tensor_type.elem_type for i in proto.graph.input}
        self._values = [*(o.name for o in proto.graph.output), *extra]
        self._halves = {n: HALVES[t] for n, t in types.items() if t in HALVES}
        if not widen(proto):
            return None
        with scratch(out) as name, suppress(UnsupportedError):
            folder = Path(name)
            opened = open_reference(saved(proto, folder), kind, extra, folder)
            return Converted(opened, proto.graph, self._options)
        return None


def _single(array: Array, half: np.dtype[Any] | None) -> Array:
    """An input in float32 if its type in the model is `half`."""
    if half is None:
        return array
    return (array if array.dtype == half else array.view(half)).astype(np.float32)


def rounded(array: Array, dtype: str) -> Array:
    """A result of float32 as `dtype`, if that is half precision; bfloat16 as raw bits."""
    with np.errstate(over="ignore"):
        if dtype == "bfloat16":
            return array.astype(ml_dtypes.bfloat16).view(np.uint16)
        return array.astype(np.float16) if dtype == "float16" else array


def widen(proto: onnx.ModelProto) -> bool:
    """Give all values of half precision float32, in place; whether there was one."""
    nodes, found = list(_nodes(proto)), False
    for tensor in _tensors(proto, nodes):
        if tensor.data_type in HALVES:
            wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
            found = True
    for a in (a for n in nodes for a in n.attribute):
        if a.name in ("to", "dtype") and a.i in HALVES:
            a.i, found = FLOAT, True
    for graph in _graphs(proto):
        del graph.value_info[:]
        for info in (*graph.input, *graph.output):
            found = _widen_type(info.type) or found
    return found


def _widen_type(kind: onnx.TypeProto) -> bool:
    """Widen the elements of a type, of whatever it holds; whether they were of half precision."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _widen_type(getattr(kind, which).elem_type)
    if which != "tensor_type" or kind.tensor_type.elem_type not in HALVES:
        return False
    kind.tensor_type.elem_type = FLOAT
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
