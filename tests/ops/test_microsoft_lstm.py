# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's LSTM of dynamically quantised operands computes what it computes there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import aot
from aot.cli import main
from aot.errors import AotError
from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from aot.pipeline import compile_model

Array = np.ndarray[Any, Any]
INPUTS = "x w r b lens h0 c0 p ws wz rs rz".split()
FED = ("x", "lens", "h0", "c0")
OUTPUTS = ("y", "yh", "yc")


def operands(
    *, steps=5, batch=3, size=6, hidden=4, ways=1, kind: Any = np.int8, columns=False, seed=0
) -> dict[str, Array]:
    """What every layer has: input, weights and their scales.

    Signed weights have 7 bits: on some hosts onnxruntime adds products of 8 bits in int16.
    """
    rng = np.random.default_rng(seed)
    low, high = (-64, 64) if kind is np.int8 else (0, 256)
    shape = (ways, 4 * hidden) if columns else (ways,)
    middle = 0 if columns else (low + high) // 2 + 3
    found: dict[str, Array] = {"x": rng.normal(size=(steps, batch, size)).astype(np.float32)}
    for name, rows in (("w", size), ("r", hidden)):
        found[name] = rng.integers(low, high, (ways, rows, 4 * hidden)).astype(kind)
        found[f"{name}s"] = rng.uniform(0.004, 0.01, shape).astype(np.float32)
        found[f"{name}z"] = np.full(shape, middle, kind)
    return found


def floats(found: dict[str, Array], *names: str) -> dict[str, Array]:
    """`found` with biases, peepholes and states of these names."""
    ways, hidden = found["r"].shape[:2]
    batch = found["x"].shape[1]
    shapes = {"b": (ways, 8 * hidden), "p": (ways, 3 * hidden)}
    rng = np.random.default_rng(1)
    for name in names:
        shape = shapes.get(name, (ways, batch, hidden))
        found[name] = rng.normal(size=shape).astype(np.float32)
    return found


def model_of(given: dict[str, Array], outputs=OUTPUTS, **attrs: Any) -> Any:
    names = [n if n in given else "" for n in INPUTS]
    attrs.setdefault("hidden_size", given["r"].shape[1])
    op = "DynamicQuantizeLSTM"
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", **attrs)
    infos = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape
        )
        for n in FED
        if n in given
    ]
    results = [helper.make_tensor_value_info(o, 1, None) for o in outputs if o]
    consts = [numpy_helper.from_array(a, n) for n, a in given.items() if n not in FED]
    graph = helper.make_graph([node], "g", infos, results, consts)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def wanted(model: Any, feeds: dict[str, Array]) -> list[Array]:
    """By onnxruntime in one thread: each thread quantises its samples by themselves."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    text = model.SerializeToString()
    session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, feeds)
    return found


def check(given: dict[str, Array], outputs=OUTPUTS, **attrs: Any) -> None:
    model = model_of(given, outputs, **attrs)
    feeds = {n: given[n] for n in FED if n in given}
    options = load_options(Options(), [load_all()])
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    result = normalise(load(copy, options), options)
    names = {v.name: v.metadata_props["aot.onnx_name"] for v in result.graph.inputs}
    renamed = {v: feeds[n] for v, n in names.items()}
    found = ReferenceEvaluator(ir.to_proto(result)).run(None, renamed)
    for want, got in zip(wanted(model, feeds), found, strict=True):
        assert want.shape == got.shape and want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("names", ["", "b", "b h0 c0", "b h0 c0 p"])
def test_operands(kind, names):
    check(floats(operands(kind=kind), *names.split()))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_scales_of_columns(direction):
    ways = 2 if direction == "bidirectional" else 1
    given = operands(ways=ways, columns=True)
    check(floats(given, "b", "h0", "c0", "p"), direction=direction)


@pytest.mark.parametrize(
    "attrs",
    [
        {"clip": 0.3},
        {"input_forget": 1},
        {"activations": ["Tanh", "Relu", "Sigmoid"]},
        {"activations": ["sigmoid", "tanh", "relu"], "clip": 0.5, "input_forget": 1},
    ],
)
def test_attributes(attrs):
    check(floats(operands(), "b", "h0", "c0", "p"), **attrs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lens", [(5, 3, 1), (2, 3, 1), (0, 3, 2), (0, 0, 0), (5, 5, 5)])
def test_samples_that_end_early(direction, lens):
    given = floats(operands(ways=2 if direction == "bidirectional" else 1), "b", "h0", "c0")
    check(given | {"lens": np.array(lens, np.int32)}, direction=direction)


@pytest.mark.parametrize("outputs", [("y",), ("", "yh"), ("", "", "yc"), ("", "yh", "yc")])
def test_outputs_that_nobody_wants(outputs):
    check(operands(), outputs)


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
def test_inputs_of_one_value(value):
    given = operands()
    given["x"] = np.full_like(given["x"], value)
    check(given)


@pytest.mark.parametrize("steps", [3, 40])
def test_unrolled_and_in_a_loop_as_c(tmp_path, steps):
    given = floats(operands(steps=steps, ways=2, hidden=8), "b", "h0", "c0", "p")
    given["lens"] = np.array([steps - 1, 1, steps // 2], np.int32)
    model = model_of(given, direction="bidirectional")
    feeds = {n: given[n] for n in FED}
    found = aot.compile(model, tmp_path).load()(*feeds.values())
    for want, got in zip(wanted(model, feeds), found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_verify_gates_outputs_where_no_value_inside_has_a_name(tmp_path, capsys):
    onnx.save(model_of(operands(steps=2), ("y",)), tmp_path / "m.onnx")
    aot.compile(tmp_path / "m.onnx", tmp_path / "o").build()
    assert main(["verify", str(tmp_path / "o")]) == 0
    assert "y: max abs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attrs", "outputs", "lens"),
    [
        ({"activations": ["HardSigmoid", "Tanh", "Tanh"]}, ("y",), False),
        ({"activations": ["Sigmoid", "Tanh"]}, ("y",), False),
        ({"clip": -1.0}, ("y",), False),
        ({"direction": "bidirectional"}, ("y",), False),
        ({}, ("", "yh"), True),
    ],
)
def test_what_has_no_body_is_refused(attrs, outputs, lens):
    given = operands()
    if lens:
        given["lens"] = np.array([1, 2, 3], np.int32)
    with pytest.raises(AotError, match="DynamicQuantizeLSTM"):
        compile_model(model_of(given, outputs, **attrs), Options())


@pytest.mark.parametrize(
    ("name", "shape"), [("w", (1, 7, 16)), ("b", (1, 16)), ("rs", (4,)), ("lens", (2,))]
)
def test_operands_that_do_not_fit_are_refused(name, shape):
    given = floats(operands(), "b")
    kind = np.int32 if name == "lens" else given[name].dtype
    given[name] = np.ones(shape, kind)
    with pytest.raises(AotError, match=rf"input {INPUTS.index(name)} is"):
        compile_model(model_of(given), Options())
