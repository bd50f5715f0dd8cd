# SPDX-License-Identifier: Apache-2.0
"""`model.onnx` did not build: the runner has a header model.h and macros MODEL_… of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import aot
from abi import toy
from needs import need

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("name", ["model", "runner", "trace"])
def test_names_of_files_in_a_bundle(name: str, tmp_path: Path) -> None:
    out = toy.build(toy.mlp(name), tmp_path / "out")
    toy.run("cmake", "--build", str(out), "--target", f"{name}-trace")
    assert f'"name":"{name}"' in toy.run(str(out / "bin" / name), "--info")


def test_names_of_files_on_a_board(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    aot.compile(DIGITS, tmp_path, name="model", target="cortex-m4").build()
    assert (tmp_path / "bin" / "model.elf").is_file()
