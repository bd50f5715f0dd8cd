# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU in one direction or both, with constant weights and the usual activations.

Both directions are two primitives: the library would interleave their results as [steps, batch,
direction, hidden], ONNX wants [steps, direction, batch, hidden].
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.vendor import (
    F32,
    OP,
    Case,
    Handle,
    Match,
    Operand,
    Recorder,
    ValueRef,
    case,
    f32,
    wildcard,
)
from aot.vendor.dnnl.base import Array, Checks, declare, floats, primitive

DIRECTIONS = ("forward", "reverse", "bidirectional")
LSTM, GRU, GRU_LINEAR = 0, 1, 2  # aot_dnnl_recurrent_params.kind
#: The activations of nodes that name none, one per gate.
LSTM_DEFAULT, GRU_DEFAULT = ("sigmoid", "tanh", "tanh"), ("sigmoid", "tanh")
#: ONNX's gates in the library's order: i, o, f, c and z, r, h.
ORDER = {"LSTM": [0, 2, 3, 1], "GRU": [0, 1, 2]}


def _supported(default: tuple[str, ...], m: Match) -> Checks:
    """Checks of a recurrent layer of float32 with constant weights and the activations `default`.

    Sequences have equal lengths; states are [directions, N, hidden] (layout 0), both given or
    none.
    """
    node = m.root
    yield from floats(m.x, m.values.get("h0"), m.values.get("c0"), kinds=(F32,))
    for name in ("w", "r", "b"):
        v = m.values.get(name)
        yield v is None or v.is_const, f"{name} is computed at run time (needs a constant)"
    direction, layout = node.attr("direction", "forward"), int(node.attr("layout", 0))
    yield direction in DIRECTIONS, f"direction {direction!r} is unknown"
    yield layout == 0, f"layout {layout} (needs 0)"
    # With two directions the names are given twice, once for each.
    names = tuple(str(a).lower() for a in node.attr("activations") or default)
    usual = names in (default, default * 2)
    yield usual, f"activations {', '.join(names)} (needs {', '.join(default)})"
    yield node.attr("clip") is None, "gates that are clipped"
    for name in ("lens", "peep"):
        yield m.values.get(name) is None, f"input {name}"
    yield not node.attr("input_forget", 0), "input_forget 1 (needs 0)"
    if node.op_type == "LSTM":
        yield (m.h0 is None) == (m.c0 is None), "one of two states to start from"


def _gates(m: Match, name: str, way: int) -> Array:
    """Weights [gates * hidden, depth] of one direction as [depth, gates, hidden]."""
    value = m.values[name]
    assert value is not None
    hidden = m.r.shape[2]
    w = np.asarray(value.data)[way].reshape(-1, hidden, value.shape[2])
    return np.ascontiguousarray(w[ORDER[m.root.op_type]].transpose(2, 0, 1))


def _biases(m: Match, kind: int, way: int) -> Array:
    """[gates, hidden] of one direction; both biases summed where nothing comes between them."""
    order, hidden = ORDER[m.root.op_type], m.r.shape[2]
    if m.b is None:
        return np.zeros((4 if kind == GRU_LINEAR else len(order), hidden), np.float32)
    own, recurrent = np.asarray(m.b.data)[way].reshape(2, len(order), hidden)[:, order]
    if kind != GRU_LINEAR:
        return np.asarray(own + recurrent)
    return np.concatenate([own[:2] + recurrent[:2], own[2:], recurrent[2:]])


def _wanted(m: Match, name: str) -> bool:
    """Whether the match has an output `name` that a node reads or that the graph returns."""
    value: ValueRef | None = m.values.get(name)
    return value is not None and (value.uses > 0 or value.is_output)


def _kind(m: Match) -> int:
    """The number of the cell in aot_dnnl_recurrent_params: an LSTM, or a GRU of either form."""
    if m.root.op_type == "LSTM":
        return LSTM
    return GRU_LINEAR if m.root.attr("linear_before_reset", 0) else GRU


def _primitive(c: Recorder, m: Match, way: int, ends: bool) -> Operand:
    """The object of direction number `way`; `ends`: it leaves the last states."""
    kind = _kind(m)
    steps, batch, features = m.x.shape
    params = c.params(
        kind=kind,
        reverse=m.root.attr("direction", "forward") == "reverse" or way == 1,
        begins=m.h0 is not None,
        ends=ends,
        steps=steps,
        batch=batch,
        input=features,
        hidden=m.r.shape[2],
    )
    weights = [c.const(_gates(m, name, way), name) for name in ("w", "r")]
    bias = c.const(_biases(m, kind, way), "b")
    return primitive(c, "aot_dnnl_recurrent", *weights, bias, params)


def _record(c: Recorder, m: Match) -> None:
    """Record one primitive per direction and the call that executes the layer.

    Two directions need scratch for one direction's results (steps * batch * hidden floats), which
    the call interleaves as ONNX wants.
    """
    steps, batch, features = m.x.shape
    directions, _, hidden = m.r.shape
    long = _kind(m) == LSTM
    # The library writes last states all or none: one that nobody reads gets memory, too.
    ends = _wanted(m, "yh") or _wanted(m, "yc")

    def result(name: str, needed: bool, *shape: int) -> ValueRef | Handle | None:
        """Where the library writes: a value, or memory nobody reads."""
        value: ValueRef | None = m.values.get(name)
        if value is not None:
            return value
        return c.temp(shape, F32, name=name) if needed else None

    operands = (
        result("y", True, steps, directions, batch, hidden),
        result("yh", ends, directions, batch, hidden),
        result("yc", ends and long, directions, batch, hidden),
        m.x,
        m.h0,
        m.values.get("c0"),
    )
    objects = [_primitive(c, m, way, ends) for way in range(directions)]
    macs = directions * steps * batch * (3 + long) * hidden * (features + hidden)
    if directions == 1:
        c.call("aot_dnnl_run_recurrent", *objects, *operands, status=True, macs=macs)
        return
    part = c.scratch(4 * steps * batch * hidden, "part")
    params = c.params(steps=steps, row=batch * hidden)
    both = "aot_dnnl_run_both"
    c.call(both, *objects, *operands, part, params, status=True, macs=macs)


def _arrays(gates: int, t: int, b: int, i: int, h: int, d: int = 1) -> list[Array]:
    """Arrays x [t, b, i], w [d, gates * h, i], r [d, gates * h, h] and b [d, 2 * gates * h] of a
    case.
    """
    shapes = [(t, b, i), (d, gates * h, i), (d, gates * h, h), (d, 2 * gates * h)]
    return [f32(*s, seed=k, low=-0.6, high=0.6) for k, s in enumerate(shapes)]


def lstm_cases() -> Iterator[Case]:
    """LSTM(X, W, R, B, sequence_lens, initial_h, initial_c) with constant weights."""
    full = _arrays(4, 5, 3, 7, 19)
    states = f32(1, 3, 19, seed=5), f32(1, 3, 19, seed=6)
    for direction in ("forward", "reverse"):
        attrs: dict[str, Any] = {"hidden_size": 19, "direction": direction}
        yield case(*full, None, *states, const=(1, 2, 3), outputs=3, **attrs)
        yield case(*full, const=(1, 2, 3), outputs=3, **attrs)
    yield case(*full[:3], const=(1, 2), outputs=1, hidden_size=19)
    yield from _both_ways(4, f32(2, 3, 11, seed=5), f32(2, 3, 11, seed=6))


def gru_cases() -> Iterator[Case]:
    """GRU(X, W, R, B, sequence_lens, initial_h) with constant weights."""
    full = _arrays(3, 5, 3, 7, 19)
    for linear in (0, 1):
        attrs: dict[str, Any] = {"hidden_size": 19, "linear_before_reset": linear}
        yield case(*full, None, f32(1, 3, 19, seed=5), const=(1, 2, 3), outputs=2, **attrs)
        yield case(*full[:3], const=(1, 2), outputs=2, **attrs)
    yield from _both_ways(3, f32(2, 3, 11, seed=5))
    yield from _both_ways(3, f32(2, 3, 11, seed=5), linear_before_reset=1)


def _both_ways(gates: int, *states: Array, **more: Any) -> Iterator[Case]:
    """Two cases of a layer in both directions: with initial `states` [2, N, hidden], and without.

    `more` holds further attributes of the node.
    """
    full = _arrays(gates, 4, 3, 7, 11, 2)
    attrs: dict[str, Any] = {"hidden_size": 11, "direction": "bidirectional", **more}
    yield case(*full, None, *states, const=(1, 2, 3), outputs=1 + len(states), **attrs)
    yield case(*full, const=(1, 2, 3), outputs=1, **attrs)


for _op, _default, _more, _outputs, _cases in (
    ("LSTM", LSTM_DEFAULT, ("c0", "peep"), ("y", "yh", "yc"), lstm_cases),
    ("GRU", GRU_DEFAULT, (), ("y", "yh"), gru_cases),
):
    _inputs = map(wildcard, ("x", "w", "r", "b", "lens", "h0", *_more))
    declare(
        _op.lower(),
        getattr(OP, _op)(*_inputs, _optional=3 + len(_more)),
        partial(_supported, _default),
        lower=_record,
        cases=_cases,
        outputs=_outputs,
    )
