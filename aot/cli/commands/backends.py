# SPDX-License-Identifier: Apache-2.0
"""`aotc backends`: which vendors there are."""

from __future__ import annotations

import argparse

from aot.cli.commands.common import show
from aot.vendor.find import PLANNED, available


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    known = available()
    rows = [{"name": n, "available": True} for n in known]
    rows += [{"name": n, "available": False} for n in PLANNED if n not in known]
    notes = {True: "", False: "not available in this version"}
    texts = {"c": "portable C, always last"}
    lines = [
        f"{r['name']:<10} {texts.get(str(r['name']), notes[bool(r['available'])])}" for r in rows
    ]
    show(args, rows, "\n".join(line.rstrip() for line in lines))
    return 0
