# SPDX-License-Identifier: Apache-2.0
"""Budgets of flash and stack, sizes by symbol and node, instructions by node."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
import graphs
from aot.cli import main
from aot.errors import TargetError, UsageError
from aot.options import Options
from aot.tools.elf_image import measure_image
from aot.tools.run import open_out
from targets.images import DIGITS, digits, need_tools


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("budgets")


def compile_words(out: Path, *words: str) -> list[str]:
    return [str(DIGITS), "-o", str(out), "--target", "cortex-m4", *words]


def test_constants_alone_exceed_the_flash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = compile_words(tmp_path / "o", "--flash", "16K", "--no-configure")
    assert main(words) == 1
    error = capsys.readouterr().err
    assert "--flash 16384: constants take 24360 bytes" in error
    assert "nodes with the most bytes: relu2 18560, fc 5160" in error and "hint:" in error
    assert not (tmp_path / "o").exists()
    assert main([*words[:3], "--flash", "30K", "--no-configure"]) == 1  # with the host's code
    assert "code about" in capsys.readouterr().err


def test_remedies_have_the_bytes_that_planning_with_them_gives(tmp_path: Path) -> None:
    model = DIGITS.with_name("digits_int8.onnx")
    given: dict[str, Any] = {"target": "x86-64-v4-vnni", "configure": False}
    with pytest.raises(TargetError) as missed:
        aot.compile(model, tmp_path / "o", ram=2048, **given)
    smallest = aot.compile(model, tmp_path / "r", objective="ram", **given).manifest["memory"]
    needed = sum(smallest[k] for k in ("arena_bytes", "static_bytes", "stack_bytes"))
    assert f"--objective ram needs {needed} bytes; " in missed.value.hint
    weights = np.ones((32, 32, 3, 3), np.float32)
    shape = (1, 32, 24, 24)
    wide = graphs.model(
        [("Conv", "x w", "y", {"pads": [1] * 4})], {"x": shape}, {"y": shape}, {"w": weights}
    )
    with pytest.raises(TargetError) as missed:
        aot.compile(wide, tmp_path / "o", flash=8000, **given)
    small = aot.compile(wide, tmp_path / "f", objective="flash", **given)
    constants = small.manifest["memory"]["constants_bytes"]
    found = re.search(r"--objective flash needs (\d+) bytes", missed.value.hint)
    assert found and constants < int(found[1]) < constants + 50_000


def test_the_linker_knows_the_flash(tmp_path: Path) -> None:
    """What the estimate is too rough for the linker refuses; the rest is refused before."""
    need_tools("cortex-m4")
    built = aot.compile(DIGITS, tmp_path / "o", target="cortex-m4", flash=64 * 1024).build()
    linked = measure_image(open_out(built.out).program()).flash
    aot.compile(DIGITS, tmp_path / "p", target="cortex-m4", flash=linked - 64)
    command = ["cmake", "--build", str(tmp_path / "p")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"the image exceeds --flash {linked - 64}" in done.stdout + done.stderr
    with pytest.raises(TargetError, match="code about") as missed:
        aot.compile(DIGITS, tmp_path / "q", target="cortex-m4", flash=linked * 4 // 5)
    assert "; code: functions of kernels " in str(missed.value)


def test_a_stack_that_is_enough_and_ones_that_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_tools("cortex-m4")
    assert main(compile_words(tmp_path / "o", "--stack", "100", "--no-configure")) == 1
    assert "--stack 100: the entries and a kernel need 192 bytes" in capsys.readouterr().err
    assert main(compile_words(tmp_path / "o", "--stack", "1000", "--no-configure")) == 1
    error = capsys.readouterr().err
    assert "--stack 1000: the entries may take 1" in error
    assert "most of the stack at fc (aot_gemm_f32)" in error and "aotc size" in error
    bundle = aot.compile(DIGITS, tmp_path / "o", target="cortex-m4", stack=1600).build()
    assert "aot_stack_top - 1600" in (bundle.out / "bundle/board/link.ld").read_text()
    assert main(["bench", str(bundle.out), "--json", str(tmp_path / "b.json")]) == 0
    record = json.loads((tmp_path / "b.json").read_text())
    assert record["stack"] < record["stack_bound"] + 256 < 1024
    assert "frame-larger-than=1344" in (bundle.out / "bundle/CMakeLists.txt").read_text()


@pytest.mark.parametrize("option", ["flash", "stack", "ram"])
def test_budgets_are_positive(option: str) -> None:
    with pytest.raises(UsageError, match=f"--{option} 0: must be positive"):
        Options(**{option: 0})


def test_sizes_by_symbol_and_node(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = digits("cortex-m4", folder)
    assert main(["size", str(out), "--symbols", "--per-node", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    symbols = {s["name"]: s for s in record["symbols"]}
    assert symbols["digits_weights"]["kind"] == "const"
    assert symbols["digits_execute"]["kind"] == "code"
    assert sum(n["constants"] for n in record["nodes"]) == record["constants"] == 24360
    first = record["nodes"][0]
    assert first["nodes"] == "conv1 + relu1" and first["code"] > 200 and first["constants"] > 600
    assert main(["size", str(out), "--symbols", "--per-node"]) == 0
    text = capsys.readouterr().out
    assert "digits_weights" in text and "conv1 + relu1 (digits_k" in text


@pytest.mark.parametrize("name", ["cortex-m4", "rv32imac"])
def test_instructions_by_node(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = digits(name, folder)
    target = tmp_path / "b.json"
    assert main(["bench", str(out), "--per-node", "--json", str(target)]) == 0
    record = json.loads(target.read_text())
    total = sum(n["amount"] for n in record["nodes"])
    assert abs(total - record["instructions"]) < 0.05 * record["instructions"] + 2000
    assert "conv2 + relu2" in capsys.readouterr().out
    assert record["flash_parts"]["library"] > record["flash_parts"]["runner"]
