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


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    built = open_out(Path(args.out))
    request = Request(
        inputs=None if args.inputs is None else Path(args.inputs),
        reference=args.reference,
        per_node=args.per_node,
        per_region=args.per_region,
        model=None if args.model is None else Path(args.model),
        tolerance=Tolerance.asked(args.rtol, args.atol_of_max, args.max_lsb),
    )
    with Staged(args.verbose, args.quiet) as progress:
        report = verify(built, request, progress)
    show(args, report.record(), report.text(args.verbose))
    if report.passed:
        return 0
    if args.quiet or args.json:
        print(f"aotc: {report.failure()}", file=sys.stderr)
    return 1
