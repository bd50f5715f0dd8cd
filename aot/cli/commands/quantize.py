# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize`: a float32 model to an 8-bit one."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged
from aot.tools.quantize import Quantisation, quantize


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    how = Quantisation(args.act, args.per_tensor, args.format)
    with Staged(args.verbose, args.quiet) as progress:
        report = quantize(Path(args.model), Path(args.calibrate), Path(args.output), how, progress)
    show(args, report.record(), report.text())
    return 0
