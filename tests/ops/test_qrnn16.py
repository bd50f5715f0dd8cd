# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of 16-bit quantised values on integers against onnxruntime in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, S32, Net, in_onnxruntime, scales

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, FEATURES = 64, 10
S16, U16 = np.int16, np.uint16


def layer(
    kind: str, types: tuple[Any, Any], steps: int, reach: float, two: bool, **attributes: Any
) -> onnx.ModelProto:
    """Y as quantised values of 1 / 32768, and Y_h as others if `two`; weights up to `reach` /
    sqrt(hidden)."""
    rng = np.random.default_rng(3)
    directions = 1 + (attributes.get("direction") == "bidirectional")
    rows, (xt, yt) = GATES[kind] * HIDDEN, types
    net = Net(x=(xt, (steps, 2, FEATURES)))
    step = 0.02 if np.dtype(xt).itemsize == 1 else 0.02 / 256
    operands = [net.dq("x", step, xt(30000 if xt is U16 else 3))]
    for depth in (FEATURES, HIDDEN):
        quantised = rng.integers(-127, 128, (directions, rows, depth)).astype(S8)
        most = reach / np.sqrt(HIDDEN) / 127
        scale = scales(*rng.uniform(most / 2, most, rows))
        operands.append(net.dq(quantised, scale, np.zeros(scale.shape, S8), axis=1))
    bias = rng.integers(-3000, 3000, (directions, 2 * rows)).astype(S32)
    operands.append(net.dq(bias, 1e-4, S32(0)))
    net.add(kind, *operands, out=["a", "h"], hidden_size=HIDDEN, **attributes)
    fine = 1 / 32768 if np.dtype(yt).itemsize == 2 else 1 / 127
    net.q("a", fine, yt(32768 if yt is U16 else 0), out="y")
    if two:
        net.q("h", 1 / 20000, S16(100), out="last")
    return net.model(y=yt, **({"last": S16} if two else {}))


@pytest.mark.parametrize(
    ("kind", "types", "steps", "reach", "two", "attributes", "unequal"),
    [
        ("LSTM", (S16, S16), 49, 1.0, True, {}, 0.001),
        ("LSTM", (U16, U16), 20, 1.0, False, {"direction": "bidirectional"}, 0.001),
        ("GRU", (S16, S8), 49, 1.0, True, {"linear_before_reset": 1}, 0.001),
        ("GRU", (S8, S16), 49, 1.0, False, {"direction": "reverse"}, 0.001),
        ("RNN", (S16, S16), 49, 1.0, False, {}, 0.003),  # as many differ from float64's
        ("LSTM", (S16, S16), 5, 30.0, False, {}, 0.003),  # arguments beyond 24
        ("LSTM", (S16, S16), 200, 10.0, False, {}, 0.003),  # saturated gates, cells grow to tens
    ],
)
def test_quantised_values_are_those_of_onnxruntime(
    kind: str, types: Any, steps: int, reach: float, two: bool, attributes: Any, unequal: float,
    tmp_path: Path,
) -> None:  # fmt: skip
    model = layer(kind, types, steps, reach, two, **attributes)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert kernels <= {"aot_qrnn_s16", "aot_qflip"} and "aot_qrnn_s16" in kernels
    run, info = bundle.load(), np.iinfo(types[0])
    rng = np.random.default_rng(1)
    wrong = []
    for _ in range(4):
        x = rng.integers(info.min, info.max, (steps, 2, FEATURES), endpoint=True).astype(types[0])
        got = run(x)
        for one, want in zip(got if two else [got], in_onnxruntime(model, {"x": x}), strict=True):
            far = np.abs(np.asarray(one).astype(int) - want)
            assert far.max() <= 1 and np.unique(want).size > 60
            wrong.append(np.mean(far) if far.size > 1000 else 0.0)
    assert np.mean(wrong) <= unequal, wrong
