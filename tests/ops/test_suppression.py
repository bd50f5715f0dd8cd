# SPDX-License-Identifier: Apache-2.0
"""NonMaxSuppression against onnxruntime: equal scores, boxes without area, NaN, thresholds."""

from __future__ import annotations

from pathlib import Path

import harness
import numpy as np
import pytest
from onnx import helper

from aot.options import Options
from aot.pipeline import compile_model

SEEDS = 30


def job(seed: int) -> harness.Job:
    """Boxes on a coarse grid, so that many touch, coincide or have no area."""
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(seed)
    batch, classes, boxes = (int(rng.integers(1, high)) for high in (3, 4, 12))
    inputs = {
        "boxes": (rng.integers(0, 8, (batch, boxes, 4)) / 7).astype(np.float32),
        "scores": (rng.integers(0, 6, (batch, classes, boxes)) / 5).astype(np.float32),
        "most": np.array([rng.integers(0, boxes + 2)], np.int64),
        "iou": np.array([rng.choice([0.0, 0.3, 0.5, 1.0])], np.float32),
        "above": np.array([rng.choice([-1.0, 0.0, 0.4, 0.8])], np.float32),
    }
    if seed % 3 == 0:
        inputs["boxes"].flat[0] = inputs["scores"].flat[0] = np.nan
    kept = list(inputs)[: 5 if seed % 3 == 0 else 2 + seed % 4]
    node = helper.make_node("NonMaxSuppression", kept, ["y"], center_point_box=seed % 2)
    infos = [harness.info(n, inputs[n]) for n in kept]
    result = helper.make_tensor_value_info("y", 7, None)
    graph = helper.make_graph([node], "nms", infos, [result])
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    fed = {n: inputs[n] for n in kept}
    want = ort.InferenceSession(model.SerializeToString()).run(None, fed)
    case = harness.Case(tuple(fed.values()), {}, (), 1)
    program = compile_model(model, Options(name="t", target="x86-64")).program
    return harness.Job(f"seed {seed}", case, model, want, program)


def test_against_onnxruntime(tmp_path: Path) -> None:
    jobs = [j for j in map(job, range(SEEDS)) if j.program is not None and j.program.calls]
    assert len(jobs) > SEEDS // 2
    assert any(j.want[0].shape[0] > 3 for j in jobs)
    harness.run_batch(jobs, 4, tmp_path)
    assert not [f"{j.label}: {j.error}" for j in jobs if j.error]
