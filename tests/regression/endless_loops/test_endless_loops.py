# SPDX-License-Identifier: Apache-2.0
"""gcc warned in default builds of loops whose end it does not see, in aot_rnn_f32.h and, with
--accuracy strict, in aot_reduce_f32.h: "iteration 2305843009213693952 invokes undefined behavior".
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from graphs import model
from needs import need


@pytest.mark.parametrize("accuracy", ["normal", "strict"])
def test_gcc_has_nothing_to_say(
    accuracy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", need("gcc"))
    for name in ("CFLAGS", "CPPFLAGS"):
        monkeypatch.delenv(name, raising=False)
    rng = np.random.default_rng(0)
    consts = {
        "w": rng.standard_normal((1, 64, 8)).astype(np.float32),
        "r": rng.standard_normal((1, 64, 16)).astype(np.float32),
        "axis": np.array([1], np.int64),
    }
    rows = [("LSTM", "x w r", "a", {"hidden_size": 16})]
    rows += [(f"Reduce{how}", "z axis", how) for how in ("Sum", "Max", "Prod")]
    shapes = {"x": [4, 1, 8], "z": [2, 100]}
    made = model(rows, shapes, {"a": None, "Sum": None, "Max": None, "Prod": None}, consts)
    out = tmp_path / "out"
    aot.compile(made, out, name="net", target="x86-64-v3", accuracy=accuracy)
    command = ["cmake", "--build", str(out), "--target", "net"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "warning" not in done.stdout + done.stderr
