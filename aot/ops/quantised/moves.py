# SPDX-License-Identifier: Apache-2.0
"""Operators that move or pick elements, between 16-bit quantised values of equal parameters: on the
quantised values.

Normalisation puts them there (aot/normalise/quantised/wide.py). The lowering is that of the
operator on integers; constants among the numbers become quantised values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import aot.ops.logic
import aot.ops.pad
import aot.ops.reduce
import aot.ops.resize
import aot.ops.transpose
import aot.ops.variadic  # noqa: F401 - the patterns used here
from aot.ir.deferred_import import ir
from aot.ir.dtypes import S16, U16
from aot.ir.graph_nodes import Array
from aot.ops.quantised.common import quantised
from aot.ops.registry import portable
from aot.vendor import Match, Pattern, ValueRef
from aot.vendor.cases import Case, case, i64
from aot.vendor.pattern import OP, Pat, Var, const, either
from aot.vendor.quantisation import all_hold, dequantised, known, quantisation
from aot.vendor.quantised_cases import quantised_values, scale, zero

WIDE = (S16, U16)
#: Inputs of the operators; quantised values are written in capitals.
MOVERS = {
    "Max": "A B",
    "Min": "A B",
    "Where": "cond A B",
    "Pad": "X pads value axes",
    "Resize": "X roi scales sizes",
    "ReduceMax": "X axes",
    "ReduceMin": "X axes",
    "DepthToSpace": "X",
    "SpaceToDepth": "X",
}
#: How many inputs may be absent.
OPTIONAL = {"Pad": 2, "Resize": 3, "ReduceMax": 1, "ReduceMin": 1}


def _operand(name: str) -> Pat:
    """The pattern of an operand: quantised values or a constant (upper case), else any value."""
    if not name.isupper():
        return Var(name)
    return either(dequantised(name.lower()), const(Var(f"{name.lower()}_numbers")))


def _names(op_type: str) -> list[str]:
    """The names of an operator's operands, quantised values in capitals."""
    return MOVERS[op_type].split()


def _sources(m: Match) -> list[str]:
    """The names of the operands of a match that are quantised values."""
    names = [n.lower() for n in _names(m.op.op_type) if n.isupper()]
    return [n for n in names if m.values.get(n) is not None]


def _numbers(m: Match) -> Iterator[tuple[str, ValueRef]]:
    """(name, value) of the operands of a match that are constant numbers, not quantised values."""
    for name in _names(m.op.op_type):
        held = m.values.get(f"{name.lower()}_numbers" if name.isupper() else name)
        if held is not None and (name.isupper() or name == "value"):
            yield name.lower(), held


def _encoded(m: Match, numbers: Array) -> ValueRef:
    """Constant numbers as constant quantised values with y's parameters.

    They are named after their content, so that equal ones are stored once.
    """
    y = quantisation(m, "y")
    scaled = np.rint(np.asarray(numbers, np.float32) / y.s)
    whole = np.clip(scaled, -(2.0**24), 2.0**24).astype(np.int64) + y.z
    data = np.clip(whole, *y.range).astype(y.dtype.numpy)
    digest = hashlib.sha256(f"{data.shape} {data.dtype}".encode() + data.tobytes()).hexdigest()
    tensor = ir.Tensor(data)
    made = ir.Value(name=f"codes_{digest[:32]}", const_value=tensor)
    made.shape, made.type = ir.Shape(data.shape), ir.TensorType(tensor.dtype)
    return ValueRef(made)


def inner(m: Match, pattern: Pattern) -> Match:
    """The match as the operator's own pattern sees it, on quantised values.

    Constant numbers are quantised; a Pad without a value fills with the quantised 0.
    """
    plain = [n.lower() for n in _names(m.op.op_type)]
    values: dict[str, ValueRef | None] = {n: m.values.get(n) for n in plain}
    values |= {name: _encoded(m, np.asarray(held.data)) for name, held in _numbers(m)}
    if m.op.op_type == "Pad" and values["value"] is None:
        values["value"] = _encoded(m, np.zeros((), np.float32))
    values["y"] = m.y
    attrs: dict[str, Any] = {k: m.op.attr(k, v) for k, v in pattern.attrs.items()}
    if m.op.op_type in ("Max", "Min"):
        attrs["xs"] = (values["a"], values["b"])
    return Match((m.op.ir,), values, {}, attrs, ("y",))


def _of_one_quantisation(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that all quantised values have y's type, scale and zero point, and numbers are
    constant.
    """
    sources = _sources(m)
    yield bool(sources), "constants only"
    ready = yield from all_hold(known(m, *sources, "y", types=WIDE))
    if not sources or not ready:
        return
    y = quantisation(m, "y")
    for name in sources:
        own = quantisation(m, name)
        same = own.dtype is y.dtype and own.s == y.s and own.z == y.z
        yield same, f"quantised values of {name} have other parameters than those of the result"
    for name, value in _numbers(m):
        fits = value.is_const and value.dtype.is_float
        yield fits and not np.any(np.isnan(np.asarray(value.data))), f"{name} is no known number"


def _declare(op_type: str) -> Pattern:
    """Declare the pattern of one operator between 16-bit quantised values."""
    own = next(p for p in portable.patterns if p.name == op_type)
    optional = OPTIONAL.get(op_type, 0)
    operands = [_operand(n) for n in _names(op_type)]
    node = getattr(OP, op_type)(*operands, _optional=optional, _outputs=["op"])
    made = quantised(
        f"q{op_type.lower()}16",
        node,
        # The operator's own pattern computes on the quantised values.
        lower=lambda c, m: own.record(c, inner(m, own)),
        layouts=lambda m, incoming, vlen: own.choose_layouts(inner(m, own), incoming, vlen),
    )

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that parameters are equal and the operator's own checks hold on the quantised
        values.
        """
        # With equal parameters on both sides, moving the integers moves the numbers they stand for.
        if (yield from all_hold(_of_one_quantisation(m))):
            for reason in own.refusals(inner(m, own)):
                yield False, reason

    return made


PATTERNS = {op_type: _declare(op_type) for op_type in MOVERS}


# -- cases ------------------------------------------------------------

KIND = (scale(3e-4), zero(-7, "int16"))
ODD = (scale(3e-4), zero(31000, "uint16"))


def _x(*shape: int, seed: int = 0, dtype: str = "int16") -> tuple[Any, ...]:
    """16-bit quantised values of a shape with their scale and zero point, for a case."""
    return (quantised_values(*shape, dtype=dtype, seed=seed), *(KIND if dtype == "int16" else ODD))


def _pair_cases() -> Iterator[Case]:
    """Two operands of 16-bit quantised values, alike and broadcast."""
    constants = (1, 2, 4, 5, 6, 7)
    yield case(*_x(2, 5, 3, 4), *_x(2, 5, 3, 4, seed=1), *KIND, const=constants)
    wide = (*_x(2, 5, 6, dtype="uint16"), *_x(5, 1, seed=1, dtype="uint16"), *ODD)
    yield case(*wide, const=constants)


def _where_cases() -> Iterator[Case]:
    """A Where of 16-bit quantised values that broadcast."""
    condition = quantised_values(2, 5, 3, 4) > 0
    pair = (*_x(2, 5, 3, 4), *_x(5, 1, 1, seed=1))
    yield case(condition, *pair, *KIND, const=(2, 3, 5, 6, 7, 8))


def _pad_cases() -> Iterator[Case]:
    """A Pad of 16-bit quantised values in each mode."""
    for mode in ("constant", "edge", "reflect", "wrap"):
        named: dict[str, Any] = {"op.mode": mode}
        pads = i64(0, 0, 1, 2, 0, 0, 2, 1)
        value = np.array(1.2345, np.float32) if mode == "constant" else None
        numbers = (pads, value, None, *KIND)
        const_at = tuple(i + 3 for i, a in enumerate(numbers) if a is not None)
        yield case(*_x(1, 3, 4, 5), *numbers, const=(1, 2, *const_at), **named)


def _reduce_cases() -> Iterator[Case]:
    """A maximum or minimum of 16-bit quantised values along an axis."""
    yield case(*_x(3, 5, 7), i64(1), *KIND, const=(1, 2, 3, 4, 5))


def _block_cases() -> Iterator[Case]:
    """Blocks of 16-bit quantised values."""
    named: dict[str, Any] = {"op.blocksize": 2}
    yield case(*_x(1, 8, 4, 6), *KIND, const=(1, 2, 3, 4), **named)


def _resize_cases() -> Iterator[Case]:
    """A Resize to twice the size of 16-bit quantised values."""
    scales = np.array([1, 1, 2, 2], np.float32)
    yield case(*_x(1, 3, 4, 5), None, scales, None, *KIND, const=(1, 2, 4, 6, 7))


for _op_type, _made in PATTERNS.items():
    _made.cases(
        {
            "Where": _where_cases,
            "Pad": _pad_cases,
            "Resize": _resize_cases,
            "ReduceMax": _reduce_cases,
            "ReduceMin": _reduce_cases,
            "DepthToSpace": _block_cases,
            "SpaceToDepth": _block_cases,
        }.get(_op_type, _pair_cases)
    )
