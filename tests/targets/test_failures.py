# SPDX-License-Identifier: Apache-2.0
"""What does not work must say so: no tools, no room, a fault, a hang, a bad target file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import aot
from aot.cli import main
from aot.errors import AotError, BuildError, TargetError
from aot.target import load_target
from aot.tools import emulate
from graphs import model
from targets.images import DIGITS, digits, need_tools

NO_INSTRUCTION = {"cortex-m4": "udf #0", "rv32imac": ".word 0"}
LOOP = {"cortex-m4": "b .", "rv32imac": "j ."}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failures")


def test_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = aot.tools.build.shutil.which
    monkeypatch.setattr(
        aot.tools.build.shutil, "which", lambda n, **k: None if "none-eabi" in n else find(n, **k)
    )
    out = tmp_path / "out"
    assert main([str(DIGITS), "-o", str(out), "--target", "cortex-m4"]) == 1
    error = capsys.readouterr().err
    assert "arm-none-eabi-gcc was not found" in error
    assert "apt-get install --no-install-recommends gcc-arm-none-eabi" in error
    assert not out.exists()


def test_no_emulator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = digits("cortex-m4", folder)
    monkeypatch.setattr(emulate.shutil, "which", lambda name: None)
    for command in ("verify", "bench"):
        with pytest.raises(TargetError, match="qemu-system-arm was not found") as caught:
            _call(command, out)
        assert "apt-get install --no-install-recommends qemu-system-arm" in str(caught.value.hint)


def _call(command: str, out: Path) -> None:
    from aot.tools.bench import bench
    from aot.tools.run import open_out
    from aot.tools.verify import Request, verify

    built = open_out(out)
    bench(built) if command == "bench" else verify(built, Request(), lambda _: None)


def test_python_loads_only_what_runs_here(tmp_path: Path) -> None:
    bundle = aot.compile(DIGITS, tmp_path / "out", target="cortex-m4", configure=False)
    with pytest.raises(TargetError, match="built for cortex-m4: it cannot be loaded here"):
        bundle.load()


def test_before_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aot.compile(DIGITS, tmp_path / "out", target="cortex-m4", configure=False)
    assert main(["verify", str(tmp_path / "out")]) == 1
    assert "bin/digits.elf is missing" in capsys.readouterr().err


NODES = {
    "arena": [
        ("Exp", "x", "e"),
        ("Softmax", "e", "s"),
        ("Add", "s e", "y"),
        ("Gather", "k i", "z"),
    ],
    # An index that may be out of range would keep y in the arena until it is read.
    "io": [("Exp", "x", "y"), ("Clip", "i zero zero", "j"), ("Gather", "k j", "z")],
}


@pytest.mark.parametrize(
    "nodes, shape, weights, says",
    [
        ("arena", (1, 60, 60), 1, "28832 bytes of arena (intermediate results, inputs and outputs)"
         " exceed memory ram of cortex-m0 by 14496 bytes"),
        ("io", (1, 60, 60), 1, "28832 bytes of inputs and outputs, and variables, exceed memory ram"
         " of cortex-m0 by 15024 bytes"),
        ("io", (1, 4, 4), 70_000, "280000 bytes of constants exceed memory flash of cortex-m0 by"
         " 17856 bytes"),
    ],
    ids=["arena", "io", "constants"],
)  # fmt: skip
def test_no_room(
    nodes: str,
    shape: tuple[int, ...],
    weights: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = np.arange(weights, dtype=np.float32)
    ends = {"x": shape, "i": [2]}, {"y": shape, "z": [2]}
    proto = model(NODES[nodes], *ends, {"k": table, "zero": np.array(0)}, {"i": TensorProto.INT64})
    (tmp_path / "m1.onnx").write_bytes(proto.SerializeToString())
    words = [str(tmp_path / "m1.onnx"), "-o", str(tmp_path / "o"), "--target", "cortex-m0"]
    words += ["--io", "caller"] if nodes == "io" else []
    assert main([*words, "--no-configure"]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert "hint:" in error and "--objective ram" not in error  # no scratch here
    assert not (tmp_path / "o").exists()


def broken(name: str, instruction: str, folder: Path) -> Path:
    """The digits model with an instruction at the start of its softmax."""
    need_tools(name)
    bundle = aot.compile(DIGITS, folder / "out", target=name)
    header = bundle.out / "bundle/src/kernels/aot_softmax_f32.h"
    text = header.read_text()
    begin = re.search(r"void aot_softmax_f32\([^{]*\{", text)
    assert begin
    spoilt = f'\n    __asm__ volatile("{instruction}");\n'
    header.write_text(text[: begin.end()] + spoilt + text[begin.end() :])
    return bundle.build().out


@pytest.mark.parametrize("name", sorted(NO_INSTRUCTION))
def test_a_fault_names_function_line_and_node(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = broken(name, NO_INSTRUCTION[name], tmp_path)
    assert main(["verify", str(out)]) == 1
    error = capsys.readouterr().err
    assert "instruction" in error and re.search(r"at pc 0x[0-9a-f]+ in digits_k\w+softmax", error)
    assert re.search(r"\((aot_softmax_f32\.h|digits_run\.c):\d+\)", error)
    assert re.search(
        r"running Softmax: float32\[1,10\] -> float32\[1,10\] nodes: softmax", error
    ), error


@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m33"])
def test_a_stack_too_small(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_tools(name)
    (tmp_path / "chip.toml").write_text(f'base = "{name}"\nstack = 512\n')
    bundle = aot.compile(DIGITS, tmp_path / "o", target=str(tmp_path / "chip.toml")).build()
    assert main(["verify", str(bundle.out)]) == 1
    assert "stack overflow" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cortex-m4"])
def test_a_hang_is_stopped(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = broken(name, LOOP[name], tmp_path)
    monkeypatch.setattr(emulate, "TIMEOUT", 1.0)
    with pytest.raises(AotError, match=r"was stopped after \d+ seconds"):
        _call("bench", out)


@pytest.mark.parametrize(
    "text, says",
    [
        ('base = "cortex-m4"\nport = ""', "'port' is missing"),
        ('base = "cortex-m4"\nport = "z80"', "no port 'z80'"),
        ('base = "cortex-m4"\nsystem = "dos"', "'dos' is not linux or none"),
        ('base = "cortex-m4"\nstack = -1', "stack -1"),
        ('base = "cortex-m4"\ntick_hz = "1"', "not an integer"),
        ('base = "cortex-m4"\ncflags = ["-O2;reboot"]', "-O2;reboot"),
        ('base = "cortex-m4"\n[[memory]]\nname="r"\nsize="1M"\nuse=["data"]', "is for code"),
        ('base = "cortex-m4"\n[[memory]]\nname="r"\nsize="1M"\nuse=["x"]', "use 'x'"),
        ('base = "cortex-m4"\n[[memory]]\nname="r{"\nsize="1M"', "not an identifier"),
        ('base = "cortex-m4"\n[[memory]]\nname="r"\nsize="1M"\nsection="a b"', "section name"),
        ('base = "cortex-m4"\n[[memory]]\nname="r"\nsize="1M"\naddress=-4', "address -4"),
        ('base = "cortex-m4"\ntoolchain = "no"', "no toolchain no"),
    ],
)
def test_bad_board_files(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(text)
    with pytest.raises(AotError) as caught:
        aot.compile(DIGITS, tmp_path / "o", target=str(tmp_path / "chip.toml"), configure=False)
    assert says in str(caught.value)


def test_an_arena_in_a_section_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(
        'base = "cortex-m4"\n[[memory]]\nname = "flash"\naddress = 0\nsize = "1M"\n'
        'use = ["code", "weights"]\n[[memory]]\nname = "ram"\naddress = 0x20000000\nsize = "64K"\n'
        'use = ["data", "stack"]\n[[memory]]\nname = "fast"\naddress = 0x21000000\nsize = 8192\n'
        'section = ".fast_ram"\nuse = ["arena"]\n'
    )
    need_tools("cortex-m4")
    bundle = aot.compile(DIGITS, tmp_path / "o", target=str(tmp_path / "chip.toml")).build()
    assert main(["verify", str(bundle.out)]) == 0
    from elftools.elf.elffile import ELFFile

    with (bundle.out / "bin/digits.elf").open("rb") as file:
        elf = ELFFile(file)
        section = elf.get_section_by_name(".arena")
        assert section["sh_addr"] == 0x21000000
        assert section["sh_size"] == bundle.manifest["memory"]["arena_bytes"]


def test_placement_prefers_the_first_memory_with_room() -> None:
    from aot.plan.board_memory import Needs, place

    chip = load_target("cortex-m55")
    small = place(chip, Needs(1000, 100, 1000))
    assert (small.weights.name, small.arena.name, small.data.name) == ("itcm", "dtcm", "dtcm")
    large = place(chip, Needs(600_000, 100, 500_000))
    assert (large.weights.name, large.arena.name, large.data.name) == ("ddr", "sram", "dtcm")
    with pytest.raises(BuildError, match="not found"):
        from aot.tools.build import find_tools

        find_tools(("gcc-z80",), "z80-unknown-elf-gcc")
