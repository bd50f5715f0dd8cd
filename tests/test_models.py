# SPDX-License-Identifier: Apache-2.0
"""Real models: each compiles, builds, and agrees with the reference on its stored inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_models import CORPUS, LIGHT, SEEDED, RealModel, corpus, light, seeded

FULL = bool(os.environ.get("AOT_FULL"))
# Every run: all kinds of network that are quick to build. AOT_FULL=1: all of them.
SAMPLE_CORPUS = CORPUS
SAMPLE_SEEDED = ("mlp", "resnet18", "mobilenetv2", "squeezenet1_1", "bert_tiny")
SAMPLE_LIGHT = ("squeezenet", "shufflenet", "densenet121")


def run(*args: object) -> str:
    command = [sys.executable, "-m", "aot", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"aotc {' '.join(map(str, args))}\n{done.stdout}{done.stderr}"
    return done.stdout


def check(model: RealModel, out: Path) -> None:
    run(model.path, "-o", out, *model.options())
    built = subprocess.run(["cmake", "--build", out], capture_output=True, text=True, check=False)
    said = built.stdout[-3000:] + built.stderr[-3000:]
    assert built.returncode == 0 and "warning:" not in said, said
    run("verify", out, *(["--inputs", model.inputs] if model.inputs else []))
    memory = json.loads((out / "bundle" / "manifest.json").read_text())["memory"]
    assert memory["optimal"] or memory["arena_bytes"] == memory["lower_bound_bytes"], memory
    if memory["logical_bound_bytes"] > 1_000_000:
        assert memory["arena_bytes"] <= 1.10 * memory["logical_bound_bytes"], memory


@pytest.mark.parametrize("name", CORPUS if FULL else SAMPLE_CORPUS)
def test_corpus(name: str, models_folder: Path, tmp_path: Path) -> None:
    check(corpus(models_folder, name, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("name", SEEDED if FULL else SAMPLE_SEEDED)
def test_seeded(name: str, models_folder: Path, tmp_path: Path) -> None:
    check(seeded(models_folder, name, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("name", LIGHT if FULL else SAMPLE_LIGHT)
def test_light(name: str, tmp_path: Path) -> None:
    check(light(name), tmp_path / "out")
