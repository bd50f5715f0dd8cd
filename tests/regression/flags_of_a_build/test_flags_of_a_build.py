# SPDX-License-Identifier: Apache-2.0
"""Sources compiled by hand with other macros or flags crashed or gave silently wrong numbers.

Constants and scratch are laid out for one AOT_VLEN, which only the bundle's own CMake passed;
without it kernels took one lane. -ffast-math lost NaN, another byte order would misread constants,
and what stands in for a vendor wants another arena.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import toy
from aot.target import load_target
from graphs import model

SHAPE = (2, 16, 6, 6)
MAIN = """
#include <stdio.h>
#include "tvmgen_one.h"
#include "tvmgen_two.h"
static float x[1152], y[2][1152];
int main(void) {
    struct tvmgen_one_inputs a = {x};
    struct tvmgen_two_inputs b = {x};
    struct tvmgen_one_outputs c = {y[0]};
    struct tvmgen_two_outputs d = {y[1]};
    int i;
    for (i = 0; i < 1152; ++i)
        x[i] = (float)(i % 7) - 3.0F;
    if (tvmgen_one_run(&a, &c) != 0 || tvmgen_two_run(&b, &d) != 0)
        return 1;
    for (i = 0; i < 1152; ++i)
        if (!(y[0][i] - y[1][i] < 1e-4F && y[1][i] - y[0][i] < 1e-4F))
            return 2;
    return y[0][600] == 0.0F;
}
"""


def convolution(folder: Path, target: str, name: str, **more: object) -> Path:
    """The bundle of a convolution, whose weights are packed in blocks of the vector's width."""
    weights = np.linspace(-1, 1, 16 * 16 * 9, dtype=np.float32).reshape(16, 16, 3, 3)
    rows = [("Conv", "x w", "y", {"pads": [1, 1, 1, 1]})]
    proto = model(rows, {"x": SHAPE}, {"y": SHAPE}, {"w": weights})
    out = folder / name
    aot.compile(proto, out, target=target, name=name, configure=False, **more)
    return out / "bundle"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convolution(tmp_path_factory.mktemp("by_hand"), "x86-64", "one")


def sources(bundle: Path) -> list[str]:
    return sorted(str(p) for p in bundle.glob("src/*.c") if not p.name.endswith("_ffi.c"))


def includes(bundle: Path) -> list[str]:
    return [f"-I{bundle / 'include'}", f"-I{bundle / 'src'}"]


def refused(bundle: Path, *flags: str, compiler: str = "gcc", file: str = "src/one_run.c") -> str:
    """What the compiler says of a source; "" if it takes it."""
    command = [compiler, "-fsyntax-only", *flags, *includes(bundle), str(bundle / file)]
    return subprocess.run(command, capture_output=True, text=True).stderr


@pytest.mark.parametrize("width", [1, 8, 16])
def test_another_width_is_refused(bundle: Path, width: int) -> None:
    said = refused(bundle, f"-DAOT_VLEN={width}", "-march=x86-64-v4")
    assert "one was generated for AOT_VLEN 4: compile it with -DAOT_VLEN=4 or without" in said


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_width_needs_no_flag(bundle: Path, compiler: str) -> None:
    for flags in ([], ["-DAOT_VLEN=4"], ["-std=c99", *toy.WARNINGS, "-Werror"]):
        assert refused(bundle, *flags, compiler=compiler) == ""


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", "-ffast-math"),
        ("gcc", "-Ofast"),
        ("gcc", "-funsafe-math-optimizations"),
        ("gcc", "-fassociative-math -fno-signed-zeros -fno-trapping-math"),
        ("gcc", "-ffinite-math-only"),
        ("gcc", "-freciprocal-math"),
        ("clang", "-ffast-math"),
        ("clang", "-ffinite-math-only"),
    ],
)
def test_floats_that_are_none_are_refused(bundle: Path, compiler: str, flags: str) -> None:
    said = refused(bundle, *flags.split(), compiler=compiler)
    assert "one needs the floats of IEEE 754: compile it without -ffast-math" in said


def test_other_processors_are_refused(bundle: Path) -> None:
    assert "rounded to their type" in refused(bundle, "-mfpmath=387")
    # No compiler for another order is needed: the order is a macro.
    big = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]
    assert "constants of one are little-endian" in refused(bundle, *big)


def test_cmake_takes_such_flags_back(bundle: Path, tmp_path: Path) -> None:
    flags = "-Ofast -funsafe-math-optimizations -ffinite-math-only -freciprocal-math"
    toy.configure(bundle, tmp_path, cflags=flags)
    toy.run("cmake", "--build", str(tmp_path), "--target", "one")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c99", "gnu99"])
def test_strict_needs_no_flag(compiler: str, standard: str, tmp_path: Path) -> None:
    """Outside of ISO C gcc fuses products and sums by default, clang always within a statement."""
    strict = convolution(tmp_path, "x86-64-v3", "one", accuracy="strict")
    warnings = toy.WARNINGS if standard == "c99" else ["-Wall", "-Wextra", "-Wconversion"]
    command = [compiler, "-O2", "-march=x86-64-v3", f"-std={standard}", *warnings, "-Werror"]
    file = str(strict / "src/one_run.c")
    assert "vfmadd" not in toy.run(*command, *includes(strict), "-S", "-o", "-", file)
    normal = convolution(tmp_path, "x86-64-v3", "two")
    file = str(normal / "src/two_run.c")
    assert "vfmadd" in toy.run(
        *command, "-ffp-contract=fast", *includes(normal), "-S", "-o", "-", file
    )


def test_models_of_two_widths_in_one_program(bundle: Path, tmp_path: Path) -> None:
    """By hand, with the same flags for all files: no macro could be right for both."""
    if not load_target("x86-64-v3").runs_here():
        pytest.skip("this processor has no AVX2")
    other = convolution(tmp_path, "x86-64-v3", "two")
    (tmp_path / "main.c").write_text(MAIN)
    files = [*sources(bundle), *sources(other), str(tmp_path / "main.c")]
    program = str(tmp_path / "main")
    flags = ["-O1", "-std=gnu99", "-march=x86-64-v3"]
    # The headers that both have are the same; each finds its own kernels beside its sources.
    folders = [*includes(bundle), *includes(other)]
    toy.run("gcc", *flags, *folders, *files, "-lm", "-o", program)
    toy.run(program)


def test_what_stands_in_for_a_vendor_needs_its_arena(tmp_path: Path) -> None:
    bundle = convolution(tmp_path, "x86-64", "one", backends=("cblas",))
    without = "-DAOT_WITHOUT_CBLAS"
    vendors, instead = "src/one_cblas.c", "src/one_cblas_portable.c"
    assert refused(bundle, file=instead) != refused(bundle, without, file=instead) == ""
    assert f"all sources need {without}" in refused(bundle, file=instead)
    kernels = f"-I{bundle / 'src' / 'kernels'}"
    assert "one_cblas.c is no part of it" in refused(bundle, without, kernels, file=vendors)
    assert refused(bundle, kernels, file=vendors) == ""
