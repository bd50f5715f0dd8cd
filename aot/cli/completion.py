# SPDX-License-Identifier: Apache-2.0
"""What a shell completes: argcomplete asks our parsers; no model is read, nothing is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import argcomplete
from argcomplete import completers, lexers

from aot.cli.parser import COMMANDS, command_parser, compile_parser
from aot.options import PACKAGES
from aot.target import names
from aot.vendor.find import available

#: The words that fit an argument, by the attribute that the parser sets; others are files.
WORDS: dict[str, Callable[[], Sequence[str]]] = {
    "target": names,
    "backend": available,
    "package": lambda: PACKAGES,
}


def answer() -> None:
    """Write the words that fit what was typed (COMP_LINE) where the shell reads them, and exit."""
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    typed = lexers.split_line(line, point)[3]
    begun = next((i for i, word in enumerate(typed) if i and not word.startswith("-")), 0)
    name = typed[begun] if begun else ""
    if name in COMMANDS:  # the subcommand stands for the program
        os.environ["_ARGCOMPLETE"] = str(begun + 1)
    parser = command_parser(name) if name in COMMANDS else compile_parser()
    for action in parser._actions:
        if fitting := WORDS.get(action.dest):
            action.completer = completers.ChoicesCompleter(dict.fromkeys(fitting(), ""))  # type: ignore[attr-defined]
        elif action.dest == "model" and name not in COMMANDS:
            action.completer = _model  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _model(prefix: str, **_asked: object) -> list[str]:
    """Files, and the subcommands."""
    files = completers.FilesCompleter()(prefix)
    return [*files, *(name for name in COMMANDS if name.startswith(prefix))]
