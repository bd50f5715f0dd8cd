# SPDX-License-Identifier: Apache-2.0
"""Parts of the interface that this version does not have yet.

Each is refused by name with one line and exit code 1: nothing is accepted and ignored. Who builds
one of them deletes its line here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from aot.errors import UnsupportedError

#: Options: name -> (metavar or "" for a flag, what it will do).
OPTIONS: dict[str, tuple[str, str]] = {}

#: Subcommands: name -> what it will do.
COMMANDS: dict[str, str] = {}

#: Vendors of the interface that do not come with this version.
BACKENDS = ("cmsis_nn",)


def unavailable(what: str, hint: str = "") -> UnsupportedError:
    """The one line for everything of this page."""
    return UnsupportedError(f"{what} is not available in this version of aotc", hint=hint)


class Later(argparse.Action):
    """An option that is known but not available yet."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Refuse."""
        raise unavailable(str(option_string))


def add_later(parser: argparse.ArgumentParser, names: Sequence[str] = ()) -> None:
    """Declare the options of OPTIONS (all, or `names`) so that they are refused by name."""
    group = parser.add_argument_group("not available in this version")
    for name in names or tuple(OPTIONS):
        metavar, text = OPTIONS[name]
        group.add_argument(name, action=Later, metavar=metavar, help=text)
