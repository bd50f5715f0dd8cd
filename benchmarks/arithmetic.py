# SPDX-License-Identifier: Apache-2.0
"""How far our 8-bit results lie from onnxruntime's two ways to compute the same model.

    python benchmarks/arithmetic.py [--runs 32] [--values] [MODEL.onnx …]

onnxruntime computes a quantised network in integers where its optimiser is on, and as it is written
where the optimiser is off: values in float32 between DequantizeLinear and QuantizeLinear. A row per
model (default: the 8-bit ones of AOT_TEST_MODELS): the share of codes on which its two ways differ
and the largest difference; the same of our default arithmetic against each way; and of our codes
outside of what lies between the two. With `--values` a row per quantised value of each model, in
the order of the nodes, whose result is kept as an output: it shows where differences begin and how
they grow. Inputs are random, from a fixed seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402

Arrays = dict[str, np.ndarray[Any, Any]]
HEAD = (
    "| value | codes | its ways differ | by | ours, its integers | by | ours, as written | by "
    "| ours outside | by |\n|---|---|---|---|---|---|---|---|---|---|"
)
MODES = (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)


def session(model: bytes, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
    """A session of one thread at the level of optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def drawn(model: onnx.ModelProto, rng: np.random.Generator) -> Arrays:
    """Random codes of all values, random floats of normal distribution."""
    found = {}
    for value in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        whole = np.issubdtype(kind, np.integer)
        some = rng.integers(*_ends(kind), shape) if whole else rng.standard_normal(shape)
        found[value.name] = some.astype(kind)
    return found


def _ends(kind: np.dtype[Any]) -> tuple[int, int]:
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max) + 1


def codes(model: onnx.ModelProto) -> list[str]:
    """Results of QuantizeLinear and of QLinear operators, in the order of the nodes."""
    kept = [n for n in model.graph.node if "QuantizeLinear" in n.op_type or "QLinear" in n.op_type]
    return [n.output[0] for n in kept if n.op_type != "DequantizeLinear"]


def shown(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all codes as outputs."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {v.name: v for v in (*graph.value_info, *graph.output)}
    found = [known[n] for n in codes(model) if n in known]
    del model.graph.output[:]
    model.graph.output.extend(found)
    return model


def far(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.abs(a - b)


def cells(apart: np.ndarray[Any, Any]) -> str:
    """The share of elements that are not 0, and the largest."""
    return (
        f"{100 * np.count_nonzero(apart) / max(1, apart.size):.2f} % | {int(apart.max(initial=0))}"
    )


def row(name: str, ours: list[Any], whole: list[Any], written: list[Any]) -> str:
    """The row of one value: lists of its codes, by run."""
    y, a, b = (np.stack(v).astype(np.int64) for v in (ours, whole, written))
    outside = np.maximum(0, np.maximum(y - np.maximum(a, b), np.minimum(a, b) - y))
    pairs = (far(a, b), far(y, a), far(y, b), outside)
    return f"| {name} | {y.size} | " + " | ".join(map(cells, pairs)) + " |"


def measure(path: Path, runs: int, values: bool) -> None:
    """Print the rows of a model."""
    model = onnx.load(path)
    if values:
        model = shown(model)
    names = [o.name for o in model.graph.output]
    rng = np.random.default_rng(0)
    inputs = [drawn(model, rng) for _ in range(runs)]
    theirs = []
    for mode in MODES:
        net = session(model.SerializeToString(), mode)
        theirs.append([net.run(names, given) for given in inputs])
    with tempfile.TemporaryDirectory() as folder:
        net = aot.compile(model, Path(folder) / "net", name="net").build().load()
        ours = []
        for given in inputs:
            made = net(*given.values())
            made = [made] if len(names) == 1 else made.values() if isinstance(made, dict) else made
            ours.append([np.array(y) for y in made])
    for place, name in enumerate(names):
        by_run = ([r[place] for r in some] for some in (ours, *theirs))
        print(row(name if values else path.stem, *by_run), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--values", action="store_true", help="a row per quantised value")
    args = parser.parse_args()
    folder = Path(os.environ.get("AOT_TEST_MODELS", "."))
    print(HEAD)
    for path in args.models or sorted(folder.glob("*_int8.onnx")):
        measure(path, args.runs, args.values)


if __name__ == "__main__":
    main()
