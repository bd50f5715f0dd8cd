# SPDX-License-Identifier: Apache-2.0
"""What the executables of the harness write."""

from __future__ import annotations

import numpy as np

from aot.ir import dtypes
from aot.ir.program import Program
from aot.tools.run import cropped


def results_of(data: bytes, at: int, program: Program) -> tuple[list[tuple[str, np.ndarray]], int]:
    """The outputs that a program wrote from byte `at` on, by name; where the next ones begin.

    Those whose shape depends on the data come at their bound; the shapes follow.
    """
    found = {}
    for name in [*program.outputs, *(s.tensor for s in program.shapes)]:
        t = program.tensors[name]
        found[name] = dtypes.from_bytes(data[at : at + t.nbytes], t.dtype, t.shape)
        at += t.nbytes
    results = [(n, found[n]) for n in program.outputs]
    for s in program.shapes:
        if s.output < 0:  # of none: a check
            continue
        results[s.output] = (results[s.output][0], cropped(results[s.output][1], found[s.tensor]))
    return results, at
