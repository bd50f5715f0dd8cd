# SPDX-License-Identifier: Apache-2.0
"""Clamps around quantisation: those that saturation implies go, those of quantised values become
numbers'.

Before: QuantizeLinear(Relu(x), s, -128)    Clip(QuantizeLinear(x, s, z), 0, 127)
After:  QuantizeLinear(x, s, -128)          QuantizeLinear(Clip(x, -s * z, s * (127 - z)), s, z)
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, operand, shape_of
from aot.ir.node_traits import clamp_bounds
from aot.ir.operators import trait_of
from aot.ir.value_traits import Clamp
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    QUANTISE,
    Params,
    add_quantise,
    dequantised,
    is_quantise,
    limits,
    params_of,
    to_quantised,
    to_reals,
)


def quant_clips(edit: Editor, options: LoadOptions) -> None:
    """Drop what saturation implies and respell clamps of quantised values."""
    for node in edit.graph:
        if is_quantise(node):
            _implied_after(edit, node)
        elif trait_of(node, Clamp) is not None:
            _implied_before(edit, node)
            _clip_of_quantised(edit, node)


def _bounds(node: ir.Node) -> tuple[float, float] | None:
    """The constant bounds of a clamp, infinite where absent."""
    found = [-np.inf, np.inf]
    for side, bound in enumerate(clamp_bounds(node) or ()):
        if bound is None or isinstance(bound, float):
            found[side] = found[side] if bound is None else bound
            continue
        data = array(bound)
        if data is None or data.size != 1 or np.isnan(data.reshape(())):
            return None
        found[side] = float(data.reshape(()))
    return found[0], found[1]


def _implied_after(edit: Editor, quantise: ir.Node) -> None:
    """Saturation is monotone: it implies a clamp whose bounds are the outermost quantised
    values."""
    p, clamp = params_of(quantise), producer(quantise.inputs[0])
    if p is None or not p.per_tensor or clamp is None or trait_of(clamp, Clamp) is None:
        return
    bounds, (low, high) = _bounds(clamp), limits(quantise.outputs[0])
    x = clamp.inputs[0]
    if bounds is None or x is None or bounds[0] > bounds[1]:
        return
    quantised = to_quantised(np.array(bounds, np.float32), p, (low, high))
    if quantised.tolist() == [low, high]:
        edit.set_input(quantise, 0, x)


def _implied_before(edit: Editor, clamp: ir.Node) -> None:
    """Remove a clamp of dequantised values whose range is within the bounds."""
    source = dequantised(clamp.inputs[0])
    p, bounds = params_of(source), _bounds(clamp)
    if source is None or p is None or bounds is None:
        return
    ends = np.array(limits(operand(source, 0)))
    if not p.per_tensor:
        return
    low, high = to_reals(ends, p).tolist()
    if bounds[0] <= low and high <= bounds[1]:
        edit.substitute(clamp, source.outputs[0])


def _clip_of_quantised(edit: Editor, clip: ir.Node) -> None:
    """Let a Clip of quantised values, which quantisation-aware training writes, clamp the numbers
    instead.
    """
    source = producer(clip.inputs[0], QUANTISE)
    p, bounds = params_of(source), _bounds(clip)
    if clip.op_type != "Clip" or source is None or p is None or bounds is None:
        return
    result, x = clip.outputs[0], source.inputs[0]
    # Somebody else reads the values before the Clip.
    if single_use(source.outputs[0]) is not clip or x is None or result.dtype is None:
        return
    if not p.per_tensor or bounds[0] > bounds[1]:
        return
    ends = limits(result)
    inputs = [x, *(_number(edit, clip, b, p, ends) for b in bounds)]
    # A bound that no number of the quantised type stands for would clip at another place.
    if any(i is None for i in inputs[1:]) and not _is_open(inputs, bounds, ends):
        return
    while inputs[-1] is None:
        inputs.pop()
    clipped = edit.node("Clip", inputs, before=clip, shape=shape_of(x)) if inputs[1:] else x
    edit.substitute(clip, add_quantise(edit, clipped, p, result.dtype, before=clip))


def _number(
    edit: Editor, clip: ir.Node, bound: float, params: Params, ends: tuple[int, int]
) -> ir.Value | None:
    """The number that a bound of quantised values stands for, as a constant.

    None where the bound is outermost (`ends`) or where quantising the number would give another
    bound.
    """
    if not ends[0] < bound < ends[1]:
        return None
    number = to_reals(np.array(int(bound)), params)
    if int(to_quantised(number, params, ends)) != int(bound):
        return None
    return edit.const(number, f"{clip.name}_bound")


def _is_open(
    inputs: list[ir.Value | None], bounds: tuple[float, float], ends: tuple[int, int]
) -> bool:
    """Whether every absent bound is one that saturation implies."""
    low = inputs[1] is not None or bounds[0] <= ends[0]
    return low and (inputs[2] is not None or bounds[1] >= ends[1])
