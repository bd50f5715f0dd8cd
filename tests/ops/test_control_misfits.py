# SPDX-License-Identifier: Apache-2.0
"""Branches that can never run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from test_control import compiled, f32, text, truth

import aot
from aot.errors import VerifyError


def test_a_branch_that_fits_no_input(tmp_path: Path) -> None:
    """It is left out with a note, and a run that chooses it ends with a status."""
    model = text(
        """g (bool c, float[2, 3] x) => (float[2, 5] y) {
            y = If (c) <then_branch = t () => (float[2, 5] u) { u = MatMul(x, w) },
                        else_branch = e () => (float[2, 5] v) { z = MatMul(w, x) v = Neg(z) }>
        }""",
        w=f32(3, 5),
    )
    made = compiled(model)
    assert [c.kernel for c in made.program.calls if c.bodies] == []
    (note,) = made.manifest["notes"]
    assert '"c" must be True, else a run gives AOT_BAD_SHAPE' in note and "MatMul" in note
    net = aot.compile(model, tmp_path, name="net", target="x86-64").build().load()
    x, (w,) = f32(2, 3), map(numpy_helper.to_array, model.graph.initializer)
    np.testing.assert_allclose(net(truth(True), x), x @ w, rtol=1e-5)
    with pytest.raises(VerifyError, match="own check failed"):
        net(truth(False), x)
