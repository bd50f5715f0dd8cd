# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN between 8-bit codes, with int8 weights, on integers.

QuantizeLinear of Y or of Y_h, with the default activations and states that begin with zero. Checks
prove that no sum overflows and how exact the gates are; a layer for which they do not hold, or a
cell that may outgrow its fixed point, is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from aot.ir.dtypes import F32, S8, U8
from aot.ir.layout import PLAIN, Layout
from aot.ops.quantised.common import finish, quantised, signed_input, signed_output
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case, f32
from aot.vendor.codes import RANGES, Array, Codes, codes, dequantised, known
from aot.vendor.fixed_point import ratio
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import OP, OpPat, Output, Results, Var, either
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import ParamFields, Recorder

KINDS = ("LSTM", "GRU", "RNN")  # in the order of AOT_QRNN_*
DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
#: Fraction bits of gates' arguments, of the state that is multiplied.
ARGUMENT_BITS, STATE_BITS = 24, 15
#: What rounding of multipliers may move an argument by.
ARGUMENT_ERROR = 2.0**-14
#: Steps of an LSTM whose cell, which grows by less than one each, has 20 fraction bits.
MOST_STEPS = 1023
#: The largest recurrent part of a candidate that its reset gate scales.
MOST_RECURRENT = 100.0
_WEIGHTS = (dequantised("x"), dequantised("w"), dequantised("r"))
_STATES = (Var("b"), Var("lens"), Var("h0"))


def layer_of(kind: str) -> OpPat:
    more = (*_STATES, Var("c0"), Var("peep")) if kind == "LSTM" else _STATES
    layer: OpPat = OP.any_of(kind)(*_WEIGHTS, *more, _optional=len(more), _outputs=["layer"])
    return layer


def declare(kind: str, name: str) -> Pattern:
    """One result: the states, or the last ones."""
    layer = layer_of(kind)
    return quantised(name, either(layer, Output(layer, 1)))


def declare_both(kind: str, name: str) -> Pattern:
    """Two results, each with parameters of its own."""
    layer = layer_of(kind)
    made = quantised(name, layer)
    last = OP.QuantizeLinear(Output(layer, 1), Var("slast"), Var("zlast"), _optional=1)
    made.graph, made.outputs = Results((cast(OpPat, made.graph), last)), ("y", "last")
    return made


PATTERNS = {kind: declare(kind, f"q{kind.lower()}") for kind in KINDS}
BOTH = {kind: declare_both(kind, f"q{kind.lower()}_both") for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Direction:
    """What the kernel reads for one direction; fraction bits of sums are 24 + shift."""

    w: Array  # int8 [gates*hidden, input]
    r: Array  # int8 [gates*hidden, hidden]
    mult: Array  # int32 [2 * gates*hidden]
    bias: Array  # int64 [gates*hidden], then [hidden] with LINEAR
    shift: int
    error: float  # the largest difference of an argument from the real one
    codes: int  # the largest sum of products of codes
    product: float  # the largest multiplied sum, bias included
    recurrent: float  # the largest |h r + bias| of the last gate


def is_linear(m: Match) -> bool:
    return m.layer.op_type == "GRU" and bool(m.layer.attr("linear_before_reset", 0))


def scales_of(m: Match, name: str) -> Array:
    """One float64 scale per row of weights [directions, rows, depth]: [directions, rows]."""
    value, per = m.values[name], codes(m, name).scale.astype(np.float64)
    assert value is not None
    shape = [1, 1, 1]
    if per.size > 1:
        shape[int(getattr(m, f"{name}_dq").attr("axis", 1)) % 3] = per.size
    wide: Array = np.broadcast_to(per.reshape(shape), (*value.shape[:2], 1))[:, :, 0]
    return wide


def biases_of(m: Match, d: int) -> tuple[Array, Array]:
    """Input and recurrent bias of direction d, float64 [rows] each."""
    rows = m.r.shape[1]
    if m.values.get("b") is None:
        return np.zeros(rows), np.zeros(rows)
    own = np.asarray(m.b.data, np.float64)[d]
    return own[:rows], own[rows:]


def direction(m: Match, d: int) -> Direction:
    """Weights, multipliers and biases of direction d."""
    x = codes(m, "x").signed()
    w, r = np.asarray(m.w.data)[d], np.asarray(m.r.data)[d]
    real = np.stack([float(x.s) * scales_of(m, "w")[d], scales_of(m, "r")[d] * 2.0**-STATE_BITS])
    bits = math.floor(math.log2((2**31 - 1) / real.max()))
    mult = np.rint(real * 2.0**bits)
    # The largest sums of codes: x - zero is below 256, the state at most 2^15.
    sums = np.stack([np.abs(w.astype(np.int64)).sum(1) * 256, np.abs(r.astype(np.int64)).sum(1)])
    sums[1] <<= STATE_BITS
    input_bias, recurrent_bias = biases_of(m, d)
    hidden, linear = m.r.shape[2], is_linear(m)
    both = input_bias + recurrent_bias
    if linear:
        both[2 * hidden :] = input_bias[2 * hidden :]
        both = np.concatenate([both, recurrent_bias[2 * hidden :]])
    fixed = np.rint(both * 2.0**bits)
    centre = w.astype(np.int64).sum(1) * x.z * mult[0].astype(np.int64)
    product = (sums * mult).sum(0).max() + np.abs(fixed).max() + np.abs(centre).max()
    error = float((0.5 * sums.sum(0).max() + 1) * 2.0**-bits)
    last = (sums[1] * real[1] + np.abs(recurrent_bias))[-hidden:]
    bias = np.rint(np.clip(fixed, -(2.0**61), 2.0**61)).astype(np.int64)
    bias[: len(centre)] -= centre
    return Direction(
        w,
        r,
        mult.ravel().astype(np.int32),
        bias,
        bits - ARGUMENT_BITS,
        error,
        int(sums.max()),
        float(product),
        float(last.max()),
    )


def plain_layer(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of what the operator asks for."""
    node = m.layer
    names = [str(a).lower() for a in node.attr("activations") or []]
    count = m.r.shape[0]
    usual = not names or names == DEFAULTS[node.op_type] * count
    yield usual, f"activations {', '.join(names)} (integers have the defaults)"
    yield node.attr("clip") is None, "a clip of the gates"
    yield not node.attr("input_forget", 0), "coupled input and forget gates"
    for name in ("lens", "peep"):
        yield m.values.get(name) is None, f"an input {name!r}"
    for name in ("h0", "c0"):
        value = m.values.get(name)
        none = value is None or (value.data is not None and not np.any(value.data))
        yield none, f"an initial state {name!r}"
    way = node.attr("direction", "forward")
    yield way in ("forward", "reverse", "bidirectional"), f"direction {way!r}"


def weights_fit(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of weights, scales and bias."""
    for name in ("w", "r"):
        value, dq = getattr(m, name), getattr(m, f"{name}_dq")
        yield value.is_const and value.dtype is S8, f"{name} is no int8 constant"
        s, z = m.values[f"s{name}"], m.values.get(f"z{name}")
        assert s is not None
        yield s.is_const and (z is None or z.is_const), f"the scale of {name} is computed"
        yield z is None or not np.any(np.asarray(z.data)), f"a zero point of {name}"
        along = math.prod(s.shape) == 1 or (s.rank == 1 and int(dq.attr("axis", 1)) % 3 < 2)
        yield along and not dq.attr("block_size", 0), f"{name} has scales of shape {s.shape}"
        numbers = np.asarray(s.data if s.is_const else -1.0, np.float32)
        good = bool(np.all(np.isfinite(numbers) & (numbers > 0)))
        yield good, f"a scale of {name} that is not positive"
    b = m.values.get("b")
    yield b is None or (b.is_const and b.dtype is F32), "a bias that is no constant"
    known_bias = b is None or not b.is_const or bool(np.all(np.isfinite(np.asarray(b.data))))
    yield known_bias, "a bias that is not finite"


def results_of(m: Match) -> tuple[str, ...]:
    """Names of what is computed."""
    return ("y", "last") if "last" in m.values else ("y",)


def _supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = [*known(m, "x", *results_of(m), types=(S8, U8)), *plain_layer(m), *weights_fit(m)]
    yield from asked
    yield m.x.rank == 3 and 0 not in m.x.shape, f"an input of shape {list(m.x.shape)}"
    if m.x.rank != 3 or 0 in m.x.shape or not all(ok for ok, _ in asked):
        return
    scales = [float(codes(m, k).s) for k in ("x", *results_of(m))]
    yield all(2.0**-30 < s < 2.0**20 for s in scales), f"scales {scales}"
    steps = m.x.shape[1 if m.layer.attr("layout", 0) else 0]
    if m.layer.op_type == "LSTM":
        yield steps <= MOST_STEPS, f"{steps} steps (a cell of 32 bits takes {MOST_STEPS})"
    for found in (direction(m, d) for d in range(m.r.shape[0])):
        yield 1 <= found.shift <= 36, f"multipliers with {found.shift + ARGUMENT_BITS} bits"
        fits = found.codes < 2**31 and found.product < 2.0**61
        yield fits, "sums of codes that may overflow"
        exact = found.error <= ARGUMENT_ERROR
        yield exact, f"gates that are off by up to {found.error:.2g}"
        small = not is_linear(m) or found.recurrent < MOST_RECURRENT
        yield small, f"a candidate with a recurrent part of up to {found.recurrent:.3g}"


def layouts_of(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": PLAIN, **dict.fromkeys(results_of(m), PLAIN)}


def tanh_table() -> Array:
    """tanh(k / 32) with 30 fraction bits for k = 0..256."""
    table: Array = np.rint(np.tanh(np.arange(257) / 32) * 2**30).astype(np.int32)
    return table


def states_and_last(m: Match) -> tuple[ValueRef | None, ValueRef | None]:
    """The codes of all states and those of the last ones; None for what is not computed."""
    if "last" in m.values:
        return m.y, m.last
    return (None, m.y) if m.y.rank == 3 else (m.y, None)


def requant_fields(prefix: str, code: Codes | None) -> dict[str, int]:
    """Fields that make codes of a state with 30 fraction bits."""
    if code is None:
        return {f"{prefix}_mult": 0, f"{prefix}_shift": 1, f"{prefix}_zero": 0}
    out = ratio(1.0 / float(code.s), 30)
    found = {"mult": out["mult"], "shift": out["shift"], "zero": code.z}
    return {f"{prefix}_{k}": v for k, v in found.items()}


def geometry(m: Match, d: int) -> dict[str, int]:
    """Extents and strides (in elements) of direction d, and which way it walks."""
    first = not m.layer.attr("layout", 0)
    features = m.x.shape[2]
    steps, batch = m.x.shape[:2] if first else m.x.shape[1::-1]
    directions, hidden = m.r.shape[0], m.r.shape[2]
    wide = directions * hidden
    return {
        "steps": steps,
        "batch": batch,
        "input": features,
        "hidden": hidden,
        "x_time": batch * features if first else features,
        "x_batch": features if first else steps * features,
        "y_time": wide * batch if first else wide,
        "y_batch": hidden if first else steps * wide,
        "last_batch": hidden if first else wide,
        "reverse": int(m.layer.attr("direction", "forward") == "reverse" or d == 1),
    }


def _params(c: Recorder, m: Match, d: int, shift: int) -> ParamFields:
    extents = geometry(m, d)
    every, last = _kinds(m)
    low, high = RANGES[S8]
    return c.params(
        **extents,
        shift=shift,
        cell_bits=30 - math.ceil(math.log2(extents["steps"] + 1)),
        **requant_fields("y", every),
        **requant_fields("last", last),
        lo=low,
        hi=high,
    )


def _kinds(m: Match) -> tuple[Codes | None, Codes | None]:
    """Parameters of all states and of the last ones, as int8 codes."""
    if "last" in m.values:
        return codes(m, "y").signed(), codes(m, "last").signed()
    one = codes(m, "y").signed()
    return (None, one) if m.y.rank == 3 else (one, None)


def _to_kernel(c: Recorder, m: Match) -> None:
    first = not m.layer.attr("layout", 0)
    steps, batch = m.x.shape[:2] if first else m.x.shape[1::-1]
    directions, hidden = m.r.shape[0], m.r.shape[2]
    gates = m.r.shape[1] // hidden
    results = states_and_last(m)
    made = [None if y is None else signed_output(c, y) for y in results]
    source = signed_input(c, m.x)
    table = c.const(tanh_table(), "tanh")
    for d in range(directions):
        found = direction(m, d)
        at = d * hidden * (batch if first else 1)
        c.call(
            "aot_qrnn_s8",
            *(None if y is None else c.write(y, at) for y in made),
            source,
            c.const(np.ascontiguousarray(found.w), "w"),
            c.const(np.ascontiguousarray(found.r), "r"),
            c.const(found.mult, "mult"),
            c.const(found.bias, "bias"),
            table,
            c.scratch(4 * (gates + 2) * hidden + 4 * hidden),
            _params(c, m, d, found.shift),
            instance={
                "KIND": KINDS.index(m.layer.op_type),
                "LINEAR": int(is_linear(m)),
                "Y": int(results[0] is not None),
                "LAST": int(results[1] is not None),
            },
            macs=steps * batch * gates * hidden * (m.x.shape[2] + hidden),
        )
    for y, codes_made in zip(results, made, strict=True):
        if y is not None and codes_made is not None:
            finish(c, y, codes_made)


def _cases(kind: str, both: bool = False) -> Iterator[Case]:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    for directions, steps, batch, features, hidden, attrs in (
        (1, 6, 1, 9, 7, {}),
        (1, 5, 3, 4, 6, {"direction": "reverse"}),
        (2, 4, 2, 5, 6, {"direction": "bidirectional"}),
        (1, 5, 2, 6, 5, {"linear_before_reset": 1} if kind == "GRU" else {}),
    ):
        rows = gates * hidden
        steps_w = np.linspace(0.004, 0.006, rows).astype(np.float32)
        one = directions == 1
        sw = steps_w if one else scale(0.005)
        zeros = np.zeros(sw.shape, np.int8)
        operands = [codes_of(steps, batch, features), scale(0.02), zero(-5)]
        operands += [codes_of(directions, rows, features), sw, zeros]
        operands += [codes_of(directions, rows, hidden, seed=1), sw, zeros]
        bias = f32(directions, 2 * rows, low=-0.5, high=0.5)
        named: dict[str, Any] = {f"layer.{k}": v for k, v in attrs.items()}
        named |= {"layer.hidden_size": hidden, "w_dq.axis": 1, "r_dq.axis": 1}
        missing = [None] * (4 if kind == "LSTM" else 2)
        made = [*operands, bias, *missing, scale(1 / 127), zero(3)]
        made += [scale(1 / 100), zero(-9)] if both else []
        const = tuple(i for i, a in enumerate(made) if i and a is not None)
        yield case(*made, const=const, outputs=1 + both, **named)


def _register(kind: str, pattern: Pattern) -> None:
    pattern.check(_supported)
    pattern.layouts(layouts_of)
    pattern.lower(_to_kernel)


for _kind in KINDS:
    _register(_kind, PATTERNS[_kind])
    _register(_kind, BOTH[_kind])
    PATTERNS[_kind].cases(partial(_cases, _kind))
    BOTH[_kind].cases(partial(_cases, _kind, both=True))
