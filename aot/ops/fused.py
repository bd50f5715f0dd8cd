# SPDX-License-Identifier: Apache-2.0
"""Activations that convolutions and matrix products apply to their results: patterns and constants.

The numbers are those of runtime_c/kernels/aot_conv_act_f32.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.registry import portable
from aot.vendor import Case, Match, Pattern, case
from aot.vendor.activations import ACTIVATIONS, NO_ACT, Constants
from aot.vendor.pattern import Builder, Var


@dataclass(frozen=True, slots=True)
class Fused:
    """A registered pattern, the names of its wildcards, and how to read its activation."""

    pattern: Pattern
    params: tuple[str, ...]
    constants: Constants


def fuse(name: str, params: tuple[str, ...], build: Callable[..., Any]) -> Iterator[Fused]:
    """Patterns of `build(op, *params)` alone and followed by each activation.

    The alone one is left out when `build` is a single operator: that is an `op` of its own.
    """
    alone = _pattern(name, params, build)
    if alone.size > 1:
        portable.patterns.append(alone)
        yield Fused(alone, params, lambda m: NO_ACT)
    for suffix, extra, act, constants in ACTIVATIONS:
        # The default binds the activation of this pass of the loop; the name would mean the last
        # one.
        def whole(op: Any, *values: Any, _act: Callable[..., Any] = act) -> Any:
            """The pattern of `build` with the activation around it."""
            inner = build(op, *values[: len(params)])
            return _act(op, inner, *values[len(params) :])

        made = _pattern(f"{name}_{suffix}", (*params, *extra), whole)
        portable.patterns.append(made)
        if extra:
            made.check(_constant_bounds)
        yield Fused(made, (*params, *extra), constants)


def with_bounds(fused: Fused, arrays: list[Array], const: tuple[int, ...] = (1, 2)) -> Case:
    """A case of a fused pattern with `arrays` as inputs; those at `const` and Clip's bounds are
    constant.
    """
    bounds = [np.array(v, np.float32) for v in (-0.5, 0.75)] if "low" in fused.params else []
    more = range(len(arrays), len(arrays) + len(bounds))
    return case(*arrays, *bounds, const=(*const, *more))


def _pattern(name: str, params: tuple[str, ...], build: Callable[..., Any]) -> Pattern:
    """The pattern, of portable C, that `build(op, *params)` describes; it is not registered
    here.
    """
    graph = build(Builder(), *[Var(p) for p in params])
    return Pattern(name, graph, "c", folder=Path(__file__).parent)


def _constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the bounds of a Clip are constants or absent."""
    for name in ("low", "high"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"Clip's {name} bound is not constant"
