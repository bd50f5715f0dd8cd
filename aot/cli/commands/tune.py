# SPDX-License-Identifier: Apache-2.0
"""`aotc tune`: measured costs of every backend, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.api import compile_to
from aot.cli.compile import options_of
from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.target import load_target
from aot.tools.tune import tune, write_table


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    options = options_of(args)
    tuned = tune(Path(args.model), options, compile_to, progress, max(1, args.rounds), args.runner)
    count = write_table(Path(args.output), tuned, load_target(options.target).cpu)
    record = {"file": args.output, "costs": count, "totals_ns": tuned.totals}
    return Answer(record, f"{tuned.text()}\n{args.output}: {count} costs")
