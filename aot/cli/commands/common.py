# SPDX-License-Identifier: Apache-2.0
"""What the subcommands share."""

from __future__ import annotations

import argparse
from typing import Any

from aot.cli.output import emit
from aot.errors import printable


def show(args: argparse.Namespace, record: Any, text: str) -> None:
    """Print `record` with --json, else `text` unless --quiet."""
    if args.json:
        emit(record)
    elif text and not args.quiet:
        print(printable(text))  # symbols and file names, too
