# SPDX-License-Identifier: Apache-2.0
"""`aotc new-backend`: a package with a vendor that works."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import shell_word
from aot.vendor.scaffold import scaffold


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Write the package of a new backend into a folder; its files and how to install it."""
    folder = Path(args.output or args.name)
    files = [str(p) for p in scaffold(args.name, folder, args.kind)]
    word = shell_word(folder)
    hint = f"pip install -e {word} && python -m pytest {word}"
    return Answer({"files": files}, "\n".join([*files, hint]))
