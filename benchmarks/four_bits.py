# SPDX-License-Identifier: Apache-2.0
"""A product of int8 values and int4 weights on boards: instructions and bytes of weights.

    python benchmarks/four_bits.py [--target T …]

Compiles x [1, 256] times int4 weights [256, 256] as it is and with `--objective flash`, runs both
under QEMU and prints a row per board. Exits 1 if flash holds more than 4.3 bits of a weight.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402
from aot.tools.bench import Board, bench  # noqa: E402
from aot.tools.run import open_out  # noqa: E402

SIZE = 256
OBJECTIVES: tuple[Literal["latency", "flash"], ...] = ("latency", "flash")
TARGETS = ("cortex-m4", "cortex-m0", "rv32imac")


def product() -> ModelProto:
    """y = x * w in quantised values: x and y int8 [1, SIZE], w int4 [SIZE, SIZE]."""
    made, rng = helper.make_node, np.random.default_rng(0)
    kinds = {"x": (TensorProto.INT8, 0.05), "w": (TensorProto.INT4, 0.01)}
    numbers = rng.integers(-8, 8, SIZE * SIZE).tolist()
    tensors = [helper.make_tensor("w", TensorProto.INT4, [SIZE, SIZE], numbers)]
    for name, (kind, step) in kinds.items():
        tensors.append(helper.make_tensor(f"{name}z", kind, [], [0]))
        tensors.append(numpy_helper.from_array(np.float32(step), f"{name}s"))
    nodes = [made("DequantizeLinear", [n, f"{n}s", f"{n}z"], [f"{n}f"]) for n in kinds]
    nodes.append(made("MatMul", ["xf", "wf"], ["yf"]))
    nodes.append(made("QuantizeLinear", ["yf", "xs", "xz"], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, [1, SIZE]) for n in "xy"]
    graph = helper.make_graph(nodes, "four_bits", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append")
    good = True
    print("| target | objective | bits of a weight | instructions | per multiplication |")
    print("|---|---|---|---|---|")
    for target in parser.parse_args().target or TARGETS:
        for objective in OBJECTIVES:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "out"
                bundle = aot.compile(product(), out, target=target, objective=objective).build()
                found = bench(open_out(bundle.out))
                assert isinstance(found, Board)
                # Beside the weights are biases, and what the arithmetic is told.
                bits = 8 * bundle.manifest["memory"]["constants_bytes"] / SIZE**2
                good &= objective != "flash" or bits < 4.3
                count = found.instructions[-1]
                each = f"{count / SIZE**2:.2f}"
                print(f"| {target} | {objective} | {bits:.2f} | {count} | {each} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
