# SPDX-License-Identifier: Apache-2.0
"""One model on every target: verify, run, bench, size with the same words everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from aot.plan.stack.declare import family, table
from aot.target import load_target, names
from aot.tools.elf_image import measure_image
from aot.tools.linkmap import flash_parts
from targets.images import ALL, DIGITS, FAST, REST, digits, emulate, need_tools

FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")
EVERY = [*FAST, *(pytest.param(n, marks=FULL) for n in REST)]
BOARDS = [p for p in EVERY if load_target(p if isinstance(p, str) else p.values[0]).board]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("targets")


def test_no_target_is_forgotten() -> None:
    others = {n for n in names() if n == "host" or n.startswith("x86-64")}
    assert others | set(ALL) == set(names())


#: Cores that others stand for in the rest of `make test`: flags, start-up code, compiler, emulator.
ALIKE = ("cortex-m85", "rv32imafcv", "rv64gcv")


@pytest.mark.parametrize("name", [*EVERY, *ALIKE])
def test_verify(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = digits(name, folder)
    assert main(["verify", str(out)]) == 0, capsys.readouterr().err
    assert "probabilities: max abs" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["aarch64-linux", "cortex-m4", "rv32imac"])
def test_verify_per_node(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = digits(name, folder)
    assert main(["verify", str(out), "--per-node"]) == 0, capsys.readouterr().err
    assert re.search(r"^(\d+) of \1 values inside agree", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("name", BOARDS)
def test_bench_counts_instructions(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = digits(name, folder)
    records = []
    for _ in range(2):
        assert main(["bench", str(out), "--json", str(tmp_path / "b.json")]) == 0
        records.append(json.loads((tmp_path / "b.json").read_text()))
    assert records[0] == records[1]
    r = records[0]
    few, many = (100_000, 2_000_000) if load_target(name).fpu != "none" else (10**6, 3 * 10**7)
    assert few < r["instructions"] < many
    each = r["instructions_each"]
    assert max(each) - min(each) <= 2 * r["resolution"]
    assert 24_000 < r["flash"] < 70_000 and r["flash"] == r["code"] + r["rodata"] + r["data"]
    assert (
        r["arena"]
        >= json.loads((out / "bundle/manifest.json").read_text())["memory"]["arena_bytes"]
    )
    assert 200 < r["stack"] < load_target(name).stack
    # What was painted holds the frames of the program around the library too.
    assert r["stack_bound"] > 100 and r["stack"] <= r["stack_bound"] + 256
    assert r["ram"] == r["arena"] + r["data"] + r["bss"] + r["stack"] < 16384
    assert "instructions per run" in capsys.readouterr().out


@pytest.mark.parametrize("name", EVERY)
def test_size(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = digits(name, folder)
    assert main(["size", str(out), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert main(["size", str(DIGITS), "--target", name, "--json"]) == 0
    estimated = json.loads(capsys.readouterr().out)
    assert measured["arena"] == estimated["arena"]
    assert 1000 < measured["code"] < 60_000
    stack = measured["stack"]
    if load_target(name).compiler.startswith("clang"):  # it writes no call graph
        assert stack["declared"] is stack["bytes"] is None
        return
    assert stack["declared"] == estimated["stack"]["declared"]
    known = table()[family(load_target(name))]
    assert 100 < stack["bytes"] <= (stack["declared"] if known else 4096)
    assert stack["entry"] == "tvmgen_digits___tvm_main__" and not stack["unknown"]


@pytest.mark.parametrize("name", BOARDS)
def test_image_without_arguments_tests_itself(name: str, folder: Path) -> None:
    done = emulate(digits(name, folder))
    assert done.returncode == 0
    assert "digits: ran twice, outputs 0x" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["--input", "0=nothing.bin"], 1, "cannot open nothing.bin"),
        (["--input", "1=x.bin"], 2, "no such tensor: 1=x.bin"),
        (["--input", "x.bin"], 2, "write I=FILE: x.bin"),
        (["--fill", "0", "--repeat", "9x"], 2, "not a number: 9x"),
        (["--frobnicate", "0"], 2, "unknown option --frobnicate"),
        (["--fill"], 2, "needs a value: --fill"),
        (["--repeat", "1"], 2, "an input is missing"),
    ],
)
def test_arguments_of_the_image(arguments: list[str], code: int, says: str, folder: Path) -> None:
    done = emulate(digits("cortex-m4", folder), *arguments)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr


def test_wrong_number_of_bytes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"123")
    done = emulate(digits("cortex-m4", folder), "--input", f"0={tmp_path}/x.bin")
    assert done.returncode == 1 and "wrong size: " in done.stderr


@pytest.mark.parametrize("name", ["cortex-m4", pytest.param("rv32imac", marks=FULL)])
def test_same_bits_as_the_host_when_strict(name: str, tmp_path: Path) -> None:
    need_tools(name)
    results = {}
    x = np.random.default_rng(1).uniform(0, 16, (1, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", image=x)
    for target in ("host", name):
        aot.compile(DIGITS, tmp_path / target, target=target, accuracy="strict").build()
        words = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(tmp_path / target), *words]) == 0
        results[target] = read_npz(tmp_path / "out.npz")["probabilities"].tobytes()
    assert results["host"] == results[name]


@pytest.mark.parametrize("name", ["cortex-m4", "rv32imac", "rv64gcv"])
def test_warnings_are_errors(name: str, tmp_path: Path) -> None:
    need_tools(name)
    aot.compile(DIGITS, tmp_path, target=name, configure=False)
    configure = ["cmake", "-S", str(tmp_path / "bundle"), "-B", str(tmp_path), "-DAOT_WERROR=ON"]
    build = ["cmake", "--build", str(tmp_path), "--target", "digits-runner", "digits-trace"]
    for command in (configure, build):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_link_map_accounts_for_the_flash(folder: Path) -> None:
    out = digits("cortex-m4", folder)
    parts = flash_parts(out / "digits-runner.map")
    flash = measure_image(out / "bin" / "digits.elf").flash
    assert abs(sum(parts.values()) - flash) < 64
    assert parts["startup"] + parts["runner"] + parts["toolchain"] < 4000
    assert flash_parts(out / "nothing.map") == {}
