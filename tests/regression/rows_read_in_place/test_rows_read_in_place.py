# SPDX-License-Identifier: Apache-2.0
"""A convolution without padding reads windows in place: rows that lie apart have no such place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

import aot
from quant_graphs import feeds_of
from streamed_graphs import Made

ROOT = Path(__file__).resolve().parents[3]
#: This machine as a processor without vectors, whose kernels are those of small cores.
SCALAR = str(ROOT / "tests" / "fuzz" / "scalar.toml")


def network() -> onnx.ModelProto:
    """Three convolutions 3x3 without padding: [1, c, h, w] to [1, 4, h - 6, w - 6]."""
    made = Made(1)
    name, (channels, height, width) = made.values[0]
    for out in (8, 8, 4):
        real = made.net.add("Conv", made.quantised_values(name), made.weights(out, channels, 3, 3))
        channels, height, width = out, height - 2, width - 2
        name, _ = made.made(real, (channels, height, width))
    return made.net.model(**{name: np.int8})


def test_rows_give_the_values_of_whole_tensors(tmp_path: Path) -> None:
    model, found = network(), []
    for objective in ("flash", "ram"):
        bundle = aot.compile(
            model, tmp_path / objective, name="net", target=SCALAR, objective=objective
        )
        found.append(np.asarray(bundle.build().load()(*feeds_of(model, 0).values())))
    assert len(np.unique(found[0])) > 8
    np.testing.assert_array_equal(*found)
