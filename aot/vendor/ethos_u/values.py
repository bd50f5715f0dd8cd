# SPDX-License-Identifier: Apache-2.0
"""Values of the graph as tensors of a network: how they are stored, their scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.vendor import S8, Layout, Match, ValueRef, channels_last
from aot.vendor.ethos_u.tflite import Network, Shape

Checks = Iterator[tuple[bool, str]]
#: Operators whose results are quantised values of their first operands' parameters.
MOVES = frozenset(
    "Reshape Squeeze Unsqueeze Flatten Transpose MaxPool Concat Pad Resize Slice Split Identity "
    "DepthToSpace SpaceToDepth Gather Expand Tile".split()
)
#: Extents of tensors that Vela takes, and axes.
MOST_EXTENT, MOST_RANK = 65535, 4


def quantisations(value: Any) -> set[tuple[float, int]]:
    """(scale, zero point) of quantised values, from all that makes or reads them, moves included.

    A pair (0, 0) stands for parameters that are no single constants.
    """
    found: set[tuple[float, int]] = set()
    seen: set[int] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v is None or id(v) in seen or v.const_value is not None:
            continue
        seen.add(id(v))
        made = v.producer()
        if made is not None and made.op_type == "QuantizeLinear":
            found.add(_parameters(made))
        elif made is not None and made.op_type in MOVES:
            # A move keeps quantised values, so parameters on its other side are theirs as well.
            todo += made.inputs
        for node, index in v.uses():
            if node.op_type == "DequantizeLinear" and index == 0:
                found.add(_parameters(node))
            elif node.op_type in MOVES:
                todo += node.outputs
    return found


def _parameters(node: Any) -> tuple[float, int]:
    """Scale and zero point of a QuantizeLinear or DequantizeLinear node; an absent zero point is 0.

    (0.0, 0) where they are computed or are more than one.
    """
    given = [None if v is None else v.const_value for v in (*node.inputs[1:3], None)[:2]]
    scale = None if given[0] is None else given[0].numpy()
    absent = len(node.inputs) < 3 or node.inputs[2] is None
    zero = np.zeros(1) if absent else None if given[1] is None else given[1].numpy()
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return 0.0, 0
    return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])


def step_of(value: ValueRef) -> tuple[float, int]:
    """The scale and the zero point of quantised values; those of plain integers where nobody says
    one."""
    return next(iter(quantisations(value.ir)), (1.0, 0))


def tensors_fit(m: Match, *names: str) -> Checks:
    """Checks of the values that are tensors of the network: int8, of one scale, not too large."""
    for name in names:
        v = m.values[name]
        if v is None:
            continue
        yield v.dtype is S8, f"{name} is of {v.dtype} (needs int8)"
        if v.is_const:
            continue
        yield 1 <= v.rank <= MOST_RANK, f"{name} has rank {v.rank} (needs 1 to {MOST_RANK})"
        low, high = min(v.shape, default=1), max(v.shape, default=1)
        yield low >= 1 and high <= MOST_EXTENT, f"an extent of {high if low else 0} of {name}"
        yield len(quantisations(v.ir)) <= 1, f"{name} is read with several scales"


def order(rank: int, layout: Layout) -> tuple[int, ...]:
    """The axes of a value in the order in which they are stored."""
    return (0, *range(2, rank), 1) if layout.blocked else tuple(range(rank))


def shape_of(value: ValueRef) -> Shape:
    """The shape of the tensor that holds a value: [N, H, W, C] where its channels are last."""
    stored = tuple(value.shape[a] for a in order(value.rank, value.layout))
    return (stored[0], 1, *stored[1:]) if value.layout.blocked and value.rank == 3 else stored


LayoutRule = Callable[[Match, dict[str, Layout], int], dict[str, Layout]]


def with_positions(*names: str) -> LayoutRule:
    """The layout rule that stores the channels of these values last where they have positions."""

    def rule(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """Channels last for the named values of rank 3 and more; the others are plain."""
        values = {n: m.values[n] for n in names}
        return {n: channels_last(v) for n, v in values.items() if v is not None and v.rank > 2}

    return rule


@dataclass(slots=True)
class Builder:
    """A network and the values that it knows, by name and layout.

    `flattened` are images with their channels last whose elements in ONNX's order are a row each,
    by the name of the rows: (tensor, image).
    """

    net: Network = field(default_factory=Network)
    flattened: dict[str, tuple[int, ValueRef]] = field(default_factory=dict)
    _known: dict[str, tuple[int | Callable[[], int], ValueRef]] = field(default_factory=dict)

    def enter(self, value: ValueRef) -> int:
        """A tensor for a value that comes from outside, or that an operator makes; its number."""
        made = self.net.tensor(shape_of(value), *step_of(value), value.name)
        self.define(value, made)
        return made

    def define(self, value: ValueRef, tensor: int | Callable[[], int]) -> None:
        """Let `tensor` hold a value; a function makes it when it is first read."""
        self._known[value.name] = tensor, value

    def knows(self, value: ValueRef) -> bool:
        """Whether a tensor holds the value."""
        return value.name in self._known

    def read(self, value: ValueRef) -> int:
        """The number of the tensor that holds a value in the value's layout.

        A constant is added at each call unless a tensor holds it; a tensor that a function makes is
        made at the first one.
        """
        if value.is_const and not self.knows(value):
            data = np.transpose(np.asarray(value.data), order(value.rank, value.layout))
            return self.net.const(data.reshape(shape_of(value)), *step_of(value))
        tensor, known = self._known[value.name]
        if not isinstance(tensor, int):
            tensor = tensor()
            self.define(known, tensor)
        return self.transposed(tensor, known, range(value.rank), value)

    def transposed(self, tensor: int, x: ValueRef, perm: Sequence[int], y: ValueRef) -> int:
        """The tensor of x with its axes in the order `perm`, stored as y is; its number."""
        source, target = order(x.rank, x.layout), order(y.rank, y.layout)
        plain = self.net.reshape(tensor, tuple(x.shape[a] for a in source))
        moved = self.net.transpose(plain, [source.index(perm[a]) for a in target])
        return self.net.reshape(moved, shape_of(y))
