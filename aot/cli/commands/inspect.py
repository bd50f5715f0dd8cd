# SPDX-License-Identifier: Apache-2.0
"""`aotc inspect`: what a model takes and gives."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.compile import options_of
from aot.cli.parser import command_parser
from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.cli.words import options_in
from aot.pipeline import partition_model
from aot.tools.inspection import inspect_model


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    pins = ("--dim", "--input-shape", "--bind", "--cut-inputs", "--cut-outputs")
    given = [o for o in options_in(args.words, command_parser("inspect")) if o[0] in pins]
    report = inspect_model(
        Path(args.model), options_of(args), lambda m, o: partition_model(m, o, progress), given
    )
    return Answer(report.record(), report.text())
