# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: LSTM, GRU, RNN in float32; one call per direction, weights in panels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, S32
from aot.ir.graph_nodes import Array, attribute
from aot.ir.operators import OneOf
from aot.ir.value_traits import Recurrent
from aot.ops.registry import op
from aot.shapes.checks import checks, shape_at
from aot.shapes.partial_values import PartialValues
from aot.vendor import Case, Match, Pattern, ValueRef, case, f32
from aot.vendor.arguments import Handle, ParamFields, Used
from aot.vendor.recorder import Recorder

# In the order of AOT_RNN_* of runtime_c/kernels/aot_rnn_f32.h: defaults of alpha and beta, None
# where the function has no such parameter, NaN where it has one without a default: ONNX names none,
# or another (ThresholdedRelu: 1) than onnxruntime, which takes 0.
ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "sigmoid": (None, None),
    "tanh": (None, None),
    "relu": (None, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "affine": (math.nan, math.nan),
    "scaledtanh": (math.nan, math.nan),
    "softsign": (None, None),
    "elu": (1.0, None),
    "thresholdedrelu": (math.nan, None),
    "softplus": (None, None),
}
CHUNK = 16384  # elements of gates computed from the inputs at once

DIRECTION = OneOf("forward reverse bidirectional", "forward")
ACTIVATION_NAMES = (
    "Affine Elu HardSigmoid LeakyRelu Relu ScaledTanh Sigmoid Softplus Softsign Tanh "
    "ThresholdedRelu"
)
ATTRIBUTES: dict[str, Any] = {
    "hidden_size": None,
    "direction": DIRECTION,
    "layout": 0,
    "clip": None,
    "activations": OneOf(ACTIVATION_NAMES, any_case=True),
    "activation_alpha": None,
    "activation_beta": None,
}
INPUTS = "x w r b? lens? h0?"
lstm = op(
    "LSTM",
    f"{INPUTS} c0? peep?",
    "y? yh? yc?",
    traits=[Recurrent("h0 c0", "sigmoid tanh tanh")],
    input_forget=0,
    **ATTRIBUTES,
)
gru = op(
    "GRU",
    INPUTS,
    "y? yh?",
    traits=[Recurrent("h0", "sigmoid tanh")],
    linear_before_reset=0,
    **ATTRIBUTES,
)
rnn = op("RNN", INPUTS, "y? yh?", traits=[Recurrent("h0", "tanh")], **ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a recurrent layer; `padded` is the hidden size in whole vectors."""

    steps: int
    batch: int
    features: int
    hidden: int
    directions: int
    gates: int
    padded: int
    panel: int

    @property
    def row(self) -> int:
        """Elements of one row of gates, rounded up to whole panels."""
        return self.panels(self.gates * self.padded)

    def panels(self, columns: int) -> int:
        """`columns` rounded up to whole panels."""
        return -(-columns // self.panel) * self.panel


def shape_of(m: Match, vlen: int) -> Shape:
    """The sizes of a recurrent layer of match `m`, for vectors of `vlen` elements."""
    time, batch = (1, 0) if m.layout else (0, 1)
    directions, hidden = m.r.shape[0], m.r.shape[2]
    gates = m.r.shape[1] // hidden
    padded = -(-hidden // vlen) * vlen
    x = m.x.shape
    return Shape(x[time], x[batch], x[2], hidden, directions, gates, padded, 4 * vlen)


def functions(m: Match, default: Sequence[str]) -> list[tuple[str, float, float]]:
    """(name, alpha, beta) of the activations of all directions, defaults filled in."""
    names = [str(a).lower() for a in m.activations or ()] or list(default) * m.r.shape[0]
    alphas, betas = list(m.activation_alpha or ()), list(m.activation_beta or ())
    found = []
    for name in names:
        alpha, beta = ACTIVATIONS.get(name, (None, None))
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        found.append((name, float(alpha or 0.0), float(beta or 0.0)))
    return found


def _supported(m: Match, default: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Checks of type, direction and activations; `default` are the activations of one direction.

    An activation whose parameters have no default must have them.
    """
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    known = ("forward", "reverse", "bidirectional")
    yield m.direction in known, f"direction {m.direction!r} (needs one of {', '.join(known)})"
    yield 0 not in m.x.shape, f"an empty tensor {list(m.x.shape)}"
    names = [f[0] for f in functions(m, default)]
    strange = sorted(set(names) - set(ACTIVATIONS))
    yield not strange, f"activation {', '.join(strange)}"
    for name, *parameters in functions(m, default):
        said = not any(map(math.isnan, parameters))
        yield said, f"activation {name} without its alpha and beta (runtimes differ in defaults)"
    want = len(default) * m.r.shape[0]
    yield len(names) == want, f"{len(names)} activations (needs {want})"


@dataclass(frozen=True, slots=True)
class Gates:
    """Neighbouring gates of a weight tensor from element `first` on, each `hidden` rows of `depth`.

    The elements from `plus` on are added to those of the first `plus_gates` gates.
    """

    value: ValueRef
    first: int
    count: int
    depth: int = 1
    plus: int = 0
    plus_gates: int = 0


def packed(weights: Array, sizes: Shape, columns: int) -> Array:
    """Weights [gates * hidden, depth] as [columns / panel][depth][panel] floats, flattened.

    Every gate is padded with zeros to whole vectors.
    """
    depth = weights.shape[1]
    gates = weights.reshape(-1, sizes.hidden, depth)
    full = np.zeros((columns, depth), np.float32)
    view = full[: gates.shape[0] * sizes.padded].reshape(gates.shape[0], sizes.padded, depth)
    view[:, : sizes.hidden] = gates
    return full.reshape(columns // sizes.panel, sizes.panel, depth).transpose(0, 2, 1).ravel()


def panels(c: Recorder, sizes: Shape, name: str, columns: int, *parts: Gates) -> Handle:
    """Packed weights: a constant, or packed by a call where they are known at run time only.

    Parts follow each other, each in whole panels; without parts all `columns` are zero.
    """
    if all(part.value.is_const for part in parts):
        zeros = [np.zeros(columns, np.float32)]
        return c.const(np.concatenate([_constant(sizes, p) for p in parts] or zeros), name)
    size = sum(sizes.panels(p.count * sizes.padded) * p.depth for p in parts)
    whole = c.temp((size,), F32, name=name)
    c.defines(whole)
    at = 0
    for part in parts:
        wide = sizes.panels(part.count * sizes.padded)
        plus = c.read(part.value, 4 * part.plus) if part.plus_gates else None
        c.call(
            "aot_panels_f32",
            c.write(whole, 4 * at),
            c.read(part.value, 4 * part.first),
            plus,
            c.params(
                sections=part.count,
                columns=sizes.hidden,
                padded=sizes.padded,
                panels=wide // sizes.panel,
                outer=1,
                inner=part.depth,
                plus_sections=part.plus_gates,
                row=part.depth,
                outer_step=0,
                inner_step=1,
            ),
            instance={"PANEL": sizes.panel},
        )
        at += wide * part.depth
    return whole


def _constant(sizes: Shape, part: Gates) -> Array:
    """Constant gates, packed, with the gates from `plus` on added to the first ones."""
    flat = np.asarray(part.value.data, np.float32).ravel()
    rows = flat[part.first : part.first + part.count * sizes.hidden * part.depth].copy()
    more = part.plus_gates * sizes.hidden
    rows[:more] += flat[part.plus : part.plus + more]
    return packed(rows.reshape(-1, part.depth), sizes, sizes.panels(part.count * sizes.padded))


def _weights(
    c: Recorder, sizes: Shape, value: ValueRef, direction: int, name: str, *counts: int
) -> Handle:
    """The packed weights W or R (`value`) of one direction, gates in groups of `counts` (or one
    group).
    """
    depth = value.shape[2]
    parts, first = [], direction * sizes.gates * sizes.hidden * depth
    for count in counts or (sizes.gates,):
        parts.append(Gates(value, first, count, depth))
        first += count * sizes.hidden * depth
    return panels(c, sizes, name, 0, *parts)


def _bias(c: Recorder, m: Match, sizes: Shape, direction: int, both: int) -> Handle:
    """The packed input bias of one direction plus the recurrent bias in the first `both` gates.

    Zeros where the layer has no bias.
    """
    if m.b is None:
        return panels(c, sizes, "bias", sizes.row)
    own = 2 * direction * sizes.gates * sizes.hidden
    gates = Gates(m.b, own, sizes.gates, 1, own + sizes.gates * sizes.hidden, both)
    return panels(c, sizes, "bias", sizes.row, gates)


def _lengths(m: Match, sizes: Shape) -> ValueRef | None:
    """The sequence lengths; None where there are none, or all are known to be whole."""
    lens = m.lens
    if lens is not None and lens.is_const and (np.asarray(lens.data) == sizes.steps).all():
        return None
    assert lens is None or lens.dtype is S32
    return lens  # type: ignore[no-any-return]


def _reverse(m: Match, direction: int) -> bool:
    """Whether the direction with this number runs from the last step to the first."""
    return bool(m.direction == "reverse" or direction == 1)


def _chunk(m: Match, sizes: Shape, direction: int) -> int:
    """How many steps' products with the inputs are computed at once, within CHUNK elements.

    All of them for a reversed direction with lengths, whose order of steps differs by sequence.
    """
    if _reverse(m, direction) and _lengths(m, sizes) is not None:
        return sizes.steps
    return max(1, min(sizes.steps, CHUNK // (sizes.batch * sizes.row)))


def _params(
    c: Recorder, m: Match, sizes: Shape, direction: int, default: Sequence[str], coupled: int
) -> ParamFields:
    """The fields of aot_rnn_f32_params for one direction: sizes, steps in floats, activations."""
    own = functions(m, default)[direction * len(default) : (direction + 1) * len(default)]
    # The kernels' tables have room for the activations of an LSTM.
    own += [("sigmoid", 0.0, 0.0)] * (3 - len(own))
    order = list(ACTIVATIONS)
    wide = sizes.directions * sizes.hidden
    first = m.layout == 0
    return c.params(
        steps=sizes.steps,
        batch=sizes.batch,
        input=sizes.features,
        hidden=sizes.hidden,
        row=sizes.row,
        chunk=_chunk(m, sizes, direction),
        x_time=sizes.batch * sizes.features if first else sizes.features,
        x_batch=sizes.features if first else sizes.steps * sizes.features,
        y_time=wide * sizes.batch if first else wide,
        y_batch=sizes.hidden if first else sizes.steps * wide,
        state=sizes.hidden if first else wide,
        reverse=int(_reverse(m, direction)),
        act=[order.index(a) for a, _, _ in own],
        alpha=[a for _, a, _ in own],
        beta=[b for _, _, b in own],
        clip=math.inf if m.clip is None else float(m.clip),
        coupled=coupled,
    )


def _part(c: Recorder, m: Match, sizes: Shape, name: str, direction: int) -> Used | None:
    """The argument for one direction of an operand or result with all directions; None if it is
    absent.
    """
    value = m.values.get(name)
    if value is None:
        return None
    offset = direction * sizes.hidden * (1 if m.layout else sizes.batch) * 4
    known = name in m.output_names
    return c.write(value, offset) if known else c.read(value, offset)


def _macs(sizes: Shape) -> int:
    """The multiplications of one direction."""
    return sizes.steps * sizes.batch * sizes.gates * sizes.hidden * (sizes.features + sizes.hidden)


LSTM_DEFAULT = ("sigmoid", "tanh", "tanh")
GRU_DEFAULT = ("sigmoid", "tanh")
RNN_DEFAULT = ("tanh",)


@lstm.lower
def lstm_to_kernel(c: Recorder, m: Match) -> None:
    """Record one call of aot_lstm_f32 per direction; scratch holds states and gates of a chunk."""
    s = shape_of(m, c.vlen)
    # Directions share no state, so each is a call with scratch of its own.
    for d in range(s.directions):
        peep = None
        if m.peep is not None:
            peep = panels(c, s, "peephole", 0, Gates(m.peep, 3 * d * s.hidden, 3))
        scratch = c.scratch(4 * s.batch * (2 * s.padded + _chunk(m, s, d) * s.row))
        c.call(
            "aot_lstm_f32",
            *(_part(c, m, s, n, d) for n in ("y", "yh", "yc")),
            m.x,
            _weights(c, s, m.w, d, "w"),
            _weights(c, s, m.r, d, "r"),
            _bias(c, m, s, d, s.gates),
            _lengths(m, s),
            _part(c, m, s, "h0", d),
            _part(c, m, s, "c0", d),
            peep,
            scratch,
            _params(c, m, s, d, LSTM_DEFAULT, int(m.input_forget)),
            macs=_macs(s),
        )


@gru.lower
def gru_to_kernel(c: Recorder, m: Match) -> None:
    """Record one call of aot_gru_f32 per direction; scratch holds states and gates of a chunk."""
    s = shape_of(m, c.vlen)
    one = s.panels(s.padded)
    for d in range(s.directions):
        linear = bool(m.linear_before_reset)
        # With linear_before_reset the candidate's recurrent bias is scaled by the reset gate.
        later = []
        if linear and m.b is not None:
            later = [Gates(m.b, (2 * d * s.gates + s.gates + 2) * s.hidden, 1)]
        size = s.batch * s.padded + 2 * one + _chunk(m, s, d) * s.batch * s.row
        c.call(
            "aot_gru_f32",
            *(_part(c, m, s, n, d) for n in ("y", "yh")),
            m.x,
            _weights(c, s, m.w, d, "w"),
            _weights(c, s, m.r, d, "r", 2, 1),
            _bias(c, m, s, d, 2 if linear else 3),
            panels(c, s, "rbias", one, *later),
            _lengths(m, s),
            _part(c, m, s, "h0", d),
            c.scratch(4 * size),
            _params(c, m, s, d, GRU_DEFAULT, int(linear)),
            macs=_macs(s),
        )


@rnn.lower
def rnn_to_kernel(c: Recorder, m: Match) -> None:
    """Record one call of aot_simple_rnn_f32 per direction; scratch holds states and gates of a
    chunk.
    """
    s = shape_of(m, c.vlen)
    for d in range(s.directions):
        size = s.batch * s.padded + _chunk(m, s, d) * s.batch * s.row
        c.call(
            "aot_simple_rnn_f32",
            *(_part(c, m, s, n, d) for n in ("y", "yh")),
            m.x,
            _weights(c, s, m.w, d, "w"),
            _weights(c, s, m.r, d, "r"),
            _bias(c, m, s, d, 1),
            _lengths(m, s),
            _part(c, m, s, "h0", d),
            c.scratch(4 * size),
            _params(c, m, s, d, RNN_DEFAULT, 0),
            macs=_macs(s),
            # This header has the simple cell, too.
            header="aot_gru_f32.h",
        )


def _declare(pattern: Pattern, default: Sequence[str]) -> None:
    @pattern.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        yield from _supported(m, default)


for _pattern, _default in ((lstm, LSTM_DEFAULT), (gru, GRU_DEFAULT), (rnn, RNN_DEFAULT)):
    _declare(_pattern, _default)


def _arrays(gates: int, t: int, b: int, i: int, h: int, d: int = 1) -> list[Array]:
    """x, w, r and bias of a case with `gates` gates.

    The other letters are steps, batch, features, hidden size and directions.
    """
    shapes = [(t, b, i), (d, gates * h, i), (d, gates * h, h), (d, 2 * gates * h)]
    return [f32(*s, seed=k, low=-0.6, high=0.6) for k, s in enumerate(shapes)]


@lstm.cases
def lstm_cases() -> Iterator[Case]:
    """LSTM(X, W, R, B, sequence_lens, initial_h, initial_c, P): each direction."""
    weights = (1, 2, 3)
    full = _arrays(4, 5, 3, 7, 19)
    h, cell = f32(1, 3, 19, seed=5), f32(1, 3, 19, seed=6)
    peep = f32(1, 57, seed=7)
    yield case(*_arrays(4, 3, 1, 9, 16), const=weights, outputs=3, hidden_size=16)
    yield case(*full[:3], const=(1, 2), outputs=2, hidden_size=19)
    yield case(*full, None, h, cell, const=weights, outputs=3, hidden_size=19)
    yield case(*full, None, h, cell, peep, const=(1, 2, 3, 7), outputs=3, hidden_size=19)
    yield case(*full, None, h, cell, peep, outputs=3, hidden_size=19)
    yield case(*_arrays(4, 4, 2, 5, 6, 2), outputs=3, hidden_size=6, direction="bidirectional")
    for direction in ("reverse", "bidirectional"):
        arrays = _arrays(4, 4, 2, 5, 6, 1 + (direction == "bidirectional"))
        yield case(*arrays, const=weights, outputs=3, hidden_size=6, direction=direction)


@gru.cases
def gru_cases() -> Iterator[Case]:
    """GRU(X, W, R, B, sequence_lens, initial_h): constant and computed weights."""
    weights = (1, 2, 3)
    full = _arrays(3, 5, 3, 7, 19)
    h = f32(1, 3, 19, seed=5)
    for linear in (0, 1):
        attrs: dict[str, Any] = {"hidden_size": 19, "linear_before_reset": linear}
        yield case(*full, None, h, const=weights, outputs=2, **attrs)
        yield case(*full, None, h, outputs=2, **attrs)
        yield case(*full[:3], const=(1, 2), outputs=2, **attrs)


@rnn.cases
def rnn_cases() -> Iterator[Case]:
    """RNN(X, W, R, B): constant and computed weights, both directions."""
    weights = (1, 2, 3)
    yield case(*_arrays(1, 5, 3, 7, 19), const=weights, outputs=2, hidden_size=19)
    yield case(*_arrays(1, 5, 3, 7, 19, 2), outputs=2, hidden_size=19, direction="bidirectional")
    yield case(*_arrays(1, 4, 1, 3, 5), const=weights, outputs=2, hidden_size=5)


#: Gates of one direction: rows of the weights, in units of the hidden size.
GATES_OF = {"RNN": 1, "GRU": 3, "LSTM": 4}


@checks("RNN GRU LSTM")
def recurrent_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """Why operands of an RNN, GRU or LSTM do not fit each other, "" if they do.

    x is [steps, batch, features] (layout 1: [batch, steps, features]), w [directions, gates *
    hidden, features], r [directions, gates * hidden, hidden]; biases, lengths, states and peepholes
    follow from these. A clip must be positive.
    """
    clip = attribute(node, "clip", None)
    if clip is not None and not clip > 0:
        return f"clip {clip} (needs more than 0)"
    x, w, r = shape_at(node, 0), shape_at(node, 1), shape_at(node, 2)
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        return f"operands {list(x)}, {list(w)}, {list(r)}: each needs three axes"
    first = bool(attribute(node, "layout", 0))
    batch, gates, hidden = x[0 if first else 1], GATES_OF[node.op_type], r[2]
    both = str(attribute(node, "direction", "forward")) == "bidirectional"
    dirs = 2 if both else 1
    state = (batch, dirs, hidden) if first else (dirs, batch, hidden)
    wanted = {
        1: (dirs, gates * hidden, x[2]),
        2: (dirs, gates * hidden, hidden),
        3: (dirs, 2 * gates * hidden),
        4: (batch,),
        5: state,
        6: state,
        7: (dirs, 3 * hidden),
    }
    # An operand that is absent cannot be wrong.
    for index, shape in wanted.items():
        given = index < len(node.inputs) and node.inputs[index] is not None
        if given and shape_at(node, index) != shape:
            return f"input {index} {list(shape_at(node, index))} should be {list(shape)}"
    return ""
