# SPDX-License-Identifier: Apache-2.0
"""Ethos-U as a vendor: regions as TensorFlow Lite sees them, their streams as the driver does."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import harness
import merged
import numpy as np
import pytest

from aot.api import compile_to
from aot.options import Options
from aot.tools.run import execute, open_out
from aot.vendor.ethos_u import backend
from needs import need_module

FULL = bool(os.environ.get("AOT_FULL"))
#: Networks of MLPerf Tiny whose stored results are TensorFlow Lite's.
TINY = ("ad", "ic", "kws", "sww", "vww") if FULL else ("kws",)
NPUS = ("u55-128", "u55-256", "u65-512", "u85-256") if FULL else ("u55-128",)
#: Patterns whose results portable C and TensorFlow Lite may round apart by one: these come from a
#: table of 256 rounded real numbers here, from fixed point there.
APART = {"qunary": 1, "qbilinear": 1}


@pytest.fixture(autouse=True)
def vela() -> None:
    need_module("ethosu")


def interpreted(network: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a region's network by TensorFlow Lite's reference kernels, by their names in
    the model, as the inputs."""
    module = need_module("ai_edge_litert.interpreter")
    kernels = module.OpResolverType.BUILTIN_REF
    run = module.Interpreter(str(network), experimental_op_resolver_type=kernels)
    run.allocate_tensors()
    ends = json.loads(network.with_suffix(".json").read_text())
    for name, tensor in zip(ends["inputs"], run.get_input_details(), strict=True):
        run.set_tensor(tensor["index"], feeds[name].reshape(tensor["shape"]))
    run.invoke()
    results = [run.get_tensor(t["index"]) for t in run.get_output_details()]
    return dict(zip(ends["outputs"], results, strict=True))


def built(out: Path, *options: str) -> None:
    """Configure and build the bundle in OUT."""
    strict = ["-DAOT_WERROR=ON", *options]
    for command in (["-S", out / "bundle", "-B", out, *strict], ["--build", out]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


def stored(array: np.ndarray) -> np.ndarray:
    """The elements in the order of a network's tensors: channels last where there are positions."""
    return (np.moveaxis(array, 1, -1) if array.ndim > 2 else array).reshape(-1)


@pytest.fixture(scope="module")
def parts() -> list[merged.Part]:
    """The cases of the vendor's patterns that it takes, of int8."""
    need_module("ethosu")
    found = []
    for job in harness.collect(patterns=backend.patterns):
        assert job.model is not None and not job.error, job.error
        given = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, given, job.want, job.case)
        if all(a.dtype == np.int8 for a in (*given.values(), *job.want)):
            part.taken = merged.taken_by(part, "ethos_u")
        found += [part] if part.taken else []
    return found


def test_every_pattern_has_a_case(parts: list[merged.Part]) -> None:
    moving = {"qreshape", "qtranspose"}  # taken beside layers only: networks have them
    assert {t for part in parts for t in part.taken} == {p.name for p in backend.patterns} - moving


def test_the_bits_of_tflite(parts: list[merged.Part], tmp_path: Path) -> None:
    """What stands in for a region computes what TensorFlow Lite computes of the region's file."""
    model, arrays = merged.merge(parts)
    options = Options(name="net", backends=("ethos_u",), requant="tflite")
    compile_to(model, tmp_path, options, configure=False)
    built(tmp_path)
    got = dict(
        zip(
            (v.name for v in model.graph.output),
            execute(open_out(tmp_path), arrays),
            strict=True,
        )
    )
    feeds = {v.name: stored(a) for v, a in zip(model.graph.input, arrays, strict=True)}
    theirs: dict[str, np.ndarray] = {}
    for network in (tmp_path / "bundle" / "ethos_u").glob("*.tflite"):
        theirs |= interpreted(network, feeds)
    wrong = []
    for number, part in enumerate(parts):
        for name in (f"p{number}_{v.name}" for v in part.model.graph.output):
            apart = np.abs(stored(got[name]).astype(int) - theirs[name].reshape(-1).astype(int))
            if apart.max() > max(APART.get(t, 0) for t in part.taken):
                wrong.append(f"{part.label}: {np.count_nonzero(apart)} by up to {apart.max()}")
    assert not wrong
