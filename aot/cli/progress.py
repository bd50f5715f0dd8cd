# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr: silent for the first second, then a bar with the stage at work."""

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

    On a terminal a bar shows the stage and the time once work has lasted a second; with `verbose`
    every stage gets a line with its time; otherwise, or with `quiet`, nothing is printed. Use as a
    context manager: leaving it removes the bar, and an exception that leaves it is marked with the
    stage (`aotc_stage`).
    """

    def __init__(self, verbose: bool = False, quiet: bool = False, label: str = "aotc") -> None:
        self.stage = ""
        self.times: list[tuple[str, float]] = []
        self._label = label
        self._verbose = verbose and not quiet
        self._lock = threading.Lock()
        self._stage_began = time.monotonic()
        self._bar: Any = None
        live = not quiet and not verbose and sys.stderr.isatty()
        self._timer = threading.Timer(PATIENCE, self._show) if live else None

    def __enter__(self) -> Progress:
        if self._timer:
            self._timer.daemon = True
            self._timer.start()
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
        if self._timer:
            self._timer.cancel()
            self._timer.join()
        if self._bar:
            self._bar.stop()

    def __call__(self, stage: str) -> None:
        """`stage` starts now."""
        with self._lock:
            self._finish_stage()
            self.stage, self._stage_began = stage, time.monotonic()
            if self._bar:
                self._bar.update(self._bar.task_ids[0], description=f"{self._label}: {stage}")

    def _finish_stage(self) -> None:
        if not self.stage:
            return
        seconds = time.monotonic() - self._stage_began
        self.times.append((self.stage, seconds))
        if self._verbose:
            print(f"{self._label}: {self.stage} {seconds:.2f} s", file=sys.stderr)
        self.stage = ""

    def _show(self) -> None:
        """Show the bar; the thread of the timer loads rich, which short work does not need."""
        from rich import console, progress

        columns = (progress.TextColumn("{task.description}", markup=False), progress.BarColumn())
        screen = console.Console(file=sys.stderr)
        with self._lock:
            self._bar = progress.Progress(
                *columns,
                progress.TimeElapsedColumn(),
                console=screen,
                transient=True,
                redirect_stdout=False,
            )
            self._bar.add_task(f"{self._label}: {self.stage}", total=None)
            self._bar.start()
