# SPDX-License-Identifier: Apache-2.0
"""Integer kernels of Cortex-M4, M7, M33: plain C on the host, the real ones on a board."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.ops.quantised import conv_dsp
from aot.ops.quantised.shapes import QCall, QConv
from aot.vendor.requant import multipliers
from kernel_driver import M4, RUNTIME, WARN, Board, Invocation, run, source
from needs import need

Array = np.ndarray[Any, Any]


def rescaled(acc: Array, sx: float, sw: Array, sy: float, rq: int) -> Array:
    """int64 of acc [..., channels], by the definitions."""
    if rq < 2:
        scale = np.float32(sx) * sw / np.float32(sy)
        return np.asarray(np.rint(acc.astype(np.float32) * scale), np.int64)
    mult, shift = multipliers(sx, sw, sy, 2)
    assert shift is not None
    m, s = mult.astype(object), shift.astype(object)
    high = (acc.astype(object) * 2 ** np.maximum(s, 0) * m + 2**30) // 2**31
    right = np.maximum(-s, 0)
    half = np.where(right > 0, 2**right // 2, 0) - np.where((high < 0) & (right > 0), 1, 0)
    return np.asarray((high + half) // 2**right, np.int64)


def quantised_values(acc: Array, s: QConv, scale: tuple[float, Array, float]) -> Array:
    """The stored quantised values."""
    return np.asarray(np.clip(rescaled(acc, *scale, s.rq) + s.y_zero, s.lo, s.hi), np.int8)


def conv_sums(s: QConv, x: Array, w: Array, bias: Array, groups: int) -> Array:
    """Sums [n, oh, ow, oc] of x [n, ih, iw, ic] and w [oc, ic / groups, kh, kw]; bias as given to
    plans."""
    reach_h, reach_w = (s.kh - 1) * s.dh, (s.kw - 1) * s.dw
    below = max(0, (s.oh - 1) * s.sh + reach_h + 1 - s.ih - s.pt)
    right = max(0, (s.ow - 1) * s.sw + reach_w + 1 - s.iw - s.pl)
    pads = ((0, 0), (s.pt, below), (s.pl, right), (0, 0))
    xp = np.pad(x.astype(np.int64), pads, constant_values=s.x_zero)
    out = np.zeros((s.n, s.oh, s.ow, s.oc), np.int64) + bias
    per = s.ic // groups
    for ky in range(s.kh):
        for kx in range(s.kw):
            part = xp[:, ky * s.dh :, kx * s.dw :][:, :: s.sh, :: s.sw][:, : s.oh, : s.ow]
            if groups == 1:
                out += part @ w[:, :, ky, kx].T.astype(np.int64)
            else:
                assert per == 1
                out += part * w[:, 0, ky, kx]
    return out


def shape(
    ic: int, ih: int, iw: int, oc: int, k: tuple[int, int], pad: tuple[int, int] = (0, 0),
    stride: int = 1, dilation: int = 1, n: int = 1, **more: Any
) -> QConv:  # fmt: skip
    """A convolution with the same padding on both sides."""
    oh = (ih + 2 * pad[0] - dilation * (k[0] - 1) - 1) // stride + 1
    ow = (iw + 2 * pad[1] - dilation * (k[1] - 1) - 1) // stride + 1
    named = {"x_zero": -128, "y_zero": -7, "lo": -128, "hi": 127, "rq": 2, **more}
    return QConv(n, ic, ih, iw, oc, oh, ow, *k, stride, stride, dilation, dilation, *pad, **named)


Planned = tuple[Invocation, Array]


def invocation(
    call: QCall, s: QConv, x: Array, scale: tuple[float, Array, float], expected: Array
) -> Planned:
    mult, shift = multipliers(*scale, s.rq)
    given = [x, call.weights, call.bias, mult, shift]
    instance = {"RQ": s.rq, "PC": int(s.per_channel), **call.instance}
    made = Invocation(call.kernel, expected.size, given, call.scratch, s.fields(), instance)
    return made, expected.reshape(-1)


def scales(rng: Any, s: QConv, count: int, sums: Array) -> tuple[float, Array, float]:
    """Scales that spread the sums over the quantised values and a little beyond."""
    spread = float(np.abs(sums).max()) / 150.0 + 1.0
    sw = rng.uniform(0.3, 1.0, count if s.per_channel else 1).astype(np.float32)
    return 0.05, sw, float(np.float32(0.05 * spread))


def conv_case(s: QConv, groups: int = 1, weights: str = "random", big: float = 1.0) -> Planned:
    rng = np.random.default_rng(s.ih * 100 + s.oc + s.rq)
    per = s.ic // groups
    x = rng.integers(-128, 128, (s.n, s.ih, s.iw, s.ic)).astype(np.int8)
    w = rng.integers(-127, 128, (s.oc, per, s.kh, s.kw)).astype(np.int8)
    if weights == "extreme":
        w[:] = np.where(rng.random(w.shape) < 0.5, -128, 127)
        x[:] = np.where(rng.random(x.shape) < 0.5, -128, 127)
    bias = rng.integers(-3000, 3000, s.oc)
    folded = bias - s.x_zero * w.astype(np.int64).sum(axis=(1, 2, 3))
    s = replace(s, kind="conv" if groups == 1 else "dwconv")
    call = conv_dsp.plan(s, w, folded.astype(np.int32), "speed")
    sums = conv_sums(s, x, w, folded, groups)
    sx, sw, sy = scales(rng, s, s.oc, sums)
    if weights == "uneven":  # channels of every shift
        top = 31.0 * sy / sx
        sw = np.geomspace(top * 2.0**-40, top, len(sw)).astype(np.float32)
    scale = (sx, sw, sy / big)
    return invocation(call, s, x, scale, quantised_values(sums, s, scale))


def fc_case(s: QConv, weights: str = "random") -> Planned:
    rng = np.random.default_rng(s.ic + s.oc)
    x = rng.integers(-128, 128, (s.ow, s.ic)).astype(np.int8)
    w = rng.integers(-127, 128, (s.oc, s.ic)).astype(np.int8)
    if weights == "extreme":
        w[:] = np.where(rng.random(w.shape) < 0.5, -128, 127)
    bias = rng.integers(-3000, 3000, s.oc)
    folded = bias - s.x_zero * w.astype(np.int64).sum(axis=1)
    call = conv_dsp.plan(s, w[:, :, None, None], folded.astype(np.int32), "speed")
    sums = x.astype(np.int64) @ w.T.astype(np.int64) + folded
    scale = scales(rng, s, s.oc, sums)
    return invocation(call, s, x, scale, quantised_values(sums, s, scale))


PARTS = (
    (shape(3, 9, 7, 6, (3, 3), (1, 1), 2), 1),
    (shape(4, 6, 7, 8, (3, 3), (1, 1)), 1),
    (shape(8, 6, 5, 4, (1, 1)), 1),
    (shape(4, 6, 7, 4, (3, 3), (1, 1)), 4),
    (shape(4, 12, 7, 4, (3, 3), (1, 1), 2), 4),
    (shape(4, 7, 6, 4, (2, 2), (0, 0)), 4),
)
ROWS = ((0, 2), (1, 4), (3, 5))


def rows_of(planned: Planned, first: int, past: int) -> Planned:
    """Rows first..past-1 of a convolution's result, from no more of x than they need."""
    call, expected = planned
    f = dict(call.fields)
    x = np.asarray(call.inputs[0])
    top = max(0, first * f["sh"] - f["pt"])
    end = min(f["ih"], (past - 1) * f["sh"] - f["pt"] + (f["kh"] - 1) * f["dh"] + 1)
    f.update(y0=first, y1=past, x_row0=top, y_row0=first)
    inputs = [x[:, top:end], *call.inputs[1:]]
    made = expected.reshape(1, f["oh"], -1)[:, first:past].reshape(-1)
    part = Invocation(call.kernel, made.size, inputs, call.scratch, f, call.instance, call.header)
    return part, made


def cases() -> list[Planned]:
    out = []
    for rq in (0, 1, 2):
        out += [
            conv_case(shape(3, 7, 9, 5, (3, 3), (1, 1), 2, rq=rq)),
            conv_case(shape(8, 5, 5, 7, (1, 1), rq=rq, per_channel=False)),
            conv_case(shape(4, 6, 7, 10, (3, 3), (1, 1), rq=rq)),
            conv_case(shape(8, 6, 11, 8, (3, 3), (1, 1), rq=rq), groups=8),
            conv_case(shape(4, 6, 5, 4, (3, 3), (1, 1), 2, rq=rq), groups=4),
            fc_case(QConv.dense(3, 21, 6, 5, -7, -128, 127, rq)),
        ]
    out += [
        conv_case(shape(1, 9, 10, 6, (5, 4), (2, 1), 2)),
        conv_case(shape(12, 1, 1, 6, (1, 1))),
        conv_case(shape(12, 3, 5, 4, (1, 1), n=2, lo=-20, hi=30)),
        conv_case(shape(4, 3, 2, 8, (3, 3), (1, 1), n=2)),
        conv_case(shape(4, 7, 1, 4, (3, 3), (1, 1))),
        conv_case(shape(8, 9, 9, 4, (3, 3), (2, 2), 1, 2)),
        conv_case(shape(4, 9, 5, 4, (5, 3), (2, 2), 1)),
        conv_case(shape(64, 4, 3, 4, (3, 3), (1, 1)), weights="extreme"),
        conv_case(shape(64, 3, 3, 6, (3, 3), (0, 0), 2), weights="extreme"),
        conv_case(shape(8, 5, 5, 7, (1, 1)), big=1e4),
        conv_case(shape(8, 5, 5, 7, (1, 1), rq=0), big=1e4),
        conv_case(shape(8, 5, 5, 61, (1, 1)), weights="uneven"),
        conv_case(shape(8, 5, 5, 61, (1, 1), rq=0), weights="uneven"),
        conv_case(shape(64, 3, 3, 63, (3, 3), (1, 1)), weights="uneven"),
        conv_case(shape(8, 5, 5, 60, (1, 1), lo=-3, hi=3), weights="uneven"),
        conv_case(shape(60, 5, 5, 60, (3, 3), (1, 1)), groups=60, weights="uneven"),
        conv_case(shape(60, 5, 5, 60, (3, 3), (1, 1), 2), groups=60, weights="uneven"),
        conv_case(shape(60, 5, 5, 60, (2, 2), (0, 0)), groups=60, weights="uneven"),
        conv_case(shape(8, 5, 3, 8, (3, 3), (1, 1), n=2, y_zero=-128, hi=60), groups=8),
        conv_case(shape(4, 1, 17, 4, (3, 3), (1, 1)), groups=4, weights="extreme"),
        conv_case(shape(4, 2, 9, 4, (3, 3), (1, 1)), groups=4, big=1e4),
        conv_case(shape(8, 9, 1, 8, (5, 1), (0, 0)), groups=8),
        conv_case(shape(4, 9, 9, 4, (3, 3), (2, 2), 1, 2), groups=4),
        conv_case(shape(4, 3, 2, 4, (3, 3), (4, 5))),
        conv_case(shape(5, 3, 2, 4, (3, 3), (4, 5), 2)),
        conv_case(shape(4, 3, 2, 4, (3, 3), (4, 5)), groups=4),
        conv_case(shape(4, 3, 2, 4, (3, 3), (4, 5), 2), groups=4),
        *(
            rows_of(conv_case(s, groups), first, past)
            for s, groups in PARTS
            for first, past in ROWS
        ),
        fc_case(QConv.dense(1, 64, 10, -128, -7, -128, 127, 2)),
        fc_case(QConv.dense(2, 16, 4, 3, -128, -128, 100, 2, False)),
        fc_case(QConv.dense(1, 1024, 6, -128, 4, -128, 127, 2), "extreme"),
    ]
    return out


def check(results: list[tuple[Array, float]], planned: list[Planned]) -> None:
    for (y, _), (call, expected) in zip(results, planned, strict=True):
        assert np.array_equal(y, expected), (call.kernel, call.instance, call.fields)


def test_expected_values_are_not_saturated() -> None:
    inside = [np.mean(np.abs(e.astype(int)) < 127) for _, e in cases()]
    assert np.median(inside) > 0.9


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_plain_c_on_the_host(compiler: str, tmp_path: Path) -> None:
    """With sanitizers; those of clang see more (offsets from NULL)."""
    need(compiler)
    planned = cases()
    check(run(tmp_path, [c for c, _ in planned], cc=compiler), planned)


SOFT = Board("mps2-an386", ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft"))


@pytest.mark.parametrize(("board", "optimise"), [(M4, "-O2"), (M4, "-O0"), (SOFT, "-O3")])
def test_on_cortex_m4(tmp_path: Path, board: Board, optimise: str) -> None:
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    planned = cases()
    check(run(tmp_path, [c for c, _ in planned], board, [optimise]), planned)


def test_instructions_per_product(tmp_path: Path) -> None:
    """Whole kernels, scratch, rescaling and all: a few percent above what they take now."""
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    s = shape(64, 8, 8, 64, (3, 3), (1, 1))
    point, rows = shape(64, 12, 12, 64, (1, 1)), shape(32, 24, 24, 32, (3, 3), (1, 1))
    dense = QConv.dense(1, 640, 128, 3, -128, -128, 127, 2)
    planned = [conv_case(s), conv_case(point), conv_case(rows, groups=32), fc_case(dense)]
    results = run(tmp_path, [c for c, _ in planned], M4)
    check(results, planned)
    products = [s.macs, point.macs, rows.macs / 32, dense.macs]
    each = [taken / n for (_, taken), n in zip(results, products, strict=True)]
    assert all(a < b for a, b in zip(each, (0.87, 1.08, 3.5, 1.25), strict=True)), each


def test_clang_assembles_them(tmp_path: Path) -> None:
    """Its assembler, its limits on strings and its warnings."""
    clang, gcc = need("clang"), need("arm-none-eabi-gcc")
    command = [gcc, "-E", "-xc", "-include", "string.h", "/dev/null"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r'"(/[^"]*)/string\.h"', seen)
    assert found is not None
    text = tmp_path / "driver.c"
    text.write_text(source([c for c, _ in cases()], True))
    include = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}", "-isystem", found[1]]
    target = ["--target=thumbv7em-none-eabihf", *M4.flags, "-std=c99", *WARN, "-O2"]
    command = [clang, *target, *include, "-c", str(text), "-o", str(tmp_path / "driver.o")]
    subprocess.run(command, check=True)
