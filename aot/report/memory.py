# SPDX-License-Identifier: Apache-2.0
"""The arena over time: a bar per tensor, from its first call to its last, at its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.report.html import colours, escape, table

WIDTH, HEIGHT = 740, 300


def memory(manifest: Mapping[str, Any]) -> str:
    """The picture, and what the plan proves."""
    facts = manifest["memory"]
    rows = [
        ("arena", int(facts["arena_bytes"])),
        ("most that is live at one time", int(facts["lower_bound_bytes"])),
        ("the same without padding and scratch", int(facts["logical_bound_bytes"])),
        ("proven optimal for this order", "yes" if facts["optimal"] else "no"),
        ("no order needs less", "proven" if facts["schedule_optimal"] else "not proven"),
    ]
    return f"{_picture(manifest)}\n{table(('', 'bytes'), rows)}"


def _picture(manifest: Mapping[str, Any]) -> str:
    total, calls = int(manifest["memory"]["arena_bytes"]), len(manifest["nodes"])
    if not total or not calls:
        return "<p>No arena: every result is an output.</p>"
    shades = colours([str(n["backend"]) for n in manifest["nodes"]])
    parts = [
        f'<svg role="img" aria-label="the arena over time" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f6f6f6"/>',
    ]
    for name, (first, last, offset, size, backend) in _lives(manifest).items():
        x, width = WIDTH * first / calls, WIDTH * (last + 1 - first) / calls
        height = max(1.0, HEIGHT * size / total)
        y = HEIGHT - HEIGHT * offset / total - height
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{shades[backend]}" stroke="#666" stroke-width=".3">'
            f"<title>{escape(name)}: {size} bytes at {offset}</title></rect>"
        )
    return "\n".join([*parts, "</svg>", "<p>Time runs to the right, addresses upwards.</p>"])


def _lives(manifest: Mapping[str, Any]) -> dict[str, tuple[int, int, int, int, str]]:
    """Tensor → (first call, last call, offset, bytes, backend that writes it)."""
    found: dict[str, tuple[int, int, int, int, str]] = {}
    sizes = {
        str(w["tensor"]): int(w["nbytes"]) for n in manifest["nodes"] for w in n.get("writes", ())
    }
    for index, node in enumerate(manifest["nodes"]):
        for name, offset in node.get("offsets", {}).items():
            if name not in sizes:
                continue
            known = found.get(name)
            first, backend = (known[0], known[4]) if known else (index, str(node["backend"]))
            found[name] = (first, index, int(offset), sizes[name], backend)
    return found
