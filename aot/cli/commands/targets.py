# SPDX-License-Identifier: Apache-2.0
"""`aotc targets`: what can be built for, and what is missing here."""

from __future__ import annotations

import argparse

from aot.cli.commands.common import show
from aot.target import listing


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    rows = listing()
    width = max(len(r["name"]) for r in rows)
    show(args, rows, "\n".join(f"{r['name']:<{width}}  {r['text']}" for r in rows))
    return 0
