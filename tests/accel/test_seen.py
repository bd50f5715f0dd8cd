# SPDX-License-Identifier: Apache-2.0
"""What people see of AX1's programs: `aotc bench`, its files, the page of the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_offload import residual

import aot
from aot.cli import main
from aot.errors import BackendError
from aot.tools.report import render
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.estimate import estimate
from aot.vendor.accel_sim.performance import programs, timeline
from aot.vendor.accel_sim.timing import Region


def compiled(out: Path, **options: object) -> tuple[aot.Bundle, dict[str, object]]:
    """A small network, and the performance of its only program."""
    bundle = aot.compile(residual(), out, name="net", backends=("accel_sim",), **options)
    (performance,) = programs(out / "bundle")
    return bundle, performance


def test_spans_are_those_of_the_commands(tmp_path: Path) -> None:
    raw = {"accel_sim.compress": "off"}
    _, performance = compiled(tmp_path / "out", configure=False, backend_options=raw)
    stream = (tmp_path / "out/bundle/accel/region_0.ax1").read_bytes()
    regions = [Region(r["bytes"], r["flash"], r["writable"]) for r in performance["regions"]]
    want, found = estimate(stream, config(256), regions), timeline(performance)
    assert (found.total, found.busy, found.stalled) == (want.total, want.busy, want.stalled)
    assert found.spans == want.spans
    moved = performance["moved"]
    assert moved["flash"] >= 16 * performance["executed"]
    assert performance["picojoules"] > 60 * moved["flash"]


def test_bench_prints_cycles_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    bundle, performance = compiled(out)
    bundle.build()
    trace, numbers = tmp_path / "trace.json", tmp_path / "bench.json"
    words = ["bench", str(out), "--repeat", "3", "--per-node"]
    assert main([*words, "--trace", str(trace), "--json", str(numbers)]) == 0
    text = capsys.readouterr().out
    assert f"region_0: {performance['cycles']} cycles of AX1-256" in text
    assert all(f"{layer['kind']}: " in text for layer in performance["layers"])
    record = json.loads(numbers.read_text())["accelerator"]
    assert [r["cycles"] for r in record] == [performance["cycles"]]
    assert "spans" not in record[0]
    events = json.loads(trace.read_text())["traceEvents"]
    runs = [e for e in events if e.get("cat") == "run"]
    assert len(runs) == len(performance["spans"])
    assert max(e["ts"] + e["dur"] for e in runs) <= performance["cycles"]


def test_page(tmp_path: Path) -> None:
    _, performance = compiled(tmp_path / "out", configure=False)
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "out"), "-o", str(page)]) == 0
    text = page.read_text()
    for unit in ("LD", "EX", "VX", "ST"):
        assert f">{unit}</text>" in text
    assert f"{performance['cycles']:,}" in text
    assert "waits for" in text
    assert "roofline" in text
    hostile = {
        **performance,
        "name": "<b>",
        "layers": [{**performance["layers"][0], "name": "<i>&"}],
    }
    drawn = render("accelerator.html", programs=[hostile])
    assert "<b>" not in drawn and "<i>" not in drawn
    assert "&lt;b&gt;" in drawn and "&lt;i&gt;&amp;" in drawn
    assert "<" not in render("accelerator.html", programs=[])


def test_long_programs_make_small_pages(tmp_path: Path) -> None:
    _, performance = compiled(tmp_path / "out", configure=False)
    few = render("accelerator.html", programs=[performance]).count("<rect")
    spans = [["MM", 16, 1, 0, 10 * n + 3, 10 * n + 10, 3, 0] for n in range(50_000)]
    many = render("accelerator.html", programs=[{**performance, "cycles": 500_000, "spans": spans}])
    assert few < many.count("<rect") < 1200
    assert " …: " in many


def test_facts_that_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "accel"
    folder.mkdir()
    for text in ("{", "{}", '{"spans": [[1]], "cycles": 1, "layers": []}', "[]"):
        (folder / "region_0.json").write_text(text)
        with pytest.raises(BackendError, match="not what aotc wrote"):
            programs(tmp_path)


def test_a_trace_needs_an_accelerator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = aot.compile(residual(), tmp_path / "out", name="net")
    bundle.build()
    line = ["bench", str(tmp_path / "out"), "--repeat", "1", "--trace", str(tmp_path / "t")]
    assert main(line) == 2
    assert "no accelerator" in capsys.readouterr().err
