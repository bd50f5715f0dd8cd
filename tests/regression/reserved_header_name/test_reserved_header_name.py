# SPDX-License-Identifier: Apache-2.0
"""A model called like a system header (features.onnx) made a bundle that did not compile.

include/features.h was found before the header of that name which libc's own headers include. And
the note about a changed name was printed twice, even with --quiet.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from aot.emit_c.names import bundle_name
from graphs import model


@pytest.mark.parametrize("name", ["features", "endian", "alloca", "Features", "immintrin"])
def test_names_of_headers_are_reserved(name: str) -> None:
    assert bundle_name(name, None) == f"{name}_model"


@pytest.mark.parametrize("quiet", [False, True])
def test_the_note_is_printed_once(tmp_path: Path, quiet: bool) -> None:
    onnx.save(model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]}), tmp_path / "features.onnx")
    command = [sys.executable, "-m", "aot", "features.onnx", "-o", "out", "--no-configure"]
    done = subprocess.run(
        command + ["-q"] * quiet, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("features_model") == (0 if quiet else 1)
