# SPDX-License-Identifier: Apache-2.0
"""`aotc report`: a bundle as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.npz import write_bytes
from aot.tools.report import page
from aot.tools.report.beside import manifest_and_more
from aot.tools.run import open_out


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    text = page(manifest_and_more(open_out(Path(args.out)), args.bench))
    write_bytes(Path(args.output), text.encode("utf-8", "replace"))
    return Answer({"file": args.output, "bytes": len(text)}, args.output)
