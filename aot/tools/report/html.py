# SPDX-License-Identifier: Apache-2.0
"""Pieces of the report's HTML: escaping, tables, colours."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

STYLE = """\
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
h1, h2 { font-weight: 600; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #ccc; padding: .2em .8em .2em 0; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; }
.edge { fill: none; stroke: #999; }
"""
#: Portable C is grey; vendors follow in order of appearance.
GREY = "#d9d9d9"
COLOURS = ("#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc", "#fa9fb5", "#fee391")


def escape(value: Any) -> str:
    """`value` as text of the page."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return html.escape(shown, quote=True)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers are aligned to the right."""
    titles = "".join(f"<th>{escape(t)}</th>" for t in head)
    lines = [f"<tr>{''.join(_cell(v) for v in row)}</tr>" for row in rows]
    return f"<table>\n<tr>{titles}</tr>\n" + "\n".join(lines) + "\n</table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(value)}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return f'<td class="number">{shown}</td>'


def colours(backends: Sequence[str]) -> dict[str, str]:
    """A colour per backend."""
    vendors = [b for b in dict.fromkeys(backends) if b != "c"]
    found = {b: COLOURS[i % len(COLOURS)] for i, b in enumerate(vendors)}
    return {"c": GREY, **found}
