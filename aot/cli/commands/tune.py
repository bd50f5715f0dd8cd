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


def command(a: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    options = options_of(a)
    with Staged(a.verbose, a.quiet) as progress:
        tuned = tune(Path(a.model), options, compile_to, progress, max(1, a.rounds))
    count = write_table(Path(a.output), tuned, load_target(options.target).cpu)
    record = {"file": a.output, "costs": count, "totals_ns": tuned.totals}
    show(a, record, f"{tuned.text()}\n{a.output}: {count} costs")
    return 0
