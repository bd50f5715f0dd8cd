# SPDX-License-Identifier: Apache-2.0
"""Inputs to compare on: a user's file of samples, or seeded random arrays a model can take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import AotError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import Array
from aot.ir.node_traits import moved_operands, proto_operands, proto_trait
from aot.ir.operators import AxisOf, operator_named
from aot.ir.sample import Sample
from aot.ir.value_traits import Indexes
from aot.load.weights import constant_tensor
from aot.npz import read_npz
from aot.ops.registry import load_all
from aot.options import Options
from aot.shapes.dim_expressions import parsed
from aot.tools.run import Built, Spec, at_bound, conform, read_inputs, specs
from aot.tools.value_conversion import COUNT, random_texts, text_inputs
from aot.vendor.match import ValueRef

_SAMPLE = re.compile(r"s([0-9]{1,6})/(.+)", re.DOTALL)
_ORDERED = re.compile(r"s([0-9]{1,6})_(in|out|tflite_out)([0-9]{1,4})")


def read_samples(
    path: Path,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    order: tuple[Sequence[str], Sequence[str]] | None = None,
    exact: bool = False,
    tflite: bool = False,
) -> tuple[Sample, ...]:
    """The samples of an .npz: keys NAME, or s<k>/NAME, or s<k>_in<i> and s<k>_out<i> by order.

    With `tflite` outputs by order are s<k>_tflite_out<i>; s<k>_out<i> have the other arithmetic.
    `order` are the names of the model's inputs and outputs where these are more than the bundle's.
    `exact` also checks that expected outputs are of the outputs' types and shapes.
    """
    ins, outs = order or ([s.name for s in inputs], [s.name for s in outputs])
    names = {f"in{i}": n for i, n in enumerate(ins)}
    names |= {f"{'tflite_' if tflite else ''}out{i}": n for i, n in enumerate(outs)}
    known = {s.name for s in (*inputs, *outputs)}
    groups: dict[int, dict[str, Array]] = {}
    # One file may serve several bundles of a model: keys of other inputs and outputs are left out.
    for key, array in read_npz(path).items():
        number, name = _key(key, names, known)
        if name in known:
            groups.setdefault(number, {})[name] = array
    found = []
    for number in sorted(groups):
        group = groups[number]
        label = f"s{number}" if len(groups) > 1 else ""
        missing = [s.name for s in inputs if s.name not in group]
        if missing:
            where = f"{path}, sample {number}"
            raise AotError(f"input {missing[0]!r} is missing", where, _keys(inputs))
        arrays = tuple(conform(group[s.name], s, f"{path} {label}".rstrip()) for s in inputs)
        expected = {s.name: group[s.name] for s in outputs if s.name in group}
        if exact:
            where = f"{path} {label}".rstrip()
            expected = {
                s.name: _at_bound(expected[s.name], s, where) for s in outputs if s.name in expected
            }
        found.append(Sample(label, arrays, expected))
    if not found:
        raise AotError("no key names an input", str(path), _keys(inputs))
    return tuple(found)


def runs_of(built: Built, sources: Sequence[str]) -> tuple[Sample, ...]:
    """What `aotc run` is given: the samples of one .npz whose keys number them, or one set of
    inputs from `IN.npz` and `X=FILE` arguments."""
    if len(sources) == 1 and "=" not in sources[0]:
        names = {s.name for s in built.inputs}
        keys = list(read_npz(Path(sources[0])))
        if any(k not in names and (_SAMPLE.fullmatch(k) or _ORDERED.fullmatch(k)) for k in keys):
            return read_samples(Path(sources[0]), built.inputs, built.outputs)
    return (Sample("", tuple(read_inputs(built, sources))),)


def _at_bound(array: Array, spec: Spec, where: str) -> Array:
    """An expected output as a run leaves it: at its bound the elements, then zeros."""
    return at_bound(conform(array, spec, where, "output"), spec)


def _key(key: str, names: Mapping[str, str], known: set[str]) -> tuple[int, str]:
    """(sample number, input) that a key of an .npz means; "" for a key that means none."""
    if key in known:
        return 0, key
    match = _SAMPLE.fullmatch(key)
    if match:
        return int(match[1]), match[2]
    match = _ORDERED.fullmatch(key)
    if match:
        return int(match[1]), names.get(match[2] + match[3], "")
    return 0, ""


def _keys(inputs: Sequence[Spec]) -> str:
    return "keys are NAME or s<k>/NAME; inputs: " + ", ".join(s.name for s in inputs)


def random_sample(
    inputs: Sequence[Spec],
    graph: onnx.GraphProto | None,
    seed: int = 0,
    dimensions: Sequence[Mapping[str, Any]] = (),
    label: str = "",
) -> Sample:
    """Seeded inputs: floats in [-1, 1), booleans, integers that are valid where they index.

    They are at their bounds but for `dimensions`, entries of the manifest with the key "size".
    """
    limits = index_limits(graph) if graph is not None else {}
    texts = text_inputs(graph, [s.name for s in inputs]) if graph is not None else set()
    sizes = {tuple(place): d["size"] for d in dimensions for place in d["axes"]}
    arrays = []
    for i, spec in enumerate(inputs):
        # Every input has a seed of its own, so that its data do not depend on the inputs before it.
        rng = np.random.default_rng([seed, i])
        shape = tuple(sizes.get((i, axis), n) for axis, n in enumerate(spec.shape))
        sized = replace(spec, shape=shape)
        if spec.texts or spec.name in texts:
            arrays.append(random_texts(rng, shape))
        elif spec.name.endswith(COUNT):
            parts = sum(s.name.startswith(spec.name[: -len("count")]) for s in inputs) - 1
            arrays.append(np.full(shape, rng.integers(0, parts, endpoint=True), np.int64))
        else:
            arrays.append(_random(rng, sized, limits.get(spec.name, 2)))
    return Sample(label, tuple(arrays))


def random_samples(
    inputs: Sequence[Spec], graph: onnx.GraphProto | None, manifest: Mapping[str, Any]
) -> tuple[Sample, ...]:
    """Seeded inputs; where runs say sizes, a sample each at the largest, the smallest and a size
    between.

    With states whose length grows, samples are steps of one stream.
    """
    dims = manifest.get("dimensions", ())
    if not dims:
        return (random_sample(inputs, graph),)
    kept = {d["name"]: 0 for d in dims if "next" in d}
    most = {d["name"]: d["most"] for d in dims}
    found = []
    for seed, (label, share) in enumerate(_STEPS if kept else _SIZES):
        sized = [{**d, "size": d["least"] + round(share * (d["most"] - d["least"]))} for d in dims]
        sizes = {d["name"]: d["size"] for d in sized} | kept
        for d in sized:
            d["size"] = _settled(d["name"], sizes, d["size"])
        # One more step would let a state grow beyond its bound.
        if any(size > most[name] for name, size in kept.items()):
            break
        found.append(random_sample(inputs, graph, seed, sized, label))
        kept = {d["name"]: _settled(d["next"], sizes, 0) for d in dims if "next" in d}
    return tuple(found)


#: Labels of samples, and where their sizes lie between the least and the most; of models whose
#: states grow, which are runs one after the other.
_SIZES = (("most", 1.0), ("least", 0.0), ("between", 0.5))
_STEPS = (("first", 0.5), ("second", 0.0), ("third", 0.0), ("fourth", 0.25))


def _settled(text: str, sizes: Mapping[str, int], other: int) -> int:
    """The number that an expression of dimensions is for their sizes; `other` for another text."""
    expression = parsed(text)
    if expression is None or not all(n in sizes for n in expression.names):
        return sizes.get(text, int(text) if text.isdecimal() else other)
    return expression.limits({n: (sizes[n], sizes[n]) for n in expression.names})[1]


#: Quantised values of quantised values; indices have 32 bits or more.
_QUANTISED = ("int8", "uint8", "int16", "uint16")


def _random(rng: np.random.Generator, spec: Spec, limit: int) -> Array:
    """Random elements of an input: floats from -1 to 1, all codes, integers below `limit`."""
    if spec.dtype == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if spec.dtype == "bfloat16":
        bits = rng.uniform(-1, 1, spec.shape).astype(np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16)
    if spec.dtype in _QUANTISED:
        info = np.iinfo(spec.array_dtype)
        return rng.integers(info.min, info.max, spec.shape, spec.array_dtype, endpoint=True)
    if spec.array_dtype.kind == "f":
        return rng.uniform(-1, 1, spec.shape).astype(spec.array_dtype)
    return rng.integers(0, max(1, limit), spec.shape).astype(spec.array_dtype)


def index_limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Per graph input that indexes a table: one more than the largest valid index."""
    load_all()  # the records of operators say which operands are indices
    sizes = {t.name: tuple(t.dims) for t in graph.initializer}
    for value in graph.input:
        sizes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    for node in graph.node:
        if (table := constant_tensor(node)) is not None:
            sizes[node.output[0]] = tuple(table.dims)
    source = {i.name: {i.name} for i in graph.input}
    limits: dict[str, int] = {}
    for node in graph.node:
        moved = set[str]().union(*(source.get(name, ()) for name in moved_operands(node)))
        if moved:
            source.update(dict.fromkeys(node.output, moved))
        for name, size in _indexed(node, sizes):
            for origin in source.get(name, ()):
                limits[origin] = min(limits.get(origin, size), size)
    return limits


def _indexed(node: onnx.NodeProto, sizes: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    """The operands of a node that are places along an axis of known size, with that size."""
    trait = proto_trait(node, Indexes)
    record = operator_named(node.op_type, node.domain)
    if trait is None or record is None:
        return
    data, indices = (proto_operands(node, name) for name in (trait.data, trait.indices))
    rule = record.attributes["axis"]
    default = rule.default if isinstance(rule, AxisOf) else 0
    axis = next((a.i for a in node.attribute if a.name == "axis"), default)
    shape = sizes.get(data[0], ()) if data and indices and axis is not None else ()
    if axis is not None and -len(shape) <= axis < len(shape) and shape[axis]:
        yield indices[0], shape[axis]


def samples_for(manifest: Mapping[str, Any], model: ir.Model, options: Options) -> Sequence[Sample]:
    """The samples of `--test-data`, of the model's types and shapes."""
    if not options.test_data:
        return ()
    ins, outs = specs(manifest, "inputs"), specs(manifest, "outputs")
    order = tuple(
        [ValueRef(v).onnx_name for v in ends] for ends in (model.graph.inputs, model.graph.outputs)
    )
    tflite = options.requant == "tflite"
    return read_samples(Path(options.test_data), ins, outs, (order[0], order[1]), True, tflite)
