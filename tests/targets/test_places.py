# SPDX-License-Identifier: Apache-2.0
"""Functions, constants, arena and variables in the memories that a target file gives them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import aot
from aot.cli import main
from targets.images import DIGITS, need_tools

#: Memories of MPS2 AN500: flash for code, fast RAM for functions and for the arena, slow memory for
#: constants.
MEMORIES = {
    "flash": (0x00000000, "1M", ["code"], 2),
    "itcm": (0x20000000, "64K", ["hot"], 1),
    "dtcm": (0x20010000, "64K", ["arena", "stack"], 1),
    "ram": (0x20100000, "64K", ["data"], 2),
    "xip": (0x60000000, "16M", ["weights"], 8),
}


def inside(memory: str, address: int) -> bool:
    """Whether the address is one of the first 64 KiB of the memory."""
    start = MEMORIES[memory][0]
    return start <= address < start + 65536


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of the digits model for a Cortex-M7 with these memories."""
    need_tools("cortex-m7")
    folder = tmp_path_factory.mktemp("places")
    text = ['base = "cortex-m7"']
    for name, (address, size, use, speed) in MEMORIES.items():
        text += ["[[memory]]", f'name = "{name}"', f"address = {address}", f'size = "{size}"']
        text += [f"use = {json.dumps(use)}", f"speed = {speed}"]
    (folder / "placed.toml").write_text("\n".join(text))
    target = str(folder / "placed.toml")
    aot.compile(DIGITS, folder / "out", target=target, name="digits").build()
    return folder / "out"


def test_sections_are_where_the_target_file_says(built: Path) -> None:
    elf = ELFFile(io.BytesIO((built / "bin" / "digits.elf").read_bytes()))
    starts = {s.name: int(s["sh_addr"]) for s in elf.iter_sections() if s["sh_flags"] & 2}
    places = {".text": "flash", ".hot": "itcm", ".weights": "xip", ".arena": "dtcm", ".bss": "ram"}
    assert {n: inside(m, starts[n]) for n, m in places.items()} == dict.fromkeys(places, True)
    # Nothing is writable but variables and arena: a memory protection unit needs two regions.
    writable = {s.name for s in elf.iter_sections() if s["sh_flags"] & 3 == 3}
    assert writable == {".data", ".bss", ".arena"}
    symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
    run = [s for s in symbols if re.match(r"digits_k\d+_", s.name)]
    assert len(run) > 3 and all(inside("itcm", s["st_value"]) for s in run)
    # The functions are loaded behind the code in flash, as the map says.
    text = next(built.rglob("digits-runner.map")).read_text()
    found = re.search(r"^\.hot +0x(\w+) +0x\w+ load address 0x(\w+)", text, re.MULTILINE)
    assert found is not None
    assert inside("itcm", int(found[1], 16)) and inside("flash", int(found[2], 16))


def test_the_placed_image_computes(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(built)]) == 0, capsys.readouterr().err


def test_manifest_names_the_memories(built: Path) -> None:
    memory: dict[str, Any] = json.loads((built / "bundle" / "manifest.json").read_text())["memory"]
    places = {p["use"]: p for p in memory["places"]}
    assert {use: p["memory"] for use, p in places.items()} == {
        "weights": "xip",
        "data": "ram",
        "arena": "dtcm",
        "stack": "dtcm",
    }
    assert (places["weights"]["speed"], places["weights"]["address"]) == (8, 0x60000000)
    assert places["weights"]["bytes"] == memory["constants_bytes"]
    assert places["arena"]["bytes"] == memory["arena_bytes"]
