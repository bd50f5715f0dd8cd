# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of networks on emulated boards share: their command line, a table per target."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

#: (name of a network, folder of models, target, whether to list layers) → whether all is as asked.
Line = Callable[[str, Path, str, bool], bool]


def tables(
    text: str,
    networks: Sequence[str],
    targets: Sequence[str],
    head: str,
    line: Line,
    needed: Sequence[str] = ("AOT_TEST_MODELS",),
) -> int:
    """Print `head` and a `line` per network for every target; 1 if a line says no.

    `text` is the program's docstring; `networks` and `targets` are those taken where the command
    line names none. The answer is 2 where a variable `needed` is not set; the first is the folder.
    """
    p = argparse.ArgumentParser(description=text.splitlines()[0])
    p.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(networks))
    p.add_argument("--target", action="append", default=[])
    p.add_argument("--layers", action="store_true")
    a = p.parse_args()
    missing = [name for name in needed if name not in os.environ]
    if missing:
        print(f"{missing[0]} is not set", file=sys.stderr)
        return 2
    folder, good = Path(os.environ[needed[0]]), True
    for target in a.target or targets:
        print(f"{target}\n\n{head}")
        for name in a.models or networks:
            good = line(name, folder, target, a.layers) and good
        print()
    return 0 if good else 1
