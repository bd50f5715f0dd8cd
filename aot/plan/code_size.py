# SPDX-License-Identifier: Apache-2.0
"""How many bytes of code a program becomes, before a compiler has seen it."""

from __future__ import annotations

from aot.ir.program import Program
from aot.target import Target

#: Estimate of code in bytes: the entry points (on boards start-up code and runner too), one kernel
#: wrapper, one call.
_HOST, _BOARD = (6000, 1800, 90), (4000, 900, 60)


def code_estimate(program: Program, target: Target) -> int:
    """Bytes of code, about: entries, a function per kernel and its variants, calls."""
    entry, wrapper, call = _BOARD if target.board else _HOST
    calls = list(program.every_call())
    wrappers = {(c.kernel, c.instance) for c in calls}
    return entry + wrapper * len(wrappers) + call * len(calls)
