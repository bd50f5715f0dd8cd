# SPDX-License-Identifier: Apache-2.0
"""Command lines as text: what was typed, and what to type next."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from aot.cli.parser import COMMANDS, command_parser, compile_parser
from aot.errors import UsageError, model_word, typed

#: In a hint: a command that needs the model, and what the command line said of it.
EXPLAIN = "`aotc explain`"


def options_in(words: Sequence[str], parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The options among `words`, which `parser` takes, with their values ("" for a flag)."""
    flags = {o: a.nargs == 0 for a in parser._actions for o in a.option_strings}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in flags:
            yield option, value if equals or flags[option] else next(left, "")


def explained(text: str, words: Sequence[str], without: Sequence[str] = ()) -> str:
    """`text` with `aotc explain` spelled out for the command line `words`, less some options."""

    if EXPLAIN not in text:
        return text
    known = next((w for w in words if not w.startswith("-")), "")
    parser = command_parser(known) if known in COMMANDS else compile_parser()
    rest = [w for i, w in enumerate(words) if not (known in COMMANDS and i == words.index(known))]
    try:
        model = parser.parse_args(rest).model
    except (AttributeError, UsageError):  # no model, or a name that looks like the command
        return text
    taken = {o for a in command_parser("explain")._actions for o in a.option_strings}
    kept = [typed(o, v) for o, v in options_in(rest, parser) if o in taken - {*without} and v]
    return text.replace(EXPLAIN, f"`{' '.join(['aotc explain', model_word(model), *kept])}`")
