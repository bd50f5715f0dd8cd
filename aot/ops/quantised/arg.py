# SPDX-License-Identifier: Apache-2.0
"""ArgMax and ArgMin of 16-bit quantised values: quantised values have the order of the numbers they
stand for.

Normalisation takes the conversion away before 8-bit quantised values only (runtimes lack the
operators for 16 bits), here the pattern takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import aot.ops.reduce  # noqa: F401 - the patterns used here
from aot.ir.dtypes import S16, U16
from aot.ops.registry import portable
from aot.vendor import OP, Case, Match, Pattern, case
from aot.vendor.quantisation import all_hold, dequantised, known, quantisation
from aot.vendor.quantised_cases import quantised_values, scale, zero


def _declare(op_type: str) -> Pattern:
    """Declare ArgMax or ArgMin of 16-bit quantised values, computed on the integers as they are."""
    own = next(p for p in portable.patterns if p.name == op_type)
    graph = getattr(OP, op_type)(dequantised("x"), _outputs=["op"])

    def inner(m: Match) -> Match:
        """The match as the operator's own pattern sees it, with the quantised values as its
        operand.
        """
        # Scales are positive, so the integers are in the order of the numbers that they stand for.
        return Match((m.op.ir,), {"x": m.x, "y": m.y}, {}, m.attrs, ("y",))

    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks: x is quantised values of 16 bits with constant parameters, whose order is that of
        the numbers they stand for, and the operator's own checks hold of them."""
        if (yield from all_hold(known(m, "x", types=(S16, U16)))):
            tiny = quantisation(m, "x").s < np.finfo(np.float32).tiny
            yield not tiny, "a scale so small that different quantised values are one number"
            for reason in own.refusals(inner(m)):
                yield False, reason

    made = portable.declare(
        f"q{op_type.lower()}16",
        graph,
        supported,
        lower=lambda c, m: own.record(c, inner(m)),
        attrs=dict(own.attrs),
        folder=Path(__file__).parent,
    )

    @made.cases
    def cases() -> Iterator[Case]:
        """ArgMax or ArgMin(x, scale, zero point) of quantised values of 16 bits, with ties."""
        for dtype in ("int16", "uint16"):
            x, kind = quantised_values(3, 9, 4, dtype=dtype), (scale(3e-4), zero(7, dtype))
            yield case(x, *kind, const=(1, 2), axis=1)
            yield case(x // 9000, *kind, const=(1, 2), axis=1, keepdims=0, select_last_index=1)

    return made


PATTERNS = {op_type: _declare(op_type) for op_type in ("ArgMax", "ArgMin")}
