# SPDX-License-Identifier: Apache-2.0
"""`aotc diff`: two builds side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.npz import write_bytes
from aot.tools.diff import diff
from aot.tools.report import render


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    found = diff((Path(args.out), Path(args.other)), args.inputs, args.verbose)
    if args.output:
        write_bytes(Path(args.output), render("diff.html", **found).encode("utf-8", "replace"))
    differ = args.exit_code and not found["same"]
    return Answer(found, render("diff.txt", **found).rstrip(), "they differ" if differ else "")
