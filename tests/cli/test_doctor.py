# SPDX-License-Identifier: Apache-2.0
"""`aotc doctor` on machines that have this and lack that: a PATH of links, metadata of our own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from aot import target as targets
from aot.cli import main
from aot.cli.commands import doctor
from aot.target import load_target, names
from aot.vendor.find import bundled

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(doctor.__file__).with_suffix(".toml").read_text())

Machine = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Machine:
    """Run doctor where PATH has only these programs, and nothing that pip installed counts."""
    for variable in ("CC", "CMAKE_GENERATOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for module in ("aot.tools.build", "aot.cli.commands.doctor"):
        monkeypatch.setattr(f"{module}.find_program", shutil.which)
    monkeypatch.setattr("aot.tools.compiler.find_zig", lambda: shutil.which("zig") or "")

    def run(*programs: str) -> tuple[int, dict[str, Any]]:
        for program in programs:
            (tmp_path / program).write_text("#!/bin/sh\n")
            (tmp_path / program).chmod(0o755)
        code = main(["doctor", "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def part(record: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (p for p in record["parts"] + record["targets"] if p["name"] == name)
    return found


def test_a_machine_without_tools(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    code, record = machine("apt-get")
    assert code == 1
    assert not any(t["build"] or t["run"] for t in record["targets"])
    assert record["managers"] == ["apt-get"]
    apt = record["install"]["apt-get"].split(" && ")[0].split()
    assert apt[:3] == ["apt-get", "install", "--no-install-recommends"]
    needed = {"cmake", "make", "gcc", "libc6-dev"}
    for name in names()[1:]:
        needed |= {*load_target(name).packages, *load_target(name).emulator_packages}
    assert needed <= set(apt) and len(set(apt)) == len(apt)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "cmake                    not installed (building every bundle)" in text
    assert re.search(r"host +build no, run no \(cmake was not found\)", text)
    assert text.endswith(f"\nTo get the rest\n  {record['install']['apt-get']}\n")


def test_the_host_needs_three_programs(machine: Machine) -> None:
    assert machine("cmake", "make")[0] == 1
    code, record = machine("gcc")
    assert code == 0
    assert part(record, "host")["build"] and part(record, "host")["run"]
    assert part(record, "gcc")["found"].endswith("/gcc")
    assert not part(record, "clang")["lacks"], "gcc stands for clang"
    board = part(record, "cortex-m4")
    assert (board["build"], board["run"]) == (False, False)
    assert board["use"] == "the C compiler arm-none-eabi-gcc was not found"


def test_ninja_and_clang_do(machine: Machine) -> None:
    code, record = machine("cmake", "ninja", "clang", "dnf")
    assert code == 0
    assert not part(record, "make")["lacks"] and not part(record, "gcc")["lacks"]
    assert record["managers"] == ["dnf"]
    words = record["install"]["dnf"].split()
    assert words[:2] == ["dnf", "install"] and "arm-none-eabi-newlib" in words
    assert not {"make", "gcc"} & set(words)


def test_a_board_builds_before_it_runs(machine: Machine) -> None:
    board = part(machine("cmake", "make", "gcc", "arm-none-eabi-gcc")[1], "cortex-m4")
    assert (board["build"], board["run"]) == (True, False)
    board = part(machine("qemu-system-arm")[1], "cortex-m4")
    assert (board["build"], board["run"]) == (True, True)


def test_without_a_known_manager_every_line_is_shown(machine: Machine) -> None:
    record = machine()[1]
    assert record["managers"] == list(TABLE["manager"])
    assert "Kitware.CMake" in record["install"]["winget"]
    assert {"cmake", "ninja"} <= set(record["install"]["pip"].split())


def test_python_packages_that_are_missing_or_old(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    have = {"aotc": "0.1", "onnx": "1.9.0", "numpy": "", "onnxruntime": "", "onnx_ir": "2.0.1"}
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: have.get(name, known(name)))
    wanted = ["onnx>=1.22", "onnx_ir<2,>=1.0", "numpy>=1.26", "jinja2>=3.1", "x; extra == 'y'"]
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    code, record = machine("cmake", "make", "gcc", "brew")
    assert code == 1 and not part(record, "host")["build"]
    assert (
        part(record, "host")["use"] == "needs onnx>=1.22; needs onnx_ir<2,>=1.0; needs numpy>=1.26"
    )
    assert part(record, "onnx")["found"] == "1.9.0"
    assert not part(record, "jinja2")["lacks"]
    pip = shlex.split(record["install"]["brew"].split(" && ")[1])
    assert pip == ["pip", "install", *wanted[:3], "onnxruntime>=1.20", *pip[6:]]


def test_a_checkout_knows_its_requirements(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "" if name == "aotc" else known(name))
    record = machine("cmake", "make", "gcc")[1]
    packages = {p["name"] for p in record["parts"] if p["kind"] == "Python packages"}
    drawn = {"argcomplete", "rich"}
    assert {"onnx", "onnx_ir", "numpy", "jinja2", "pyelftools", "clang-format"} | drawn == packages


@pytest.mark.parametrize(
    ("version", "requirement", "fits"),
    [
        ("1.22.0", "onnx>=1.22", True),
        ("1.9.0", "onnx>=1.22", False),
        ("1.10", "onnx_ir<2,>=1.0", True),
        ("2.0", "onnx_ir<2,>=1.0", False),
        ("14.0.6", "clang-format==14.0.6", True),
        ("14.0.60", "clang-format==14.0.6", False),
        ("0.1.15.post2", "apache-tvm-ffi", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, requirement: str, fits: bool) -> None:
    assert doctor._fits(version, requirement) is fits


def test_libraries_are_found_by_their_headers(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "include" / "dnnl.h"
    header.parent.mkdir()
    header.touch()
    monkeypatch.setenv("dnnl_ROOT", str(tmp_path))
    found = part(machine()[1], "dnnl")
    assert (found["found"], found["lacks"]) == (str(header), [])


def test_a_machine_without_code_generation(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets.platform, "machine", lambda: "sparc64")
    code, record = machine("cmake", "make", "gcc", "arm-none-eabi-gcc")
    assert code == 1 and "sparc64" in part(record, "host")["use"]
    assert part(record, "cortex-m4")["build"]


def test_the_table_names_what_there_is() -> None:
    """Packages of targets, vendors and optional requirements are those of their own files."""
    of_targets = {
        p
        for n in names()[1:]
        for t in [load_target(n)]
        for p in (*t.packages, *t.emulator_packages)
    }
    of_parts = {p for row in TABLE["part"] for p in row.get("packages", ())}
    assert set(TABLE["names"]) <= of_targets | of_parts
    assert all(set(of) <= set(TABLE["manager"]) for of in TABLE["names"].values())
    libraries = {row["name"] for row in TABLE["part"] if row["kind"] == "Vendors' libraries"}
    assert libraries == set(bundled()) - {"accel_sim"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {r for of in project["optional-dependencies"].values() for r in of}
    assert {row["requirement"] for row in TABLE["part"] if "requirement" in row} <= extras
