# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize`: a float32 model to an 8-bit one."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.tools.quantize import Quantisation, quantize


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    how = Quantisation(args.act, args.per_tensor, args.format)
    report = quantize(Path(args.model), Path(args.calibrate), Path(args.output), how, progress)
    return Answer(report.record(), report.text())
