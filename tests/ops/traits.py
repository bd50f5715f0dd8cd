# SPDX-License-Identifier: Apache-2.0
"""Prove what the records of operators claim, on the operators' declared cases with other numbers.

    python tests/ops/traits.py [OPERATOR …]

`OPERATOR` is `Relu`, or `acme.Squareplus` of an installed package; without one all are proven. A
claim that is false is an error that names the file, the operator, the trait, and a counterexample.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[d]) for d in (0, 1, 2)]

import harness  # noqa: E402
import numpy as np  # noqa: E402
import proofs_axes as axes  # noqa: E402
import proofs_places as places  # noqa: E402
import proofs_values as values  # noqa: E402
from computed import RNG, START, Array, Counterexample, declared, is_of_others, small  # noqa: E402

from aot.errors import BackendError  # noqa: E402
from aot.ir import operators as of_operators, value_traits as of_values  # noqa: E402
from aot.ir.operators import Operator, Trait, operators  # noqa: E402
from aot.shapes.reference import Unknown  # noqa: E402
from aot.vendor.cases import Case, case  # noqa: E402

Proof = Callable[[Operator, Any, Case], bool]
PROOFS: dict[type[Any], Proof] = {
    of_operators.Along: axes.along,
    of_operators.AxesOf: places.axes_of,
    of_operators.Commutative: places.commutative,
    of_operators.DataSized: places.data_sized,
    of_operators.Elementwise: places.elementwise,
    of_operators.Exact: places.exact,
    of_operators.Linear: axes.linear,
    of_operators.Moves: places.moves,
    of_operators.Random: places.random,
    of_operators.Reduces: axes.reduces,
    of_operators.Rowwise: axes.rowwise,
    of_operators.SizedBy: axes.sized_by,
    of_operators.View: axes.view,
    of_operators.Window: axes.window,
    of_values.Averages: values.averages,
    of_values.Clamp: values.clamp,
    of_values.Compares: values.compares,
    of_values.Converts: values.converts,
    of_values.Curve: values.curve,
    of_values.Dequantises: values.dequantises,
    of_values.Indexes: values.places,
    of_values.Quantises: values.quantises,
    of_values.Recurrent: values.recurrent,
    of_values.Scales: values.scales,
}
#: Traits that large cases prove, too.
OF_ALL = (of_operators.Commutative, of_operators.Elementwise, of_operators.Moves)
#: Claims that no case proves, and why.
UNPROVEN = {
    ("CastLike", "round_mode=OneOf"): "onnx.reference has not this attribute",
    ("GatherElements", "axis=AxisOf"): "onnx.reference has negative axes of other operands",
    ("ImageDecoder", "DataSized"): "its operand is a file",
    ("Multinomial", "Random"): "onnx.reference lacks it; its body draws by RandomUniform",
}
WITHOUT_VALUE = " (a rule of `evaluates` must compute the operator)"
#: Cases of operators that draw numbers.
TRAINED = (np.full((1, 64), 0.5, np.float32), np.array(0.5, np.float32), np.array(True))
DRAWS = {"Dropout": [case(*TRAINED)]}


def label(record: Operator) -> str:
    """The name of an operator, after its domain and a dot if it has one."""
    return f"{record.domain}.{record.name}" if record.domain else record.name


def claims(record: Operator) -> Iterator[tuple[str, str, Callable[[Case], bool], tuple[Case, ...]]]:
    """Of every claim of a record its name, its rule, its proof, and the cases to try it on."""
    drawn = record.trait(of_operators.Random) is not None
    for trait in record.traits:
        proof, kind = PROOFS[type(trait)], type(trait)
        cases = declared(record) if kind in OF_ALL else small(record)
        if kind is of_operators.Random:
            cases = tuple(DRAWS.get(record.name, cases))
        rule = (proof.__doc__ or "").split("\n\n")[0]
        yield kind.__name__, rule, lambda one, p=proof, t=trait: p(record, t, one), cases
    for name, known in record.attributes.items():
        rule = (places.attribute.__doc__ or "").split("\n\n")[0]
        kind = f"{name}={type(known).__name__}"
        proof = lambda one, n=name, k=known: places.attribute(record, n, k, one)  # noqa: E731
        yield kind, rule, proof, () if drawn else small(record)
    if not drawn:
        rule = (places.pure.__doc__ or "").split("\n\n")[0]
        yield "no Random", rule, lambda one: places.pure(record, one), small(record)[:1]


def prove(record: Operator) -> list[BackendError]:
    """An error for every false claim of a record; a trait that no case tries counts as false."""
    RNG.bit_generator.state = START
    found = []
    for claim, rule, proof, cases in claims(record):
        if (record.name, claim) in UNPROVEN:
            continue
        must = claim in {k.__name__ for k in PROOFS}
        error = tried(proof, cases)
        if error is None and must:
            error = f"none of {len(cases)} cases shows it" + WITHOUT_VALUE * is_of_others(record)
        if error:
            found.append(refusal(record, claim, " ".join(rule.split()), error))
    return found


def tried(proof: Callable[[Case], bool], cases: tuple[Case, ...]) -> str | None:
    """Which case disproves a claim and how; "" if one proves it, None if no case says anything."""
    known = False
    for index, one in enumerate(cases):
        try:
            known = proof(one) or known
        except Unknown:  # the operator has no rule of `evaluates`
            continue
        except Counterexample as error:
            return f"{shown(index, one)}: {error}"
        except Exception as error:  # whatever the operator raises for other inputs
            return f"{shown(index, one)}, changed, is refused: {type(error).__name__}: {error}"
    return "" if known else None


def shows(record: Operator, trait: Trait, cases: tuple[Case, ...]) -> bool:
    """Whether the trait holds for all cases of an operator, and at least one says so."""
    return tried(lambda one: PROOFS[type(trait)](record, trait, one), cases) == ""


def shown(index: int, one: Case) -> str:
    """A case on a line."""
    inputs = ["-" if a is None else kind(np.asarray(a)) for a in one.inputs]
    return ", ".join([f"case {index}", *inputs, *(f"{k}={v}" for k, v in one.attrs.items())])


def kind(array: Array) -> str:
    """The type of an array, and its elements where they are few."""
    few = f" {array.tolist()}" if array.size <= 8 else ""
    return f"{array.dtype}{list(array.shape)}{few}"


def refusal(record: Operator, claim: str, rule: str, error: str) -> BackendError:
    """The error of a false claim."""
    file = getattr(sys.modules.get(record.module), "__file__", None) or record.module
    what = f"operator {label(record)} claims {claim}, which does not hold"
    return BackendError(what, str(file), "", [f"  {error}", f"  rule: {rule}"])


def main(names: list[str]) -> int:
    """Prove the operators of these names; the exit code is 1 if a claim is false."""
    harness.load_all()
    known = {label(o): o for o in operators()}
    if unknown := [n for n in names if n not in known]:
        print(f"no record of {', '.join(unknown)}")
        return 2
    errors = [e for name, o in known.items() if not names or name in names for e in prove(o)]
    counts = f"records proven: {len(names or known)}, false claims: {len(errors)}"
    print("\n".join([*map(str, errors), counts]))
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
