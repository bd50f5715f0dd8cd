# SPDX-License-Identifier: Apache-2.0
"""The sections that are tables: a summary of the bundle, its calls, what vendors refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.tools.report.html import table


def summary(manifest: Mapping[str, Any]) -> str:
    """Three tables: target and sizes, inputs and outputs, how much each backend computes."""
    memory, target = manifest["memory"], manifest["target"]
    rows = [
        ("target", f"{target['name']} ({target['cpu']})"),
        ("aotc", manifest["aotc"]),
        ("multiplications", int(manifest["macs"])),
        ("arena bytes", int(memory["arena_bytes"])),
        ("constants bytes", int(memory["constants_bytes"])),
        ("bytes of inputs and outputs", int(memory["io_bytes"])),
        *((f"option {k}", v) for k, v in manifest.get("options", {}).items()),
    ]
    ends = [
        (kind, t["name"], t["dtype"], "×".join(map(str, t["shape"])) or "scalar", int(t["nbytes"]))
        for kind in ("inputs", "outputs")
        for t in manifest[kind]
    ]
    return "\n".join(
        [
            table(("", ""), rows),
            "<h3>Inputs and outputs</h3>",
            table(("", "name", "type", "shape", "bytes"), ends),
            "<h3>Backends</h3>",
            table(("backend", "calls", "multiplications", "share %"), _shares(manifest)),
        ]
    )


def _shares(manifest: Mapping[str, Any]) -> list[tuple[str, int, int, float]]:
    calls: dict[str, int] = {}
    macs: dict[str, int] = {}
    for node in manifest["nodes"]:
        backend = str(node["backend"])
        calls[backend] = calls.get(backend, 0) + 1
        macs[backend] = macs.get(backend, 0) + int(node["macs"])
    total = max(1, sum(macs.values()))
    return [(b, calls[b], macs[b], 100.0 * macs[b] / total) for b in sorted(calls)]


HEAD = ("", "nodes", "operators", "backend", "region", "kernel", "multiplications", "bytes written")


def calls(manifest: Mapping[str, Any]) -> str:
    """One table: every call in order."""
    rows = [
        (
            int(n["call"]),
            " + ".join(n["nodes"]),
            n["op"],
            n["backend"],
            int(n["region"]) if n["region"] >= 0 else "",
            n["kernel"],
            int(n["macs"]),
            sum(int(w["nbytes"]) for w in n.get("writes", ())),
        )
        for n in manifest["nodes"]
    ]
    return table(HEAD, rows)


def refusals(manifest: Mapping[str, Any]) -> str:
    """One table: why vendors left nodes that they have patterns for; "" without refusals."""
    rows = [
        (r["node"], r["op"], f"{r['backend']}.{r['pattern']}", r["reason"])
        for r in manifest["refusals"]
    ]
    return table(("node", "operator", "pattern", "reason"), rows) if rows else ""
