# SPDX-License-Identifier: Apache-2.0
"""`aotc backends`: which vendors there are."""

from __future__ import annotations

import argparse

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.vendor.find import PLANNED, available


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    known = available()
    rows = [{"name": n, "available": True} for n in known]
    rows += [{"name": n, "available": False} for n in PLANNED if n not in known]
    notes = {True: "", False: "not available in this version"}
    texts = {"c": "portable C, always last"}
    lines = [
        f"{r['name']:<10} {texts.get(str(r['name']), notes[bool(r['available'])])}" for r in rows
    ]
    return Answer(rows, "\n".join(line.rstrip() for line in lines))
