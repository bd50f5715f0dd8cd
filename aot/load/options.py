# SPDX-License-Identifier: Apache-2.0
"""What the user may decide about a model before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any

from aot.errors import UsageError
from aot.ir.deferred_import import ir
from aot.shapes.types import Rule

MIB = 1 << 20

PACKED_LATENCY, PACKED_FLASH = 8 * MIB, 4096
"""From how many weights unpacking 4 bits in every run is faster than reading eight times the bytes
(measured on a host), and smaller including the kernel."""


Size = int | tuple[int, int]
"""How long an axis is, or between which lengths (both included) it may be in a run."""


def size_of(given: Any, what: str) -> Size:
    """`given` as a Size: a number, or a pair of least and most (equal ends are a number).

    `what` begins the UsageError for anything else.
    """
    pair = given if isinstance(given, tuple | list) else (given, given)
    try:
        low, high = (index(v) for v in pair)
    except (TypeError, ValueError):
        raise UsageError(f"{what} {given!r}: not a size or a pair of sizes") from None
    if max(abs(low), abs(high)) >= 1 << 63:
        raise UsageError(f"{what} {given!r}: a size has less than 64 bits")
    if low == high:
        return low
    if low < 0 or low > high:
        raise UsageError(f"{what} {low}..{high}: not a range of sizes")
    return low, high


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of `load` and `normalise`.

    `dims` pins symbolic dimensions by name, `input_shapes` whole inputs by their ONNX name (a pair
    is a range: the axis is planned for its upper end, a run says how long it is),
    `bindings` turns inputs into constants (NumPy arrays or scalars). `claimed` holds
    "domain::name" of operators and model functions a named backend takes as they are;
    `keeps` the operator types a backend wants unfolded ("BatchNormalization").
    `rules` infers the outputs of operators onnx does not know, by (domain, operator).
    `native` are operators ("domain::name") that some backend computes; others are replaced by the
    body ONNX gives them, if any (None: nothing is). So are nodes that `supports` says no backend
    takes as they are.
    `fold_bytes` bounds how many bytes constant folding may add to the model in all,
    `uniform_bytes` the same for tensors of one repeated value (their data costs no memory here),
    `function_nodes` how many nodes inlining may produce. `packed_from` is how many elements weights
    of 4 bits need to stay packed for a float operator (fewer are folded to float32).
    `max_sequence` bounds the elements of a sequence, `max_string` the bytes of a string.
    `counts` are inputs that say how many elements a sequence has, and the most it can have.
    `wide_halves` lets operators of half precision compute in float32 without rounding in between.
    `states` maps inputs to the outputs that the next run gets for them.
    """

    dims: Mapping[str, Size] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict)
    bindings: Mapping[str, Any] = field(default_factory=dict)
    claimed: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    rules: Mapping[tuple[str, str], Rule] = field(default_factory=dict)
    native: frozenset[str] | None = None
    supports: Callable[[ir.Node], bool] | None = None
    fold_bytes: int = 64 * MIB
    uniform_bytes: int = 1024 * MIB
    function_nodes: int = 200_000
    packed_from: int = PACKED_LATENCY
    max_sequence: int = 32
    wide_halves: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    max_string: int = 64
    states: Mapping[str, str] = field(default_factory=dict)
