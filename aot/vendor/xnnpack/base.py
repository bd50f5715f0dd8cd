# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and what all its patterns share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aot.vendor import (
    F32,
    Backend,
    Match,
    Operand,
    Recorder,
    UnsupportedError,
    ValueRef,
    images,
    outside_of_quantised,
)

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


#: The checks of every pattern of floats, the one of its bounds last.
FLOATS = images.floats, outside_of_quantised, images.ordered_bounds


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
