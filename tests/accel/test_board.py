# SPDX-License-Identifier: Apache-2.0
"""The accelerator on boards: a real interrupt of the interrupt controller ends the core's sleep."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_board import on_board

MAIN = Path(__file__).parent / "board_main.c"


@pytest.mark.parametrize("name", ["cortex-m3", "cortex-m4", "cortex-m7", "rv32imac", "rv64gc"])
def test_interrupt(name, tmp_path):
    found = on_board(name, tmp_path, MAIN)
    assert found.returncode == 0, found.stdout + found.stderr
