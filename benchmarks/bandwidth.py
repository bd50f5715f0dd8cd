# SPDX-License-Identifier: Apache-2.0
"""Products of one row against the memory bandwidth: `python benchmarks/bandwidth.py`.

By type of the weights: one product of 4096 x 24576, and a step of a decoder of 124 million weights
(benchmarks/decoder.py) behind 15 tokens. What is counted are the weights of products, with scales
(one per column of int8, one per 32 rows of int4); the bandwidth is that of a loop which reads 256
MiB, in the same rounds. One thread, CPU time, medians of rounds. With `--accuracy fast` bundles
have that option.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from decoder import HEADS, LAYERS, PLACES, SIZE, WORDS
from onnx import TensorProto as T, helper, numpy_helper

import aot
from aot.tools.bench import Timing, bench
from aot.tools.run import open_out
from decoders import LENGTH, PAST, gpt2

#: Bits per weight, scales included, by type.
BITS = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0, "int8": 8.0, "int4": 5.0}
TYPES = {"float16": T.FLOAT16, "bfloat16": T.BFLOAT16}
BEHIND = 15
#: Runs whose median counts in a round.
RUNS = 5
READ = r"""
typedef long long v8 __attribute__((vector_size(64)));
long long sum(const v8 *p, long n);
long long sum(const v8 *p, long n) {
    v8 a = {0}, b = a, c = a, d = a;
    for (long i = 0; i < n; i += 4) {
        __builtin_prefetch(p + i + 64), __builtin_prefetch(p + i + 65);
        __builtin_prefetch(p + i + 66), __builtin_prefetch(p + i + 67);
        a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
    }
    a += b + c + d;
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}
"""


def reader(work: Path) -> Callable[[], float]:
    """A function that measures GB/s of reading memory."""
    source, library = work / "read.c", work / "read.so"
    source.write_text(READ)
    command = ["cc", "-O2", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    loop, data = ctypes.CDLL(str(library)).sum, np.ones(1 << 25, np.int64)
    place = data[-data.ctypes.data % 64 // 8 :]  # the vectors of the loop are aligned
    lines = place.size // 32 * 4

    def once() -> float:
        began = time.process_time_ns()
        loop(ctypes.c_void_p(place.ctypes.data), ctypes.c_long(lines))
        return lines * 64 / (time.process_time_ns() - began)

    return once


def narrowed(proto: onnx.ModelProto, kind: str) -> int:
    """Give the products' weights the type `kind`, and, where it is a float, everything else; return
    the products' weights.
    """
    graph, counted = proto.graph, 0
    tensors = {t.name: t for t in graph.initializer}
    turned = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Transpose"}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        name = node.input[1] if node.op_type == "MatMul" else ""
        name = turned.get(name, name)
        if name not in tensors:
            continue
        w = numpy_helper.to_array(tensors[name])
        counted += w.size
        if kind in ("int8", "int4"):
            w = w.T if node.input[1] in turned else w
            nodes[-1:] = quantised(graph, node, w, kind)
    del graph.node[:]
    graph.node.extend(nodes)
    for tensor in graph.initializer if kind in TYPES else ():
        if tensor.data_type == T.FLOAT:
            data = np.maximum(numpy_helper.to_array(tensor), np.float32(-6e4))
            made = data.astype(helper.tensor_dtype_to_np_dtype(TYPES[kind]))
            tensor.CopyFrom(numpy_helper.from_array(made, tensor.name))
    for info in (*graph.input, *graph.output) if kind in TYPES else ():
        if info.type.tensor_type.elem_type == T.FLOAT:
            info.type.tensor_type.elem_type = TYPES[kind]
    used = {name for node in graph.node for name in node.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return counted


def quantised(
    graph: onnx.GraphProto, node: onnx.NodeProto, w: np.ndarray, kind: str
) -> list[onnx.NodeProto]:
    """The nodes of a MatMul with weights `w` [K, N] of 8 bits by column or 4 bits by 32 rows."""
    (k, n), name = w.shape, node.output[0]

    def const(what: str, data: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(data, f"{name}_{what}"))
        return f"{name}_{what}"

    if kind == "int8":
        scale = np.abs(w).max(axis=0) / np.float32(127)
        data, zero = np.rint(w / scale).astype(np.int8), np.zeros(n, np.int8)
        inputs = [const("w", data), const("s", scale), const("z", zero)]
        wide = helper.make_node("DequantizeLinear", inputs, [f"{name}_wide"], axis=1)
        return [wide, helper.make_node("MatMul", [node.input[0], wide.output[0]], [name])]
    blocks = w.T.reshape(n, k // 32, 32)
    scale = np.abs(blocks).max(axis=2) / np.float32(7)
    codes = (np.rint(blocks / scale[..., None]) + 8).astype(np.uint8)
    inputs = [node.input[0], const("w", codes[..., ::2] | codes[..., 1::2] << 4)]
    inputs.append(const("s", scale.reshape(-1)))
    sizes = {"K": k, "N": n, "bits": 4, "block_size": 32}
    return [helper.make_node("MatMulNBits", inputs, [name], domain="com.microsoft", **sizes)]


def product() -> onnx.ModelProto:
    """One row times a matrix of 4096 x 24576 float32 weights."""
    w = np.random.default_rng(0).standard_normal((4096, 24576), np.float32) / np.float32(64)
    ends = [
        helper.make_tensor_value_info(name, T.FLOAT, [1, n])
        for name, n in zip("xy", w.shape, strict=True)
    ]
    node, weights = helper.make_node("MatMul", ["x", "w"], ["y"]), numpy_helper.from_array(w, "w")
    graph = helper.make_graph([node], "product", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def timed(
    proto: onnx.ModelProto, kind: str, out: Path, accuracy: str = "normal"
) -> tuple[Callable[[], float], float]:
    """(a function that times a run, in milliseconds; bytes of the products' weights)."""
    count = narrowed(proto, kind)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    step = any(i.name == "input_ids" for i in proto.graph.input)
    options = {"dims": {PAST: BEHIND, LENGTH: 1}} if step else {}
    bundle = aot.compile(proto, out, name="net", accuracy=accuracy, **options).build()
    built = open_out(bundle.out)

    def once() -> float:
        found = bench(built, RUNS)  # by the bundle's own program: calls from Python take time, too
        assert isinstance(found, Timing)
        return found.median / 1e6

    return once, count * BITS[kind] / 8


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(BITS), metavar="TYPE")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", choices=("product", "step"))
    parser.add_argument("--accuracy", default="normal", choices=("strict", "normal", "fast"))
    given = parser.parse_args()
    decoder = (LAYERS, HEADS, SIZE, WORDS, PLACES)
    models = {"product": product, "step": lambda: gpt2(*decoder)}
    with tempfile.TemporaryDirectory() as name:
        read = reader(Path(name))
        print("| | weights | MB | ms | GB/s | of bandwidth |\n|---|---|---|---|---|---|")
        for title in [given.only] if given.only else models:
            for kind in given.kinds:
                out = Path(name) / f"{title}_{kind}"
                run, size = timed(models[title](), kind, out, given.accuracy)
                run()
                pairs = [(run(), read()) for _ in range(given.rounds)]
                ms, part = median(a for a, _ in pairs), median(size / a / b for a, b in pairs)
                row = f"{size / 1e6:.0f} | {ms:.2f} | {size / ms / 1e6:.1f} | {part / 1e6:.0%}"
                print(f"| {title} | {kind} | {row} |", flush=True)


if __name__ == "__main__":
    main()
