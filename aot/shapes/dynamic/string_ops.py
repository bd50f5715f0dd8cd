# SPDX-License-Identifier: Apache-2.0
"""Strings that the data decide how many are: StringNormalizer with stop words, StringSplit."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from aot.ir.graph_nodes import TEXT, attribute, shape_of
from aot.shapes.dynamic.extents import INT64, Extents, refused

if TYPE_CHECKING:
    import onnx_ir as ir

STRING = 8


def _source(x: Extents, node: ir.Node) -> ir.Value:
    """The strings, of a shape that is known."""
    data = node.inputs[0]
    assert data is not None
    if x.of(data):
        raise refused(node, "gets strings whose number is known at run time only")
    return data


def normalizer(x: Extents, node: ir.Node) -> None:
    """StringNormalizer: as many as there are; one empty string where none is left.

    Before: y = StringNormalizer(x)      After: y, n = aot.text.Keep(x), in the same attributes
    """
    data = _source(x, node)
    shape = shape_of(data)
    most = max(shape[-1], 1)
    kinds = [(STRING, (*shape[:-1], most)), (INT64, (1,))]
    held: dict[str, Any] = {k: node.attributes[k] for k in sorted(node.attributes)}
    y, n = x.node(node, "Keep", [data], kinds, TEXT, **held)
    x.become(node.outputs[0], y, {len(shape) - 1: x.new(n, most)})
    x.drop(node)


def splitter(x: Extents, node: ir.Node) -> None:
    """StringSplit: as many pieces as the longest string can have.

    Before: y, counts = StringSplit(x)   After: y, counts, n = aot.text.Split(x)
    """
    data = _source(x, node)
    shape = shape_of(data)
    width = x.sweep.max_string
    mark = str(attribute(node, "delimiter", "")).encode()
    most = width // len(mark) + 1 if mark else (width + 1) // 2
    splits = attribute(node, "maxsplit", None)
    if splits is not None and int(splits) >= 0:
        most = min(most, int(splits) + 1)
    if not prod(shape):
        most = 0
    kinds = [(STRING, (*shape, most)), (INT64, shape), (INT64, (1,))]
    how = {"delimiter": mark.decode(), "maxsplit": -1 if splits is None else int(splits)}
    y, counts, n = x.node(node, "Split", [data], kinds, TEXT, **how)
    x.become(node.outputs[0], y, {len(shape): x.new(n, most)} if most else {})
    if len(node.outputs) > 1 and node.outputs[1].name:
        x.become(node.outputs[1], counts, {})
    x.drop(node)
