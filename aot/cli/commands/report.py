# SPDX-License-Identifier: Apache-2.0
"""`aotc report`: a bundle as a page."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.load.source import open_model
from aot.npz import write_bytes
from aot.pipeline import compile_model
from aot.plan.budget import remedies
from aot.tools.build import RECORD, read_json
from aot.tools.record import options_of
from aot.tools.report import page
from aot.tools.report.beside import manifest_and_more
from aot.tools.run import open_out
from aot.tools.verify import model_path


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    out = Path(args.out)
    content = manifest_and_more(open_out(out), args.bench)
    if args.remedies:
        content["remedies"] = _remedies(out, progress)
        if not content["code"]:  # by the same estimate as what is planned again
            needs = content["remedies"]["flash"][0]
            budgets = content["budgets"]
            content["budgets"] = [(k, needs if k == "flash" else n, g) for k, n, g in budgets]
    text = page(content)
    write_bytes(Path(args.output), text.encode("utf-8", "replace"))
    return Answer({"file": args.output, "bytes": len(text)}, args.output)


def _remedies(out: Path, progress: Progress) -> dict[str, tuple[int, list[tuple[int, str]]]]:
    """By budget the bytes that the bundle in `out` needs, and options that need less, with theirs.

    The model is compiled again from its file. ModelError if the file is gone or has changed.
    """
    record = read_json(out / RECORD, "record of a compilation")
    opened = open_model(model_path(record, None))
    options = replace(options_of(record), ram=None, flash=None, stack=None)
    progress("plan")
    again = partial(compile_model, opened)
    return remedies(again(options), options, again)
