# SPDX-License-Identifier: Apache-2.0
"""The arena over time: every buffer and scratch at its address, from first call to last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.tools.report.html import colours, escape, table

#: Pixels of the page.
WIDTH, HEIGHT = 740, 300
_LEGEND = (
    "<p>Time runs to the right, a column per call; what lives between runs is in a column before "
    "the first call and behind the last one. Addresses run upwards. The colour is that of the "
    "backend that uses a buffer first, dashed bars are scratch. A call that works in place has "
    "its operand and its result in the same bytes.</p>"
)


def memory(manifest: Mapping[str, Any]) -> str:
    """The picture, and what the plan proves."""
    memory = manifest["memory"]
    rows = [
        ("arena", int(memory["arena_bytes"])),
        ("most that is live at one time", int(memory["lower_bound_bytes"])),
        ("the same without padding and scratch", int(memory["logical_bound_bytes"])),
        ("proven optimal for this order", "yes" if memory["optimal"] else "no"),
        ("no order needs less", "proven" if memory["schedule_optimal"] else "not proven"),
    ]
    return f"{_picture(manifest)}\n{table(('', 'bytes'), rows)}"


def _picture(manifest: Mapping[str, Any]) -> str:
    """Every stretch of `memory.buffers`; in the picture's own units x counts calls, y bytes."""
    total, calls = int(manifest["memory"]["arena_bytes"]), len(manifest["nodes"])
    if not total or not calls:
        return "<p>No arena: every result is an output.</p>"
    stretches = manifest["memory"].get("buffers")
    if stretches is None:
        return "<p>An older aotc compiled this bundle: the manifest does not list its buffers.</p>"
    begin = min(0, *(int(s["first"]) for s in stretches))  # -1: before the first call
    end = max(calls - 1, *(int(s["last"]) for s in stretches)) + 1
    shades = colours([str(n["backend"]) for n in manifest["nodes"]])
    owners = [shades[str(n["backend"])] for n in manifest["nodes"]]
    parts = [
        f'<svg role="img" aria-label="the arena over time" '
        f'style="width:{WIDTH}px;height:{HEIGHT}px" preserveAspectRatio="none" '
        f'viewBox="{begin} 0 {end - begin} {total}">',
        f'<rect x="{begin}" width="{end - begin}" height="{total}" fill="#f6f6f6"/>',
    ]
    for s in sorted(stretches, key=lambda s: bool(s["scratch"])):
        shade = owners[min(max(int(s["first"]), 0), calls - 1)]
        parts.append(_bar(s, total, shade))
    return "\n".join([*parts, "</svg>", _LEGEND])


def _bar(stretch: Mapping[str, Any], total: int, shade: str) -> str:
    """One stretch as a rectangle of the picture, whose address 0 is at the bottom."""
    first, last = int(stretch["first"]), int(stretch["last"])
    offset, size = int(stretch["offset"]), int(stretch["nbytes"])
    dashed = ' stroke-dasharray="3 2"' if stretch["scratch"] else ""
    what = "scratch " if stretch["scratch"] else ""
    return (
        f'<rect class="buffer" x="{first}" y="{total - offset - size}" '
        f'width="{last + 1 - first}" height="{size}" fill="{shade}" stroke="#666" '
        f'stroke-width=".5" vector-effect="non-scaling-stroke"{dashed}>'
        f"<title>{what}{escape(stretch['tensor'])}: {size} bytes at {offset}, "
        f"calls {first} to {last}</title></rect>"
    )
