# SPDX-License-Identifier: Apache-2.0
"""The report: one page that loads nothing, shows every region, and escapes every name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.tools.report import page
from aot.tools.run import open_out
from graphs import model

VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Tags that are open, sections met, everything that would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        known = dict(attrs)
        self.ids += [known["id"]] if known.get("id") else []
        self.loads += [str(v) for k, v in attrs if k == "src" or (k == "href" and v[:1] != "#")]
        self.loads += [tag] if tag in ("script", "link", "iframe", "img") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def compiled(tmp_path: Path, *more: str) -> Path:
    """A network whose names try to be HTML, with two regions for oneDNN."""
    w = np.ones((16, 16, 3, 3), np.float32) / 99
    rows = [
        ("Conv", "x w", "<script>a</script>", {"pads": [1] * 4}),
        ("CumSum", "<script>a</script> axis", "b&b"),
        ("Conv", "b&b w", "c", {"pads": [1] * 4}),
        ("Add", "c <script>a</script>", "<b>y</b>"),
        ("Conv", "<b>y</b> v", "z", {"group": 2}),
    ]
    consts = {"w": w, "v": np.ones((16, 8, 1, 1), np.float32), "axis": np.array(1, np.int64)}
    proto = model(rows, {"x": [1, 16, 8, 8]}, {"z": None, "<b>y</b>": None}, consts)
    onnx.save(proto, str(tmp_path / "net.onnx"))
    out = tmp_path / "out"
    line = [str(tmp_path / "net.onnx"), "-o", str(out), "-q", "--no-configure", *more]
    assert main(line) == 0
    return out


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    assert not found.open
    return found


def test_a_page_with_regions(tmp_path: Path) -> None:
    out = compiled(tmp_path, "--backend", "dnnl")
    to = tmp_path / "r.html"
    assert main(["report", str(out), "-o", str(to), "-q"]) == 0
    found = outline(to.read_text(encoding="utf-8"))
    assert not found.loads
    assert found.ids[:4] == ["summary", "regions", "memory", "calls"]
    text = "".join(found.text)
    assert "<b>y</b>" in text  # as text: it is an output's name
    assert "region 0: dnnl" in text
    assert "region 1: dnnl" in text
    assert "portable C, 1 call" in text


def test_pictures_are_well_formed_and_inside_their_frames(tmp_path: Path) -> None:
    text = page(open_out(compiled(tmp_path, "--backend", "dnnl")).manifest)
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        root = ET.fromstring(picture)
        left, top, width, height = (float(v) for v in root.attrib["viewBox"].split())
        boxes = root.findall("rect")
        assert boxes
        for box in boxes:
            x, y = float(box.get("x", left)), float(box.get("y", top))
            assert x >= left and x + float(box.get("width", 0)) <= left + width + 0.2
            assert y >= top and y + float(box.get("height", 0)) <= top + height + 1.2


def test_a_value_that_skips_a_box_is_a_curve(tmp_path: Path) -> None:
    text = page(open_out(compiled(tmp_path, "--backend", "dnnl")).manifest)
    assert len(re.findall(r'class="edge" d="M \d+ \d+ C', text)) == 1


def test_without_vendors_there_is_no_region(tmp_path: Path) -> None:
    text = page(open_out(compiled(tmp_path)).manifest)
    assert "regions" not in outline(text).ids
    assert text == page(open_out(tmp_path / "out").manifest)


def test_refusals_are_listed(tmp_path: Path) -> None:
    manifest = open_out(compiled(tmp_path)).manifest
    refused = {"node": "n<0>", "op": "Conv", "backend": "acme", "pattern": "p", "reason": "a & b"}
    text = page({**manifest, "refusals": [refused]})
    assert "<td>n&lt;0&gt;</td><td>Conv</td><td>acme.p</td><td>a &amp; b</td>" in text


def test_what_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = compiled(tmp_path)
    assert main(["report", str(out), "-o", str(tmp_path / "none" / "r.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nothing"), "-o", str(tmp_path / "r.html")]) == 1
    assert "no bundle here" in capsys.readouterr().err
