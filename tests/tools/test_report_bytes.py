# SPDX-License-Identifier: Apache-2.0
"""The bytes that the report draws are the bytes that are live, at every call."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.tools.report import page
from aot.tools.run import open_out
from graphs import model
from streamed_graphs import random_network

Bytes = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
#: Two memories may hold the arena; beside the stack the fast one has too little room for it.
TWO = """\
base = "cortex-m7"
[[memory]]
name = "flash"
address = 0x0
size = "4M"
use = ["code", "weights"]
[[memory]]
name = "ram"
address = 0x20000000
size = "20K"
use = ["data", "stack", "arena"]
[[memory]]
name = "psram"
address = 0x60000000
size = "16M"
speed = 2
use = ["arena"]
"""
BUNDLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "host": ("digits", ()),
    "board": ("digits", ("--target", "cortex-m4")),
    "accelerator": ("digits", ("--backend", "accel_sim", "--target", "cortex-m4")),
    "two memories": ("digits", ("--target", "two.toml")),
    "streamed": ("quantised", ("--target", "cortex-m4", "--objective", "ram")),
    "states": ("states", ("--target", "cortex-m4", "--state", "before=after")),
}


def source(kind: str, to: Path) -> Path:
    """The file of a model: with windows in eight bits, with a state, or the digits."""
    if kind == "digits":
        return DIGITS
    rows = [("Add", "x before", "after"), ("Sigmoid", "after", "s"), ("Mul", "s x", "y")]
    shape = [2, 50]
    states = model(rows, {"x": shape, "before": shape}, {"after": shape, "y": shape})
    onnx.save(states if kind == "states" else random_network(2), to / "net.onnx")
    return to / "net.onnx"


def live(manifest: Mapping[str, Any], calls: range) -> Bytes:
    """A row for each call, a column for each byte of the arena: whether the byte is in use."""
    found = np.zeros((len(calls), manifest["memory"]["arena_bytes"]), bool)
    for own in manifest["memory"]["buffers"]:
        rows = slice(own["first"] - calls.start, own["last"] + 1 - calls.start)
        found[rows, own["offset"] : own["offset"] + own["nbytes"]] = True
    return found


def whole(text: str) -> int:
    """A whole number: a byte or a call is never drawn in part."""
    assert re.fullmatch(r"-?\d+", text), text
    return int(text)


def drawn(text: str) -> tuple[range, Bytes, list[int]]:
    """The calls of a page, the bytes under a bar at each of them, and the line of live bytes."""
    start = text.index('<svg class="map"')
    root = ET.fromstring(text[start : text.index("</svg>", start)] + "</svg>")
    left, top, columns, total = (whole(n) for n in root.attrib["viewBox"].split())
    assert top == 0
    found = np.zeros((columns, total), bool)
    for bar in (r for r in root.findall("rect") if r.attrib["class"].startswith("buffer")):
        x, y, width, height = (whole(bar.attrib[k]) for k in ("x", "y", "width", "height"))
        assert 0 <= x - left < x - left + width <= columns and 0 <= y < y + height <= total
        found[x - left : x - left + width, total - y - height : total - y] = True
    (path,) = (p.attrib["d"] for p in root.findall("path") if p.attrib["class"] == "live")
    move, line, at = re.fullmatch(r"M(-?\d+) (\d+)((?:[Vh]\d+)+)", path), list[int](), total
    assert move and (int(move[1]), int(move[2])) == (left, total)
    for letter, number in re.findall(r"([Vh])(\d+)", move[3]):
        at = int(number) if letter == "V" else at
        line += [total - at] * int(number) if letter == "h" else []
    return range(left, left + columns), found, line


@pytest.mark.parametrize("name", BUNDLES)
def test_drawn_bytes_are_live_bytes(name: str, tmp_path: Path) -> None:
    kind, options = BUNDLES[name]
    (tmp_path / "two.toml").write_text(TWO)
    words = [str(tmp_path / w) if w.endswith(".toml") else w for w in options]
    out = tmp_path / "out"
    assert main([str(source(kind, tmp_path)), "-o", str(out), "-q", "--no-configure", *words]) == 0
    manifest = open_out(out).manifest
    assert ("by_rows" in manifest["memory"]) == (name == "streamed")
    calls, bars, line = drawn(page(manifest))
    expected = live(manifest, calls)
    assert set(range(len(manifest["nodes"]))) <= set(calls) and expected.any()
    assert np.array_equal(bars, expected)
    assert line == expected.sum(1).tolist()
    # A second source of the same facts: the places that every call is given are in use then.
    for call, node in enumerate(manifest["nodes"]):
        for place in node["offsets"].values():
            assert expected[call - calls.start, place], (call, place)
    assert expected.sum(1).max() <= manifest["memory"]["lower_bound_bytes"]


def test_a_bar_too_short_is_seen() -> None:
    """The comparison fails where one bar of a page lacks one byte."""
    buffers = [{"tensor": "t", "scratch": False, "offset": 0, "nbytes": 8, "first": 0, "last": 1}]
    bars = '<rect class="buffer b0" x="0" y="{}" width="2" height="{}"/>'
    frame = '<svg class="map" viewBox="0 0 2 8">{}<path class="live" d="M0 8V0h1h1"/></svg>'
    expected = live({"memory": {"arena_bytes": 8, "buffers": buffers}}, range(2))
    for size, same in ((8, True), (7, False)):
        calls, found, line = drawn(frame.format(bars.format(8 - size, size)))
        assert calls == range(2) and line == [8, 8]
        assert np.array_equal(found, expected) == same
