# SPDX-License-Identifier: Apache-2.0
"""The regions as a picture: boxes in the order they run, curves for values that skip some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot.tools.report.html import colours, escape, table

WIDTH, LEFT, ROW, GAP = 620, 120, 34, 12
#: Operators named in a box.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Box:
    """Calls in a row: a vendor's region, or portable C between two of them."""

    backend: str
    region: int
    calls: tuple[int, ...]
    ops: str
    macs: int


def regions(manifest: Mapping[str, Any]) -> str:
    """The picture and a table of regions; nothing without vendors."""
    if not manifest["regions"]:
        return ""
    boxes = _boxes(manifest["nodes"])
    rows = [
        (
            int(r["region"]),
            r["backend"],
            len(r["calls"]),
            "yes" if r.get("portable") else f"no: {r.get('why_not', '')}",
        )
        for r in manifest["regions"]
    ]
    head = ("region", "backend", "calls", "portable fallback")
    return f"{_picture(boxes, _edges(manifest['nodes'], boxes))}\n{table(head, rows)}"


def _boxes(nodes: Sequence[Mapping[str, Any]]) -> list[_Box]:
    groups: list[list[int]] = []
    for index, node in enumerate(nodes):
        if groups and _key(nodes[groups[-1][-1]]) == _key(node):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [
        _Box(
            str(nodes[g[0]]["backend"]),
            int(nodes[g[0]]["region"]),
            tuple(g),
            _ops([str(nodes[i]["op"]) for i in g]),
            sum(int(nodes[i]["macs"]) for i in g),
        )
        for g in groups
    ]


def _key(node: Mapping[str, Any]) -> tuple[str, int]:
    return str(node["backend"]), int(node["region"])


def _ops(ops: Sequence[str]) -> str:
    """`3 Conv + Relu, 2 Add, …`."""
    count: dict[str, int] = {}
    for op in ops:
        count[op] = count.get(op, 0) + 1
    most = sorted(count.items(), key=lambda item: -item[1])
    parts = [f"{n} {op}" if n > 1 else op for op, n in most[:SHOWN]]
    return ", ".join([*parts, *(["…"] if len(most) > SHOWN else [])])


def _edges(nodes: Sequence[Mapping[str, Any]], boxes: Sequence[_Box]) -> list[tuple[int, int]]:
    """Pairs of boxes that are not neighbours, where a value of one is read by the other."""
    home = {call: b for b, box in enumerate(boxes) for call in box.calls}
    maker: dict[str, int] = {}
    found: dict[tuple[int, int], None] = {}
    for index, node in enumerate(nodes):
        written = [str(w["tensor"]) for w in node.get("writes", ())]
        for name in node.get("offsets", {}):
            if name in maker and name not in written and home[index] > maker[name] + 1:
                found[maker[name], home[index]] = None
        maker.update(dict.fromkeys(written, home[index]))
    return list(found)


def _picture(boxes: Sequence[_Box], edges: Sequence[tuple[int, int]]) -> str:
    shades = colours([b.backend for b in boxes])
    step = ROW + GAP
    height = step * len(boxes)
    parts = [
        f'<svg role="img" aria-label="regions in run order" width="{WIDTH + LEFT}" '
        f'height="{height}" viewBox="0 0 {WIDTH + LEFT} {height}">'
    ]
    for a, b in edges:
        top, bottom = a * step + ROW // 2, b * step + ROW // 2
        bend = max(8, LEFT - 14 * min(8, b - a))
        parts.append(
            f'<path class="edge" d="M {LEFT} {top} C {bend} {top}, {bend} {bottom}, '
            f'{LEFT} {bottom}"/>'
        )
    for i, box in enumerate(boxes):
        parts += _box(box, i * step, shades[box.backend])
        if i + 1 < len(boxes):
            x = LEFT + WIDTH // 2
            parts.append(f'<path class="edge" d="M {x} {i * step + ROW} V {(i + 1) * step}"/>')
    return "\n".join([*parts, "</svg>"])


def _box(box: _Box, y: int, colour: str) -> list[str]:
    """SVG of one region: a rectangle at `y` pixels from the top, its name, its operators."""
    name = f"region {box.region}: {box.backend}" if box.region >= 0 else "portable C"
    noun = "call" if len(box.calls) == 1 else "calls"
    line = f"{name}, {len(box.calls)} {noun}, {box.macs / 1e6:.1f} M multiplications"
    return [
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH - 2}" height="{ROW}" rx="4" fill="{colour}">'
        f"<title>{escape(box.ops)}</title></rect>",
        f'<text x="{LEFT + 8}" y="{y + 14}">{escape(line)}</text>',
        f'<text x="{LEFT + 8}" y="{y + 28}" fill="#444">{escape(box.ops[:95])}</text>',
    ]
