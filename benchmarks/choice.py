# SPDX-License-Identifier: Apache-2.0
"""How good is the choice by cost? Regions drawn by seed from networks, each compiled three ways.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/choice.py [MODEL …]

A region is some nodes in a row. Its costs are measured (`aotc tune`), then portable C, oneDNN and
the choice by cost are timed in interleaved rounds. MODEL is as in benchmarks/host.py.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

import onnx
from cost import every_way
from host import fed, find, interleaved, ours
from onnx import shape_inference
from onnx.utils import Extractor

from aot.cli import main as aotc

DEFAULT = ("squeezenet1_1", "mobilenetv2", "resnet18", "bert_tiny")
LEAST, MOST = 3, 12


def drawn(model: onnx.ModelProto, r: random.Random) -> onnx.ModelProto | None:
    """Some nodes in a row as a model of their own; None if they read or write no plain tensors."""
    nodes = list(model.graph.node)
    length = min(r.randint(LEAST, MOST), len(nodes))
    start = r.randrange(len(nodes) - length + 1)
    inside = nodes[start : start + length]
    consts = {t.name for t in model.graph.initializer}
    made = [o for n in inside for o in n.output if o]
    read = [i for n in inside for i in n.input if i and i not in consts and i not in made]
    used = {i for n in (*nodes[:start], *nodes[start + length :]) for i in n.input}
    used |= {o.name for o in model.graph.output}
    outputs = [o for o in made if o in used]
    inputs = list(dict.fromkeys(read))
    infos = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    floats = {v.name for v in infos if _is_plain(v.type.tensor_type)}
    if not outputs or not inputs or not floats.issuperset({*inputs, *outputs}):
        return None
    return Extractor(model).extract_model(inputs, outputs)


def _is_plain(kind: onnx.TypeProto.Tensor) -> bool:
    """Float32 of a known shape."""
    known = all(d.dim_value > 0 for d in kind.shape.dim)
    return known and kind.elem_type == onnx.TensorProto.FLOAT


def measure(name: str, part: onnx.ModelProto, work: Path, rounds: int) -> tuple[str, float]:
    path = work / "part.onnx"
    onnx.save(part, str(path))
    model = find(str(path), work)
    costs = str(work / "costs.json")
    command = ["tune", str(path), "--backend", "dnnl", "-o", costs, "--rounds", "3", "-q"]
    assert aotc(command) == 0
    built = every_way(model, work, ["dnnl"], costs)
    files, _ = fed(built["c"], work)
    runs = int(min(2000, max(5, 60 / max(0.001, ours(built["c"], files, 20)))))
    timers = {key: (lambda b=b: ours(b, files, runs)) for key, b in built.items()}
    ms = {key: median(t) for key, t in interleaved(timers, rounds).items()}
    best = min(ms.values())
    ops = Counter(n.op_type for n in part.graph.node)
    shown = ", ".join(f"{n} {op}" if n > 1 else op for op, n in ops.items())
    numbers = " | ".join(f"{1e3 * ms[key]:.1f}" for key in built)
    return f"| {name} | {shown} | {numbers} | {ms['cost'] / best:.2f} |", ms["cost"] / best


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--regions", type=int, default=32)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    r = random.Random(a.seed)
    print(
        "| from | operators | c us | dnnl us | cost us | cost / best |\n|---|---|---|---|---|---|"
    )
    worst: list[float] = []
    with tempfile.TemporaryDirectory() as models:
        protos = []
        for name in a.models:
            loaded = onnx.load(str(find(name, Path(models)).path))
            protos.append((name, shape_inference.infer_shapes(loaded, data_prop=True)))
        while len(worst) < a.regions:
            name, proto = protos[len(worst) % len(protos)]
            part = drawn(proto, r)
            if part is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                line, ratio = measure(name, part, Path(folder), a.rounds)
            worst.append(ratio)
            print(line, flush=True)
    within = sum(w <= 1.10 for w in worst)
    print(f"{within} of {len(worst)} within 10 % of the best measured, worst {max(worst):.2f}")


if __name__ == "__main__":
    main()
