# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr: silent for the first second, then the stage at work."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

#: Work shorter than this stays silent, in seconds.
PATIENCE = 1.0


class Progress:
    """Called with the name of each stage as it starts.

    On a terminal one line is kept up to date once work has lasted a second; with `verbose` every
    stage gets a line with its time; otherwise, or with `quiet`, nothing is printed. Use as a
    context manager: leaving it clears the line, and an exception that leaves it is marked with the
    stage (`aotc_stage`).
    """

    def __init__(self, verbose: bool = False, quiet: bool = False, label: str = "aotc") -> None:
        self.stage = ""
        self.times: list[tuple[str, float]] = []
        self._label = label
        self._verbose = verbose and not quiet
        self._live = not quiet and not verbose and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._began = self._stage_began = time.monotonic()
        self._drawn = False
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._live:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: Any,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self.stage:
            error.aotc_stage = self.stage
        self._finish_stage()
        self._stop.set()
        if self._ticker:
            self._ticker.join()
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __call__(self, stage: str) -> None:
        """`stage` starts now."""
        with self._lock:
            self._finish_stage()
            self.stage, self._stage_began = stage, time.monotonic()

    def _finish_stage(self) -> None:
        if not self.stage:
            return
        seconds = time.monotonic() - self._stage_began
        self.times.append((self.stage, seconds))
        if self._verbose:
            print(f"{self._label}: {self.stage} {seconds:.2f} s", file=sys.stderr)
        self.stage = ""

    def _tick(self) -> None:
        while not self._stop.wait(0.25):
            elapsed = time.monotonic() - self._began
            if elapsed < PATIENCE or not self.stage:
                continue
            with self._lock:
                sys.stderr.write(f"\r\x1b[K{self._label}: {self.stage} … {elapsed:.0f} s")
                sys.stderr.flush()
                self._drawn = True
