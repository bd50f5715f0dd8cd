# SPDX-License-Identifier: Apache-2.0
"""Every float32 convolution and matrix kernel against NumPy on odd shapes, for one vector width.

Run as `python kernel_cases_conv.py WIDTH FOLDER`, under the sanitizers' runtime: see
test_kernels_conv.py. Exits 1 with the first case that differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aot.ops import conv_plan as plan
from aot.ops.conv_plan import ConvShape, KernelCall
from aot.ops.conv_winograd import plan_winograd
from aot.vendor.activations import Act
from kernel_harness import Library, Signature, blocked, exact, fresh, unblocked
from kernel_ranges_conv import Ranges

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def values(*shape: int) -> Array:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def conv(x: Array, w: Array, b: Array | None, s: ConvShape) -> Array:
    """The definition, in float64; pads below and right follow from the output size."""
    below = max(0, (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1 - s.ih - s.pt)
    right = max(0, (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1 - s.iw - s.pl)
    xp = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (s.pt, below), (s.pl, right)))
    y = np.zeros((s.n, s.oc, s.oh, s.ow))
    icg, ocg = s.ic // s.groups, s.oc // s.groups
    for g in range(s.groups):
        for a in range(s.kh):
            for e in range(s.kw):
                rows = slice(a * s.dh, a * s.dh + (s.oh - 1) * s.sh + 1, s.sh)
                cols = slice(e * s.dw, e * s.dw + (s.ow - 1) * s.sw + 1, s.sw)
                part = xp[:, g * icg : (g + 1) * icg, rows, cols]
                taps = w[g * ocg : (g + 1) * ocg, :, a, e]
                y[:, g * ocg : (g + 1) * ocg] += np.einsum("nchw,oc->nohw", part, taps)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def activate(y: Array, act: Act) -> Array:
    if act.kind == 1:
        return np.clip(y, act.alpha, act.beta)
    if act.kind == 2:
        return np.where(y < 0, act.alpha * y, y)
    if act.kind == 6:
        return y / (1 + np.exp(-act.alpha * y))
    assert act.kind == 0
    return y


ACTS = (Act(), Act(1, 0.0, np.inf), Act(1, -0.5, 0.75), Act(2, 0.25), Act(6, 1.0))


@dataclass(frozen=True)
class Prepared:
    """A case: its call, arrays in the order of the C arguments, and how to judge the result."""

    call: KernelCall
    arrays: tuple[Any, ...]
    check: Callable[[], float]
    label: str
    weights: Array | None = None  # of a convolution, as defined
    bias: Array | None = None

    @property
    def signature(self) -> Signature:
        return self.call.kernel, tuple(self.call.instance.items())


def shape(ic: int, oc: int, h: int, w: int, **rest: Any) -> ConvShape:
    """A shape with the output size that the pads (`pb`, `pr` below and right) give."""
    pb, pr = rest.pop("pb", 0), rest.pop("pr", 0)
    s = ConvShape(1, ic, h, w, oc, 1, 1, rest.pop("kh", 1), rest.pop("kw", 1), **rest)
    oh = (h + s.pt + pb - (s.kh - 1) * s.dh - 1) // s.sh + 1
    ow = (w + s.pl + pr - (s.kw - 1) * s.dw - 1) // s.sw + 1
    return replace(s, oh=oh, ow=ow)


def conv_case(
    s: ConvShape,
    v: int,
    planner: Callable[..., KernelCall],
    act: Act,
    residual: bool,
    plain: bool,
    y_plain: bool = False,
) -> Prepared:
    x, w = values(s.n, s.ic, s.ih, s.iw), values(s.oc, s.ic // s.groups, s.kh, s.kw)
    b = values(s.oc)
    call = planner(s, w, b, v, act, **({"y_plain": True} if y_plain else {}))
    want = conv(x, w, b, s)
    out = (s.n, s.oc, s.oh, s.ow)
    lanes = 1 if y_plain else v
    y = fresh(s.n * -(-s.oc // lanes) * lanes * s.oh * s.ow)
    if residual:  # in place
        r = values(*out)
        want = want + r
        y = blocked(r, lanes)
    # Rounding is relative to the sum, which a clamp may hide: judge by its size, not the result's.
    scale = 1.0 + float(np.max(np.abs(want)))
    want = activate(want, act)
    scratch = fresh(call.scratch // 4) if call.scratch else None
    arrays = [y, exact(x) if plain else blocked(x, v), exact(call.weights), exact(call.bias)]
    if "dwconv" not in call.kernel:
        arrays.append(y if residual else None)
    if call.scratch is not None:
        arrays.append(scratch)

    def check() -> float:
        return float(np.max(np.abs(unblocked(y, out, lanes) - want))) / scale

    label = f"{call.kernel} {call.instance} {s} {act} residual={residual}"
    return Prepared(call, tuple(arrays), check, label, w, b)


def direct_shapes() -> Iterator[ConvShape]:
    yield shape(16, 32, 14, 14)
    yield shape(5, 3, 1, 1)
    yield shape(33, 24, 7, 5)
    yield replace(shape(17, 64, 3, 6), n=2)
    yield shape(64, 128, 1, 3)
    yield shape(16, 33, 7, 7, kh=3, kw=3, pt=1, pl=1, pb=1, pr=1)
    yield shape(24, 16, 15, 9, kh=3, kw=3, sh=2, sw=2, pt=1, pl=1, pb=1, pr=1)
    yield shape(3, 17, 6, 8, kh=5, kw=2, sh=3, sw=1, pt=2, pl=0, pb=1, pr=1)
    yield shape(20, 5, 9, 13, kh=3, kw=3, dh=2, dw=3, pt=2, pl=3, pb=2, pr=1)
    yield shape(16, 16, 1, 15, kh=1, kw=9, pl=8)
    yield replace(shape(18, 40, 4, 4, kh=3, kw=3, sh=2, sw=3, pt=3, pl=4, pb=3, pr=4), n=2)


def grouped_shapes() -> Iterator[ConvShape]:
    yield shape(64, 64, 5, 5, groups=2)
    yield shape(32, 48, 4, 4, kh=3, kw=3, pt=1, pl=1, pb=1, pr=1, groups=4)
    yield shape(12, 24, 4, 4, groups=3)
    yield shape(40, 40, 3, 3, kh=3, kw=3, pt=1, pl=1, pb=1, pr=1, groups=5)
    yield shape(5, 15, 5, 5, kh=3, kw=3, groups=5)
    yield shape(17, 17, 5, 5, kh=2, kw=2, groups=17)


def image_shapes() -> Iterator[ConvShape]:
    yield shape(3, 32, 15, 15, kh=3, kw=3, sh=2, sw=2, pt=1, pl=1, pb=1, pr=1)
    yield shape(3, 24, 14, 14, kh=7, kw=7, sh=2, sw=2, pt=3, pl=3, pb=3, pr=3)
    yield shape(1, 17, 9, 6, kh=5, kw=4, pt=2, pl=0, pb=1, pr=3)
    yield shape(2, 16, 9, 11, kh=3, kw=3, dh=2, dw=2, pt=1, pl=2, pb=0, pr=2)
    yield replace(shape(1, 64, 4, 3, kh=2, kw=2, pt=4, pl=5, pb=4, pr=6), n=2)
    yield shape(1, 8, 1, 15, kh=1, kw=8, sw=4)
    yield shape(2, 8, 12, 40, kh=3, kw=3, pt=1, pl=1, pb=1, pr=1)


def signal_shapes() -> Iterator[ConvShape]:
    """Long sums, which have runs."""
    yield shape(1, 17, 1, 700, kh=1, kw=300, sw=4)
    yield shape(2, 3, 1, 230, kh=1, kw=193, pl=20, pr=96)
    yield shape(1, 40, 9, 420, kh=2, kw=100, dw=2, sw=3, pt=1, pl=5, pr=7)


def depthwise_shapes() -> Iterator[ConvShape]:
    same = {"kh": 3, "kw": 3, "pt": 1, "pl": 1, "pb": 1, "pr": 1}
    yield shape(16, 16, 7, 7, groups=16, **same)
    yield shape(24, 24, 15, 15, groups=24, sh=2, sw=2, **same)
    yield replace(shape(5, 5, 3, 30, groups=5, **same), n=2)
    yield shape(33, 33, 12, 1, groups=33, **same)
    yield shape(17, 17, 9, 20, groups=17, kh=5, kw=5, pt=2, pl=2, pb=2, pr=2)
    yield shape(16, 16, 8, 11, groups=16, kh=5, kw=5, pt=1, pl=2, pb=2, pr=1, sh=2, sw=2)
    yield shape(3, 3, 9, 40, groups=3, kh=3, kw=3, dh=2, dw=3, pt=2, pl=3, pb=2, pr=3)
    yield shape(4, 4, 11, 25, groups=4, kh=7, kw=4, pt=3, pl=1, pb=3, pr=2, sh=3, sw=3)
    yield shape(6, 6, 2, 2, groups=6, kh=3, kw=3, pt=4, pl=4, pb=4, pr=4)
    yield shape(8, 8, 1, 31, groups=8, kh=1, kw=3, pl=2)


def winograd_shapes() -> Iterator[ConvShape]:
    same = {"kh": 3, "kw": 3, "pt": 1, "pl": 1, "pb": 1, "pr": 1}
    yield shape(16, 16, 8, 8, **same)
    yield shape(17, 33, 13, 7, **same)
    yield shape(5, 40, 30, 11, kh=3, kw=3, pt=0, pl=1, pb=2, pr=0)
    yield replace(shape(24, 3, 5, 9, **same), n=2)
    yield shape(3, 16, 3, 3, kh=3, kw=3)
    yield shape(17, 20, 4, 18, kh=1, kw=3, pl=2, pr=1)
    yield shape(18, 33, 9, 5, kh=5, kw=1, pt=2, pb=3)
    yield shape(16, 16, 11, 7, kh=5, kw=5, pt=2, pl=4, pb=1, pr=2)
    yield shape(5, 24, 12, 3, kh=7, kw=1, pt=3, pb=3)
    yield replace(shape(33, 5, 3, 17, kh=1, kw=7, pl=3, pr=3), n=2)
    yield shape(6, 16, 9, 9, kh=3, kw=7, pt=1, pl=3, pb=1, pr=3)
    yield shape(18, 40, 9, 13, kh=3, kw=3, sh=2, sw=2, pt=1, pl=1, pb=1, pr=1)
    yield replace(shape(5, 16, 12, 6, kh=3, kw=3, sh=2, sw=2, pt=0, pl=2, pb=2, pr=1), n=2)
    yield shape(33, 7, 3, 30, kh=3, kw=3, sh=2, sw=2)


def group_of_nan(s: ConvShape, v: int, residual: bool) -> Prepared:
    """NaN and infinities in all channels of group 1: every other group is what it was."""
    case = conv_case(s, v, plan.plan_blocked, Act(1, -0.5, 0.75), residual, plain=False)
    icg, ocg = s.ic // s.groups, s.oc // s.groups
    lanes = case.arrays[1].reshape(s.n, -1, s.ih, s.iw, v)
    for c in range(icg, 2 * icg):
        lanes[:, c // v, :, :, c % v] = np.nan if c % 2 else np.inf
    x = unblocked(case.arrays[1], (s.n, s.ic, s.ih, s.iw), v).copy()
    clean = np.where(np.isfinite(x), x, 0.0)
    r = unblocked(case.arrays[0], (s.n, s.oc, s.oh, s.ow), v).copy() if residual else 0.0
    want = np.clip(conv(clean, case.weights, case.bias, s) + r, -0.5, 0.75)

    def check() -> float:
        y = unblocked(case.arrays[0], (s.n, s.oc, s.oh, s.ow), v)
        others = [c for c in range(s.oc) if c // ocg != 1]
        return float(np.max(np.abs(y[:, others] - want[:, others])))

    return replace(case, check=check, label=f"NaN in a group: {case.label}")


def conv_cases(v: int) -> Iterator[Prepared]:
    for i, s in enumerate([*direct_shapes(), *grouped_shapes()]):
        yield conv_case(s, v, plan.plan_blocked, ACTS[i % 5], i % 3 == 1, plain=False)
        if i % 2:
            act = ACTS[(i + 2) % 5]
            yield conv_case(s, v, plan.plan_blocked, act, i % 3 == 0, plain=False, y_plain=True)
    for i, s in enumerate(grouped_shapes()):
        yield group_of_nan(s, v, residual=i % 2 == 0)
    for i, s in enumerate(depthwise_shapes()):
        yield conv_case(s, v, plan.plan_depthwise, ACTS[i % 5], False, plain=False)
    for i, s in enumerate(winograd_shapes()):
        for t in (4, 6, 8)[(max(s.kh, s.kw) - 2) // 2 :] if s.sh == 1 else (5,):
            planner = partial(plan_winograd, points=t)
            yield conv_case(s, v, planner, ACTS[(i + t) % 5], i % 2 == 1, plain=False)
    for i, s in enumerate(image_shapes()):
        yield conv_case(s, v, plan.plan_plain, ACTS[i % 3], i % 3 == 2, plain=True)
        yield conv_case(s, v, plan.plan_plain, ACTS[i % 5], i % 3 == 1, plain=True, y_plain=True)
    for i, s in enumerate(signal_shapes()):
        yield conv_case(s, v, plan.plan_plain, ACTS[i], False, plain=True, y_plain=i == 1)


def gemm_cases(v: int) -> Iterator[Prepared]:
    sizes = [(1, 5, 3), (1, 64, 130), (2, 33, 17), (4, 16, 64), (7, 20, 70), (13, 9, 100)]
    sizes += [(15, 50, 32), (28, 7, 33), (7, 300, 70), (13, 520, 33), (1, 601, 90), (2, 257, 64)]
    for i, (m, k, n) in enumerate(sizes):
        act = ACTS[i % 5]
        x, w, b, r = values(m, k), values(k, n), values(n), values(m, n)
        call = plan.plan_gemm(m, w, b, v, act)
        want = x.astype(np.float64) @ w + b
        y = fresh(m * n)
        if i % 2:
            want, y = want + r, exact(r)
        want = activate(want, act)
        arrays = (y, exact(x), exact(call.weights), exact(call.bias), y if i % 2 else None)

        def check(y: Array = y, want: Array = want) -> float:
            return float(np.max(np.abs(y.reshape(want.shape) - want))) / 8.0

        yield Prepared(call, arrays, check, f"gemm {m}x{k}x{n} {call.instance} {act}")


def matmul_cases(v: int) -> Iterator[Prepared]:
    shapes = [(1, 4, 5), (9, 17, 33), (14, 8, 64), (3, 300, 100), (5, 700, 3), (2, 1100, 70)]
    for i, (m, k, n) in enumerate(shapes):
        a, b = values(2, 3, m, k), values(3, k, n)
        want = (a.astype(np.float64) @ b) * 0.5
        transposed = bool(i % 2)
        stored = b.transpose(0, 2, 1) if transposed else b
        call = plan.plan_matmul(
            plan.MatMulShape(
                m,
                n,
                k,
                batch=(1, 2, 3),
                a_batch=(0, 3 * m * k, m * k),
                b_batch=(0, 0, k * n),
                y_batch=(0, 3 * m * n, m * n),
                a_row=k,
                b_row=1 if transposed else n,
                b_col=k if transposed else 1,
                y_row=n,
                scale=0.5,
            ),
            v,
        )
        y = fresh(6 * m * n)
        arrays = (y, exact(a), exact(np.ascontiguousarray(stored)), fresh((call.scratch or 0) // 4))

        def check(y: Array = y, want: Array = want, size: float = max(4.0, k**0.5 / 4)) -> float:
            return float(np.max(np.abs(y.reshape(want.shape) - want))) / size

        yield Prepared(call, arrays, check, f"matmul {m}x{k}x{n} {call.instance}")


def all_cases(v: int) -> list[Prepared]:
    return [*conv_cases(v), *gemm_cases(v), *matmul_cases(v)]


def limit(call: KernelCall) -> float:
    """Error allowed relative to the largest sum; only F(4,3) rounds worse than a plain sum."""
    return {6: 1e-5, 8: 1e-4}.get(call.instance.get("T", 0), 2e-6)


def main(v: int, folder: Path, flags: list[str]) -> int:
    cases = all_cases(v)
    ranges = Ranges(v)
    library = Library(folder, v, [*(c.signature for c in cases), *ranges.signatures()], flags)
    for case in cases:
        library.bind(case.signature, case.arrays, case.call.fields)()
        error = case.check()
        if not error < limit(case.call):
            print(f"error {error:.3g}: {case.label}")
            return 1
    for wrong in ranges.wrong(library):
        print(f"not the same bits: {wrong}")
        return 1
    print(f"{len(cases)} cases right, {len(ranges.items)} layers in ranges")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
