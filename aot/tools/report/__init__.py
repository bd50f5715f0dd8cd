# SPDX-License-Identifier: Apache-2.0
"""`aotc report OUT -o R.html`: what a bundle holds, as one page that needs no other file.

A section is a function of the manifest, to which "accelerator" adds what `performance.programs` of
accel_sim reads from the bundle; `SECTIONS` lists them in order. Every name of the model is escaped:
the page runs no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aot.tools.report.accelerator import accelerator
from aot.tools.report.html import STYLE, escape
from aot.tools.report.memory import memory
from aot.tools.report.regions import regions
from aot.tools.report.tables import calls, refusals, summary

Manifest = Mapping[str, Any]
#: Title and what writes the section's HTML ("" = nothing to say).
SECTIONS: tuple[tuple[str, Callable[[Manifest], str]], ...] = (
    ("Summary", summary),
    ("Regions", regions),
    ("Memory", memory),
    ("Accelerator", accelerator),
    ("Calls", calls),
    ("Refusals", refusals),
)


def page(manifest: Manifest) -> str:
    """The whole page; equal manifests give equal text."""
    name = escape(manifest["name"])
    found = [(title, write(manifest)) for title, write in SECTIONS]
    found = [(title, body) for title, body in found if body]
    links = " · ".join(f'<a href="#{t.lower()}">{t}</a>' for t, _ in found)
    bodies = "\n".join(
        f'<section id="{title.lower()}">\n<h2>{title}</h2>\n{body}\n</section>'
        for title, body in found
    )
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{name}</h1>
<nav>{links}</nav>
{bodies}
</body>
</html>
"""
