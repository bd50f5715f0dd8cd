# SPDX-License-Identifier: Apache-2.0
"""`model.onnx` did not build: the runner has a header model.h and macros MODEL_… of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from abi import toy


@pytest.mark.parametrize("name", ["model", "runner", "trace"])
def test_names_of_files_in_a_bundle(name: str, tmp_path: Path) -> None:
    out = toy.build(toy.mlp(name), tmp_path / "out")
    toy.run("cmake", "--build", str(out), "--target", f"{name}-trace")
    assert f'"name":"{name}"' in toy.run(str(out / "bin" / name), "--info")
