# SPDX-License-Identifier: Apache-2.0
"""`aotc run`: the built model on files."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import one_line
from aot.tools.run import execute, open_out, write_outputs
from aot.tools.samples import runs_of


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    built = open_out(Path(args.out))
    built.program()
    samples = runs_of(built, args.inputs)
    progress("run")
    runs = [(s.label, execute(built, s.inputs)) for s in samples]
    write_outputs(built, runs, args.outputs)
    record = [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in built.outputs]
    text = "\n".join(f"{one_line(s.name)}: {s.dtype}{list(s.shape)}" for s in built.outputs)
    return Answer(record, "" if args.outputs else text)
