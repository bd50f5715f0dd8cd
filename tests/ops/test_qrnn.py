# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of quantised values on integers against onnxruntime in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from needs import need_module
from quant_graphs import S8, S32, Net, in_onnxruntime, scales

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, FEATURES, STEPS = 64, 10, 49
LINEAR = {"linear_before_reset": 1}
#: kind, attributes, which result, per channel, quantised values' type of x
FORMS = (
    ("LSTM", {}, 0, True, S8),
    ("LSTM", {"direction": "bidirectional"}, 1, False, S8),
    ("GRU", LINEAR, 0, True, S8),
    ("GRU", {"direction": "reverse"}, 0, False, S8),
    ("RNN", {}, 1, True, np.uint8),
)


def layer(
    kind: str,
    attributes: dict[str, Any],
    result: int = 0,
    per_channel: bool = True,
    dtype: Any = S8,
    reach: float = 1.0,
    steps: int = STEPS,
    batch: int = 1,
) -> onnx.ModelProto:
    """Q(layer(DQ x, DQ W, DQ R, DQ b)); the weights are uniform up to `reach` / sqrt(hidden)."""
    rng = np.random.default_rng(3)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    first = (batch, steps) if attributes.get("layout") else (steps, batch)
    net = Net(x=(dtype, (*first, FEATURES)))
    operands = [net.dq("x", 0.02, dtype(-9 if dtype is S8 else 119))]
    for depth in (FEATURES, HIDDEN):
        quantised = rng.integers(-127, 128, (directions, rows, depth)).astype(S8)
        step = reach / np.sqrt(HIDDEN) / 127
        scale = scales(*rng.uniform(step / 2, step, rows)) if per_channel else scales(step)
        operands.append(net.dq(quantised, scale, np.zeros(scale.shape, S8), axis=1))
    bias = rng.integers(-3000, 3000, (directions, 2 * rows)).astype(S32)
    operands.append(net.dq(bias, 1e-4, S32(0)))
    names = ["a", "h"][: result + 1]
    outputs = ["", "h"] if result else ["a"]
    net.add(kind, *operands, out=outputs, hidden_size=HIDDEN, **attributes)
    net.q(names[-1], 2 / 255, S8(0), out="y")
    return net.model(y=S8)


def both(model: onnx.ModelProto, x: np.ndarray, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Quantised values of the compiled model and of onnxruntime without optimisation."""
    ort = need_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    onnx.save(model, folder / "m.onnx")
    bundle = aot.compile(folder / "m.onnx", folder / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert "aot_qrnn_s8" in kernels and not any("_f32" in k for k in kernels), kernels
    run = bundle.load()
    pairs = [(np.asarray(run(one)), session.run(None, {"x": one})[0]) for one in x]
    got, want = zip(*pairs, strict=True)
    return np.stack(got).astype(int), np.stack(want).astype(int)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f[0]}-{'-'.join(map(str, f[1].values()))}")
def test_quantised_values_are_those_of_onnxruntime(form: tuple[Any, ...], tmp_path: Path) -> None:
    dtype = form[-1]
    info = np.iinfo(dtype)
    count = 4 if form[2] == 0 else 200
    x = np.random.default_rng(1).integers(info.min, info.max + 1, (count, STEPS, 1, FEATURES))
    got, want = both(layer(*form), x.astype(dtype), tmp_path)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.001
    assert np.unique(got).size > 60


def test_saturated_gates_and_growing_cells(tmp_path: Path) -> None:
    """Weights ten times as large: gates are at their ends, cells grow to tens."""
    x = np.full((1, 200, 1, FEATURES), 127)
    x[0, 100:] = np.random.default_rng(1).integers(-128, 128, (100, 1, FEATURES))
    got, want = both(layer("LSTM", {}, reach=10.0, steps=200), x.astype(S8), tmp_path)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.002


@pytest.mark.parametrize("result", [0, 1])
def test_batch_first_is_the_transposed_layer(result: int, tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(-128, 128, (5, 3, FEATURES)).astype(S8)
    found = []
    for layout in (0, 1):
        path = tmp_path / f"layout{layout}.onnx"
        attributes = {"direction": "bidirectional", "layout": layout}
        onnx.save(layer("GRU", attributes, result, steps=5, batch=3), path)
        bundle = aot.compile(path, tmp_path / path.stem)
        assert "aot_qrnn_s8" in {n["kernel"] for n in bundle.manifest["nodes"]}
        found.append(np.asarray(bundle.load()(x.swapaxes(0, 1).copy() if layout else x)))
    transposed = found[0].swapaxes(0, 1) if result else found[0].transpose(2, 0, 1, 3)
    np.testing.assert_array_equal(found[1], transposed)


@pytest.mark.parametrize("attributes", [{"clip": 3.0}, {"activations": ["Relu", "Tanh"]}])
def test_what_integers_do_not_compute_stays_float(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    onnx.save(layer("GRU", attributes), tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert kernels.count("aot_gru_f32") == 1
    # The weights are numbers again: only the quantised values of x are converted at run time.
    assert kernels.count("aot_dequantize") + kernels.count("aot_dequantize_f32") <= 1, kernels


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_states_and_the_last_of_them(direction: str, layout: int, tmp_path: Path) -> None:
    """Both results, quantised alike: one layer of integers, the last states are cut from it."""
    model = layer("GRU", {"direction": direction, "layout": layout, **LINEAR}, batch=2)
    rnn = next(n for n in model.graph.node if n.op_type == "GRU")
    rnn.output.append("h")
    names = [n.input[1:] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    last = onnx.helper.make_node("QuantizeLinear", ["h", *names[0]], ["last"])
    model.graph.node.append(last)
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("last", onnx.TensorProto.INT8, None)
    )
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert not any("f32" in k or "quantize" in k for k in kernels), kernels
    x = np.random.default_rng(5).integers(-128, 128, bundle_shape(model)).astype(S8)
    every, last_values = bundle.load()(x)
    parts = [1] if direction == "reverse" else [0, 1] if direction == "bidirectional" else [0]
    states = np.moveaxis(np.asarray(every), (1, 2) if layout else (0, 1), (0, 1))
    want = [states[0 if way else -1, k] for k, way in enumerate(parts)]
    np.testing.assert_array_equal(last_values, np.stack(want, 1 if layout else 0))


def bundle_shape(model: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)


@pytest.mark.parametrize(
    ("kind", "direction", "dtype"),
    [("LSTM", "bidirectional", np.uint8), ("GRU", "reverse", S8), ("RNN", "forward", S8)],
)
def test_states_and_the_last_of_them_in_other_quantised_values(
    kind: str, direction: str, dtype: Any, tmp_path: Path
) -> None:
    """Y and Y_h with parameters of their own: one layer of integers makes both."""
    model = layer(kind, {"direction": direction}, dtype=dtype, steps=20, batch=16)
    rnn = next(n for n in model.graph.node if n.op_type == kind)
    rnn.output.append("h")
    zero = onnx.numpy_helper.from_array(np.array(-70 if dtype is S8 else 90, dtype), "zh")
    scale = onnx.numpy_helper.from_array(np.array(0.0049, np.float32), "sh")
    model.graph.initializer.extend([scale, zero])
    model.graph.node.append(onnx.helper.make_node("QuantizeLinear", ["h", "sh", "zh"], ["last"]))
    onnx_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model.graph.output.append(onnx.helper.make_tensor_value_info("last", onnx_type, None))
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert not any("f32" in k or "quantize" in k for k in kernels), kernels
    info = np.iinfo(dtype)
    x = np.random.default_rng(6).integers(info.min, info.max + 1, bundle_shape(model)).astype(dtype)
    results = zip(bundle.load()(x), in_onnxruntime(model, {"x": x}), strict=True)
    for got, want in results:
        assert np.abs(np.asarray(got).astype(int) - want).max() <= 1
        assert np.mean(got != want) <= 0.002 and np.unique(want).size > 60
