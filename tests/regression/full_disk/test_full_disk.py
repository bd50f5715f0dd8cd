# SPDX-License-Identifier: Apache-2.0
"""A disk that is full while CMake configures was told as whatever CMake made of it.

"CMAKE_C_COMPILER not set", "is not able to compile a simple test program": CMake takes a program
that could not be written for a compiler that does not work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aot.cli import main
from graphs import model
from needs import need

ROOT = Path(__file__).parents[3]
SAYS = "no space is left on the disk"
#: KiB beyond what the bundle takes, at which CMake fails, each time elsewhere.
TIGHT = (20, 60, 110, 160)


def saved(folder: Path, op: str = "Relu") -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model([(op, "x", "y")], {"x": [4]}, {"y": None}).SerializeToString())
    return path


def told(error: str) -> bool:
    """Whether a message is that of a full disk, and no more."""
    lines = error.splitlines()
    named = SAYS in lines[0] or "No space left on device" in lines[0]
    return named and len(lines) == 3 and lines[2].startswith("  hint: free some space")


def contents(folder: Path) -> dict[str, bytes]:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


@pytest.mark.parametrize("old", [False, True])
def test_what_cmake_says_of_it(
    old: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    if old:
        assert main([str(saved(tmp_path)), "-o", str(out), "--no-configure"]) == 0
    before = contents(out)
    cmake = tmp_path / "bin" / "cmake"
    cmake.parent.mkdir()
    said = "CMake Error at x.cmake:1 (file):\\n  file write failed (No space left on device):"
    cmake.write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")
    cmake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cmake.parent}{os.pathsep}{os.environ['PATH']}")
    capsys.readouterr()
    assert main([str(saved(tmp_path, "Neg")), "-o", str(out)]) == 1
    assert told(capsys.readouterr().err)
    assert contents(out) == before and out.exists() == old


def test_a_disk_that_fills(tmp_path: Path) -> None:
    """Small file systems of our own, where the system lets a user have them."""
    need("cmake")
    mounted = "mount -t tmpfs -o size=64k none ."
    if subprocess.run(["unshare", "-rm", "sh", "-c", mounted], cwd=tmp_path).returncode:
        pytest.skip("no user namespace with mounts")
    path = saved(tmp_path)
    (tmp_path / "disk").mkdir()
    assert main([str(path), "-o", str(tmp_path / "out"), "--no-configure"]) == 0
    kept = sum(-(-len(data) // 4096) * 4 for data in contents(tmp_path / "out").values())
    for size in (kept // 2, *(kept + more for more in TIGHT)):
        script = (
            f"mount -t tmpfs -o size={size}k none disk || exit 9; "
            f"export CMAKE_GENERATOR='Unix Makefiles'; {sys.executable} -m aot {path} -o disk/out; "
            "code=$?; ls -A disk; exit $code"
        )
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1 and told(done.stderr), (size, done.stderr)
        assert done.stdout == "", size  # nothing half-written
