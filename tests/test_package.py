# SPDX-License-Identifier: Apache-2.0
"""The wheel built from the sdist carries all it needs: installed alone, it compiles and runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from needs import need_module

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import aot
assert Path(aot.__file__).is_relative_to(sys.prefix), aot.__file__
net = aot.compile(sys.argv[1], sys.argv[2]).load()
np.save(sys.argv[3], net(np.load(sys.argv[4])))
"""


def run(*command: object) -> str:
    """Run a program away from the checkout, which Python would import."""
    words = [str(c) for c in command]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def hook(name: str, source: Path, folder: Path) -> Path:
    """Call the build backend as pip does, without its isolated environment (no network)."""
    code = f"import sys, hatchling.build as b; print(b.{name}(sys.argv[1]))"
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_module("hatchling")
    work = tmp_path_factory.mktemp("package")
    with tarfile.open(hook("build_sdist", ROOT, work / "sdist")) as sdist:
        sdist.extractall(work)
    (source,) = work.glob("aotc-*")
    return hook("build_wheel", source, work / "wheel")


def test_what_the_wheel_carries(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = run("git", "-C", ROOT, "ls-files", "aot", "runtime_c", "cmake").split()
    shipped = [n for n in listed if not n.startswith("runtime_c/tests/")]
    carried = {n if n.startswith("aot/") else f"aot/_data/{n}" for n in shipped}
    assert carried - names == set()
    extra = {n for n in names - carried if ".dist-info/" not in n}
    assert not [n for n in extra if n in (f"aot/_data/{e}" for e in ("tests", ".git"))]
    assert not [n for n in names if n.endswith((".pyc", ".onnx", ".npz")) or "tests/" in n]
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)


def test_installed_alone_it_compiles_and_runs(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    install = ["install", "-q", "--no-deps", "--no-index", wheel]
    run(sys.executable, "-m", "pip", "--python", python, *install)
    # Dependencies come from here; the checkout's own package must not (an editable install).
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    model = ROOT / "examples" / "digits" / "digits.onnx"
    image = np.random.default_rng(5).random((1, 1, 8, 8), np.float32)
    np.save(tmp_path / "x.npy", image)
    out, result = tmp_path / "out", tmp_path / "y.npy"
    run(python, "-c", SCRIPT, model, out, result, tmp_path / "x.npy")
    assert np.load(result).sum() == pytest.approx(1.0, abs=1e-5)
    aotc = tmp_path / "venv" / "bin" / "aotc"
    assert run(aotc, "--version").startswith("aotc ")
    found = Path(run(aotc, "--cmake-dir").strip())
    assert found.is_relative_to(site) and (found / "aotcConfig.cmake").is_file()
    run(aotc, model, "-o", tmp_path / "again", "-q")
    run("cmake", "--build", tmp_path / "again")
    same = sorted(p.relative_to(out) for p in (out / "bundle").rglob("*") if p.is_file())
    assert same
    for name in same:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
