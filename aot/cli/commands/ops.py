# SPDX-License-Identifier: Apache-2.0
"""`aotc ops`: the operators of portable C."""

from __future__ import annotations

import argparse
from typing import Any

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.tools.explain import operators


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    rows = operators()
    width = len("MeanVarianceNormalization")  # longer names push what follows to the right
    lines = [f"{r['op']:<{width}}  {_operator(r)}".rstrip() for r in rows]
    return Answer(rows, "\n".join([*lines, f"{len(rows)} operators"]))


def _operator(row: dict[str, Any]) -> str:
    """Attributes and tested dtypes of one operator."""
    attributes = f"({', '.join(row['attributes'])})" if row["attributes"] else ""
    return f"{' '.join(row['dtypes'])} {attributes}".strip()
