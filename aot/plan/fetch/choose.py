# SPDX-License-Identifier: Apache-2.0
"""Which calls get weights by blocks: decoded with `--objective flash`, copied from slow memory."""

from __future__ import annotations

from aot.ir.program import Program
from aot.options import Options
from aot.plan.fetch.copy import SLOW, copied, slowness
from aot.plan.fetch.unpack import unpacked
from aot.target import Target


def fetched(program: Program, target: Target, options: Options) -> Program:
    """The program with the constants that calls get by blocks under these options.

    Where rows of an input are pushed, or RAM matters most, nothing is: calls are made row by row,
    each of which would have to fetch.
    """
    if options.push or options.objective == "ram":
        return program
    if options.objective == "flash":
        program = unpacked(program, options.slice_macs)
    slow = slowness(target) >= SLOW
    return copied(program, options.slice_macs) if slow else program
