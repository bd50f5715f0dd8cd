# SPDX-License-Identifier: Apache-2.0
"""Element types besides float32 and 8 bits against onnxruntime, one thread.

    AOT_TEST_MODELS=<folder> python benchmarks/element_types.py

Encoders, ResNet-50 and MobileNetV2 in float32, in bfloat16 and with `--accuracy fast`, beside their
own time in float32 (only where one is named: `--only bert_base_128`, `--only resnet50`).
MobileNetV2 in float32 and in float16 with the same weights, four products of float64 for one row
and for 32, 24 products of one row with weights of float32 and of 4 bits, and operators of 262144
integers or booleans. Rounds and ratios are those of `host.py`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from host import compiled, fed, interleaved, measure, ours
from int8_models import float_model
from onnx import TensorProto as T, helper, numpy_helper

import encoders
from corpus_models import RealModel

ELEMENTS = 1 << 18
COMPARED = ("Equal", "Less")
NETWORKS = ("resnet50", "mobilenetv2")


def save(
    path: Path, nodes: list[onnx.NodeProto], ends: list[list[object]], **constants: np.ndarray
) -> None:
    """Write a graph; `ends` are (name, element type, shape) of its inputs and, last, its result."""
    infos = [helper.make_tensor_value_info(*end) for end in ends]
    weights = [numpy_helper.from_array(data, name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, path.stem, infos[:-1], infos[-1:], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def to_half(model: onnx.ModelProto, kind: int = T.BFLOAT16) -> None:
    """Give weights, results of Cast, inputs and outputs of float32 the type bfloat16 or float16."""
    graph, nodes = model.graph, []
    del graph.value_info[:]
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Cast":
            wide, result = f"{node.output[0]}_wide", node.output[0]
            node.output[0] = wide
            nodes.append(helper.make_node("Cast", [wide], [result], to=kind))
    del graph.node[:]
    graph.node.extend(nodes)
    narrow = helper.tensor_dtype_to_np_dtype(kind)
    for tensor in graph.initializer:
        if tensor.data_type == T.FLOAT:
            half = numpy_helper.to_array(tensor).astype(narrow)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == T.FLOAT:
            info.type.tensor_type.elem_type = kind


def rounded(name: str, folder: Path, work: Path, rounds: int) -> None:
    """Print the times of a network in float32, in bfloat16 and with `--accuracy fast`."""
    made = name in encoders.SIZES
    wide = encoders.encoder(name) if made else onnx.load(float_model(name, folder, work))
    narrow = onnx.ModelProto.FromString(wide.SerializeToString())
    to_half(narrow)
    timers = {}
    for kind, model in (("float32", wide), ("bfloat16", narrow), ("fast", wide)):
        path = work / f"{name}_{kind}.onnx"
        onnx.save(model, path)
        options = ["--accuracy", "fast"] if kind == "fast" else []
        built = compiled(RealModel(path.stem, path, None, {}), work / f"{path.stem}.out", options)
        timers[kind] = partial(ours, built, fed(built, built.out)[0], 7)
    times = interleaved(timers, rounds)
    for kind, own in times.items():
        ratio = median(a / b for a, b in zip(times["float32"], own, strict=True))
        print(f"| {name} {kind} | {median(own):.3f} | | {ratio:.2f} x float32 |", flush=True)


def to_float16(source: Path, path: Path) -> None:
    """Write the network with weights, inputs and outputs of float16."""
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        if tensor.data_type == T.FLOAT:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = T.FLOAT16
    del model.graph.value_info[:]
    onnx.save(model, path)


def layers(path: Path, rows: int) -> None:
    """Write a network of four products of float64, with Add and Relu behind them."""
    rng, nodes, x = np.random.default_rng(0), list[onnx.NodeProto](), "x"
    weights = dict[str, np.ndarray]()
    for i, (k, n) in enumerate(((256, 512), (512, 512), (512, 512), (512, 64))):
        weights |= {f"w{i}": rng.standard_normal((k, n)) / k**0.5, f"b{i}": rng.standard_normal(n)}
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"]))
        x = f"r{i}"
    save(path, nodes, [["x", T.DOUBLE, [rows, 256]], [x, T.DOUBLE, [rows, 64]]], **weights)


def one_row(path: Path, bits: int) -> None:
    """Write a network of 24 products of one row, 768 to 3072 and back, as a decoder's step has
    them; weights have 4 bits in blocks of 32, or 32.
    """
    rng, nodes, weights, x = np.random.default_rng(1), [], dict[str, np.ndarray](), "x"
    for i in range(24):
        k, n = ((768, 3072), (3072, 768))[i % 2]
        step = np.float32(k**-0.5)
        if bits == 4:
            sizes = {"K": k, "N": n, "bits": 4, "block_size": 32}
            weights[f"w{i}"] = rng.integers(0, 256, (n, k // 32, 16), np.uint8)
            weights[f"s{i}"] = np.full(n * k // 32, step / 4.6, np.float32)
            names, kind = [x, f"w{i}", f"s{i}"], "MatMulNBits"
            node = helper.make_node(kind, names, [f"y{i}"], domain="com.microsoft", **sizes)
        else:
            weights[f"w{i}"] = rng.standard_normal((k, n), np.float32) * step
            node = helper.make_node("MatMul", [x, f"w{i}"], [f"y{i}"])
        nodes.append(node)
        x = f"y{i}"
    save(path, nodes, [["x", T.FLOAT, [1, 768]], [x, T.FLOAT, [1, 768]]], **weights)


def models(folder: Path, work: Path) -> list[Path]:
    """The files of all models, written to `work`."""
    found = [float_model("mobilenetv2", folder, work), work / "mobilenetv2_float16.onnx"]
    to_float16(*found)
    for rows in (1, 32):
        found.append(work / f"float64_rows_{rows}.onnx")
        layers(found[-1], rows)
    for bits in (32, 4):
        found.append(work / f"one_row_{bits}_bits.onnx")
        one_row(found[-1], bits)
    for op in ("Add", "Mul", "Max", *COMPARED, "And", "Xor"):
        kind = T.BOOL if op in ("And", "Xor") else T.INT64
        found.append(work / f"{op.lower()}_{'bool' if kind == T.BOOL else 'int64'}.onnx")
        result = T.BOOL if op in COMPARED else kind
        ends = [[n, result if n == "y" else kind, [ELEMENTS]] for n in "aby"]
        save(found[-1], [helper.make_node(op, ["a", "b"], ["y"])], ends)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the models' names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print("| model | ours ms | onnxruntime ms | onnxruntime / ours |\n|---|---|---|---|")
        folder = Path(os.environ["AOT_TEST_MODELS"])
        if given.only in (*encoders.SIZES, *NETWORKS):
            rounded(given.only, folder, Path(name), given.rounds)
            return
        for path in models(folder, Path(name)):
            if given.only not in path.stem:
                continue
            r = measure(RealModel(path.stem, path, None, {}), Path(name), given.rounds, [])
            print(f"| {r.model} | {r.ours_ms:.3f} | {r.ort_ms:.3f} | {r.ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
