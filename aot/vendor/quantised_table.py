# SPDX-License-Identifier: Apache-2.0
"""A matched chain of unary operators between 8-bit quantised values: a table of 256 quantised
values as one record.

QuantizeLinear(f(g(DequantizeLinear(x)))) for any elementwise f, g without other operands than
single constants; with no operator between, the quantised values are requantised. Entries are what
the nodes compute in float32. In TensorFlow Lite's arithmetic a requantisation alone is computed in
fixed point.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ir.graph_nodes import Array
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.reference import Unknown
from aot.vendor.cases import Case
from aot.vendor.fixed_point import multiply
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import OP, Pat, const, either, repeat, wildcard
from aot.vendor.quantisation import Quantisation, all_hold, dequantised, known, quantisation, told
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.requant import FLOAT, TFLITE, multipliers

UNARY = (
    "Relu Sigmoid Tanh LeakyRelu HardSigmoid HardSwish Swish Elu Selu Celu Gelu Softplus Softsign "
    "Mish ThresholdedRelu Exp Log Sqrt Reciprocal Erf Neg Abs Sin Cos Floor Ceil Round Sign Shrink"
).split()
#: The longest chain taken as one table.
LONGEST = 6


def link(operand: Pat, i: int) -> Pat:
    """A pattern of one elementwise operator on `operand`, alone or with a constant of one element.

    `i` numbers the wildcards of its constants: k0, low0, high0 for the first of a chain.
    """
    number = const(wildcard(f"k{i}"), lambda data: data.size == 1)
    return either(
        OP.any_of(*UNARY)(operand),
        OP.Clip(operand, wildcard(f"low{i}"), wildcard(f"high{i}"), _optional=2),
        OP.any_of("Add", "Mul", "Min", "Max")(operand, number),
        OP.any_of("Sub", "Div", "Pow", "PRelu")(operand, number),
        OP.any_of("Sub", "Div")(number, operand),
    )


@dataclass(frozen=True, slots=True)
class QuantisedTable:
    """Quantised values `x` that become quantised values `y` one by one, made once by `of`.

    `entries` are the 256 results, indexed by the bits of a quantised value of x as uint8; None
    where a node between has no value that is known at compile time.
    """

    x: Quantisation
    y: Quantisation
    entries: Array | None

    @classmethod
    def of(cls, m: Match, rq: int = FLOAT) -> QuantisedTable:
        """The table of a match of `pattern` in the arithmetic `rq`; entries of None if a value is
        unknown.
        """
        x, y = quantisation(m, "x"), quantisation(m, "y")
        own = np.arange(256).astype(np.uint8).view(m.x.dtype.numpy)
        if not chain_of(m) and rq == TFLITE:
            return cls(x, y, _requantised(own, x, y))
        result = real_values(m, (own.astype(np.int32) - x.z).astype(np.float32) * x.s)
        if result is None or result.size != 256:
            return cls(x, y, None)
        found = quantised_from(in_steps(result, y), y)
        return cls(x, y, found.astype(m.y.dtype.numpy))

    @staticmethod
    def pattern() -> Pat:
        """The pattern of up to LONGEST unary operators on quantised values `x`."""
        return repeat(link, dequantised("x"), 0, LONGEST)

    @staticmethod
    @told
    def checks(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that one table computes the chain, which `of` may then make.

        Returned is whether all hold.
        """
        ready = yield from all_hold(known(m, "x", "y", types=(S8, U8)))
        if (yield from chain_fits(m)) and ready:
            made = QuantisedTable.of(m).entries is not None
            yield made, "an operator whose values are not known at compile time"

    @staticmethod
    def cases() -> Iterator[Case]:
        """Test cases of `pattern`."""
        yield quantised_case(quantised_values(2, 5, 6, 7), *kind(0.05, 3), *kind(0.02, -9))
        unsigned = quantised_values(3, 40, dtype="uint8")
        yield quantised_case(unsigned, *kind(0.05, 3, "uint8"), *kind(0.1, -9))


def chain_fits(m: Match) -> Generator[tuple[bool, str], None, bool]:
    """Checks that the chain keeps the shape and has constant operands only; returns the latter."""
    yield m.x.shape == m.y.shape, f"{list(m.x.shape)} becomes {list(m.y.shape)}"
    constant = all(v.is_const for name, v in m.inputs() if name != "x")
    yield constant, "an operand that is computed at run time"
    return constant


def in_steps(result: Array, y: Quantisation) -> Array:
    """The results divided by the scale of `y`, as float32 [elements]; infinities and NaN stay."""
    with np.errstate(all="ignore"):
        return np.asarray(result.reshape(-1).astype(np.float32) / y.s)


def quantised_from(scaled: Array, y: Quantisation) -> Array:
    """Saturated quantised values (int64) of numbers that are in steps of y's scale; NaN counts as
    0.
    """
    whole = np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**20), 2.0**20))
    return np.asarray(np.clip(whole.astype(np.int64) + y.z, *y.range))


def _requantised(own: Array, x: Quantisation, y: Quantisation) -> Array:
    """TFLite's fixed-point requantisation of the quantised values `own` from `x` to `y`."""
    mult, shift = multipliers(float(x.s), np.ones(1, np.float32), float(y.s), TFLITE)
    assert shift is not None
    whole = multiply(own.astype(np.int64) - x.z, int(mult[0]), int(shift[0])) + y.z
    limited: Array = np.clip(whole, *y.range)
    return limited.astype(y.dtype.numpy)


def chain_of(m: Match) -> list[NodeRef]:
    """The nodes between DequantizeLinear and QuantizeLinear of a match, first to last; may
    be [].
    """
    return [n for n in reversed(m.nodes)][1:-1]


def real_values(m: Match, values: Array) -> Array | None:
    """The results of the chain for the float32 inputs `values`; None where they cannot be computed
    here.
    """
    return run_chain(chain_of(m), m.x_dq, values)


def run_chain(chain: Sequence[NodeRef], first: NodeRef, values: Array) -> Array | None:
    """The results of the last node of `chain` when `values` are the results of `first`.

    Other operands must be constants. None where a node cannot be evaluated at compile time.
    """
    known_values: dict[int, Array] = {id(first.ir.outputs[0]): values}
    for node in chain:
        inputs: list[Array | None] = []
        for value in node.ir.inputs:
            if value is None:
                inputs.append(None)
            elif id(value) in known_values:
                inputs.append(known_values[id(value)])
            else:
                assert value.const_value is not None
                inputs.append(value.const_value.numpy())
        try:
            values = evaluate(node.ir, inputs)[0]
        except (Invalid, Unknown):
            return None
        known_values[id(node.ir.outputs[0])] = values
    return values
