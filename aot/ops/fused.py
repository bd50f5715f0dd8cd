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

from aot.ops.conv_plan import NO_ACT, Act
from aot.ops.registry import portable
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case
from aot.vendor.match import Match
from aot.vendor.pattern import Builder, Var

Build = Callable[[Any, Any], Any]  # (op, pattern of the argument) -> pattern of the activation
Constants = Callable[[Match], Act]
Array = np.ndarray[Any, Any]
INF = float("inf")


def _f32(value: Any) -> float:
    """An attribute (its default included) as the float32 that ONNX means."""
    return float(np.float32(value))


def _bound(value: Any, default: float) -> float:
    return default if value is None else float(np.asarray(value.data).reshape(()))


def _clip(m: Match) -> Act:
    return Act(1, _bound(m.values.get("low"), -INF), _bound(m.values.get("high"), INF))


def _gelu(m: Match) -> Act:
    return Act(10 if m.root.attr("approximate", "none") == "tanh" else 8)


# Suffix of the pattern's name, parameters the pattern adds, how it looks, its constants.
ACTIVATIONS: tuple[tuple[str, tuple[str, ...], Callable[..., Any], Constants], ...] = (
    ("relu", (), lambda op, v: op.Relu(v), lambda m: Act(1, 0.0, INF)),
    (
        "clip",
        ("low", "high"),
        lambda op, v, low, high: op.Clip(v, low, high, _optional=2),
        _clip,
    ),
    (
        "leakyrelu",
        (),
        lambda op, v: op.LeakyRelu(v),
        lambda m: Act(2, _f32(m.root.attr("alpha", 0.01))),
    ),
    ("hardswish", (), lambda op, v: op.HardSwish(v), lambda m: Act(3)),
    (
        "hardsigmoid",
        (),
        lambda op, v: op.HardSigmoid(v),
        lambda m: Act(4, _f32(m.root.attr("alpha", 0.2)), _f32(m.root.attr("beta", 0.5))),
    ),
    ("sigmoid", (), lambda op, v: op.Sigmoid(v), lambda m: Act(5)),
    (
        "swish",
        (),
        lambda op, v: op.Swish(v),
        lambda m: Act(6, _f32(m.root.attr("alpha", 1.0))),
    ),
    ("tanh", (), lambda op, v: op.Tanh(v), lambda m: Act(7)),
    ("gelu", (), lambda op, v: op.Gelu(v), _gelu),
    ("elu", (), lambda op, v: op.Elu(v), lambda m: Act(9, _f32(m.root.attr("alpha", 1.0)))),
)


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

        def whole(op: Any, *values: Any, _act: Callable[..., Any] = act) -> Any:
            inner = build(op, *values[: len(params)])
            return _act(op, inner, *values[len(params) :])

        made = _pattern(f"{name}_{suffix}", (*params, *extra), whole)
        portable.patterns.append(made)
        if extra:
            made.check(_constant_bounds)
        yield Fused(made, (*params, *extra), constants)


def with_bounds(fused: Fused, arrays: list[Array], const: tuple[int, ...] = (1, 2)) -> Case:
    """A case of a fused pattern; inputs `const` and the bounds of a Clip are constants."""
    bounds = [np.array(v, np.float32) for v in (-0.5, 0.75)] if "low" in fused.params else []
    more = range(len(arrays), len(arrays) + len(bounds))
    return case(*arrays, *bounds, const=(*const, *more))


def _pattern(name: str, params: tuple[str, ...], build: Callable[..., Any]) -> Pattern:
    graph = build(Builder(), *[Var(p) for p in params])
    return Pattern(name, graph, "c", folder=Path(__file__).parent)


def _constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
    for name in ("low", "high"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"Clip's {name} bound is not constant"
