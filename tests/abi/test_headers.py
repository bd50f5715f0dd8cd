# SPDX-License-Identifier: Apache-2.0
"""Public headers in every language standard, and their layouts on every ABI compiled for here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from abi import toy
from abi.toy import WARNINGS
from aot.emit_c.resources import runtime_c
from needs import missing, need

BARE = ["-ffreestanding", "-nostdlibinc"]
#: Compiler and flags of each ABI; pointers in bytes.
ABIS: dict[str, tuple[list[str], int]] = {
    "x86-64": (["gcc"], 8),
    "x86-64 clang": (["clang"], 8),
    "i386": (["i686-linux-gnu-gcc"], 4),
    "i386 clang": (["clang", "--target=i386-linux-gnu", *BARE], 4),
    "i386 packing doubles": (["clang", "--target=i386-linux-gnu", "-malign-double", *BARE], 4),
    "aarch64": (["aarch64-linux-gnu-gcc"], 8),
    "aarch64 clang": (["clang", "--target=aarch64-none-elf", *BARE], 8),
    "arm hard float": (["arm-linux-gnueabihf-gcc"], 4),
    "arm eabi": (["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"], 4),
    "arm eabi short enums": (
        ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-fshort-enums"],
        4,
    ),
    "armv7m clang": (["clang", "--target=armv7m-none-eabi", "-fshort-enums", *BARE], 4),
    "rv32": (["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", *BARE[:1]], 4),
    "rv64": (["riscv64-linux-gnu-gcc"], 8),
    "rv32 clang": (["clang", "--target=riscv32-none-elf", *BARE], 4),
    "rv64 clang": (["clang", "--target=riscv64-none-elf", *BARE], 8),
}
C = ("c99", "c11", "c17", "gnu99")
CXX = ("c++11", "c++17", "c++20")
COMPILERS = {"gcc": C, "clang": C, "arm-none-eabi-gcc": C, "g++": CXX, "clang++": CXX}


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The headers of a bundle with states of every kind of entry."""
    root = tmp_path_factory.mktemp("headers")
    for path, content in toy.emit(toy.mixed()).items():
        if path.startswith("include/"):
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bytes(content))
    return root / "include"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_standard(compiler: str, include: Path, tmp_path: Path) -> None:
    """Each header alone, all warnings errors."""
    need(compiler)
    suffix = ".cpp" if "++" in compiler else ".c"
    names = sorted(str(p.relative_to(include)) for p in include.rglob("*.h"))
    assert {"mixed.h", "tvmgen_mixed.h", "aot/aot.h", "aot/dlpack.h", "aot/port.h"} <= set(names)
    for name in names:
        (tmp_path / f"{Path(name).stem}{suffix}").write_text(f'#include "{name}"\nint unused;\n')
    sources = sorted(str(p) for p in tmp_path.iterdir())
    for standard in COMPILERS[compiler]:
        flags = [f"-std={standard}", *WARNINGS, "-Werror", f"-I{include}", "-fsyntax-only"]
        toy.run(compiler, *flags, *sources)


LAYOUT = """
#include "mixed.h"
#define SAME(name, x) typedef char name[(x) ? 1 : -1]
#define AT(type, member) offsetof(type, member)
SAME(device, sizeof(DLDevice) == 8);
SAME(dtype, sizeof(DLDataType) == 4 && AT(DLDataType, bits) == 1 && AT(DLDataType, lanes) == 2);
SAME(device_at, AT(DLTensor, device) == P);
SAME(ndim_at, AT(DLTensor, ndim) == P + 8);
SAME(dtype_at, AT(DLTensor, dtype) == P + 12);
SAME(shape_at, AT(DLTensor, shape) == P + 16);
SAME(strides_at, AT(DLTensor, strides) == 2 * P + 16);
SAME(offset_at, AT(DLTensor, byte_offset) % sizeof(void *) == 0);
SAME(offset_behind, AT(DLTensor, byte_offset) >= 3 * P + 16);
SAME(pointers, sizeof(void *) == P && sizeof(size_t) == P);
SAME(magic_at, AT(mixed_context, magic) == 0);
SAME(arena_at, AT(mixed_context, arena) == 8);
SAME(context, sizeof(mixed_context) == 8 + 2 * P);
"""


@pytest.mark.parametrize("abi", ABIS)
def test_layouts(abi: str, include: Path, tmp_path: Path) -> None:
    """Offsets as facts of the ABI, besides the static assertions that the headers make."""
    (compiler, *flags), pointer = ABIS[abi]
    need(compiler)
    probe, source = tmp_path / "probe.c", tmp_path / "t.c"
    probe.write_text("#include <stdint.h>\n#include <stddef.h>\n")
    command = [compiler, "-std=c99", f"-I{include}", f"-DP={pointer}", *flags, "-fsyntax-only"]
    if subprocess.run([*command, str(probe)], capture_output=True).returncode != 0:
        missing(f"{compiler} {' '.join(flags)}")
    source.write_text(LAYOUT)
    toy.run(*command, str(source))


def test_a_wrong_layout_would_be_seen(include: Path, tmp_path: Path) -> None:
    source = tmp_path / "t.c"
    source.write_text(LAYOUT)
    command = ["gcc", "-std=c99", f"-I{include}", "-DP=4", "-fsyntax-only", str(source)]
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_guards_of_headers_are_unique() -> None:
    """A bundle includes headers of several folders: equal guards would leave one of them out."""
    found: dict[str, Path] = {}
    headers = [p for n in ("include", "src", "kernels") for p in (runtime_c() / n).rglob("*.h")]
    for path in sorted(headers):
        guard = re.search(r"^#ifndef (AOT_\w+_H)$", path.read_text("utf-8"), re.MULTILINE)
        if guard is not None:
            assert guard[1] not in found, f"{path} and {found[guard[1]]} have one guard, {guard[1]}"
            found[guard[1]] = path
    assert len(found) > 100
