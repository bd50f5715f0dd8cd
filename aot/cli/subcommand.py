# SPDX-License-Identifier: Apache-2.0
"""Running a subcommand: its module is imported by its name, without the others' libraries."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from aot.errors import AotError

_OF_BUNDLES = ("run", "verify", "bench", "size", "report", "disasm")


def run_command(name: str, args: argparse.Namespace) -> int:
    """Dispatch a subcommand; what it cannot read of an OUT that was changed is no fault of ours."""
    try:
        module = importlib.import_module(f"aot.cli.commands.{name.replace('-', '_')}")
        return int(module.command(args))
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
