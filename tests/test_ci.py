# SPDX-License-Identifier: Apache-2.0
"""The steps of the CI files are executed: with stand-ins for what installs and what takes hours.

`make` answers as `make -n`, apt-get and scripts/fresh.sh write down their words; `make fresh` runs
the script itself. The GitHub Action compiles and verifies a model with the aotc of this checkout.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from needs import need, need_module

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Machines that GitHub lends.
MACHINES = {"ubuntu-24.04", "ubuntu-24.04-arm"}
RECORDER = '#!/bin/sh\necho "{name} CC=$CC $*" >>"$RECORD"\n'
Variables = Mapping[str, str]


def read(path: str) -> dict[Any, Any]:
    """A file of CI."""
    found: dict[Any, Any] = need_module("yaml").safe_load((ROOT / path).read_text())
    return found


def combinations(matrix: Mapping[str, Any]) -> list[dict[str, str]]:
    """The entries of a matrix, without those that it excludes."""
    keys = [k for k in matrix if k != "exclude"]
    rows = itertools.product(*(m if isinstance(m := matrix[k], list) else [m] for k in keys))
    made = [dict(zip(keys, row, strict=True)) for row in rows]
    gone = [entry.items() for entry in matrix.get("exclude", [])]
    return [e for e in made if not any(g <= e.items() for g in gone)]


def filled(text: str, values: Mapping[str, Variables]) -> str:
    """The text with `${{ matrix.x }}` and `${{ inputs.x }}` replaced; others are errors."""
    words = r"\$\{\{ (\w+)\.([\w-]+) \}\}"
    return re.sub(words, lambda m: values[m[1]][m[2]], text)


def github() -> Iterator[tuple[str, Variables, list[str]]]:
    """(machine, variables, commands) of every job and entry of its matrix."""
    for job in read(".github/workflows/test.yml")["jobs"].values():
        for entry in combinations(job.get("strategy", {}).get("matrix", {})):
            values = {"matrix": entry}
            steps = [s for s in job["steps"] if "run" in s]
            variables = {k: filled(v, values) for s in steps for k, v in s.get("env", {}).items()}
            commands = [filled(s["run"], values) for s in steps]
            yield filled(job["runs-on"], values), variables, commands


def gitlab() -> Iterator[tuple[str, Variables, list[str]]]:
    """(image, variables, commands) of every job and entry of its matrices."""
    for job in (j for j in read(".gitlab-ci.yml").values() if isinstance(j, dict)):
        for matrix in job.get("parallel", {}).get("matrix", [{}]):
            for entry in combinations(matrix):
                image = re.sub(r"\$(\w+)", lambda m, own=entry: own[m[1]], job["image"])
                yield image, entry, [*job["before_script"], *job["script"]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that steps name, with stand-ins; `programs` goes in front of PATH."""
    for name in ("Makefile", "pyproject.toml", "extras/pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "make").write_text(f'#!/bin/sh\nexec {need("make")} -n "$@" >/dev/null\n')
    for stand_in in (programs / "apt-get", programs / "git", tmp_path / "scripts" / "fresh.sh"):
        stand_in.write_text(RECORDER.format(name=stand_in.name))
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def record(checkout: Path, variables: Variables, commands: list[str]) -> list[str]:
    """Run commands as CI does; what the stand-ins wrote down."""
    path = f"{checkout / 'programs'}:{os.environ['PATH']}"
    env = {**os.environ, **variables, "PATH": path, "RECORD": str(checkout / "record")}
    (checkout / "record").write_text("")
    for command in commands:
        words = ["bash", "-e", "-o", "pipefail", "-c", command]
        done = subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return (checkout / "record").read_text().splitlines()


@pytest.mark.parametrize("jobs", [github, gitlab])
def test_every_step_runs(jobs: Any, checkout: Path) -> None:
    """Packages are those that the Makefile knows; each entry of a matrix is one of its own."""
    packages = set(re.findall(r"[\w+.-]+", (ROOT / "Makefile").read_text()))
    fresh: list[tuple[str, str]] = []
    for where, variables, commands in jobs():
        written = record(checkout, variables, commands)
        for line in written:
            name, compiler, *words = line.split()
            if name == "apt-get" and "install" in words:
                asked = {w for w in words if not w.startswith("-")} - {"install"}
                assert asked - {"python3"} <= packages, asked - packages
            elif name == "fresh.sh":
                fresh.append((where, f"{compiler} {' '.join(words)}"))
        if not any(line.startswith("fresh.sh") for line in written):
            assert "make test" in commands and "debian:12" in (ROOT / "Dockerfile").read_text()
    assert len(set(fresh)) == len(fresh) >= 14
    lines = [line.split() for _, line in fresh]
    assert {line[0] for line in lines} == {"CC=gcc", "CC=clang"}
    newest = {line[1] for line in lines if line[2] == "highest"}
    assert newest >= {c.split()[-1] for c in PROJECT["classifiers"] if " 3." in c}
    oldest = {line[1] for line in lines if line[2] == "lowest-direct"}
    assert oldest and oldest < newest
    assert PROJECT["requires-python"] == f">={min(newest)}"
    if jobs is github:
        assert {where for where, _ in fresh} == MACHINES
    else:
        assert {where for where, _ in fresh} == {f"python:{v}-bookworm" for v in newest}


def test_the_stand_ins_see_an_error(checkout: Path) -> None:
    for wrong in ("make no-such-target", "scripts/no_such.sh", "false | true", "no-such-program"):
        with pytest.raises(AssertionError, match=re.escape(wrong)):
            record(checkout, {}, [wrong])


def test_the_action_verifies_a_model(tmp_path: Path) -> None:
    """What its steps do for a user's repository with a model, of which pip is a stand-in."""
    action = read(".github/actions/aotc/action.yml")
    inputs = {k: str(v.get("default", "")) for k, v in action["inputs"].items()}
    inputs |= {"model": "net.onnx", "options": "--accuracy strict"}
    shutil.copyfile(ROOT / "examples" / "digits" / "digits.onnx", tmp_path / "net.onnx")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "pip").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >pip.txt\n')
    (programs / "aotc").write_text(f'#!/bin/sh\nexec {sys.executable} -m aot "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    env["GITHUB_ACTION_PATH"] = str(ROOT / ".github" / "actions" / "aotc")
    said = ""
    for step in action["runs"]["steps"]:
        own = {k: filled(v, {"inputs": inputs}) for k, v in step.get("env", {}).items()}
        done = subprocess.run(
            [step["shell"], "-e", "-c", step["run"]],
            cwd=tmp_path,
            env={**env, **own},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    assert said.endswith("ok\n") and (tmp_path / "out" / "lib" / "libnet.a").is_file()
    install, place = (tmp_path / "pip.txt").read_text().split()
    folder, _, extras = place.removesuffix("]").partition("[")
    assert install == "install" and Path(folder).resolve() == ROOT
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
