# SPDX-License-Identifier: Apache-2.0
"""Products by the dot products of bfloat16 of a CPU: which ones, and that operands are rounded."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import aot
import graphs
import shared_weights
from aot.target import load_target

TARGET = "x86-64-v4-bf16"
RNG = np.random.default_rng(5)
#: Rows, products and columns: odd ones, of several runs and groups, one row, few columns.
SIZES = {"odd": (13, 47, 70), "long": (7, 1100, 33), "one": (1, 64, 64), "few": (9, 20, 16)}
SHAPES = {f"{k}_x": (m, depth) for k, (m, depth, _) in SIZES.items()}
RESULTS = {f"{k}_y": (m, n) for k, (m, _, n) in SIZES.items()}
WEIGHTS = {
    f"{k}_w": RNG.standard_normal((depth, n), np.float32) for k, (_, depth, n) in SIZES.items()
}
FAR = {**WEIGHTS, "odd_w": np.where(np.eye(47, 70) > 0, np.float32(3.4e38), WEIGHTS["odd_w"])}
NODES = [("MatMul", f"{k}_x {k}_w", f"{k}_y", {}) for k in SIZES]
BY_DOTS = {"odd", "long"}


def rounded(a: np.ndarray) -> np.ndarray:
    """The nearest bfloat16, as float64."""
    return a.astype(ml_dtypes.bfloat16).astype(np.float64)


def by_dots(bundle: aot.Bundle) -> set[str]:
    """The sizes whose products are dot products of bfloat16."""
    found = [n["nodes"] for n in bundle.manifest["nodes"] if n["kernel"].endswith("narrow__bf16")]
    return {k for i, k in enumerate(SIZES) if any(f"n{i}_MatMul" in names for names in found)}


@pytest.mark.parametrize(
    ("options", "weights", "found"),
    [
        ({"accuracy": "fast"}, WEIGHTS, BY_DOTS),
        ({"accuracy": "fast"}, FAR, {"long"}),
        ({"accuracy": "fast", "objective": "ram"}, WEIGHTS, set()),
        ({"accuracy": "fast", "target": "x86-64-v4-vnni"}, WEIGHTS, set()),
        ({"accuracy": "normal"}, WEIGHTS, set()),
        ({"accuracy": "strict"}, WEIGHTS, set()),
    ],
)
def test_which_products(
    options: dict[str, str], weights: dict[str, np.ndarray], found: set[str], tmp_path: Path
) -> None:
    model = graphs.model(NODES, SHAPES, RESULTS, weights)
    given = {"target": TARGET, "configure": False, **options}
    assert by_dots(aot.compile(model, tmp_path / "out", **given)) == found


def attention(options: dict[str, object], out: Path) -> aot.Bundle:
    """Three heads of 21 queries and 37 keys of 20 numbers, without a mask."""
    nodes = [
        ("Transpose", "k", "turned", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q turned", "scores", {}),
        ("Softmax", "scores", "weights", {"axis": -1}),
        ("MatMul", "weights v", "y", {}),
    ]
    shapes = {"q": (1, 3, 21, 20), "k": (1, 3, 37, 20), "v": (1, 3, 37, 20)}
    model = graphs.model(nodes, shapes, {"y": (1, 3, 21, 20)}, {})
    return aot.compile(model, out, target=TARGET, **options)


#: Channels of weights, kernel, stride and group of three convolutions, one after the other.
CONVS = {"wide": (40, 24, 1, 1, 1), "apart": (40, 1, 3, 1, 40), "far": (35, 40, 3, 2, 1)}


FILTERS = {
    k: RNG.standard_normal((n, c, side, side), np.float32) for k, (n, c, side, *_) in CONVS.items()
}


TABLE, TIED = (RNG.standard_normal((n, 64), np.float32) for n in (300, 64))


def convolutions(options: dict[str, object], out: Path) -> aot.Bundle:
    """The bundle of CONVS on [1, 24, 15, 13]."""
    names, nodes = ["x", "a", "b", "y"], []
    for i, (k, (*_, side, step, group)) in enumerate(CONVS.items()):
        attributes = {"pads": [side // 2] * 4, "strides": [step] * 2, "group": group}
        nodes.append(("Conv", f"{names[i]} {k}", names[i + 1], attributes))
    model = graphs.model(nodes, {"x": (1, 24, 15, 13)}, {"y": (1, 35, 8, 7)}, FILTERS)
    return aot.compile(model, out, target=TARGET, **options)


def convolved(x: np.ndarray, w: np.ndarray, step: int, group: int) -> np.ndarray:
    """The convolution of x [c, h, w], padded to the same size, in float64."""
    side = w.shape[-1]
    wide = np.pad(x, ((0, 0), (side // 2,) * 2, (side // 2,) * 2))
    cuts = np.lib.stride_tricks.sliding_window_view(wide, (side, side), (1, 2))[:, ::step, ::step]
    if group > 1:
        return np.einsum("chwab,cab->chw", cuts, w[:, 0])
    return np.einsum("chwab,ocab->ohw", cuts, w)


@pytest.mark.parametrize("accuracy", ["fast", "normal"])
def test_which_convolutions(accuracy: str, tmp_path: Path) -> None:
    """Dense ones, where the model leaves it to the compiler."""
    bundle = convolutions({"accuracy": accuracy, "configure": False}, tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"] if "conv" in n["kernel"]]
    by_dots = [k == "aot_conv_f32_blocked__bf16" for k in kernels]
    assert by_dots == ([True, False, True] if accuracy == "fast" else [False] * 3)


def test_results_of_convolutions(tmp_path: Path) -> None:
    """They are those of rounded operands, and the same step by step."""
    if not load_target(TARGET).runs_here():
        pytest.skip(f"this CPU lacks {', '.join(load_target(TARGET).missing_flags())}")
    x = RNG.standard_normal((1, 24, 15, 13), np.float32)
    a = convolved(rounded(x[0]), rounded(FILTERS["wide"]), 1, 1)
    b = convolved(a, FILTERS["apart"].astype(np.float64), 1, 40)
    want, found = convolved(rounded(b), rounded(FILTERS["far"]), 2, 1), []
    for i, more in enumerate(({}, {"slice_macs": 20000})):
        bundle = convolutions({"accuracy": "fast", **more}, tmp_path / f"{i}")
        found.append(np.asarray(bundle.load()(x)))
    assert np.max(np.abs(found[0][0] - want)) <= 1e-3 * np.max(np.abs(want))
    assert all(np.array_equal(found[0].view(np.uint32), y.view(np.uint32)) for y in found)


@pytest.mark.parametrize("accuracy", ["fast", "normal", "strict"])
def test_products_of_attention(accuracy: str, tmp_path: Path) -> None:
    bundle = attention({"accuracy": accuracy, "configure": False}, tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert ("aot_attention_f32__bf16" in kernels) == (accuracy == "fast")


def test_results_of_attention(tmp_path: Path) -> None:
    """They are near those of float64, and the same from two threads."""
    if not load_target(TARGET).runs_here():
        pytest.skip(f"this CPU lacks {', '.join(load_target(TARGET).missing_flags())}")
    q, k, v = (RNG.standard_normal((1, 3, n, 20), np.float32) for n in (21, 37, 37))
    found = []
    for i, more in enumerate(({}, {"threads": 2})):
        bundle = attention({"accuracy": "fast", **more}, tmp_path / f"{i}")
        found.append(np.asarray(bundle.load()(q, k, v)))
    weights = np.exp(rounded(q) @ rounded(k).swapaxes(2, 3))
    weights /= weights.sum(axis=-1, keepdims=True)
    gap = np.abs(found[0] - weights @ rounded(v))
    assert np.all(gap <= 2.0**-8 * (weights @ np.abs(v)))
    assert np.any(found[0] != found[0].astype(ml_dtypes.bfloat16))  # sums are not rounded
    assert all(np.array_equal(found[0].view(np.uint32), y.view(np.uint32)) for y in found)


def tied(rows: int, options: dict[str, object], out: Path) -> aot.Bundle:
    """The bundle of a table of bfloat16 [300, 64] that a Gather and a product read."""
    return aot.compile(shared_weights.halved(rows, TABLE, TIED), out, target=TARGET, **options)


@pytest.mark.parametrize("objective", ["latency", "flash"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_tied_table_is_stored_once(rows: int, objective: str, tmp_path: Path) -> None:
    options = {"objective": objective, "configure": False}
    manifest = tied(rows, options, tmp_path / "out").manifest
    assert "aot_gemm_rows_f32__bf16" in {n["kernel"] for n in manifest["nodes"]}
    # A single row has the other weights in float32.
    other = 4 * TIED.size + 4 * len(TABLE) + 512
    assert manifest["memory"]["constants_bytes"] <= 2 * TABLE.size + other < 4 * TABLE.size


def test_results_of_a_tied_table(tmp_path: Path) -> None:
    if not load_target(TARGET).runs_here():
        pytest.skip(f"this CPU lacks {', '.join(load_target(TARGET).missing_flags())}")
    for rows in (1, 5):
        bundle = tied(rows, {}, tmp_path / f"{rows}")
        chosen = np.arange(rows)
        y = np.asarray(bundle.load()(chosen)).view(ml_dtypes.bfloat16).astype(np.float64)
        want = rounded(np.maximum(rounded(TABLE[chosen]) @ rounded(TIED), 0)) @ rounded(TABLE).T
        assert np.max(np.abs(y - want)) <= 2.0**-7 * np.max(np.abs(want))


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_results(kind: str, tmp_path: Path) -> None:
    """Those of rounded operands, but of one row or few columns; of bfloat16 rounded once more."""
    if not load_target(TARGET).runs_here():
        pytest.skip(f"this CPU lacks {', '.join(load_target(TARGET).missing_flags())}")
    wide = kind == "float32"
    dtype = np.float32 if wide else ml_dtypes.bfloat16
    weights = {k: w.astype(dtype) for k, w in WEIGHTS.items()}
    types = {} if wide else dict.fromkeys((*SHAPES, *RESULTS), TensorProto.BFLOAT16)
    model = graphs.model(NODES, SHAPES, RESULTS, weights, types)
    accuracy = "fast" if wide else "normal"
    bundle = aot.compile(model, tmp_path / "out", target=TARGET, accuracy=accuracy)
    assert by_dots(bundle) == BY_DOTS
    feeds = {k: RNG.standard_normal(s).astype(dtype) for k, s in SHAPES.items()}
    given = feeds.values() if wide else [a.view(np.uint16) for a in feeds.values()]
    for name, y in zip(SIZES, bundle.load()(*given), strict=True):
        x, w = feeds[f"{name}_x"], weights[f"{name}_w"]
        exact = name not in BY_DOTS and wide
        a, b = (v.astype(np.float64) if exact else rounded(v) for v in (x, w))
        size = np.abs(a) @ np.abs(b)
        got = np.asarray(y) if wide else np.asarray(y).view(ml_dtypes.bfloat16)
        gap = np.abs(got.astype(np.float64) - a @ b)
        assert np.all(gap <= 1e-6 * size + (0 if wide else 2.0**-8) * np.abs(a @ b)), name
