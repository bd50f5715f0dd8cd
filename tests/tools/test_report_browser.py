# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: accessible in light and dark, small, quick to open."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import onnx
import pytest

from aot.cli import main
from browser import CLICK, accessibility, browser, chromium
from graphs import model

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def report(path: Path, to: Path, *more: str) -> Path:
    """The page of a model in the folder `to`."""
    assert main([str(path), "-o", str(to / "out"), "-q", "--no-configure", *more]) == 0
    assert main(["report", str(to / "out"), "-o", str(to / "r.html"), "-q"]) == 0
    return to / "r.html"


@pytest.mark.parametrize(("backend", "dark"), [("c", 0), ("c", 1), ("accel_sim", 1), ("dnnl", 0)])
def test_axe_finds_no_violation(backend: str, dark: int, tmp_path: Path) -> None:
    browser()
    more = [] if backend == "c" else ["--backend", backend]
    found = accessibility(report(DIGITS, tmp_path, *more), bool(dark))
    assert found["violations"] == []
    assert {"color-contrast", "link-name", "region", "svg-img-alt"} <= set(found["passes"])


def test_axe_sees_a_violation(tmp_path: Path) -> None:
    browser()
    page = tmp_path / "bad.html"
    page.write_text("<!DOCTYPE html><html><body><img src='x'></body></html>")
    assert "image-alt" in [name for name, _ in accessibility(page)["violations"]]


def test_a_chosen_box_shows_its_call(tmp_path: Path) -> None:
    """What the script copies beside the graph: nodes, types, place in the arena, C."""
    browser()
    page = report(DIGITS, tmp_path)
    click = f"<script>for (const b of [document.querySelectorAll('a.box')[2]]) {CLICK}</script>"
    page.write_text(page.read_text().replace("</body>", f"{click}</body>"))
    shown = chromium(page, "--dump-dom")
    detail = re.search(r'<div class="detail.*?</div>\n</div>', shown, re.S)
    assert detail and 'class="box b0 chosen"' in shown
    for text in ("Conv + Relu", "conv2, relu2", "float32[1,32,4,4]", "digits_run.c:", "STEP(2,"):
        assert text in detail[0], text


def test_the_page_of_a_small_network_is_small(tmp_path: Path, models_folder: Path) -> None:
    page = report(models_folder / "mlperf_ic_int8.onnx", tmp_path)
    assert page.stat().st_size <= 300_000


def test_ten_thousand_calls_open_in_two_seconds(tmp_path: Path) -> None:
    """Beyond the time of an empty page, for the browser's own start is none of ours."""
    browser()
    calls = 10_000 if os.environ.get("AOT_FULL") else 1_500
    kinds = ("Sigmoid", "Tanh", "Softplus")
    rows = [(kinds[i % 3], f"t{i}", f"t{i + 1}") for i in range(calls)]
    onnx.save(model(rows, {"t0": [1, 8]}, {f"t{calls}": None}, {}), str(tmp_path / "net.onnx"))
    page = report(tmp_path / "net.onnx", tmp_path)
    empty = tmp_path / "empty.html"
    empty.write_text("<!DOCTYPE html><title>empty</title>")
    took = {}
    for path in (empty, page, empty, page):
        start = time.perf_counter()
        chromium(path, f"--screenshot={tmp_path / 'p.png'}")
        took[path] = min(time.perf_counter() - start, took.get(path, 1e9))
        assert (tmp_path / "p.png").stat().st_size > 1000
    assert took[page] - took[empty] <= 2
