# SPDX-License-Identifier: Apache-2.0
"""Sizes that fit the open dimensions of a model: examples, for messages and for `aotc inspect`.

A batch and a state are of one; a number of channels is what the weights of the first operator say;
what is left gets the size asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from aot.ir.deferred_import import onnx
from aot.ir.node_traits import proto_trait
from aot.ir.operators import Linear
from aot.ir.pins import Pin
from aot.load.containers import is_container
from aot.load.options import LoadOptions, Size
from aot.load.state_detection import sounds_like_state, state_pairs
from aot.options import Options
from aot.shapes.dim_expressions import Unsettled, parsed

Dims = list[int | str | None]

#: Sizes to try, the likeliest first, each with a number of axes for inputs of unknown rank.
SIZES = ((64, 2), (224, 4), (1, 1), (256, 2), (512, 3), (1280, 2), (16_000, 2))
COLOURS = 3


def open_shapes(
    inputs: Mapping[str, Dims | None], options: Options | LoadOptions
) -> dict[str, Dims | None]:
    """The inputs that have open dimensions after `options`; None is a shape of unknown rank.

    A range of `options` is no open dimension: its upper end stands for it.
    """
    known = {n: _most(v) for n, v in options.dims.items()}
    merged: dict[str, Dims | None] = {}
    for name, dims in inputs.items():
        bound = name in options.bindings
        given = np.shape(options.bindings[name]) if bound else options.input_shapes.get(name)
        merged[name] = dims
        if given is not None:
            sizes = [None if s == -1 else _most(s) for s in given]
            # Another rank than the declared one is an error, which loading reports.
            declared = dims if dims is not None and len(dims) == len(sizes) else sizes
            merged[name] = [d if s is None else s for s, d in zip(sizes, declared, strict=True)]
            pairs = zip(declared, sizes, strict=True)
            known.update({d: s for d, s in pairs if isinstance(d, str) and s is not None})
    found: dict[str, Dims | None] = {}
    for name, dims in merged.items():
        if name in options.bindings:
            continue
        open_ = with_batch(dims) if is_batch(dims) else dims
        sized = open_ and [_sized(d, known) for d in open_]
        if sized is None or not all(isinstance(d, int) for d in sized):
            found[name] = sized
    return found


def is_batch(dims: Sequence[object] | None) -> bool:
    """Whether the first of `dims` is open and has no name: exporters leave batches so."""
    return bool(dims) and dims is not None and dims[0] is None


def with_batch(dims: Sequence[Any] | None) -> list[Any]:
    """`dims` with a first axis of 1."""
    return [1, *(dims or ())[1:]]


def _sized(dim: int | str | None, known: Mapping[str, int]) -> int | str | None:
    """The size of a symbol or of an expression of symbols, if it is known."""
    expression = parsed(dim) if isinstance(dim, str) and dim not in known else None
    if expression is not None and all(n in known for n in expression.names):
        with suppress(Unsettled):
            return expression.limits({n: (known[n], known[n]) for n in expression.names})[1]
    return known.get(dim, dim) if isinstance(dim, str) else dim


def _symbols(dim: str) -> tuple[str, ...]:
    """What to type a size for: the names in an expression, or the symbol."""
    expression = parsed(dim)
    return (dim,) if expression is None else expression.names


def _most(size: Size) -> int:
    return size[1] if isinstance(size, tuple) else size


def example_pins(
    graph: onnx.GraphProto,
    shapes: Mapping[str, Dims | None],
    size: int = SIZES[0][0],
    rank: int = SIZES[0][1],
) -> list[Pin]:
    """What to type for the open dimensions of `shapes`.

    Every symbol is a `--dim`; an axis without a name is part of an `--input-shape`, in which -1
    stands for the axes that have one (the elements of a sequence lose the names of axes). An
    input of unknown rank gets `rank` axes.
    """

    if not shapes:
        return []
    states = {source for source, _ in state_pairs(graph)}
    states |= {n for n in shapes if sounds_like_state(n)}
    nameless = {i.name for i in graph.input if is_container(i)}
    weights = _weights(graph)
    symbols: dict[str, int] = {}
    found: list[Pin] = []
    for name, dims in shapes.items():
        told, axes = weights.get(name, (rank, {}))
        known: Dims = [None] * told if dims is None else dims
        likely = _likely(len(known), axes, 1 if name in states else size)
        named = name not in nameless or None not in known
        for dim, value in zip(known, likely, strict=True):
            for symbol in _symbols(dim) if named and isinstance(dim, str) else ():
                # A state or a weight knows a size better than the example does, so its value stays.
                symbols[symbol] = value if symbols.get(symbol, size) == size else symbols[symbol]
        if any(d is None for d in known):
            values = [d if isinstance(d, int) else v for d, v in zip(known, likely, strict=True)]
            pairs = zip(known, values, strict=True)
            kept = [-1 if named and isinstance(d, str) else v for d, v in pairs]
            found.append(Pin("--input-shape", name, tuple(kept)))
    return [*(Pin("--dim", n, (v,)) for n, v in symbols.items()), *found]


def _likely(rank: int, told: Mapping[int, int], size: int) -> Sequence[int]:
    """Sizes of the axes of an example input: `told` by axis, else `size`, a batch of 1, colours."""
    likely = [size] * rank
    if rank > 1:
        likely[0] = 1
    if rank == 4 and size > 1:
        likely[1] = COLOURS
    for axis, length in told.items():
        if -rank <= axis < rank:
            likely[axis] = length
    return likely


def _weights(graph: onnx.GraphProto) -> dict[str, tuple[int, dict[int, int]]]:
    """What the weights beside an input say of it: its rank, and sizes by axis (-1 is the last)."""
    constants = {i.name: list(i.dims) for i in graph.initializer}
    found: dict[str, tuple[int, dict[int, int]]] = {}
    for node in graph.node:
        shape = constants.get(node.input[1], []) if len(node.input) > 1 else []
        trait = proto_trait(node, Linear)
        if trait is None or len(shape) < 2 or node.input[0] in found:
            continue
        attributes = {a.name: a.i for a in node.attribute}
        rank = len(shape) if trait.groups else 2
        axis = trait.in_axis(bool(attributes.get(trait.transposed)))
        groups = attributes.get(trait.groups, 1) if axis else 1
        found[node.input[0]] = rank, {trait.result_axis: shape[axis] * groups}
    return found
