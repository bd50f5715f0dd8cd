# SPDX-License-Identifier: Apache-2.0
"""What detectors do to boxes that a run counts, in small graphs with sanitizers."""

from __future__ import annotations

from pathlib import Path

import harness
import numpy as np
from onnx import numpy_helper
from test_dynamic import B, Graph, N, jobs_of, refusal, rows


def _floats(g: Graph, *values: float) -> str:
    array = np.array(values, np.float32)
    g.constants.append(numpy_helper.from_array(array, f"c{len(g.constants)}"))
    return str(g.constants[-1].name)


def suppressed(g: Graph) -> None:
    """Boxes chosen by a mask go through NonMaxSuppression, and what it keeps through another."""
    mask = g.input(9, kind=B)
    boxes = g.op("Compress", g.input(9, 4), mask, axis=0)
    scores = g.op("Compress", g.input(2, 9), mask, axis=1)
    given = [g.op("Unsqueeze", v, g.const(0)) for v in (boxes, scores)]
    limits = [g.const(4), _floats(g, 0.2), _floats(g, -1.0)]
    kept = g.op("NonMaxSuppression", *given, *limits)
    g.output(kept, N)
    at = g.op("Gather", kept, g.const(2, scalar=True), axis=1)
    again = g.op("Unsqueeze", g.op("Gather", boxes, at, axis=0), g.const(0))
    first = g.op("Gather", scores, g.const(1, scalar=True), axis=0)
    left = g.op("Unsqueeze", g.op("Gather", first, at, axis=0), g.const(0, 1))
    g.output(g.op("NonMaxSuppression", again, left, g.const(2), _floats(g, 0.1)), N)


def aligned(g: Graph) -> None:
    """Regions of a level of a pyramid, put where they came from."""
    mask = g.input(5, kind=B)
    rois = g.op("Compress", g.input(5, 4), mask, axis=0)
    images = g.op("Cast", g.op("Compress", g.input(5), mask, axis=0), to=N)
    images = g.op("Clip", images, g.const(0, scalar=True), g.const(1, scalar=True))
    how = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 2.0}
    found = g.op("RoiAlign", g.input(2, 3, 6, 7), rois, images, **how)
    g.output(found)
    at = g.op("NonZero", mask)
    where = g.op("Reshape", at, g.const(-1, 1, 1, 1))
    where = g.op("Expand", where, g.op("Shape", found))
    g.output(g.op("ScatterElements", g.input(5, 3, 2, 3), where, found, axis=0))


def scattered(g: Graph) -> None:
    """Rows and elements written at counted places, some counted from the end."""
    some, mask = rows(g, 6, 3), g.input(6, kind=B)
    at = g.op("Sub", g.op("NonZero", mask), g.const(6))
    tuples = g.op("Transpose", at, perm=[1, 0])
    updates = g.op("Compress", g.input(6, 2), mask, axis=0)
    for reduction in ("none", "add", "max"):
        g.output(g.op("ScatterND", g.input(6, 2), tuples, updates, reduction=reduction))
    places = g.op("ArgMax", some, axis=1, keepdims=1)
    lowest = g.op("Neg", g.op("ReduceMax", some, g.const(1)))
    g.output(g.op("ScatterElements", some, places, lowest, axis=1))
    back = g.op("Sub", g.op("Range", *_ends(g, some)), g.op("Shape", some, end=1))
    back = g.op("Expand", g.op("Unsqueeze", back, g.const(1)), g.op("Shape", some))
    g.output(g.op("ScatterElements", some, back, g.op("Exp", some), axis=0))


def of_classes(g: Graph) -> None:
    """The boxes that each of 90 classes chooses, joined, and as many labels: one sum per box."""
    boxes, chosen = [], []
    masks = g.op("Split", g.input(90, 3, kind=B), axis=0, num_outputs=90, count=90)
    for label, mask in enumerate(masks):
        boxes.append(g.op("Compress", g.input(3, 2), g.op("Squeeze", mask), axis=0))
        count = g.op("Shape", boxes[-1], end=1)
        chosen.append(g.op("Expand", _floats(g, label), count))
    labels = g.op("Unsqueeze", g.op("Concat", *chosen, axis=0), g.const(1))
    g.output(g.op("Add", g.op("Concat", *boxes, axis=0), labels))


def _ends(g: Graph, value: str) -> list[str]:
    """Start, end and step of the numbers of the rows of `value`."""
    n = g.op("Squeeze", g.op("Shape", value, end=1), g.const(0))
    return [g.const(0, scalar=True), n, g.const(1, scalar=True)]


def test_boxes_that_a_run_counts(tmp_path: Path) -> None:
    jobs = [j for build in (suppressed, aligned, scattered, of_classes) for j in jobs_of(build)]
    harness.run_batch(jobs, 4, tmp_path)
    assert not [f"{j.label}: {j.error}" for j in jobs if j.error]


def other_numbers(g: Graph) -> None:
    """Two masks choose boxes and scores."""
    boxes = g.op("Compress", g.input(1, 7, 4), g.input(7, kind=B), axis=1)
    scores = g.op("Compress", g.input(1, 1, 7), g.input(7, kind=B), axis=2)
    g.output(g.op("NonMaxSuppression", boxes, scores, g.const(3)), N)


def other_images(g: Graph) -> None:
    """More regions than numbers of images."""
    images = g.op("Cast", g.op("Compress", g.input(5), g.input(5, kind=B), axis=0), to=N)
    g.output(g.op("RoiAlign", g.input(2, 3, 6, 7), rows(g, 5, 4), images))


def test_numbers_that_may_differ() -> None:
    assert "gets scores of another number of boxes" in refusal(other_numbers)
    assert "gets images of another number of regions" in refusal(other_images)
