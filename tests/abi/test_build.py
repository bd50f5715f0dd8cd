# SPDX-License-Identifier: Apache-2.0
"""Bundles through CMake: compilers, sanitizers, symbols, vendors."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from abi import toy
from abi.test_context import check, run_mixed
from abi.toy import WARNINGS
from aot.emit_c import vendors
from aot.ir.dtypes import BOOL, F16
from aot.ir.program import Arg, Program, Role
from aot.vendor.backend import Backend
from needs import need, need_module

# -- Compilers and sanitizers ---------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sanitizers(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    out = toy.build(toy.mixed(), tmp_path / "out", compiler=compiler, cflags=flags)
    check(run_mixed(out / "bin" / "mixed", tmp_path))
    toy.run("cmake", "--build", str(out), "--target", "mixed-trace")
    check(run_mixed(out / "bin" / "mixed-trace", tmp_path))


def no_inputs():
    m = toy.Maker("odd")
    m.tensor("y", (2,), Role.OUTPUT)
    m.const("c", np.arange(2, dtype=np.float32))
    m.call("aot_copy", Arg("y", toy.W), Arg("c", toy.R), params={"bytes": 8}, header="aot_copy.h")
    return m.program([], ["y"])


def no_elements():
    m = toy.Maker("odd")
    m.tensor("workspace", (0, 3), Role.INPUT)
    m.tensor("flag", (), Role.INPUT, BOOL)
    m.tensor("t", (0, 3), Role.TEMP)
    m.tensor("y", (0, 3), Role.OUTPUT)
    m.tensor("z", (), Role.OUTPUT, F16)
    m.const("c", np.array(1.5, np.float16))
    for y, x, size in (("t", "workspace", 0), ("y", "t", 0), ("z", "c", 2)):
        m.call("aot_copy", Arg(y, toy.W), Arg(x, toy.R), params={"bytes": size},
               header="aot_copy.h")  # fmt: skip
    return m.program(["workspace", "flag"], ["y", "z"])


@pytest.mark.parametrize("program", [no_inputs(), no_elements()], ids=["inputs", "elements"])
def test_nothing_to_compute_with(program: Program, tmp_path: Path) -> None:
    """No arena, no inputs, no elements: C has no arrays of size 0."""
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    out = toy.build(program, tmp_path, cflags=flags)
    toy.run(str(out / "bin" / "odd"), "--fill", "1")
    toy.run("cmake", "--build", str(out), "--target", "odd-trace")
    toy.run(str(out / "bin" / "odd-trace"), "--fill", "1", "--profile", "1")
    source, library = str(out / "bundle" / "example_main.c"), str(out / "lib" / "libodd.a")
    include = f"-I{out / 'bundle' / 'include'}"
    command = ["gcc", "-std=c99", *WARNINGS, "-Werror", *flags.split(), include, source, library]
    toy.run(*command, "-o", str(tmp_path / "app"))
    assert toy.run(str(tmp_path / "app")) == "odd: ok\n"


def test_clang_builds_the_weights_file(tmp_path: Path) -> None:
    need("clang")
    out = toy.build(toy.mlp("big", hidden=1024), tmp_path, compiler="clang")
    toy.run(str(out / "bin" / "big"), "--fill", "1")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_headers_are_cxx(compiler: str, standard: str, tmp_path: Path) -> None:
    need(compiler)
    for path, content in toy.emit(toy.mixed()).items():
        if path.startswith("include/"):
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bytes(content))
    (tmp_path / "t.cpp").write_text(
        '#include "mixed.h"\n#include "tvmgen_mixed.h"\n'
        "int main() { mixed_context c; DLTensor t{}; t.device.device_type = kDLCPU;\n"
        "  const DLTensor *in[] = {&t, &t}; DLTensor *out[] = {&t, &t, &t};\n"
        "  return mixed_init(&c, mixed_arena(), MIXED_ARENA_BYTES) == AOT_OK &&\n"
        "         mixed_run(&c, in, out) == AOT_OK; }\n"
    )
    include = f"-I{tmp_path / 'include'}"
    source = [str(tmp_path / "t.cpp"), "-o", str(tmp_path / "t.o")]
    toy.run(compiler, f"-std={standard}", *WARNINGS, "-Werror", include, "-c", *source)


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_lives_with_the_official_dlpack_header(first: str, tmp_path: Path) -> None:
    tvm_ffi = need_module("tvm_ffi")
    root = Path(tvm_ffi.__file__).parent
    official = next(root.rglob("dlpack/dlpack.h"), None)
    assert official is not None
    includes = ["#include <dlpack/dlpack.h>", '#include "aot/dlpack.h"']
    text = "\n".join(includes if first == "theirs" else includes[::-1])
    for suffix, compiler, standard in ((".c", "gcc", "c99"), (".cpp", "g++", "c++17")):
        source = tmp_path / f"t{suffix}"
        source.write_text(f"{text}\nint main(void) {{ DLManagedTensorVersioned t; (void)t; }}\n")
        folders = [f"-I{toy.RUNTIME / 'include'}", f"-I{official.parent.parent}"]
        toy.run(compiler, f"-std={standard}", *folders, "-c", str(source), "-o", os.devnull)


LAYOUTS = [
    ("gcc", ["-m64"]),
    ("gcc", ["-m32", "-ffreestanding"]),
    ("clang", ["--target=i386-linux-gnu", "-ffreestanding", "-nostdlibinc"]),
    ("clang", ["--target=armv7m-none-eabi", "-ffreestanding", "-nostdlibinc", "-fshort-enums"]),
    ("clang", ["--target=riscv32-none-elf", "-ffreestanding", "-nostdlibinc"]),
    ("clang", ["--target=aarch64-none-elf", "-ffreestanding", "-nostdlibinc"]),
]


@pytest.mark.parametrize(("compiler", "flags"), LAYOUTS, ids=lambda v: "".join(v)[:30])
def test_dlpack_layouts(compiler: str, flags: list[str], tmp_path: Path) -> None:
    """The static assertions of aot/dlpack.h hold on every ABI a compiler here knows."""
    need(compiler)
    source = tmp_path / "t.c"
    source.write_text('#include "aot/dlpack.h"\n')
    command = [compiler, "-std=c99", *flags, f"-I{toy.RUNTIME / 'include'}", "-fsyntax-only"]
    toy.run(*command, str(source))


def test_a_compiler_without_the_instructions_is_stopped(tmp_path: Path) -> None:
    program = toy.mlp()
    for path, content in toy.emit(program, target="x86-64-v4").items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes(content))
    include = [f"-I{tmp_path / 'include'}", f"-I{tmp_path / 'src'}", "-DAOT_VLEN=16"]
    command = [
        "gcc",
        "-march=x86-64-v3",
        *include,
        "-fsyntax-only",
        str(tmp_path / "src/net_run.c"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "net was generated for x86-64-v4" in done.stderr


# -- Symbols --------------------------------------------------------------------------------------

LIBC = {"memcpy", "memset", "memmove"}


def test_external_symbols(mixed_out: Path, big_out: Path) -> None:
    for out, name in ((mixed_out, "mixed"), (big_out, "big")):
        library = str(out / "lib" / f"lib{name}.a")
        prefixes = (f"{name}_", f"tvmgen_{name}_", f"__tvm_ffi_{name}_")
        defined = toy.run("nm", "-g", "--defined-only", "-P", library).splitlines()
        names = [line.split()[0] for line in defined if len(line.split()) > 2]
        assert names
        assert [n for n in names if not n.startswith(prefixes)] == []
        needed = toy.run("nm", "-u", "-P", library).splitlines()
        undefined = {line.split()[0] for line in needed if len(line.split()) == 2}
        foreign = {u for u in undefined if not u.startswith(prefixes)}
        assert foreign <= LIBC | {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}, foreign
        exported = toy.run("nm", "-D", "--defined-only", "-P", library.replace(".a", ".so"))
        public = {line.split()[0] for line in exported.splitlines()}
        assert public == {
            *(f"{name}_{f}" for f in ("arena", "init", "run", "shutdown", "output_shape")),
            *(f"tvmgen_{name}_run", f"tvmgen_{name}___tvm_main__", f"__tvm_ffi_{name}_run"),
        }


def test_writable_memory_is_of_the_arena_and_the_static_instance(mixed_out: Path) -> None:
    text = toy.run("nm", "-P", str(mixed_out / "lib" / "libmixed.a"))
    member, writable = "", {}
    for line in text.splitlines():
        parts = line.split()
        if line.endswith(":"):
            member = line.rpartition("[")[2].rstrip("]:")
        elif len(parts) > 2 and parts[1] in "bBdDcC":
            writable.setdefault(member, []).append(parts[0])
    assert {m: sorted(names) for m, names in writable.items()} == {
        "mixed_arena.c.o": ["arena"],
        "mixed_static.c.o": ["instance", "ready", "taken"],
    }


def test_shared_library_needs_libc_alone(big_out: Path) -> None:
    with (big_out / "lib" / "libbig.so").open("rb") as f:
        dynamic = ELFFile(f).get_section_by_name(".dynamic")
        needed = {t.needed for t in dynamic.iter_tags("DT_NEEDED")}
    assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2"}


def test_a_vendors_sources_are_a_library_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "npu.h").write_text(
        "/* npu */\n#include <stdint.h>\ntypedef struct npu_params { int32_t n; } npu_params;\n"
        "void npu(float *y, const float *x, const npu_params *p);\n"
    )
    (tmp_path / "npu.c").write_text(
        '#include "npu.h"\nvoid npu(float *y, const float *x, const npu_params *p)\n'
        "{ for (int32_t i = 0; i < p->n; ++i) y[i] = -x[i]; }\n"
    )
    npu = Backend("npu", sources=("npu.c",), folder=tmp_path)
    monkeypatch.setattr(vendors, "backends_of", lambda _names, _options: [npu])
    m = toy.Maker("net")
    m.tensor("x", (4,), Role.INPUT)
    m.tensor("y", (4,), Role.OUTPUT)
    m.call("npu", Arg("y", toy.W), Arg("x", toy.R), params={"n": 4}, header=f"{tmp_path}/npu.h")
    m.calls[0] = replace(m.calls[0], backend="npu", region=0)
    out = toy.build(m.program(["x"], ["y"]), tmp_path / "out", backends=("npu",))
    np.arange(4, dtype=np.float32).tofile(tmp_path / "x")
    toy.run(str(out / "bin/net"), "--input", f"0={tmp_path}/x", "--output", f"0={tmp_path}/y")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y", np.float32), [0, -1, -2, -3])
    defined = toy.run("nm", "-g", "--defined-only", "-P", str(out / "lib/libnet.a"))
    assert not any(line.startswith("npu") for line in defined.splitlines())
    assert "npu T" in toy.run("nm", "-g", "-P", str(out / "lib/libnet_vendors.a"))
    assert "npu" not in toy.run("nm", "-D", "--defined-only", "-P", str(out / "lib/libnet.so"))
    toy.run("cmake", "--install", str(out), "--prefix", str(tmp_path / "usr"))
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    assert manifest["regions"] == [{"region": 0, "backend": "npu", "calls": [0]}]
    assert "src/vendor/npu/npu.c" in {s["path"] for s in manifest["sources"]}
