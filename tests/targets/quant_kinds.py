# SPDX-License-Identifier: Apache-2.0
"""One layer of every operator that is computed between quantised values, and which of them still
call float.

    python tests/targets/quant_kinds.py [TYPE …]

compiles each alone for a Cortex-M3 and lists those whose library calls a floating-point routine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

from quant_graphs import Net, i64

Made = str | list[str]
IMAGE, ROW, VOLUME, TABLE, STEPS = (1, 6, 8, 8), (1, 6, 20), (1, 6, 4, 4, 4), (3, 20), (5, 1, 6)


class Layers(Net):
    """A network of layers, each between quantised values of one type, with an output of its own."""

    def __init__(self, dtype: type) -> None:
        super().__init__()
        self.dtype, self.made = dtype, 0
        ends = np.iinfo(dtype)
        self.middle = (int(ends.min) + int(ends.max) + 1) // 2
        self.step = 0.03 if ends.bits == 8 else 3e-4
        self.outputs_made: dict[str, type] = {}

    def x(self, shape: tuple[int, ...] = IMAGE, name: str = "x", factor: float = 1.0) -> str:
        """The numbers of an input of this shape, one for all layers that ask for it.

        Every layer has a scale of its own: none does what another does already.
        """
        own = f"{name}_{'_'.join(map(str, shape))}"
        self.inputs[own] = (np.dtype(self.dtype), shape)
        return str(
            self.dq(own, self.step * factor * (1 + self.made / 1000), self.dtype(self.middle + 3))
        )

    def b(self, shape: tuple[int, ...] = IMAGE) -> str:
        """Another input, with another scale."""
        return self.x(shape, "b", 1.7)

    def weights(self, *shape: int, axis: int = -1) -> str:
        """int8 weights with one scale, or one per channel of `axis`."""
        quantised = (np.arange(np.prod(shape)).reshape(shape) * 37 % 251 - 125).astype(np.int8)
        if axis < 0:
            return str(self.dq(quantised, 0.01, np.int8(0)))
        scales = np.linspace(0.005, 0.01, shape[axis], dtype=np.float32)
        return str(self.dq(quantised, scales, np.zeros(shape[axis], np.int8), axis=axis))

    def close(self, made: Made) -> None:
        """Quantised values of what a layer made, as outputs."""
        for k, value in enumerate([made] if isinstance(made, str) else made):
            name = f"y{self.made}_{k}"
            zero = self.dtype(self.middle + 5 + k)
            self.q(value, self.step * (5 + k), zero, out=name)
            self.outputs_made[name] = self.dtype
        self.made += 1


Layer = Callable[[Layers], Made]
COLUMN = np.linspace(0.2, 1.1, 6, dtype=np.float32).reshape(6, 1, 1)
CONDITION = np.arange(64).reshape(8, 8) % 3 == 0
SAME = {"pads": [1, 1, 1, 1]}
HALF = {"kernel_shape": [2, 2], "strides": [2, 2]}
KINDS: dict[str, Layer] = {
    "Conv": lambda n: n.add("Conv", n.x(), n.weights(6, 6, 3, 3, axis=0), **SAME),
    "Conv, bias, Relu": lambda n: n.add("Relu", biased(n)),
    "Conv, 1 axis": lambda n: n.add("Conv", n.x(ROW), n.weights(6, 6, 3, axis=0)),
    "Conv, 3 axes": lambda n: n.add("Conv", n.x(VOLUME), n.weights(6, 6, 2, 2, 2, axis=0)),
    "Conv, depthwise": lambda n: n.add("Conv", n.x(), n.weights(6, 1, 3, 3), group=6),
    "Conv, groups": lambda n: n.add("Conv", n.x(), n.weights(4, 3, 3, 3), group=2),
    "ConvTranspose": lambda n: n.add("ConvTranspose", n.x(), n.weights(6, 4, 3, 3, axis=1)),
    "ConvTranspose, 1 axis": lambda n: n.add("ConvTranspose", n.x(ROW), n.weights(6, 4, 3)),
    "ConvTranspose, groups": lambda n: n.add(
        "ConvTranspose", n.x(), n.weights(6, 2, 3, 3), group=3
    ),
    "Gemm": lambda n: n.add("Gemm", n.x(TABLE), n.weights(20, 6), COLUMN.ravel()),
    "MatMul": lambda n: n.add("MatMul", n.x(TABLE), n.weights(20, 6, axis=1)),
    "MatMul of two": lambda n: n.add("MatMul", n.x((2, 4, 20)), n.b((2, 20, 5))),
    "Div of both": lambda n: n.add("Relu", n.add("Div", n.x(), n.b())),
    "Max of three": lambda n: n.add("Max", n.b(), n.x(), np.float32(0.3)),
    "AveragePool": lambda n: n.add("AveragePool", n.x(), **HALF),
    "AveragePool, 1 axis": lambda n: n.add("AveragePool", n.x(ROW), kernel_shape=[3]),
    "AveragePool, 3 axes": lambda n: n.add("AveragePool", n.x(VOLUME), kernel_shape=[2, 2, 2]),
    "GlobalAveragePool": lambda n: n.add("GlobalAveragePool", n.x()),
    "MaxPool": lambda n: n.add("MaxPool", n.x(), kernel_shape=[3, 3], **SAME),
    "GlobalMaxPool": lambda n: n.add("GlobalMaxPool", n.x()),
    "Softmax": lambda n: n.add("Softmax", n.x(TABLE), axis=-1),
    "Softmax over channels": lambda n: n.add("Softmax", n.x(), axis=1),
    "LogSoftmax": lambda n: n.add("LogSoftmax", n.x(TABLE), axis=-1),
    "Clip": lambda n: n.add("Clip", n.x(), np.float32(-0.5), np.float32(0.5)),
    "PRelu": lambda n: n.add("PRelu", n.x(), COLUMN),
    "PRelu, slopes of quantised values": lambda n: n.add("PRelu", n.x(), n.weights(6, 1, 1)),
    "Swish of two operators": lambda n: gated(n, n.x()),
    "BatchNormalization": lambda n: n.add(
        "BatchNormalization", n.x(), *(COLUMN.ravel() * k for k in (1, 2, 3, 4))
    ),
    "Concat": lambda n: n.add("Concat", n.x(), n.b(), axis=1),
    "Split": lambda n: split(n),
    "Resize, nearest": lambda n: resized(n, "nearest"),
    "Resize, linear": lambda n: resized(n, "linear"),
    "Resize, cubic": lambda n: resized(n, "cubic"),
    "Pad": lambda n: padded(n, "constant"),
    "Pad, edge": lambda n: padded(n, "edge"),
    "Pad, reflect": lambda n: padded(n, "reflect"),
    "Pad, wrap": lambda n: padded(n, "wrap"),
    "Pad, a number": lambda n: padded(n, "constant", np.float32(0.1234)),
    "Where": lambda n: n.add("Where", CONDITION, n.x(), n.b()),
    "Where, a number": lambda n: n.add("Where", CONDITION, n.x(), np.float32(-0.3)),
    "Transpose": lambda n: n.add("Transpose", n.x(), perm=[0, 2, 3, 1]),
    "Reshape": lambda n: n.add("Reshape", n.x(), i64(1, -1)),
    "Slice": lambda n: n.add("Slice", n.x(), i64(1), i64(5), i64(1)),
    "Gather": lambda n: n.add("Gather", n.x(), i64(1, 0, 3), axis=1),
    "Expand": lambda n: n.add("Expand", n.x(), i64(2, 6, 8, 8)),
    "DepthToSpace": lambda n: n.add("DepthToSpace", n.x((1, 8, 4, 4)), blocksize=2),
    "SpaceToDepth": lambda n: n.add("SpaceToDepth", n.x(), blocksize=2),
    "ReduceMean, channels": lambda n: n.add("ReduceMean", n.x(), i64(1)),
    "LSTM": lambda n: recurrent(n, "LSTM", 4),
    "GRU": lambda n: recurrent(n, "GRU", 3),
    "RNN": lambda n: recurrent(n, "RNN", 1),
    "Conv, Swish": lambda n: gated(n, biased(n, 0.9)),
    "Conv, PRelu": lambda n: n.add("PRelu", biased(n, 0.8), COLUMN),
    "Conv in groups, Tanh": lambda n: n.add(
        "Tanh", n.add("Conv", n.x(), n.weights(4, 3, 3, 3), group=2)
    ),
    "LayerNormalization": lambda n: n.add("LayerNormalization", n.x(), *[COLUMN[0].ravel()] * 2),
    "InstanceNormalization": lambda n: n.add(
        "InstanceNormalization", n.x(), COLUMN.ravel(), COLUMN.ravel()
    ),
}


def _unary(name: str) -> Layer:
    return lambda n: n.add(name, n.x())


def _binary(name: str) -> dict[str, Layer]:
    return {
        name: lambda n: n.add(name, n.x(), n.b()),
        f"{name}, broadcast": lambda n: n.add(name, n.x(), n.b((1, 6, 1, 1))),
        f"{name}, a number": lambda n: n.add(name, n.x(), np.float32(0.37)),
        f"{name}, numbers": lambda n: n.add(name, n.x(), COLUMN),
        f"{name}, constant quantised values": lambda n: n.add(name, n.x(), n.weights(6, 1, 1)),
    }


for _name in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    KINDS |= _binary(_name)
for _name in (
    "Relu Sigmoid Tanh LeakyRelu HardSigmoid HardSwish Elu Selu Celu Gelu Softplus Softsign Mish"
    " ThresholdedRelu Exp Log Sqrt Erf Neg Abs Floor Round Sign Identity"
).split():
    KINDS[_name] = _unary(_name)
for _name in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"):
    KINDS[_name] = lambda n, name=_name: n.add(name, n.x(), i64(2, 3))  # type: ignore[misc]
ACTIVATIONS = ("Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Gelu")
for _name in ACTIVATIONS:
    KINDS[f"Conv, {_name}"] = lambda n, name=_name: n.add(name, biased(n))  # type: ignore[misc]

#: Computed in float32 (docs/quantised.md): of every type, and of 16-bit quantised values.
ALWAYS_FLOAT = {
    "LayerNormalization",
    "InstanceNormalization",
    "Conv, PRelu",
    "Conv in groups, Tanh",
}
WIDE_FLOAT = ALWAYS_FLOAT | {"Conv, Swish"} | {f"Conv, {k}" for k in ACTIVATIONS}


def biased(n: Layers, factor: float = 1.0) -> Made:
    bias = np.linspace(0.1, 0.7, 6, dtype=np.float32) * np.float32(factor)
    return str(n.add("Conv", n.x(), n.weights(6, 6, 3, 3, axis=0), bias, **SAME))


def gated(n: Layers, x: Made) -> Made:
    return str(n.add("Mul", x, n.add("Sigmoid", x)))


def split(n: Layers) -> Made:
    names = [f"half{n.made}_{k}" for k in range(2)]
    n.add("Split", n.x(), out=names, axis=1, num_outputs=2)
    return names


def resized(n: Layers, mode: str) -> Made:
    scales = np.array([1, 1, 2, 2], np.float32)
    return str(n.add("Resize", n.x(), "", scales, mode=mode))


def padded(n: Layers, mode: str, *value: Any) -> Made:
    return str(n.add("Pad", n.x(), i64(0, 0, 1, 1, 0, 0, 1, 1), *value, mode=mode))


def recurrent(n: Layers, kind: str, gates: int) -> Made:
    names = [f"state{n.made}", f"last{n.made}"]
    bias = np.linspace(-0.3, 0.3, 16 * gates, dtype=np.float32).reshape(1, -1)
    weights = [n.weights(1, 8 * gates, width, axis=1) for width in (6, 8)]
    n.add(kind, n.x(STEPS), *weights, bias, out=names, hidden_size=8)
    return names


def still_float(dtype: type) -> set[str]:
    """The kinds of layer that are computed in float32 between quantised values of this type."""
    return ALWAYS_FLOAT if np.dtype(dtype).itemsize == 1 else WIDE_FLOAT


def network(kinds: Iterable[str], dtype: type) -> onnx.ModelProto:
    """These layers side by side."""
    net = Layers(dtype)
    for kind in kinds:
        net.close(KINDS[kind](net))
    model: onnx.ModelProto = net.model(**net.outputs_made)
    return model


def kernels(model: onnx.ModelProto) -> set[str]:
    """The kernels that compute a model on a Cortex-M3."""
    from aot.options import Options
    from aot.pipeline import compile_model

    found = compile_model(model, Options(target="cortex-m3", name="net"))
    return {str(n["kernel"]) for n in found.manifest["nodes"]}


def main(names: list[str]) -> None:
    from targets.test_no_float import ROUTINE, called

    for name in names or ["int8", "uint8", "int16", "uint16"]:
        dtype = np.dtype(name).type
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                onnx.save(network([kind], dtype), f"{folder}/m.onnx")
                path = Path(folder)
                wanted = called(path / "m.onnx", "cortex-m3", "onnx", path / "out")
                if odd := sorted(n for n in wanted if ROUTINE.search(n)):
                    print(f"{name:7} {kind:28} {' '.join(odd)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
