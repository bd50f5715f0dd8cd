# SPDX-License-Identifier: Apache-2.0
"""`aotc explain`: who computes which node, and why others refused it."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged, options_of
from aot.pipeline import partition_model
from aot.tools.explain import explain
from aot.vendor.find import estimates


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    options = options_of(args)
    with Staged(args.verbose, args.quiet) as progress:
        _, partition = partition_model(Path(args.model), options, progress, survey=True)
    report = explain(partition, args.verbose, estimates(options))
    show(args, report.record(), report.text())
    return 0
