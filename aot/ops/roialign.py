# SPDX-License-Identifier: Apache-2.0
"""RoiAlign: regions of a feature map, resampled to one size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, S64
from aot.ir.operators import OneOf
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, require_equal
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, i64

TRANSFORMS = ("output_half_pixel", "half_pixel")
MODES = ("avg", "max")

align = op(
    "RoiAlign",
    "x rois batch",
    types=(F32,),
    typed="x rois",
    coordinate_transformation_mode=OneOf("half_pixel output_half_pixel", "half_pixel"),
    mode=OneOf("avg max", "avg"),
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
)


@align.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of shapes, int64 batch indices and attributes."""
    yield m.batch.dtype is S64, f"batch indices of {m.batch.dtype} (needs int64)"
    yield m.mode in MODES, f"mode {m.mode!r}"
    known = m.coordinate_transformation_mode in TRANSFORMS
    yield known, f"coordinate_transformation_mode {m.coordinate_transformation_mode!r}"
    fits = m.x.rank == 4 and m.rois.shape[1:] == (4,) and m.batch.shape == m.rois.shape[:1]
    yield fits, f"shapes {list(m.x.shape)}, {list(m.rois.shape)}, {list(m.batch.shape)}"
    yield 0 not in m.x.shape, f"an empty tensor {list(m.x.shape)}"
    yield 0 <= m.sampling_ratio <= 1024, f"sampling_ratio {m.sampling_ratio} (0 to 1024)"


@align.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_roialign_f32: one result per region and channel."""
    n, channels, h, w = m.x.shape
    params = c.params(
        n=n,
        c=channels,
        h=h,
        w=w,
        regions=m.rois.shape[0],
        ph=m.output_height,
        pw=m.output_width,
        scale=float(np.float32(m.spatial_scale)),
    )
    instance = {
        "RATIO": m.sampling_ratio,
        "HALF": TRANSFORMS.index(m.coordinate_transformation_mode),
        "MAX": MODES.index(m.mode),
    }
    c.call("aot_roialign_f32", m.y, m.x, m.rois, m.batch, params, instance=instance)


@dynamic("RoiAlign")
def align_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic numbers of images and regions of a RoiAlign; regions of the padding are points of
    image 0.

    UnsupportedError for dynamic channels or image sizes.
    """
    data, rois, batch = (needed(node, i) for i in range(3))
    if set(x.run_sizes(data)) - {0}:
        raise refused(node, "samples along a dimension known at run time only")
    counts = [v.get(0) for v in (x.run_sizes(rois), x.run_sizes(batch))]
    if not any(counts):
        pass_on(x, node, {})
        return
    ours, theirs = (x.dim(node, v, 0) for v in (rois, batch))
    n = require_equal(x, node, ours, theirs, "gets images of another number of regions")
    for index, value in enumerate((rois, batch), 1):
        x.set(value, {0: n})
        node.replace_input_with(index, x.neutral(node, value, 0))
    fit_inputs(x, node, {1: {0: 0}, 2: {0: 0}})
    pass_on(x, node, {0: n})


@align.cases
def cases() -> Iterator[Case]:
    """RoiAlign(X, rois, batch_indices): both modes, regions that leave the image or are empty."""
    x = f32(2, 3, 9, 7)
    rois = np.array([[0, 0, 6, 8], [1.5, 2, 3.2, 7.9], [-3, 4, 20, 5], [5, 5, 5, 5]], np.float32)
    batch = i64(0, 1, 1, 0)
    for transform in TRANSFORMS:
        for ratio in (0, 2):
            yield case(
                x,
                rois,
                batch,
                output_height=3,
                output_width=2,
                sampling_ratio=ratio,
                spatial_scale=0.75,
                coordinate_transformation_mode=transform,
            )
    half = "output_half_pixel"
    yield case(x, rois, batch, output_height=2, mode="max", coordinate_transformation_mode=half)
