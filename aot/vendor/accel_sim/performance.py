# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of a program, as JSON beside its commands: cycles, bytes, energy, layers,
and when every instruction runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aot.vendor import BackendError, one_line
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.energy import traffic
from aot.vendor.accel_sim.estimate import Span, Timeline
from aot.vendor.accel_sim.frontend import expand
from aot.vendor.accel_sim.kinds import UNITS, Unit
from aot.vendor.accel_sim.network import Compiled

#: Where they are in a bundle.
FOLDER = "accel"
#: Lines of the list of layers are cut here.
_TITLE = 60
Performance = Mapping[str, Any]


def report(compiled: Compiled, config: Config) -> bytes:
    """The ASCII JSON of a compiled program, as the estimator sees one run of it.

    Rates are bytes in a cycle, `busy` and `waits` cycles of each unit, `executed` the
    instructions that a run executes, each turn of a loop counted, `spill_bytes` the system
    memory that tensors need for which the scratchpad is too small, `regions` the memory regions
    of the driver, not those of the partition.

    `spans` are [name, offset of the instruction in the stream in bytes, unit, cycle of
    dispatch, of start, of completion, cycles it waited for tokens, unit that signalled the last
    token or -1], in the order of the program.
    """
    moved = traffic(expand(compiled.stream), config, compiled.regions)
    t = compiled.timeline
    found = {
        "macs_per_cycle": config.macs,
        "bytes_per_cycle": {"sram": config.sram_rate, "flash": config.flash_rate},
        "cycles": compiled.cycles,
        "executed": compiled.executed,
        "commands_bytes": len(compiled.stream),
        "weights_bytes": len(compiled.weights),
        "spill_bytes": compiled.spill,
        "scratchpad_bytes": compiled.spm,
        "regions": [
            {"bytes": r.size, "flash": r.flash, "writable": r.writable} for r in compiled.regions
        ],
        "busy": list(t.busy),
        "waits": list(t.stalled),
        "moved": dict(moved),
        "picojoules": round(moved.energy()),
        "layers": [_layer(compiled, n) for n in range(len(compiled.layers))],
        "notes": list(compiled.notes),
    }
    spans = [
        [s.name, s.pc, int(s.unit), s.dispatched, s.start, s.end, s.waited, s.on] for s in t.spans
    ]
    lines = ",\n".join("  " + json.dumps(s, separators=(",", ":")) for s in spans)
    head = json.dumps(found, indent=1)[:-2]  # without the last brace and the line before it
    return f'{head},\n "spans": [\n{lines}\n ]\n}}\n'.encode("ascii")


def _layer(compiled: Compiled, number: int) -> dict[str, Any]:
    """The JSON record of layer number `number`: cycles, products, bytes of weights, tiling."""
    layer = compiled.layers[number]
    return {
        "name": layer.name,
        "kind": layer.kind,
        "start": layer.start,
        "end": layer.end,
        "busy": list(layer.busy),
        "macs": layer.macs,
        "weights": layer.weights,
        "tiling": layer.tiling,
    }


def programs(bundle: Path) -> list[dict[str, Any]]:
    """The performance of every program of a bundle, with "name"; none if it has no accelerator.

    Raises BackendError for a file that does not hold them.
    """
    found = []
    for file in sorted((bundle / FOLDER).glob("*.json"), key=lambda f: (len(f.name), f.name)):
        try:
            performance = json.loads(file.read_bytes())
            timeline(performance)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackendError(f"{one_line(str(error))}: not what aotc wrote", str(file)) from error
        found.append({"name": file.stem, **performance})
    return found


def timeline(performance: Performance) -> Timeline:
    """The timeline, in cycles, that the JSON of a program holds; KeyError or TypeError for other
    JSON.
    """
    spans = [
        Span(pc, Unit(unit), str(name), at, start, end, waited, on)
        for name, pc, unit, at, start, end, waited, on in performance["spans"]
    ]
    macs = sum(int(layer["macs"]) for layer in performance["layers"])
    return Timeline(
        int(performance["cycles"]),
        macs,
        list(performance["busy"]),
        list(performance["waits"]),
        spans,
    )


def used(performance: Performance, macs: int, cycles: int) -> float:
    """The percentage of products that the array could make in `cycles` that the network needs
    (`macs`).

    0 for no cycles.
    """
    return 100.0 * macs / (int(performance["macs_per_cycle"]) * cycles) if cycles else 0.0


def summary(performance: Performance, per_layer: bool = False) -> str:
    """The text of one program for `aotc bench`: cycles, busy units, bytes moved, energy in
    microjoules.

    `per_layer` adds a line for every layer.
    """
    cycles, macs = (
        int(performance["cycles"]),
        sum(int(layer["macs"]) for layer in performance["layers"]),
    )
    busy = ", ".join(
        f"{u.name} {100 * b / cycles:.1f} %"
        for u, b in zip(UNITS, performance["busy"], strict=True)
    )
    moved = performance["moved"]
    lines = [
        f"{performance['name']}: {cycles} cycles of AX1-{performance['macs_per_cycle']}, "
        f"{used(performance, macs, cycles):.1f} % of its products; busy {busy}",
        f"  {moved['flash']} bytes from flash, {moved['sram']} of SRAM, scratchpad "
        f"{performance['scratchpad_bytes']}, scratch in SRAM {performance['spill_bytes']}; "
        f"{int(performance['picojoules']) / 1e6:.3f} uJ",
    ]
    if per_layer:
        lines.append(f"{'start':>10} {'cycles':>9} {'LD':>8} {'EX':>8} {'VX':>8} {'ST':>8}  used")
        lines += [_line(performance, layer) for layer in performance["layers"]]
    return "\n".join(lines)


def _line(performance: Performance, layer: Mapping[str, Any]) -> str:
    """The line of a layer: start, cycles, busy cycles per unit, use of the array, name (cut
    to 60).
    """
    took = int(layer["end"]) - int(layer["start"])
    busy = " ".join(f"{b:>8}" for b in layer["busy"])
    share = used(performance, int(layer["macs"]), took)
    name = str(layer["name"])
    title = name if len(name) <= _TITLE else f"…{name[-_TITLE:]}"
    return one_line(
        f"{layer['start']:>10} {took:>9} {busy} {share:5.1f}%  {layer['kind']}: {title}"
    )


def _events(span: Span) -> list[dict[str, Any]]:
    """The trace events of one instruction: its wait for tokens, if any, and its run; times in
    cycles.
    """
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
    """The JSON of a Perfetto trace: a track per unit with its instructions and waits.

    A cycle is shown as a microsecond, the unit of the format's times.
    """
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": name}}
    ]
    for unit in UNITS:
        track = {"ph": "M", "pid": 1, "tid": int(unit) + 1, "args": {"name": unit.name}}
        events.append({"name": "thread_name", **track})
    for span in timeline.spans:
        events += _events(span)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=0) + "\n"


def trace(found: list[dict[str, Any]]) -> str:
    """The JSON of one Perfetto trace of all programs of a bundle, each a process of its own."""
    events: list[dict[str, Any]] = []
    for number, performance in enumerate(found):
        made = json.loads(perfetto(timeline(performance), f"{performance['name']} on AX1"))
        events += [{**event, "pid": number + 1} for event in made["traceEvents"]]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=0) + "\n"
