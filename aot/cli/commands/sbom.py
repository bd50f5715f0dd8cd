# SPDX-License-Identifier: Apache-2.0
"""`aotc sbom`: the parts of a bundle as SPDX."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.npz import write_bytes
from aot.tools.run import open_out
from aot.tools.sbom import sbom


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    content = sbom(open_out(Path(args.out)))
    if args.output:
        write_bytes(Path(args.output), content)
    return Answer(json.loads(content), args.output or content.decode().rstrip("\n"))
