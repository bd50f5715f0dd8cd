# SPDX-License-Identifier: Apache-2.0
"""ESP-NN as a vendor: bits of TensorFlow Lite on a host and on RISC-V, sizes, where it is found."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import harness
import merged
import numpy as np
import onnx
import pytest

from aot.api import compile_to
from aot.cli import main as aotc
from aot.options import Options
from aot.target import load_target
from aot.tools.run import execute, open_out
from aot.vendor.esp_nn import backend
from aot.vendor.esp_nn.scratch import P4, S3, VARIANTS, Geometry
from corpus_models import tflite_outputs
from needs import need
from quant_graphs import Net, quantised_values

STANDIN, VARIABLE = Path(__file__).parent / "esp_nn_standin", "AOT_ESP_NN_ROOT"
ROOTS = ("stand-in", "library")
FULL = bool(os.environ.get("AOT_FULL"))
TINY = ("ic", "kws", "sww", "vww") if FULL else ("kws",)


def root(kind: str) -> Path:
    """The folder to give as AOT_ESP_NN_ROOT."""
    if kind == "stand-in":
        return STANDIN
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} is not set: tried with the stand-in only")
    return Path(os.environ[VARIABLE])


def can_run(target: str) -> None:
    """Skip where the target's compiler or emulator is not installed."""
    wanted = load_target(target)
    for program in (wanted.compiler, *wanted.emulator[:1]):
        if program:
            need(program, f"apt-get install {' '.join(wanted.packages)}")


@pytest.fixture(scope="module")
def parts() -> list[merged.Part]:
    """The cases of the vendor's patterns that it takes."""
    found = []
    for job in harness.collect(patterns=backend.patterns):
        assert job.model is not None and not job.error, job.error
        given = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, given, job.want, job.case)
        part.taken = merged.taken_by(part, "esp_nn")
        found += [part] if part.taken else []
    return found


def test_every_pattern_has_a_case(parts: list[merged.Part]) -> None:
    assert {t for part in parts for t in part.taken} == {p.name for p in backend.patterns}


def build(out: Path, *options: str) -> None:
    """Configure and build the bundle in OUT."""
    for command in (["-S", out / "bundle", "-B", out, *options], ["--build", out]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]


def results(out: Path, switch: str, place: Path, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of the bundle in OUT, built with the vendor ON or OFF."""
    build(out, f"-DAOT_ESP_NN={switch}", "-DAOT_WERROR=ON", f"-D{VARIABLE}={place}")
    return list(execute(open_out(out), arrays))


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("target", ["host", "rv32imc"])
def test_the_bits_of_tflite(
    parts: list[merged.Part], target: str, kind: str, tmp_path: Path
) -> None:
    can_run(target)
    place, out = root(kind), tmp_path / "out"
    model, arrays = merged.merge(parts)
    options = Options(name="net", backends=("esp_nn",), target=target, requant="tflite")
    compile_to(model, out, options, configure=False)
    theirs, ours = (results(out, switch, place, arrays) for switch in ("ON", "OFF"))
    names = [p.label for p in parts for _ in p.want]
    off = [int(np.abs(a.astype(int) - b).max()) for a, b in zip(theirs, ours, strict=True)]
    assert [(n, d) for n, d in zip(names, off, strict=True) if d] == []


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("target", ["rv32imc"])
@pytest.mark.parametrize("name", TINY)
def test_networks_are_wholly_the_vendors(
    name: str,
    target: str,
    kind: str,
    models_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    can_run(target)
    monkeypatch.setenv(VARIABLE, str(root(kind)))
    model, out = f"mlperf_{name}_int8", str(tmp_path / "out")
    np.savez(tmp_path / "io.npz", **tflite_outputs(models_folder, model))
    compiled = [str(models_folder / f"{model}.onnx"), "-o", out, "--requant", "tflite"]
    compiled += ["--target", target, "--backend", "esp_nn", "--require-backend"]
    assert aotc(compiled) == 0, capsys.readouterr().err
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    capsys.readouterr()
    assert aotc(["verify", out, "--inputs", str(tmp_path / "io.npz"), "--per-region"]) == 0
    said = capsys.readouterr().out
    stored = [line for line in said.splitlines() if "(stored)" in line]
    regions = [line for line in said.splitlines() if line.startswith("  region ")]
    assert len(stored) == 4 and all("max abs 0," in line for line in stored + regions), said


def some_images(parts: list[merged.Part]) -> list[merged.Part]:
    """Parts of one image of several rows."""
    images = [p for p in parts if {len(a.shape) for a in p.feeds.values()} == {4}]
    images = [p for p in images if "qsoftmax" not in p.taken]
    return [p for p in images if all(a.shape[0] == 1 for a in p.feeds.values())][
        :: 1 if FULL else 3
    ]


def test_rows_are_those_of_whole_tensors(parts: list[merged.Part], tmp_path: Path) -> None:
    model, arrays = merged.merge(some_images(parts))
    declared, streamed = merged.by_rows(model, "esp_nn", tmp_path / "rows", requant="tflite")
    assert declared == streamed and len(declared) > 2, declared - streamed
    options = Options(name="net", backends=("esp_nn",), requant="tflite")
    compile_to(model, tmp_path / "whole", options, configure=False)
    whole, rows = (results(tmp_path / n, "ON", STANDIN, arrays) for n in ("whole", "rows"))
    assert [k for k, (a, b) in enumerate(zip(whole, rows, strict=True)) if (a != b).any()] == []


def test_a_budget_of_ram_is_met_by_rows(models_folder: Path, tmp_path: Path) -> None:
    """Also what the library takes of the stack is counted; of its assembly nothing is known."""
    can_run("rv32imc")
    model, found = models_folder / "mlperf_kws_int8.onnx", []
    data = np.random.default_rng(2).integers(-128, 128, (1, 49, 10, 1)).astype(np.int8)
    for budget in (None, 16 * 1024):
        out = tmp_path / str(budget)
        options = Options(name="net", backends=("esp_nn",), target="rv32imc", ram=budget)
        memory = compile_to(model, out, options, configure=False).manifest["memory"]
        taken = memory["arena_bytes"] + memory["static_bytes"] + memory["stack_bytes"]
        assert (taken > 16 * 1024, "by_rows" in memory) == (budget is None, budget is not None)
        found += results(out, "ON", STANDIN, [data])
    np.testing.assert_array_equal(*found)
    options = Options(name="net", backends=("esp_nn:esp32p4",), target="rv32imc")
    made = compile_to(model, tmp_path / "p4", options, configure=False).manifest
    assert made["memory"]["stack_bytes"] is None
    build(tmp_path / "p4", f"-D{VARIABLE}={STANDIN}", "-DAOT_WERROR=ON")


def conv(
    x: tuple[int, ...], w: tuple[int, ...], to: tuple[float, int] = (0.2, 1), **attrs: object
) -> Net:
    """A convolution between quantised values."""
    net = Net(x=("int8", x))
    weights = net.dq(net.const(quantised_values(*w)), 0.01, np.int8(0))
    y = net.add("Conv", net.dq("x", 0.05, np.int8(3)), weights, **attrs)
    net.q(y, to[0], np.int8(to[1]), out="y")
    return net


def pair(op_type: str, b: tuple[int, ...], scale: float) -> Net:
    """An operator of two operands."""
    net = Net(a=("int8", (1, 4, 8, 8)), b=("int8", b))
    y = net.add(op_type, net.dq("a", 0.05, np.int8(3)), net.dq("b", 0.07, np.int8(-4)))
    net.q(y, scale, np.int8(0), out="y")
    return net


REFUSED = [
    (conv((1, 1, 40000), (1, 1, 3)), "an extent of 40000 (needs less than 32768)"),
    (conv((1, 4, 5, 5), (4, 4, 1, 1), pads=[1, 1, 1, 1]), "pads [1, 1, 1, 1] of one position"),
    (conv((1, 4, 4, 4), (4, 2, 3, 3), group=2), "2 groups (needs 1, or one a channel)"),
    (conv((1, 4, 9, 9), (4, 4, 3, 3), dilations=[2, 2]), "dilations [2, 2] (need to be 1)"),
    (pair("Add", (1, 4, 1, 1), 0.1), "(need equal shapes)"),
]


@pytest.mark.parametrize(("net", "reason"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_refusals_say_why(net: Net, reason: str) -> None:
    partition = merged.partition_of(net.model(y="int8"), ("esp_nn",))
    reasons = [r.reason for r in partition.refusals if r.backend == "esp_nn"]
    assert any(reason in r for r in reasons), reasons
    assert {s.backend for s in partition.items} == {"c"}


def test_a_variant_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(conv((1, 4, 4, 4), (4, 4, 3, 3)).model(y="int8"), tmp_path / "net.onnx")
    words = [str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out"), "--backend", "esp_nn:esp32"]
    assert aotc(words) == 2
    assert "esp_nn:esp32: no such variant" in (said := capsys.readouterr().err)
    assert all(v in said for v in VARIANTS)


@pytest.mark.parametrize(("variant", "code"), [("c", 1), ("esp32p4", 0)])
def test_a_library_that_wants_more_scratch_fails_the_run(
    variant: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    onnx.save(conv((1, 8, 9, 9), (8, 8, 3, 3)).model(y="int8"), tmp_path / "net.onnx")
    out = tmp_path / "out"
    words = [str(tmp_path / "net.onnx"), "-o", str(out), "--backend", f"esp_nn:{variant}"]
    assert aotc([*words, "--no-configure"]) == 0
    build(out, f"-D{VARIABLE}={STANDIN}", "-DCMAKE_C_FLAGS=-DSTANDIN_BYTES=64")
    np.savez(tmp_path / "in.npz", x=quantised_values(1, 8, 9, 9))
    ran = ["run", str(out), "--inputs", str(tmp_path / "in.npz")]
    assert aotc([*ran, "--outputs", str(tmp_path / "out.npz")]) == code
    assert ("vendor" in capfd.readouterr().err) == bool(code)


# -- where the library is -----------------------------------------------------------------------

PROJECT = """cmake_minimum_required(VERSION 3.16)
project(p C)
add_library(p-objects OBJECT p.c)
target_compile_options(p-objects PRIVATE -Wall)
{before}
set(aot_vendor_why "its library was not found.")
include("{find}")
if(NOT TARGET ESP::NN)
  message(FATAL_ERROR "vendor esp_nn: ${{aot_vendor_why}}")
endif()
get_target_property(links ESP::NN INTERFACE_LINK_LIBRARIES)
message(STATUS "links ${{links}} headers")
"""


def configured(folder: Path, place: Path | None, before: str = "") -> str:
    """What CMake says of a project with that text before the search, in one line."""
    assert backend.folder is not None
    text = PROJECT.format(before=before, find=(backend.folder / backend.find).as_posix())
    (folder / "CMakeLists.txt").write_text(text)
    (folder / "p.c").touch()
    env = {k: v for k, v in os.environ.items() if k != VARIABLE}
    env |= {} if place is None else {VARIABLE: str(place)}
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return " ".join((done.stdout + done.stderr).split())


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "vendor esp_nn: its library was not found." in configured(tmp_path, None)
    place = tmp_path / "root"
    (place / "include").mkdir(parents=True)
    assert "has no include/esp_nn.h" in configured(tmp_path, place)
    text = (STANDIN / "include" / "esp_nn.h").read_text()
    (place / "include" / "esp_nn.h").write_text(text.replace("per_ch", "of_old"))
    assert "has no esp_nn_fully_connected_per_ch_s8" in configured(tmp_path, place)
    (place / "include" / "esp_nn.h").write_text(text)
    assert "but no sources in ../src" in configured(tmp_path, place)
    (place / "idf_component.yml").write_text('version: "2.0.1"\n')
    said = configured(tmp_path, Path("root"))
    assert f"ESP-NN 2.0.1 in {place} does not fit (needs 1.2)." in said, said


@pytest.mark.parametrize(
    "before",
    [
        "add_library(esp-nn INTERFACE)\nset(CONFIG_NN_SKIP_NUDGE y)",
        "add_library(esp-nn STATIC p.c)\ntarget_compile_definitions(esp-nn PRIVATE SKIP_NUDGE)",
        'add_library(esp-nn INTERFACE)\nset(CMAKE_C_FLAGS "-DCONFIG_NN_SKIP_NUDGE")',
    ],
)
def test_a_library_that_rounds_otherwise(before: str, tmp_path: Path) -> None:
    assert "CONFIG_NN_SKIP_NUDGE, which rounds otherwise" in configured(tmp_path, None, before)


def test_where_the_library_is_found(tmp_path: Path) -> None:
    assert "links esp-nn headers" in configured(tmp_path, STANDIN)
    for name in ("esp-nn", "idf::esp-nn", "idf::espressif__esp-nn"):
        before = f"add_library({name} INTERFACE {'IMPORTED' if ':' in name else ''})"
        assert f"links {name} headers" in configured(tmp_path, tmp_path / "nowhere", before)


# -- sizes --------------------------------------------------------------------------------------


def some_geometry(r: random.Random) -> Geometry:
    """A convolution of one group, or of filters per channel."""
    h, w = r.choice([1, 5, 12, 40]), r.randint(4, 60)
    kh, kw = (1, 1) if r.random() < 0.3 else (r.randint(1, min(3, h)), r.randint(1, 4))
    if r.random() < 0.3 and h > 2:
        kh, kw = 3, 3
    stride = (1, 1) if r.random() < 0.5 else (r.randint(1, 2), r.randint(1, 3))
    pad = (0, 0) if r.random() < 0.4 else (r.randint(0, 1) if kh > 1 else 0, r.randint(0, 2))
    channels = r.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40])
    ends = zip((h, w), (kh, kw), pad, stride, strict=True)
    y = [(n + 2 * p - k) // s + 1 for n, k, p, s in ends]
    out = channels * r.randint(1, 4)
    weights = (out, kh, kw, channels)
    return Geometry((1, h, w, channels), weights, (1, *y, out), stride, pad, (1, 1))


def test_scratch_is_as_large_as_the_library_says(tmp_path: Path) -> None:
    place, r = root("library"), random.Random(5)
    made = [some_geometry(r) for _ in range(2000)]
    text = ""
    for file in sorted((place / "src" / "convolution").glob("*.c")):
        pattern = r"^int esp_nn_get\w*_scratch_size_esp32(?:s3|p4)\(.*?^}$"
        text += "\n".join(re.findall(pattern, file.read_text(), re.DOTALL | re.MULTILINE)) + "\n"
    (tmp_path / "sizes.inc").write_text(text)
    program = tmp_path / "sizes"
    source = Path(__file__).parent / "esp_nn_sizes.c"
    command = ["gcc", "-w", "-I", place / "include", f'-DSIZES="{tmp_path}/sizes.inc"', source]
    subprocess.run([*command, "-o", program], check=True)
    numbers = [(*g.x, *g.w, *g.y, *g.stride, *g.pad, g.y[3] // g.x[3]) for g in made]
    rows = "\n".join(" ".join(map(str, row)) for row in numbers)
    said = subprocess.run([program], input=rows, capture_output=True, text=True, check=True).stdout
    found = [tuple(map(int, line.split())) for line in said.splitlines()]
    own = [(g.bytes(S3), g.bytes(P4), g.depthwise_bytes(S3)) for g in made]
    assert [(g, a, b) for g, a, b in zip(made, own, found, strict=True) if a != b] == []
