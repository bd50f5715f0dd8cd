# SPDX-License-Identifier: Apache-2.0
"""Quantise digits.onnx to digits_int8.onnx: 8-bit integers from the pixels to the probabilities.

    python examples/digits/quantise.py      # needs scikit-learn and onnxruntime

onnxruntime.quantization does the work (per channel, calibrated on training images). Then the float
ends come off: the input takes the pixels 0..16 as they are, the output gives int8 probabilities,
whose scale and zero point are in the model. The accuracy goes into the model's metadata.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from train import load_digits

HERE = Path(__file__).parent
#: Images that the ranges of activations are taken from.
CALIBRATION = 200
#: The float network reads pixels / 16.
PIXEL = np.float32(1 / 16)


def calibrated(images: np.ndarray[Any, Any], target: Path) -> None:
    """Write the model as onnxruntime quantises it, float ends included."""
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        """One image at a time."""

        def __init__(self) -> None:
            self.left: Iterator[dict[str, Any]] = iter(
                {"image": i[None].astype(np.float32)} for i in images
            )

        def get_next(self) -> dict[str, Any] | None:
            """The next image, None at the end."""
            return next(self.left, None)

    q.quantize_static(
        HERE / "digits.onnx",
        target,
        Reader(),
        quant_format=q.QuantFormat.QDQ,
        per_channel=True,
        activation_type=q.QuantType.QInt8,
        weight_type=q.QuantType.QInt8,
        extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
    )


def integer_ends(model: onnx.ModelProto) -> onnx.ModelProto:
    """Take the first QuantizeLinear and the last DequantizeLinear away.

    Pixels become the input's quantised values, exactly: the scale is 1/16 and the zero point 0.
    """
    graph = model.graph
    first = next(n for n in graph.node if n.input[0] == "image")
    last = next(n for n in graph.node if n.output[0] == "probabilities")
    assert (first.op_type, last.op_type) == ("QuantizeLinear", "DequantizeLinear")
    for node in graph.node:
        if node.input and node.input[0] == first.output[0]:
            node.input[0] = "image"
            node.input[1], node.input[2] = "pixel_scale", "pixel_zero"
    rescale_bias(graph)
    made = next(n for n in graph.node if n.output[0] == last.input[0])
    made.output[0] = "probabilities"
    graph.node.remove(first)
    graph.node.remove(last)
    graph.initializer.append(numpy_helper.from_array(np.array(PIXEL), "pixel_scale"))
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), "pixel_zero"))
    used = {i for n in graph.node for i in n.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:], graph.value_info[:], graph.input[:], graph.output[:]
    graph.initializer.extend(sorted(kept, key=lambda t: t.name))
    graph.input.append(helper.make_tensor_value_info("image", TensorProto.INT8, [1, 1, 8, 8]))
    graph.output.append(helper.make_tensor_value_info("probabilities", TensorProto.INT8, [1, 10]))
    onnx.checker.check_model(model, full_check=True)
    return model


def rescale_bias(graph: onnx.GraphProto) -> None:
    """The first convolution's bias in steps of the new input scale times the weights' scales."""
    tensors = {t.name: t for t in graph.initializer}
    made = {n.output[0]: n for n in graph.node}
    convs = (n for n in graph.node if n.op_type == "Conv")
    conv = next(n for n in convs if made[n.input[0]].input[0] == "image")
    weights, bias = made[conv.input[1]], made[conv.input[2]]
    steps = PIXEL * numpy_helper.to_array(tensors[weights.input[1]])
    quantised, old = (numpy_helper.to_array(tensors[n]) for n in bias.input[:2])
    fresh = np.rint(quantised * old.astype(np.float64) / steps).astype(np.int32)
    for name, value in ((bias.input[0], fresh), (bias.input[1], steps)):
        tensors[name].CopyFrom(numpy_helper.from_array(value, name))


def correct(model: onnx.ModelProto, images: np.ndarray[Any, Any], labels: Any) -> int:
    """How many images onnxruntime reads correctly with the model."""
    import onnxruntime as ort

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    quantised = np.rint(images * 16).astype(np.int8)
    guesses = [session.run(None, {"image": c[None]})[0].argmax() for c in quantised]
    return int((np.array(guesses) == labels).sum())


def main() -> None:
    """Quantise, count, write."""
    x, _, test_x, test_y = load_digits()
    with tempfile.TemporaryDirectory() as folder:
        calibrated(x[:CALIBRATION], Path(folder) / "q.onnx")
        model = integer_ends(onnx.load(Path(folder) / "q.onnx"))
    right = correct(model, test_x, test_y)
    print(f"accuracy: {right / len(test_y):.2%} ({right} of {len(test_y)} held-out images)")
    del model.metadata_props[:]
    notes = {"correct": str(right), "held_out": str(len(test_y)), "from": "digits.onnx"}
    helper.set_model_props(model, notes)
    (HERE / "digits_int8.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
