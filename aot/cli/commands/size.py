# SPDX-License-Identifier: Apache-2.0
"""`aotc size`: RAM, flash and multiply-accumulates."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.commands.common import show
from aot.cli.compile import Staged, options_of
from aot.pipeline import compile_model
from aot.tools.run import Built, open_out
from aot.tools.size import Size, estimate, measure
from aot.tools.symbols import node_sizes, nodes_text, symbols_of, symbols_text


def command(args: argparse.Namespace) -> int:
    """Do what the options say and print the result; the exit code."""
    subject = Path(args.subject)
    if subject.is_dir():
        built = open_out(subject)
        report = measure(built)
        if args.symbols or args.per_node:
            return _size_details(args, built, report)
    else:
        with Staged(args.verbose, args.quiet) as progress:
            report = estimate(compile_model(subject, options_of(args), progress))
    show(args, report.record(), report.text())
    return 0


def _size_details(args: argparse.Namespace, built: Built, report: Size) -> int:
    symbols = symbols_of(built)
    record, parts = report.record(), [report.text()]
    if args.symbols:
        record["symbols"] = [s.record() for s in symbols]
        parts.append(symbols_text(symbols))
    if args.per_node:
        nodes = node_sizes(built, symbols)
        record["nodes"] = [n.record() for n in nodes]
        parts.append(nodes_text(nodes))
    show(args, record, "\n".join(parts))
    return 0
