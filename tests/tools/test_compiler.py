# SPDX-License-Identifier: Apache-2.0
"""--compiler: the C compiler that CMake is given, zig of PyPI among them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aot.cli import main
from aot.errors import BuildError
from aot.target import load_target
from aot.tools import compiler
from aot.tools.build import cache_value, find_program
from needs import need, need_module

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
INT8 = DIGITS.with_name("digits_int8.onnx")


def test_the_script_of_zig_spells_cpus_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zig = tmp_path / "a zig"
    zig.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    zig.chmod(0o755)
    monkeypatch.setattr(compiler, "find_zig", lambda: str(zig))
    chosen = dict(s.split("=", 1) for s in compiler.settings(tmp_path, "zig"))
    words = ["-march=x86-64-v4", "-march=x86-64", "-march=armv8.2-a+dotprod", "-DX=a b", "x.c"]
    done = subprocess.run(
        [chosen["-DCMAKE_C_COMPILER"], *words], check=True, capture_output=True, text=True
    )
    arm = "-mcpu=generic+v8_2a+dotprod"
    said = ["cc", "-march=x86_64_v4", "-march=x86_64", arm, "-DX=a b", "x.c"]
    assert done.stdout.splitlines() == said
    assert {*chosen} == {"-DCMAKE_C_COMPILER", "-DCMAKE_AR", "-DCMAKE_RANLIB"}


def test_a_compiler_is_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = need("clang")
    assert compiler.settings(tmp_path, "clang") == [f"-DCMAKE_C_COMPILER={clang}"]
    assert compiler.settings(tmp_path, "") == []
    with pytest.raises(BuildError, match="--compiler cx was not found"):
        compiler.settings(tmp_path, "cx")
    monkeypatch.setattr(compiler, "find_zig", lambda: "")
    with pytest.raises(BuildError, match=r"pip install 'aotc.zig.'"):
        compiler.settings(tmp_path, "zig")


def test_the_tree_has_the_compiler(tmp_path: Path) -> None:
    clang = need("clang")
    assert main([str(DIGITS), "-o", str(tmp_path / "out"), "-q", "--compiler", "clang"]) == 0
    assert cache_value(tmp_path / "out", "CMAKE_C_COMPILER") == clang


#: Compilers for other machines, with the emulator that runs what they build.
CROSS = (
    ("clang", "cortex-m4", "qemu-system-arm"),
    ("clang", "rv32imac", "qemu-system-riscv32"),
    ("clang", "riscv64-linux", "qemu-riscv64"),
    ("clang", "aarch64-linux", "qemu-aarch64"),
    ("clang-16", "rv64gcv", "qemu-riscv64"),
    ("gcc", "rv64gcv", "qemu-riscv64"),
    ("gcc", "cortex-m7", "qemu-system-arm"),
    ("aarch64-linux-gnu-gcc", "aarch64-linux", "qemu-aarch64"),
    ("zig", "aarch64-linux", "qemu-aarch64"),
    ("zig", "cortex-a76", "qemu-aarch64"),
    ("zig", "aarch64:base,dotprod", "qemu-aarch64"),
    ("zig", "armv7-linux", "qemu-arm"),
    ("zig", "riscv64-linux", "qemu-riscv64"),
    ("zig", "rv64gcv", "qemu-riscv64"),
)


@pytest.mark.parametrize(
    ("asked", "target", "emulator"), CROSS if os.environ.get("AOT_FULL") else CROSS[:1]
)
def test_another_machine(
    asked: str, target: str, emulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle is built without a warning, and its results are right in an emulator."""
    need_module("ziglang") if asked == "zig" else need(asked)
    need(emulator)
    monkeypatch.setenv("CC", "no-such-compiler")  # the option decides
    out = tmp_path / "out"
    words = ["-q", "--target", target, "--compiler", asked]
    assert main([str(INT8), "-o", str(out), *words]) == 0
    chosen = Path(cache_value(out, "CMAKE_C_COMPILER"))
    assert chosen.is_file() and (
        asked not in ("clang", "clang-16", "zig")
        or chosen.name == f"{asked.removesuffix('-16')}-cc"
    )
    command = ["cmake", "--build", str(out)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0 and "src/" in built.stdout, built.stdout + built.stderr
    said = [s for s in built.stderr.splitlines() if ".c:" in s and "warning:" in s]
    # clang 14 does not know an assembler's option that start-up code for RISC-V names.
    assert all(s.endswith("[-Winline-asm]") for s in said), built.stderr
    assert main(["verify", str(out), "-q"]) == 0


@pytest.mark.parametrize(
    ("asked", "target", "hidden", "message"),
    [
        ("gcc", "cortex-m4", "arm-none-eabi-gcc", "needs arm-none-eabi-gcc, which was not found"),
        ("clang", "cortex-m4", "arm-none-eabi-gcc", r"clang has no C library.*\n.*newlib"),
        ("clang", "aarch64-linux", "aarch64-linux-gnu-gcc", "--compiler zig needs none"),
        ("zig", "rv32imac", "", r"zig has no C library for boards\n.*picolibc"),
        ("cc", "cortex-m4", "", r"it compiles for .*linux-gnu\n.*\n.*for arm-none-eabi"),
        ("cx", "cortex-m4", "", "--compiler cx was not found"),
    ],
)
def test_a_compiler_that_does_not_do_is_refused(
    asked: str, target: str, hidden: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what is missing, and what installs it."""
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == hidden else which(name, **more)
    )
    monkeypatch.setattr(compiler, "find_zig", lambda: "/usr/bin/zig")
    with pytest.raises(BuildError) as caught:
        compiler.check(asked, load_target(target))
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="half a minute; AOT_FULL=1")
def test_without_any_compiler_zig_builds(tmp_path: Path) -> None:
    """PATH has a shell and nothing else; cmake, ninja and zig are those of pip."""
    for module in ("ziglang", "cmake", "ninja"):
        need_module(module)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    env = {**os.environ, "PATH": str(programs), "ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("CC", None)
    cmake = next(iter(Path(sys.executable).parent.glob("cmake")), None) or find_program("cmake")
    out = tmp_path / "out"
    for command in (
        [sys.executable, "-m", "aot", str(DIGITS), "-o", str(out), "-q"],
        [str(cmake), "--build", str(out)],
        [sys.executable, "-m", "aot", "verify", str(out)],
    ):
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert cache_value(out, "CMAKE_C_COMPILER").endswith("zig-cc")
