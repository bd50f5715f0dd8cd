# SPDX-License-Identifier: Apache-2.0
"""An arena in two memories of a board: same results, places as the linker says, arenas of a user's
own, and one message for what cannot be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import aot
from aot.cli import main
from targets.images import DIGITS, PROJECT, need_tools

#: MPS2 AN500: 4 MiB of fast memory, of which a chip has less, and 16 MiB behind a bus.
BOARD = """
base = "cortex-m7"
[[memory]]
name = "flash"
address = 0x00000000
size = "4M"
use = ["code", "weights"]
[[memory]]
name = "dtcm"
address = 0x20000000
size = "{fast}"
use = ["arena", "data", "stack"]
[[memory]]
name = "sram"
address = 0x60000000
size = "{slow}"
speed = 3
use = ["arena"]
"""


def board(folder: Path, fast: str = "48K", slow: str = "1M") -> str:
    """A target file with so much memory."""
    (folder / "board.toml").write_text(BOARD.format(fast=fast, slow=slow))
    return str(folder / "board.toml")


def arenas(elf: Path) -> dict[str, int]:
    """The addresses of the built-in arenas by memory."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        marks = [(s.name.partition("_arena_"), int(s["st_value"])) for s in symbols]
    return {name[2]: at for name, at in marks if name[0] == "net" and name[1]}


@pytest.mark.parametrize("slices", [0, 100_000])
def test_resnet_in_two_memories(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], slices: int
) -> None:
    need_tools("cortex-m7")
    model = models_folder / "mlperf_ic_int8.onnx"
    x = np.random.default_rng(4).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    found = []
    for kind, target in (("one", "cortex-m7"), ("split", board(tmp_path))):
        out = tmp_path / kind
        options: Any = {"arena": kind, "slice_macs": slices, "name": "net"}
        bundle = aot.compile(model, out, target=target, **options)
        bundle.build()
        (name,) = [i["name"] for i in bundle.manifest["inputs"]]
        given: Any = {name: x}
        np.savez(tmp_path / "in.npz", **given)
        words = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(out), *words]) == 0, capsys.readouterr().err
        found.append(np.load(tmp_path / "out.npz")[bundle.manifest["outputs"][0]["name"]])
    assert np.array_equal(*found)
    assert main(["verify", str(tmp_path / "split"), "--per-node"]) == 0, capsys.readouterr().err
    fast, slow = bundle.manifest["memory"]["memories"]
    assert (fast["name"], slow["name"], fast["traffic_bytes"] > slow["traffic_bytes"]) == (
        *("dtcm", "sram"),
        True,
    )
    assert arenas(tmp_path / "split" / "bin" / "net.elf") == {
        "dtcm": 0x20000000,
        "sram": 0x60000000,
    }
    places = [p for p in bundle.manifest["memory"]["places"] if p["use"] == "arena"]
    assert [(p["memory"], p["bytes"]) for p in places] == [
        (m["name"], m["bytes"]) for m in (fast, slow)
    ]
    capsys.readouterr()
    assert main(["size", str(tmp_path / "split")]) == 0
    text = f"(dtcm {fast['bytes']}, sram {slow['bytes']})"
    assert text in capsys.readouterr().out


FIRMWARE = """
#include "net.h"
#include <string.h>
/* The built-in arenas are not linked: the fast one is here, the slow one where a driver has it. */
AOT_ALIGNED(NET_ARENA_ALIGN) static unsigned char fast[NET_ARENA_BYTES_DTCM];
static unsigned char *const slow = (unsigned char *)0x60080000;
static net_context model;
int main(void) {
    void *arenas[NET_ARENAS] = {fast, slow};
    size_t bytes[NET_ARENAS] = {sizeof fast, NET_ARENA_BYTES_SRAM};
    void *wrong[NET_ARENAS] = {fast, slow + 1};
    const unsigned char first = *slow;
    if (net_init(&model, fast, sizeof fast) != AOT_NO_ARENA) { return 1; }
    if (net_join_arenas(wrong, bytes) != AOT_ARENA_ALIGN) { return 2; }
    wrong[1] = NULL;
    if (net_join_arenas(wrong, bytes) != AOT_NULL) { return 3; }
    bytes[1] -= 1;
    if (net_join_arenas(arenas, bytes) != AOT_ARENA_SMALL) { return 4; }
    bytes[1] += 1;
    if (net_join_arenas(arenas, bytes) != AOT_OK) { return 5; }
    if (net_init(&model, fast, sizeof fast) != AOT_OK) { return 6; }
    memset(fast, 0xA5, sizeof fast); /* another model had the memory */
    memset(slow, 0xA5, NET_ARENA_BYTES_SRAM);
    memset(net_input(&model, 0), 0, NET_X_BYTES);
    if (net_run(&model, NULL, NULL) != AOT_OK) { return 7; }
    return *slow == 0xA5 && first == 0xA5 ? 8 : 0;
}
"""


def test_arenas_of_the_users(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_tools("cortex-m7")
    out, own = tmp_path / "out", tmp_path / "own"
    words = [str(models_folder / "mlperf_ic_int8.onnx"), "-o", str(out), "--name", "net", "-q"]
    assert main([*words, "--target", board(tmp_path), "--arena", "split"]) == 0
    own.mkdir()
    (own / "firmware.c").write_text(FIRMWARE.replace("NET_X_BYTES", "3072"))
    (own / "CMakeLists.txt").write_text(PROJECT)
    given: list[str | Path] = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DMODEL={out / 'bundle'}",
        f"-DCMAKE_TOOLCHAIN_FILE={out / 'bundle' / 'cmake' / 'toolchain.cmake'}",
    ]
    for step in (["-S", own, "-B", own, *given], ["--build", own]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    command = [*manifest["target"]["emulator"], "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(own / "firmware")]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    # Memory of a user's own takes the place of the built-in arenas.
    assert arenas(own / "firmware") == {}


def test_explain_names_the_memories(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(models_folder / "mlperf_ic_int8.onnx")
    assert main(["explain", model, "--target", board(tmp_path), "--arena", "split"]) == 0
    said = capsys.readouterr().out.splitlines()[-4:]
    assert said[0] == "arena in several memories:"
    assert [line.split(":")[0].strip() for line in said[1:3]] == ["dtcm", "sram"]
    assert said[3].startswith("  accesses cost ")


def test_a_small_arena_stays_in_one_memory(tmp_path: Path) -> None:
    """The option changes no byte then."""
    target = board(tmp_path)
    found = [aot.compile(DIGITS, tmp_path / k, target=target, arena=k) for k in ("one", "split")]
    one, split = ({p: (b.out / "bundle" / p).read_bytes() for p in PATHS} for b in found)
    assert one == split


PATHS = ("src/digits.c", "src/digits_run.c", "src/digits_arena.c", "include/digits.h",
         "board/link.ld", "manifest.json")  # fmt: skip


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a compilation that must fail."""
    assert main([*words, "--no-configure"]) in (1, 2)
    return capsys.readouterr().err


def test_what_cannot_be_split_is_refused(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(models_folder / "mlperf_ic_int8.onnx")
    words = [model, "-o", str(tmp_path / "out"), "--arena", "split"]
    said = refusal(capsys, *words, "--target", "cortex-m0")
    assert "--arena split: target cortex-m0 has one memory for the arena" in said
    said = refusal(capsys, *words)
    assert "has one memory for the arena" in said and "[[memory]]" in said
    target = ["--target", board(tmp_path)]
    said = refusal(capsys, *words, *target, "--backend", "cmsis_nn")
    assert "--arena split with --backend cmsis_nn" in said
    said = refusal(capsys, *words, *target, "--package", "make")
    assert "--arena split with --package" in said
    said = refusal(capsys, *words, "--target", board(tmp_path, "24K", "16K"))
    assert "bytes of arena" in said and "in dtcm, sram exceed memory sram" in said
    assert "the peak at" in said
    said = refusal(capsys, *words[:3], "--target", board(tmp_path, "48K", "16K"))
    assert "exceed memory dtcm" in said and "`--arena split` takes sram, too" in said


def test_linked_models_have_one_arena(
    models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, outs = board(tmp_path), []
    for name in ("a", "b"):
        outs.append(str(tmp_path / name))
        model = models_folder / "mlperf_ic_int8.onnx"
        aot.compile(model, outs[-1], target=target, name=name, arena="split")
    assert main(["link", *outs, "-o", str(tmp_path / "both"), "--no-configure"]) == 1
    said = capsys.readouterr().err
    assert "is in several memories" in said and "compile it without --arena split" in said
