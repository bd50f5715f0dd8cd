# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and what all its patterns share: operators, windows, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot.vendor import (
    F32,
    Backend,
    Layout,
    Match,
    NodeRef,
    Operand,
    Pattern,
    Quantisation,
    Recorder,
    UnsupportedError,
    ValueRef,
    WindowShape,
    channels_last,
    outside_of_quantised,
)
from aot.vendor.xnnpack.cases import CASES

#: The conditions of a check, each with the reason why the library cannot compute a match.
Checks = Iterable[tuple[bool, str]]
Fields = dict[str, Any]
#: EXTRA_BYTES is how far kernels may read past an operand's end (XNN_EXTRA_BYTES).
FOLDER, HEADER, EXTRA_BYTES = Path(__file__).parent, "aot_xnnpack.h", 16

backend = Backend(
    "xnnpack",
    header=HEADER,
    sources=("aot_xnnpack.c", HEADER),
    link="XNNPACK::XNNPACK",
    find="find_xnnpack.cmake",
    hint="Install libxnnpack-dev and libpthreadpool-dev (apt, Debian 12), or set xnnpack_ROOT, a "
    "variable of CMake or of the environment, to the folder that their files are in.",
    systems=("linux",),
    folder=FOLDER,
)


def declare(
    name: str,
    graph: Any,
    checks: Sequence[Callable[[Match], Checks]],
    lower: Callable[[Recorder, Match], None],
    layouts: Callable[[Match, dict[str, Layout], int], dict[str, Layout]],
) -> None:
    """Add the pattern `graph` with its cases to the backend."""
    made = Pattern(name, graph, "xnnpack", folder=FOLDER, header=HEADER)
    for check in checks:
        made.check(check)
    made.lower(lower)
    made.layouts(layouts)
    made.cases(CASES[name])
    backend.patterns.append(made)


def floats(m: Match) -> Checks:
    """Checks that all values are float32 and of a size that the library can count."""
    return [
        (
            v.dtype is F32 and 0 < 4 * math.prod(v.shape) < 2**31,
            f"{n} is {v.dtype}{list(v.shape)} (needs float32, 1 to 2^29 elements)",
        )
        for n, v in m.values.items()
        if v is not None and n not in ("axes", "sizes")
    ]


#: The checks of every pattern of floats, the one of its bounds last.
FLOATS = (floats, outside_of_quantised, lambda m: ordered_bounds(m))


def run(
    c: Recorder,
    m: Match,
    family: str,
    operands: Sequence[Operand],
    given: Sequence[Operand] = (),
    inplace: Sequence[ValueRef] = (),
    macs: int = 0,
    **fields: Any,
) -> None:
    """Record the operator of a match, created from the constants `given`, and its execution.

    `inplace` are operands in whose place the result may be. Raises UnsupportedError for quantised
    values that have to be rounded as TensorFlow Lite does.
    """
    if m.y.dtype is not F32 and c.options.requant == "tflite":
        raise UnsupportedError(
            "XNNPACK does not round as TensorFlow Lite does",
            f"node {m.root.onnx_name}",
            "leave out --requant tflite, or --backend xnnpack",
        )
    # Requests that are equal give one object, so all operators share the session.
    session = c.state("aot_xnnpack_open", release="aot_xnnpack_close", slots=1)
    params, release = c.params(**fields), "aot_xnnpack_release"
    op = c.state(f"aot_xnnpack_{family}", *given, params, release=release, slots=1)
    c.call(
        f"aot_xnnpack_run_{family}",
        session,
        op,
        m.y,
        *operands,
        params,
        inplace=[(m.y, v) for v in inplace],
        macs=macs,
        status=True,
        beyond=EXTRA_BYTES,
    )


def last(*names: str) -> Callable[[Match, dict[str, Layout], int], dict[str, Layout]]:
    """The layout rule that stores the channels of these values last where they have positions."""
    return lambda m, incoming, vlen: {
        n: channels_last(v) for n in names if (v := m.values[n]) is not None and v.rank > 2
    }


def extents(value: ValueRef) -> tuple[int, ...]:
    """[height, width] of a value of rank 3 or 4; checks refuse others."""
    return (1,) * (4 - value.rank) + value.shape[2:]


def stored(m: Match) -> Fields:
    """Fields of the images x: how many there are, [height, width], channels."""
    return {"batch": m.x.shape[0], "size": extents(m.x), "channels": m.x.shape[1]}


def image(m: Match) -> tuple[bool, str]:
    """The condition of the rank of x."""
    return m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"


def windows(m: Match, node: NodeRef, kernel: Sequence[int]) -> Fields:
    """Fields of a window on two axes, padded at the end as far as its last position reaches.

    A transposed convolution is padded as its result says, or has `extra` positions at the end.
    """
    window, back = WindowShape.of(node, kernel).widened(2), node.op_type == "ConvTranspose"
    small, large = (extents(v) for v in ((m.x, m.y) if back else (m.y, m.x)))
    axes = zip(small, large, *window.axes(), strict=False)
    after = [(n - 1) * s + (k - 1) * d + 1 - b - whole for n, whole, k, s, d, b, _ in axes]
    extra, pads = [max(0, -a) for a in after], [max(0, a) for a in after]
    return {
        **stored(m),
        "kernel": window.kernel,
        "stride": window.strides,
        "dilation": window.dilations,
        "pad": (window.before[0], pads[-1], pads[0], window.before[-1]),
        **({"transposed": 1, "extra": extra} if back else {}),
    }


def bounds_of(m: Match) -> Fields:
    """Fields of the lowest and highest float of the result: those of a Relu, of a Clip, or none."""
    ends = {"low": 0.0 if m.root.op_type == "Relu" else -math.inf, "high": math.inf}
    given = {n: v.data for n in ends if (v := m.values.get(n)) is not None and v.data is not None}
    return {n: float(np.ravel(given[n])[0]) if n in given else end for n, end in ends.items()}


def ordered_bounds(m: Match) -> Checks:
    """The checks that the bounds of a Clip are constants in order."""
    bounds, given = bounds_of(m), [m.values.get(n) for n in ("low", "high")]
    return [
        (
            all(v is None or v.is_const for v in given),
            "a bound of Clip is computed at run time (needs a constant)",
        ),
        (bounds["low"] < bounds["high"], f"bounds {list(bounds.values())} (need to be in order)"),
    ]


def codes(limits: tuple[int, int], *kinds: Quantisation) -> Fields:
    """Fields of quantised values: zero points, scales, and the ends of the result."""
    zero, scale = [k.z for k in kinds], [float(k.s) for k in kinds]
    return {"zero": zero, "scale": scale, "low": float(limits[0]), "high": float(limits[1])}


def integers(m: Match, record: Any, conditions: Checks, more: Callable[[Any], Checks]) -> Checks:
    """The conditions of quantised values, and if all hold those that `record` of the match must
    meet."""
    found = list(conditions)
    if not all(ok for ok, _ in found):
        return found
    made = record.of(m)
    several = made.limits[0] < made.limits[1]
    return [*found, (several, f"a result that is {made.limits[0]} everywhere"), *more(made)]
