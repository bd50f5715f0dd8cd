# SPDX-License-Identifier: Apache-2.0
"""`aotc size`: RAM, flash and multiply-accumulates."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.compile import options_of
from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.pipeline import compile_model
from aot.tools.run import Built, open_out
from aot.tools.size import Size, estimate, measure
from aot.tools.symbols import node_sizes, nodes_text, symbols_of, symbols_text


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    subject = Path(args.subject)
    if subject.is_dir():
        built = open_out(subject)
        report = measure(built)
        if args.symbols or args.per_node:
            return _size_details(args, built, report)
    else:
        report = estimate(compile_model(subject, options_of(args), progress))
    return Answer(report.record(), report.text())


def _size_details(args: argparse.Namespace, built: Built, report: Size) -> Answer:
    symbols = symbols_of(built)
    record, parts = report.record(), [report.text()]
    if args.symbols:
        record["symbols"] = symbols
        parts.append(symbols_text(symbols))
    if args.per_node:
        nodes = node_sizes(built, symbols)
        record["nodes"] = nodes
        parts.append(nodes_text(nodes))
    return Answer(record, "\n".join(parts))
