# SPDX-License-Identifier: Apache-2.0
"""Integer networks with activations of 16 bits beside the same with 8 bits, on microcontrollers
under QEMU: instructions.

    AOT_TEST_MODELS=<folder> [AOT_CMSIS_NN_ROOT=<folder>] \
        python benchmarks/int16.py [--target T …] [--layers] [MODEL …]

Each MLPerf Tiny network in int8 and with int16 activations and int8 weights (16x8, as TensorFlow
Lite calls it), `--requant tflite`. The second is made of the first: every activation keeps the
range that its int8 quantised values have, symmetric around zero in 65535 steps, weights stay as
they are, and biases are the same real numbers in the new units. With AOT_CMSIS_NN_ROOT `--layers`
counts the library's own function for every convolution and product, too, on operands of the same
sizes (cmsis_nn_s16.c). Exits 1 if a 16x8 network takes
over 1.9 times the instructions of the int8 one on Cortex-M4.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from boards import tables
from onnx import numpy_helper

import aot
from aot.target import load_target
from aot.tools.bench import Board, bench, bench_nodes
from aot.tools.run import Built, open_out

HERE = Path(__file__).resolve().parent
#: Files of the library for floats.
FLOATS = re.compile("_(f16|f32|flt)[.]c$")
#: Calls that are a convolution or a product.
PRODUCT = re.compile("aot_q(conv|dwconv|fc)_")
NETWORKS = ("ad", "kws", "ic", "vww", "sww")
TARGETS = ("cortex-m4", "cortex-m33", "cortex-m55")
MOST = {"cortex-m4": 1.9}


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The int8 network with int16 activations; weights and their scales are those of `model`."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    added: dict[str, np.ndarray] = {}

    def widen(node: onnx.NodeProto) -> None:
        """Give the node the scale and zero point of 16 bits for the same range."""
        scale, zero = constants[node.input[1]], constants[node.input[2]]
        reach = max(127 - int(zero), int(zero) + 128)
        step, name = np.float32(float(scale) * reach / 32767), f"{node.input[1]}_16_{reach}"
        added[name], added["zero_16"] = np.asarray(step), np.asarray(0, np.int16)
        node.input[1], node.input[2] = name, "zero_16"

    for node in graph.node:
        zero = constants[node.input[2]] if node.op_type.endswith("uantizeLinear") else None
        weight = node.op_type == "DequantizeLinear" and node.input[0] in constants
        if zero is not None and zero.dtype == np.int8 and not weight:
            widen(node)
    _biases(graph, {**constants, **added}, added)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        kind = value.type.tensor_type
        if kind.elem_type == onnx.TensorProto.INT8:
            kind.elem_type = onnx.TensorProto.INT16
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in added.items())
    wide.opset_import[0].version = 21  # QuantizeLinear of 16 bits
    return wide


def _biases(
    graph: onnx.GraphProto, constants: dict[str, np.ndarray], added: dict[str, np.ndarray]
) -> None:
    """Biases in units of the product of the new scale of x and that of the weights."""
    made = {n.output[0]: n for n in graph.node}
    readers = {i: n for n in graph.node for i in n.input}
    for product in graph.node:
        if product.op_type not in ("Conv", "MatMul"):
            continue
        after = readers.get(product.output[0])
        holder = product if product.op_type == "Conv" else after
        names = holder.input[2:] if product.op_type == "Conv" else holder.input
        sources = [made[n] for n in names if n in made]
        bias = next((n for n in sources if _holds_int32(n, constants)), None)
        source = made.get(product.input[0])
        while source is not None and source.op_type in ("Reshape", "Transpose"):
            source = made.get(source.input[0])
        if bias is None or source is None:
            continue
        unit = constants[source.input[1]] * constants[made[product.input[1]].input[1]]
        real = constants[bias.input[0]].astype(np.float64) * constants[bias.input[1]]
        name = f"{bias.input[0]}_16"
        added[name] = np.rint(real / unit.astype(np.float64)).astype(np.int32)
        added[f"{name}_scale"] = unit.astype(np.float32)
        bias.input[0], bias.input[1] = name, f"{name}_scale"


def _holds_int32(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> bool:
    """Whether the node dequantises constant int32 values: a bias."""
    held = constants.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
    return held is not None and held.dtype == np.int32


def geometry(model: Path) -> list[tuple[int, ...]]:
    """The convolutions and products as rows of `layer` in cmsis_nn_s16.c."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(model)).graph
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in [*graph.value_info, *graph.input, *graph.output]
    }
    weights = {i.name: list(i.dims) for i in graph.initializer}
    held = {n.output[0]: weights.get(n.input[0]) for n in graph.node}
    rows = []
    for node in graph.node:
        w = held.get(node.input[1]) if node.op_type in ("Conv", "MatMul") else None
        if w is None:
            continue
        if node.op_type == "MatMul":
            rows.append((2, w[0], 1, 1, w[1], *(1,) * 6, 0, 0))
            continue
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        x, y = shapes[node.input[0]], shapes[node.output[0]]
        deep = int(attrs.get("group", 1) > 1)
        moves = *attrs.get("strides", (1, 1)), *attrs.get("pads", (0, 0, 0, 0))[:2]
        rows.append((deep, *x[1:], *y[1:], *w[2:], *moves))
    return rows


def by_library(model: Path, built: Built, root: Path) -> list[float]:
    """Instructions of CMSIS-NN for every convolution and product of a model, in its order."""
    target, board = load_target(str(built.target["name"])), built.out / "bundle" / "board"
    sources = [p for p in root.glob("Source/**/*.c") if not FLOATS.search(p.name)]
    with tempfile.TemporaryDirectory(prefix="int16-") as folder:
        table = "".join("{" + ", ".join(map(str, row)) + "},\n" for row in geometry(model))
        (Path(folder) / "layers.h").write_text(table)
        image = Path(folder) / "layers.elf"
        words: list[Any] = [target.compiler, *target.cflags, *target.ldflags, "-O2", "-w"]
        words += [f"-I{p}" for p in (root / "Include", board, folder)]
        words += ["-ffunction-sections", "-Wl,--gc-sections", "-nostartfiles"]
        words += ["-fno-tree-loop-distribute-patterns"]  # memset of the start-up code
        words += [f"-T{board / 'link.ld'}", HERE / "cmsis_nn_s16.c"]
        words += [board / "startup.c", board / "semihost.c", *sources]
        subprocess.run([*words, "-o", image], check=True)
        emulator = [*target.emulator, "-icount", "shift=0", "-nographic", "-monitor", "none"]
        emulator += ["-serial", "none", "-semihosting-config", "enable=on,target=native"]
        done = subprocess.run(
            [*emulator, "-kernel", image], capture_output=True, text=True, check=False, timeout=60
        )
    if done.returncode != 0:
        raise RuntimeError(f"CMSIS-NN's layers: {done.stdout}{done.stderr}")
    hz = target.tick_hz or 1_000_000_000
    return [int(n) * 1e9 / hz for n in (done.stdout + done.stderr).split()]


def table_of_layers(model: Path, built: Built, root: Path | None) -> Iterator[str]:
    """A line per call, and what the library takes for a convolution or product."""
    theirs = iter(by_library(model, built, root) if root else ())
    for cost in bench_nodes(built, 1):
        known = PRODUCT.match(cost.kernel) and next(theirs, None)
        beside = f"{known:12.0f}  {known / cost.amount:.2f}" if known else ""
        yield f"    {cost.amount:12.0f}  {cost.kernel:20} {beside}"


def measure(model: Path, target: str, root: Path | None, layers: bool) -> tuple[int, int]:
    """(instructions of one run, its multiplications)."""
    with tempfile.TemporaryDirectory(prefix="int16-") as folder:
        bundle = aot.compile(model, folder, target=target, requant="tflite").build()
        built = open_out(bundle.out)
        board = bench(built, 1)
        assert isinstance(board, Board)
        for line in table_of_layers(model, built, root) if layers else ():
            print(line)
        return board.instructions[-1], sum(n["macs"] for n in bundle.manifest["nodes"])


def widened_file(name: str, folder: Path, made: str) -> Path:
    """The file in the folder `made` of the 16x8 network made of the int8 one in `folder`."""
    path = Path(made) / f"{name}_16x8.onnx"
    onnx.save(widened(onnx.load(folder / f"mlperf_{name}_int8.onnx")), path)
    return path


def network(name: str, folder: Path, target: str, layers: bool) -> bool:
    """Print a line of the table; whether the bound is kept."""
    named = os.environ.get("AOT_CMSIS_NN_ROOT")
    root = Path(named) if named else None
    with tempfile.TemporaryDirectory(prefix="int16-") as made:
        eight, macs = measure(folder / f"mlperf_{name}_int8.onnx", target, None, layers)
        sixteen, _ = measure(widened_file(name, folder, made), target, root, layers)
    ratio, most = sixteen / eight, MOST.get(target)
    good = most is None or ratio <= most
    cells = f"{eight / 1e6:.3f} | {eight / macs:.2f} | {sixteen / 1e6:.3f} | {sixteen / macs:.2f}"
    print(f"| {name} | {cells} | {ratio:.2f}{'' if good else ' (!)'} |", flush=True)
    return good


HEAD = """\
| network | int8: M instructions | per multiplication | 16x8: M instructions | per multiplication \
| ratio |
|-|-|-|-|-|-|"""

if __name__ == "__main__":
    sys.exit(tables(__doc__, NETWORKS, TARGETS, HEAD, network))
