# SPDX-License-Identifier: Apache-2.0
"""aot_vmath_f32.h against float64: units in the last place over a sweep of all float32 patterns."""

import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {
    "exp": (np.exp, 2.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 2.0),
    "tanh": (np.tanh, 2.0),
    "sigmoid": (lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))), 2.0),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), 2.0),
    "softplus": (lambda x: np.logaddexp(0.0, x), 3.0),
    "rint": (np.rint, 0.0),
    "floor": (np.floor, 0.0),
    "ceil": (np.ceil, 0.0),
}
FLAGS = {1: (), 4: (), 8: ("-mavx2", "-mfma"), 16: ("-mavx512f", "-mfma")}


def runnable(vlen: int) -> bool:
    """Whether this CPU executes vectors of `vlen` floats."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    need = {8: ("avx2", "fma"), 16: ("avx512f",)}.get(vlen, ())
    return all(f" {n}" in flags for n in need)


def build(folder: Path, vlen: int, contract: str) -> ctypes.CDLL:
    text = ['#include "aot_vmath_f32.h"', "#include <stddef.h>"]
    for name in FUNCTIONS:
        text.append(
            f"void v_{name}(float *y, const float *x, size_t n) {{ for (size_t i = 0; i < n;"
            f" i += AOT_VLEN) aot_vstore(y + i, aot_v{name}(aot_vload(x + i))); }}\n"
            f"void s_{name}(float *y, const float *x, size_t n) {{ for (size_t i = 0; i < n;"
            f" ++i) y[i] = aot_s{name}(x[i]); }}"
        )
    return compiled("\n".join(text), folder, vlen, contract)


def compiled(text: str, folder: Path, vlen: int, contract: str) -> ctypes.CDLL:
    source = folder / "vmath.c"
    source.write_text(text)
    library = folder / f"vmath{vlen}{contract}.so"
    warn = "-Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror -pedantic"
    flags = ["-std=c99", "-O2", "-shared", "-fPIC", *warn.split(" "), *FLAGS[vlen]]
    flags += [f"-ffp-contract={contract}", f"-DAOT_VLEN={vlen}"]
    flags += [f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels"]
    compiler = shutil.which("cc") or "cc"
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def call(lib: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    pointer = ctypes.POINTER(ctypes.c_float)
    getattr(lib, name)(
        y.ctypes.data_as(pointer), x.ctypes.data_as(pointer), ctypes.c_size_t(x.size)
    )
    return y


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of float32's spacing at want; 0 where both are NaN or equal."""
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    unit = np.spacing(np.abs(rounded)).astype(np.float64)
    unit = np.where(np.isfinite(unit), unit, np.spacing(np.float32(3.4e38)).astype(np.float64))
    same = (got == rounded) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(np.float64) - want) / unit
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def sweep() -> np.ndarray:
    patterns = np.arange(0, 2**32, 2003, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.linspace(-110, 110, 400_001).astype(np.float32)
    edge = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.72283, 88.72284, -103.97, -103.98]
        + [1.0, -1.0, 0.5, 2.5, -0.5, 8388607.5, 3.4e38, -3.4e38, 1.17549435e-38, 0.99999994],
        np.float32,
    )
    x = np.concatenate([patterns, near, edge])
    return np.concatenate([x, np.zeros(-x.size % 16, np.float32)])


@pytest.mark.parametrize(
    ("vlen", "contract"), [(1, "off"), (4, "off"), (8, "off"), (8, "fast"), (16, "off")]
)
def test_ulp(vlen, contract, tmp_path):
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    lib, x = build(tmp_path, vlen, contract), sweep()
    for name, (reference, limit) in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            want = np.asarray(reference(x.astype(np.float64)))
        got = call(lib, f"v_{name}", x)
        apart = ulps(got, want)
        worst = int(np.argmax(apart))
        print(f"V={vlen} {contract} {name}: {apart[worst]:.3f} ULP at {x[worst]!r}")
        assert apart[worst] <= limit, f"{name}({x[worst]!r}) = {got[worst]!r}"
        twin = call(lib, f"s_{name}", x)
        if contract == "off":
            same = (twin.view(np.int32) == got.view(np.int32)) | (np.isnan(twin) & np.isnan(got))
            assert same.all(), f"{name}: lane and scalar differ at {x[~same][:3]}"


# The call, z of x / (1 + exp(-z)), and how many roundings of z there are.
SMOOTH = {
    "silu": ("aot_{}silu({}, aot_{}set1(1.0F))", lambda x: x, 0),
    "gelu_tanh": (
        "aot_{}gelu_tanh({})",
        lambda x: math.sqrt(8 / math.pi) * (x + 0.044715 * x**3),
        4,
    ),
}


@pytest.mark.parametrize("vlen", [1, 4, 8, 16])
def test_smooth_activations(vlen, tmp_path):
    """x / (1 + exp(-z)) errs by 2.5 units in the last place and by the roundings of z, which are
    relative to z; below 88.3 times 2^-127.5 it is zero.
    """
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    text = ['#include "aot_vmath_f32.h"', "#include <stddef.h>"]
    for name, (call_of, *_) in SMOOTH.items():
        vector = call_of.format("v", "aot_vload(x + i)", "v")
        scalar = call_of.format("s", "x[i]", "s")
        text.append(
            f"void v_{name}(float *y, const float *x, size_t n) {{ for (size_t i = 0; i < n;"
            f" i += AOT_VLEN) aot_vstore(y + i, {vector}); }}\n"
            f"void s_{name}(float *y, const float *x, size_t n) {{ for (size_t i = 0; i < n;"
            f" ++i) y[i] = {scalar}; }}"
        )
    lib, x = compiled("\n".join(text), tmp_path, vlen, "off"), sweep()
    for name, (_, gate, roundings) in SMOOTH.items():
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            z = gate(wide)
            want = np.where(z < -800, wide * 0.0, wide / (1 + np.exp(-np.maximum(z, -800))))
        got, twin = call(lib, f"v_{name}", x), call(lib, f"s_{name}", x)
        apart = ulps(got, want)
        right = apart <= 2.5 + roundings * np.nan_to_num(np.minimum(np.abs(z), 128))
        right |= (z < -88.3) & (np.abs(got) <= 88.3 * 2**-127.5)
        print(f"V={vlen} {name}: {apart[np.abs(z) < 88].max():.3f} ULP")
        assert right.all(), f"{name}({x[~right][0]!r}) = {got[~right][0]!r}"
        same = (twin.view(np.int32) == got.view(np.int32)) | (np.isnan(twin) & np.isnan(got))
        assert same.all(), f"{name}: lane and scalar differ at {x[~same][:3]}"


RARE = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def test_rare_functions(tmp_path):
    text = ['#include "aot_rare_f32.h"']
    for name in RARE:
        text.append(
            f"void r_{name}(float *y, const float *x, size_t n)"
            f" {{ aot_rare_params p; p.n = (int64_t)n; aot_{name}_f32(y, x, &p); }}"
        )
    text.append(
        "void r_pow(float *y, const float *x, size_t n) { size_t i;"
        " for (i = 0; i < n; ++i) y[i] = (float)aot_rare_pow(x[i], x[n - 1 - i]); }"
    )
    lib = compiled("\n".join(text), tmp_path, 1, "off")
    x = sweep()[::2].copy()
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        for name, reference in RARE.items():
            apart = ulps(call(lib, f"r_{name}", x), reference(wide))
            worst = int(np.argmax(apart))
            print(f"{name}: {apart[worst]:.3f} ULP at {x[worst]!r}")
            assert apart[worst] <= 0.6, f"{name}({x[worst]!r})"
        x = np.concatenate([x[x > 0], np.linspace(-30, 30, 241, dtype=np.float32)])
        np.random.default_rng(0).shuffle(x)
        apart = ulps(call(lib, "r_pow", x), np.power(x.astype(np.float64), x[::-1]))
        assert apart.max() <= 0.6, x[np.argmax(apart)]
