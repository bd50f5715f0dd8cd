# SPDX-License-Identifier: Apache-2.0
"""Running a subcommand: its module is imported by its name, without the others' libraries."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

from aot.cli.output import emit
from aot.cli.progress import Progress
from aot.errors import AotError, printable

_OF_BUNDLES = ("run", "verify", "bench", "size", "report", "sbom", "disasm")


class Answer(NamedTuple):
    """The outcome of a subcommand: a record for --json, a text, and why it failed ("": it did not).

    The text says a failure, too; where it is not printed, `failure` goes to stderr.
    """

    record: Any
    text: str
    failure: str = ""


def run_command(name: str, args: argparse.Namespace) -> int:
    """Run a subcommand and print its answer; the exit code.

    What it cannot read of an OUT that was changed is no fault of ours: AotError.
    """
    found = _answer(name, args)
    as_record = getattr(args, "json", False)
    if as_record:
        emit(found.record)
    elif found.text and not args.quiet:
        print(printable(found.text))  # symbols and file names, too
    if found.failure and (as_record or args.quiet):
        print(f"aotc: {found.failure}", file=sys.stderr)
    return int(bool(found.failure))


def _answer(name: str, args: argparse.Namespace) -> Answer:
    try:
        module = importlib.import_module(f"aot.cli.commands.{name.replace('-', '_')}")
        with Progress(args.verbose, args.quiet) as progress:
            answer: Answer = module.command(args, progress)
            return answer
    except (AotError, OSError):
        raise
    except Exception as error:
        out = Path(getattr(args, "out", "") or getattr(args, "subject", "") or ".")
        if not (name in _OF_BUNDLES and out.is_dir()):
            raise
        from aot.tools.record import changed  # loads onnx, which few subcommands need

        file = changed(out)
        if not file:
            raise
        raise AotError(f"{out / file} is not as aotc wrote it", hint="compile again") from error
