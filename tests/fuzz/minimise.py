# SPDX-License-Identifier: Apache-2.0
"""Make a failing model small: one output, nodes replaced by inputs, shorter axes.

The result is written as an .onnx file, its inputs as .npz, and a snippet of Python that builds the
model with onnx.helper and checks it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from fuzz.check import Config, Outcome, check
from fuzz.corrected import evaluator
from fuzz.draft import Array, captured, typed
from fuzz.generate import Model
from fuzz.kernel_cache import Cache

ROUNDS, BATCH = 40, 24


def minimise(outcome: Outcome, store: Cache, folder: Path, seconds: float = math.inf) -> Outcome:
    """The smallest model found that fails in the same way, with so much time to look for it."""
    best = outcome
    if outcome.model.proto.functions:
        best = _smaller(best, [_inlined(outcome.model)], store, folder) or best
    begin = time.monotonic()
    for _ in range(ROUNDS):
        if time.monotonic() - begin > seconds:
            return best
        found = None
        for candidates in _batches(_candidates(best.model)):
            found = _smaller(best, candidates, store, folder)
            if found:
                break
        if found is None:
            return best
        best = found
    return best


def _batches(models: Iterator[Model]) -> Iterator[list[Model]]:
    part: list[Model] = []
    for m in models:
        part.append(m)
        if len(part) == BATCH:
            yield part
            part = []
    if part:
        yield part


def size(model: Model) -> tuple[int, int, int]:
    """Nodes, elements of inputs and constants, outputs."""
    elements = sum(a.size for a in model.feeds.values())
    elements += sum(int(np.prod(t.dims)) for t in model.proto.graph.initializer)
    return len(model.proto.graph.node), len(model.outputs), elements


def _smaller(
    best: Outcome, candidates: Sequence[Model], store: Cache, folder: Path
) -> Outcome | None:
    """The smallest candidate that fails like `best`; None if all are well."""
    config: Config = best.config
    kept = [m for m in candidates if size(m) < size(best.model)]
    found = check([(m, config) for m in kept], store, folder)
    both = best.expected is not None and best.expected.both
    failing = [
        o
        for o in found
        if o.result == best.result
        and len(o.model.proto.graph.node)
        and (not both or (o.expected is not None and o.expected.both))
    ]
    return min(failing, key=lambda o: size(o.model), default=None)


def _candidates(model: Model) -> Iterator[Model]:
    """Models a little smaller, the boldest first."""
    values = _values(model)
    graph = model.proto.graph
    if len(model.outputs) > 1:
        for name in model.outputs:
            yield _cut(model, values, [], [name])
    nodes = list(graph.node)
    for count in (len(nodes) // 2, len(nodes) // 4, 1):
        if count:
            for i in range(0, len(nodes), count):
                yield _cut(model, values, nodes[i : i + count], model.outputs)
    for node in reversed(nodes):  # an inner value is the output
        for name in node.output:
            if name and name not in model.outputs and name in values:
                yield _cut(model, values, [], [name])
    for name, array in model.feeds.items():
        for axis, extent in enumerate(array.shape):
            if extent > 1:
                short = np.take(array, range((extent + 1) // 2), axis)
                shorter = _reshaped(model, {**model.feeds, name: short})
                if shorter:
                    yield shorter


def _values(model: Model) -> dict[str, Array]:
    """Every tensor of the graph, from onnx.reference."""
    made = [o for n in model.proto.graph.node for o in n.output if o]
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=o) for o in made)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluator(proto, list(model.feeds.values())).run(None, model.feeds)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.proto.graph.initializer}
    arrays |= model.feeds
    arrays |= {
        n: np.asarray(a) for n, a in zip(made, found, strict=True) if not isinstance(a, list)
    }
    return arrays


def _cut(
    model: Model, values: dict[str, Array], gone: Sequence[onnx.NodeProto], outputs: Sequence[str]
) -> Model:
    """`model` without the nodes `gone`, whose results become inputs, and without dead ones."""
    names = {o for n in gone for o in n.output}
    kept = [n for n in model.proto.graph.node if not set(n.output) & names]
    needed, alive = set(outputs), []
    for node in reversed(kept):
        if set(node.output) & needed:
            alive.append(node)
            needed |= {*node.input, *captured(node)}
    alive.reverse()
    made = {o for n in alive for o in n.output}
    consts = [t for t in model.proto.graph.initializer if t.name in needed]
    fixed = {t.name for t in consts}
    feeds = {n: a for n, a in values.items() if n in needed and n not in made and n not in fixed}
    ends = [o for o in model.proto.graph.output if o.name in outputs]
    ends += [typed(n, values[n]) for n in outputs if n not in model.outputs]
    graph = helper.make_graph(alive, "small", [typed(n, a) for n, a in feeds.items()], ends, consts)
    return _rebuilt(model, graph, feeds)


def _rebuilt(model: Model, graph: onnx.GraphProto, feeds: dict[str, Array]) -> Model:
    proto = helper.make_model(
        graph,
        opset_imports=model.proto.opset_import,
        functions=model.proto.functions,
        ir_version=model.proto.ir_version,
    )
    errors = {o.name: model.errors.get(o.name, 0.0) for o in graph.output}
    made = Model(model.seed, proto, feeds, errors, model.rough, model.families)
    made.altered = model.altered
    return made


def _reshaped(model: Model, feeds: dict[str, Array]) -> Model | None:
    """The model on inputs of other shapes; None if it does not fit them."""
    graph = onnx.GraphProto()
    graph.CopyFrom(model.proto.graph)
    del graph.input[:]
    graph.input.extend(typed(n, a) for n, a in feeds.items())
    for o in graph.output:
        o.type.tensor_type.ClearField("shape")
    found = _rebuilt(model, graph, feeds)
    try:
        onnx.shape_inference.infer_shapes(found.proto, strict_mode=True, data_prop=True)
        values = _values(found)
    except Exception:
        return None
    for o in graph.output:
        o.CopyFrom(typed(o.name, values[o.name]))
    return _rebuilt(model, graph, feeds)


def _inlined(model: Model) -> Model:
    proto = inliner.inline_local_functions(model.proto)
    return replace(model, proto=proto, pairs=frozenset())


# -- writing it down -------------------------------------------------------------------------


def save(outcome: Outcome, folder: Path) -> Path:
    """Write the model, its inputs and a snippet; the path of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{outcome.result}_{outcome.model.seed}_{outcome.config.name}"
    onnx.save(outcome.model.proto, f"{stem}.onnx")
    np.savez(f"{stem}.npz", **outcome.model.feeds)
    Path(f"{stem}.py").write_text(snippet(outcome))
    return Path(f"{stem}.onnx")


def snippet(outcome: Outcome) -> str:
    """Python that builds the model with onnx.helper (small arrays only, others are random)."""
    model = outcome.model
    lines = [f"# {line}" for line in outcome.text.splitlines()]
    lines += ["import numpy as np", "from onnx import helper, numpy_helper", ""]
    consts = {t.name: numpy_helper.to_array(t) for t in model.proto.graph.initializer}
    for name, array in {**model.feeds, **consts}.items():
        lines.append(f"{name} = {_literal(array)}")
    lines.append("nodes = [")
    for n in model.proto.graph.node:
        attrs = "".join(f", {a.name}={_attribute(a)}" for a in n.attribute)
        domain = f", domain={n.domain!r}" if n.domain else ""
        ends = f"{list(n.input)}, {list(n.output)}"
        lines.append(f"    helper.make_node({n.op_type!r}, {ends}{domain}{attrs}),")
    lines.append("]")
    lines.append(
        f"inputs, constants, outputs = {list(model.feeds)}, {list(consts)}, {model.outputs}"
    )
    opsets = {o.domain: o.version for o in model.proto.opset_import}
    lines.append(f"opsets = {opsets}")
    return "\n".join(lines) + "\n"


def _literal(a: Array) -> str:
    if a.size > 64:
        return f"np.random.default_rng(0).standard_normal({a.shape}).astype({a.dtype.name!r})"
    return f"np.array({a.tolist()!r}, {a.dtype.name!r})"


def _attribute(attribute: onnx.AttributeProto) -> str:
    value = helper.get_attribute_value(attribute)
    return repr(value.decode() if isinstance(value, bytes) else value)
