# SPDX-License-Identifier: Apache-2.0
"""`aotc build`: compile and build what a project file says."""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path

from aot.api import compile_to
from aot.cli.compile import options_of, summary_of, text_of
from aot.cli.parser import compile_parser
from aot.cli.progress import Progress
from aot.cli.project import FILE, words_of
from aot.cli.subcommand import Answer
from aot.errors import AotError, UsageError
from aot.tools.build import build


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Compile in the project's folder, then build; paths of the file are relative to it."""
    folder = Path(args.folder)
    if not (folder / FILE).is_file():
        hint = f"`aotc init DIR` writes a project with {FILE}"
        raise AotError(f"{folder / FILE} does not exist", hint=hint)
    try:
        parsed = compile_parser().parse_args(words_of(folder / FILE))
    # The user typed none of these options: the message names the file.
    except UsageError as error:
        raise AotError(error.what, str(folder / FILE), error.hint) from error
    began = time.process_time()
    with contextlib.chdir(folder):
        out = Path(parsed.output)
        compiled = compile_to(Path(parsed.model), out, options_of(parsed), progress)
        progress("build")
        build(out, jobs=args.jobs)
    summary = summary_of(compiled, folder / out, time.process_time() - began)
    return Answer(summary, f"{text_of(summary)}\nbuilt {folder / out}")
