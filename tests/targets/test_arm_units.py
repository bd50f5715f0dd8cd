# SPDX-License-Identifier: Apache-2.0
"""Numbers of 16 bits on 64-bit Arm, under QEMU: instructions beside plain C, and products by the
units bf16 and fp16: which ones, what is rounded, and that parts have the bits of the whole."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from images import need_tools
from onnx import TensorProto

import aot
import graphs
from aot.tools.run import execute, open_out
from needs import need

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "runtime_c" / "tests"
FLAGS = ("-std=c99", "-O1", "-static", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
         "-Wdouble-promotion", "-Werror", "-ffp-contract=off", "-DAOT_VLEN=4")  # fmt: skip

RNG = np.random.default_rng(5)
#: Rows, products and columns: odd ones, of several runs and groups, one row, few columns.
SIZES = {"odd": (13, 47, 70), "long": (7, 1100, 33), "one": (1, 64, 64), "few": (9, 20, 4)}
ROUNDED = {"odd", "long"}
SHAPES = {f"{k}_x": (m, depth) for k, (m, depth, _) in SIZES.items()}
RESULTS = {f"{k}_y": (m, n) for k, (m, _, n) in SIZES.items()}
WEIGHTS = {
    f"{k}_w": RNG.standard_normal((depth, n), np.float32) for k, (_, depth, n) in SIZES.items()
}
FAR = {**WEIGHTS, "odd_w": np.where(np.eye(47, 70) > 0, np.float32(3.4e38), WEIGHTS["odd_w"])}
NODES = [("MatMul", f"{k}_x {k}_w", f"{k}_y", {}) for k in SIZES]
TYPES = {
    "float32": (TensorProto.FLOAT, np.float32),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float16": (TensorProto.FLOAT16, np.float16),
}


@pytest.mark.parametrize(
    "test, march",
    [("cast", "armv8-a"), ("strips", "armv8-a"), ("strips", "armv8.2-a+fp16+bf16")]
    + [("half", "armv8-a"), ("half", "armv8.2-a+fp16")],
)
def test_kernels_in_c(test: str, march: str, tmp_path: Path) -> None:
    """A program of runtime_c/tests passes on an emulated CPU that has every unit."""
    gcc = need("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")
    emulator = (need("qemu-aarch64", "apt-get install qemu-user"), "-cpu", "max")
    folders = (f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels")
    built = (*FLAGS, f"-march={march}", *folders, TESTS / f"test_{test}.c", "-lm")
    for words in ((gcc, *built, "-o", tmp_path / "test"), (*emulator, tmp_path / "test")):
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def compiled(kind: str, out: Path, weights: dict[str, Any] = WEIGHTS, **options: Any) -> aot.Bundle:
    """The products with operands and results of an element type."""
    onnx_type, dtype = TYPES[kind]
    types = {} if kind == "float32" else dict.fromkeys((*SHAPES, *RESULTS), onnx_type)
    narrow = {k: w.astype(dtype) for k, w in weights.items()}
    return aot.compile(graphs.model(NODES, SHAPES, RESULTS, narrow, types), out, **options)


def by_unit(bundle: aot.Bundle) -> dict[str, set[str]]:
    """The sizes of products by the unit that makes them, "" for none."""
    found: dict[str, set[str]] = {}
    for node in bundle.manifest["nodes"]:
        unit = node["kernel"].partition("narrow__")[2]
        sizes = {k for i, k in enumerate(SIZES) if f"n{i}_MatMul" in node["nodes"]}
        found.setdefault(unit, set()).update(sizes)
    return found


@pytest.mark.parametrize(
    ("target", "kind", "accuracy", "unit"),
    [
        ("aarch64-i8mm", "bfloat16", "fast", ""),
        ("aarch64-bf16", "bfloat16", "normal", "bfmmla"),
        ("aarch64-bf16", "bfloat16", "strict", ""),
        ("aarch64-bf16", "float32", "fast", "bfmmla"),
        ("aarch64-bf16", "float32", "normal", ""),
        ("aarch64-bf16", "float16", "fast", "bfmmla"),
        ("cortex-a76", "float16", "fast", "fp16"),
        ("aarch64-fp16", "float16", "normal", ""),
        ("aarch64-fp16", "float32", "fast", ""),
    ],
)
def test_which_unit(target: str, kind: str, accuracy: str, unit: str, tmp_path: Path) -> None:
    bundle = compiled(kind, tmp_path, target=target, accuracy=accuracy, configure=False)
    found = by_unit(bundle)
    assert found == {"": set(SIZES)} if not unit else found[unit] == ROUNDED


def test_weights_beyond_bfloat16(tmp_path: Path) -> None:
    options = {"target": "aarch64-bf16", "accuracy": "fast", "configure": False}
    assert by_unit(compiled("float32", tmp_path, FAR, **options))["bfmmla"] == {"long"}


@pytest.mark.parametrize("accuracy, casts", [("normal", False), ("strict", True)])
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_elementwise_in_registers(kind: str, accuracy: str, casts: bool, tmp_path: Path) -> None:
    """Outside of networks of products no value of float32 is in memory, where there are vectors."""
    nodes = [("Mul", "a b", "c", {}), ("HardSwish", "c", "y", {})]
    shapes = {"a": (3, 70), "b": (1, 70)}
    model = graphs.model(nodes, shapes, {"y": (3, 70)}, {}, dict.fromkeys("aby", TYPES[kind][0]))
    options = {"target": "aarch64-fp16", "accuracy": accuracy, "configure": False}
    kernels = {n["kernel"] for n in aot.compile(model, tmp_path, **options).manifest["nodes"]}
    assert (kernels == {"aot_binary_half", "aot_unary_half"}) != casts
    assert any("cast" in kernel for kernel in kernels) == casts


def results(bundle: aot.Bundle, feeds: dict[str, Any], kind: str) -> list[Any]:
    """The results on an emulator, of an element type."""
    bundle.build()
    raw = kind == "bfloat16"
    given = [a.view(np.uint16) if raw else a for a in feeds.values()]
    made = execute(open_out(bundle.out), given)
    return [y.view(ml_dtypes.bfloat16) if raw else y for y in made]


@pytest.mark.parametrize(
    ("target", "kind"),
    [("aarch64-bf16", "float32"), ("aarch64-bf16", "bfloat16"), ("aarch64-fp16", "float16")],
)
def test_results(target: str, kind: str, tmp_path: Path) -> None:
    """Sums are those of rounded operands, of 16 bits rounded once more; threads and steps share
    products without another bit."""
    need_tools("aarch64-linux")
    dtype, half = TYPES[kind][1], kind == "float16"
    feeds = {k: RNG.standard_normal(s).astype(dtype) for k, s in SHAPES.items()}
    cut = ({}, {"threads": 3}, {"slice_macs": 20000})[: 1 if kind == "float32" else 3]
    bundles = [
        compiled(kind, tmp_path / str(i), target=target, accuracy="fast", **more)
        for i, more in enumerate(cut)
    ]
    whole, *parts = (results(bundle, feeds, kind) for bundle in bundles)
    for name, y in zip(SIZES, whole, strict=True):
        x, w = feeds[f"{name}_x"], WEIGHTS[f"{name}_w"].astype(dtype)
        if name in ROUNDED and not half:
            x, w = x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16)
        a, b = x.astype(np.float64), w.astype(np.float64)
        size, want = np.abs(a) @ np.abs(b), a @ b
        last = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}[kind]
        error = (1e-3 if half else 1e-6) * size + last * np.abs(want)
        assert np.all(np.abs(y.astype(np.float64) - want) <= error), name
    if not parts:
        return
    for made in parts:
        assert [y.tobytes() for y in made] == [y.tobytes() for y in whole]
    kernels = [n["kernel"] for n in bundles[1].manifest["nodes"]]
    shared = [kernels[s["call"]] for s in bundles[1].manifest["threads"]["calls"]]
    assert any("narrow__" in kernel for kernel in shared)
    assert len(bundles[2].manifest["slices"]["slices"]) > len(kernels)
