# SPDX-License-Identifier: Apache-2.0
"""Which recurrent layers stay layers of quantised values: LSTM, GRU and RNN that integers can
compute.

    QuantizeLinear(LSTM(DequantizeLinear(x), DequantizeLinear(W), DequantizeLinear(R), B))

of 8- or 16-bit quantised values and 8-bit weights, with the default activations, no clip, lengths
or peepholes, and states that begin with zero.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import single_use
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.ir.operators import trait_of
from aot.ir.value_traits import Recurrent
from aot.normalise.quantised.common import (
    dequantised,
    has_quantised_dtype,
    is_byte,
    is_quantise,
    is_weight,
    params_of,
    quantised_value,
)

#: Steps of a layer whose cell fits 32 bits.
MOST_STEPS = 1023


def is_recurrent_weight(reader: ir.Node, index: int) -> bool:
    """Whether input `index` of `reader` are weights that it multiplies with quantised values."""
    trait = trait_of(reader, Recurrent)
    if trait is None or index not in (1, 2):
        return False
    return _is_plain(reader, trait) and _has_quantised(reader)


def _is_plain(node: ir.Node, trait: Recurrent) -> bool:
    """Whether a recurrent node is one that kernels of quantised values compute.

    It has its usual activations, no clip, no lengths, no peepholes and starts from zeros; with a
    cell state it has at most MOST_STEPS steps.
    """
    given = [*node.inputs, *[None] * 8]
    names = [str(a).lower() for a in attribute(node, "activations", None) or ()]
    usual = trait.activations.split()
    if names and any(n != usual[i % len(usual)] for i, n in enumerate(names)):
        return False
    if attribute(node, "clip", None) is not None or attribute(node, "input_forget", 0):
        return False
    starts = [array(v) for v in given[5:7] if v is not None]
    if any(s is None or np.any(s) for s in starts) or given[4] is not None or given[7] is not None:
        return False
    x = given[0]
    time = 1 if attribute(node, "layout", 0) else 0
    has_cell = len(trait.states.split()) > 1
    return not has_cell or (x is not None and shape_of(x)[time] <= MOST_STEPS)


def _has_quantised(node: ir.Node) -> bool:
    """Whether operands and the results that are used are quantised values, those of weights of 8
    bits."""
    makers = [m for v in node.inputs[:3] if (m := dequantised(v)) is not None]
    # Kernels take quantised operands throughout, weights of 8 bits with zero points of 0.
    if len(makers) < 3 or not all(is_byte(quantised_value(m)) for m in makers[1:]):
        return False
    x, *weights = makers
    if (
        not has_quantised_dtype(quantised_value(x))
        or is_weight(x)
        or not all(is_weight(m) for m in weights)
    ):
        return False
    for maker in weights:
        p = params_of(maker)
        if p is None or np.any(p.zero) or p.axis > 1:
            return False
    # Results that nobody reads need no quantised form.
    used = [o for o in node.outputs if o.uses() or o.is_graph_output()]
    known = [o for o in list(node.outputs)[:2] if _becomes_quantised(o)]
    return bool(used) and all(any(o is k for k in known) for o in used)


def _becomes_quantised(value: ir.Value) -> bool:
    """Whether a QuantizeLinear to 8 or 16 bits alone reads a result."""
    after = single_use(value)
    if not is_quantise(after) or params_of(after) is None:
        return False
    return has_quantised_dtype(quantised_value(after))
