# SPDX-License-Identifier: Apache-2.0
"""Programs around a bundle: C++, microTVM's C, bundles of two versions of aotc in one program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from abi import toy
from abi.toy import WARNINGS
from needs import need

CXX_PROGRAM = """
#include <cstdio>
#include <vector>
#include "big.h"

namespace {
DLTensor view(std::vector<float> &v, std::vector<int64_t> &shape) {
    DLTensor t{};
    t.data = v.data();
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape.size());
    t.dtype = {2, 32, 1};
    t.shape = shape.data();
    return t;
}
}  // namespace

int main() {
    std::vector<int64_t> in_shape{1, 5}, out_shape{1, 3};
    std::vector<float> x{1, 2, 3, 4, 5}, y(3);
    std::vector<unsigned char> memory(BIG_ARENA_BYTES + BIG_ARENA_ALIGN);
    auto at = reinterpret_cast<uintptr_t>(memory.data());
    void *arena = memory.data() + (BIG_ARENA_ALIGN - at % BIG_ARENA_ALIGN) % BIG_ARENA_ALIGN;
    const DLTensor in = view(x, in_shape);
    DLTensor out = view(y, out_shape);
    const DLTensor *ins[] = {&in};
    DLTensor *outs[] = {&out};
    big_context context;
    if (big_init(&context, arena, BIG_ARENA_BYTES) != AOT_OK) return 1;
    if (big_run(&context, ins, outs) != AOT_OK) return 2;
    big_shutdown(&context);
    if (big_run(&context, ins, outs) != AOT_NOT_INIT) return 3;
    for (float v : y) std::printf("%.9g ", static_cast<double>(v));
}
"""

#: All that microTVM's C host driven applications know: two structs, a function, sizes.
MICROTVM_PROGRAM = """
#include <stdio.h>
#include "tvmgen_big.h"
int main(void) {
    float x[TVMGEN_BIG_X_SIZE / sizeof(float)] = {1, 2, 3, 4, 5};
    float y[TVMGEN_BIG_Y_SIZE / sizeof(float)];
    struct tvmgen_big_inputs inputs = {x};
    struct tvmgen_big_outputs outputs = {y};
    unsigned i;
    if (tvmgen_big_run(&inputs, &outputs) != 0)
        return 1;
    for (i = 0; i < sizeof y / sizeof y[0]; ++i)
        printf("%.9g ", (double)y[i]);
    return 0;
}
"""


def want() -> np.ndarray:
    x = np.arange(1, 6, dtype=np.float32)
    return toy.mlp_reference(toy.mlp("big", hidden=1024), x)[0]


def numbers(program: Path) -> np.ndarray:
    return np.array(toy.run(str(program)).split(), np.float32)


@pytest.mark.parametrize(
    ("compiler", "standard"), [("g++", "c++11"), ("g++", "c++20"), ("clang++", "c++17")]
)
def test_cxx_program(compiler: str, standard: str, big_out: Path, tmp_path: Path) -> None:
    need(compiler)
    source, program = tmp_path / "main.cpp", tmp_path / "app"
    source.write_text(CXX_PROGRAM)
    flags = [f"-std={standard}", *WARNINGS, "-Werror", f"-I{big_out / 'bundle/include'}"]
    library = str(big_out / "lib/libbig.a")
    toy.run(compiler, *flags, str(source), library, "-lm", "-o", str(program))
    np.testing.assert_allclose(numbers(program), want().ravel(), rtol=1e-4, atol=1e-4)


def test_microtvm_program(big_out: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "main.c", tmp_path / "app"
    source.write_text(MICROTVM_PROGRAM)
    flags = ["-std=c99", *WARNINGS, "-Werror", f"-I{big_out / 'bundle/include'}"]
    library = str(big_out / "lib/libbig.a")
    toy.run("gcc", *flags, str(source), library, "-lm", "-o", str(program))
    np.testing.assert_allclose(numbers(program), want().ravel(), rtol=1e-4, atol=1e-4)


USER = """
#include "NAME.h"
int NAME_answer(const float *x, float *y);
int NAME_answer(const float *x, float *y) {
    static int64_t in_shape[] = {1, 5}, out_shape[] = {1, 3};
    DLTensor in = {0}, out = {0};
    const DLTensor *ins[1];
    DLTensor *outs[1];
    static NAME_context context;
    in.data = (void *)(uintptr_t)x;
    out.data = y;
    in.device.device_type = out.device.device_type = kDLCPU;
    in.ndim = out.ndim = 2;
    in.dtype.code = out.dtype.code = 2;
    in.dtype.bits = out.dtype.bits = 32;
    in.dtype.lanes = out.dtype.lanes = 1;
    in.shape = in_shape;
    out.shape = out_shape;
    ins[0] = &in;
    outs[0] = &out;
    if (NAME_init(&context, NAME_arena(), SIZE) != AOT_OK)
        return 1;
    if (NAME_run(&context, ins, outs) != AOT_OK)
        return 2;
    NAME_shutdown(&context);
    return AOT_OK;
}
"""
BOTH = """
#include <stdio.h>
int old_answer(const float *x, float *y);
int big_answer(const float *x, float *y);
int main(void) {
    static const float x[] = {1, 2, 3, 4, 5};
    float y[6];
    int i;
    if (old_answer(x, y) != 0 || big_answer(x, y + 3) != 0)
        return 1;
    for (i = 0; i < 6; ++i)
        printf("%.9g ", (double)y[i]);
    return 0;
}
"""


def older(bundle: Path) -> None:
    """Make a bundle one of another aotc: other contexts, status numbers, ABI, helpers' bodies."""
    for path in bundle.rglob("*.[ch]"):
        text = path.read_text()
        text = re.sub(r"(#define AOT_ABI_VERSION) \d+", r"\1 77", text)
        text = re.sub(r"#if AOT_ABI_VERSION != \d+", "#if AOT_ABI_VERSION != 77", text)
        text = text.replace(
            "    uint32_t magic;\n", "    uint64_t before[3];\n    uint32_t magic;\n"
        )
        text = re.sub(r"AOT_NULL = 1\b", "AOT_NULL = 101", text)
        path.write_text(text)
    check = bundle / "src/aot_check.h"
    text = check.read_text()
    assert "static inline" in text
    check.write_text(text.replace("static inline", "static inline /* older */"))


def test_bundles_of_two_versions_in_one_program(tmp_path: Path) -> None:
    for name in ("old", "big"):
        toy.write_bundle(toy.emit(toy.mlp(name, hidden=1024)), tmp_path / name)
        (tmp_path / f"{name}_user.c").write_text(
            USER.replace("SIZE", f"{name.upper()}_ARENA_BYTES").replace("NAME", name)
        )
    older(tmp_path / "old/bundle")
    header = (tmp_path / "old/bundle/include/aot/aot.h").read_text()
    assert "AOT_ABI_VERSION 77" in header and "AOT_NULL = 101" in header
    (tmp_path / "main.c").write_text(BOTH)
    objects = []
    for name in ("old", "big"):
        build = tmp_path / name / "build"
        toy.configure(tmp_path / name / "bundle", build)
        toy.run("cmake", "--build", str(build))
        include = f"-I{tmp_path / name / 'bundle/include'}"
        made = str(tmp_path / f"{name}.o")
        toy.run("gcc", include, "-c", str(tmp_path / f"{name}_user.c"), "-o", made)
        objects += [made, str(build / f"lib/lib{name}.a")]
    program = tmp_path / "app"
    toy.run("gcc", str(tmp_path / "main.c"), *objects, "-lm", "-o", str(program))
    first, second = numbers(program).reshape(2, 3)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, want().ravel(), rtol=1e-4, atol=1e-4)


def test_mixed_up_headers_are_noticed(tmp_path: Path) -> None:
    toy.write_bundle(toy.emit(toy.mlp("old", hidden=16)), tmp_path / "old")
    toy.write_bundle(toy.emit(toy.mlp("big", hidden=16)), tmp_path / "big")
    older(tmp_path / "old/bundle")
    source = tmp_path / "t.c"
    source.write_text('#include "old.h"\n#include "big.h"\n')
    folders = [f"-I{tmp_path / n / 'bundle/include'}" for n in ("old", "big")]
    done = subprocess.run(
        ["gcc", *folders, "-fsyntax-only", str(source)], capture_output=True, text=True
    )
    assert done.returncode != 0 and "another version of aotc" in done.stderr
