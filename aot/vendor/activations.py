# SPDX-License-Identifier: Apache-2.0
"""Activations that convolutions and matrix products apply to their results: patterns and constants.

The numbers are those of runtime_c/kernels/aot_conv_act_f32.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.vendor.match import Match


@dataclass(frozen=True, slots=True)
class Act:
    """A fused activation: the kernel's number and its two parameters, rounded to float32."""

    kind: int = 0
    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        """Round `alpha` and `beta` to float32, which is what the kernel computes with."""
        for name in ("alpha", "beta"):
            object.__setattr__(self, name, float(np.float32(getattr(self, name))))

    @property
    def after(self) -> int:
        """1 if it runs over the stored tile, 0 if in registers (the instance constant ACT)."""
        return int(self.kind > 1)


NO_ACT = Act()
Constants = Callable[[Match], Act]
INF = float("inf")


def _f32(value: Any) -> float:
    """An attribute (its default included) as the float32 that ONNX means."""
    return float(np.float32(value))


def _bound(value: Any, default: float) -> float:
    """The constant bound of a Clip as a number; `default` where the bound is absent (None)."""
    return default if value is None else float(np.asarray(value.data).reshape(()))


def _clip(m: Match) -> Act:
    """A Clip between its constant bounds; an absent bound is infinite."""
    return Act(1, _bound(m.values.get("low"), -INF), _bound(m.values.get("high"), INF))


def _gelu(m: Match) -> Act:
    """A Gelu by the tanh approximation or by the error function, as its attribute says."""
    return Act(10 if m.root.attr("approximate", "none") == "tanh" else 8)


#: A suffix, wildcards, a function that builds a pattern, and one that reads constants, as below.
Activation = tuple[str, tuple[str, ...], Callable[..., Any], Constants]
NO_ACTIVATION: Activation = ("", (), lambda op, v: v, lambda m: NO_ACT)
#: Every activation that products apply: the suffix of a pattern's name, the wildcards it adds, how
#: it looks (`build(op, value, *wildcards)`), and what gives its constants of a match.
ACTIVATIONS: tuple[Activation, ...] = (
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
