# SPDX-License-Identifier: Apache-2.0
"""Chains of unary operators between 8-bit codes: one table of 256 codes, made at compile time.

QuantizeLinear(f(g(DequantizeLinear(x)))) for any elementwise f, g without other operands than
single constants; with no operator between, the codes are requantised. Entries are what the nodes
compute in float32. With `--requant tflite` a requantisation alone is computed in fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ops.broadcast import stored
from aot.ops.quantised.common import quantised
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.reference import Unknown
from aot.vendor.cases import Case, case
from aot.vendor.codes import Array, Codes, codes, dequantised, known
from aot.vendor.fixed_point import multiply
from aot.vendor.layouts import follow
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import OP, Pat, const, either, repeat, wildcard
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, multipliers, rq_of

UNARY = (
    "Relu Sigmoid Tanh LeakyRelu HardSigmoid HardSwish Swish Elu Selu Celu Gelu Softplus Softsign "
    "Mish ThresholdedRelu Exp Log Sqrt Reciprocal Erf Neg Abs Sin Cos Floor Ceil Round Sign Shrink"
).split()
#: The longest chain taken as one table.
LONGEST = 6


def _single(data: Array) -> bool:
    return data.size == 1


def link(v: Pat, i: int) -> Pat:
    """One operator on `v`, alone or with a constant."""
    number = const(wildcard(f"k{i}"), _single)
    return either(
        OP.any_of(*UNARY)(v),
        OP.Clip(v, wildcard(f"low{i}"), wildcard(f"high{i}"), _optional=2),
        OP.any_of("Add", "Mul", "Min", "Max")(v, number),
        OP.any_of("Sub", "Div", "Pow", "PRelu")(v, number),
        OP.any_of("Sub", "Div")(number, v),
    )


table = quantised("qtable", repeat(link, dequantised("x"), 0, LONGEST), priority=-2)


def only_constants(m: Match) -> bool:
    """Whether everything but the codes is constant."""
    return all(v.is_const for name, v in m.inputs() if name != "x")


def entries(m: Match, rq: int) -> Array | None:
    """The table, indexed by the code's bits as uint8; None where a node has no known value."""
    x, y = codes(m, "x"), codes(m, "y")
    own = np.arange(256).astype(np.uint8).view(m.x.dtype.numpy)
    if not chain_of(m) and rq == TFLITE:
        return _requantised(own, x, y)
    result = real_values(m, (own.astype(np.int32) - x.z).astype(np.float32) * x.s)
    if result is None or result.size != 256:
        return None
    with np.errstate(all="ignore"):
        scaled = result.reshape(-1).astype(np.float32) / y.s
    whole = np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**20), 2.0**20))
    table_of: Array = np.clip(whole.astype(np.int64) + y.z, *y.range)
    return table_of.astype(m.y.dtype.numpy)


def _requantised(own: Array, x: Codes, y: Codes) -> Array:
    """TFLite's requantisation of every code."""
    mult, shift = multipliers(float(x.s), np.ones(1, np.float32), float(y.s), TFLITE)
    assert shift is not None
    whole = multiply(own.astype(np.int64) - x.z, int(mult[0]), int(shift[0])) + y.z
    limited: Array = np.clip(whole, *y.range)
    return limited.astype(y.dtype.numpy)


def chain_of(m: Match) -> list[NodeRef]:
    """The nodes between the codes, first to last."""
    return [n for n in reversed(m.nodes)][1:-1]


def real_values(m: Match, values: Array) -> Array | None:
    """What the chain makes of these inputs; None where a node has no known value."""
    return run_chain(chain_of(m), m.x_dq, values)


def run_chain(chain: Sequence[NodeRef], first: NodeRef, values: Array) -> Array | None:
    """What the nodes of `chain` make of these results of `first`; None if that is not known."""
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


@table.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from known(m, "x", "y", types=(S8, U8))
    yield m.x.shape == m.y.shape, f"{list(m.x.shape)} becomes {list(m.y.shape)}"
    yield only_constants(m), "an operand that is computed at run time"
    if only_constants(m) and all(ok for ok, _ in known(m, "x", "y", types=(S8, U8))):
        yield entries(m, 0) is not None, "an operator whose values are not known at compile time"


table.layouts(follow)


@table.lower
def to_kernel(c: Recorder, m: Match) -> None:
    lookup(c, m, entries(m, rq_of(c)))


def lookup(c: Recorder, m: Match, data: Array | None) -> None:
    """Record y = data[x]."""
    assert data is not None
    params = c.params(n=math.prod(stored(m.y)))
    c.call("aot_qtable", m.y, m.x, c.const(data, "table"), params, inplace=[(m.y, m.x)])


@table.cases
def cases() -> Iterator[Case]:
    x, operands = codes_of(2, 5, 6, 7), (scale(0.05), zero(3))
    yield case(x, *operands, scale(0.02), zero(-9), const=(1, 2, 3, 4))
    wide = codes_of(3, 40, dtype="uint8")
    yield case(wide, scale(0.05), zero(3, "uint8"), scale(0.1), zero(-9), const=(1, 2, 3, 4))
