# SPDX-License-Identifier: Apache-2.0
"""The firmwares of examples/ in QEMU, as their READMEs say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from aot.cli import main
from aot.target import load_target
from rtos.images import PORTS
from targets.images import need_tools

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BOARD = ["--target", "cortex-m4", "--no-configure", "-q"]


def model(name: str, folder: Path) -> None:
    """Lets the script of an example write its models to `folder`."""
    subprocess.run([sys.executable, EXAMPLES / name / "model.py"], cwd=folder, check=True)


def compiled(network: Path, out: Path, *words: str) -> Path:
    """The bundle of a network in `out`."""
    assert main([str(network), "-o", str(out), *words, *BOARD]) == 0
    return out / "bundle"


def said(source: Path, build: Path, image: str, bundle: Path, **given: object) -> list[str]:
    """The lines that the image of a CMake project prints in QEMU."""
    tools = bundle / "cmake" / "toolchain.cmake"
    words = [f"-DCMAKE_TOOLCHAIN_FILE={tools}", *(f"-D{k}={v}" for k, v in given.items())]
    for step in (["-S", source, "-B", build, *words], ["--build", build]):
        done = subprocess.run(["cmake", *step], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    program = [
        *(*load_target("cortex-m4").emulator, "-icount", "shift=4,sleep=off", "-nographic"),
        *("-monitor", "none", "-serial", "none"),
        *("-semihosting-config", "enable=on,target=native", "-kernel", build / image),
    ]
    found = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    return found.stderr.splitlines()


def test_weights_over_the_air(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    model("anomaly", tmp_path)
    versions = {
        name.upper(): compiled(
            *(tmp_path / f"{name}.onnx", tmp_path / name, "--name", "anomaly"),
            *("--weights", "blob"),
        )
        for name in ("before", "after", "worse")
    }
    code = [(bundle / "src" / "anomaly_run.c").read_bytes() for bundle in versions.values()]
    assert len(set(code)) == 1
    lines = said(
        EXAMPLES / "anomaly", tmp_path / "build", "firmware", versions["BEFORE"], **versions
    )
    assert [line.split(";")[0] for line in lines] == [
        "shipped",
        "refused: the signature is wrong",
        "refused: other weights, or damaged ones",
        "rolled back: the trial failed",
        "taken",
    ]
    scores = [line.split(";")[1] for line in lines]
    assert scores[:4] == [" whistling 154, broken 4643"] * 4
    assert scores[4] == " whistling 0, broken 4179"


def test_wake_word(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    model("wake_word", tmp_path)
    bundle = compiled(tmp_path / "wake.onnx", tmp_path / "out", "--state", "before=after")
    lines = said(EXAMPLES / "wake_word", tmp_path / "build", "firmware", bundle, MODEL=bundle)
    assert lines == ["awake at frame 15", "command", "asleep"]


def test_accelerator(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    words = ("--name", "digits", "--backend", "accel_sim:64", "--require-backend")
    bundle = compiled(EXAMPLES / "digits" / "digits_int8.onnx", tmp_path / "out", *words)
    lines = said(EXAMPLES / "accelerator", tmp_path / "build", "firmware", bundle, MODEL=bundle)
    assert lines == ["ok, digit 7"]


def test_keywords(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    model("keywords", tmp_path)
    bundle = compiled(tmp_path / "keywords.onnx", tmp_path / "out")
    given = {
        "MODEL": bundle,
        "NAME": "keywords",
        "START": "keywords_start",
        "PROGRAM": EXAMPLES / "keywords" / "keywords.c",
        "CLOCK_HZ": load_target("cortex-m4").tick_hz,
        "CPU_FLAGS": ";".join(load_target("cortex-m4").cflags),
        "FREERTOS_KERNEL_PATH": os.environ.get("FREERTOS_KERNEL_PATH", ""),
        "FREERTOS_PORT": PORTS["cortex-m4"],
    }
    lines = said(ROOT / "tests" / "rtos", tmp_path / "build", "program", bundle, **given)
    assert lines == ["silence", "low", "silence", "high", "silence", "samples lost: 0"]
