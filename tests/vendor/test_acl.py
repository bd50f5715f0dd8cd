# SPDX-License-Identifier: Apache-2.0
"""Arm Compute Library: what is taken and refused, what CMake says of a library that does not fit;
on aarch64 its own cases in one bundle, and MobileNetV2 whole (AOT_FULL=1)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import harness
import merged
import onnx
import pytest

from aot.cli import main as aotc
from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from aot.vendor import QuantisedProduct
from aot.vendor.acl import backend
from aot.vendor.acl.layers import rescaled
from corpus_models import seeded
from graphs import model
from needs import missing, need

ARM64 = Path(__file__).parents[2] / "build" / "arm64"
FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")


def need_library() -> dict[str, str]:
    """The environment in which a bundle for aarch64 is configured."""
    need("aarch64-linux-gnu-g++", "apt-get install g++-aarch64-linux-gnu")
    if not list(ARM64.glob("usr/include/*/arm_compute/runtime/NEON/NEFunctions.h")):
        missing("Arm Compute Library for arm64", "make build/arm64")
    return {"acl_ROOT": str(ARM64)}


def parts_of_cases() -> list[merged.Part]:
    """A part per case of the vendor, with the patterns that compute it."""
    parts = []
    for job in harness.collect(patterns=backend.patterns):
        assert not job.error and job.model is not None, job.error
        given = harness.feeds(job.model, job.case)
        parts.append(merged.Part(job.label, job.model, given, job.want, job.case))
        parts[-1].taken = merged.taken_by(parts[-1], "acl")
    return parts


def test_cases_of_every_pattern_are_taken() -> None:
    parts = parts_of_cases()
    assert {p.name for p in backend.patterns} <= {name for each in parts for name in each.taken}
    refused = {each.label.split("[")[0] for each in parts if not each.taken}
    assert refused <= {"qconv", "qdense"}


@FULL
def test_own_cases_are_right(tmp_path: Path) -> None:
    environment, parts, out = need_library(), parts_of_cases(), tmp_path / "out"
    arrays = merged.compile_parts(parts, "acl", out, "aarch64-linux")
    merged.build(out, environment)
    wrong = merged.run(parts, arrays, out)
    assert not wrong, "\n".join(wrong)


def test_creators_may_name_the_type_of_a_constant(models_folder: Path, tmp_path: Path) -> None:
    """A constant of a creator is a table of floats here, and bytes of a file there."""
    need("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")
    path, out = models_folder / "mlperf_vww_int8.onnx", tmp_path / "out"
    words = [str(path), "-o", str(out), "--backend", "acl", "--target", "aarch64-linux"]
    assert aotc([*words, "--no-configure"]) == 0
    source, places = out / "bundle" / "src", ("include", "src", "src/kernels")
    text = (source / "mlperf_vww_int8_acl.c").read_text()
    assert "_scales (mlperf_vww_int8_vendor_acl_weights + " in text
    command = ["aarch64-linux-gnu-gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command += [f"-I{out / 'bundle' / p}" for p in places]
    subprocess.run([*command, str(source / "mlperf_vww_int8_acl.c")], check=True)


def test_factors_of_sums_are_those_that_the_library_takes(models_folder: Path) -> None:
    """It takes factors below 1e-5 as 0 and none of 1: layers of VWW have channels of both."""
    qconv = next(p for p in backend.patterns if p.name == "qconv")
    options = load_options(Options(backends=("acl",)), [load_all(), backend])
    graph = normalise(load(models_folder / "mlperf_vww_int8.onnx", options), options).graph
    matches = (qconv.match(node) for node in graph.all_nodes())
    found = [QuantisedProduct.of(m) for m in matches if m is not None]
    before = [p.x.s * p.w.scale / p.y.s for p in found]
    assert min(f.min() for f in before) < 1e-6 and max(f.max() for f in before) == 1
    for p, old in zip(found, before, strict=True):
        w, bias, scale, moved = rescaled(p)
        new = p.x.s * scale / p.y.s
        assert new.min() >= 1e-5 and new.max() < 0.999 and moved < 0.02
        assert abs(bias * new - p.bias * old).max() < 1e-4
        same = (old >= 1e-4) & (old < 0.999)
        assert (w[same] == p.w.stored[same]).all() and (scale[same] == p.w.scale[same]).all()


@FULL
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("mobilenetv2", ["aot_to_blocked"]),
        ("mobilenetv2_int8", ["aot_to_blocked", "aot_qavgpool_s8"]),
        ("mlperf_vww_int8", ["aot_qavgpool_s8", "aot_qsoftmax_s8"]),
    ],
)
def test_networks_are_taken_whole(
    name: str,
    left: list[str],
    models_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one region but for what the library has not: a mean and a Softmax of int8."""
    monkeypatch.setenv("acl_ROOT", need_library()["acl_ROOT"])
    stored, out = models_folder / f"{name}.onnx", tmp_path / "out"
    path = stored if stored.is_file() else seeded(models_folder, name, tmp_path).path
    words = [str(path), "-o", str(out), "--backend", "acl", "--target", "aarch64-linux"]
    assert aotc(words) == 0
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    assert aotc(["verify", str(out), "--reference", "ort"]) == 0
    made = json.loads((out / "bundle" / "manifest.json").read_text())
    assert [r["kernel"] for r in made["nodes"] if r["backend"] == "c"] == left
    assert len(made["regions"]) == (2 if "aot_qavgpool_s8" in left else 1)


def relu(folder: Path) -> list[str]:
    """The words that compile a Relu for the vendor."""
    onnx.save(model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": None}), folder / "relu.onnx")
    return [str(folder / "relu.onnx"), "-o", str(folder / "out"), "--backend", "acl"]


def test_another_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert aotc([*relu(tmp_path), "--target", "x86-64", "--no-configure"]) == 1
    text = capsys.readouterr().err
    assert "Arm Compute Library is for aarch64, target x86-64 is x86_64" in text
    assert "say --target aarch64-linux, or leave out --backend acl" in text


@pytest.mark.parametrize(
    ("processor", "header", "why"),
    [
        ("aarch64", "", "is no Arm Compute Library 20.08"),
        ("x86_64", "CPP/ICPPSimpleKernel.h", "its library is for aarch64, and this is x86_64"),
    ],
)
def test_a_library_that_does_not_fit_is_named(
    processor: str, header: str, why: str, tmp_path: Path
) -> None:
    for path in ("runtime/NEON/NEFunctions.h", f"core/{header or 'other.h'}"):
        file = tmp_path / "include" / "arm_compute" / path
        file.parent.mkdir(parents=True)
        file.touch()
    (tmp_path / "lib").mkdir()
    for name in ("arm_compute", "arm_compute_core"):
        (tmp_path / "lib" / f"lib{name}.so").touch()
    assert backend.folder is not None
    script = tmp_path / "find.cmake"
    script.write_text(
        f'set(CMAKE_SYSTEM_PROCESSOR {processor})\nset(acl_ROOT "{tmp_path.as_posix()}")\n'
        f'include("{(backend.folder / backend.find).as_posix()}")\n'
        'message(STATUS "why: ${aot_vendor_why}")\n'
    )
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, check=False)
    assert why in " ".join(done.stdout.split()), done.stderr
