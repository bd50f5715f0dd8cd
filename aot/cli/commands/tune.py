# SPDX-License-Identifier: Apache-2.0
"""`aotc tune`: measured costs of every backend, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.api import compile_to
from aot.cli.commands.common import show
from aot.cli.compile import Staged, options_of
from aot.target import load_target
from aot.tools.tune import tune, write_table


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    options = options_of(args)
    with Staged(args.verbose, args.quiet) as progress:
        tuned = tune(Path(args.model), options, compile_to, progress, max(1, args.rounds))
    count = write_table(Path(args.output), tuned, load_target(options.target).cpu)
    record = {"file": args.output, "costs": count, "totals_ns": tuned.totals}
    show(args, record, f"{tuned.text()}\n{args.output}: {count} costs")
    return 0
