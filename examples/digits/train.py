# SPDX-License-Identifier: Apache-2.0
"""Train a small CNN on scikit-learn's 8x8 digits with NumPy alone and write it as ONNX.

    python examples/digits/train.py

    conv 3x3, 16 -> relu -> maxpool 2x2 -> conv 3x3, 32 -> relu -> maxpool 2x2 -> fully connected

A fixed seed and a single BLAS thread: the same machine gives the same weights. One image in five is
held out, chosen before anything else; the accuracy printed and stored is on those alone.
Needs scikit-learn (for the data) and onnx. Writes digits.onnx and digits_test.npz next to itself.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HERE = Path(__file__).parent
SEED, EPOCHS, BATCH, RATE = 7, 60, 32, 2e-3


def load_digits() -> tuple[Array, Array, Array, Array]:
    """Train images, train labels, test images, test labels; images [N, 1, 8, 8] in 0..1."""
    from sklearn.datasets import load_digits as bundled

    data = bundled()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(images))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    labels = data.target.astype(np.int64)
    return images[train], labels[train], images[test], labels[test]


def patches(x: Array) -> Array:
    """The 3x3 neighbourhood of every pixel, zeros outside: [N, H, W, C * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def spread(columns: Array, shape: tuple[int, ...]) -> Array:
    """The adjoint of `patches`: every neighbourhood added back to an image of `shape`."""
    n, c, h, w = shape
    parts = columns.reshape(n, h, w, c, 3, 3).transpose(0, 3, 4, 5, 1, 2)
    padded = np.zeros((n, c, h + 2, w + 2), np.float32)
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + h, j : j + w] += parts[:, :, i, j]
    return padded[:, :, 1:-1, 1:-1]


def pool(x: Array) -> tuple[Array, Array]:
    """2x2 maxima and a mask of where they were (ties share the gradient)."""
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2)
    best = cells.max(axis=(3, 5), keepdims=True)
    mask = cells == best
    shared = mask / mask.sum(axis=(3, 5), keepdims=True)
    return best[:, :, :, 0, :, 0], shared.astype(np.float32)


@dataclass
class Network:
    """Weights by name, and Adam's moments."""

    weights: dict[str, Array]
    first: dict[str, Array] = field(default_factory=dict)
    second: dict[str, Array] = field(default_factory=dict)
    steps: int = 0

    @staticmethod
    def random(rng: np.random.Generator) -> Network:
        """He initialisation."""
        shapes = {"w1": (16, 9), "w2": (32, 16 * 9), "w3": (10, 32 * 4)}
        weights: dict[str, Array] = {}
        for name, (out, fan_in) in shapes.items():
            scale = np.sqrt(2.0 / fan_in)
            weights[name] = (rng.standard_normal((out, fan_in)) * scale).astype(np.float32)
            weights[name.replace("w", "b")] = np.zeros(out, np.float32)
        return Network(weights)

    def forward(self, x: Array) -> tuple[Array, list[Any]]:
        """Logits [N, 10] and what `gradients` needs."""
        w, kept = self.weights, []
        for k in ("1", "2"):
            columns = patches(x)
            y = np.maximum(columns @ w["w" + k].T + w["b" + k], 0).transpose(0, 3, 1, 2)
            pooled, mask = pool(y)
            kept.append((x.shape, columns, y > 0, mask))
            x = pooled
        flat = x.reshape(len(x), -1)
        return flat @ w["w3"].T + w["b3"], [*kept, flat]

    def gradients(self, error: Array, kept: list[Any]) -> dict[str, Array]:
        """Gradients of every weight from the gradient of the logits."""
        w, flat = self.weights, kept[2]
        found = {"w3": error.T @ flat, "b3": error.sum(0)}
        up = error @ w["w3"]
        for k in ("2", "1"):
            shape, columns, active, mask = kept[int(k) - 1]
            n, c, h, _, width, _ = mask.shape
            spread_out = mask * up.reshape(n, c, h, 1, width, 1)
            delta = (spread_out.reshape(active.shape) * active).transpose(0, 2, 3, 1)
            rows = delta.reshape(-1, c)
            found["w" + k] = rows.T @ columns.reshape(len(rows), -1)
            found["b" + k] = rows.sum(0)
            up = spread(delta @ w["w" + k], shape)
        return found

    def update(self, gradients: dict[str, Array], rate: float) -> None:
        """One step of Adam with a little weight decay."""
        self.steps += 1
        for name, g in gradients.items():
            g = g + 1e-4 * self.weights[name]
            m = self.first.get(name, 0.0) * 0.9 + 0.1 * g
            v = self.second.get(name, 0.0) * 0.999 + 0.001 * g * g
            self.first[name], self.second[name] = m, v
            unbiased = m / (1 - 0.9**self.steps), v / (1 - 0.999**self.steps)
            step = rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
            self.weights[name] = (self.weights[name] - step).astype(np.float32)


def batches(x: Array, y: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Shuffled batches, each image moved by up to one pixel."""
    order = rng.permutation(len(x))
    for at in range(0, len(x), BATCH):
        chosen = order[at : at + BATCH]
        dy, dx = (int(v) for v in rng.integers(-1, 2, 2))
        wide = np.pad(x[chosen], ((0, 0), (0, 0), (1, 1), (1, 1)))
        yield wide[:, :, 1 + dy : 9 + dy, 1 + dx : 9 + dx], y[chosen]


def softmax(logits: Array) -> Array:
    """Probabilities, row by row."""
    e = np.exp(logits - logits.max(1, keepdims=True))
    result: Array = e / e.sum(1, keepdims=True)
    return result


def accuracy(network: Network, x: Array, y: Array) -> float:
    """The part of the images that is classified correctly."""
    return float((network.forward(x)[0].argmax(1) == y).mean())


def train(x: Array, y: Array) -> Network:
    """Cross-entropy, cosine decay of the learning rate."""
    rng = np.random.default_rng(SEED)
    network = Network.random(rng)
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for images, labels in batches(x, y, rng):
            logits, kept = network.forward(images)
            error = softmax(logits)
            error[np.arange(len(labels)), labels] -= 1
            network.update(network.gradients(error / len(labels), kept), rate)
    return network


def to_onnx(network: Network, notes: dict[str, str]) -> Any:
    """The network as an ONNX model: image [1, 1, 8, 8] -> probabilities [1, 10]."""
    from onnx import TensorProto, checker, helper, numpy_helper

    w = dict(network.weights)
    w["w1"] = w["w1"].reshape(16, 1, 3, 3)
    w["w2"] = w["w2"].reshape(32, 16, 3, 3)
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    half = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", **same),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", **half),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], "conv2", **same),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", **half),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(w[k], k) for k in sorted(w)],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="aotc")
    helper.set_model_props(model, notes)
    checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, report, write both files."""
    x, y, test_x, test_y = load_digits()
    network = train(x, y)
    reached = accuracy(network, test_x, test_y)
    right = round(reached * len(test_y))
    print(f"accuracy: {accuracy(network, x, y):.2%} of {len(y)} training images")
    print(f"accuracy: {reached:.2%} ({right} of {len(test_y)} held-out images)")
    notes = {
        "accuracy": f"{reached:.6f}",
        "correct": str(right),
        "held_out": str(len(test_y)),
        "data": "scikit-learn load_digits, one image in five held out",
    }
    (HERE / "digits.onnx").write_bytes(to_onnx(network, notes).SerializeToString())
    pixels = np.rint(test_x[:, 0] * 16).astype(np.uint8)
    np.savez_compressed(HERE / "digits_test.npz", pixels=pixels, labels=test_y.astype(np.uint8))


if __name__ == "__main__":
    main()
