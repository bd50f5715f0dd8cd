# SPDX-License-Identifier: Apache-2.0
"""How an operator of the portable C backend is declared, and how its test cases are written.

    softmax = op("Softmax", inputs="x", outputs="y", axis=-1)

declares the operator with the names of its inputs and outputs (a trailing `?` marks an optional
one; a single `xs*` makes `m.xs` the tuple of all inputs) and the defaults of its attributes.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from aot.vendor.backend import Backend, Pattern
from aot.vendor.pattern import OpPat, Var

portable = Backend("c")


def op(
    op_type: str,
    inputs: str = "x",
    outputs: str = "y",
    domain: str = "",
    priority: int = 0,
    **attrs: Any,
) -> Pattern:
    """Declare that portable C computes `op_type`; decorate the result with check, lower, cases."""
    names = inputs.split()
    variadic = bool(names) and names[-1].endswith("*")
    optional = sum(1 for n in names if n.endswith("?"))
    plain = [n.rstrip("?*") for n in names]
    graph = OpPat(op_type, domain, tuple(Var(n) for n in plain), (), (), optional)
    if variadic:
        graph = OpPat(op_type, domain, (Var(plain[-1]),), (), (), -1)
    outs = tuple(o.rstrip("?") for o in outputs.split())
    folder = Path(sys._getframe(1).f_code.co_filename).parent
    name = op_type if not domain else f"{domain}.{op_type}"
    made = Pattern(name, graph, "c", outs, dict(attrs), priority, folder)
    portable.patterns.append(made)
    return made


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
    """A test case: `case(f32(2, 3), axis=1)`."""
    return Case(inputs, attrs, const, outputs, rtol, atol, expected=expected)


def f32(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Seeded uniform float32 values in [low, high)."""
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    """A 1-D int64 array of these values."""
    return np.array(values, np.int64)


def ints(*shape: int, low: int = -5, high: int = 5, dtype: str = "int64", seed: int = 0) -> Any:
    """Seeded integers in [low, high)."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def full(shape: tuple[int, ...], value: float, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """A constant array."""
    return np.full(shape, value, dtype)


@functools.cache
def load_all() -> Backend:
    """Import every module of aot.ops (each registers its operators) and return the backend.

    Installed packages add operators by the entry point group `aotc.operators` (a module each).
    """
    import aot.ops as package

    for module in sorted(m.name for m in pkgutil.walk_packages(package.__path__, "aot.ops.")):
        importlib.import_module(module)
    for entry in sorted(entry_points(group="aotc.operators"), key=lambda e: e.name):
        entry.load()
    from aot.ops.half import widened

    portable.patterns.extend([w for p in portable.patterns if (w := widened(p)) is not None])
    return portable
