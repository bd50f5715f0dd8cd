# SPDX-License-Identifier: Apache-2.0
"""Every call in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.tools.report.html import table

HEAD = ("", "nodes", "operators", "backend", "region", "kernel", "multiplications", "bytes written")


def calls(manifest: Mapping[str, Any]) -> str:
    """One table."""
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
