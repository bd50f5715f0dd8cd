# SPDX-License-Identifier: Apache-2.0
"""LogSoftmax over one element by oneDNN was 1.4e-6, which is its logarithm of 1."""

from __future__ import annotations

import pytest

from aot.options import Options
from aot.pipeline import compile_model
from graphs import model


@pytest.mark.parametrize(("extent", "backend"), [(1, "c"), (2, "dnnl")])
def test_one_element_is_left_to_c(extent: int, backend: str) -> None:
    rows = [("LogSoftmax", "x", "y", {"axis": 1})]
    proto = model(rows, {"x": [3, extent, 2]}, {"y": [3, extent, 2]})
    compiled = compile_model(proto, Options(name="net", target="x86-64-v3", backends=("dnnl",)))
    assert {c.backend for c in compiled.program.calls} == {backend}
