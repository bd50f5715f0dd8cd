# SPDX-License-Identifier: Apache-2.0
"""Requantisation: the integer form gives the float32 form's bits, the third TFLite's."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.errors import UnsupportedError
from aot.vendor import requant

RUNTIME = Path(__file__).resolve().parents[2] / "runtime_c"
LIMIT = 2**21
Array = np.ndarray[Any, Any]
Run = Callable[[int, Array, Array, Array | None], Array]

SOURCE = r"""
#include "aot_requant.h"
void sums(int32_t *y, const int32_t *acc, const int32_t *mult, const int8_t *shift, int n, int rq);
void requantised(int32_t *y, const int32_t *acc, const int32_t *mult, const int8_t *shift, int n,
                 int rq);
#define LOOP(EXPR)                                                                                 \
    for (int i = 0; i < n; ++i) {                                                                  \
        const int32_t a = acc[i], m = mult[i], s = shift != NULL ? shift[i] : 0;                   \
        y[i] = (EXPR);                                                                             \
    }
void sums(int32_t *y, const int32_t *acc, const int32_t *mult, const int8_t *shift, int n, int rq) {
    if (rq == 0) {
        LOOP(aot_requant(a, m, s, 0))
    } else if (rq == 1) {
        LOOP(aot_requant(a, m, s, 1))
    } else {
        LOOP(aot_requant(a, m, s, 2))
    }
}
void requantised(int32_t *y, const int32_t *acc, const int32_t *mult, const int8_t *shift, int n,
                 int rq) {
    if (rq == 0) {
        LOOP(aot_requant_value(a, m, s, -5, -128, 120, 0))
    } else {
        LOOP(aot_requant_value(a, m, s, -5, -128, 120, 1))
    }
}
"""


FLAGS = {
    "sanitized": "-O1 -fsanitize=undefined -fno-sanitize-recover=all".split(),
    "fused": ["-O3", "-march=native", "-ffp-contract=fast"],
}


@pytest.fixture(scope="module", params=sorted(FLAGS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("requant")
    (folder / "r.c").write_text(SOURCE)
    warn = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror"
    includes = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}"]
    command = ["gcc", *warn.split(), *FLAGS[request.param], *includes]
    built = folder / "r.so"
    subprocess.run(
        [*command, "-shared", "-fPIC", "-o", str(built), str(folder / "r.c")], check=True
    )
    dll = ctypes.CDLL(str(built))

    def call(name: str, rq: int, acc: Array, mult: Array, shift: Array | None) -> Array:
        out = np.zeros(acc.size, np.int32)
        arrays = [out, acc.astype(np.int32), mult, shift]
        pointers = [None if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
        getattr(dll, name)(*pointers, acc.size, rq)
        return out

    return call


def definition(acc: Array, scale: Array) -> Array:
    """round(float32(acc) * scale), halves to even, limited."""
    return np.clip(np.rint(acc.astype(np.float32) * scale), -LIMIT, LIMIT).astype(np.int32)


def near_ties(scale: Array, rng: np.random.Generator, largest: int) -> Array:
    """Sums whose product with the scale is next to k + 1/2, |k| <= largest."""
    k = rng.integers(-largest, largest + 1, scale.size)
    exact = (k + 0.5) / scale.astype(np.float64)
    near = np.rint(np.clip(exact, -(2**31), 2**31 - 1)) + rng.integers(-2, 3, scale.size)
    return np.clip(near, -(2**31), 2**31 - 1).astype(np.int64)


def sums_and_scales() -> tuple[Array, Array]:
    """Random and adversarial pairs."""
    rng = np.random.default_rng(3)
    n = 60000
    usual = np.exp2(rng.uniform(-18, 2, n)).astype(np.float32)
    wide = np.exp2(rng.uniform(-45, 4.99, n)).astype(np.float32)
    # Significands of few bits make exact ties.
    short = (rng.integers(1, 64, n) * np.exp2(rng.integers(-30, -2, n))).astype(np.float32)
    short = np.minimum(short, np.float32(31))
    tiny = np.array([2.0**-33, 2.0**-34, 1e-38, 1e-42, 2.0**-149, 2.0**-33 * 1.5], np.float32)
    whole = np.array([-(2**31), 2**31 - 1, 0, 1, -1, 2**24, 2**24 + 1, -(2**24) - 3, 2**25 + 2])
    pairs = [
        (rng.integers(-(2**17), 2**17, n), usual),
        (near_ties(usual, rng, 140), usual),
        (near_ties(short, rng, 300), short),
        (near_ties(wide, rng, 70000), wide),
        (rng.integers(-(2**31), 2**31, n), wide),
        (np.repeat(whole, 400), np.tile(np.exp2(rng.uniform(-40, 4.9, 400)), 9)),
        (np.repeat(whole, tiny.size), np.tile(tiny, whole.size)),
    ]
    acc = np.concatenate([a for a, _ in pairs]).astype(np.int64)
    return acc, np.concatenate([s for _, s in pairs]).astype(np.float32)


def test_float_and_integer_forms_are_the_definition(run: Any) -> None:
    acc, scale = sums_and_scales()
    expected = definition(acc, scale)
    ones = np.ones(scale.size, np.float32)
    for rq in (requant.FLOAT, requant.INTEGER):
        mult, shift = requant.multipliers(1.0, scale, 1.0, rq)
        np.testing.assert_array_equal(run("sums", rq, acc, mult, shift), expected)
        quantised = np.clip(expected, -123, 125) - 5
        np.testing.assert_array_equal(run("requantised", rq, acc, mult, shift), quantised)
    assert np.array_equal(requant.scales(1.0, scale, 1.0), scale * ones)
    ties = np.abs(acc * scale.astype(np.float64) % 1 - 0.5) < 1e-12
    assert ties.sum() > 1000, "the pairs contain no ties"


def tflite(acc: int, mult: int, shift: int) -> int:
    """The two roundings as TensorFlow Lite's reference writes them, on unlimited integers."""
    left, right = max(shift, 0), max(-shift, 0)
    product = (acc << left) * mult
    nudge = 2**30 if product >= 0 else 1 - 2**30
    high = int(math.copysign((abs(product + nudge)) >> 31, product + nudge))
    mask = (1 << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return (high >> right) + ((high & mask) > threshold)


def test_fixed_point_is_tflites(run: Any) -> None:
    acc, scale = sums_and_scales()
    keep = np.abs(acc) < 2**30
    acc, scale = acc[keep][::3], scale[keep][::3]
    mult, shift = requant.multipliers(1.0, scale, 1.0, requant.TFLITE)
    assert shift is not None
    expected = [tflite(int(a), int(m), int(s)) for a, m, s in zip(acc, mult, shift, strict=True)]
    small = np.abs(np.array(expected)) < 2**30 // 32
    got = run("sums", requant.TFLITE, acc, mult, shift)
    np.testing.assert_array_equal(got[small], np.array(expected)[small])
    assert (np.abs(got[~small]) >= 2**30 // 64).all()


def test_multiplier_parts() -> None:
    assert requant.fixed_point(0.5) == (2**30, 0)
    assert requant.fixed_point(1.0) == (2**30, 1)
    assert requant.fixed_point(math.nextafter(1.0, 0.0)) == (2**30, 1)
    assert requant.fixed_point(2.0**-40) == (0, 0)
    mult, shift = requant.multipliers(0.5, np.array([0.25], np.float32), 0.125, requant.INTEGER)
    assert shift is not None and mult[0] * 2.0 ** -(25 + int(shift[0])) == 1.0


@pytest.mark.parametrize("bad", [0.0, -0.5, math.nan, math.inf])
def test_bad_scales_are_refused(bad: float) -> None:
    one = np.ones(1, np.float32)
    for sx, sw, sy in ((bad, one, 1.0), (1.0, one * np.float32(bad), 1.0), (1.0, one, bad)):
        assert "needs a positive number" in requant.refusal(sx, sw, sy)
        with pytest.raises(UnsupportedError, match="scale"):
            requant.multipliers(sx, sw, sy, requant.FLOAT)
    assert "becomes 32 steps" in requant.refusal(32.0, one, 1.0)
    assert "steps" in requant.refusal(1e30, one * np.float32(1e30), 1.0)
