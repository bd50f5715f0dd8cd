# SPDX-License-Identifier: Apache-2.0
"""The int8 kernels of one planner (aot/ops/quantised/conv_*.py) against their definition.

Odd shapes are tried.
Run as `python kernel_cases_q.py PLANNER ARCH CPU VLEN FOLDER [FLAGS]` under the sanitizers: see
test_kernels_q.py. Exits 1 with the first case that differs.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.ops.quantised.shapes import QCall, QConv
from aot.target import load_target
from aot.vendor import requant
from kernel_harness import Library, Signature, symbol

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
#: Any value of a byte that no kernel may depend on.
STALE = 0x5A


def quantised_values(*shape: int) -> Array:
    """Random int8 quantised values, the extremes often."""
    drawn = RNG.integers(-160, 160, shape)
    return np.clip(drawn, -128, 127).astype(np.int8)


def sums(s: QConv, x: Array, w: Array, depthwise: bool) -> Array:
    """[n, oh, ow, oc] int64 sums of (x - x_zero) * w, zero outside the image."""
    below = max(0, (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1 - s.ih - s.pt)
    right = max(0, (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1 - s.iw - s.pl)
    wide = x.astype(np.int64) - s.x_zero
    wide = np.pad(wide, ((0, 0), (s.pt, below), (s.pl, right), (0, 0)))
    out = np.zeros((s.n, s.oh, s.ow, s.oc), np.int64)
    for a in range(s.kh):
        for b in range(s.kw):
            rows = slice(a * s.dh, a * s.dh + (s.oh - 1) * s.sh + 1, s.sh)
            cols = slice(b * s.dw, b * s.dw + (s.ow - 1) * s.sw + 1, s.sw)
            part, taps = wide[:, rows, cols], w[:, :, a, b].astype(np.int64)
            out += part * taps[:, 0] if depthwise else part @ taps.T
    return out


def rescaled(acc: Array, mult: Array, shift: Array | None, rq: int) -> Array:
    """Requantised sums before the zero point; the last axis are the channels."""
    if rq != requant.TFLITE:
        assert shift is None or rq == requant.INTEGER
        scale = (
            mult.view(np.float32)
            if shift is None
            else np.ldexp(mult.astype(np.float64), -25 - shift.astype(np.int64)).astype(np.float32)
        )
        return np.rint(acc.astype(np.float32) * scale).astype(np.int64)
    assert shift is not None
    left, right = np.maximum(shift, 0).astype(np.int64), np.maximum(-shift, 0).astype(np.int64)
    high = (np.left_shift(acc, left) * mult + 2**30) >> 31
    half = np.left_shift(1, right) >> 1
    return np.where(right > 0, (high + (high >> 31) + half) >> right, high)


@dataclass(frozen=True)
class Scales:
    """Multipliers as the kernels read them."""

    rq: int
    mult: Array
    shift: Array | None


def scales_for(channels: int, per_channel: bool, rq: int, depth: int) -> Scales:
    """Random ones that spread sums of `depth` products over the quantised values."""
    usual = 2.0 / (128 * 64 * np.sqrt(depth)) * 40
    sw = (usual * RNG.uniform(0.3, 3.0, channels if per_channel else 1)).astype(np.float32)
    return Scales(rq, *requant.multipliers(1.0, sw, 1.0, rq))


@dataclass(frozen=True)
class Case:
    """A planned call, its arrays and what it must store."""

    name: str
    call: QCall
    fields: dict[str, int]
    x: Array
    scales: Scales
    per_channel: bool
    expected: Array

    @property
    def signature(self) -> Signature:
        instance = {"RQ": self.scales.rq, "PC": int(self.per_channel), **self.call.instance}
        return self.call.kernel, tuple(instance.items())


def finished(acc: Array, scales: Scales, s: QConv) -> Array:
    """The quantised values of sums."""
    v = rescaled(acc, scales.mult, scales.shift, scales.rq) + s.y_zero
    return np.clip(v, s.lo, s.hi).astype(np.int8)


def conv(planner: Any, s: QConv, depthwise: bool = False, offset: int = 0) -> Case:
    """A (depthwise) convolution of random values; `offset` moves the weights of every
    second channel away from int8."""
    s = replace(s, simd=SIMD, arch=ARCH, cpu=CPU, vlen=VLEN, kind="dwconv" if depthwise else "conv")
    x = quantised_values(s.n, s.ih, s.iw, s.ic)
    w = quantised_values(s.oc, 1 if depthwise else s.ic, s.kh, s.kw).astype(np.int16)
    w[::2] += offset
    bias = RNG.integers(-3000, 3000, s.oc)
    depth = w[0].size
    scales = scales_for(s.oc, s.per_channel, s.rq, depth)
    acc = sums(s, x, w, depthwise) + bias
    folded = (bias - s.x_zero * w.reshape(s.oc, -1).astype(np.int64).sum(1)).astype(np.int32)
    call = planner.plan(s, w, folded, "latency")
    name = f"{'depthwise ' if depthwise else ''}{s}"
    return Case(name, call, s.fields(), x, scales, s.per_channel, finished(acc, scales, s))


def fc(planner: Any, s: QConv) -> Case:
    """A matrix product of random codes."""
    s = replace(s, simd=SIMD, arch=ARCH, cpu=CPU, vlen=VLEN)
    x, w = quantised_values(s.ow, s.ic), quantised_values(s.oc, s.ic)
    bias = RNG.integers(-3000, 3000, s.oc)
    scales = scales_for(s.oc, s.per_channel, s.rq, s.ic)
    acc = (x.astype(np.int64) - s.x_zero) @ w.astype(np.int64).T + bias
    folded = (bias - s.x_zero * w.astype(np.int64).sum(1)).astype(np.int32)
    call = planner.plan(s, w[:, :, None, None], folded, "latency")
    return Case(f"{s}", call, s.fields(), x, scales, s.per_channel, finished(acc, scales, s))


def shape(ic: int, oc: int, ih: int, iw: int, k: tuple[int, int] = (1, 1), **rest: Any) -> QConv:
    """A convolution with the output size that its window gives; `end` pads below and right."""
    kh, kw = k
    sh, sw = rest.pop("s", (1, 1))
    dh, dw = rest.pop("d", (1, 1))
    pt, pl, pb, pr = rest.pop("pads", (0, 0, 0, 0))
    oh = (ih + pt + pb - (kh - 1) * dh - 1) // sh + 1
    ow = (iw + pl + pr - (kw - 1) * dw - 1) // sw + 1
    usual = {"n": 1, "x_zero": -3, "y_zero": 5, "lo": -128, "hi": 127, **rest}
    return QConv(
        ic=ic, ih=ih, iw=iw, oc=oc, oh=oh, ow=ow, kh=kh, kw=kw, sh=sh, sw=sw, dh=dh, dw=dw,
        pt=pt, pl=pl, **usual,
    )  # fmt: skip


def shapes() -> Iterator[QConv]:
    """Convolutions with groups = 1."""
    one = (1, 1, 1, 1)
    yield shape(3, 16, 7, 9, (3, 3), pads=one)
    yield shape(16, 16, 6, 6, (3, 3), pads=one, rq=2)
    yield shape(16, 32, 8, 8, (3, 3), pads=(0, 0, 1, 1), s=(2, 2), rq=1, x_zero=-128)
    yield shape(8, 16, 5, 5, rq=2, lo=5)
    yield shape(64, 64, 5, 3, rq=1, per_channel=False)
    yield shape(16, 32, 7, 7, s=(2, 2))
    yield shape(1, 64, 12, 7, (10, 4), pads=(4, 1, 5, 1), s=(2, 2), rq=2, x_zero=83)
    yield shape(5, 7, 6, 11, (2, 3), d=(2, 3), pads=(1, 2, 0, 3), rq=2, n=2)
    yield shape(7, 3, 1, 20, (1, 5), s=(1, 3), pads=(0, 4, 0, 0), rq=1, hi=90)
    yield shape(4, 5, 1, 1, rq=2, per_channel=False)
    yield shape(40, 12, 3, 3, (3, 3), n=3, x_zero=127)
    yield shape(9, 11, 13, 1, (4, 1), pads=(2, 0, 1, 0), y_zero=-128, lo=-128)
    yield shape(70, 37, 4, 8, (3, 3), pads=one, x_zero=7)
    yield shape(12, 20, 6, 9, s=(3, 2), n=2)


def depthwise_shapes() -> Iterator[QConv]:
    """Depthwise convolutions."""
    one = (1, 1, 1, 1)
    yield shape(8, 8, 9, 9, (3, 3), pads=one, rq=2)
    yield shape(64, 64, 5, 5, (3, 3), pads=one, rq=1, x_zero=-128)
    yield shape(16, 16, 8, 8, (3, 3), pads=(0, 0, 1, 1), s=(2, 2))
    yield shape(16, 16, 7, 11, (3, 3), pads=one, s=(2, 2), rq=2)
    yield shape(21, 21, 6, 13, (5, 5), pads=(2, 2, 2, 2), rq=2, per_channel=False)
    yield shape(3, 3, 7, 8, (2, 4), d=(1, 2), pads=(0, 1, 1, 2), n=2)
    yield shape(12, 12, 15, 1, (15, 1), rq=2)
    yield shape(130, 130, 6, 1, (5, 1), rq=1, lo=-20, hi=60)
    yield shape(4, 4, 9, 9, (2, 2), s=(3, 3), rq=2, x_zero=100)
    yield shape(6, 6, 1, 17, (1, 9), pads=(0, 4, 0, 4), s=(1, 3))


def products() -> Iterator[QConv]:
    """Matrix products."""
    yield QConv.dense(1, 64, 12, -128, 10, -128, 127, rq=2, per_channel=False)
    yield QConv.dense(1, 640, 128, 89, -128, -128, 127, rq=1)
    yield QConv.dense(1, 8, 130, -128, -128, -128, 127)
    yield QConv.dense(5, 33, 7, 3, -4, -100, 127, rq=2)
    yield QConv.dense(2, 3, 1, 0, 0, -128, 127, rq=1, per_channel=False)


def fields_of(fields: dict[str, int]) -> Array:
    """The parameter struct: int32 in order."""
    return np.array(list(fields.values()), np.int32)


def run(library: Library, case: Case, inplace: bool) -> Array:
    """The bytes the kernel stores."""
    fields = fields_of(case.fields)
    x = case.x.reshape(-1).copy()
    size = case.expected.size
    y = x if inplace else np.full(size, STALE, np.int8)
    call = case.call
    scratch = None
    if call.scratch:
        words = np.full(-(-call.scratch // 4), 0x5A5A5A5A, np.int32)
        scratch = words.view(np.int8)[: call.scratch]
    arrays = [
        y, x, np.asarray(call.weights), np.asarray(call.bias), case.scales.mult,
        case.scales.shift, scratch, fields,
    ]  # fmt: skip
    pointers = [None if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
    getattr(library.dll, symbol(case.signature))(*pointers)
    return y[:size].reshape(case.expected.shape)


def rows_in_parts(library: Library, case: Case) -> Array:
    """The same result computed in two ranges of rows, each from only the rows it reads."""
    f = case.fields
    y = np.full(case.expected.shape, STALE, np.int8)
    cut = f["oh"] // 2
    for y0, y1 in ((0, cut), (cut, f["oh"])):
        first = max(0, y0 * f["sh"] - f["pt"])
        last = min(f["ih"], (y1 - 1) * f["sh"] - f["pt"] + (f["kh"] - 1) * f["dh"] + 1)
        if y0 == y1 or last <= first:
            continue
        part = replace(
            case,
            fields={**f, "y0": y0, "y1": y1, "x_row0": first, "y_row0": y0},
            x=np.ascontiguousarray(case.x[:, first:last]),
            expected=case.expected[:, y0:y1],
        )
        y[:, y0:y1] = run(library, part, False)
    return y


def check(library: Library, case: Case) -> None:
    """Stop at the first difference."""
    tries = {"": run(library, case, False)}
    if case.call.inplace:
        tries["in place"] = run(library, case, True)
    if case.fields.get("n") == 1 and case.fields.get("oh", 1) > 1:
        tries["in parts"] = rows_in_parts(library, case)
    for how, got in tries.items():
        if not np.array_equal(got, case.expected):
            wrong = np.argwhere(got != case.expected)
            at = tuple(wrong[0])
            sys.exit(
                f"{case.name} {case.signature} {how}: {len(wrong)} of {got.size} differ, first at "
                f"{at}: {got[at]}, expected {case.expected[at]}"
            )


def every_case(planner: Any) -> list[Case]:
    """All kernels of a planner."""
    made = [conv(planner, s) for s in shapes()]
    if SIMD == "dot":
        made += [conv(planner, s, offset=90) for s in list(shapes())[7:10]]
    else:
        made += [conv(planner, s, depthwise=True) for s in depthwise_shapes()]
    if VLEN > 1:
        made += [conv(planner, s, depthwise=True, offset=90) for s in list(depthwise_shapes())[3:7]]
    return made + [fc(planner, s) for s in products()]


ARCH, CPU, VLEN, SIMD = "riscv32", "rv32imac", 1, ""


def main() -> None:
    """Command line."""
    global ARCH, CPU, VLEN, SIMD
    planner = importlib.import_module(f"aot.ops.quantised.{sys.argv[1]}")
    ARCH, CPU, VLEN = sys.argv[2], sys.argv[3], int(sys.argv[4])
    SIMD = load_target(CPU).simd
    cases = every_case(planner)
    for case in cases:
        assert len(np.unique(case.expected)) > 2 or case.expected.size < 8, case.name
    library = Library(Path(sys.argv[5]), VLEN, [c.signature for c in cases], sys.argv[6:])
    for case in cases:
        check(library, case)
    print(f"{len(cases)} cases right")


if __name__ == "__main__":
    main()
