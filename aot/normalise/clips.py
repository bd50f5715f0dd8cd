# SPDX-License-Identifier: Apache-2.0
"""Clamping to constants: Relu, or Clip with scalar constant bounds.

Before: Min(Max(x, 0), 6)    Clip(x, 0)    Clip(Relu(x), "", 6)    Max(x, -0.4)
After:  Clip(x, 0, 6)        Relu(x)       Clip(x, 0, 6)           Clip(x, -0.4)
Only for floats; an absent bound is none.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, dtype_of, shape_of
from aot.ir.node_traits import clamp_bounds
from aot.ir.operators import Interface
from aot.load.options import LoadOptions
from aot.normalise.form import Form

_OTHERS = "the elements are integers, or a bound has several elements"
FORMS = (
    Form("Min(Max(x, const(a)), const(b))", "Clip(x, a, b)", _OTHERS, floats=True),
    Form("Max(Min(x, const(b)), const(a))", "Clip(x, a, b)", _OTHERS, floats=True),
    Form("Max(x, const(a))", "Clip(x, a)", _OTHERS, floats=True),
    Form("Min(x, const(b))", "Clip(x, '', b)", _OTHERS, floats=True),
    Form("Clip(x, 0)", "Relu(x)", "the elements are integers", floats=True),
    Form("Relu(Relu(x))", "Relu(x)", "the elements are integers", floats=True),
    Form("Relu(Clip(x, const(a), const(b)))", "Clip(x, a, b)", _OTHERS, floats=True),
    Form("Clip(Relu(x), const(a), const(b))", "Clip(x, a, b)", _OTHERS, floats=True),
)
Interval = tuple[float, float]
EVERYTHING: Interval = (-np.inf, np.inf)
#: Which bound, 0 low or 1 high, one operand of an operator of two is to the other.
one_sided: Interface[int] = Interface("one_sided")


def clips(edit: Editor, options: LoadOptions) -> None:
    """Merge chains of clamps and spell each in its one form."""
    for node in edit.graph:
        found = _clamp(node)
        if found is None:
            continue
        x, bounds = found
        while (before := producer(x)) is not None and single_use(x) is not None:
            inner = _clamp(before)
            if inner is None:
                break
            x, bounds = inner[0], _then(inner[1], bounds)
        _spell(edit, node, x, bounds)


def _clamp(node: ir.Node) -> tuple[ir.Value, Interval] | None:
    """(x, bounds) if the node clamps x to constants."""
    side, given = one_sided.of(node), clamp_bounds(node)
    if (side is None and given is None) or not _is_float(node.outputs[0]):
        return None
    x = node.inputs[0]
    bounds: Interval | None
    if given is not None:
        bounds = _clip_bounds(node, given)
    else:
        if len(node.inputs) != 2:
            return None
        limit = _scalar(node.inputs[1])
        if limit is None:
            x, limit = node.inputs[1], _scalar(node.inputs[0])
        if limit is None:
            return None
        bounds = (-np.inf, limit) if side else (limit, np.inf)
    if bounds is None or x is None or shape_of(x) != shape_of(node.outputs[0]):
        return None
    if bounds[0] == np.inf or bounds[1] == -np.inf:
        return None  # every number becomes one that Clip cannot spell
    return x, bounds


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.numpy().kind == "f"


def _scalar(value: ir.Value | None) -> float | None:
    """The number that a constant of one element holds; None for anything else and for NaN."""
    data = array(value)
    if data is None or data.size != 1 or np.isnan(data.ravel()[0]):
        return None
    return float(data.ravel()[0])


def _clip_bounds(node: ir.Node, given: list[float | ir.Value | None]) -> Interval | None:
    """(low, high) of a node whose bounds are `given`; None if one is not constant."""
    assert node.outputs[0].dtype is not None
    kinds = (np.dtype(np.float32), node.outputs[0].dtype.numpy())
    biggest = max(float(np.finfo(kind).max) for kind in kinds)  # 65504 is a bound that is meant
    bounds = list(EVERYTHING)
    for side, bound in enumerate(given):
        if bound is not None:
            limit = bound if isinstance(bound, float) else _scalar(bound)
            if limit is None:
                return None
            # The old default bounds of Clip: the largest finite numbers, meaning none.
            bounds[side] = limit if abs(limit) < biggest else np.copysign(np.inf, limit)
    return bounds[0], bounds[1]


def _then(first: Interval, second: Interval) -> Interval:
    """Clamping to `first`, then to `second`, as one clamp."""
    low, high = second
    return min(max(first[0], low), high), min(max(first[1], low), high)


def _spell(edit: Editor, node: ir.Node, x: ir.Value, bounds: Interval) -> None:
    """Replace `node` by the clamp of x to `bounds` in its one form: Relu, Clip or x itself."""
    # ONNX takes the upper bound where the bounds are crossed.
    if bounds[0] > bounds[1]:
        bounds = (bounds[1], bounds[1])
    if bounds == (0.0, np.inf) and not np.signbit(bounds[0]):
        if node.op_type == "Relu" and node.inputs[0] is x:
            return
        new = edit.node("Relu", [x], before=node, shape=shape_of(x))
    elif bounds == EVERYTHING:
        new = x
    else:
        if node.op_type == "Clip" and node.inputs[0] is x and _is_canonical(node, bounds):
            return
        new = _clip(edit, node, x, bounds)
    edit.substitute(node, new)


def _is_canonical(node: ir.Node, bounds: Interval) -> bool:
    """Whether a Clip has an operand for each finite bound and for no other, each a scalar."""
    for index, limit in ((1, bounds[0]), (2, bounds[1])):
        value = node.inputs[index] if len(node.inputs) > index else None
        if (value is None) != bool(np.isinf(limit)):
            return False
        if value is not None and shape_of(value) != ():
            return False
    return True


def _clip(edit: Editor, node: ir.Node, x: ir.Value, bounds: Interval) -> ir.Value:
    """The result of a Clip of x in front of `node`; infinite bounds are absent."""
    inputs: list[ir.Value | None] = [x]
    for name, limit in (("min", bounds[0]), ("max", bounds[1])):
        if np.isinf(limit):
            inputs.append(None)
        else:
            data = np.array(limit, dtype=dtype_of(x).numpy())
            inputs.append(edit.const(data, f"{node.name}_{name}", dtype_of(x)))
    while inputs[-1] is None:
        inputs.pop()
    return edit.node("Clip", inputs, before=node, shape=shape_of(x))
