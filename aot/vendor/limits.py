# SPDX-License-Identifier: Apache-2.0
"""The speed of a backend, the limits of its regions, and the reasons that its checks yield."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


def reasons(found: Any) -> Iterator[str]:
    """The reasons, among pairs of a check, whose conditions do not hold.

    TypeError for anything but such pairs: text in place of a condition would always hold.
    """
    if not isinstance(found, Iterable):
        raise TypeError(f"{found!r} (a check yields condition, reason)")
    for ok, reason in found:
        if isinstance(ok, str):
            raise TypeError(f"the condition {ok!r} is text (a check yields condition, reason)")
        if not ok:
            yield reason


@dataclass(frozen=True, slots=True)
class Speed:
    """A backend's speed, for the estimates of `--partition cost`.

    `call_ns` is spent per call, `enter_ns` each time control goes to the backend and comes back;
    `border_bytes_per_ns` is how fast values get into memory of its own and out of it (0: it has
    none). All in nanoseconds.
    """

    macs_per_ns: float
    bytes_per_ns: float
    call_ns: float = 100.0
    enter_ns: float = 0.0
    border_bytes_per_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one region of a backend may have; None where the backend sets no limit.

    `inputs` and `outputs` count values that enter (without constants) and leave the region, `nodes`
    counts operators. `constant_bytes` is the size of all constants, each counted once.
    `live_bytes` is the size of the values that the region holds at one time: inputs from its start
    to their last reader, results to its end, other values from their maker to their last reader.
    With `connected` every two matches are joined by a path of values made in the region. With
    `whole` the backend takes a graph as one region, or nothing of it.
    """

    inputs: int | None = None
    outputs: int | None = None
    nodes: int | None = None
    constant_bytes: int | None = None
    live_bytes: int | None = None
    connected: bool = False
    whole: bool = False


#: Limits of a backend that sets none.
UNLIMITED = Limits()
