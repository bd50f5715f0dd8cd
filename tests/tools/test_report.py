# SPDX-License-Identifier: Apache-2.0
"""The report: one page that loads nothing, shows every call and region, and escapes every name."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.tools.report import page
from aot.tools.report.beside import manifest_and_more
from aot.tools.report.graph import MOST, layered
from aot.tools.run import open_out
from aot.tools.size import planned
from graphs import model
from streamed_graphs import random_network

VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Tags that are open, ids and links met, everything that would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        known = dict(attrs)
        self.ids += [known["id"]] if known.get("id") else []
        self.loads += [str(v) for k, v in attrs if k == "src" or (k == "href" and v[:1] != "#")]
        self.loads += [tag] if tag in ("link", "iframe", "img", "object", "embed", "base") else []
        self.leads += [v[1:] for k, v in attrs if k == "href" and v and v[:1] == "#"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["script"]:
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
    page_text = to.read_text(encoding="utf-8")
    found = outline(page_text)
    assert not found.loads and page_text.count("<script>") == 1
    assert not re.search(r"https?:|url\((?!#)|@import|fetch\(|<b>y|<script>a", page_text)
    sections = [i for i in found.ids if i.isalpha()]
    assert sections == ["summary", "graph", "regions", "memory", "costs", "calls"]
    assert len(set(found.ids)) == len(found.ids) and set(found.leads) <= set(found.ids)
    text = "".join(found.text)
    assert "<b>y</b>" in text  # as text: it is an output's name
    assert "region 0: dnnl" in text
    assert "region 1: dnnl" in text
    assert "portable C, 1 call" in text


def drawn(text: str, title: str) -> ET.Element:
    """The graph of a page that has a title."""
    start = text.index(f'<svg role="group" aria-label="{title} as a graph"')
    return ET.fromstring(text[start : text.index("</svg>", start)] + "</svg>")


def test_graphs_are_well_formed_and_inside_their_frames(tmp_path: Path) -> None:
    manifest = open_out(compiled(tmp_path, "--backend", "dnnl")).manifest
    text = page(manifest)
    runs = [*groupby(manifest["nodes"], lambda n: (n["backend"], n["region"]))]
    for title, count in (("Regions", len(runs)), ("Calls", len(manifest["nodes"]))):
        root = drawn(text, title)
        left, top, width, height = (float(v) for v in root.attrib["viewBox"].split())
        boxes = root.findall("a") + root.findall("g")
        assert len(root.findall("a")) == count and len(boxes) == count + 3
        places = []
        for box in (b.find("rect") for b in boxes):
            assert box is not None
            x, y, w, h = (float(box.attrib[k]) for k in ("x", "y", "width", "height"))
            assert x >= left and x + w <= left + width and y >= top and y + h <= top + height
            places.append((x, y, w, h))
        for i, (x, y, w, h) in enumerate(places):
            assert not any(
                x < u + m and u < x + w and y < v + n and v < y + h for u, v, m, n in places[:i]
            )


def test_every_edge_of_the_graph_is_drawn(tmp_path: Path) -> None:
    """Paths lead from the boxes whose results a call reads to the box of the call."""
    manifest = open_out(compiled(tmp_path, "--backend", "dnnl")).manifest
    reads = {(c, n["call"]) for n in manifest["nodes"] for r in n["reads"] for c in r["calls"]}
    names = [t["name"] for t in manifest["inputs"]]
    fed = {n["call"] for n in manifest["nodes"] for r in n["reads"] if not r["calls"]}
    assert names == ["x"] and fed == {0} and {(a, a + 1) for a in range(2)} <= reads
    assert any(b > a + 1 for a, b in reads)  # the residual
    root = drawn(page(manifest), "Calls")
    ends: dict[tuple[float, float], set[tuple[float, float]]] = {}
    for path in root.findall("path"):
        numbers = [float(v) for v in re.findall(r"-?[0-9.]+", path.attrib["d"])]
        to = (numbers[6], numbers[7] + (numbers[8] if "v" in path.attrib["d"] else 0))
        ends.setdefault((numbers[0], numbers[1]), set()).add(to)

    def reached(place: tuple[float, float]) -> set[tuple[float, float]]:
        own = ends.get(place, set())
        return own.union(*(reached(p) for p in own if p not in tops))

    boxes = [b.find("rect") for b in root.findall("a")]
    corners = [(float(b.attrib["x"]) + 95, float(b.attrib["y"])) for b in boxes if b is not None]
    tops = set(corners)
    for a, (x, y) in enumerate(corners):
        shown = {corners.index(p) for p in reached((x, y + 46)) & tops}
        assert shown == {b for m, b in reads if m == a}, a


def test_layers_follow_the_data() -> None:
    edges = {(0, 1), (1, 2), (0, 3), (2, 3), (3, 4), (0, 4)}
    x, depth, links = layered(5, edges)
    assert depth == [0, 1, 2, 3, 4]
    assert all(b == (a[0], a[1] + 1) or (a[0], b[0]) in edges for a, b in links)
    # Every row is free of overlaps, and boxes without a lane beside them are in one line.
    assert all(abs(x[0, d] - x[d, d]) > 100 for d in (1, 2, 3))
    assert layered(2, set()) == ({(0, 0): -107.0, (1, 0): 107.0}, [0, 0], [])


def test_large_graphs_are_joined(tmp_path: Path) -> None:
    rows = [("Sigmoid", f"v{i}", f"v{i + 1}") for i in range(700)]
    onnx.save(model(rows, {"v0": [1, 4]}, {"v700": None}, {}), str(tmp_path / "net.onnx"))
    line = [str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out"), "-q", "--no-configure"]
    assert main(line) == 0
    manifest = open_out(tmp_path / "out").manifest
    calls = len(manifest["nodes"])
    text = page(manifest)
    root = drawn(text, f"Calls, {-(-calls // MOST)} in a box")
    spans = [box.attrib["data-calls"].split("-") for box in root.findall("a")]
    assert len(spans) <= MOST
    assert [n for a, z in spans for n in range(int(a), int(z) + 1)] == list(range(calls))
    assert set(outline(text).leads) <= set(outline(text).ids)


def test_measured_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--bench F`: sorted bars, and no file of another bundle."""
    out, file, to = compiled(tmp_path), tmp_path / "costs.json", tmp_path / "r.html"
    nodes = open_out(out).manifest["nodes"]
    costs = [{"kernel": n["kernel"], "amount": 10.0 * i} for i, n in enumerate(nodes)]
    line = ["report", str(out), "-o", str(to), "-q", "--bench", str(file)]
    for content, good in (
        ({"name": "net", "nodes": costs}, True),
        ({"name": "net", "nodes": costs[1:]}, False),
        ({"name": "other", "nodes": costs}, False),
        ({"name": "net", "nodes": [{**c, "amount": "x"} for c in costs]}, False),
        ([], False),
    ):
        file.write_text(json.dumps(content))
        assert main(line) == (0 if good else 1)
        said = capsys.readouterr().err
        assert good or (
            f"aotc bench {out} --per-node --json {file}`" in said and len(said.splitlines()) == 2
        )
    text = to.read_text()
    table = text[text.index("Time in nanoseconds of CPU") :]
    bars = re.findall(r'<th scope="row"><a href="#call-(\d+)"', table)
    assert bars == [str(i) for i in range(len(nodes) - 1, 0, -1)]


def test_links_between_onnx_c_and_arena(tmp_path: Path) -> None:
    out = compiled(tmp_path)
    text = page(manifest_and_more(open_out(out)))
    source = (out / "bundle" / "src" / "net_run.c").read_text().splitlines()
    shown = re.findall(r'<a href="#c-(\d+)">net_run.c:(\d+)</a>', text)
    assert [int(c) for c, _ in shown] == list(range(len(open_out(out).manifest["nodes"])))
    for call, line in shown:
        assert re.match(rf" *(STEP|TRY)\({call},", source[int(line) - 1])
        assert f'<span id="c-{call}"><a href="#call-{call}">' in text
    assert len(re.findall(r'<a href="#buffer-\d+">at [\d,]+</a>', text)) >= len(shown)
    assert set(outline(text).leads) <= set(outline(text).ids)


def test_budgets_have_remedies(tmp_path: Path) -> None:
    text = page(manifest_and_more(open_out(compiled(tmp_path, "--ram", "2M"))))
    row = text[text.index('<tr><th scope="row">RAM') :]
    assert "2,097,152" in row[: row.index("</tr>")] and "--objective ram" in row
    assert "<code>--flash N</code>" in text


def test_remedies_have_the_bytes_of_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--remedies` compiles the model with other options; the figures are those of compilations."""
    source, out, file = tmp_path / "net.onnx", tmp_path / "out", tmp_path / "r.html"
    onnx.save(random_network(2), source)
    words = ["--target", "cortex-m4", "-q", "--no-configure"]
    assert main([str(source), "-o", str(out), *words]) == 0
    assert main(["report", str(out), "-o", str(file), "--remedies"]) == 0
    found = re.search(r"<code>--objective ram</code> needs ([\d,]+) bytes", file.read_text())
    assert found is not None
    needs = int(found[1].replace(",", ""))
    # Though OUT is not built, flash has code, of which the bytes are estimated.
    row = re.search(r'"row">flash</th><td class="number">([\d,]+)<', file.read_text())
    assert row and int(row[1].replace(",", "")) > planned(open_out(out).manifest).constants
    assert "part of flash is an estimate" in file.read_text()
    start = file.read_text().index('aria-label="RAM with each remedy"')
    bars = re.findall(
        r'width="([\d.]+)" height="18"', file.read_text()[start:].partition("</svg>")[0]
    )
    now = planned(open_out(out).manifest).ram
    assert float(bars[0]) == 540 and round(540 * needs / now, 1) in map(float, bars)
    assert main([str(source), "-o", str(out), *words, "--objective", "ram"]) == 0
    assert planned(open_out(out).manifest).ram == needs
    source.unlink()
    capsys.readouterr()
    assert main(["report", str(out), "-o", str(file), "--remedies"]) != 0
    assert "the model file is gone" in capsys.readouterr().err


def test_rows_are_drawn_over_the_steps_of_their_segment(tmp_path: Path) -> None:
    """Every row once, inside the picture; the table has the most rows that are there at a step."""
    source, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(random_network(2), source)
    words = ["--target", "cortex-m4", "--objective", "ram", "-q", "--no-configure"]
    assert main([str(source), "-o", str(out), *words]) == 0
    memory = open_out(out).manifest["memory"]
    (segment,) = memory["by_rows"]
    text = page(open_out(out).manifest)
    start = text.index('<svg class="memory rows"')
    root = ET.fromstring(text[start : text.index("</svg>\n</div>", start)] + "</svg>")
    boxes = [
        tuple(int(r.attrib[k]) for k in ("x", "y", "width", "height"))
        for r in root.iterfind(".//g/rect")
    ]
    assert len(boxes) == sum(len(t["places"]) for t in segment["rows"]) > 15
    for x, y, width, height in boxes:
        assert 0 <= x < x + width <= segment["steps"]
        assert 0 <= y < y + height <= memory["arena_bytes"]
    for tensor in segment["rows"]:
        at = [0] * segment["steps"]
        for _, first, last in tensor["places"]:
            for step in range(first, last + 1):
                at[step] += 1
        assert max(at) == tensor["most"] > 0
    assert f">{segment['rows'][0]['nbytes']:,}<" in text[start:]


def test_without_vendors_there_is_no_region(tmp_path: Path) -> None:
    text = page(open_out(compiled(tmp_path)).manifest)
    assert "regions" not in outline(text).ids
    assert text == page(open_out(tmp_path / "out").manifest)


def test_bundles_of_older_versions_and_without_calls(tmp_path: Path) -> None:
    """What an older aotc did not list is no error, and a bundle may have nothing to compute."""
    manifest = open_out(compiled(tmp_path)).manifest
    old = {"constant_bytes", "reads"}
    nodes = [{k: v for k, v in n.items() if k not in old} for n in manifest["nodes"]]
    memory = {k: v for k, v in manifest["memory"].items() if k != "buffers"}
    text = page({**manifest, "nodes": nodes, "memory": memory})
    assert "does not list its buffers" in text and 'class="map"' not in text
    assert set(outline(text).leads) <= set(outline(text).ids)
    empty = page({**manifest, "nodes": [], "regions": [], "macs": 0, "memory": memory})
    assert "No arena" in empty and set(outline(empty).leads) <= set(outline(empty).ids)


def test_calls_in_bodies_are_listed(tmp_path: Path) -> None:
    """Those of bodies in bodies, too, with names that are escaped."""
    manifest = open_out(compiled(tmp_path)).manifest
    inner = {"op": "Relu", "nodes": ["r<0>"]}
    deep = {"op": "If", "nodes": [], "bodies": [{"name": "b1", "arena_bytes": 64, "nodes": []}]}
    body = {"name": "b0", "arena_bytes": 4096, "nodes": [inner, deep]}
    first = {**manifest["nodes"][0], "bodies": [body]}
    text = page({**manifest, "nodes": [first, *manifest["nodes"][1:]]})
    row = "".join(
        outline(text[text.index('<tr id="call-0"') :].partition("</tr>")[0] + "</tr>").text
    )
    assert "b0, 4,096 bytes of its own arena: Relu (r<0>), If" in row
    assert "b1, 64 bytes of its own arena: no call" in row


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


def test_a_damaged_folder_has_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One message with a hint, and the hint is right: the model is compiled again."""
    out = compiled(tmp_path)
    for damaged in (out / "bundle" / "manifest.json", out / "aotc.json"):
        whole = damaged.read_bytes()
        for content in (b"", b"{", b"[]"):
            damaged.write_bytes(content)
            assert main(["report", str(out), "-o", str(tmp_path / "r.html")]) == 1
            said = capsys.readouterr().err
            assert damaged.name in said and "  hint: compile again" in said
        damaged.write_bytes(whole)
    (out / "lib").mkdir()
    (out / "lib" / "libnet.a").write_bytes(b"!<arch>\n" + b"net.o/".ljust(48) + b"99        `\n")
    for hint in ("build again", "compile again"):
        assert main(["report", str(out), "-o", str(tmp_path / "r.html")]) == 1
        assert f"  hint: {hint}" in capsys.readouterr().err
        shutil.rmtree(out / "bundle" / "src", ignore_errors=True)
    assert not (tmp_path / "r.html").exists()


def test_a_folder_without_its_bundle_is_compiled_into(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={out / 'bundle'}\n")
    compiled(tmp_path)
    assert open_out(out).manifest["name"] == "net"


def test_long_names_are_cut_where_they_would_fill_the_page(tmp_path: Path) -> None:
    """The table has a line for each, whole in its title; the axis has no call behind the last."""
    content = dict(open_out(compiled(tmp_path)).manifest)
    name = "model/activation/" + "fused;" * 9
    first, *others = content["nodes"]
    text = page({**content, "nodes": [{**first, "nodes": [name, "relu1"]}, *others]})
    assert f'<td><span class="long" title="{name}">{name}</span> relu1</td>' in text
    calls = re.findall(r'y="336" text-anchor="middle">(\d+)<', text)
    assert calls == [str(i) for i in range(len(content["nodes"]))]
