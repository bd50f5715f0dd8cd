# SPDX-License-Identifier: Apache-2.0
"""Networks of the int8 table, in float32 and in every spelling of 8-bit quantisation.

`resnet50`, `mobilenetv2` and `ssd_mobilenetv2` are architectures of the models folder with seeded
weights, `resnet8` is its `mlperf_ic_f32`, and the U-Nets are built here. Encoders are those of
tests/encoders.py, in integers with scales of the calibration or, *dynamic*, of each run.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import encoders

U8, S8 = QuantType.QUInt8, QuantType.QInt8
NETWORKS = ("resnet50", "mobilenetv2", "resnet8", "ssd_mobilenetv2", "unet", "unet_resize")


@dataclass(frozen=True)
class Spelling:
    """How onnxruntime writes a quantised network down; uint8 weights have any zero point."""

    form: QuantFormat
    activations: QuantType
    weights: QuantType
    per_channel: bool


SPELLINGS = {
    "u8s8": Spelling(QuantFormat.QDQ, U8, S8, True),
    "s8s8": Spelling(QuantFormat.QDQ, S8, S8, True),
    "u8s8 per tensor": Spelling(QuantFormat.QDQ, U8, S8, False),
    "u8u8 per tensor": Spelling(QuantFormat.QDQ, U8, U8, False),
    "QOperator u8s8": Spelling(QuantFormat.QOperator, U8, S8, True),
    "QOperator u8u8": Spelling(QuantFormat.QOperator, U8, U8, False),
}
DYNAMIC = "dynamic"


def spellings_of(name: str) -> list[str]:
    """The spellings that the table has of a network."""
    return ["u8s8", "s8s8", DYNAMIC] if name in encoders.SIZES else list(SPELLINGS)


class Builder:
    """A graph of convolutions with seeded weights; every method returns the name of its result."""

    def __init__(self) -> None:
        """Start an empty graph."""
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        """A node of one result."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        """A constant of the graph."""
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, ic: int, oc: int, size: int = 3, relu: bool = True) -> str:
        """A "same" convolution of `ic` channels to `oc`, with a Relu or without."""
        limit = np.sqrt(6 / (ic * size * size))
        w = self.constant(self.rng.uniform(-limit, limit, (oc, ic, size, size)).astype(np.float32))
        bias = self.constant(self.rng.uniform(-0.1, 0.1, oc).astype(np.float32))
        y = self.add("Conv", [x, w, bias], pads=[size // 2] * 4, kernel_shape=[size, size])
        return self.add("Relu", [y]) if relu else y

    def up(self, x: str, ic: int, oc: int, resize: bool) -> str:
        """`x` with twice the height and width and `oc` channels."""
        if resize:
            scales = self.constant(np.array([1, 1, 2, 2], np.float32))
            modes = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
            return self.conv(self.add("Resize", [x, "", scales], **modes), ic, oc)
        limit = np.sqrt(3 / ic)
        w = self.constant(self.rng.uniform(-limit, limit, (ic, oc, 2, 2)).astype(np.float32))
        bias = self.constant(self.rng.uniform(-0.1, 0.1, oc).astype(np.float32))
        return self.add("ConvTranspose", [x, w, bias], strides=[2, 2], kernel_shape=[2, 2])


def unet(path: Path, resize: bool, size: int = 128, base: int = 32) -> None:
    """Write a U-Net of four levels (31 MB of weights) that enlarges by ConvTranspose or Resize."""
    b, x, ic, skips = Builder(), "x", 3, []
    for level in range(4):
        oc = base << level
        x = b.conv(b.conv(x, ic, oc), oc, oc)
        skips.append((x, oc))
        x, ic = b.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), oc
    x, ic = b.conv(b.conv(x, ic, 2 * ic), 2 * ic, 2 * ic), 2 * ic
    for skip, oc in reversed(skips):
        x = b.add("Concat", [skip, b.up(x, ic, oc, resize)], axis=1)
        x, ic = b.conv(b.conv(x, 2 * oc, oc), oc, oc), oc
    y = b.conv(x, ic, 2, 1, relu=False)
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, size, size])
        for n, c in (("x", 3), (y, 2))
    ]
    graph = helper.make_graph(b.nodes, path.stem, ends[:1], ends[1:], b.constants)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def float_model(name: str, folder: Path, work: Path) -> Path:
    """The network in float32 with BatchNormalization folded into its convolutions."""
    raw, path = work / f"{name}_raw.onnx", work / f"{name}.onnx"
    if path.exists():
        return path
    if name in encoders.SIZES:
        onnx.save(encoders.encoder(name), raw)
    elif name.startswith("unet"):
        unet(raw, name == "unet_resize")
    elif name == "resnet8":
        raw = folder / "mlperf_ic_f32.onnx"
    else:
        words = [name, "--fold-bn", "--ssd-post", "raw", "-o", str(work / "made")]
        command = [sys.executable, str(folder / "make_seed_models.py"), *words]
        subprocess.run(command, check=True, capture_output=True)
        raw = work / "made" / raw.name.replace("_raw", "")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    ort.InferenceSession(str(raw), options, providers=["CPUExecutionProvider"])
    return path


def sample(name: str, kind: int, shape: list[int], seed: int) -> np.ndarray:
    """A seeded image, a coarse pattern of large areas and some noise; of int64 tokens or a mask."""
    rng = np.random.default_rng(seed)
    if kind == TensorProto.INT64:
        return np.ones(shape, np.int64) if "mask" in name else rng.integers(0, 30522, shape)
    coarse = rng.normal(size=(*shape[:-2], 8, 8))
    rows, columns = (np.arange(n) * 8 // n for n in shape[-2:])
    fine = coarse[..., rows[:, None], columns[None, :]] + 0.2 * rng.normal(size=shape)
    return fine.astype(np.float32)


def inputs_of(path: Path, seed: int) -> dict[str, np.ndarray]:
    """Seeded images or tokens for every input of a model of float32."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    shapes = {
        v.name: (v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in graph.input
        if v.name not in constants
    }
    return {name: sample(name, *of, seed) for name, of in shapes.items()}


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Four seeded images."""

    def __init__(self, path: Path) -> None:
        """Prepare images for the inputs of the model at `path`."""
        self.feeds: Iterator[dict[str, np.ndarray]] = iter(
            [inputs_of(path, 1000 + i) for i in range(4)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next image; None behind the last."""
        return next(self.feeds, None)


def quantised(path: Path, spelling: str) -> Path:
    """The network of `path`, quantised by onnxruntime in a spelling of SPELLINGS or DYNAMIC."""
    made = path.with_name(f"{path.stem}_{spelling.replace(' ', '_')}.onnx")
    if not made.exists():
        logging.getLogger().setLevel(logging.ERROR)  # it asks for preprocessing that was done
        if spelling == DYNAMIC:
            quantize_dynamic(str(path), str(made), weight_type=S8, per_channel=True)
            return made
        s = SPELLINGS[spelling]
        quantize_static(
            str(path),
            str(made),
            Calibration(path),
            quant_format=s.form,
            per_channel=s.per_channel,
            activation_type=s.activations,
            weight_type=s.weights,
            extra_options={"ActivationSymmetric": False, "WeightSymmetric": s.weights is S8},
        )
    return made
