# SPDX-License-Identifier: Apache-2.0
"""Layout rules that operators share."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.layout import Layout, blocked, can_block
from aot.vendor.match import Match, ValueRef


def narrow(channels: int, lanes: int) -> bool:
    """Whether blocking would store more than 1.5 times the channels: such tensors stay plain.

    `lanes` are the channels of a block.
    """
    return 3 * channels < 2 * lanes


def channels_last(value: ValueRef) -> Layout:
    """[N, *S, C]: all channels in one block, the layout of 8-bit quantised values."""
    return blocked(value.shape[1])


def all_channels_last(*names: str) -> Callable[..., dict[str, Layout]]:
    """A layout rule that stores the channels of the values of these names last, whatever
    comes in.
    """
    return lambda m, incoming, vlen: {n: channels_last(getattr(m, n)) for n in names}


def is_channels_last(value: ValueRef, layout: Layout) -> bool:
    """Whether `value` holds 8-bit quantised values whose channels are stored last."""
    return layout.blocked and value.dtype.nbytes == 1 and layout.block == value.shape[1]


def follow(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Elementwise: results and operands with channels take the layout of a blocked operand.

    Operands broadcast along channels are read plain, constants are packed by the lowering.
    Everything stays plain if an operand with channels lacks the leading axes.
    """
    outputs = list(m.outputs())
    y = outputs[0]
    if not can_block(y.shape) or any(o.shape != y.shape for o in outputs):
        return {}
    inputs = [(name, v) for name, v in m.inputs() if not v.is_const and _has_channels(v, y)]
    found = [incoming[name] for name, _ in inputs if incoming[name].blocked]
    if not found or any(v.rank != y.rank for _, v in inputs):
        return {}
    names = [name for name, _ in inputs]
    names += [name for name in m.output_names if m.values[name] is not None]
    return dict.fromkeys(names, found[0])


def _has_channels(value: ValueRef, y: ValueRef) -> bool:
    """Whether `value`, broadcast to y, has y's size along y's axis 1, the channels."""
    axis = value.rank - y.rank + 1
    return axis >= 0 and value.shape[axis] == y.shape[1]
