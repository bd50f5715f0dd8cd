# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and what all its patterns share: primitives, layouts, common checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot.vendor import (
    BF16,
    F32,
    PLAIN,
    Backend,
    DType,
    Layout,
    Match,
    Operand,
    Pattern,
    Recorder,
    ValueRef,
    outside_of_quantised,
)

HEADER = "aot_dnnl.h"
Reason = tuple[bool, str]
Checks = Iterator[Reason]
Check = Callable[[Match], Checks]
Array = np.ndarray[Any, Any]
backend = Backend(
    "dnnl",
    header=HEADER,
    sources=(
        "aot_dnnl.c",
        "aot_dnnl_ops.c",
        "aot_dnnl_int8.c",
        "aot_dnnl_rnn.c",
        "aot_dnnl_core.h",
        "aot_dnnl_api.h",
    ),
    link="DNNL::dnnl",
    find="find_dnnl.cmake",
    hint="Install libdnnl-dev (apt) or onednn-devel-cpu-gomp (pip), or set dnnl_ROOT to the "
    "folder it is in: as a variable of CMake or of the environment.",
    # The library has the products and the Softmax of an attention, not the whole, and
    # convolutions of quantised values whose sums are added to quantised values.
    keeps=("MatMul", "DequantizeLinear"),
    systems=("linux",),
    folder=Path(__file__).parent,
)
#: As in aot_dnnl.h.
SESSION_SLOTS, SLOTS = 3, 24
#: Blocks of channels for which the library has fast kernels; of bfloat16 only the largest.
BLOCKS = (8, 16)
#: Types of elements as aot_dnnl.h numbers them.
TYPES = {F32: 0, BF16: 1}


def declare(name: str, graph: Any, *checks: Check, **functions: Any) -> Pattern:
    """Add the pattern `graph` of floats to the backend, as `Backend.declare` does."""
    return backend.declare(name, graph, outside_of_quantised, *checks, **functions)


def primitive(c: Recorder, create: str, *operands: Operand) -> Operand:
    """The object that `create(slots, session, operands...)` makes in NAME_init."""
    session = c.state("aot_dnnl_open", release="aot_dnnl_close", slots=SESSION_SLOTS)
    return c.state(create, session, *operands, release="aot_dnnl_release", slots=SLOTS)


def record(
    c: Recorder,
    create: str,
    fields: Mapping[str, Any],
    operands: Sequence[Operand],
    macs: int,
    given: Sequence[Operand] = (),
    inplace: Sequence[tuple[ValueRef, ValueRef]] = (),
) -> None:
    """Record the primitive that `create` makes of constants `given` and the parameters `fields`,
    and its call on `operands`: the result, and one or two that it reads.
    """
    state = primitive(c, create, *given, c.params(**fields))
    run, more = ("aot_dnnl_run", [None]) if len(operands) == 2 else ("aot_dnnl_run2", [])
    c.call(run, state, *operands, *more, inplace=inplace, status=True, macs=macs)


def record_matmul(
    c: Recorder,
    result: ValueRef,
    a: Operand,
    b: Operand,
    x: tuple[int, ...],
    x1: tuple[int, ...],
    y: tuple[int, ...],
) -> None:
    """Record the product of `a` and `b`, seen as [x] and [x1] of equal ranks, and its call."""
    fields = {"type": type_of(result), "rank": len(y), "x": x, "x1": x1, "y": y}
    record(c, "aot_dnnl_matmul", fields, [result, a, b], math.prod(y) * x[-1])


def blocks(shape: tuple[int, ...], vlen: int) -> Layout:
    """Channels in blocks of the target's vectors, the lanes past them zero; plain if no fast
    kernels exist for that width."""
    if vlen not in BLOCKS:
        return PLAIN
    return Layout(vlen, zeros=shape[1] % vlen != 0)


def like(arriving: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of a result of `shape` whose operand arrives in blocks of channels or with its
    channels last, which the operator keeps; lanes past them are zero. Plain after any other.
    """
    if arriving.blocked and arriving.block == shape[1]:
        return arriving
    return blocks(shape, arriving.block)


def stored_elements(value: ValueRef) -> int:
    """Elements in memory, pad lanes included."""
    return math.prod(value.layout.physical(value.shape))


def floats(*values: ValueRef | None, kinds: Container[DType] = TYPES) -> Iterator[Reason]:
    """All are float32, or all bfloat16 if that is among `kinds`, and none is empty."""
    given = [v for v in values if v is not None]
    needed = " or ".join(str(t) for t in TYPES if t in kinds)
    for v in given:
        yield v.dtype in kinds, f"dtype {v.dtype} (needs {needed})"
        yield 0 not in v.shape, f"an empty tensor {list(v.shape)}"
    mixed = dict.fromkeys(str(v.dtype) for v in given if v.dtype in kinds)
    yield len(mixed) < 2, f"dtypes {' and '.join(mixed)} (need to be equal)"


def type_of(value: ValueRef) -> int:
    """The number of a value's type in parameter structs."""
    return TYPES[value.dtype]


def blocked_by(value: ValueRef, vlen: int) -> bool:
    """Whether the library has fast kernels on blocks of `vlen` channels of such a value."""
    return vlen in BLOCKS and (value.dtype is F32 or vlen == BLOCKS[-1])


def split_at(shape: tuple[int, ...], first: int, last: int) -> tuple[int, int, int]:
    """Products of the axes before `first`, from there up to `last`, and behind."""
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])
