# SPDX-License-Identifier: Apache-2.0
"""Ways to use a bundle: in a project, installed, moved, by aot_add_model, without CMake."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from abi import toy
from abi.toy import WARNINGS
from aot.emit_c.resources import cmake

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
        '#include "big.h"\nint main(void) { big_context c;\n'
        "  return (int)big_init(&c, big_arena(), BIG_ARENA_BYTES); }\n"
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


def test_configuration_header_and_flags(tmp_path: Path) -> None:
    (tmp_path / "my_config.h").write_text(
        '#define AOT_ARENA_ATTR __attribute__((section(".bss.my_arena")))\n'
    )
    given = f"-DAOT_CONFIG={tmp_path / 'my_config.h'}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    out = toy.build(toy.mixed(), tmp_path / "out", *given, cflags="-DMINE=1")
    text = toy.run("objdump", "-h", str(out / "lib" / "libmixed.a"))
    assert ".bss.my_arena" in text
    commands = (out / "compile_commands.json").read_text()
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
    include = [f"-I{bundle / 'include'}", f"-I{bundle / 'src'}"]
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
