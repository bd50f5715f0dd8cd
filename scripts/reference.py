# SPDX-License-Identifier: Apache-2.0
"""Pages of the reference that code writes: `python scripts/reference.py` (`make docs`).

docs/cli.md comes from the parser and docs/operators.md from the operators' declarations, by the
templates in scripts/pages.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from aot.cli import parser
from aot.tools.explain import operators

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("cli.md", "operators.md")


def page(name: str) -> str:
    """The page `name` of docs/ as the code has it now."""
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("pages")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["cell"] = lambda text: text.replace("|", "\\|")
    commands = [
        ("MODEL.onnx -o OUT", "", parser.compile_parser()),
        *((n, text, parser.command_parser(n)) for n, text in parser.COMMANDS.items()),
    ]
    listed = operators() if name == "operators.md" else ()
    return pages.get_template(f"{name}.j2").render(commands=commands, operators=listed)


if __name__ == "__main__":
    for written in PAGES:
        (ROOT / "docs" / written).write_text(page(written), encoding="utf-8")
