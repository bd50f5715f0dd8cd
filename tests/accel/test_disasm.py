# SPDX-License-Identifier: Apache-2.0
"""`aotc disasm`."""

from __future__ import annotations

import json

import pytest

from aot.cli import main
from aot.vendor.accel_sim.program import Program


@pytest.fixture
def stream(tmp_path):
    file = tmp_path / "bundle" / "src" / "net.ax1"
    file.parent.mkdir(parents=True)
    file.write_bytes(Program().loop(count=2).fence(units=3).endl().halt(status=5).bytes())
    return file


def test_text(stream, tmp_path, capsys):
    assert main(["disasm", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "; bundle/src/net.ax1: 4 instructions\n000000  LOOP count=2\n000010    FENCE units=3\n"
        "000020  ENDL\n000030  HALT status=5\n"
    )
    assert main(["disasm", str(stream), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["file"], record["instructions"]) == ("net.ax1", 4)


def test_errors(stream, tmp_path, capsys):
    assert main(["disasm", str(tmp_path / "bundle" / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err
    stream.write_bytes(b"\x3f" + bytes(15))
    assert main(["disasm", str(stream)]) == 1
    err = capsys.readouterr().err
    assert "opcode 0x3f does not exist" in err and "net.ax1, the stream at 0x0" in err
    stream.write_bytes(bytes(4))
    assert main(["disasm", str(stream)]) == 1
    assert f"  in {stream}\n" in capsys.readouterr().err
    stream.unlink()
    assert main(["disasm", str(tmp_path)]) == 1
    assert "no commands of an accelerator" in capsys.readouterr().err
