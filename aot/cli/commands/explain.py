# SPDX-License-Identifier: Apache-2.0
"""`aotc explain`: who computes which node, and why others refused it."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.compile import options_of
from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.load.source import open_model
from aot.pipeline import compile_model, partition_model
from aot.tools.explain import by_blocks, by_memory, by_rows, explain
from aot.tools.unsupported import survey
from aot.vendor.find import estimates


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Explain which backend computes each node and why others do not, as a record and a text.

    With --unsupported only the nodes that no backend computes; with --objective ram the text
    ends with the segments that are made row by row, with --objective flash with the weights that
    calls get by blocks, with --arena split with what each memory has of the arena. The prices of
    matches are nanoseconds.
    """
    options = options_of(args)
    if args.unsupported:
        found = survey(open_model(Path(args.model)), options, partition_model)
        return Answer(found.record(), found.text())
    _, partition = partition_model(Path(args.model), options, progress, survey=True)
    rows = []
    if options.objective in ("ram", "flash") or options.arena == "split":
        made = compile_model(Path(args.model), options, progress)
        rows = by_rows(made.program) if options.objective == "ram" else []
        rows += by_blocks(made.program) if options.objective == "flash" else []
        rows += by_memory(made.plan)
    report = explain(partition, args.verbose, estimates(options))
    return Answer(report.record(), "\n".join([report.text(), *rows]))
