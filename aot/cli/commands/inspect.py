# SPDX-License-Identifier: Apache-2.0
"""`aotc inspect`: what a model takes and gives."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged, options_of
from aot.cli.parser import command_parser
from aot.cli.words import options_in
from aot.pipeline import partition_model
from aot.tools.inspection import inspect_model


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    pins = ("--dim", "--input-shape", "--bind")
    given = [o for o in options_in(args.words, command_parser("inspect")) if o[0] in pins]
    with Staged(args.verbose, args.quiet) as progress:
        report = inspect_model(
            Path(args.model), options_of(args), lambda m, o: partition_model(m, o, progress), given
        )
    show(args, report.record(), report.text())
    return 0
