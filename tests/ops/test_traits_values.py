# SPDX-License-Identifier: Apache-2.0
"""No record forgets a trait of values that its operator's cases show."""

from __future__ import annotations

import harness
import pytest
from computed import small
from traits import shows

from aot.errors import BackendError
from aot.ir.operators import Elementwise, Operator, Trait, operator, operators
from aot.ir.value_traits import (
    Averages,
    Clamp,
    Compares,
    Converts,
    Curve,
    Dequantises,
    Indexes,
    Quantises,
    Recurrent,
    Scales,
)

#: So many cases of an operator are tried.
TRIED = 6
PROBES: list[Trait] = [
    *(Curve(), Compares(), Converts(), Averages(), Averages("axes"), Averages("axis")),
    *(Scales("scale"), Scales("scale", "bias"), Indexes("indices", "x")),
    *(Quantises("scale", "zero"), Dequantises("scale", "zero")),
    *(Clamp(0.0, float("inf")), Clamp(float("-inf"), 0.0), Clamp(-1.0, 1.0), Clamp(0.0, 6.0)),
]
UNTABLED = ("Asinh", "Atan", "Cosh", "Sinh")
#: Operators that show a trait and do not claim it.
SHOWN = {
    **{("Curve", name): "no table of quantised values takes it" for name in UNTABLED},
    **{("Curve", name): "it is spelled as Add" for name in ("Mean", "Sum")},
    ("Curve", "Identity"): "passes remove it",
    ("Scales", "DequantizeLinear"): "its operands are quantised values and their scale",
}


def test_no_operator_forgets_what_it_shows() -> None:
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        claimed = known.get(name, Operator(name, ()))
        first = next(iter(small(claimed)), None)
        if first is None or first.outputs != 1 or not first.inputs:
            continue
        operands = claimed.operands or ("x", "axes")
        for trait in PROBES:
            axes = getattr(trait, "axes", "")
            if isinstance(trait, Curve) and not claimed.trait(Elementwise):
                continue
            if claimed.trait(type(trait)) or axes not in ("", *operands, *claimed.attributes):
                continue
            record = Operator(name, operands, attributes=claimed.attributes)
            if shows(record, trait, small(record)[:TRIED]):
                missed.add((type(trait).__name__, name))
    assert missed == set(SHOWN), missed


def test_a_bound_or_a_state_that_is_no_operand_is_refused() -> None:
    with pytest.raises(BackendError, match="Toy: Clamp names low"):
        operator("Toy", "x", domain="acme", traits=[Clamp("low", 1.0)])
    with pytest.raises(BackendError, match="Toy: Recurrent names h0"):
        operator("Toy", "x", domain="acme", traits=[Recurrent("h0", "tanh")])
    with pytest.raises(BackendError, match="Toy: Averages names axes"):
        operator("Toy", "x", domain="acme", traits=[Averages("axes")])
