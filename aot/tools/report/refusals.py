# SPDX-License-Identifier: Apache-2.0
"""Why vendors did not take nodes that they have patterns for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.tools.report.html import table


def refusals(manifest: Mapping[str, Any]) -> str:
    """One table; nothing without refusals."""
    rows = [
        (r["node"], r["op"], f"{r['backend']}.{r['pattern']}", r["reason"])
        for r in manifest["refusals"]
    ]
    return table(("node", "operator", "pattern", "reason"), rows) if rows else ""
