# SPDX-License-Identifier: Apache-2.0
"""`--bind X=99` for an input of uint4 was taken and computed as 3."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto as T

from aot.errors import ModelError
from aot.load import load
from aot.load.options import LoadOptions
from graphs import model

KINDS = {T.UINT4: (0, 15), T.INT4: (-8, 7), T.UINT2: (0, 3), T.INT2: (-2, 1), T.UINT8: (0, 255)}


@pytest.mark.parametrize("kind", KINDS)
def test_quantised_values_that_do_not_fit_are_refused(kind: int) -> None:
    proto = model(
        [("Cast", "x", "y", {"to": 1})], {"x": [2]}, {"y": None}, dtypes={"x": kind}, opset=25
    )
    least, most = KINDS[kind]
    load(proto, LoadOptions(bindings={"x": np.array([least, most])}))
    for value in (least - 1, most + 1, 0.5):
        with pytest.raises(ModelError, match="the value bound to it is not"):
            load(proto, LoadOptions(bindings={"x": np.array([0, value])}))
