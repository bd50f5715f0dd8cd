# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM with every optional input and output."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.draft import Draft, Reject
from fuzz.families import family
from fuzz.layers import small

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@family(2)
def recurrent(d: Draft) -> None:
    op = d.word("RNN GRU LSTM")
    x = d.floats((3,))
    steps, batch, size = d.shape(x)
    if steps > 12 or d.values[x].size > 2000:
        raise Reject
    hidden, gates = d.one(1, 3, 4, 8), GATES[op]
    direction = d.word("forward reverse bidirectional")
    dirs = 2 if direction == "bidirectional" else 1
    inputs = [
        x,
        d.const(small(d, [dirs, gates * hidden, size])),
        d.const(small(d, [dirs, gates * hidden, hidden])),
        d.operand([dirs, 2 * gates * hidden]) if d.chance(0.7) else "",
        d.ints32(d.rng.integers(1, steps + 1, batch)) if d.chance(0.3) else "",
        d.operand([dirs, batch, hidden]) if d.chance(0.4) else "",
    ]
    if op == "LSTM":
        inputs.append(d.operand([dirs, batch, hidden]) if d.chance(0.4) else "")
        inputs.append(d.operand([dirs, 3 * hidden]) if d.chance(0.2) else "")
    while not inputs[-1]:
        inputs.pop()
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = d.upto(0, 1)
    if d.chance(0.2):
        chosen = [d.word("Sigmoid Tanh Relu Softsign HardSigmoid") for _ in ACTIVATIONS[op]]
        attrs["activations"] = chosen * dirs
    if d.chance(0.1):
        attrs["clip"] = 0.7
    d.add(op, inputs, d.upto(1, 3 if op == "LSTM" else 2), **attrs)


@family(0.4)
def recurrent_batch_first(d: Draft) -> None:
    x = d.floats((3,))
    _batch, steps, size = d.shape(x)
    if steps > 12:
        raise Reject
    hidden, op = d.one(2, 5), d.word("RNN GRU LSTM")
    gates = GATES[op]
    w, r = small(d, [1, gates * hidden, size]), small(d, [1, gates * hidden, hidden])
    inputs = [x, d.const(w), d.const(r), d.const(np.zeros([1, 2 * gates * hidden], d.dtype))]
    d.add(op, inputs, 2, hidden_size=hidden, layout=1)
