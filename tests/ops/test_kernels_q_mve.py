# SPDX-License-Identifier: Apache-2.0
"""Integer kernels of Cortex-M55: plain C on the host, the real ones on a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.ops.quantised import conv_mve
from aot.ops.quantised.shapes import QConv
from aot.vendor import requant
from kernel_cases_q import Scales, depthwise_shapes, finished, products, shape, shapes, sums
from kernel_driver import M55, Invocation, run
from needs import need

Array = np.ndarray[Any, Any]
Planned = tuple[Invocation, Array]
ONE = (1, 1, 1, 1)


def drawn(rng: Any, low: int, *size: int) -> Array:
    """Quantised values from `low` to 127, the extremes often."""
    return np.clip(rng.integers(-160, 160, size), low, 127).astype(np.int8)


def scales(rng: Any, s: QConv, acc: Array, factor: float) -> Scales:
    """Multipliers that spread the sums over the quantised values and a little beyond, times
    `factor`."""
    count = acc.shape[-1] if s.per_channel else 1
    usual = factor * 150.0 / (float(np.abs(acc).max()) + 1.0)
    sw = (usual * rng.uniform(0.4, 1.0, count)).astype(np.float32)
    return Scales(s.rq, *requant.multipliers(1.0, sw, 1.0, s.rq))


def invocation(s: QConv, x: Array, call: Any, made: Scales, acc: Array) -> Planned:
    instance = {"RQ": s.rq, "PC": int(s.per_channel), **call.instance}
    inputs = [x, call.weights, call.bias, made.mult, made.shift]
    expected = finished(acc, made, s)
    fields = s.fields()
    return (
        Invocation(call.kernel, expected.size, inputs, call.scratch, fields, instance),
        expected,
    )


def conv(s: QConv, depthwise: bool = False, factor: float = 1.0) -> Planned:
    kind = "dwconv" if depthwise else "conv"
    s = replace(s, simd="mve", arch="arm", cpu="cortex-m55", kind=kind)
    rng = np.random.default_rng(s.ih * 100 + s.oc + s.rq)
    x = drawn(rng, -128, s.n, s.ih, s.iw, s.ic)
    low = -127 if depthwise else -128
    w = drawn(rng, low, s.oc, 1 if depthwise else s.ic, s.kh, s.kw)
    bias = rng.integers(-3000, 3000, s.oc)
    acc = sums(s, x, w, depthwise) + bias
    folded = bias - s.x_zero * w.astype(np.int64).sum(axis=(1, 2, 3))
    call = conv_mve.plan(s, w, folded.astype(np.int32), "latency")
    assert call.kernel.endswith("__mve")
    return invocation(s, x, call, scales(rng, s, acc, factor), acc)


def fc(s: QConv) -> Planned:
    rng = np.random.default_rng(s.ic + s.oc)
    x, w = drawn(rng, -128, s.ow, s.ic), drawn(rng, -128, s.oc, s.ic)
    bias = rng.integers(-3000, 3000, s.oc)
    acc = (x.astype(np.int64) - s.x_zero) @ w.astype(np.int64).T + bias
    folded = (bias - s.x_zero * w.astype(np.int64).sum(1)).astype(np.int32)
    call = conv_mve.plan(s, w[:, :, None, None], folded, "latency")
    return invocation(s, x, call, scales(rng, s, acc, 1.0), acc)


def in_parts(planned: Planned) -> Iterator[Planned]:
    """The same result in two ranges of rows, each from only the rows of x that it reads."""
    call, expected = planned
    f = call.fields
    x = call.inputs[0]
    assert x is not None
    cut = f["oh"] // 2
    for y0, y1 in ((0, cut), (cut, f["oh"])):
        first = max(0, y0 * f["sh"] - f["pt"])
        last = min(f["ih"], (y1 - 1) * f["sh"] - f["pt"] + (f["kh"] - 1) * f["dh"] + 1)
        part = np.ascontiguousarray(expected[:, y0:y1])
        inputs = [np.ascontiguousarray(x[:, first:last]), *call.inputs[1:]]
        fields = {**f, "y0": y0, "y1": y1, "x_row0": first, "y_row0": y0}
        yield replace(call, size=part.size, inputs=inputs, fields=fields), part


def narrow() -> Iterator[QConv]:
    """Depthwise convolutions of fewer than sixteen channels, whose pixels go in groups."""
    yield shape(8, 8, 6, 11, (3, 3), pads=ONE, rq=2, y_zero=-128)
    yield shape(2, 2, 5, 21, (3, 3), pads=ONE)
    yield shape(1, 1, 4, 19, (2, 3), pads=(0, 1, 0, 1), rq=2, per_channel=False)


def vectors(s: Any) -> Any:
    """`s` with an arithmetic that vectors have."""
    return replace(s, rq=0) if s.rq == requant.INTEGER else s


def cases() -> list[Planned]:
    made = [conv(vectors(s)) for s in shapes()] + [fc(vectors(s)) for s in products()]
    made += [conv(vectors(s), depthwise=True) for s in (*depthwise_shapes(), *narrow())]
    relu = shape(16, 18, 7, 5, (3, 3), pads=ONE, rq=2, y_zero=-128, x_zero=-128)
    made += [conv(shape(16, 8, 5, 9, (2, 5), pads=(0, 2, 1, 2), rq=2, n=2))]
    made += [conv(shape(32, 5, 6, 4, (3, 3), pads=ONE, s=(2, 2)))]
    split = [conv(relu), conv(replace(relu, ic=18), depthwise=True)]
    made += split + [part for planned in split for part in in_parts(planned)]
    # Shifts to the left and by nothing; sums far beyond the quantised values, also in float32.
    few = shape(2, 9, 5, 3, rq=2)
    made += [conv(few, factor=f) for f in (60.0, 500.0)]
    made += [
        conv(replace(few, rq=0), factor=500.0),
        conv(replace(few, per_channel=False), factor=60.0),
    ]
    made += [conv(shape(18, 18, 4, 3, (3, 3), pads=ONE, rq=2), True, factor=3000.0)]
    return made


def check(results: list[tuple[Array, float]], planned: list[Planned]) -> None:
    for (y, _), (call, expected) in zip(results, planned, strict=True):
        wrong = np.flatnonzero(y != expected.reshape(-1))
        assert wrong.size == 0, (call.kernel, call.instance, call.fields, wrong[:5])


def test_expected_values_are_not_saturated() -> None:
    inside = [np.mean(np.abs(e.astype(int)) < 127) for _, e in cases()]
    assert np.median(inside) > 0.8


def test_what_vectors_cannot_do_is_left_to_other_kernels() -> None:
    s = replace(shape(16, 16, 3, 3), simd="mve", arch="arm", cpu="cortex-m55")
    w, bias = np.full((16, 1, 1, 1), -128, np.int8), np.zeros(16, np.int32)
    deep = replace(s, kind="dwconv")
    assert conv_mve.plan(deep, w, bias, "latency").kernel == "aot_qdwconv_s8"
    integer = replace(s, rq=requant.INTEGER)
    w = np.ones((16, 16, 1, 1), np.int8)
    assert conv_mve.plan(integer, w, bias, "latency").kernel == "aot_qconv_s8"
    fc = QConv.dense(1, 16, 16, 0, 0, -128, 127, requant.INTEGER)
    assert conv_mve.plan(fc, w, bias, "latency").kernel == "aot_qfc_s8"


def test_plain_c_on_the_host(tmp_path: Path) -> None:
    need("gcc")
    planned = cases()
    check(run(tmp_path, [c for c, _ in planned]), planned)


@pytest.mark.parametrize(("optimise", "every"), [("-O2", 1), ("-O0", 6)])
def test_on_cortex_m55(tmp_path: Path, optimise: str, every: int) -> None:
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    planned = cases()[::every]
    check(run(tmp_path, [c for c, _ in planned], M55, [optimise]), planned)


def rounding_sums(rng: Any) -> Array:
    """Sums near halves of the result for a multiplier of about 2^-7, and any others."""
    near = (np.arange(-130, 130)[:, None] * 128 + 64 + np.arange(-3, 4)[None, :]).reshape(-1)
    return np.concatenate([near, rng.integers(-(2**29), 2**29, 300), [-(2**29), 2**29]])


@pytest.mark.parametrize("rq", [0, 2])
def test_rounding_on_cortex_m55(rq: int, tmp_path: Path) -> None:
    """Every sum comes as a bias: products of zeros."""
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    rng = np.random.default_rng(3)
    acc = rounding_sums(rng)
    n = len(acc)
    planned = []
    for depthwise in (False, True):
        s = shape(n if depthwise else 1, n, 1, 1, x_zero=0, y_zero=3, rq=rq)
        s = replace(s, simd="mve", arch="arm", cpu="cortex-m55")
        w = np.zeros((n, 1, 1, 1), np.int8)
        exact = np.where(np.arange(n) % 2 == 0, 2.0**-7, 2.0**-7 * (1 + 2.0**-23))
        made = Scales(rq, *requant.multipliers(1.0, exact.astype(np.float32), 1.0, rq))
        s = replace(s, kind="dwconv" if depthwise else "conv")
        call = conv_mve.plan(s, w, acc.astype(np.int32), "latency")
        x = np.zeros((1, 1, 1, s.ic), np.int8)
        planned.append(invocation(s, x, call, made, acc.reshape(1, 1, 1, n)))
    check(run(tmp_path, [c for c, _ in planned], M55), planned)
