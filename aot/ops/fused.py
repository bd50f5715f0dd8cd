# SPDX-License-Identifier: Apache-2.0
"""Activations that convolutions and matrix products apply to their results: patterns and constants.

The numbers are those of runtime_c/kernels/aot_conv_act_f32.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.registry import portable
from aot.vendor import OP, Act, Case, Match, Recorder, case, wildcard
from aot.vendor.activations import ACTIVATIONS, NO_ACTIVATION, Constants
from aot.vendor.backend import Check, LayoutRule
from aot.vendor.pattern import OpPat, names, size


def fuse(
    name: str,
    graph: OpPat,
    *checks: Check,
    record: Callable[[Recorder, Match, Act], object],
    case_of: Callable[[OpPat], Iterator[Case]],
    layouts: LayoutRule | None = None,
) -> None:
    """Declare `graph` alone and followed by each activation, which `record` is given.

    The alone one is left out where `graph` is a single operator: that is an `op` of its own.
    `case_of` gives cases of a whole pattern.
    """
    alone = [NO_ACTIVATION] if size(graph) > 1 else []
    for suffix, extra, act, constants in (*alone, *ACTIVATIONS):
        whole = act(OP, graph, *map(wildcard, extra))
        portable.declare(
            "_".join(filter(None, (name, suffix))),
            whole,
            *([_constant_bounds] if extra else []),
            *checks,
            lower=partial(_with_activation, record, constants),
            layouts=layouts,
            cases=partial(case_of, whole),
        )


def _with_activation(
    record: Callable[[Recorder, Match, Act], object], constants: Constants, c: Recorder, m: Match
) -> None:
    """Record the match with its activation."""
    record(c, m, constants(m))


def with_bounds(graph: OpPat, arrays: list[Array], const: tuple[int, ...] = (1, 2)) -> Case:
    """A case of a fused pattern with `arrays` as inputs; those at `const` and Clip's bounds are
    constant.
    """
    clipped = "low" in names(graph)[0]
    bounds = [np.array(v, np.float32) for v in (-0.5, 0.75)] if clipped else []
    more = range(len(arrays), len(arrays) + len(bounds))
    return case(*arrays, *bounds, const=(*const, *more))


def _constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the bounds of a Clip are constants or absent."""
    for name in ("low", "high"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"Clip's {name} bound is not constant"
