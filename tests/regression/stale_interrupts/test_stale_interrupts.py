# SPDX-License-Identifier: Apache-2.0
"""An interrupt that was not the end of the program ended the wait for AX1: `aot_run` failed and
forgot the machine, which went on to write. The wait also let interrupts through that its caller
held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_board import hosted, on_board

HERE = Path(__file__).parent
CORE = """
extern int holding, enabled;
void asleep(void);
#define AX1_WFI() asleep()
#define AX1_IRQ_HELD() holding
#define AX1_IRQ_OFF() ((void)0)
#define AX1_IRQ_ON() ((void)++enabled)
"""


def test_on_the_simulator(tmp_path: Path) -> None:
    assert hosted(tmp_path, HERE / "host_main.c", CORE) == 0


@pytest.mark.parametrize("name", ["cortex-m3", "rv32imac"])
def test_on_boards(name: str, tmp_path: Path) -> None:
    found = on_board(name, tmp_path, HERE / "board_main.c")
    assert found.returncode == 0, found.stdout + found.stderr
