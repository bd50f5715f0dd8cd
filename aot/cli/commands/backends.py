# SPDX-License-Identifier: Apache-2.0
"""`aotc backends`: which vendors there are."""

from __future__ import annotations

import argparse

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.vendor.find import available


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    rows = [{"name": n, "available": True} for n in available()]
    texts = {"c": "portable C, always last"}
    lines = [f"{r['name']:<10} {texts.get(str(r['name']), '')}".rstrip() for r in rows]
    return Answer(rows, "\n".join(lines))
