# SPDX-License-Identifier: Apache-2.0
"""Real models: each compiles, builds, and agrees with the reference on its stored inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aot.emit_c import clang_format
from aot.tools.run import open_out
from aot.tools.stack_built import checked, stack_of
from corpus_models import (
    BOUNDED,
    CORPUS,
    LIGHT,
    QUANTISED,
    SEEDED,
    RealModel,
    corpus,
    light,
    seeded,
    seeded_quantised,
    tflite_outputs,
)

FULL = bool(os.environ.get("AOT_FULL"))
# Every run: all kinds of network that are quick to build. AOT_FULL=1: all of them.
SAMPLE_SEEDED = ("mlp", "resnet18", "mobilenetv2", "squeezenet1_1", "bert_tiny")
SAMPLE_QUANTISED = (
    "mlperf_ic_int8",
    "mlperf_vww_int8",
    "hello_world_int8",
    "micro_kws_m_qoperator",
)
SAMPLE_BOUNDED = ("attacut_sc", "oww_melspectrogram", "slovorez_f16", "surrogate_mlp_scaler")
SAMPLE_LIGHT = ("squeezenet", "shufflenet", "densenet121")


def run(*args: object) -> str:
    command = [sys.executable, "-m", "aot", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"aotc {' '.join(map(str, args))}\n{done.stdout}{done.stderr}"
    return done.stdout


def check(model: RealModel, out: Path, *options: str) -> None:
    run(model.path, "-o", out, *model.options(), *options)
    built = subprocess.run(["cmake", "--build", out], capture_output=True, text=True, check=False)
    said = built.stdout[-3000:] + built.stderr[-3000:]
    assert built.returncode == 0 and "warning:" not in said, said
    laid_out(out / "bundle")
    run("verify", out, *(["--inputs", model.inputs] if model.inputs else []))
    finished = open_out(out)
    stack = checked(stack_of(finished), finished)
    assert stack.bytes is not None and stack.declared is not None, stack
    memory = json.loads((out / "bundle" / "manifest.json").read_text())["memory"]
    assert memory["optimal"] or memory["arena_bytes"] == memory["lower_bound_bytes"], memory
    if memory["logical_bound_bytes"] > 1_000_000:
        assert memory["arena_bytes"] <= 1.10 * memory["logical_bound_bytes"], memory


def laid_out(bundle: Path) -> None:
    """Every file of C, kernels and runners too, is as clang-format leaves it by its style."""
    sources = [p for p in bundle.rglob("*.[ch]") if p.name != "selftest_vectors.h"]
    done = subprocess.run(
        [clang_format.program(), "--dry-run", "-Werror", *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(sources) > 20 and done.returncode == 0, done.stderr[:2000]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, models_folder: Path, tmp_path: Path) -> None:
    check(corpus(models_folder, name, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("name", tuple(BOUNDED) if FULL else SAMPLE_BOUNDED)
def test_bounded(name: str, models_folder: Path, tmp_path: Path) -> None:
    """One bundle for samples of all sizes, then for the smallest and largest there can be."""
    model = corpus(models_folder, name, tmp_path, every=True)
    check(model, tmp_path / "out", *BOUNDED[name])
    run("verify", tmp_path / "out")


@pytest.mark.parametrize("name", SEEDED if FULL else SAMPLE_SEEDED)
def test_seeded(name: str, models_folder: Path, tmp_path: Path) -> None:
    check(seeded(models_folder, name, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("name", LIGHT if FULL else SAMPLE_LIGHT)
def test_light(name: str, tmp_path: Path) -> None:
    check(light(name), tmp_path / "out")


def floats(out: Path) -> list[str]:
    """Kernels of a bundle that compute in float32; quantising at a float border is none."""
    nodes = json.loads((out / "bundle" / "manifest.json").read_text())["nodes"]
    return [n["kernel"] for n in nodes if "f32" in n["kernel"]]


@pytest.mark.parametrize("name", QUANTISED if FULL else SAMPLE_QUANTISED)
def test_quantised(name: str, models_folder: Path, tmp_path: Path) -> None:
    check(corpus(models_folder, name, tmp_path), tmp_path / "out")
    assert not floats(tmp_path / "out")


@pytest.mark.parametrize("name", ("ic", "kws", "sww", "vww") if FULL else ("kws", "sww"))
def test_tflite_arithmetic(name: str, models_folder: Path, tmp_path: Path) -> None:
    model = corpus(models_folder, f"mlperf_{name}_int8", tmp_path)
    np.savez(tmp_path / "tflite.npz", **tflite_outputs(models_folder, model.name))
    out = tmp_path / "out"
    run(model.path, "-o", out, "--requant", "tflite")
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    said = run("verify", out, "--inputs", tmp_path / "tflite.npz")
    stored = [line for line in said.splitlines() if "(stored)" in line]
    assert len(stored) == 4 and all("max abs 0," in line for line in stored), said


@pytest.mark.parametrize("options", [(), ("--act", "uint8"), ("--per-tensor",)])
def test_seeded_quantised(options: tuple[str, ...], models_folder: Path, tmp_path: Path) -> None:
    if options and not FULL:
        pytest.skip("AOT_FULL=1 runs all kinds of quantisation")
    check(seeded_quantised(models_folder, "resnet18", tmp_path, *options), tmp_path / "out")
    assert not floats(tmp_path / "out")
