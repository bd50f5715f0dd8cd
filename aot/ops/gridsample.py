# SPDX-License-Identifier: Apache-2.0
"""GridSample over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import shape_of
from aot.ir.operators import OneOf
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.vendor import F32, Case, Match, Recorder, case, f32

#: In the order of the kernel's constants.
MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")
#: What the modes were called before opset 20.
OLD_MODES = {"bilinear": "linear", "bicubic": "cubic"}

sample = op(
    "GridSample",
    "x grid",
    types=(F32,),
    typed="x grid",
    mode=OneOf("linear nearest cubic bilinear bicubic", "linear"),
    padding_mode=OneOf("zeros border reflection", "zeros"),
    align_corners=0,
)


@sample.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of one to three spatial axes and that x is not empty."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    yield math.prod(m.x.shape) > 0, f"an empty tensor {list(m.x.shape)}"


@sample.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_gridsample_f32; missing outer spatial axes have size 1."""
    n, channels, *space = m.x.shape
    rank = len(space)
    params = c.params(
        n=n,
        c=channels,
        points=math.prod(m.grid.shape[1:-1]),
        rank=rank,
        **{"in": (1,) * (3 - rank) + tuple(space)},
    )
    instance = {
        "MODE": MODES.index(str(OLD_MODES.get(m.mode, m.mode))),
        "PADDING": PADDINGS.index(m.padding_mode),
        "ALIGN": m.align_corners,
    }
    c.call("aot_gridsample_f32", m.y, m.x, m.grid, params, instance=instance)


@sample.cases
def cases() -> Iterator[Case]:
    """GridSample(X [N, C, *S], grid [N, *T, axes]): points far outside the image, NaN."""
    for mode in MODES:
        for padding in PADDINGS:
            for corners in (0, 1):
                yield case(
                    f32(2, 3, 4, 5),
                    f32(2, 3, 3, 2, low=-1.6, high=1.6),
                    mode=mode,
                    padding_mode=padding,
                    align_corners=corners,
                )
    yield case(f32(1, 2, 3, 4, 5), f32(1, 2, 2, 3, 3, low=-1.3, high=1.3), padding_mode="border")
    yield case(f32(1, 2, 7), f32(1, 5, 1, low=-1.3, high=1.3), mode="nearest")
    wild = np.array([[[[np.nan, 0], [np.inf, 0], [-1e30, 9]]]], np.float32)
    yield case(f32(1, 1, 2, 2), wild, expected=(np.zeros((1, 1, 1, 3), np.float32),))


@dynamic("GridSample")
def sample_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a GridSample: as many points as the grid has, of an image of known
    size.

    UnsupportedError for a dynamic image or batches that may differ.
    """
    data, grid = needed(node, 0), needed(node, 1)
    own, points = x.run_sizes(data), x.run_sizes(grid)
    if any(a > 0 for a in own) or (0 in own) != (0 in points):
        raise refused(node, "samples along a dimension known at run time only")
    last = len(shape_of(grid)) - 1
    if last in points or (own and not x.same(own[0], points[0])):
        raise refused(node, "samples along a dimension known at run time only")
    pass_on(x, node, {a if a == 0 else a + 1: n for a, n in points.items()})
