# SPDX-License-Identifier: Apache-2.0
"""OUT in folders with characters that CMake or make take for something else.

`-o 'a;b'` left a folder `a` beside OUT and ten lines of CMake; `-o '$(x)'` configured and could not
be built; `-o -a` and `~a` failed although they can work.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import aot
from aot.errors import BuildError
from graphs import model

MODEL = model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]})


@pytest.mark.parametrize(
    "name", ["a;b", "a:b", "a|b", "$(id)", 'a"b', "a\\b", "$<x>", "a\tb", "a\nb"]
)
def test_a_folder_cmake_cannot_take(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match="cannot build in a folder with"):
        aot.compile(MODEL, tmp_path / name / "out")
    assert not list(tmp_path.iterdir())
    aot.compile(MODEL, tmp_path / name / "out", configure=False)


def test_a_relative_folder_cmake_takes_for_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "relu.onnx")
    for name in ("-a", "~a"):
        aot.compile("relu.onnx", name).build()
        assert (tmp_path / name / "bin" / "relu").is_file()
