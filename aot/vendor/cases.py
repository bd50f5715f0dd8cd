# SPDX-License-Identifier: Apache-2.0
"""Test cases of operators and patterns: arrays, attributes, which inputs are constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One test of an operator: arrays for its inputs (None = absent), attributes, constants.

    `const` lists the indices of inputs given as initialisers; inputs that must be constant are
    listed there. `seed` draws random arrays. `expected` are the outputs where onnx.reference is
    wrong or refuses.
    """

    inputs: tuple[np.ndarray[Any, Any] | None, ...]
    attrs: dict[str, Any]
    const: tuple[int, ...] = ()
    outputs: int = 1
    rtol: float = 1e-3
    atol: float = 1e-6
    name: str = field(default="")
    expected: tuple[np.ndarray[Any, Any], ...] = ()


def case(
    *inputs: np.ndarray[Any, Any] | None,
    const: tuple[int, ...] = (),
    outputs: int = 1,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    expected: tuple[np.ndarray[Any, Any], ...] = (),
    **attrs: Any,
) -> Case:
    """A test case of a pattern: `case(f32(2, 3), axis=1)`.

    `inputs` are its values in order, None for an absent one; those numbered in `const` are
    constants of the model. `attrs` are attributes of the root, or of the node called `conv` as
    `conv.pads`. The results (`outputs` of them) are compared with onnx.reference within `rtol`
    and `atol`, or with `expected`.
    """
    return Case(inputs, attrs, const, outputs, rtol, atol, expected=expected)


def f32(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Seeded uniform float32 values in [low, high) of this shape; the same for the same seed and
    shape.
    """
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    """A 1-D int64 array of these values."""
    return np.array(values, np.int64)


def ints(*shape: int, low: int = -5, high: int = 5, dtype: str = "int64", seed: int = 0) -> Any:
    """Seeded integers in [low, high) of this shape and type."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def full(shape: tuple[int, ...], value: float, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """An array of this shape whose elements are all `value`."""
    return np.full(shape, value, dtype)
