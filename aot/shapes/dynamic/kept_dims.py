# SPDX-License-Identifier: Apache-2.0
"""Dimensions of states (`--state IN=OUT`) that a run leaves longer or shorter: a growing cache.

Before: new = Concat(cache [past, 8], x [1, 8])    new is the next cache; past = 0..1023
After:  cache [1024, 8] and n (int64 [1]) are kept from run to run;
        new = aot.dynamic.Append(cache, x, Within(n, 1023), 1); the next n is n + 1

A state is empty at first and is stored at its bound, zeros behind its elements. A run whose state
has become longer than the range allows is `AOT_BAD_SHAPE` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.errors import ModelError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, NAME_KEY, original_name, set_type, shape_of
from aot.ir.pins import Pin
from aot.shapes.dynamic.dims import INT64, KEPT_SIZE, RUN_TIME_SHAPES, DynamicDims
from aot.shapes.dynamic.equality_constraints import require_equal
from aot.shapes.dynamic.rows import cut_out

KEPT = "aot.kept_dimensions"
"""Key of a graph's `meta`: the KeptSizes whose inputs say how long states are."""


@dataclass(frozen=True, slots=True)
class KeptSize:
    """The dimension `name` of states, up to `most`: input number `place` of the graph holds it.

    `axes` are (number of the state, axis); `next` is the expression of dimensions that the next run
    finds there, "" if there is none.
    """

    name: str
    most: int
    axes: tuple[tuple[int, int], ...]
    place: int
    next: str = ""


def keep_size(dims: DynamicDims, graph: ir.Graph, size: KeptSize, least: int) -> ir.Value:
    """The length of a dimension of states, which every run finds in a hidden input of `graph`.

    ModelError unless it may be 0.
    """
    name, most = size.name, size.most
    if least > 0:
        what = f'"{name}", a dimension of a state, is at least {least}, and a state begins empty'
        add = [Pin("--dim", name, (most,), instead=True)]
        raise ModelError(what, hint="begin the range with 0", add=add)
    value = ir.Value(name=f"{name} kept")
    set_type(value, INT64, (1,))
    sizes = graph.meta.get(KEPT, ())
    graph.meta[KEPT] = (*sizes, size)
    graph.inputs.append(value)
    dims.claim(dims.new(value, most))
    kind = [(INT64, (1,))]
    checked = dims.node(next(iter(graph)), "Within", [value], kind, DYNAMIC, most=most)[0]
    dims.checks.append(dims.new(checked, most))
    return checked


def hand_on(dims: DynamicDims, graph: ir.Graph, states: Mapping[str, str]) -> None:
    """Give `graph` outputs for the next lengths of its states, which are stored at their bounds.

    `states` are names of outputs by names of inputs. A run compares lengths that must be equal.
    """
    kept = kept_sizes(graph)
    if not dims.kept:
        return
    inputs = {original_name(v): v for v in graph.inputs}
    outputs = {original_name(v): i for i, v in enumerate(graph.outputs)}
    end = ir.Node("", "Identity", [graph.inputs[0]], name="states_end", num_outputs=1)
    end.outputs[0].name = "states end"
    graph.append(end)
    found: dict[ir.Value, ir.Value] = {}
    for name, output in states.items():
        axes = dims.run_sizes(inputs.get(name))
        index = outputs.get(output)
        if not axes or index is None or dims.run_sizes(graph.outputs[index]).keys() - axes.keys():
            continue  # what is wrong is said where states are paired
        value = graph.outputs[index]
        for axis, size in axes.items():
            length = dims.dim(end, value, axis)
            what = f'gives states of other lengths than "{output}" has'
            known = found.setdefault(size, length)
            found[size] = require_equal(dims, end, known, length, what)
        _store(dims, graph, end, index, inputs[name])
    graph.meta[KEPT] = tuple(_next(dims, graph, end, k, found) for k in kept)
    graph.remove(end, safe=True)


def _store(dims: DynamicDims, graph: ir.Graph, end: ir.Node, index: int, place: ir.Value) -> None:
    """Put output `index` in the form of the state `place`: at its bound, zeros behind."""
    old = graph.outputs[index]
    dims.handed.add(index)
    value = dims.neutral(end, old, 0)
    for axis in dims.run_sizes(place):
        room, length = shape_of(place)[axis], dims.dim(end, value, axis)
        # A run with more than the state has room for ends with a status; nothing is written.
        if shape_of(value)[axis] > room:
            checked = dims.node(end, "Within", [length], [(INT64, (1,))], DYNAMIC, most=room)[0]
            dims.checks.append(checked)
        if shape_of(value)[axis] != room:
            start = dims.ints(end, [0])
            value = cut_out(dims, end, value, axis, start, length, room)[0]
            dims.set(value, dims.run_sizes(old))
    # The output's name stays with the value that callers get.
    if value is not old:
        graph.outputs[index] = value
        name = original_name(old)
        old.name, value.name = f"{old.name} padded", str(old.name)
        value.metadata_props[NAME_KEY] = name
        old.metadata_props.pop(NAME_KEY, None)


def _next(
    dims: DynamicDims,
    graph: ir.Graph,
    end: ir.Node,
    kept: KeptSize,
    found: Mapping[ir.Value, ir.Value],
) -> KeptSize:
    """Make the next length of a dimension an output behind all others."""
    own = graph.inputs[kept.place]
    length = next((n for size, n in found.items() if dims.same(size, own)), own)
    output = dims.node(end, "Identity", [length], [(INT64, (1,))])[0]
    graph.outputs.append(output)
    known = graph.meta.get(RUN_TIME_SHAPES, ())
    graph.meta[RUN_TIME_SHAPES] = (*known, (KEPT_SIZE, (kept.place,)))
    text = dims.terms.text(dims.terms.of(length)[0], _names(graph))
    return replace(kept, next=text)


def _names(graph: ir.Graph) -> dict[ir.Value, str]:
    """The inputs that hold lengths of dimensions, with the names of these."""
    kept = {graph.inputs[k.place]: k.name for k in graph.meta[KEPT]}
    said = graph.meta.get("aot.dimensions", ())
    last = list(graph.inputs)[len(graph.inputs) - len(said) :] if said else []
    return {**kept, **{v: d.name for v, d in zip(last, said, strict=True)}}


def kept_sizes(graph: ir.Graph) -> tuple[KeptSize, ...]:
    """The lengths of states that runs hand on."""
    found: tuple[KeptSize, ...] = graph.meta.get(KEPT, ())
    return found
