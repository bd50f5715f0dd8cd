# SPDX-License-Identifier: Apache-2.0
"""A library built for units that the CPU lacks says AOT_BAD_CPU, by code that uses none of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from images import DIGITS, need_tools

import aot
from aot.cli import main
from aot.emit_c import cpu_check
from aot.emit_c.resources import runtime_c
from aot.errors import TargetError, VerifyError
from aot.target import cpu_flags, load_target, machine
from needs import need

LACKS = "init: the CPU lacks a unit that the library was built for"
QEMU_X86 = ("qemu-x86_64", "-cpu")
QEMU_ARM = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu")
ENTRIES = """\
#include <stdio.h>
#include <string.h>
#include "digits.h"
#include "tvmgen_digits.h"
int main(void) {
    static digits_context context, before;
    static float x[4096], y[4096];
    struct tvmgen_digits_inputs in;
    struct tvmgen_digits_outputs out;
    const aot_status status = digits_init(&context, digits_arena(), DIGITS_ARENA_BYTES);
    const float *const xs[1] = {x};
    float *const ys[1] = {y};
    (void)memcpy(&in, xs, sizeof in);
    (void)memcpy(&out, ys, sizeof out);
    printf("%d %d %d\\n", (int)status, memcmp(&context, &before, sizeof context) != 0,
           (int)tvmgen_digits_run(&in, &out));
    return 0;
}
"""


def x86_only() -> None:
    if machine() != "x86_64":
        pytest.skip("programs of x86-64 are built with this machine's own compiler")
    need("qemu-x86_64", "apt-get install qemu-user")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def built(target: str, folder: Path, *flags: str) -> Path:
    """OUT of the digits model with its static library and its program."""
    out = folder / "out"
    aot.compile(DIGITS, out, target=target, configure=False)
    configure = ["cmake", "-S", out / "bundle", "-B", out, "-DAOT_BUILD_SHARED=OFF", *flags]
    for command in (configure, ["cmake", "--build", out]):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    return out


def check(out: Path, emulator: tuple[str, ...], lacking: str, having: str = "") -> None:
    """The program says so on a CPU that lacks units, and runs on one that has them."""
    program = (out / "bin" / "digits", "--fill", "1")
    refused = run(*emulator, lacking, *program)
    assert (refused.returncode, refused.stderr.splitlines()[-1:]) == (1, [f"digits: {LACKS}"])
    if having:
        done = run(*emulator, having, *program)
        assert done.returncode == 0, done.stderr


def test_vectors_of_512_bits_linked_as_one(tmp_path: Path) -> None:
    x86_only()
    out = built("x86-64-v4-vnni", tmp_path, "-DCMAKE_C_FLAGS=-flto")
    check(out, QEMU_X86, "Nehalem")
    check(out, QEMU_X86, "Haswell")  # vectors of 256 bits are not enough
    if load_target("x86-64-v4-vnni").runs_here():
        done = run(out / "bin" / "digits", "--fill", "1")
        assert done.returncode == 0, done.stderr


def test_vectors_of_256_bits_and_every_entry(tmp_path: Path) -> None:
    x86_only()
    out = built("x86-64-v3", tmp_path)
    check(out, QEMU_X86, "Nehalem", "Haswell")
    (tmp_path / "main.c").write_text(ENTRIES)
    made = run("gcc", "-O1", "-march=x86-64", f"-I{out}/bundle/include", tmp_path / "main.c",
               out / "lib/libdigits.a", "-lm", "-o", tmp_path / "main")  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert run(*QEMU_X86, "Nehalem", tmp_path / "main").stdout == "20 0 20\n"
    assert run(*QEMU_X86, "Haswell", tmp_path / "main").stdout == "0 1 0\n"


def test_dot_products_of_arm(tmp_path: Path) -> None:
    need_tools("cortex-a76")
    check(built("cortex-a76", tmp_path), QEMU_ARM, "cortex-a53", "cortex-a76")


def test_vectors_of_risc_v(tmp_path: Path) -> None:
    need_tools("rv64gcv")
    emulator = ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu", "-cpu")
    check(built("rv64gcv", tmp_path), emulator, "rv64", "rv64,v=true,vext_spec=v1.0")


def test_boards_and_any_cpu_are_not_asked(tmp_path: Path) -> None:
    for target in ("cortex-m4", "x86-64"):
        aot.compile(DIGITS, tmp_path / target, target=target, configure=False)
        source = tmp_path / target / "bundle" / "src"
        assert not (source / "aot_cpu.h").exists()
        assert "BAD_CPU" not in (source / "digits.c").read_text()


def test_every_name_is_the_bit_that_linux_says(tmp_path: Path) -> None:
    """One unit each: what C finds in this CPU against /proc/cpuinfo."""
    if machine() != "x86_64":
        pytest.skip("cpuid is x86-64's")
    names = [name for named in cpu_check._X86.values() for name in named]
    tables, lines = [], []
    for name in names:
        check = cpu_check.cpu_check(replace(load_target("x86-64"), requires=(name,)))
        assert check is not None
        tables.append(f"static const aot_cpu_need need_{name}[] = {{\n{check.rows}\n}};")
        count = f"sizeof need_{name} / sizeof need_{name}[0]"
        lines.append(f'    if (aot_cpu_has(need_{name}, {count})) puts("{name}");')
    source = '#include <stdio.h>\n#include "aot_cpu.h"\n' + "\n".join(tables)
    source += "\nint main(void) {\n" + "\n".join(lines) + "\n    return 0;\n}\n"
    (tmp_path / "main.c").write_text(source)
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
    include = f"-I{runtime_c() / 'src'}"
    made = run("gcc", *strict, include, tmp_path / "main.c", "-o", tmp_path / "main")
    assert made.returncode == 0, made.stderr
    found = run(tmp_path / "main").stdout.split()
    assert found == [name for name in names if name in cpu_flags()]


def test_every_name_is_the_bit_of_arm_linux(tmp_path: Path) -> None:
    gcc = need("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")
    lines = ["#include <asm/hwcap.h>"]
    for word, prefix in ((cpu_check._HWCAP, "HWCAP"), (cpu_check._HWCAP2, "HWCAP2")):
        lines += [
            f'_Static_assert({prefix}_{name.upper()} == 1UL << {bit}, "{name}");'
            for name, bit in cpu_check._AARCH64[word].items()
        ]
    (tmp_path / "bits.c").write_text("\n".join([*lines, ""]))
    done = run(gcc, "-std=c11", "-fsyntax-only", tmp_path / "bits.c")
    assert done.returncode == 0, done.stderr
    assert len(lines) > 20


def test_a_unit_that_nobody_can_ask_for(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('base = "x86-64"\nrequires = ["turbo"]\n')
    with pytest.raises(TargetError, match="requires 'turbo': x86_64 has no such unit") as caught:
        aot.compile(DIGITS, tmp_path / "out", target=str(tmp_path / "odd.toml"), configure=False)
    assert "avx512_vnni" in str(caught.value.hint)


def test_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """A unit that this CPU lacks, in a target whose code runs on any."""
    if machine() != "x86_64":
        pytest.skip("the target is x86-64's")
    lacking = [n for named in cpu_check._X86.values() for n in named if n not in cpu_flags()]
    if not lacking:
        pytest.skip("this CPU has every unit that has a name")
    (tmp_path / "far.toml").write_text(f'base = "x86-64"\nrequires = ["{lacking[0]}"]\n')
    bundle = aot.compile(DIGITS, tmp_path / "out", target=str(tmp_path / "far.toml"))
    bundle.build()
    with pytest.raises(TargetError, match=f"built for far, this CPU lacks {lacking[0]}"):
        bundle.load()
    monkeypatch.setattr("aot.api.check_cpu", lambda *_: None)  # as where the system does not tell
    with pytest.raises(VerifyError, match="digits_init returned status 20: the CPU lacks a unit"):
        bundle.load()
    assert main(["bench", str(tmp_path / "out")]) == 1
    assert f"this CPU lacks {lacking[0]}" in capsys.readouterr().err
