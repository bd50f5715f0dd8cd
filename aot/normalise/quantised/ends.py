# SPDX-License-Identifier: Apache-2.0
"""How the integers of a model's inputs and outputs stand for numbers.

x -> DequantizeLinear(x, s, z)                  s and z are those of the input x
x -> Reshape(x) -> DequantizeLinear(_, s, z)    elements only move: the same
QuantizeLinear(_, s, z) -> Transpose -> y       s and z are those of the output y
"""

from __future__ import annotations

from collections.abc import Iterator

from aot.ir.deferred_import import ir
from aot.ir.operators import moved_places
from aot.ir.program import Quantisation
from aot.normalise.quantised.common import (
    Params,
    is_dequantise,
    is_quantise,
    params_of,
)


def quantisation_of_ends(graph: ir.Graph) -> dict[str, Quantisation]:
    """Scale and zero point of every quantised input and output of a normalised graph, by name.

    Only what is constant, and the same for all that read an input, is a fact of the interface.
    """
    found = {str(v.name): list(_read(v, set())) for v in graph.inputs}
    found |= {str(v.name): list(_written(v, set())) for v in graph.outputs}
    return {
        name: _record(params[0])
        for name, params in found.items()
        if params and all(p.same(params[0]) for p in params[1:])
    }


def _record(params: Params) -> Quantisation:
    """`params` as the record that the program keeps of an input or output."""
    axis = None if params.per_tensor else params.axis
    scales, zeros = params.scale.ravel(), params.zero.ravel()
    return Quantisation(tuple(map(float, scales)), tuple(map(int, zeros)), axis)


def _moves(node: ir.Node, index: int) -> bool:
    """Whether elements of input `index` become elements of the result as they are."""
    return index in moved_places(node)


def _read(value: ir.Value, seen: set[ir.Value], moved: bool = False) -> Iterator[Params]:
    """Yield the parameters with which `value` is dequantised, by way of nodes that move it, too.

    Parameters along an axis count only where nothing has moved the value. `seen` is changed.
    """
    if value in seen:
        return
    seen.add(value)
    for use in value.uses():
        node = use.node
        params = params_of(node, short=True) if is_dequantise(node) and use.idx == 0 else None
        if params is not None and (params.per_tensor or not moved):
            yield params
        elif _moves(node, use.idx):
            yield from _read(node.outputs[0], seen, True)


def _written(value: ir.Value, seen: set[ir.Value], moved: bool = False) -> Iterator[Params]:
    """Yield the parameters with which `value` was quantised; like `_read`, towards the inputs."""
    node = value.producer()
    if node is None or value in seen:
        return
    seen.add(value)
    params = params_of(node, short=True) if is_quantise(node) else None
    if params is not None and (params.per_tensor or not moved):
        yield params
    for index, source in enumerate(node.inputs):
        if source is not None and _moves(node, index):
            yield from _written(source, seen, True)
