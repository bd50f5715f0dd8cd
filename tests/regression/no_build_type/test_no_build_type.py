# SPDX-License-Identifier: Apache-2.0
"""A project without a build type compiled the bundle at -O0: slow, and with twice the stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aot
from abi import toy

DIGITS = Path(__file__).resolve().parents[3] / "examples/digits/digits.onnx"
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(app LANGUAGES C)
{before}
add_subdirectory("{bundle}" net)
"""


def levels(tmp_path: Path, *words: str, before: str = "", target: str = "host") -> set[str]:
    """The last -O of every file of the bundle, as the compiler is called ("" for none).

    Start-up code of boards, which has a level of its own, is left out.
    """
    out = aot.compile(DIGITS, tmp_path / "out", name="net", target=target, configure=False).out
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(before=before, bundle=out / "bundle"))
    toy.run(
        *("cmake", "-S", str(tmp_path), "-B", str(tmp_path / "b")),
        *("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *words),
    )
    commands = json.loads((tmp_path / "b/compile_commands.json").read_text())
    sources = [c for c in commands if "/board/" not in c["file"]]
    found = [[w for w in c["command"].split() if w.startswith("-O")] for c in sources]
    return {(own or [""])[-1] for own in found}


@pytest.mark.parametrize(
    ("words", "before", "level"),
    [
        ((), "", "-O3"),
        (("-DCMAKE_BUILD_TYPE=Release",), "", "-O3"),
        (("-DCMAKE_BUILD_TYPE=Debug",), "", ""),
        (("-DCMAKE_BUILD_TYPE=MinSizeRel",), "", "-Os"),
        (("-DCMAKE_C_FLAGS=-g -O1",), "", "-O1"),
        ((), "add_compile_options(-Wall -Os)", "-Os"),
        ((), "add_compile_options(-Wall)", "-O3"),
        ((), "add_compile_options($<$<COMPILE_LANGUAGE:C>:-Os>)", "-Os"),
        ((), "add_compile_options($<$<CONFIG:Debug>:-Og>)", "-O3"),
    ],
)
def test_who_says_the_level(
    words: tuple[str, ...], before: str, level: str, tmp_path: Path
) -> None:
    assert levels(tmp_path, *words, before=before) == {level}


def test_on_a_board(tmp_path: Path) -> None:
    """The level that a board's bundle has when it is built alone."""
    chain = "-DCMAKE_TOOLCHAIN_FILE=" + str(tmp_path / "out/bundle/cmake/toolchain.cmake")
    assert levels(tmp_path, chain, target="cortex-m4") == {"-O2"}


def test_the_stack_says_for_which_levels(tmp_path: Path) -> None:
    out = aot.compile(DIGITS, tmp_path, name="net", configure=False).out
    header = (out / "bundle/include/net.h").read_text()
    (before, _) = header.split("#define NET_STACK_BYTES ")
    assert before.rstrip().endswith("compiled by gcc from -O1 on. */")
