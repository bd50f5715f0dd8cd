# SPDX-License-Identifier: Apache-2.0
"""The wheel built from the sdist carries all it needs: installed alone, it compiles and runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from graphs import model
from needs import need_module

ROOT = Path(__file__).resolve().parents[1]
#: What `aotc init` writes has tests of its own.
TEMPLATE = "aot/cli/template/tests/"
PURELIB = "import sysconfig; print(sysconfig.get_path('purelib'))"
INSTALL = ("install", "-q", "--no-deps", "--no-index")
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


def dependencies(folder: Path) -> Path:
    """Make `folder` the installed packages without those of this project."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("aotc", "_editable", "_aotc")):
            (folder / path.name).symlink_to(path)
    return folder


def installed(wheel: Path, folder: Path) -> Path:
    """The interpreter of a virtual environment in `folder` that has the wheel and no checkout."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, *INSTALL, wheel)
    site = Path(run(python, "-c", PURELIB).strip())
    # Dependencies come from here; the checkout's own packages must not (editable installs).
    (site / "dependencies.pth").write_text(f"{dependencies(folder / 'dependencies')}\n")
    return python


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
    own = {n for n in names if not n.startswith(TEMPLATE)}
    assert not [n for n in own if n.endswith((".pyc", ".onnx", ".npz")) or "tests/" in n]
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)


def test_an_index_takes_wheel_and_sdist(wheel: Path) -> None:
    need_module("twine")
    (sdist,) = (wheel.parents[1] / "sdist").glob("*.tar.gz")
    said = run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    assert said.count("PASSED") == 2


def test_installed_alone_it_compiles_and_runs(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path)
    site = Path(run(python, "-c", PURELIB).strip())
    digits = ROOT / "examples" / "digits" / "digits.onnx"
    image = np.random.default_rng(5).random((1, 1, 8, 8), np.float32)
    np.save(tmp_path / "x.npy", image)
    out, result = tmp_path / "out", tmp_path / "y.npy"
    run(python, "-c", SCRIPT, digits, out, result, tmp_path / "x.npy")
    assert np.load(result).sum() == pytest.approx(1.0, abs=1e-5)
    aotc = tmp_path / "venv" / "bin" / "aotc"
    assert run(aotc, "--version").startswith("aotc ")
    found = Path(run(aotc, "--cmake-dir").strip())
    assert found.is_relative_to(site) and (found / "aotcConfig.cmake").is_file()
    run(aotc, digits, "-o", tmp_path / "again", "-q")
    run("cmake", "--build", tmp_path / "again")
    same = sorted(p.relative_to(out) for p in (out / "bundle").rglob("*") if p.is_file())
    assert same
    for name in same:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_extras_are_asked_for_and_found(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a checkout the hint asks an index; the package works with the wheel of aotc."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = installed(wheel, tmp_path)
    domain, rare = "ai.onnx.ml", tmp_path / "rare.onnx"
    rows = [(f"{domain}.Binarizer", "x", "y")]
    onnx.save(model(rows, {"x": [1, 2]}, {"y": [1, 2]}, domains=[domain]), rare)
    command = [python.with_name("aotc"), rare, "-o", tmp_path / "rare", "-q", "--no-configure"]
    refused = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert refused.returncode == 1 and "hint: `pip install 'aotc[extras]'`" in refused.stderr
    extras = hook("build_wheel", ROOT / "extras", tmp_path / "extras")
    run(sys.executable, "-m", "pip", "--python", python, *INSTALL, extras)
    run(*command)


def test_the_wheel_has_a_bill_of_materials(wheel: Path, tmp_path: Path) -> None:
    """SPDX that its own library accepts, with every requirement of the metadata."""
    need_module("spdx_tools")
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/sboms/aotc.spdx.json"))
        (tmp_path / "aotc.spdx.json").write_bytes(archive.read(name))
        metadata = archive.read(name.replace("sboms/aotc.spdx.json", "METADATA")).decode()
    document = parse_file(str(tmp_path / "aotc.spdx.json"))
    assert validate_full_spdx_document(document) == []
    asked = {
        re.split("[<>=;]", line.removeprefix("Requires-Dist: "))[0].strip()
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    }
    assert asked and {p.name for p in document.packages} == asked | {"aotc", "aotc-runtime-c"}
    assert hook("build_wheel", ROOT, tmp_path).read_bytes() == wheel.read_bytes()
