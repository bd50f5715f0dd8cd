# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and how its matches are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aot.vendor import (
    Backend,
    Match,
    Operand,
    Recorder,
    UnsupportedError,
    ValueRef,
)

FOLDER, HEADER = Path(__file__).parent, "aot_acl.h"

backend = Backend(
    "acl",
    header=HEADER,
    sources=("aot_acl.cpp", HEADER),
    link="ArmCompute::ArmCompute",
    find="find_acl.cmake",
    hint="Set acl_ROOT, a variable of CMake or of the environment, to a folder with the unpacked "
    "packages libarm-compute20 and libarm-compute-dev of Debian for arm64, or install them there.",
    systems=("linux",),
    folder=FOLDER,
)


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
    """Record the function of a match, configured with the constants `given`, and its execution.

    `operands` are one or two; `inplace` are those in whose place the result may be. Raises
    UnsupportedError for another machine than aarch64, and for quantised values that have to be
    rounded as TensorFlow Lite does.
    """
    where = f"node {m.root.onnx_name}"
    if c.target.arch != "aarch64":
        what = f"Arm Compute Library is for aarch64, target {c.target.name} is {c.target.arch}"
        raise UnsupportedError(
            what, where, "say --target aarch64-linux, or leave out --backend acl"
        )
    if "zero" in fields and c.options.requant == "tflite":
        what = "Arm Compute Library is not known to round as TensorFlow Lite does"
        raise UnsupportedError(what, where, "leave out --requant tflite, or --backend acl")
    release = "aot_acl_release"
    op = c.state(f"aot_acl_{family}", *given, c.params(**fields), release=release, slots=1)
    places = [(m.y, v) for v in inplace]
    pair = [*operands, None][:2]
    c.call("aot_acl_run", op, m.y, *pair, inplace=places, macs=macs, status=True)
