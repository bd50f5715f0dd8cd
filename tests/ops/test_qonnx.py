# SPDX-License-Identifier: Apache-2.0
"""Quantisers of brevitas and QONNX against their definitions in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.errors import UnsupportedError
from graphs import model

QONNX, BREVITAS = "qonnx.custom_op.general", "onnx.brevitas"
X = np.concatenate([np.linspace(-9, 9, 145), [0.0, 0.25, -0.25, 1e6, -1e6]]).astype(np.float32)
#: Bits, signed, narrow, mode of rounding.
KINDS = [
    (1, 1, 0, "ROUND"),
    (2, 1, 1, "ROUND"),
    (3, 0, 0, "FLOOR"),
    (4, 1, 0, "CEIL"),
    (5, 0, 1, "ROUND_TO_ZERO"),
    (8, 1, 1, "ROUND"),
    (17, 1, 0, "ROUND"),
]
ROUNDING: dict[str, Any] = {
    "ROUND": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND_TO_ZERO": np.trunc,
}


def quantisers() -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Every kind on X, two signs and a truncation; what each gives."""
    rows: list[tuple] = []
    consts = {"s": np.float32(0.25), "z": np.float32(1), "n": np.float32(0)}
    want = []
    x = X.astype(np.float64)
    for k, (bits, signed, narrow, mode) in enumerate(KINDS):
        attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        consts[f"b{k}"] = np.float32(bits)
        rows.append((f"{(QONNX, BREVITAS)[k % 2]}.Quant", f"x s z b{k}", f"y{k}", attributes))
        low = -(2 ** (bits - 1)) + narrow if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        want.append((ROUNDING[mode](np.clip(x / 0.25 + 1, low, high)) - 1) * 0.25)
    rows.append((f"{QONNX}.BipolarQuant", "x s", "sign"))
    want.append(np.where(x >= 0, 0.25, -0.25))
    consts |= {"in": np.float32(9), "out": np.float32(6)}
    rows.append((f"{QONNX}.Trunc", "x s n in out", "short"))
    want.append(np.floor(np.rint(x / 0.25) / 8) * 0.25)
    outputs = {row[2]: None for row in rows}
    return model(rows, {"x": X.shape}, outputs, consts, domains=(QONNX, BREVITAS)), want


def test_against_the_definitions(tmp_path: Path) -> None:
    proto, want = quantisers()
    found = aot.compile(proto, tmp_path / "out").load()(X)
    for name, a, b in zip((o.name for o in proto.graph.output), found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("bits", "attributes", "said"),
    [
        (2.5, {}, "no constant of 1 to 24"),
        (25, {}, "no constant of 1 to 24"),
        (4, {"rounding_mode": "DITHER"}, "rounding_mode DITHER"),
    ],
)
def test_refused(bits: float, attributes: dict[str, Any], said: str, tmp_path: Path) -> None:
    consts = {"s": np.float32(1), "z": np.float32(0), "b": np.float32(bits)}
    row = (f"{QONNX}.Quant", "x s z b", "y", attributes)
    proto = model([row], {"x": [2]}, {"y": None}, consts, domains=(QONNX,))
    with pytest.raises(UnsupportedError, match=said):
        aot.compile(proto, tmp_path / "out")
