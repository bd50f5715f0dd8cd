# SPDX-License-Identifier: Apache-2.0
"""A Concat of a thousand inputs: the pattern matcher called itself once for each of them."""

from __future__ import annotations

from aot.options import Options
from aot.pipeline import compile_model
from graphs import model

COUNT = 1200


def test_concat() -> None:
    parts = [f"p{i}" for i in range(COUNT)]
    rows = [("Split", "x", " ".join(parts), {"axis": 0, "num_outputs": COUNT})]
    rows += [("Exp", p, f"e{p}") for p in parts[:40]]
    rows += [("Concat", " ".join([f"e{p}" for p in parts[:40]] + parts[40:]), "y", {"axis": 0})]
    proto = model(rows, {"x": [COUNT, 2]}, {"y": [COUNT, 2]})
    compiled = compile_model(proto, Options(name="net"))
    assert compiled.manifest["outputs"][0]["shape"] == [COUNT, 2]
