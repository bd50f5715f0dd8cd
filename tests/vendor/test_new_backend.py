# SPDX-License-Identifier: Apache-2.0
"""`aotc new-backend` writes a package whose own tests pass; names that cannot be are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aot.cli import main

ROOT = Path(__file__).parents[2]


def test_the_new_backend_passes_its_own_tests(tmp_path: Path) -> None:
    folder = tmp_path / "zeta"
    assert main(["new-backend", "zeta", "-o", str(folder), "-q"]) == 0
    info = tmp_path / "zeta-0.1.dist-info"  # what pip would write
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zeta\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[aotc.backends]\nzeta = zeta:backend\n")
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_zeta.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "acme" not in "".join(p.read_text() for p in folder.rglob("*.py"))


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
