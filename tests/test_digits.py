# SPDX-License-Identifier: Apache-2.0
"""The example: its committed accuracy is true, its gradients are right, the demo runs."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from needs import need_module
from targets.images import need_tools

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"


def test_committed_accuracy_is_true() -> None:
    session = need_module("onnxruntime").InferenceSession(str(DIGITS / "digits.onnx"))
    samples = np.load(DIGITS / "digits_test.npz")
    images = (samples["pixels"] / np.float32(16)).astype(np.float32)[:, None, None]
    guesses = [session.run(None, {"image": i})[0].argmax() for i in images]
    right = int((np.array(guesses) == samples["labels"]).sum())
    notes = {p.key: p.value for p in onnx.load(DIGITS / "digits.onnx").metadata_props}
    assert notes["correct"] == str(right)
    assert notes["held_out"] == str(len(images))
    assert right / len(images) >= 0.98
    assert (DIGITS / "digits.onnx").stat().st_size <= 100_000
    assert f"{right} of {len(images)} held-out" in (DIGITS / "README.md").read_text()


def test_gradients_match_differences() -> None:
    spec = importlib.util.spec_from_file_location("digits_train", DIGITS / "train.py")
    assert spec and spec.loader
    train = importlib.util.module_from_spec(spec)
    sys.modules["digits_train"] = train
    spec.loader.exec_module(train)
    rng = np.random.default_rng(3)
    network = train.Network.random(rng)
    network.weights = {k: v.astype(np.float64) for k, v in network.weights.items()}
    x, y = rng.random((4, 1, 8, 8)), np.arange(4)

    def loss() -> float:
        chances = train.softmax(network.forward(x)[0])
        return float(-np.log(chances[np.arange(4), y]).mean())

    logits, kept = network.forward(x)
    error = train.softmax(logits)
    error[np.arange(4), y] -= 1
    found = network.gradients(error / 4, kept)
    for name, weights in network.weights.items():
        for _ in range(4):
            at = tuple(int(rng.integers(n)) for n in weights.shape)
            old, step = weights[at], 1e-5
            weights[at] = old + step
            above = loss()
            weights[at] = old - step
            below = loss()
            weights[at] = old
            assert found[name][at] == pytest.approx((above - below) / (2 * step), abs=1e-4), name


def test_committed_accuracy_of_the_quantised_network_is_true() -> None:
    path = DIGITS / "digits_int8.onnx"
    session = need_module("onnxruntime").InferenceSession(str(path))
    samples = np.load(DIGITS / "digits_test.npz")
    quantised = samples["pixels"].astype(np.int8)[:, None, None]
    guesses = [session.run(None, {"image": c})[0].argmax() for c in quantised]
    right = int((np.array(guesses) == samples["labels"]).sum())
    notes = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert (notes["correct"], notes["held_out"]) == (str(right), str(len(quantised)))
    assert right / len(quantised) >= 0.98
    assert path.stat().st_size <= 12_000
    assert f"{right} of {len(quantised)} held-out" in (DIGITS / "README.md").read_text()


def test_demo(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    command = [sys.executable, str(DIGITS / "demo.py"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "correct: 354 of 359" in done.stdout
    assert "int8 on Cortex-M4, correct: 353 of 359" in done.stdout
    assert "instructions per run" in done.stdout
