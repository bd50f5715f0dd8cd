# SPDX-License-Identifier: Apache-2.0
"""Calls that are made row by row give the same values as whole tensors."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import aot
from aot.ir.check_rows import check_rows
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.ir.rows import STREAMED
from aot.plan import plan_program
from aot.plan.streaming.placed import place_rows
from aot.plan.streaming.runs import runs_of, segmented
from aot.target import load_target
from aot.tools.run import execute, open_out
from fetched_graphs import layers
from quant_graphs import Net, feeds_of
from streamed_graphs import Made, Value, random_network

#: More of them by AOT_FULL=1.
SEEDS = range(300, 340) if os.environ.get("AOT_FULL") else (8, 12)
#: Of networks of floats.
FLOATS = SEEDS if os.environ.get("AOT_FULL") else (7,)
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES: list[tuple[int, Any, str]] = [(k, np.int8, "normal") for k in SEEDS]
CASES += [(k, np.float32, a) for k in FLOATS for a in ("strict", "normal")]
CASES += [(k, np.float16, "normal") for k in FLOATS]
CASES += [(k, ml_dtypes.bfloat16, "strict") for k in (SEEDS if len(FLOATS) > 1 else (3,))]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("seed", "dtype", "accuracy"), CASES)
def test_same_values_as_whole_tensors(seed: int, dtype: Any, accuracy: str, tmp_path: Path) -> None:
    compare(random_network(seed, dtype), accuracy, tmp_path)


def inverted_residuals(dtype: Any, height: int, width: int) -> onnx.ModelProto:
    """Convolutions, clipped, depthwise ones between them, and sums."""
    made = Made(5, dtype)
    made.net, value = Net(x=(dtype, (1, 3, height, width))), ("x", (3, height, width))

    def conv(value: Value, wide: int, size: int, stride: int = 1, clip: bool = True) -> Value:
        name, (channels, height, width) = value
        group = channels if size == 3 and channels > 3 else 1
        weights = made.weights(wide, channels // group, size, size)
        attrs = {"group": group, "strides": [stride] * 2, "pads": [size // 2] * 4}
        real = made.net.add("Conv", name, weights, **attrs)
        real = made.net.add("Clip", real, dtype(0), dtype(0.5)) if clip else real
        return real, (wide, -(-height // stride), -(-width // stride))

    value = conv(value, 16, 3, 2)
    for _ in range(2):
        inner = conv(conv(conv(value, 48, 1), 48, 3), 16, 1, clip=False)
        value = made.net.add("Add", inner[0], value[0]), value[1]
    y = made.net.add("GlobalAveragePool", value[0])
    return made.net.model(**{y: dtype})


def test_inverted_residuals_of_float16(tmp_path: Path) -> None:
    whole, rows = compare(inverted_residuals(np.float16, 24, 20), "normal", tmp_path)
    assert rows["by_rows"]
    assert rows["arena_bytes"] < whole["arena_bytes"] // 2


def gated(made: Made, y: str, channels: int) -> list[str]:
    """Channels scaled by numbers and by their averages, in front of windows, behind them, and in
    parts of whole tensors beside parts that are altered element by element."""
    add, numbers = made.net.add, made.net.const(made.rng.uniform(-1, 1, (channels, 1, 1)))
    numbers = add("Cast", numbers, to=onnx.TensorProto.FLOAT)
    mean = add("Conv", add("GlobalAveragePool", y), made.weights(channels, channels, 1, 1))
    gate, wide = add("Sigmoid", mean), made.weights(channels, channels, 3, 3)
    first = add("Mul", y, gate)
    behind = add("Max", add("Mul", add("Conv", first, wide, pads=[1] * 4), numbers), numbers)
    both = add("Concat", add("Add", add("Mul", behind, gate), behind), first, axis=1)
    last = add("Conv", both, made.weights(channels, 2 * channels, 3, 3), pads=[1] * 4)
    parts = add("Mul", last, gate), add("Relu", y), add("Sub", gate, add("Neg", y))
    return [last, add("Concat", *parts, axis=1)]


def test_channels_that_are_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs by rows, with channels in blocks and few, whether that needs less memory or not."""
    made, kernels = Made(3, np.float32), set[str]()
    made.net = Net(x=(np.float32, (1, 24, 7, 6)))
    few = made.net.add("Conv", "x", made.weights(5, 24, 3, 3))
    ends = gated(made, made.net.add("Abs", "x"), 24) + gated(made, few, 5)

    def streamed(program: Program, *_: object) -> tuple[Program, Plan]:
        found = segmented(program, runs_of(program)[0])
        kernels.update(c.kernel for c in found.calls if c.region == STREAMED)
        plan = place_rows(found)
        check_rows(found, plan)
        return found, plan

    monkeypatch.setattr(plan_program, "streamed", streamed)
    compare(made.net.model(**dict.fromkeys(ends, np.float32)), "strict", tmp_path)
    assert {f"aot_{k}_f32" for k in ("mul", "muladd", "max", "sub", "neg")} <= kernels


def test_rows_that_stay_in_a_cache(tmp_path: Path) -> None:
    """`--objective latency` makes what hands on values of more than six caches by rows.

    A row is 84 pixels: a multiple of every tile.
    """
    model, base = inverted_residuals(np.float32, 160, 168), load_target("host").cpu
    x, found = feeds_of(model)["x"], []
    for cache in (0, 144 * 1024):
        chip = tmp_path / "chip.toml"
        chip.write_text(f'base = "{base}"\ncache = {cache}\n')
        bundle = aot.compile(model, tmp_path / str(cache), name="net", target=str(chip))
        assert bool(bundle.manifest["memory"].get("by_rows")) == bool(cache)
        found.append(np.asarray(bundle.build().load()(x)))
    np.testing.assert_array_equal(*found)


def compare(model: onnx.ModelProto, accuracy: str, tmp_path: Path) -> list[dict[str, Any]]:
    """Check that rows give what whole tensors give, to the bit; the memory of both bundles."""
    found: list[list[np.ndarray]] = []
    memory: list[dict[str, Any]] = []
    for objective in ("flash", "ram"):
        options = {"objective": objective, "accuracy": accuracy}
        bundle = aot.compile(model, tmp_path / objective, name="net", **options)  # type: ignore[arg-type]
        feeds = [feeds_of(model, k) for k in range(2)]
        run = bundle.build().load()
        found.append([np.asarray(v) for feed in feeds for v in as_list(run(*feed.values()))])
        memory.append(bundle.manifest["memory"])
    assert any(len(np.unique(v)) > 2 for v in found[0])
    for whole, rows in zip(*found, strict=True):
        np.testing.assert_array_equal(whole, rows)
    return memory


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="minutes: AOT_FULL=1")
@pytest.mark.parametrize("name", ["unet_128_f32", "densenet121_224_f32", "squeezenet_224_f32"])
def test_large_networks_by_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined channels across the depth of a network, with `--accuracy strict`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    saved = importlib.import_module("streamed_models").saved
    whole, rows = compare(onnx.load(saved(name, tmp_path)), "strict", tmp_path)
    assert rows["by_rows"] and rows["arena_bytes"] < whole["arena_bytes"] // 2


#: Where the weights of a bundle are.
ELSEWHERE = ("blob", "file", "section=.slow") if os.environ.get("AOT_FULL") else ("blob",)


@pytest.mark.parametrize("weights", ELSEWHERE)
def test_rows_and_codes_with_weights_elsewhere(weights: str, tmp_path: Path) -> None:
    """Convolutions by rows and products whose weights are codes, in one arena of few bytes."""
    model, found = layers(size=20), []
    for options in ({}, {"objective": "flash", "ram": 30_000, "weights": weights}):
        bundle = aot.compile(model, tmp_path / str(len(found)), name="net", **options)  # type: ignore[arg-type]
        bundle.build()
        found.append(list(execute(open_out(bundle.out), list(feeds_of(model).values()))))
    assert bundle.manifest["memory"]["by_rows"]
    assert any(node.get("fetches") for node in bundle.manifest["nodes"])
    np.testing.assert_array_equal(*found)
