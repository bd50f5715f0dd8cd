# SPDX-License-Identifier: Apache-2.0
"""`--objective energy` was refused for every vendor but accel_sim, though lowerings may ask."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import aot
from aot.errors import UnsupportedError
from aot.options import Options
from aot.vendor import find
from aot.vendor.backend import Backend
from aot.vendor.find import available
from graphs import model

NET = model([("Neg", "x", "y")], {"x": [6]}, {"y": None})


def test_a_vendor_of_one_s_own_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    (tmp_path / "acme.h").write_text(
        "typedef struct { int n; } acme_neg_params;\n"
        "void acme_neg(float *y, const float *x, const acme_neg_params *p);\n"
    )
    backend = Backend("acme", header=str(tmp_path / "acme.h"), folder=tmp_path)
    pattern = backend.pattern(lambda op, x: op.Neg(x))
    pattern.name = "neg"

    def lowering(c, m):
        seen.append(c.objective)
        c.call("acme_neg", m.y, m.x, c.params(n=math.prod(m.y.shape)))

    pattern.lower(lowering)
    real = find.find_backend
    monkeypatch.setattr(find, "find_backend", lambda n, w="": backend if n == "acme" else real(n))
    words = {"backends": ["acme"], "objective": "energy", "configure": False}
    bundle = aot.compile(NET, tmp_path / "out", **words)
    assert bundle.manifest["options"]["objective"] == "energy"
    assert set(seen) == {"energy"}


@pytest.mark.parametrize("name", available())
def test_every_vendor_that_is_installed(name: str) -> None:
    if name == "c":
        with pytest.raises(UnsupportedError, match="portable C"):
            Options(backends=("c",), objective="energy")
    else:
        assert Options(backends=(f"{name}:any",), objective="energy").objective == "energy"
