# SPDX-License-Identifier: Apache-2.0
"""Where `--json` writes: to a stdout that nobody else reaches, or no program could read it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

#: The stdout that `alone` keeps for `emit`.
_kept: list[TextIO] = []


@contextlib.contextmanager
def alone(own: bool) -> Iterator[None]:
    """Within, only `emit` writes to stdout; what vendors' code and libraries print goes to stderr.

    If the process is `own`, that holds also for C code, which has no `sys.stdout`, and for what it
    prints when the process ends.
    """
    before = sys.stdout
    _kept.append(_moved(before) if own else before)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        kept = _kept.pop()
        if kept is not before:
            kept.close()


def _moved(stdout: TextIO) -> TextIO:
    """A stream to what is stdout now; descriptor 1 leads to stderr from here on."""
    stdout.flush()
    kept = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors="backslashreplace")
    os.dup2(2, 1)
    return kept


def emit(record: Any) -> None:
    """Print `record` as JSON; dataclasses in it are objects of their fields."""
    stream = _kept[-1] if _kept else sys.stdout
    print(json.dumps(record, indent=1, default=asdict), file=stream, flush=True)
