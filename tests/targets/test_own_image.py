# SPDX-License-Identifier: Apache-2.0
"""An image of a user's own with an arena of its own: flash of the smallest one, RAM as computed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from aot.cli import main
from targets.images import PROJECT, need_tools

FIRMWARE = """
#include "net.h"
AOT_ALIGNED(NET_ARENA_ALIGN) static unsigned char arena[NET_ARENA_BYTES];
static net_context model;
int main(void) {
    aot_status status = net_init(&model, arena, sizeof arena);
    return status == AOT_OK ? (int)net_run(&model, NULL, NULL) : (int)status;
}
"""


def test_hello_world_in_2600_bytes(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_tools("cortex-m0")
    out, own = tmp_path / "out", tmp_path / "own"
    words = [str(models_folder / "hello_world_int8.onnx"), "-o", str(out), "--name", "net", "-q"]
    assert main([*words, "--target", "cortex-m0", "--requant", "tflite"]) == 0
    own.mkdir()
    (own / "firmware.c").write_text(FIRMWARE)
    (own / "CMakeLists.txt").write_text(PROJECT)
    tools = out / "bundle" / "cmake" / "toolchain.cmake"
    given = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DMODEL={out / 'bundle'}",
        f"-DCMAKE_TOOLCHAIN_FILE={tools}",
    ]
    for step in (["--build", out], ["-S", own, "-B", own, *given], ["--build", own]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    with (own / "firmware").open("rb") as file:
        parts = [s for s in ELFFile(file).iter_sections() if s["sh_flags"] & 2]
    ram = sum(s.data_size for s in parts if s["sh_addr"] >= 0x20000000)
    assert sum(s.data_size for s in parts if s["sh_addr"] < 0x20000000) <= 2600
    capsys.readouterr()
    assert main(["size", str(out)]) == 0
    said = capsys.readouterr().out
    names = ("arena", "variables", "the program around it")
    assert ram == sum(int(re.findall(rf"{name} (\d+)", said)[0]) for name in names)
