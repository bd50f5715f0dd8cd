# SPDX-License-Identifier: Apache-2.0
"""A timeline for people: Perfetto's JSON, and busy times in words. One cycle is shown as 1 us."""

from __future__ import annotations

import json
from typing import Any

from aot.vendor.accel_sim.estimate import UNITS, Span, Timeline
from aot.vendor.accel_sim.kinds import Unit


def _events(span: Span) -> list[dict[str, Any]]:
    common = {"ph": "X", "pid": 1, "tid": int(span.unit) + 1}
    args = {"pc": f"0x{span.pc:x}", "handed out": span.dispatched}
    found: list[dict[str, Any]] = []
    if span.waited:
        name = f"waits for {Unit(span.on).name}"
        begin = span.start - span.waited
        found.append({"name": name, "cat": "wait", "ts": begin, "dur": span.waited, **common})
    run = {"name": span.name, "cat": "run", "ts": span.start, "dur": span.end - span.start}
    found.append({**run, **common, "args": args})
    return found


def perfetto(timeline: Timeline, name: str = "AX1") -> str:
    """The trace file: a track per unit, what it executes and whom it waits for."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": name}}
    ]
    for unit in UNITS:
        track = {"ph": "M", "pid": 1, "tid": int(unit) + 1, "args": {"name": unit.name}}
        events.append({"name": "thread_name", **track})
    for span in timeline.spans:
        events += _events(span)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=0) + "\n"
