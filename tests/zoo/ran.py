# SPDX-License-Identifier: Apache-2.0
"""A process that has ended, and the line that says why it failed."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What the first line of an error of aotc never starts with: notes come before the error.
NOTES = ("note:", "warning:", "hint:", "INFO")
# A traceback up to the line that names the exception; frames and their sources are indented. The
# message goes on behind that line and may say anything, names of other exceptions too.
RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)+(.+)", re.MULTILINE)
# What Python prints between a cause and the exception that was raised from it.
FROM = "The above exception was the direct cause of the following exception:"


@dataclass(frozen=True, slots=True)
class Ran:
    """A process: its exit status (None: it ran out of time) and what it printed."""

    status: int | None
    out: str
    err: str

    def line(self) -> str:
        """The line that names the first cause of the last exception, else the first line of
        stderr, else the last of stdout."""
        raised = list(RAISED.finditer(self.err))
        while len(raised) > 1 and FROM in self.err[raised[-2].end() : raised[-1].start()]:
            raised.pop()
        if raised:
            return raised[-1][1]
        said = [s.strip() for s in self.err.splitlines() if s.strip()]
        said = [s for s in said if not s.startswith(NOTES)]
        return (said or self.out.strip().splitlines()[-1:] or ["nothing was printed"])[0]
