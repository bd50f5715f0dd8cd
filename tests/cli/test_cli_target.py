# SPDX-License-Identifier: Apache-2.0
"""Targets: the x86-64 levels, a user's file, and what is wrong with a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot import target as targets
from aot.errors import TargetError
from aot.target import Memory, load_target


@pytest.mark.parametrize(
    "name, vlen", [("x86-64", 4), ("x86-64-v2", 4), ("x86-64-v3", 8), ("x86-64-v4", 16)]
)
def test_levels(name: str, vlen: int) -> None:
    target = load_target(name)
    assert (target.name, target.cpu, target.vlen) == (name, name, vlen)
    assert target.cflags == (f"-march={name}",)


@pytest.mark.parametrize(
    "missing, level",
    [
        ((), "x86-64-v4-bf16"),
        (("avx512_bf16",), "x86-64-v4-vnni"),
        (("avx512_vnni",), "x86-64-v4"),
        (("avx512f",), "x86-64-v3-vnni"),
        (("avx512f", "avx_vnni"), "x86-64-v3"),
        (("fma",), "x86-64-v2"),
    ],
)
def test_host_is_the_best_level_the_cpu_has(
    missing: tuple[str, ...], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    widest = ("x86-64-v4-bf16", "x86-64-v3-vnni")
    every = {f for level in widest for f in load_target(level).requires} - set(missing)
    monkeypatch.setattr(targets, "cpu_flags", lambda: frozenset(every))
    monkeypatch.setattr(targets.platform, "machine", lambda: "x86_64")
    host = load_target("host")
    assert (host.name, host.cpu) == ("host", level)


@pytest.mark.parametrize(
    "missing, level",
    [
        ("", "aarch64-bf16"),
        ("bf16", "aarch64-i8mm"),
        ("bf16 i8mm", "aarch64-fp16"),
        ("i8mm asimdhp", "aarch64-dotprod"),
        ("asimddp", "aarch64-linux"),
    ],
)
def test_host_on_arm(missing: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has = frozenset(load_target("aarch64-bf16").requires) - set(missing.split())
    monkeypatch.setattr(targets, "cpu_flags", lambda: has)
    monkeypatch.setattr(targets.platform, "machine", lambda: "aarch64")
    assert load_target("host").cpu == level


def test_host_without_kernels_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets.platform, "machine", lambda: "sparc64")
    with pytest.raises(TargetError, match="sparc64"):
        load_target("host")


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "my-chip.toml"
    file.write_text(
        'base = "x86-64-v3"\ncflags = ["-march=haswell"]\n'
        '[[memory]]\nname = "sram"\nsize = "64K"\nspeed = 2\nsection = ".fast"\n'
    )
    target = load_target(str(file))
    assert (target.name, target.cpu, target.vlen) == ("my-chip", "my-chip", 8)
    assert target.cflags == ("-march=haswell",)
    assert target.memories == (Memory("sram", 65536, 2.0, ".fast"),)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "'arch' is missing"),
        ("arch = ", "no TOML"),
        ('arch = "z80"', "'z80' is not available"),
        ('base = "x86-64"\nwidth = 3', "unknown key 'width'"),
        ('base = "x86-64"\nvlen = 3', "vlen 3"),
        ('base = "x86-64"\nvlen = "8"', "not an integer"),
        ('base = "x86-64"\ncflags = "-O2"', "not a list of strings"),
        ('base = "z80"', "unknown target 'z80'"),
        ('base = "x86-64"\n[[memory]]\nname = "a"', "needs name and size"),
        ('base = "x86-64"\n[[memory]]\nname = "a"\nsize = "4Q"', "4Q"),
        ('base = "x86-64"\n[[memory]]\nname = "a"\nsize = 4\nspeed = 0', "speed 0"),
    ],
)
def test_bad_files(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(TargetError) as caught:
        load_target(str(file))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "name, address, says",
    [
        ("DTCM", 0x60000000, "two memories are called 'DTCM'"),
        ("sram", 0x20001000, "sram at 0x20001000 overlaps dtcm at 0x20000000"),
        ("sram", 0xFFFFFFFF, "sram ends at 0x100000fff, beyond the last address 0xffffffff"),
    ],
)
def test_memories_of_a_board_lie_apart(name: str, address: int, says: str, tmp_path: Path) -> None:
    file, text = tmp_path / "bad.toml", 'base = "cortex-m7"\n'
    places = [("dtcm", 0x20000000, 8192), (name, address, 4096)]
    uses = '["code", "weights", "arena", "data", "stack"]'
    for word, at, size in places:
        text += f'[[memory]]\nname = "{word}"\naddress = {at}\nsize = {size}\nuse = {uses}\n'
    file.write_text(text)
    with pytest.raises(TargetError, match=says):
        load_target(str(file))


def test_missing_file_and_unknown_name() -> None:
    with pytest.raises(TargetError, match="No such file"):
        load_target("/nonexistent/x.toml")
    with pytest.raises(TargetError, match="unknown target 'pdp11'"):
        load_target("pdp11")


def test_listing_names_every_target_once() -> None:
    rows = targets.listing()
    assert [r["name"] for r in rows] == list(targets.names())
    assert all(r["text"] for r in rows)
