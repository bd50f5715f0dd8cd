# SPDX-License-Identifier: Apache-2.0
"""`aotc disasm`: the streams of an accelerator as text."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import one_line
from aot.vendor.accel_sim.listing import listings


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    found = listings(Path(args.out))
    record = [{"file": s.name, "instructions": s.count, "listing": s.text} for s in found]
    text = "\n".join(f"; {one_line(s.name)}: {s.count} instructions\n{s.text}" for s in found)
    return Answer(record, text.rstrip("\n"))
