# SPDX-License-Identifier: Apache-2.0
"""Recurrent and audio networks against onnxruntime, one thread.

    AOT_TEST_MODELS=<folder> python benchmarks/recurrent.py [MODEL …]

`silero_vad_16k_flat` and `dtln_1` are of the models folder. With random weights there are two LSTM
of 512 units, a bidirectional one of 256 units whose weights have 8 bits (as onnxruntime quantises
it, with scales of each run), and a speech enhancer as GTCRN is one: convolutions along frequency
around two pairs of GRU, along frequency in both directions and along time. Rounds and ratios are
those of `host.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from host import find, measure
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from corpus_models import RealModel
from decoders import Graph

#: Frames, and bins of a frame.
FRAMES, BINS = 62, 129


def recurrent(g: Graph, op: str, x: str, size: int, units: int, both: bool = False) -> str:
    """The result [time, batch, directions * units] of an LSTM or GRU on x [time, batch, size]."""
    ways, gates = 1 + both, {"LSTM": 4, "GRU": 3}[op]
    parts = [g.weight(ways, gates * units, n) for n in (size, units)]
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    way = "bidirectional" if both else "forward"
    bias = g.weight(ways, 2 * gates * units)
    y = g(op, x, *parts, bias, hidden_size=units, direction=way, **more)
    return g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.const([0, 0, ways * units]))


def stacked(g: Graph) -> tuple[str, list[int]]:
    """Two LSTM of 512 units."""
    x = recurrent(g, "LSTM", "x", 512, 512)
    return recurrent(g, "LSTM", x, 512, 512), [FRAMES, 1, 512]


def bidirectional(g: Graph) -> tuple[str, list[int]]:
    """An LSTM of 256 units in both directions and a product behind it."""
    x = recurrent(g, "LSTM", "x", 128, 256, both=True)
    return g("MatMul", x, g.weight(512, 128)), [FRAMES, 1, 128]


def enhancer(g: Graph) -> tuple[str, list[int]]:
    """Convolutions along frequency around two pairs of GRU, from and to [1, 3, time, bins]."""
    wide, bins = 16, (BINS + 3) // 4
    kernel = {"kernel_shape": [1, 5], "pads": [0, 2, 0, 2], "strides": [1, 2]}
    x = g("Relu", g("Conv", "x", g.weight(wide, 3, 1, 5), g.weight(wide), **kernel))
    x = g("Relu", g("Conv", x, g.weight(wide, wide, 1, 5), g.weight(wide), **kernel))
    for _ in range(2):
        rows = g("Reshape", g("Transpose", x, perm=[3, 0, 2, 1]), g.const([bins, FRAMES, wide]))
        y = g.linear(recurrent(g, "GRU", rows, wide, 8, both=True), wide, wide)
        rows = g("Transpose", g("Add", rows, g.norm(y, wide)), perm=[1, 0, 2])
        y = g.linear(recurrent(g, "GRU", rows, wide, wide), wide, wide)
        rows = g("Unsqueeze", g("Add", rows, g.norm(y, wide)), g.const([0]))
        x = g("Transpose", rows, perm=[0, 3, 1, 2])
    x = g("Relu", g("ConvTranspose", x, g.weight(wide, wide, 1, 5), g.weight(wide), **kernel))
    return g("ConvTranspose", x, g.weight(wide, 2, 1, 5), g.weight(2), **kernel), [
        *(1, 3, FRAMES, BINS)
    ]


MADE = {"lstm_2x512": stacked, "bilstm_256_int8": bidirectional, "gtcrn_like": enhancer}
MODELS = ("silero_vad_16k_flat", "dtln_1", *MADE)


def model(name: str, work: Path) -> RealModel:
    """A network of MADE, written to `work`, or of `host.find`."""
    if name not in MADE:
        return find(name, work)
    g, path = Graph(0), work / f"{name}.onnx"
    result, shape = MADE[name](g)
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", shape), (result, None))
    ]
    graph = helper.make_graph(g.nodes, name, ends[:1], ends[1:], g.weights)
    opset = helper.make_opsetid("", 17)
    made = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[opset], ir_version=8)
    )
    onnx.save(made, path)
    if name.endswith("int8"):
        quantize_dynamic(str(path), str(path), weight_type=QuantType.QInt8)
    return RealModel(name, path, None, {})


def main() -> None:
    """Print the table."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=7)
    a = p.parse_args()
    print(
        "| model | ours ms | onnxruntime ms | onnxruntime / ours | range |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        work, ratios = Path(folder), list[float]()
        for name in a.models:
            r = measure(model(name, work), work, a.rounds, [])
            ratios.append(r.ratio)
            numbers = (
                f"{r.ours_ms:.3f} | {r.ort_ms:.3f} | {r.ratio:.2f} | {r.low:.2f} … {r.high:.2f}"
            )
            print(f"| {name} | {numbers} |", flush=True)
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"\ngeometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
