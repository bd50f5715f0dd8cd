# SPDX-License-Identifier: Apache-2.0
"""Layout rules that operators share."""

from __future__ import annotations

from aot.layout import Layout, can_block
from aot.partition.match import Match, ValueRef


def follow(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Elementwise: results and full-size operands take the layout of a blocked operand.

    Constants are packed by the lowering. Everything stays plain if an operand that varies along
    channels cannot be blocked.
    """
    inputs = list(m.inputs())
    found = [incoming[name] for name, v in inputs if not v.is_const and incoming[name].blocked]
    outputs = list(m.outputs())
    if not found or not outputs or not can_block(outputs[0].shape):
        return {}
    y, layout = outputs[0], found[0]
    if any(o.shape != y.shape for o in outputs):
        return {}
    wanted = {name: layout for name in m.output_names if m.values[name] is not None}
    for name, value in inputs:
        if value.is_const:
            continue
        if _has_channels(value, y):
            if value.rank != y.rank:
                return {}
            wanted[name] = layout
    # A blocked operand whose channels are broadcast has to be converted: not worth following.
    if any(incoming[name].blocked and name not in wanted for name, v in inputs if not v.is_const):
        return {}
    return wanted


def _has_channels(value: ValueRef, y: ValueRef) -> bool:
    """Whether `value` varies along y's channel axis (or y has but one channel)."""
    axis = value.rank - y.rank + 1
    return axis >= 0 and value.shape[axis] == y.shape[1]
