# SPDX-License-Identifier: Apache-2.0
"""No record forgets a trait of axes that its operator's cases show."""

from __future__ import annotations

import harness
import pytest
from computed import Counterexample, small
from proofs_axes import sized_by
from traits import shows

from aot.errors import BackendError
from aot.ir.operators import (
    Along,
    AxisOf,
    DataSized,
    Elementwise,
    Linear,
    Operator,
    Reduces,
    Rowwise,
    SizedBy,
    Trait,
    View,
    Window,
    operator,
    operators,
)

INFINITE = float("inf")
#: So many cases of an operator are tried.
TRIED = 3
#: Traits tried on operators that claim none of the kind.
NUMBERS = (0.0, 1.0, -INFINITE, INFINITE)
PROBES: list[Trait] = [
    View(),
    *(Along("axis", v) for v in NUMBERS),
    *(Reduces(v, axes) for v in NUMBERS for axes in ("", "axis", "axes")),
    *(Window("x", padding=v) for v in NUMBERS),
    Linear("v0", "v1", out_axis=-1, result_axis=-1),
    *(Linear("v0", "v1", out_axis=a) for a in (0, 1)),
]
#: Operators that show a trait and cannot claim it.
SHOWN = {
    ("Along", "DequantizeLinear"): "there may be a scale for each place along the axis",
}


def test_no_operator_forgets_what_it_shows() -> None:
    """Elementwise operators are left out: along any axis they show more than that."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        claimed = known.get(name)
        if claimed is not None and claimed.trait(Elementwise):
            continue
        first = next(iter(small(Operator(name, ()))), None)
        if first is None or first.outputs != 1 or not first.inputs:
            continue
        attributes = claimed.attributes if claimed else {}
        for trait in PROBES:
            if claimed is not None and claimed.trait(type(trait)):
                continue
            lines = isinstance(trait, Along)
            if "axis" not in attributes and (lines or getattr(trait, "axes", "") == "axis"):
                continue
            operands = ("x", "axes") if isinstance(trait, Reduces) else ("x",)
            if isinstance(trait, Linear):
                operands = tuple(f"v{i}" for i in range(len(first.inputs)))
            record = Operator(name, operands, attributes=attributes)
            if shows(record, trait, small(record)[:TRIED]):
                missed.add((type(trait).__name__, name))
    assert missed == set(SHOWN), missed


#: Operators that show one of the two, and cannot claim it or need not.
NOT_CLAIMED = {
    "CastLike": "its second operand gives a type",
    "DequantizeLinear": "there may be a scale for each place along the axis",
    "OneHot": "its depth must be known",
    "QuantizeLinear": "there may be a scale for each place along the axis",
    "Squeeze": "its axes must be known",
    "TfIdfVectorizer": "it counts, and has no rule for extents",
    "Unsqueeze": "its axes must be known",
    **{r.name: "its axes must be known" for r in operators() if r.name.startswith("Reduce")},
}


def test_no_operator_forgets_that_it_is_rowwise_or_sized_by_data() -> None:
    """Elements of operands change a shape; rows are alone, with no other trait of axes."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    others = (Elementwise, Along, Reduces, Rowwise)
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        record = known.get(name, Operator(name, ()))
        plain = Operator(name, ("x",), attributes=record.attributes)
        if not any(record.trait(t) for t in others) and shows(
            plain, Rowwise(), small(plain)[:TRIED]
        ):
            missed.add(("Rowwise", name))
        for one in small(record)[:TRIED]:
            try:
                sized_by(plain, SizedBy(""), one)
            except Counterexample:
                if not record.trait(SizedBy) and not record.trait(DataSized):
                    missed.add(("SizedBy", name))
            except Exception:  # numbers that the operator does not take
                continue
    assert {name for _, name in missed} <= set(NOT_CLAIMED), missed


def test_a_trait_of_an_axis_or_an_operand_that_is_not_there_is_refused() -> None:
    with pytest.raises(BackendError, match="Toy: Along names axis") as e:
        operator("Toy", "x", domain="acme", traits=[Along("axis", 0)])
    assert "AxisOf" in e.value.hint
    with pytest.raises(BackendError, match="Toy: Reduces names axes"):
        operator("Toy", "x", domain="acme", traits=[Reduces(0, "axes")])
    with pytest.raises(BackendError, match="Toy: Window names w"):
        operator("Toy", "x", domain="acme", traits=[Window("x", kernel="w")])
    with pytest.raises(BackendError, match="Toy: Linear names b, w"):
        operator("Toy", "x", domain="acme", traits=[Linear("x", "w", "b")], axis=AxisOf("x", 0))
