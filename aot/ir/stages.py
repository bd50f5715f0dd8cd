# SPDX-License-Identifier: Apache-2.0
"""What is told of the compiler's stages while they run: names as they begin, results as text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")
#: Told the name of each stage as it begins.
Progress = Callable[[str], None]
#: Told the text form of each stage's result as it appears (`--dump-after`).
Watch = Callable[[str, Callable[[], str]], None]


def silent(_stage: str) -> None:
    """The progress that nobody reads."""


def unwatched(_stage: str, _text: Callable[[], str]) -> None:
    """The results that nobody reads: their text is not made."""


class Stages:
    """Runs the stages of a compilation, `stage("lower", work, text)`, and tells of each."""

    def __init__(self, progress: Progress, watch: Watch) -> None:
        """Tell `progress` of each stage and let `watch` see its result as text."""
        self._progress = progress
        self._watch = watch

    def begin(self, name: str) -> None:
        """Tell that a stage begins."""
        self._progress(name)

    def show(self, name: str, text: Callable[[], str]) -> None:
        """Offer the text of a stage's result; it is made only if somebody reads it."""
        self._watch(name, text)

    def __call__(
        self, name: str, work: Callable[[], Result], text: Callable[[Result], str] | None = None
    ) -> Result:
        """The result of `work`, which `text` makes readable; raises the errors of `work`."""
        self.begin(name)
        result = work()
        if text is not None:
            self.show(name, partial(text, result))
        return result
