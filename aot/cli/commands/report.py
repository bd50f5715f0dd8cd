# SPDX-License-Identifier: Apache-2.0
"""`aotc report`: a bundle as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.npz import write_bytes
from aot.tools.report import page
from aot.tools.run import open_out
from aot.vendor.accel_sim.performance import programs


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    out = Path(args.out)
    text = page({**open_out(out).manifest, "accelerator": programs(out / "bundle")})
    write_bytes(Path(args.output), text.encode("utf-8", "replace"))
    return Answer({"file": args.output, "bytes": len(text)}, args.output)
