# SPDX-License-Identifier: Apache-2.0
"""An image of a user's own with an arena of its own: flash of the smallest one, RAM as computed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aot.cli import main
from targets.images import need_tools, own_image


def test_hello_world_in_2600_bytes(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_tools("cortex-m0")
    flash, ram = own_image(models_folder / "hello_world_int8.onnx", tmp_path, "cortex-m0")
    assert flash <= 2600
    capsys.readouterr()
    assert main(["size", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    names = ("arena", "variables", "the program around it")
    assert ram == sum(int(re.findall(rf"{name} (\d+)", said)[0]) for name in names)
