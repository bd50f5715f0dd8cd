# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md, written from the parser by `python -m aot.cli.docs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli import parser

_HEAD = """\
# The command line

Written by `make docs` from the parser; do not edit.

`aotc MODEL.onnx -o OUT [options]` writes a C99 project to `OUT/bundle/` and configures CMake with
`OUT` as the build tree; `cmake --build OUT` does the rest. A model whose file is named like a
subcommand is given with its folder: `aotc ./run -o OUT`.

Exit status: 0 done; 1 the model, target, environment or comparison is at fault (one message of at
most 8 lines on stderr); 2 usage. If aotc fails, a new `OUT` holds no file and an old one keeps its
last bundle.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## aotc MODEL.onnx -o OUT\n", _table(parser.compile_parser())]
    for name, text in parser.COMMANDS.items():
        parts += [f"## aotc {name}\n", f"{text[:1].upper()}{text[1:]}.\n"]
        parts.append(_table(parser.command_parser(name)))
    return "\n".join(parts)


def _table(parser: argparse.ArgumentParser) -> str:
    rows = [f"| `{_cell(' '.join(_names(a)))}` | {_cell(a.help)} |" for a in parser._actions]
    return "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n"


def _names(action: argparse.Action) -> list[str]:
    """How an argument is typed: its spellings and its value."""
    value = action.metavar
    if value is None and action.choices is not None:
        value = "|".join(map(str, action.choices))
    spelled = [", ".join(action.option_strings)] if action.option_strings else []
    takes_none = action.nargs == 0
    return spelled if takes_none or value is None else [*spelled, str(value)]


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs" / "cli.md").write_text(page(), encoding="utf-8")
