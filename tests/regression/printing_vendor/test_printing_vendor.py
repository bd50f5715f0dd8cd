# SPDX-License-Identifier: Apache-2.0
"""What a vendor's code printed stood between the lines of `--json`, which no program could read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from aot.cli import main
from graphs import model

VENDOR = """
import ctypes
import os

from aot.vendor.backend import Backend

print("NOISE of an import")
os.write(1, b"NOISE of a descriptor\\n")
ctypes.CDLL(None).puts(b"NOISE of C, which waits until the process ends")
backend = Backend("chatty")


@backend.pattern
def relu(op, x):
    return op.Relu(x)


@relu.check
def never(m):
    print("NOISE of a check")
    yield False, "it only talks"
"""


def site(folder: Path) -> Path:
    info = folder / "chatty-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "chatty.py").write_text(VENDOR)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chatty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[aotc.backends]\nchatty = chatty:backend\n")
    return folder


def test_only_json_is_on_stdout(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]}), path)
    known = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": f"{site(tmp_path / 'site')}{os.pathsep}{known}"}
    vendor = ["--backend", "chatty", "--json"]
    for line in (
        [path, "-o", tmp_path / "out", "--no-configure", *vendor],
        ["explain", path, *vendor],
        ["partition", path, "-o", tmp_path / "p.onnx", *vendor],
    ):
        command = [sys.executable, "-m", "aot", *map(str, line)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)
        assert done.stderr.count("NOISE") >= 4 and "NOISE of C" in done.stderr


def test_stages_do_not_stand_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]}), path)
    line = [str(path), "-o", str(tmp_path / "out"), "--no-configure", "--dump-after", "plan"]
    assert main([*line, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["name"] == "net" and shown.err.startswith("plan arena=")
    assert main(line) == 0
    assert capsys.readouterr().out.startswith("plan arena=")
