# SPDX-License-Identifier: Apache-2.0
"""`aotc new-backend` writes packages that pass their own tests and the conformance kit; names that
cannot be are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aot.cli import main
from aot.options import BACKEND_KINDS

ROOT = Path(__file__).parents[2]


def written(kind: str, folder: Path) -> dict[str, str]:
    """The package zeta of a kind in `folder` as pip would install it; the environment for it."""
    assert main(["new-backend", "zeta", "--kind", kind, "-o", str(folder / "zeta"), "-q"]) == 0
    info = folder / "zeta-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zeta\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[aotc.backends]\nzeta = zeta:backend\n")
    return {**os.environ, "PYTHONPATH": f"{folder / 'zeta'}{os.pathsep}{folder}{os.pathsep}{ROOT}"}


def output_of(*words: str | Path, env: dict[str, str], cwd: Path) -> str:
    """The output of a run of pytest that passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", BACKEND_KINDS)
def test_the_new_backend_passes_its_own_tests(kind: str, tmp_path: Path) -> None:
    env = written(kind, tmp_path)
    folder = tmp_path / "zeta"
    assert "2 passed" in output_of("test_zeta.py", env=env, cwd=folder)
    assert "acme" not in "".join(p.read_text() for p in folder.rglob("*.[pch]*"))


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="the kit four times: AOT_FULL=1")
@pytest.mark.parametrize("kind", BACKEND_KINDS)
def test_the_new_backend_passes_the_conformance_kit(kind: str, tmp_path: Path) -> None:
    kit = ROOT / "tests" / "vendor" / "test_backend.py"
    env = written(kind, tmp_path)
    assert ".....sssss" in output_of(kit, "--backend", "zeta", env=env, cwd=ROOT)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Zeta", "no name for a backend"),
        ("9lives", "no name for a backend"),
        ("class", "no name for a backend"),
        ("dnnl", "the name dnnl is taken"),
        ("c", "the name c is taken"),
        ("json", "the name json is taken"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-backend", name, "-o", str(tmp_path / "x")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("")
    assert main(["new-backend", "zeta", "-o", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]
