# SPDX-License-Identifier: Apache-2.0
"""A file dropped into aot/targets was an unknown target: the names were a list in the code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aot import target
from aot.errors import TargetError

ORDER = (
    "host x86-64 x86-64-v2 x86-64-v3 x86-64-v3-vnni x86-64-v4 x86-64-v4-bf16 x86-64-v4-vnni "
    "aarch64-bf16 aarch64-dotprod aarch64-fp16 aarch64-i8mm aarch64-linux "
    "cortex-a53 cortex-a72 cortex-a76 neoverse-n1 "
    "armv7-linux riscv64-linux rv64gcv cortex-m0 cortex-m0plus cortex-m3 cortex-m4 cortex-m7 "
    "cortex-m33 cortex-m52 cortex-m55 cortex-m85 rv32imac rv32imac_zba_zbb rv32imafc rv32imafcv "
    "rv32imc rv64gc"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of aot/targets that a test may add to."""
    copied = Path(shutil.copytree(target.FOLDER, tmp_path / "targets"))
    monkeypatch.setattr(target, "FOLDER", copied)
    return copied


def test_the_names_are_those_of_the_files() -> None:
    assert target.names() == tuple(ORDER.split())


def test_a_file_is_a_target(folder: Path) -> None:
    (folder / "cortex-m4-96.toml").write_text(
        'base = "cortex-m4"\nsummary = "my board"\nstack = 96\n'
    )
    shutil.copy(folder / "cortex-m7.toml", folder / "cortex-m95.toml")
    own = target.load_target("cortex-m4-96")
    assert (own.stack, own.cpu, own.simd) == (96, "cortex-m4-96", "dsp")
    assert target.load_target("cortex-m95").cpu == "cortex-m95"
    found = [r["name"] for r in target.listing()]
    assert found.index("cortex-m4-96") == found.index("cortex-m4") + 1
    assert found.index("cortex-m95") == found.index("cortex-m85") + 1


@pytest.mark.parametrize("name", ["", "../host", "cortex-m4.toml/x", "cortex-m"])
def test_other_names_are_unknown(name: str, folder: Path) -> None:
    (folder.parent / "host.toml").write_text("")
    with pytest.raises(TargetError, match="unknown target"):
        target.load_target(name)


def test_a_file_whose_name_no_target_has(folder: Path) -> None:
    """It was listed, and then refused with "did you mean my board?"."""
    (folder / "my board.toml").write_text('base = "cortex-m4"\n')
    assert "my board" not in target.names()
    with pytest.raises(TargetError, match="unknown target 'my board'") as caught:
        target.load_target("my board")
    assert "letters, digits and" in caught.value.hint
