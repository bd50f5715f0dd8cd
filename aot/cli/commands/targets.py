# SPDX-License-Identifier: Apache-2.0
"""`aotc targets`: what can be built for, and what is missing here."""

from __future__ import annotations

import argparse

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.target import listing


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    rows = listing()
    width = max(len(r["name"]) for r in rows)
    return Answer(rows, "\n".join(f"{r['name']:<{width}}  {r['text']}" for r in rows))
