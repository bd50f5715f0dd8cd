# SPDX-License-Identifier: Apache-2.0
"""How exact float32 convolutions are, and what `--accuracy` changes: contraction, Winograd and how
large its tiles may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import aot
import graphs

RNG = np.random.default_rng(3)
# Input and output channels, image, window and stride of a layer.
LAYERS = {
    "image": (3, 64, 56, 7, 2),
    "narrow": (64, 32, 48, 3, 1),
    "wide": (128, 32, 48, 3, 1),
    "strided": (128, 32, 28, 3, 2),
    "point": (1024, 32, 14, 1, 1),
}
WEIGHTS = {
    k: (RNG.standard_normal((oc, ic, side, side)) / side / ic**0.5).astype(np.float32)
    for k, (ic, oc, _, side, _) in LAYERS.items()
}
MODEL = graphs.model(
    [
        ("Conv", f"{k}_x {k}_w", k, {"pads": [side // 2] * 4, "strides": [step, step]})
        for k, (_, _, _, side, step) in LAYERS.items()
    ],
    {f"{k}_x": (1, ic, size, size) for k, (ic, _, size, _, _) in LAYERS.items()},
    {k: (1, oc, size // step, size // step) for k, (_, oc, size, _, step) in LAYERS.items()},
    {f"{k}_w": w for k, w in WEIGHTS.items()},
)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """The layer `name` of `x` in float64."""
    _, _, _, side, step = LAYERS[name]
    padded = np.pad(x[0].astype(np.float64), ((0, 0), *[(side // 2, side // 2)] * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2))
    w = WEIGHTS[name].astype(np.float64)
    return np.tensordot(w, windows[:, ::step, ::step], ((1, 2, 3), (0, 3, 4)))


@pytest.mark.parametrize(
    ("accuracy", "tiles", "times"),
    [
        ("strict", {}, dict.fromkeys(LAYERS, 3)),  # one sum, in the order of the source
        ("normal", {"narrow": 4, "wide": 6, "strided": 5}, {"wide": 4}),
        ("fast", {"narrow": 8, "wide": 8}, {"narrow": 20, "wide": 20}),
    ],
)
def test_errors_beside_those_of_onnxruntime(
    tmp_path: Path, accuracy: str, tiles: dict[str, int], times: dict[str, float]
) -> None:
    """The root mean square of the errors is at most `times` that of onnxruntime, 1.1 by default."""
    bundle = aot.compile(MODEL, tmp_path / "out", target="x86-64-v2", accuracy=accuracy)
    convs = [n["instance"] for n in bundle.manifest["nodes"] if n["macs"]]
    assert {k: n["T"] for k, n in zip(LAYERS, convs, strict=True) if "T" in n} == tiles
    feeds = {
        f"{k}_x": np.maximum(RNG.standard_normal((1, ic, size, size)), -0.5).astype(np.float32)
        for k, (ic, _, size, _, _) in LAYERS.items()
    }
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(MODEL.SerializeToString(), options)
    theirs, ours = session.run(None, feeds), bundle.load()(*feeds.values())
    for name, other, own in zip(LAYERS, theirs, ours, strict=True):
        want = exact(name, feeds[f"{name}_x"])
        one, two = (np.sqrt(((np.asarray(y)[0] - want) ** 2).mean()) for y in (own, other))
        assert one <= times.get(name, 1.1) * two, (name, one / two)


def test_a_product_of_long_sums_errs_as_much_as_that_of_onnxruntime(tmp_path: Path) -> None:
    """12544 products are summed in runs: Mask R-CNN's first layer behind its regions is so long."""
    deep, columns = 12544, 512
    w = (RNG.standard_normal((deep, columns)) / deep**0.5).astype(np.float32)
    nodes = [("MatMul", f"{k} w", f"{k}_y") for k in "ab"]
    shapes = {"a": (1, deep), "b": (8, deep)}
    model = graphs.model(
        nodes, shapes, {f"{k}_y": (n, columns) for k, (n, _) in shapes.items()}, {"w": w}
    )
    feeds = {k: np.maximum(RNG.standard_normal(s), 0).astype(np.float32) for k, s in shapes.items()}
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    ours = aot.compile(model, tmp_path / "out", target="x86-64-v2").load()(*feeds.values())
    for x, other, own in zip(feeds.values(), theirs, ours, strict=True):
        want = x.astype(np.float64) @ w
        one, two = (np.sqrt(((np.asarray(y) - want) ** 2).mean()) for y in (own, other))
        assert one <= 1.1 * two, one / two
