# SPDX-License-Identifier: Apache-2.0
"""The program bin/NAME and its trace build."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from abi import toy
from abi.test_context import check, run_mixed
from aot.ir.dtypes import BF16, F16, F64, S16
from aot.ir.program import Arg, Role, Scalar
from needs import need


def refused(program: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run([str(program), *options], capture_output=True, text=True)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.returncode, done.stderr


def test_runner_runs_and_times(mixed_out: Path, tmp_path: Path) -> None:
    program = mixed_out / "bin" / "mixed"
    check(run_mixed(program, tmp_path))
    check(run_mixed(program, tmp_path, "--repeat", "3", "--warmup", "0"))
    timing = json.loads(toy.run(str(program), "--fill", "7", "--repeat", "5"))
    assert timing["runs"] == len(timing["cpu_ns"]) == len(timing["wall_ns"]) == 5
    for clock in ("cpu", "wall"):
        times = sorted(timing[f"{clock}_ns"])
        assert timing[f"{clock}_min_ns"] == times[0] >= 0
        assert timing[f"{clock}_median_ns"] == times[2]
        assert timing[f"{clock}_max_ns"] == times[-1]
    assert json.loads(toy.run(str(program), "--info")) == {
        "name": "mixed", "arena_bytes": 128, "inputs": [24, 8], "outputs": [24, 8, 8],
    }  # fmt: skip


def test_runner_refuses(mixed_out: Path, tmp_path: Path) -> None:
    program = mixed_out / "bin" / "mixed"
    (tmp_path / "short").write_bytes(bytes(23))
    (tmp_path / "long").write_bytes(bytes(25))
    for options, code, words in (
        ((), 2, "input 0 is missing"),
        (("--input", "0=/nonexistent", "--fill", "1"), 1, "cannot open /nonexistent"),
        (("--input", f"0={tmp_path / 'short'}", "--fill", "1"), 1, "fewer bytes than the 24"),
        (("--input", f"0={tmp_path / 'long'}", "--fill", "1"), 1, "more bytes than the 24"),
        (("--input", "2=x"), 2, "there are 2"),
        (("--input", "x"), 2, "write I=FILE"),
        (("--output", "-1=x"), 2, "there are 3"),
        (("--repeat", "0"), 2, "not an integer from 1 on"),
        (("--repeat", "1x"), 2, "not an integer"),
        (("--repeat", ""), 2, "not an integer"),
        (("--repeat", "100000001"), 2, "not an integer"),
        (("--repeat", "9" * 30), 2, "not an integer"),
        (("--input", "0x=y"), 2, "write I=FILE"),
        (("--input", "0="), 2, "write I=FILE"),
        (("--repeat",), 2, "needs a value"),
        (("--frobnicate", "1"), 2, "unknown option --frobnicate"),
        (("file",), 2, "unexpected argument file"),
        (("--trace", "."), 2, "need the program mixed-trace"),
        (("--profile", "1"), 2, "need the program mixed-trace"),
        (("--fill", "1", "--output", "0=/nonexistent/y"), 1, "cannot write /nonexistent/y"),
        (("--fill", "1", "--output", "0=/dev/full"), 1, "cannot write /dev/full"),
    ):
        got, text = refused(program, *options)
        assert (got, words in text) == (code, True), (options, got, text)


def test_trace_and_profile(mixed_out: Path, tmp_path: Path) -> None:
    toy.run("cmake", "--build", str(mixed_out), "--target", "mixed-trace")
    program = mixed_out / "bin" / "mixed-trace"
    manifest = json.loads((mixed_out / "bundle" / "manifest.json").read_text())
    (tmp_path / "dump").mkdir()
    outs = run_mixed(program, tmp_path, "--trace", str(tmp_path / "dump"))
    check(outs)
    lines = (tmp_path / "dump" / "index.jsonl").read_text().splitlines()
    index = [json.loads(line) for line in lines]
    declared = [
        (n["call"], k, w["tensor"], w["nbytes"])
        for n in manifest["nodes"]
        for k, w in enumerate(n["writes"])
    ]
    assert [(e["call"], e["k"], e["tensor"], e["bytes"]) for e in index] == declared
    values = {e["tensor"]: (tmp_path / "dump" / e["file"]).read_bytes() for e in index}
    assert values["sum_out"] == outs[0].tobytes()
    assert values["s"][16:] == outs[1].tobytes()
    assert values["count"] == outs[2].tobytes()
    profile = json.loads(toy.run(str(program), "--fill", "1", "--profile", "3"))
    assert [c["call"] for c in profile["calls"]] == [0, 1, 2, 3]
    assert all(c["wall_median_ns"] >= 0 for c in profile["calls"])


def test_tracing_that_cannot_be_written(mixed_out: Path, tmp_path: Path) -> None:
    toy.run("cmake", "--build", str(mixed_out), "--target", "mixed-trace")
    program = mixed_out / "bin" / "mixed-trace"
    (tmp_path / "index.jsonl").symlink_to("/dev/full")
    for options, code, words in (
        (("--profile", "1", "--repeat", "1"), 2, "only one of"),
        (("--trace", "x" * 4090, "--fill", "1"), 1, "path too long"),
        (("--trace", "/nonexistent", "--fill", "1"), 1, "cannot write /nonexistent/index.jsonl"),
        (("--trace", str(tmp_path), "--fill", "1"), 1, "index.jsonl: No space left on device"),
    ):
        got, text = refused(program, *options)
        assert (got, words in text) == (code, True), (options, got, text)


def test_a_lot_of_memory(mixed_out: Path) -> None:
    """Large blocks begin where Linux may use large pages; what there is not is said."""
    toy.run("cmake", "--build", str(mixed_out), "--target", "mixed-trace")
    program = str(mixed_out / "bin" / "mixed-trace")
    profile = json.loads(toy.run(program, "--fill", "1", "--profile", "140000"))
    assert profile["runs"] == 140000
    assert len(profile["calls"]) == 4
    command = f"ulimit -v 1000000; exec {program} --fill 1 --profile 100000000"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mixed: no memory for 3200000000 bytes\n"


def test_what_cannot_be_said_is_a_failure(mixed_out: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [str(mixed_out / "bin" / "mixed"), "--fill", "1", "--repeat", "1"]
        assert subprocess.run(command, stdout=full).returncode == 1


def test_every_type_is_filled(tmp_path: Path) -> None:
    """Reals in [-1, 1), the 16-bit ones and integers 0 or 1."""
    m = toy.Maker("net")
    kinds = {"d": (F64, "<f8"), "h": (F16, "<f2"), "b": (BF16, "<u2"), "i": (S16, "<i2")}
    size = 1000  # float64: more than stdio holds back
    for name, (dtype, _) in kinds.items():
        m.tensor(name, (size,), Role.INPUT, dtype)
        m.tensor(f"{name}_out", (size,), Role.OUTPUT, dtype)
        params = {"bytes": size * dtype.nbytes}
        m.call("aot_copy", Arg(f"{name}_out", toy.W), Arg(name, toy.R), params=params,
               header="aot_copy.h")  # fmt: skip
    out = toy.build(m.program(list(kinds), [f"{n}_out" for n in kinds]), tmp_path / "o")
    command = [str(out / "bin" / "net"), "--fill", "3"]
    for k in range(len(kinds)):
        command += ["--output", f"{k}={tmp_path / str(k)}"]
    toy.run(*command)
    found = [np.fromfile(tmp_path / str(k), d) for k, (_, d) in enumerate(kinds.values())]
    assert len(set(found[0])) == size
    assert (found[0] >= -1).all()
    assert (found[0] < 1).all()
    for got, one in zip(found[1:], (1.0, 0x3F80, 1), strict=True):
        assert set(got.tolist()) == {0, one}
    got, text = refused(out / "bin" / "net", "--fill", "1", "--output", "0=/dev/full")
    assert (got, "No space left" in text) == (1, True)


def test_a_kernel_that_fails_ends_the_run(tmp_path: Path) -> None:
    m = toy.Maker("net")
    m.tensor("x", (1,), Role.INPUT)
    m.tensor("t", (1,), Role.TEMP)
    m.tensor("y", (1,), Role.OUTPUT)
    m.call("aot_toy_fail", Arg("t", toy.W), Arg("x", toy.R), status=True)
    m.call("aot_copy", Arg("y", toy.W), Arg("t", toy.R), params={"bytes": 4}, header="aot_copy.h")
    out = toy.build(m.program(["x"], ["y"]), tmp_path)
    code, text = refused(out / "bin" / "net", "--fill", "1")
    assert code == 1
    assert "a vendor library reported an error" in text


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_trace_build_guards_the_arena(compiler: str, tmp_path: Path) -> None:
    """With AddressSanitizer a kernel that reads a neighbour of its tensor is stopped."""
    need(compiler)
    m = toy.Maker("net")
    m.tensor("x", (16,), Role.INPUT)
    m.tensor("t", (16,), Role.TEMP)
    m.tensor("u", (16,), Role.TEMP)
    m.tensor("y", (1,), Role.OUTPUT)
    for t in ("t", "u"):
        m.call(
            "aot_copy", Arg(t, toy.W), Arg("x", toy.R), params={"bytes": 64}, header="aot_copy.h"
        )
    m.call("aot_toy_overread", Arg("y", toy.W), Arg("t", toy.R), Scalar(16, "int32_t"))
    flags = "-fsanitize=address -g"
    program = m.program(["x"], ["y"])
    out = toy.build(program, tmp_path, compiler=compiler, cflags=flags)
    toy.run("cmake", "--build", str(out), "--target", "net-trace")
    toy.run(str(out / "bin" / "net"), "--fill", "1")
    command = [str(out / "bin" / "net-trace"), "--fill", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "use-after-poison" in done.stderr
    assert "aot_toy_overread" in done.stderr
