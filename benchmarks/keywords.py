# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the int8 keyword model on labelled samples, in both arithmetics, beside onnxruntime.

    AOT_TEST_MODELS=<folder> python benchmarks/keywords.py

Needs the folder's data/kws01_1000.npz (X int8 [1000,49,10,1], y). Where `ai_edge_litert` is
installed, its reference kernels run the TensorFlow Lite original too. Exits 1 if an accuracy is
below 90.0 %, or differs from the one of the runtime whose arithmetic it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import aot

LEAST = 0.900


def ours(model: Path, samples: np.ndarray[Any, Any], requant: str) -> np.ndarray[Any, Any]:
    """Results of the compiled model."""
    with tempfile.TemporaryDirectory() as folder:
        run = aot.compile(model, folder, requant=requant).load()
        return np.stack([np.array(run(np.ascontiguousarray(x[None])))[0] for x in samples])


def runtime(model: Path, samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Results of onnxruntime, graph optimisation off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options)
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: x[None]})[0][0] for x in samples])


def lite(model: Path, samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Results of TensorFlow Lite's reference kernels; None where they are not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        return None
    kind = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(str(model), experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    given, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    rows = []
    for x in samples:
        interpreter.set_tensor(given["index"], x[None])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(result["index"])[0].copy())
    return np.stack(rows)


def main() -> int:
    folder = os.environ.get("AOT_TEST_MODELS")
    if not folder or not (Path(folder) / "data" / "kws01_1000.npz").is_file():
        print("AOT_TEST_MODELS names no folder with data/kws01_1000.npz")
        return 2
    data = np.load(Path(folder) / "data" / "kws01_1000.npz")
    samples, labels = data["X"], data["y"]
    model = Path(folder) / "mlperf_kws_int8.onnx"
    peers = {
        "onnx": runtime(model, samples),
        "tflite": lite(Path(folder) / "tflite" / "mlperf_kws_int8.tflite", samples),
    }
    names = {"onnx": "onnxruntime", "tflite": "TensorFlow Lite"}
    print(
        "| arithmetic | accuracy | beside | its accuracy | quantised values equal | labels equal |"
    )
    print("|---|---|---|---|---|---|")
    good = True
    for requant, theirs in peers.items():
        found = ours(model, samples, requant)
        accuracy = float(np.mean(found.argmax(1) == labels))
        good = good and accuracy >= LEAST
        row = f"| {requant} | {accuracy:.1%} | {names[requant]}"
        if theirs is None:
            print(f"{row} | not installed | | |")
            continue
        same = float(np.mean(theirs.argmax(1) == labels))
        good = good and same == accuracy
        codes, top = np.mean(found == theirs), np.mean(found.argmax(1) == theirs.argmax(1))
        print(f"{row} | {same:.1%} | {codes:.2%} | {top:.1%} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
