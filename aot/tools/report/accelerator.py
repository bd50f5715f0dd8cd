# SPDX-License-Identifier: Apache-2.0
"""Programs of AX1: when its units work and what they wait for, the roofline, bytes, layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from aot.tools.report.html import escape, table

Performance = Mapping[str, Any]
UNITS = ("LD", "EX", "VX", "ST")
WIDTH, ROW, LEFT = 900, 22, 30
#: Bars closer than so many pixels become one if they are of a kind or that narrow together, so
#: that a page stays small.
MERGED = 0.5
COLOURS = ("#6baed6", "#74c476", "#fd8d3c", "#9e9ac8")
WAITS = "#e8e8e8"
SIDE, TOP = 420, 260
MEMORIES = (
    ("flash", "flash"),
    ("sram", "SRAM"),
    ("spm", "scratchpad"),
    ("wgt", "weights"),
    ("acc", "sums"),
    ("prm", "parameters and tables"),
)


def accelerator(manifest: Mapping[str, Any]) -> str:
    """A part per program; "" if there is none."""
    return "\n".join(_program(performance) for performance in manifest.get("accelerator", ()))


def _program(performance: Performance) -> str:
    cycles = int(performance["cycles"])
    macs = _macs(performance)
    rows = [
        ("multiplications per cycle", int(performance["macs_per_cycle"])),
        ("cycles", cycles),
        ("products of the array that are needed, %", 100 * macs / (_peak(performance) * cycles)),
        ("busiest unit, % of the cycles", 100 * max(performance["busy"]) / cycles),
        ("commands, bytes", int(performance["commands_bytes"])),
        ("constants, bytes", int(performance["weights_bytes"])),
        ("scratchpad, bytes", int(performance["scratchpad_bytes"])),
        ("scratch in SRAM, bytes", int(performance["spill_bytes"])),
        ("energy, microjoules", int(performance["picojoules"]) / 1e6),
    ]
    parts = [
        f"<h3>{escape(performance['name'])}</h3>",
        table(("", ""), rows),
        _timeline(performance),
        _units(performance),
        _roofline(performance),
        _memories(performance),
        _layers(performance),
    ]
    return "\n".join(parts)


def _macs(performance: Performance) -> int:
    return sum(int(layer["macs"]) for layer in performance["layers"])


def _peak(performance: Performance) -> int:
    return int(performance["macs_per_cycle"])


# -- time -----------------------------------------------------------------------------------------


def _timeline(performance: Performance) -> str:
    """A row per unit: coloured where it works, grey where it waits for tokens; layers below."""
    total, height = int(performance["cycles"]), 6 * ROW
    parts = [
        f'<svg role="img" aria-label="the units over time" width="{LEFT + WIDTH}" '
        f'height="{height}" viewBox="0 0 {LEFT + WIDTH} {height}">'
    ]
    for unit, name in enumerate(UNITS):
        y = unit * ROW
        parts.append(f'<text x="0" y="{y + ROW - 8}">{name}</text>')
        for begin, end, waits, text in _bars(performance["spans"], unit, total):
            colour = WAITS if waits else COLOURS[unit]
            parts.append(_bar(begin, end, y, colour, text, total))
    for n, layer in enumerate(performance["layers"]):
        text = f"{layer['name']}: {layer['kind']}, cycles {layer['start']} to {layer['end']}"
        colour = "#bdbdbd" if n % 2 else "#969696"
        y = (4 + n % 2) * ROW
        parts.append(_bar(layer["start"], layer["end"], y, colour, text, total))
    words = "Coloured: the unit works. Light grey: it waits for a token. Below: the layers."
    return "\n".join([*parts, "</svg>", f"<p>{words}</p>"])


def _bars(
    spans: Sequence[Sequence[Any]], unit: int, total: int
) -> list[tuple[int, int, bool, str]]:
    """(start, end, waiting, text) of a unit; those that nobody could tell apart are one."""
    found: list[tuple[int, int, bool, str]] = []
    for name, pc, of, _, start, end, waited, on in spans:
        if of != unit:
            continue
        if waited:
            found.append((start - waited, start, True, f"waits for {UNITS[on]}"))
        found.append((start, end, False, f"{name} at {pc // 16}"))
    joined = _joined(found, total / WIDTH)
    return [(bar.begin, bar.end, bar.waited > bar.ran, bar.text) for bar in joined]


@dataclass(slots=True)
class _Joined:
    """Bars that are drawn as one: what fills most of it is its colour."""

    begin: int
    end: int
    ran: int
    waited: int
    text: str


def _joined(found: Sequence[tuple[int, int, bool, str]], pixel: float) -> list[_Joined]:
    """Bars of at least a pixel, or with a gap before them."""
    merged: list[_Joined] = []
    for begin, end, waits, text in found:
        last = merged[-1] if merged else None
        if last and begin - last.end < MERGED * pixel:
            same = (last.ran == 0) if waits else (last.waited == 0)
            if same or end - last.begin <= pixel:
                last.end = end
                last.ran += 0 if waits else end - begin
                last.waited += end - begin if waits else 0
                last.text = last.text if last.text.endswith(" …") else f"{last.text} …"
                continue
        ran, waited = (0, end - begin) if waits else (end - begin, 0)
        merged.append(_Joined(begin, end, ran, waited, text))
    return merged


def _bar(begin: int, end: int, y: int, colour: str, text: str, total: int) -> str:
    x, width = LEFT + WIDTH * begin / total, max(0.3, WIDTH * (end - begin) / total)
    return (
        f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{ROW - 4}" fill="{colour}">'
        f"<title>{escape(text)}: {end - begin} cycles from {begin}</title></rect>"
    )


def _units(performance: Performance) -> str:
    """Busy, waiting for each of the others, neither."""
    total = int(performance["cycles"])
    rows = []
    for unit, name in enumerate(UNITS):
        waits = [0] * 4
        for _, _, of, _, _, _, waited, on in performance["spans"]:
            if of == unit and waited:
                waits[on] += waited
        busy = int(performance["busy"][unit])
        rest = total - busy - sum(waits)
        rows.append((name, busy, 100 * busy / total, *waits, rest))
    return table(("unit", "busy", "%", *(f"waits for {n}" for n in UNITS), "nothing to do"), rows)


# -- the roofline ---------------------------------------------------------------------------------


def _roofline(performance: Performance) -> str:
    """Products per cycle over products per byte loaded for a layer, with the machine's limits."""
    peak = _peak(performance)
    flash = performance["regions"][1]["flash"]
    rate = int(performance["bytes_per_cycle"]["flash" if flash else "sram"])
    points = [p for p in map(_point, performance["layers"]) if p]
    if not points:
        return ""
    low, high = min(0.1, *(x for x, _, _ in points)), max(1e4, *(x for x, _, _ in points))
    floor = min(0.1, *(y for _, y, _ in points))

    def at(x: float, y: float) -> str:
        px = SIDE * (log10(x) - log10(low)) / (log10(high) - log10(low))
        py = TOP * (1 - (log10(y) - log10(floor)) / (log10(2 * peak) - log10(floor)))
        return f"{px:.1f},{py:.1f}"

    knee = peak / rate
    left = max(low, floor / rate)
    corners = [at(left, max(floor, left * rate)), at(max(low, knee), peak), at(high, peak)]
    parts = [
        f'<svg role="img" aria-label="roofline" width="{SIDE}" height="{TOP}" '
        f'viewBox="0 0 {SIDE} {TOP}">',
        f'<rect width="{SIDE}" height="{TOP}" fill="#f6f6f6"/>',
        f'<polyline points="{" ".join(corners)}" fill="none" stroke="#666"/>',
    ]
    for x, y, name in points:
        cx, cy = at(x, y).split(",")
        text = f"{name}: {y:.1f} products per cycle, {x:.1f} per byte of constants"
        parts.append(
            f'<circle cx="{cx}" cy="{cy}" r="4" fill="{COLOURS[1]}" stroke="#333">'
            f"<title>{escape(text)}</title></circle>"
        )
    words = (
        f"Upwards: products per cycle (the line is level at {peak}); to the right: products per "
        f"byte of constants, which come at {rate} bytes per cycle. A layer can be above the slope "
        "if its constants came while others worked. Both axes are logarithmic."
    )
    return "\n".join([*parts, "</svg>", f"<p>{words}</p>"])


def _point(layer: Mapping[str, Any]) -> tuple[float, float, str] | None:
    took = int(layer["end"]) - int(layer["start"])
    if not layer["macs"] or not layer["weights"] or took <= 0:
        return None
    return layer["macs"] / layer["weights"], layer["macs"] / took, str(layer["name"])


# -- tables ---------------------------------------------------------------------------------------


def _memories(performance: Performance) -> str:
    moved = performance["moved"]
    return table(
        ("memory", "bytes read and written"), [(name, int(moved[key])) for key, name in MEMORIES]
    )


def _layers(performance: Performance) -> str:
    head = (
        "layer", "kind", "start", "cycles", *UNITS, "products", "used %", "constants", "tiling"
    )  # fmt: skip
    rows = []
    for layer in performance["layers"]:
        took = int(layer["end"]) - int(layer["start"])
        share = 100 * int(layer["macs"]) / (_peak(performance) * took) if took > 0 else 0.0
        times = (int(layer["start"]), took, *(int(b) for b in layer["busy"]))
        rows.append(
            (layer["name"], layer["kind"], *times, int(layer["macs"]), share,
             int(layer["weights"]), layer["tiling"])
        )  # fmt: skip
    return table(head, rows)
