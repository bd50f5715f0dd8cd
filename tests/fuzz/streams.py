# SPDX-License-Identifier: Apache-2.0
"""Random models with states (`--state IN=OUT`), run for several steps.

Inputs of random models are handed what a value of their shape was in the step before; the last of
three steps is compared with the oracles, which are asked step by step.

    python tests/fuzz/streams.py [--seed S] [-n N] [--configs A,B]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper  # noqa: E402

from fuzz.check import (  # noqa: E402
    CONFIGS,
    DEFECTS,
    Outcome,
    compiled,
    judge,
    strings_as_bytes,
)
from fuzz.execute import Run, execute_all  # noqa: E402
from fuzz.generate import Model, generate  # noqa: E402
from fuzz.kernel_cache import Cache  # noqa: E402
from fuzz.oracles import expected  # noqa: E402

#: Families of arithmetic that is smooth: a step that begins a little off ends a little off.
FAMILIES = tuple(
    """
    affine_chain batch_norm binary broadcast concat conv expand gather gated gemm if_ layer_norm
    loop matmul pad pool recurrent reduce repeated reshape scan several slice_ softmax space split
    split_concat squeeze_excite tile transpose trilu turned twice unary
    """.split()
)
#: Operators in them that are not, or that turn small numbers into large ones.
JUMPS = frozenset(
    """
    Acos Acosh Asin Asinh Atanh Cast Ceil Div Exp Floor Log Mod Pow Reciprocal ReduceLogSum
    ReduceLogSumExp ReduceProd Round Sign Sqrt Tan
    """.split()
)
#: Steps of the oracles, and of what was compiled.
STEPS = RUNS = 3
#: Numbers of ONNX's types that Neg and Add take.
SIGNED = (1, 3, 5, 6, 7, 10, 11)
BATCH = 200


def stream(seed: int) -> tuple[Model, dict[str, str]] | None:
    """A random model and its states, None if nothing came of it."""
    model = generate(seed, FAMILIES)
    if model is None or model.rough or JUMPS & {n.op_type for n in model.proto.graph.node}:
        return None
    rng = np.random.default_rng([11, seed])
    graph = onnx.shape_inference.infer_shapes(model.proto).graph
    made = {o for n in graph.node for o in n.output}
    types = {
        v.name: (v.type.tensor_type.elem_type, shape)
        for v in (*graph.value_info, *graph.output)
        if v.name in made and (shape := extents(v)) is not None
    }
    states: dict[str, str] = {}
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for value in graph.input:
        own = value.type.tensor_type.elem_type, extents(value)
        fits = [n for n, t in sorted(types.items()) if t == own and n not in states.values()]
        if fits and own[0] in SIGNED and rng.random() < 0.8:
            hand_over(proto, value, str(rng.choice(fits)), rng.random() < 0.5, states)
    if not states:
        return None
    feeds = {n: np.zeros_like(a) if n in states else a for n, a in model.feeds.items()}
    return replace(model, proto=proto, feeds=feeds), states


def hand_over(
    proto: onnx.ModelProto,
    value: onnx.ValueInfoProto,
    after: str,
    added: bool,
    states: dict[str, str],
) -> None:
    """Make input `value` a state that is `after`, or their sum, in the next step; and show it."""
    graph, name = proto.graph, value.name
    if added:
        graph.node.append(helper.make_node("Add", [name, after], [f"{name}_next"]))
        after = f"{name}_next"
    graph.node.append(helper.make_node("Neg", [name], [f"{name}_seen"]))
    states[name] = after
    known = {o.name for o in graph.output}
    for shown in (f"{name}_seen", after):
        if shown not in known:
            graph.output.add().CopyFrom(value)
            graph.output[-1].name = shown


def extents(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The shape of a value that has one."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    return tuple(d.dim_value for d in tensor.shape.dim)


def run_of(model: Model, states: dict[str, str], name: str) -> Outcome | None:
    """What to run and what the last step should give; None if the oracles are not sure."""
    o = Outcome(model, CONFIGS[name])
    fed = dict(model.feeds)
    try:
        for _ in range(STEPS):
            told = expected(replace(model, feeds=fed))
            if told.ambiguous:
                return None
            fed |= {i: told.values[v] for i, v in states.items()}
    except Exception:
        return None
    left = [v for v in model.outputs if v not in states.values()]
    if not left:
        return None
    made = compiled(o, states=states)
    if made is None:
        return o
    feeds = [
        strings_as_bytes(model.feeds[v.name])
        for v in model.proto.graph.input
        if v.name not in states
    ]
    strict = o.config.accuracy == "strict"
    o.run = Run(made.program, made.plan, made.target, feeds, strict, RUNS)
    o.expected = told
    shown = onnx.ModelProto()
    shown.CopyFrom(model.proto)
    del shown.graph.output[:]
    shown.graph.output.extend(v for v in model.proto.graph.output if v.name in left)
    o.model = replace(model, proto=shown)
    return o


def sweep(seeds: Iterable[int], names: tuple[str, ...], store: Cache, folder: Path) -> Counter[str]:
    """What became of the streams of some seeds; prints what is wrong."""
    found: list[tuple[Outcome, dict[str, str]]] = []
    for seed in seeds:
        drawn = stream(seed)
        o = run_of(*drawn, names[seed % len(names)]) if drawn else None
        if o is not None and drawn is not None:
            found.append((o, drawn[1]))
    execute_all((o.run for o, _ in found), store, folder)
    count: Counter[str] = Counter()
    for o, states in found:
        if o.run is not None:
            judge(o)
        count[o.result] += 1
        if o.result in DEFECTS:
            print(f"{o.text} with {states}", flush=True)
    return count


def main() -> int:
    """Exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--configs", default="base,ram,flash,cost")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "aotc-fuzz")
    a = parser.parse_args()
    names, total = tuple(a.configs.split(",")), Counter[Any]()
    with tempfile.TemporaryDirectory(prefix="streams") as folder:
        for first in range(a.seed, a.seed + a.n, BATCH):
            seeds = range(first, min(first + BATCH, a.seed + a.n))
            total += sweep(seeds, names, Cache(a.cache), Path(folder))
            print(seeds.stop - a.seed, dict(total), flush=True)
    return 1 if any(total[d] for d in DEFECTS) else 0


if __name__ == "__main__":
    sys.exit(main())
