# SPDX-License-Identifier: Apache-2.0
"""Operands that a lowering passes to a call: values, tensors and objects of its own, numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.errors import BackendError
from aot.ir.program import Access, FieldValue, Scalar
from aot.vendor.match import ValueRef


@dataclass(frozen=True, slots=True)
class Handle:
    """A tensor made by a lowering: constant, temporary or scratch."""

    name: str


@dataclass(frozen=True, slots=True)
class StateHandle:
    """An object that a vendor's library keeps between runs."""

    name: str


@dataclass(frozen=True, slots=True)
class Used:
    """An argument with an explicit access, byte offset, and bytes that are read before that."""

    what: ValueRef | Handle
    access: Access
    offset: int = 0
    back: int = 0


@dataclass(frozen=True, slots=True)
class ParamFields:
    """Fields of the kernel's parameter struct, in order."""

    fields: tuple[tuple[str, FieldValue], ...]


#: What `c.call` takes as an argument: a value, something the recorder made, a number, or None.
Operand = ValueRef | Handle | Used | ParamFields | StateHandle | Scalar | int | float | None


def c_name(name: str) -> str:
    """The name of a C function; BackendError if it is no identifier."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise BackendError(f"a kernel is called {name!r} (needs an identifier of C)")
    return name


def plain(value: Any) -> FieldValue:
    """A field's value as a Python number, or a tuple of numbers for a sequence or array."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(_scalar(v) for v in value)
    return _scalar(value)


def _scalar(value: Any) -> int | float:
    """A number as a Python int or float (bool as 0 or 1); BackendError for anything else."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    raise BackendError(f"a parameter field must be a number, not {type(value).__name__}")
