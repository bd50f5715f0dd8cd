# SPDX-License-Identifier: Apache-2.0
"""Three versions of every formula agree: the machine's in C, NumPy's, and the portable kernels'."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import accel_arithmetic as arith
import numpy as np
import pytest
from accel_harness import FOLDER

from aot.vendor.accel_sim.encode import instr
from aot.vendor.accel_sim.frontend import VSet

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
#include "ax1_math.h"
#include "aot_requant.h"
#include "aot_qbinary.h"
#include "aot_qsoftmax_s8.h"
int32_t ours(int32_t a, int32_t m, int32_t s, int32_t rq) { return ax1_requantise(a, m, s, rq); }
int32_t theirs(int32_t a, int32_t m, int32_t s, int32_t rq) { return aot_requant(a, m, s, rq); }
int32_t our_sum(const int32_t *v, int32_t a, int32_t b) {
    ax1_vector p;
    memset(&p, 0, sizeof p);
    p.ma = v[0]; p.mb = v[1]; p.my = v[2]; p.sa = v[3]; p.sb = v[4]; p.sy = v[5];
    p.add_za = v[6]; p.add_zb = v[7]; p.zy = v[8]; p.kind = v[9]; p.minus = v[10];
    p.add_lo = -128; p.add_hi = 127;
    return ax1_add_values(a, b, &p);
}
int32_t their_sum(const int32_t *v, int32_t a, int32_t b) {
    aot_qbinary_params p;
    memset(&p, 0, sizeof p);
    p.a_mult = v[0]; p.b_mult = v[1]; p.y_mult = v[2]; p.a_shift = v[3]; p.b_shift = v[4];
    p.y_shift = v[5]; p.a_zero = v[6]; p.b_zero = v[7]; p.y_zero = v[8];
    p.offset = v[9] == 2 ? (v[10] ? -1 : 1) : v[2];
    return aot_q_clamp(aot_qadd_one(a, b, &p, v[9]), -128, 127);
}
void their_softmax(int8_t *y, const int8_t *x, const int32_t *table, int32_t n, int32_t unit,
                   int32_t bits, int32_t zero, int32_t last, int32_t tflite) {
    aot_qsoftmax_s8_params p;
    p.outer = 1; p.axis = n; p.inner = 1;
    p.unit = unit; p.bits = bits; p.y_zero = zero; p.last = last;
    aot_qsoftmax_s8(y, x, table, &p, tflite);
}
"""


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arith")
    (folder / "a.c").write_text(SOURCE)
    out = folder / "a.so"
    includes = [f"-I{FOLDER}", f"-I{ROOT}/runtime_c/kernels", f"-I{ROOT}/runtime_c/include"]
    command = [shutil.which("gcc") or "cc", "-std=c99", "-O2", "-fPIC", "-shared", *includes]
    subprocess.run([*command, "-o", str(out), str(folder / "a.c")], check=True)
    return ctypes.CDLL(str(out))


def sums(rng, count):
    small = rng.integers(-300, 300, count // 2)
    return np.concatenate([small, rng.integers(-(2**29), 2**29, count - count // 2)])


def test_requantisation(lib):
    rng = np.random.default_rng(0)
    for rq in (0, 2):
        acc = sums(rng, 4000)
        if rq == 0:
            scales = (10 ** rng.uniform(-9, 1.2, 4000)).astype(np.float32)
            mult, shift = scales.view(np.int32).astype(np.int64), np.zeros(4000, np.int64)
        else:
            mult = rng.integers(2**30, 2**31, 4000)
            shift = rng.integers(-31, 4, 4000)
        numpy = arith.requantise(acc, mult, shift, rq)
        for n in range(4000):
            v = (int(acc[n]), int(mult[n]), int(shift[n]), rq)
            assert lib.ours(*v) == lib.theirs(*v) == numpy[n], v


def test_halves():
    """Halves to even in float32, away from zero in TensorFlow Lite's."""
    acc = np.array([-5, -3, -1, 1, 3, 5])
    half = np.int64(np.float32(0.5).view(np.int32))
    assert list(arith.scaled(acc, half)) == [-2, -2, 0, 0, 2, 2]
    assert list(arith.fixed(acc, np.int64(2**30), np.int64(0))) == [-2, -1, 0, 1, 2, 3]
    assert list(arith.fixed(2 * acc, np.int64(2**30), np.int64(-1))) == [-3, -2, -1, 1, 2, 3]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_sums_of_quantised_values(lib, kind):
    rng = np.random.default_rng(kind)
    for case in range(60):
        za, zb, zy = (int(v) for v in rng.integers(-128, 128, 3))
        if kind < 2:
            sa = sb = 0
            sy = int(rng.integers(8, 21))
            ma, mb, my = (int(v) for v in rng.integers(-(2**20), 2**20, 3))
            if case % 2:  # halves
                ma, mb, my = 1 << (sy - 1), 3 << (sy - 1), (1 << (sy - 1)) - kind
        else:
            ma, mb, my = (int(v) for v in rng.integers(2**30, 2**31, 3))
            sa, sb, sy = (-int(v) for v in rng.integers((0, 0, 16), (4, 4, 21)))
        minus = int(rng.integers(0, 2))
        values = (ctypes.c_int32 * 11)(ma, mb, my, sa, sb, sy, za, zb, zy, kind, minus)
        add = instr("VSET1", {"slot": 0, "ma": ma, "mb": mb, "my": my})
        fields = {"sa": sa, "sb": sb, "sy": sy, "za": za, "zb": zb, "zy": zy}
        rest = instr("VSET2", {"slot": 0, "kind": kind, "minus": minus, **fields})
        a, b = rng.integers(-128, 128, (2, 50))
        numpy = arith.add_quantised(a, b, VSet(None, add, rest))
        for n in range(50):
            pair = int(a[n]), int(b[n])
            assert lib.our_sum(values, *pair) == lib.their_sum(values, *pair) == numpy[n]


@pytest.mark.parametrize("tflite", [0, 1])
def test_softmax(lib, tflite):
    rng = np.random.default_rng(tflite)
    for scale in (0.01, 0.06, 0.3):
        exact = np.exp(-np.arange(256) * scale) * 2.0 ** (31 if tflite else 20)
        table = np.minimum(np.rint(exact), 2**31 - 1).astype(np.int32)
        for n in (1, 2, 10, 100):
            x = rng.integers(-128, 128, n).astype(np.int8)
            y = np.zeros(n, np.int8)
            unit, last = 256 << 16, 255
            lib.their_softmax(
                *(v.ctypes.data_as(ctypes.c_void_p) for v in (y, x, table)),
                *(n, unit, 20, -128, last, tflite),
            )
            fields = {"slot": 0, "mult": unit, "shift": 20, "zero": -128, "za": last - 256}
            s = VSet(instr("VSET0", {**fields, "rq": 2 * tflite}))
            assert (arith.softmax(x, table, s) == y).all()
