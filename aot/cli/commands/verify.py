# SPDX-License-Identifier: Apache-2.0
"""`aotc verify`: a built bundle against a reference."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged
from aot.tools.compare import Tolerance
from aot.tools.run import open_out
from aot.tools.verify import Request, verify


def command(a: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    built = open_out(Path(a.out))
    request = Request(
        inputs=None if a.inputs is None else Path(a.inputs),
        reference=a.reference,
        per_node=a.per_node,
        per_region=a.per_region,
        model=None if a.model is None else Path(a.model),
        tolerance=Tolerance.asked(a.rtol, a.atol_of_max, a.max_lsb),
    )
    with Staged(a.verbose, a.quiet) as progress:
        report = verify(built, request, progress)
    show(a, report.record(), report.text(a.verbose))
    if report.passed:
        return 0
    if a.quiet or a.json:
        print(f"aotc: {report.failure()}", file=sys.stderr)
    return 1
