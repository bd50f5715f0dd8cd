# SPDX-License-Identifier: Apache-2.0
"""Bundles through CMake: compilers, sanitizers, ways to use one in a project, the runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from abi import toy
from abi.test_context import arrays, expected
from aot.dtypes import BOOL, F16
from aot.program import Arg, Program, Role
from aot.resources import cmake

WARNINGS = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion"]


def needs(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def run_mixed(program: Path, folder: Path, *options: str) -> list[np.ndarray]:
    ins, outs = arrays()
    for i, a in enumerate(ins):
        a.tofile(folder / f"in{i}.bin")
    command = [str(program), *options]
    for i in range(2):
        command += ["--input", f"{i}={folder / f'in{i}.bin'}"]
    for i in range(3):
        command += ["--output", f"{i}={folder / f'out{i}.bin'}"]
    toy.run(*command)
    files = [folder / f"out{i}.bin" for i in range(3)]
    return [np.fromfile(f, a.dtype).reshape(a.shape) for f, a in zip(files, outs, strict=True)]


def check(outs: list[np.ndarray]) -> None:
    for got, want in zip(outs, expected(arrays()[0]), strict=True):
        np.testing.assert_array_equal(got, want)


# -- Compilers and sanitizers ---------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sanitizers(compiler: str, tmp_path: Path) -> None:
    needs(compiler)
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
    needs("clang")
    out = toy.build(toy.mlp("big", hidden=1024), tmp_path, compiler="clang")
    toy.run(str(out / "bin" / "big"), "--fill", "1")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_headers_are_cxx(compiler: str, standard: str, tmp_path: Path) -> None:
    needs(compiler)
    for path, content in toy.emit(toy.mixed()).items():
        if path.startswith("include/"):
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bytes(content))
    (tmp_path / "t.cpp").write_text(
        '#include "mixed.h"\n#include "tvmgen_mixed.h"\n'
        "int main() { mixed_context c; DLTensor t{}; t.device.device_type = kDLCPU;\n"
        "  const DLTensor *in[] = {&t, &t}; DLTensor *out[] = {&t, &t, &t};\n"
        "  return mixed_init(&c, nullptr, 0) == AOT_OK && mixed_run(&c, in, out) == AOT_OK; }\n"
    )
    include = f"-I{tmp_path / 'include'}"
    source = [str(tmp_path / "t.cpp"), "-o", str(tmp_path / "t.o")]
    toy.run(compiler, f"-std={standard}", *WARNINGS, "-Werror", include, "-c", *source)


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_lives_with_the_official_dlpack_header(first: str, tmp_path: Path) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
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
    ("gcc", ["-m32"]),
    ("clang", ["--target=i386-linux-gnu", "-ffreestanding", "-nostdlibinc"]),
    ("clang", ["--target=armv7m-none-eabi", "-ffreestanding", "-nostdlibinc", "-fshort-enums"]),
    ("clang", ["--target=riscv32-none-elf", "-ffreestanding", "-nostdlibinc"]),
    ("clang", ["--target=aarch64-none-elf", "-ffreestanding", "-nostdlibinc"]),
]


@pytest.mark.parametrize(("compiler", "flags"), LAYOUTS, ids=lambda v: "".join(v)[:30])
def test_dlpack_layouts(compiler: str, flags: list[str], tmp_path: Path) -> None:
    """The static assertions of aot/dlpack.h hold on every ABI a compiler here knows."""
    needs(compiler)
    source = tmp_path / "t.c"
    source.write_text('#include "aot/dlpack.h"\n')
    command = [compiler, "-std=c99", *flags, f"-I{toy.RUNTIME / 'include'}", "-fsyntax-only"]
    probe = tmp_path / "probe.c"
    probe.write_text("#include <stdint.h>\n")
    if subprocess.run([*command, str(probe)], capture_output=True).returncode != 0:
        pytest.skip(f"{compiler} {' '.join(flags)} has no headers here")
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
            *(f"{name}_{f}" for f in ("init", "run", "shutdown", "output_shape")),
            *(f"tvmgen_{name}_run", f"tvmgen_{name}___tvm_main__", f"__tvm_ffi_{name}_run"),
        }


def test_writable_memory_is_the_built_in_arena_alone(mixed_out: Path) -> None:
    text = toy.run("nm", "-P", str(mixed_out / "lib" / "libmixed.a"))
    member, writable = "", {}
    for line in text.splitlines():
        parts = line.split()
        if line.endswith(":"):
            member = line
        elif len(parts) > 2 and parts[1] in "bBdDcC":
            writable.setdefault(member, []).append(parts[0])
    assert len(writable) == 1, writable
    ((member, names),) = writable.items()
    assert "mixed_static.c.o" in member
    assert sorted(names) == ["arena", "instance", "taken"]


def test_shared_library_needs_libc_alone(big_out: Path) -> None:
    with (big_out / "lib" / "libbig.so").open("rb") as f:
        dynamic = ELFFile(f).get_section_by_name(".dynamic")
        needed = {t.needed for t in dynamic.iter_tags("DT_NEEDED")}
    assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2"}


# -- In projects ----------------------------------------------------------------------------------

TWO_MODELS = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "first.h"
#include "second.h"
#include "tvmgen_first.h"
#include "tvmgen_second.h"

static float x[5] = {1, 2, 3, 4, 5};
static int64_t xs[2] = {1, 5}, ys[2] = {1, 3};

static DLTensor tensor(float *data, int64_t *shape)
{
    DLTensor t;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.device.device_type = kDLCPU;
    t.ndim = 2;
    t.dtype.code = kDLFloat;
    t.dtype.bits = 32;
    t.dtype.lanes = 1;
    t.shape = shape;
    return t;
}

#define WORKER(name, NAME) \\
    static void *work_##name(void *result) \\
    { \\
        AOT_ALIGNED(64) unsigned char arena[NAME##_ARENA_BYTES + 64]; \\
        unsigned char *start = arena + (64 - (uintptr_t)arena % 64) % 64; \\
        name##_context ctx; \\
        DLTensor in = tensor(x, xs), out = tensor((float *)result, ys); \\
        const DLTensor *ins[] = {&in}; \\
        DLTensor *outs[] = {&out}; \\
        int i; \\
        if (name##_init(&ctx, start, NAME##_ARENA_BYTES) != AOT_OK) \\
            return NULL; \\
        for (i = 0; i < 2000; ++i) \\
            if (name##_run(&ctx, ins, outs) != AOT_OK) \\
                return NULL; \\
        name##_shutdown(&ctx); \\
        return result; \\
    }
WORKER(first, FIRST)
WORKER(second, SECOND)

int main(void)
{
    pthread_t threads[4];
    float y[4][3], again[2][3];
    struct tvmgen_first_inputs in1 = {x};
    struct tvmgen_first_outputs out1 = {again[0]};
    struct tvmgen_second_inputs in2 = {x};
    struct tvmgen_second_outputs out2 = {again[1]};
    int i;
    for (i = 0; i < 4; ++i)
        pthread_create(&threads[i], NULL, i % 2 == 0 ? work_first : work_second, y[i]);
    for (i = 0; i < 4; ++i) {
        void *done;
        pthread_join(threads[i], &done);
        if (done == NULL)
            return 1;
    }
    if (tvmgen_first_run(&in1, &out1) != 0 || tvmgen_second_run(&in2, &out2) != 0)
        return 2;
    for (i = 0; i < 4; ++i)
        if (memcmp(y[i], again[i % 2], sizeof y[i]) != 0)
            return 3;
    for (i = 0; i < 6; ++i)
        printf("%.9g ", (double)again[i / 3][i % 3]);
    return 0;
}
"""


def test_two_models_in_one_program(tmp_path: Path) -> None:
    programs = [toy.mlp("first", hidden=1024), toy.mlp("second", hidden=700, seed=3)]
    for p in programs:
        toy.write_bundle(toy.emit(p), tmp_path / p.name)
    (tmp_path / "main.c").write_text(TWO_MODELS)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(Threads REQUIRED)\n"
        "add_subdirectory(first/bundle)\nadd_subdirectory(second/bundle)\n"
        "add_executable(app main.c)\n"
        "target_link_libraries(app PRIVATE aot::first aot::second Threads::Threads)\n"
    )
    toy.configure(tmp_path, tmp_path / "b", cflags="-fsanitize=thread -g")
    toy.run("cmake", "--build", str(tmp_path / "b"))
    assert not list((tmp_path / "b").rglob("*.so"))
    values = np.array(toy.run(str(tmp_path / "b" / "app")).split(), np.float32).reshape(2, 3)
    x = np.arange(1, 6, dtype=np.float32)
    for p, got in zip(programs, values, strict=True):
        np.testing.assert_allclose(got, toy.mlp_reference(p, x)[0], rtol=1e-4, atol=1e-4)


def test_installed_and_found(big_out: Path, tmp_path: Path) -> None:
    toy.run("cmake", "--install", str(big_out), "--prefix", str(tmp_path / "usr"))
    (tmp_path / "main.c").write_text(
        '#include "big.h"\nint main(void) { big_context c; return (int)big_init(&c, 0, 0); }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(big 0.1 REQUIRED)\n"
        "foreach(kind big big-shared)\n  add_executable(app-${kind} main.c)\n"
        "  target_link_libraries(app-${kind} PRIVATE aot::${kind})\nendforeach()\n"
    )
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}"
    toy.configure(tmp_path, tmp_path / "b", prefix)
    toy.run("cmake", "--build", str(tmp_path / "b"))
    toy.run(str(tmp_path / "b" / "app-big"))
    toy.run(str(tmp_path / "b" / "app-big-shared"))


def test_moved_bundle_with_constants_as_c(tmp_path: Path) -> None:
    program = toy.mlp("big", hidden=1024)
    bundle = toy.write_bundle(toy.emit(program), tmp_path / "out")
    moved = shutil.move(bundle, tmp_path / "a folder, with (signs) é")
    x = np.arange(5, dtype=np.float32)
    x.tofile(tmp_path / "x.bin")
    results = []
    for option in ("ON", "OFF"):
        build = tmp_path / f"b{option}"
        toy.configure(Path(moved), build, f"-DAOT_WEIGHTS_C={option}", "-DAOT_WERROR=ON")
        toy.run("cmake", "--build", str(build))
        files = ["--input", f"0={tmp_path / 'x.bin'}", "--output", f"0={tmp_path / 'y.bin'}"]
        toy.run(str(build / "bin" / "big"), *files)
        results.append(np.fromfile(tmp_path / "y.bin", np.float32))
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], toy.mlp_reference(program, x)[0], rtol=1e-4, atol=1e-4)


def test_without_the_built_in_arena(tmp_path: Path) -> None:
    out = toy.build(toy.mixed(), tmp_path / "out", "-DAOT_STATIC_ARENA=OFF")
    check(run_mixed(out / "bin" / "mixed", tmp_path))
    symbols = toy.run("nm", "-P", str(out / "lib" / "libmixed.a"))
    assert not [s for s in symbols.splitlines() if len(s.split()) > 2 and s.split()[1] in "bBdD"]
    from abi.loader import NO_ARENA, Library

    library = Library(out, "mixed")
    assert library.init(library.context()) == NO_ARENA


def test_configuration_header_and_flags(tmp_path: Path) -> None:
    (tmp_path / "my_config.h").write_text(
        '#define AOT_ARENA_ATTR __attribute__((section(".bss.my_arena")))\n'
    )
    out = toy.build(
        toy.mixed(), tmp_path / "out", f"-DAOT_CONFIG={tmp_path / 'my_config.h'}", cflags="-DMINE=1"
    )
    text = toy.run("objdump", "-h", str(out / "lib" / "libmixed.a"))
    assert ".bss.my_arena" in text
    commands = (out / "CMakeFiles" / "mixed-objects.dir" / "flags.make").read_text()
    assert "-DMINE=1" in commands
    assert "-O3" in commands


def test_example_compiles_and_runs(big_out: Path, tmp_path: Path) -> None:
    bundle = big_out / "bundle"
    library = str(big_out / "lib" / "libbig.a")
    program = str(tmp_path / "example")
    flags = ["-std=c99", *WARNINGS, "-Werror", f"-I{bundle / 'include'}"]
    toy.run("gcc", *flags, str(bundle / "example_main.c"), library, "-lm", "-o", program)
    assert toy.run(program) == "big: ok\n"


def test_compiled_without_cmake_as_the_readme_says(tmp_path: Path) -> None:
    bundle = toy.write_bundle(toy.emit(toy.mlp("big", hidden=1024)), tmp_path)
    readme = (bundle / "README.md").read_text()
    flags = next(line for line in readme.splitlines() if "-ffp-contract" in line).split()
    sources = sorted(str(p) for p in bundle.glob("src/*.c") if p.name != "big_ffi.c")
    include = [f"-I{bundle / 'include'}", f"-I{bundle / 'src'}", "-DAOT_VLEN=4"]
    program = [str(bundle / "example_main.c"), "-o", str(tmp_path / "app")]
    toy.run("gcc", "-O2", *flags, *include, *sources, *program, "-lm")
    assert toy.run(str(tmp_path / "app")) == "big: ok\n"


MODEL = """
import onnx
from onnx import helper as h
x, y = (h.make_tensor_value_info(n, 1, [1, {size}]) for n in "xy")
graph = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), {path!r})
"""


def make_model(path: Path, size: int) -> None:
    toy.run(sys.executable, "-c", MODEL.format(size=size, path=str(path)))


def test_aot_add_model(tmp_path: Path) -> None:
    make_model(tmp_path / "relu.onnx", 4)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "tvmgen_net.h"\n'
        'int main(void) { printf("%d\\n", TVMGEN_NET_X_SIZE); return 0; }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(aotc REQUIRED)\n"
        "aot_add_model(net relu.onnx OPTIONS --target x86-64)\n"
        "aot_add_model(test relu.onnx OPTIONS --target x86-64)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE aot::net aot::test)\n"
    )
    command = f"-DAOTC_COMMAND={sys.executable};-m;aot"
    toy.configure(tmp_path, tmp_path / "b", command, f"-Daotc_DIR={cmake()}")
    toy.run("cmake", "--build", str(tmp_path / "b"))
    assert toy.run(str(tmp_path / "b" / "app")) == "16\n"
    stamp = tmp_path / "b" / "aot-net" / "compiled-from.txt"
    before = stamp.stat().st_mtime_ns
    toy.run("cmake", str(tmp_path / "b"))
    assert stamp.stat().st_mtime_ns == before
    make_model(tmp_path / "relu.onnx", 5)
    toy.run("cmake", "--build", str(tmp_path / "b"))
    assert toy.run(str(tmp_path / "b" / "app")) == "20\n"


# -- The runner -----------------------------------------------------------------------------------


def refused(program: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run([str(program), *options], capture_output=True, text=True)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.returncode, done.stderr


def test_runner_runs_and_times(mixed_out: Path, tmp_path: Path) -> None:
    program = mixed_out / "bin" / "mixed"
    check(run_mixed(program, tmp_path))
    check(run_mixed(program, tmp_path, "--repeat", "3", "--warmup", "0"))
    timing = json.loads(toy.run(str(program), "--fill", "7", "--repeat", "5"))
    assert timing["runs"] == len(timing["cpu_ns"]) == len(timing["wall_ns"]) == 5
    for clock in ("cpu", "wall"):
        times = sorted(timing[f"{clock}_ns"])
        assert timing[f"{clock}_min_ns"] == times[0] >= 0
        assert timing[f"{clock}_median_ns"] == times[2]
        assert timing[f"{clock}_max_ns"] == times[-1]
    assert json.loads(toy.run(str(program), "--info")) == {
        "name": "mixed", "arena_bytes": 128, "inputs": [24, 8], "outputs": [24, 8, 8],
    }  # fmt: skip


def test_runner_refuses(mixed_out: Path, tmp_path: Path) -> None:
    program = mixed_out / "bin" / "mixed"
    (tmp_path / "short").write_bytes(bytes(23))
    (tmp_path / "long").write_bytes(bytes(25))
    for options, code, words in (
        ((), 2, "input 0 is missing"),
        (("--input", "0=/nonexistent", "--fill", "1"), 1, "cannot open /nonexistent"),
        (("--input", f"0={tmp_path / 'short'}", "--fill", "1"), 1, "fewer bytes than the 24"),
        (("--input", f"0={tmp_path / 'long'}", "--fill", "1"), 1, "more bytes than the 24"),
        (("--input", "2=x"), 2, "there are 2"),
        (("--input", "x"), 2, "write I=FILE"),
        (("--output", "-1=x"), 2, "there are 3"),
        (("--repeat", "0"), 2, "not an integer from 1 on"),
        (("--repeat", "1x"), 2, "not an integer"),
        (("--repeat",), 2, "needs a value"),
        (("--frobnicate", "1"), 2, "unknown option --frobnicate"),
        (("file",), 2, "unexpected argument file"),
        (("--trace", "."), 2, "need the program mixed-trace"),
        (("--profile", "1"), 2, "need the program mixed-trace"),
        (("--fill", "1", "--output", "0=/nonexistent/y"), 1, "cannot write /nonexistent/y"),
    ):
        got, text = refused(program, *options)
        assert (got, words in text) == (code, True), (options, got, text)


def test_trace_and_profile(mixed_out: Path, tmp_path: Path) -> None:
    toy.run("cmake", "--build", str(mixed_out), "--target", "mixed-trace")
    program = mixed_out / "bin" / "mixed-trace"
    manifest = json.loads((mixed_out / "bundle" / "manifest.json").read_text())
    (tmp_path / "dump").mkdir()
    outs = run_mixed(program, tmp_path, "--trace", str(tmp_path / "dump"))
    check(outs)
    lines = (tmp_path / "dump" / "index.jsonl").read_text().splitlines()
    index = [json.loads(line) for line in lines]
    declared = [
        (n["call"], k, w["tensor"], w["nbytes"])
        for n in manifest["nodes"]
        for k, w in enumerate(n["writes"])
    ]
    assert [(e["call"], e["k"], e["tensor"], e["bytes"]) for e in index] == declared
    values = {e["tensor"]: (tmp_path / "dump" / e["file"]).read_bytes() for e in index}
    assert values["sum_out"] == outs[0].tobytes()
    assert values["s"][16:] == outs[1].tobytes()
    assert values["count"] == outs[2].tobytes()
    profile = json.loads(toy.run(str(program), "--fill", "1", "--profile", "3"))
    assert [c["call"] for c in profile["calls"]] == [0, 1, 2, 3]
    assert all(c["wall_median_ns"] >= 0 for c in profile["calls"])


def test_a_kernel_that_fails_ends_the_run(tmp_path: Path) -> None:
    m = toy.Maker("net")
    m.tensor("x", (1,), Role.INPUT)
    m.tensor("t", (1,), Role.TEMP)
    m.tensor("y", (1,), Role.OUTPUT)
    m.call("aot_toy_fail", Arg("t", toy.W), Arg("x", toy.R), status=True)
    m.call("aot_copy", Arg("y", toy.W), Arg("t", toy.R), params={"bytes": 4}, header="aot_copy.h")
    out = toy.build(m.program(["x"], ["y"]), tmp_path)
    code, text = refused(out / "bin" / "net", "--fill", "1")
    assert code == 1
    assert "a vendor library reported an error" in text
