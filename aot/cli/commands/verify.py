# SPDX-License-Identifier: Apache-2.0
"""`aotc verify`: a built bundle against a reference."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.tools.compare import Tolerance
from aot.tools.run import open_out
from aot.tools.verify import Request, verify


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    built = open_out(Path(args.out))
    request = Request(
        inputs=None if args.inputs is None else Path(args.inputs),
        reference=args.reference,
        per_node=args.per_node,
        per_region=args.per_region,
        model=None if args.model is None else Path(args.model),
        tolerance=Tolerance(args.rtol, args.atol_of_max, lsb=args.max_lsb),
    )
    report = verify(built, request, progress)
    failure = "" if report.passed else report.failure()
    return Answer(report.record(), report.text(args.verbose), failure)
