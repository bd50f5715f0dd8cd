# SPDX-License-Identifier: Apache-2.0
"""The type of a value, and rules that give the types of results where onnx has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.ir.deferred_import import ir
from aot.ir.operators import Interface

Type = tuple[int, tuple[int, ...]]
"""Element type (TensorProto.DataType) and shape of a value."""

Rule = Callable[["ir.Node", list[Type | None]], list[Type]]


@dataclass(frozen=True, slots=True)
class TypedAs:
    """The one result has the shape that `op_type` of ONNX gives operands of this operator, those at
    `places`, with the attributes that the two have in common.

    Its elements have the type of the operand at `element`, or the one that `element` says of the
    operands' types. `last` tells where channels of the first operand and of
    the result are, unless the attribute `channels_last` does: behind the axes of space, or before.
    """

    op_type: str
    places: Sequence[int] | slice
    element: int | Callable[[Sequence[Type | None]], int] = 0
    last: bool = False


infer_types: Interface[Rule | TypedAs] = Interface("infer_types")
"""A rule takes the types of the inputs (None: left out) and gives those of the results. It raises
ValueError, in words, where they do not fit."""


def given(types: Sequence[Type | None], index: int) -> Type | None:
    """The type of an input, None where it is left out."""
    return types[index] if index < len(types) else None


def need(types: Sequence[Type | None], index: int) -> Type:
    """The type of an input that must be there; raises ValueError where it is left out."""
    found = given(types, index)
    if found is None:
        raise ValueError(f"input {index} is absent")
    return found
