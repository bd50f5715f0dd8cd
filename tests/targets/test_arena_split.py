# SPDX-License-Identifier: Apache-2.0
"""An arena in two memories of a board: same results, places as the linker says, arenas of a user's
own, and one message for what cannot be."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import aot
from aot.cli import main
from aot.options import Options
from aot.pipeline import compile_model
from aot.tools.run import execute, open_out, stream
from corpus_models import tflite_outputs
from graphs import model as graph
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


FULL = bool(os.environ.get("AOT_FULL"))
STANDIN = Path(__file__).parents[1] / "vendor" / "cmsis_nn_standin"


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
    if (net_join_arenas(NULL, bytes) != AOT_NULL) { return 9; }
    if (net_join_arenas(arenas, NULL) != AOT_NULL) { return 10; }
    wrong[1] = fast;
    if (net_join_arenas(wrong, bytes) != AOT_OVERLAP) { return 11; }
    wrong[1] = fast + sizeof fast - NET_ARENA_ALIGN;
    if (net_join_arenas(wrong, bytes) != AOT_OVERLAP) { return 12; }
    if (net_init(&model, fast, sizeof fast) != AOT_NO_ARENA) { return 13; }
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
    assert ran(out, own) == (0, b"")
    # Memory of a user's own takes the place of the built-in arenas.
    assert arenas(own / "firmware") == {}


#: Uses the class that packages have.
IN_CPP = """
#include "net.hpp"
static net_network::arena_type arena;
static int8_t pixels[NET_INPUT0_ELEMENTS], chances[NET_OUTPUT0_ELEMENTS];
int main() {
    net_network network(arena);
    return network.run(pixels, chances) == AOT_OK && network.context()->arenas[1] ? 0 : 1;
}
"""


IN_CMAKE = """
target_include_directories(firmware PRIVATE ${PACKAGE}/include .)
target_compile_options(firmware PRIVATE -fno-exceptions)
set_target_properties(firmware PROPERTIES LINKER_LANGUAGE C)
"""


def test_packages_have_the_built_in_arenas(models_folder: Path, tmp_path: Path) -> None:
    need_tools("cortex-m7")
    out, own, kinds = tmp_path / "out", tmp_path / "own", ("make", "freertos", "esp-idf")
    model = models_folder / "mlperf_ic_int8.onnx"
    options: Any = {"target": board(tmp_path), "package": kinds, "name": "net"}
    aot.compile(model, out, arena="split", **options)
    made = {kind: out / "packages" / kind for kind in kinds}
    texts = {
        "make": made["make"] / "example" / "main.c",
        "freertos": made["freertos"] / "freertos" / "net_task.c",
        "esp-idf": made["esp-idf"] / "main" / "main.c",
    }
    for path in texts.values():
        assert "net_init(&context, net_arena(), NET_ARENA_BYTES)" in path.read_text(), path
        assert "static unsigned char arena[" not in path.read_text(), path
    own.mkdir()
    (own / "firmware.cpp").write_text(IN_CPP)
    # Debian's compiler for bare metal has no C++ library.
    (own / "cstddef").write_text("#include <stddef.h>\nnamespace std { using ::size_t; }\n")
    (own / "cstdint").write_text("#include <stdint.h>\n")
    text = PROJECT.replace("(firmware C)", "(firmware C CXX)")
    text = text.replace("firmware.c)", "firmware.cpp ${PACKAGE}/src/net_data.c)")
    (own / "CMakeLists.txt").write_text(text + IN_CMAKE)
    assert ran(out, own, f"-DPACKAGE={made['make']}") == (0, b"")


def ran(out: Path, own: Path, *options: str) -> tuple[int, bytes]:
    """The firmware of the project `own` with the bundle of OUT, under the emulator: status, and
    what it wrote of errors."""
    given: list[str | Path] = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DMODEL={out / 'bundle'}",
        f"-DCMAKE_TOOLCHAIN_FILE={out / 'bundle' / 'cmake' / 'toolchain.cmake'}",
    ]
    for step in (["-S", own, "-B", own, *given, *options], ["--build", own]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    command = [*manifest["target"]["emulator"], "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(own / "firmware")]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stderr


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
    said = refusal(capsys, *words, *target, "--package", "make,cargo")
    assert "--package cargo with --arena split: an arena of safe Rust is one value" in said
    said = refusal(capsys, *words, "--target", board(tmp_path, "24K", "16K"))
    assert "bytes of arena" in said and "in dtcm, sram exceed memory sram" in said
    assert "the peak at" in said
    said = refusal(capsys, *words[:3], "--target", board(tmp_path, "48K", "16K"))
    assert "exceed memory dtcm" in said and "`--arena split` takes sram, too" in said


#: Vendors, networks, and a fast memory with room for a part of the arena: beside the stack, and
#: beside what the simulator of AX1 has for itself.
VENDORS = [("cmsis_nn", "kws", "28K")]


@pytest.mark.parametrize(
    ("vendor", "network", "fast"), [*VENDORS, *[("accel_sim:64", "ic", "84K")] * FULL]
)
def test_vendors_work_in_two_memories(
    vendor: str,
    network: str,
    fast: str,
    models_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A vendor's functions take pointers; portable C in its place has its values in the last
    memory."""
    need_tools("cortex-m7")
    monkeypatch.setenv("AOT_CMSIS_NN_ROOT", str(STANDIN))
    stored = tflite_outputs(models_folder, f"mlperf_{network}_int8")
    given, wanted = (stored[key] for key in stored if key.startswith("s0/"))
    model, out = models_folder / f"mlperf_{network}_int8.onnx", tmp_path / "out"
    target: Any = {"target": board(tmp_path, fast), "name": "net", "requant": "tflite"}
    bundle = aot.compile(model, out, backends=[vendor], arena="split", **target)
    memories = bundle.manifest["memory"]["memories"]
    assert [m["name"] for m in memories if "offset" in m] == ["dtcm", "sram"]
    for switch in ("ON", "OFF"):
        words = [f"-DAOT_{vendor.partition(':')[0].upper()}={switch}", "-DAOT_WERROR=ON"]
        subprocess.run(["cmake", "-S", out / "bundle", "-B", out, *words], check=True)
        subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
        (found,) = execute(open_out(out), [given])
        assert np.array_equal(found, wanted), switch


@pytest.mark.parametrize("fast", ["28K", "36K", "52K"][:: 1 if FULL else 3])
def test_states_live_in_both_memories(fast: str, tmp_path: Path) -> None:
    """States that cross, one of some rows: what a run leaves is there for the next one."""
    need_tools("cortex-m7")
    row = (1, 2048)
    nodes = [
        *(("Add", "a x", "c"), ("Identity", "b", "d"), ("Mul", "a b", "product")),
        ("Concat", "s x", "all", {"axis": 0}),
        ("Slice", "all one end zero", "next"),
        ("ReduceSum", "next zero", "total", {"keepdims": 1}),
        ("Sub", "total product", "y"),
    ]
    constants = {k: np.array([v]) for k, v in (("one", 1), ("end", 99), ("zero", 0))}
    ends = {"a": row, "x": row, "b": row, "s": (3, 2048)}
    proto = graph(nodes, ends, {"c": row, "y": row, "d": row, "next": (3, 2048)}, constants)
    kept = {"a": "d", "b": "c", "s": "next"}
    target = board(tmp_path, fast)
    out = tmp_path / "out"
    bundle = aot.compile(proto, out, target=target, arena="split", states=kept, name="net")
    assert len([m for m in bundle.manifest["memory"]["memories"] if "offset" in m]) == 2
    bundle.build()
    steps = np.random.default_rng(1).integers(-9, 9, (6, *row)).astype(np.float32)
    a = b = np.zeros(row, np.float32)
    rows = np.zeros((3, 2048), np.float32)
    for x, (found,) in zip(steps, stream(open_out(out), [[x] for x in steps]), strict=True):
        rows = np.concatenate([rows, x])[1:]
        assert np.array_equal(found, rows.sum(0, keepdims=True) - a * b)
        a, b = b, a + x


def test_a_budget_that_only_one_memory_keeps(models_folder: Path, tmp_path: Path) -> None:
    """Two memories take more bytes: where the budget forbids these, the arena stays whole."""
    model, options = models_folder / "mlperf_ic_int8.onnx", Options(target=board(tmp_path))
    split = replace(options, arena="split")
    one, two = (ram_of(compile_model(model, o).manifest) for o in (options, split))
    assert one < two
    for budget, parts in ((two, 2), (two - 1, 0), (one, 0)):
        assert len(compile_model(model, replace(split, ram=budget)).plan.parts) == parts


def ram_of(manifest: dict[str, Any]) -> int:
    """What `aotc size` calls RAM."""
    memory = manifest["memory"]
    return int(sum(memory[k] for k in ("arena_bytes", "static_bytes", "stack_bytes")))


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
