# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize`: what it writes, and that nothing half-written is left."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.ops.microsoft import MICROSOFT
from aot.tools.quantize import is_quantised, read_calibration
from needs import need_module
from quant_graphs import Net, f32, in_onnxruntime

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with calibration data for the digits model: 100 images in one array."""
    pixels = np.load(DIGITS / "digits_test.npz")["pixels"][:100]
    images = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    np.savez(tmp_path / "cal.npz", image=images)
    return tmp_path


def quantized(folder: Path, *words: str, model: Path = DIGITS / "digits.onnx") -> onnx.ModelProto:
    need_module("onnxruntime")
    out, data = folder / "q.onnx", str(folder / "cal.npz")
    assert main(["quantize", str(model), "--calibrate", data, "-o", str(out), *words]) == 0
    made = onnx.load(out)
    onnx.checker.check_model(made)
    return made


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["quantize", *words]) in (1, 2)
    text = capsys.readouterr().err
    assert text.startswith("aotc: ") and "internal error" not in text, text
    assert len(text.splitlines()) <= 8 and len(text) <= 2000
    return text


def labels_of(model: onnx.ModelProto) -> np.ndarray:
    pixels = np.load(DIGITS / "digits_test.npz")["pixels"]
    images = (pixels.reshape(-1, 1, 1, 8, 8) / 16).astype(np.float32)
    return np.array([np.argmax(in_onnxruntime(model, {"image": i})[0]) for i in images])


@pytest.mark.parametrize("words", [[], ["--act", "uint8", "--per-tensor"]])
def test_the_digits_are_recognised_by_quantised_values(digits, words):
    made = quantized(digits, *words)
    labels = np.load(DIGITS / "digits_test.npz")["labels"]
    assert np.mean(labels_of(made) == labels) > 0.97
    kinds = {n.op_type for n in made.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= kinds and "QLinearConv" not in kinds
    scales = {i.name: list(i.dims) for i in made.graph.initializer if i.name.endswith("_scale")}
    assert any(d and d[0] > 1 for d in scales.values()) == (words == [])
    assert {o.domain for o in made.opset_import} == {""}


def test_the_spelling_by_operators_on_quantised_values(digits):
    made = quantized(digits, "--format", "qoperator")
    assert "QLinearConv" in {n.op_type for n in made.graph.node}


def test_the_summary_says_how_close_it_is(digits, capsys):
    quantized(digits, "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["samples"] == 100 and record["bytes_after"] < record["bytes_before"]
    assert next(iter(record["similarity"].values())) > 0.99
    first = (digits / "q.onnx").read_bytes()
    quantized(digits)
    assert (digits / "q.onnx").read_bytes() == first
    assert "calibrated on 100 samples" in capsys.readouterr().out


def test_batch_normalisation_and_old_opsets(tmp_path):
    net = Net(x=(np.float32, (1, 3, 8, 8)))
    conv = net.add("Conv", "x", f32(4, 3, 3, 3))
    more = [np.ones(4, np.float32), f32(4), f32(4), np.abs(f32(4)) + np.float32(0.5)]
    net.add("BatchNormalization", conv, *more, out="y")
    path = tmp_path / "old.onnx"
    old = net.model(opset=9, y=np.float32)
    held = old.graph.initializer[0]
    info = onnx.helper.make_tensor_value_info(held.name, held.data_type, held.dims)
    old.graph.input.append(info)  # as old exporters list constants
    old.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(old, path)
    np.savez(tmp_path / "cal.npz", **{f"s{k}/x": f32(1, 3, 8, 8) for k in range(3)})
    made = quantized(tmp_path, model=path)
    assert [i.name for i in made.graph.input] == ["x"]
    assert "BatchNormalization" not in {n.op_type for n in made.graph.node}


def test_keys_of_samples(tmp_path):
    model = Net(x=(np.float32, (1, 2)), n=(np.int64, (1,))).model(x=np.float32)
    path = tmp_path / "cal.npz"
    np.savez(path, x=np.zeros((3, 2)), n=np.arange(3))
    samples = read_calibration(path, model)
    assert [s["n"].tolist() for s in samples] == [[0], [1], [2]]
    assert all(s["x"].dtype == np.float32 and s["x"].shape == (1, 2) for s in samples)
    np.savez(path, s1_in0=np.ones((1, 2)), s1_in1=np.arange(1), s0_in0=np.zeros((1, 2)))
    with pytest.raises(Exception, match=r'input "n" is missing\n.*sample 0'):
        read_calibration(path, model)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"pixel": np.zeros((1, 1, 8, 8), np.float32)}, "no key names an input of the model"),
        ({"image": np.zeros((1, 1, 8, 9), np.float32)}, '"image" is [1, 1, 8, 9]'),
        ({"image": np.zeros((1, 1, 8, 8), np.int32)}, '"image" is int32, the input is float32'),
        ({"image": np.full((1, 1, 8, 8), np.nan, np.float32)}, "not finite"),
    ],
)
def test_calibration_data_that_do_not_fit(arrays, says, tmp_path, capsys):
    need_module("onnxruntime")
    np.savez(tmp_path / "bad.npz", **arrays)
    words = [str(DIGITS / "digits.onnx"), "--calibrate", str(tmp_path / "bad.npz")]
    assert says in refused([*words, "-o", str(tmp_path / "q.onnx")], capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.npz"]


def test_bad_models_and_places(digits, capsys, monkeypatch):
    made = quantized(digits)
    capsys.readouterr()
    data, out = str(digits / "cal.npz"), str(digits / "new.onnx")
    again = refused([str(digits / "q.onnx"), "--calibrate", data, "-o", out], capsys)
    assert "quantised already" in again and made.graph.node
    node = onnx.helper.make_node("QGemm", [f"v{i}" for i in range(6)], ["y"], domain=MICROSOFT)
    assert is_quantised(node) and not is_quantised(onnx.helper.make_node("Gemm", ["a", "b"], ["y"]))
    same = str(digits / "q.onnx")
    assert "is the model itself" in refused([same, "--calibrate", data, "-o", same], capsys)
    model = str(DIGITS / "digits.onnx")
    nowhere = str(digits / "no" / "q.onnx")
    assert "cannot write" in refused([model, "--calibrate", data, "-o", nowhere], capsys)
    missing = [model, "--calibrate", str(digits / "no.npz"), "-o", out]
    assert "cannot read" in refused(missing, capsys)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    text = refused([model, "--calibrate", data, "-o", out], capsys)
    assert "onnxruntime is not installed" in text and "aotc[quantize]" in text
    assert not Path(out).exists()
