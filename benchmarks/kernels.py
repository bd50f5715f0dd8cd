# SPDX-License-Identifier: Apache-2.0
"""GFLOP/s of the float32 kernels on layers of real networks, against the core's FMA peak.

    python benchmarks/kernels.py [--cc gcc] [--vlen 16] [--cold MB] [FILTER]

Times are process CPU time, best of several runs; `--cold` rotates the weights through that much
memory, as a large model does between two uses of a layer. FLOPs count the convolution as defined,
so Winograd can exceed 100 %.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from aot.ops import conv_plan as plan  # noqa: E402
from aot.ops.conv_plan import ConvShape, KernelCall  # noqa: E402
from aot.ops.conv_winograd import ERROR, choices, plan_winograd  # noqa: E402
from aot.vendor.activations import Act  # noqa: E402
from kernel_harness import MARCH, RUNTIME, Library, aligned  # noqa: E402

RELU = Act(1, 0.0, float("inf"))
PEAK = r"""
#include "aot_simd.h"
float peak(int n);
float peak(int n) {
    aot_vf a = aot_vset1((float)n), b = a + a, c = b + a, d = c + a, e = d + a;
    aot_vf f = e + a, g = f + a, h = g + a, i = h + a, j = i + a;
    const aot_vf m = aot_vset1(0.5F);
    for (int t = 0; t < n; ++t) {
        a = a * m + m; b = b * m + m; c = c * m + m; d = d * m + m; e = e * m + m;
        f = f * m + m; g = g * m + m; h = h * m + m; i = i * m + m; j = j * m + m;
        __asm__ volatile("" ::: "memory");
    }
    return aot_vsum(a + b + c + d + e + f + g + h + i + j);
}
"""


def conv(ic: int, oc: int, size: int, k: int = 1, stride: int = 1, groups: int = 1) -> ConvShape:
    """A square "same" convolution of a size x size input."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + k - size)
    pad = (total + 1) // 2 if k > 1 else 0
    return ConvShape(1, ic, size, size, oc, out, out, k, k, stride, stride, 1, 1, pad, pad, groups)


def layers() -> list[tuple[str, ConvShape]]:
    """Layers of ResNet-50 and MobileNetV2."""
    dense = [(64, 56), (128, 28), (256, 14), (512, 7)]
    out = [(f"3x3 {c} {s}x{s}", conv(c, c, s, 3)) for c, s in dense]
    ones = [(64, 256, 56), (256, 64, 56), (128, 512, 28), (512, 128, 28), (256, 1024, 14)]
    ones += [(1024, 256, 14), (512, 2048, 7), (2048, 512, 7), (16, 96, 112), (24, 144, 56)]
    ones += [(144, 24, 56), (96, 24, 56), (64, 384, 14), (160, 960, 7), (960, 160, 7)]
    out += [(f"1x1 {i}->{o} {s}x{s}", conv(i, o, s)) for i, o, s in ones]
    out += [(f"3x3s2 {c} {s}", conv(c, c, s, 3, 2)) for c, s in [(128, 56), (256, 28), (512, 14)]]
    out += [
        ("7x7s2 3->64 224", conv(3, 64, 224, 7, 2)),
        ("3x3s2 3->32 224", conv(3, 32, 224, 3, 2)),
    ]
    deep = [(32, 112, 1), (96, 112, 2), (144, 56, 1), (384, 14, 1), (960, 7, 1)]
    return out + [(f"dw3x3s{t} {c} {s}", conv(c, c, s, 3, t, c)) for c, s, t in deep]


def planners(s: ConvShape) -> list[tuple[str, Callable[..., KernelCall]]]:
    """The kernels that can compute a layer."""
    if s.groups > 1:
        return [("depthwise", plan.plan_depthwise)]
    if s.ic < 8:
        return [("plain", plan.plan_plain)]
    found: list[tuple[str, Callable[..., KernelCall]]] = [("direct", plan.plan_blocked)]
    for t in choices(s, 16, ERROR):
        found.append((f"Winograd, {t} points", lambda *a, t=t: plan_winograd(*a, points=t)))
    return found


def products() -> list[tuple[str, int, int, int]]:
    """(name, m, k, n) of matrix products: BERT's layers, and one row times a large matrix."""
    sizes = [(128, 384, 384), (128, 384, 1536), (128, 1536, 384), (1, 4096, 4096), (1, 384, 384)]
    return [(f"gemm {m}x{k}x{n}", m, k, n) for m, k, n in sizes]


def best(run: Callable[[], Any], seconds: float = 0.15) -> float:
    """The shortest of the runs that fit in `seconds` of CPU time."""
    run()
    shortest, spent = float("inf"), 0.0
    while spent < seconds:
        start = time.process_time_ns()
        run()
        took = (time.process_time_ns() - start) * 1e-9
        shortest, spent = min(shortest, took), spent + took
    return shortest


def sizes(s: ConvShape, v: int) -> tuple[int, int]:
    """Floats of a layer's blocked input and output."""
    x = s.n * -(-s.ic // v) * v * s.ih * s.iw
    return x, s.n * -(-s.oc // v) * v * s.oh * s.ow


def measure(library: Library, call: KernelCall, floats: tuple[int, int], cold: int) -> float:
    """Seconds of one run of a kernel with that many floats of input and output."""
    rng = np.random.default_rng(0)
    x, y = aligned(floats[0]), aligned(floats[1])
    x[:] = rng.uniform(-1, 1, x.size)
    copies = max(1, cold // max(1, call.weights.nbytes)) if cold else 1
    runs = []
    for _ in range(min(copies, 200)):
        w = aligned(call.weights.size)
        w[:] = call.weights.reshape(-1)
        b = aligned(call.bias.size)
        b[:] = call.bias
        arrays: list[Any] = [y, x, w, b]
        if "dwconv" not in call.kernel:
            arrays.append(None)
        if call.scratch is not None:
            arrays.append(aligned(call.scratch // 4) if call.scratch else None)
        runs.append(library.bind((call.kernel, tuple(call.instance.items())), arrays, call.fields))
    if len(runs) == 1:
        many = max(1, int(2e-4 / best(runs[0], 0.01)))
        return best(lambda: [runs[0]() for _ in range(many)]) / many
    return best(lambda: [run() for run in runs], 0.4) / len(runs)


def peak(folder: Path, vlen: int, cc: str) -> float:
    """FMA GFLOP/s of one core at this vector width."""
    (folder / "peak.c").write_text(PEAK)
    flags = [*MARCH[vlen], f"-DAOT_VLEN={vlen}", f"-I{RUNTIME / 'include'}", "-ffp-contract=fast"]
    flags += [f"-I{RUNTIME / 'kernels'}", "-O2", "-shared", "-fPIC"]
    subprocess.run([cc, *flags, "-o", str(folder / "peak.so"), str(folder / "peak.c")], check=True)
    dll = ctypes.CDLL(str(folder / "peak.so"))
    n = 200_000
    return 2e-9 * 10 * vlen * n / best(lambda: dll.peak(n), 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--vlen", type=int, default=16)
    parser.add_argument("--cold", type=int, default=0, metavar="MB")
    parser.add_argument("filter", nargs="?", default="")
    args = parser.parse_args()
    v, rng = args.vlen, np.random.default_rng(1)
    todo: list[tuple[str, str, int, tuple[int, int], KernelCall]] = []
    for name, s in layers():
        for kind, planner in planners(s):
            if args.filter in f"{name} {kind}":
                w = rng.uniform(-1, 1, (s.oc, s.ic // s.groups, s.kh, s.kw)).astype(np.float32)
                todo.append((name, kind, s.macs, sizes(s, v), planner(s, w, None, v, RELU)))
    for name, m, k, n in products():
        if args.filter in name:
            w = rng.uniform(-1, 1, (k, n)).astype(np.float32)
            call = plan.plan_gemm(m, w, None, v, RELU)
            todo.append((name, "gemm", m * k * n, (m * k, m * n), call))
    with tempfile.TemporaryDirectory() as folder:
        top = peak(Path(folder), v, args.cc)
        print(f"peak {top:.1f} GFLOP/s, {args.cc}, {v} lanes")
        signatures = [(c.kernel, tuple(c.instance.items())) for *_, c in todo]
        flags = ["-O2", "-ffp-contract=fast"]
        library = Library(Path(folder), v, signatures, flags, args.cc)
        for name, kind, macs, floats, call in todo:
            t = measure(library, call, floats, args.cold << 20)
            rate = 2e-9 * macs / t
            tile = f"{call.instance['P']}x{call.instance['O']}" if "P" in call.instance else ""
            print(
                f"{name:20} {kind:9} {tile:5} {t * 1e3:8.4f} ms {rate:7.1f} GFLOP/s "
                f"{100 * rate / top:5.0f} %  scratch {call.scratch or 0}"
            )


if __name__ == "__main__":
    main()
