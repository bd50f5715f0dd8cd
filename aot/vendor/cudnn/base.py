# SPDX-License-Identifier: Apache-2.0
"""The backend itself, and how a region becomes steps on the GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot.vendor import (
    Backend,
    Case,
    Match,
    Operand,
    Recorder,
    RegionView,
    Speed,
    ValueRef,
    images,
)

FOLDER, HEADER = Path(__file__).parent, "aot_cudnn.h"
#: Bytes: cudaMalloc's alignment, which the libraries' fastest algorithms ask of tensors.
ALIGN = 256
#: The kinds of steps by their numbers in aot_cudnn.c.
KINDS = (
    "Add Mul Min Max Sqrt accumulate conv product Sigmoid Relu Tanh clipped Elu softmax copy "
    "normalise largest mean"
).split()
#: The fields of aot_cudnn_step_params with what they are where a step says nothing.
FIELDS: dict[str, Any] = {
    "flags": 0,
    **dict.fromkeys(("a", "a_stride", "y", "y_stride"), (0,) * 4),
    "b": (1,) * 4,
    **dict.fromkeys(("window", "pad", "stride", "dilation"), (0, 0)),
    "groups": 1,
    "sizes": (0,) * 6,
    "alpha": 1.0,
    "beta": 1.0,
}
#: A tensor as steps see it: a value, constant numbers, or an offset in the GPU's memory.
Place = ValueRef | np.ndarray[Any, Any] | int
#: Extents of four axes, padded in front.
Four = tuple[int, ...]

backend = Backend(
    "cudnn",
    header=HEADER,
    sources=("aot_cudnn.c", HEADER),
    link="aot_cudnn::libraries",
    find="find_cudnn.cmake",
    hint="Install the CUDA toolkit and cuDNN 8 or 9, and set CUDAToolkit_ROOT and cudnn_ROOT, "
    "variables of CMake or of the environment, where they are in no usual folder.",
    error="aot_cudnn_error",
    systems=("linux",),
    # Of a GPU behind PCIe, in float32; a region costs two copies and a launch at least.
    speed=Speed(
        macs_per_ns=15000, bytes_per_ns=1000, call_ns=3000, enter_ns=30000, border_bytes_per_ns=12
    ),
    folder=FOLDER,
)
#: How a match of each pattern becomes steps, and how many bytes it needs beside its values.
_LOWERINGS: dict[str, tuple[Callable[[Steps, Match], None], Callable[[Match], int]]] = {}


def four(shape: Sequence[int]) -> Four:
    """A shape of at most four axes as one of four."""
    return (1,) * (4 - len(shape)) + tuple(shape)


class Steps:
    """The steps of a region, in the order in which they run."""

    def __init__(self, c: Recorder, region: RegionView) -> None:
        """Plan the memory of the region's values, and make the session if there is none yet."""
        self.c, self._count, self.node = c, 0, ""
        self._at, used = region.places(
            ALIGN, constants=False, scratch=lambda p, m: _LOWERINGS[p.name][1](m)
        )
        session = c.state("aot_cudnn_open", release="aot_cudnn_close", slots=1)
        self.region = c.state(
            "aot_cudnn_region",
            session,
            c.params(number=region.index, bytes=used),
            release="aot_cudnn_region_release",
            slots=1,
        )

    def scratch(self, m: Match) -> int:
        """The offset of the memory that belongs to a match while it runs."""
        return self._at[f"{next(m.outputs()).name} scratch"]

    def moved(self, value: ValueRef) -> Operand:
        """Parameters of a copy of `value` to the GPU or from it."""
        return self.c.params(at=self._at[value.name], bytes=4 * math.prod(value.shape))

    def add(self, kind: str, y: Place, /, *operands: Place | None, **fields: Any) -> None:
        """Add the step y = kind(operands) behind the others of the region.

        `fields` are members of aot_cudnn_step_params (aot_cudnn.h says them per kind): `a`, `b` and
        `y` are shapes of four axes, strides count elements. A `y` that is not given is as `a`.
        """
        # A convolution's residual is said in the place of its bias, which is a constant.
        found = [self.found(place) for place in (*operands, *[None] * 3)]
        given, (x, w, third, residual) = (
            [held for held, _ in found[:3]],
            [at for _, at in found[:4]],
        )
        said = {"y": fields.get("a", (0,) * 4), **fields}
        params = self.c.params(
            step=self._count,
            kind=KINDS.index(kind),
            at=(x, w, max(third, residual), self.found(y)[1]),
            **{name: said.get(name, default) for name, default in FIELDS.items()},
        )
        self._count += 1
        release, text = "aot_cudnn_step_release", self.node.encode() + b"\0"
        named = self.c.const(np.frombuffer(text, np.uint8), "name")
        self.c.state("aot_cudnn_step", self.region, *given, named, params, release=release, slots=1)

    def found(self, place: Place | None) -> tuple[Operand, int]:
        """(the constant on the GPU or None, the offset or -1) of a place."""
        if place is None or isinstance(place, int):
            return None, -1 if place is None else place
        if isinstance(place, ValueRef) and not place.is_const:
            return None, self._at[place.name]
        numbers = place.data if isinstance(place, ValueRef) else place
        data = np.ascontiguousarray(numbers, np.float32)
        held = self.c.const(data, "gpu"), self.c.params(bytes=data.nbytes)
        return self.c.state("aot_cudnn_hold", *held, release="aot_cudnn_drop", slots=1), -1


def declare(
    name: str,
    graph: Any,
    checks: Sequence[Callable[[Match], images.Checks]],
    lower: Callable[[Steps, Match], None],
    cases: Callable[[], Iterable[Case]],
    scratch: Callable[[Match], int] = lambda m: 0,
) -> None:
    """Add the pattern `graph` to the backend; `scratch` are bytes that a match needs for itself."""
    backend.declare(name, graph, *checks, cases=cases)
    _LOWERINGS[name] = lower, scratch


@backend.region
def on_the_gpu(c: Recorder, region: RegionView) -> None:
    """Record copies to the GPU, the steps as one call, and copies from it."""
    steps = Steps(c, region)
    for value in region.inputs:
        c.call("aot_cudnn_upload", steps.region, value, steps.moved(value), status=True)
    for pattern, m in region.matches:
        steps.node = m.root.onnx_name
        _LOWERINGS[pattern.name][0](steps, m)
    c.covers([m for _, m in region.matches])
    graph = c.state(
        "aot_cudnn_graph", steps.region, release="aot_cudnn_graph_release", slots=1, last=True
    )
    c.call("aot_cudnn_run", graph, steps.region, status=True)
    for value in region.outputs:
        c.call("aot_cudnn_download", steps.region, value, steps.moved(value), status=True)
