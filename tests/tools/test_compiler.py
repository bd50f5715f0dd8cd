# SPDX-License-Identifier: Apache-2.0
"""--compiler: the C compiler that CMake is given, zig of PyPI among them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aot.cli import main
from aot.errors import BuildError
from aot.tools import compiler
from aot.tools.build import cache_value, find_program
from needs import need, need_module

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def test_the_script_of_zig_spells_cpus_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zig = tmp_path / "a zig"
    zig.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    zig.chmod(0o755)
    monkeypatch.setattr(compiler, "find_zig", lambda: str(zig))
    chosen = dict(s.split("=", 1) for s in compiler.settings(tmp_path, "zig"))
    words = ["-march=x86-64-v4", "-march=x86-64", "-DX=a b", "x.c"]
    done = subprocess.run(
        [chosen["-DCMAKE_C_COMPILER"], *words], check=True, capture_output=True, text=True
    )
    said = ["cc", "-march=x86_64_v4", "-march=x86_64", "-DX=a b", "x.c"]
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


def test_the_tree_has_the_compiler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clang = need("clang")
    assert main([str(DIGITS), "-o", str(tmp_path / "out"), "-q", "--compiler", "clang"]) == 0
    assert cache_value(tmp_path / "out", "CMAKE_C_COMPILER") == clang
    words = ["--target", "cortex-m4", "--compiler", "clang"]
    assert main([str(DIGITS), "-o", str(tmp_path / "m4"), *words]) == 1
    assert "arm-none-eabi-gcc" in capsys.readouterr().err
    assert not (tmp_path / "m4").exists()


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
