# SPDX-License-Identifier: Apache-2.0
"""Calls of a bundle as the report shows them, and what each of them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aot.ir.node_traits import converts

#: So many calls have a bar of their own.
_BARS = 12


def title(node: Mapping[str, Any]) -> str:
    """The operators of a call but the conversions around them."""
    ops = str(node["op"]).split(" + ")
    return " + ".join([op for op in ops if not converts(op)] or ops)


def measures(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What calls cost: per measure a title, the dearest (call, amount), the total."""
    nodes = manifest["nodes"]
    code = manifest.get("code") or [0] * len(nodes)
    flash = [int(n.get("constant_bytes", 0)) + c for n, c in zip(nodes, code, strict=True)]
    measured = manifest.get("measured", {})
    took = [n["amount"] for n in measured.get("nodes", ())]
    unit = "Instructions" if "instructions" in measured else "Time in nanoseconds of CPU"
    found = [
        ("MACs", [int(n["macs"]) for n in nodes]),
        ("Flash in bytes: constants" + (" and code" if any(code) else ""), flash),
        (f"{unit}, measured by aotc bench", took),
    ]
    return [_measure(title, amounts) for title, amounts in found if any(amounts)]


def _measure(title: str, amounts: Sequence[float]) -> dict[str, Any]:
    order = sorted((i for i, n in enumerate(amounts) if n), key=lambda i: -amounts[i])
    rest = order[_BARS:]
    return {
        "title": title,
        "bars": [(i, amounts[i]) for i in order[:_BARS]],
        "total": sum(amounts),
        "others": len(rest),
        "rest": sum(amounts[i] for i in rest),
    }
