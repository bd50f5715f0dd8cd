# SPDX-License-Identifier: Apache-2.0
"""`aotc completion SHELL`."""

from __future__ import annotations

import argparse

from argcomplete.shell_integration import shellcode

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """The script that the shell is to read."""
    script = shellcode(["aotc"], shell=args.shell)
    return Answer({"shell": args.shell, "script": script}, script.rstrip())
