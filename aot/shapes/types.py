# SPDX-License-Identifier: Apache-2.0
"""The type of a value, and rules that give the types of results where onnx has none."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.deferred_import import ir
from aot.ir.operators import Interface

Type = tuple[int, tuple[int, ...]]
"""Element type (TensorProto.DataType) and shape of a value."""

Rule = Callable[["ir.Node", list[Type | None]], list[Type]]

infer_types: Interface[Rule] = Interface("infer_types")
"""A rule takes the types of the inputs (None: left out) and gives those of the results. It raises
ValueError, in words, where they do not fit."""


def given(types: list[Type | None], index: int) -> Type | None:
    """The type of an input, None where it is left out."""
    return types[index] if index < len(types) else None


def need(types: list[Type | None], index: int) -> Type:
    """The type of an input that must be there; raises ValueError where it is left out."""
    found = given(types, index)
    if found is None:
        raise ValueError(f"input {index} is absent")
    return found
