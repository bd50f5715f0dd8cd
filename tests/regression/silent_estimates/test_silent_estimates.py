# SPDX-License-Identifier: Apache-2.0
"""`aotc explain` showed microseconds, the same for a vendor and for portable C, and did not say
that nobody had measured them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from aot.cli import main
from aot.options import Options
from aot.partition.cost.costs import key_of
from aot.pipeline import partition_model
from aot.target import load_target
from aot.tools.tune import Tuned, write_table
from graphs import model


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(model([("Relu", "x", "r"), ("Softmax", "r", "y")], {"x": [2, 3]}, {"y": None}), path)
    return path


def explained(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(["explain", *line]) == 0
    return capsys.readouterr().out


def test_estimates_are_called_so(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for vendor in ([], ["--backend", "dnnl"]):
        lines = explained(capsys, str(net), *vendor).splitlines()
        for line, name in zip(lines, ("relu", "softmax"), strict=False):
            assert re.search(rf"(?i)\.{name}, [\d.e-]+ us estimated$", line)
        assert lines[-1].startswith("estimated times: ") and "aotc tune" in lines[-1]
        nodes = json.loads(explained(capsys, str(net), *vendor, "--json"))
        assert [n["estimate_measured"] for n in nodes] == [False, False]


def test_measured_times_are_called_so(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "costs.json"
    _, partition = partition_model(net, Options())
    (key,) = (key_of(s.pattern, s.match) for s in partition.items if s.pattern.name == "Relu")
    write_table(table, Tuned({key: 1234.0}, 4.0, {}), load_target("host").cpu)
    lines = explained(capsys, str(net), "--partition", "cost", "--tune", str(table)).splitlines()
    assert lines[0].endswith("c.Relu, 1.23 us measured")
    assert lines[1].endswith(" us estimated")
    assert lines[-1].startswith("estimated times: ")
