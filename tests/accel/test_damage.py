# SPDX-License-Identifier: Apache-2.0
"""A bundle whose commands or constants are not what the compiler wrote does not begin to run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_offload import lines

import aot
from aot.cli import main
from quant_graphs import feeds_of


def test_damage_is_an_error_of_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, program = tmp_path / "out", tmp_path / "out/bin/net"
    aot.compile(lines(), out, name="net", backends=("accel_sim",)).build()
    stream = (out / "bundle/accel/region_0.ax1").read_bytes()
    intact = program.read_bytes()
    assert intact.count(stream) == 1
    begin = intact.index(stream)
    np.savez(tmp_path / "in.npz", **feeds_of(lines()))
    run = ["run", str(out), "--inputs", str(tmp_path / "in.npz")]
    for byte in (begin, begin + len(stream) // 2, begin + len(stream) - 1):
        program.write_bytes(intact[:byte] + bytes([intact[byte] ^ 0x40]) + intact[byte + 1 :])
        assert main(run) == 1
        assert "init: a vendor library reported an error" in capsys.readouterr().err
    program.write_bytes(intact)
    assert main(run) == 0
