# SPDX-License-Identifier: Apache-2.0
"""`aotc report OUT -o R.html`: what a bundle holds, as one page that needs no other file.

Functions of this folder compute what is drawn, `templates/` draws it. Every name of the model is
escaped; the page's script is its own and loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aot.ops.registry import load_all
from aot.tools.report import accelerator
from aot.tools.report.calls import measures, title
from aot.tools.report.graph import pictures
from aot.tools.report.memory import memory_map, row_maps


def page(manifest: Mapping[str, Any]) -> str:
    """The whole page; equal manifests give equal text.

    Beside the keys of manifest.json, `manifest` may have those that beside.py reads: the
    performance of an accelerator's programs, C, bytes of code, budgets, what `aotc bench` measured.
    """
    load_all()  # the records of operators say which ones quantise
    titles = [title(node) for node in manifest["nodes"]]
    # Portable C has the first colour; vendors follow in order of appearance.
    backends = dict.fromkeys(["c", *(str(node["backend"]) for node in manifest["nodes"])])
    return render(
        "page.html",
        manifest=manifest,
        titles=titles,
        map=memory_map(manifest),
        segments=row_maps(manifest),
        graphs=pictures(manifest, titles),
        measures=measures(manifest),
        programs=manifest.get("accelerator", ()),
        shades={b: i and 1 + (i - 1) % 6 for i, b in enumerate(backends)},
    )


def render(template: str, **values: Any) -> str:
    """The text of `templates/<template>.jinja` with `values` filled in, in pages escaped."""
    return str(_environment().get_template(f"{template}.jinja").render(values))


@cache
def _environment() -> Any:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html.jinja"]),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        keep_trailing_newline=True,
    )
    made.globals |= {"bars": accelerator.bars, "roofline": accelerator.roofline}
    return made


def _shown(value: Any) -> Any:
    """A name of the model without characters that nobody sees; other values as they are."""
    if type(value) is not str or value.isprintable():
        return value
    shown = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in value)
    return "".join(shown)
