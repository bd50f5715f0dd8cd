# SPDX-License-Identifier: Apache-2.0
"""Layers of int8 values with int4 weights on boards: instructions and bytes of weights.

    python benchmarks/four_bits.py [--target T …]

Compiles x [1, 256] times int4 weights [256, 256] as it is and with `--objective flash`, and a
depthwise 3x3 convolution of 64 channels, whose few weights stay in bytes, with int4 and with int8
weights; runs them under QEMU and prints a row for each. Exits 1 if flash holds more than 4.3 bits
of a weight of the product (but on Helium, whose order of weights is not cut into blocks), or int4
weights of the convolution take more instructions than int8 ones.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402
from aot.tools.bench import Board, bench  # noqa: E402
from aot.tools.run import open_out  # noqa: E402

#: Instructions of a run, and bytes of the constants.
Counts = tuple[int, int]
SIZE = 256
OBJECTIVES: tuple[Literal["latency", "flash"], ...] = ("latency", "flash")
TARGETS = ("cortex-m4", "cortex-m55", "cortex-m0", "rv32imac")
#: Targets with Helium.
HELIUM = ("cortex-m52", "cortex-m55", "cortex-m85")
#: Of the convolution: channels, rows and columns.
IMAGE = (64, 10, 5)


def layer(op: str, kind: int, w: list[int], x: list[int], **attrs: Any) -> ModelProto:
    """y = op(x, w) in quantised values: x and y int8 of the shape `x`, weights of `kind`."""
    made, rng = helper.make_node, np.random.default_rng(0)
    kinds = {"x": (TensorProto.INT8, 0.05), "w": (kind, 0.01)}
    numbers = rng.integers(-8, 8, math.prod(w)).tolist()
    tensors = [helper.make_tensor("w", kind, w, numbers)]
    for name, (of, step) in kinds.items():
        tensors.append(helper.make_tensor(f"{name}z", of, [], [0]))
        tensors.append(numpy_helper.from_array(np.float32(step), f"{name}s"))
    nodes = [made("DequantizeLinear", [n, f"{n}s", f"{n}z"], [f"{n}f"]) for n in kinds]
    nodes.append(made(op, ["xf", "wf"], ["yf"], **attrs))
    nodes.append(made("QuantizeLinear", ["yf", "xs", "xz"], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, x) for n in "xy"]
    graph = helper.make_graph(nodes, "four_bits", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def depthwise(kind: int) -> ModelProto:
    """A filter of 3x3 weights for each channel of an image."""
    channels = IMAGE[0]
    w, x = [channels, 1, 3, 3], [1, *IMAGE]
    return layer("Conv", kind, w, x, group=channels, pads=[1] * 4, kernel_shape=[3, 3])


def measured(model: ModelProto, target: str, objective: Literal["latency", "flash"]) -> Counts:
    """Instructions of a run, and bytes of the constants."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = aot.compile(model, Path(folder) / "out", target=target, objective=objective)
        found = bench(open_out(bundle.build().out))
        assert isinstance(found, Board)
        return found.instructions[-1], bundle.manifest["memory"]["constants_bytes"]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append")
    targets, good = parser.parse_args().target or TARGETS, True
    print("| target | objective | bits of a weight | instructions | per multiplication |")
    print("|---|---|---|---|---|")
    product = layer("MatMul", TensorProto.INT4, [SIZE, SIZE], [1, SIZE])
    for target in targets:
        for objective in OBJECTIVES:
            count, nbytes = measured(product, target, objective)
            # Beside the weights are biases, and what the arithmetic is told.
            bits = 8 * nbytes / SIZE**2
            good &= objective != "flash" or bits < 4.3 or target in HELIUM
            print(f"| {target} | {objective} | {bits:.2f} | {count} | {count / SIZE**2:.2f} |")
    print("\n| target | depthwise, int8 weights | int4 weights |\n|---|---|---|", flush=True)
    for target in targets:
        kinds = (TensorProto.INT8, TensorProto.INT4)
        eight, four = (measured(depthwise(kind), target, "latency")[0] for kind in kinds)
        good &= four <= eight
        print(f"| {target} | {eight} | {four} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
