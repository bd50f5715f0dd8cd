# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of which x, Y or Y_h are 16-bit codes, with int8 weights, on integers.

As qrnn.py, with states and sums wide enough that codes of 16 bits are those of float32 but for its
own roundings (runtime_c/kernels/aot_qrnn_s16.h). The same for all values of `--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ops.quantised.rnn import (
    KINDS,
    MOST_RECURRENT,
    MOST_STEPS,
    biases_of,
    declare,
    declare_both,
    geometry,
    is_linear,
    layouts_of,
    plain_layer,
    requant_fields,
    results_of,
    scales_of,
    states_and_last,
    weights_fit,
)
from aot.vendor.cases import Case, case, f32
from aot.vendor.codes import CODE_TYPES, Array, Codes, codes, known
from aot.vendor.match import Match
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import ParamFields, Recorder

#: AOT_QRNN_SUM_BITS: fraction bits of an argument while it is summed.
SUM_BITS = 32
#: How far the constants may move an argument.
ARGUMENT_ERROR = 2.0**-20


PATTERNS = {kind: declare(kind, f"q{kind.lower()}16") for kind in KINDS}
BOTH = {kind: declare_both(kind, f"q{kind.lower()}16_both") for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Direction:
    """What the kernel reads for one direction."""

    w: Array  # int8 [gates*hidden, input]
    r: Array  # int8 [gates*hidden, hidden]
    mult: Array  # int32 [2 * gates*hidden]
    bias: Array  # int64 [gates*hidden], then [hidden] with LINEAR
    x_shift: int
    h_shift: int
    h_bits: int
    error: float  # the largest difference of an argument from the real one
    codes: int  # the largest sum of products of codes of x
    argument: float  # the largest argument
    recurrent: float  # the largest |h r + bias| of the last gate


def _multipliers(real: Array) -> tuple[Array, int]:
    """31 bits of every row's scale, and the fraction bits they have."""
    bits = math.floor(math.log2((2**31 - 1) / real.max()))
    return np.rint(real * 2.0**bits), bits


def direction(m: Match, d: int) -> Direction:
    """Weights, multipliers and biases of direction d."""
    x = codes(m, "x")
    w, r = np.asarray(m.w.data)[d], np.asarray(m.r.data)[d]
    wide = np.abs(w.astype(np.int64)).sum(1), np.abs(r.astype(np.int64)).sum(1)
    h_bits = 31 - max(1, math.ceil(math.log2(max(1, wide[1].max()))))
    scale_r = scales_of(m, "r")[d]
    real = float(x.s) * scales_of(m, "w")[d], scale_r * 2.0**-h_bits
    (mult_x, x_bits), (mult_h, all_h) = _multipliers(real[0]), _multipliers(real[1])
    own, recurrent = biases_of(m, d)
    hidden, both = m.r.shape[2], own + recurrent
    if is_linear(m):
        both = np.concatenate([both[:-hidden], own[-hidden:], recurrent[-hidden:]])
    reach = 1 + x.range[1] - x.range[0]  # x and x minus its zero point are below this
    x_shift, sums = x_bits - SUM_BITS, (wide[0] * reach, wide[1] * 2.0**h_bits)
    bias = np.rint(np.clip(both * 2.0**SUM_BITS, -(2.0**61), 2.0**61)).astype(np.int64)
    for i, inner in enumerate(w.astype(np.int64).sum(1)):
        centre = (int(inner) * x.z * int(mult_x[i])) >> max(0, x_shift)
        bias[i] -= max(-(2**61), min(centre, 2**61))
    most = 2 * sums[0] * real[0] + sums[1] * real[1] + np.abs(own) + np.abs(recurrent)
    rounded = 0.5 * (sums[0].max() * 2.0**-x_bits + sums[1].max() * 2.0**-all_h)
    return Direction(
        w,
        r,
        np.concatenate([mult_x, mult_h]).astype(np.int32),
        bias,
        x_shift,
        all_h - SUM_BITS,
        h_bits,
        float(rounded + scale_r.max() * 2.0**-h_bits + 4 * 2.0**-SUM_BITS),
        int(sums[0].max()),
        float(most.max()),
        float((sums[1] * real[1] + np.abs(recurrent))[-hidden:].max()),
    )


def _supported(m: Match) -> Iterator[tuple[bool, str]]:
    names = ("x", *results_of(m))
    asked = [*known(m, *names), *plain_layer(m), *weights_fit(m)]
    yield from asked
    yield m.x.rank == 3 and 0 not in m.x.shape, f"an input of shape {list(m.x.shape)}"
    if m.x.rank != 3 or 0 in m.x.shape or not all(ok for ok, _ in asked):
        return
    kinds = [codes(m, k) for k in names]
    yield any(k.dtype in (S16, U16) for k in kinds), "codes of 8 bits (an LSTM, GRU, RNN of theirs)"
    usual = all(2.0**-30 < float(k.s) < 2.0**20 for k in kinds)
    yield usual, f"scales {[float(k.s) for k in kinds]}"
    steps = m.x.shape[1 if m.layer.attr("layout", 0) else 0]
    if m.layer.op_type == "LSTM":
        yield steps <= MOST_STEPS, f"{steps} steps (a cell takes {MOST_STEPS})"
    for found in (direction(m, d) for d in range(m.r.shape[0])):
        shifts = found.x_shift, found.h_shift
        yield all(0 <= s <= 62 for s in shifts), f"multipliers beyond their sums by {shifts} bits"
        fits = found.codes < 2**31 and found.argument < 2.0**28 and found.h_bits >= 8
        yield fits, "sums of codes that may overflow"
        exact = found.error <= ARGUMENT_ERROR
        yield exact, f"gates that are off by up to {found.error:.2g}"
        small = not is_linear(m) or found.recurrent < MOST_RECURRENT
        yield small, f"a candidate with a recurrent part of up to {found.recurrent:.3g}"


def tanh_table() -> Array:
    """tanh(k / 32) with 30 fraction bits for k = 0..384."""
    table: Array = np.rint(np.tanh(np.arange(385) / 32) * 2**30).astype(np.int32)
    return table


def _kinds(m: Match) -> tuple[Codes | None, Codes | None]:
    """Parameters of all states and of the last ones."""
    if "last" in m.values:
        return codes(m, "y"), codes(m, "last")
    return (None, codes(m, "y")) if m.y.rank == 3 else (codes(m, "y"), None)


def _made(prefix: str, code: Codes | None) -> dict[str, int]:
    low, high = (0, 0) if code is None else code.range
    return {**requant_fields(prefix, code), f"{prefix}_lo": low, f"{prefix}_hi": high}


def _params(c: Recorder, m: Match, d: int, found: Direction) -> ParamFields:
    every, last = _kinds(m)
    return c.params(
        **geometry(m, d),
        x_shift=found.x_shift,
        h_shift=found.h_shift,
        h_bits=found.h_bits,
        **_made("y", every),
        **_made("last", last),
    )


def _to_kernel(c: Recorder, m: Match) -> None:
    first = not m.layer.attr("layout", 0)
    steps, batch = m.x.shape[:2] if first else m.x.shape[1::-1]
    directions, hidden = m.r.shape[0], m.r.shape[2]
    gates = m.r.shape[1] // hidden
    results, kinds = states_and_last(m), _kinds(m)
    types = [0 if k is None else CODE_TYPES.index(k.dtype) for k in (codes(m, "x"), *kinds)]
    table = c.const(tanh_table(), "tanh")
    for d in range(directions):
        found = direction(m, d)
        at = d * hidden * (batch if first else 1)
        c.call(
            "aot_qrnn_s16",
            *(None if y is None else c.write(y, at * y.dtype.nbytes) for y in results),
            m.x,
            c.const(np.ascontiguousarray(found.w), "w"),
            c.const(np.ascontiguousarray(found.r), "r"),
            c.const(found.mult, "mult"),
            c.const(found.bias, "bias"),
            table,
            c.scratch(8 * hidden + 4 * (gates + 3) * hidden),
            _params(c, m, d, found),
            instance={
                "KIND": KINDS.index(m.layer.op_type),
                "LINEAR": int(is_linear(m)),
                "Y": int(results[0] is not None),
                "LAST": int(results[1] is not None),
                **dict(zip(("XT", "YT", "LT"), types, strict=True)),
            },
            macs=steps * batch * gates * hidden * (m.x.shape[2] + hidden),
        )


def _cases(kind: str, both: bool = False) -> Iterator[Case]:
    """Results of 12 bits, which the reference's float32 does not move; types in turn."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    for batch, dtype, attrs in (
        (1, "int16", {}),
        (3, "uint16", {"direction": "bidirectional"}),
        (2, "int16", {"linear_before_reset": 1} if kind == "GRU" else {"direction": "reverse"}),
    ):
        steps, features, hidden = 5, 4, 6
        directions = 1 + (attrs.get("direction") == "bidirectional")
        rows, middle = gates * hidden, 1 << 15 if dtype == "uint16" else 0
        sw = np.linspace(0.004, 0.006, rows).astype(np.float32) if directions == 1 else scale(0.005)
        zeros = np.zeros(sw.shape, np.int8)
        made: list[Any] = [codes_of(steps, batch, features, dtype=dtype), scale(0.02 / 256)]
        made += [zero(middle - 500, dtype), codes_of(directions, rows, features), sw, zeros]
        made += [codes_of(directions, rows, hidden, seed=1), sw, zeros]
        made += [f32(directions, 2 * rows, low=-0.5, high=0.5)]
        made += [None] * (4 if kind == "LSTM" else 2) + [scale(1 / 2048), zero(middle + 3, dtype)]
        made += [scale(1 / 1500), zero(middle - 9, dtype)] if both else []
        named: dict[str, Any] = {f"layer.{k}": v for k, v in attrs.items()}
        named |= {"layer.hidden_size": hidden, "w_dq.axis": 1, "r_dq.axis": 1}
        const = tuple(i for i, a in enumerate(made) if i and a is not None)
        yield case(*made, const=const, outputs=1 + both, **named)


for _kind in KINDS:
    for _pattern, _two in ((PATTERNS[_kind], False), (BOTH[_kind], True)):
        _pattern.check(_supported)
        _pattern.layouts(layouts_of)
        _pattern.lower(_to_kernel)
        _pattern.cases(partial(_cases, _kind, both=_two))
