# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize`: a float32 model to an 8-bit one."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged
from aot.tools.quantize import Quantisation, quantize


def command(a: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    how = Quantisation(a.act, a.per_tensor, a.format)
    with Staged(a.verbose, a.quiet) as progress:
        report = quantize(Path(a.model), Path(a.calibrate), Path(a.output), how, progress)
    show(a, report.record(), report.text())
    return 0
