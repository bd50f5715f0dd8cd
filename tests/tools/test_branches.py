# SPDX-License-Identifier: Apache-2.0
"""Nodes that take branches of kernels which no declared case takes: edges, tails, odd values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops"))

import harness
from test_vmath import runnable

from branch_cases import (
    NAN,
    ODD,
    RNG,
    attended,
    chosen,
    cuts,
    distinct,
    f32,
    forests,
    layers,
    node,
    numbers,
    quantised_values,
    wild,
)
from needs import need


def elementwise() -> list[Any]:
    names = "Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh".split()
    found = [node(n, ODD) for n in names]
    a, b = np.meshgrid(ODD, ODD)
    found += [node("Pow", a, b), node("Mod", a, b, fmod=1)]
    base, power = np.meshgrid(np.arange(-3, 4), np.arange(0, 6))
    whole = base.ravel() % 7 - 3
    for kind in (np.int32, np.int64):
        found.append(node("Pow", base.astype(kind), power.astype(kind)))
        found.append(node("Mod", whole.astype(kind), np.full(whole.shape, -3, kind)))
        found.append(node("Mod", whole.astype(kind), np.full(whole.shape, 2, kind), fmod=1))
    for kind in (np.float32, np.float64, np.int32):
        found.append(node("Add", np.zeros((0, 3), kind), np.zeros((1, 3), kind)))
        deep = RNG.integers(-4, 4, (2, 3, 2, 3, 2, 3)).astype(kind)
        found.append(node("Sub", deep, deep[:, :1, :, :1, :, :1]))
    found.append(node("Where", np.zeros((0, 2), bool), np.zeros(2), np.zeros((0, 2))))
    return found


def scattered() -> list[Any]:
    found = []
    for kind in (np.float32, np.float64, np.int32, np.int64):
        data = RNG.integers(-5, 5, (4, 5)).astype(kind)
        updates = RNG.integers(-5, 5, (3, 5)).astype(kind)
        if kind in (np.float32, np.float64):
            data[0, 1] = updates[1, 2] = updates[0, 3] = NAN
        index = np.array([[0, 1, 2, 3, 0], [0, 1, 2, -1, 3], [1, 1, -2, 3, 2]], np.int64)
        for way in ("add", "mul"):
            found.append(node("ScatterElements", data, index, updates, axis=0, reduction=way))
        data, updates = np.nan_to_num(data), np.nan_to_num(updates)  # the reference drops NaN
        for way in ("max", "min"):
            found.append(node("ScatterElements", data, index, updates, axis=0, reduction=way))
    return found


def casts() -> list[Any]:
    P = onnx.TensorProto
    exact = np.array([0.0, 1.0, -1.0, 2.5, -2.5, 127.0, 100.75], np.float32)
    found = [node("Cast", exact, to=t) for t in (P.INT8, P.INT16, P.INT32, P.INT64, P.DOUBLE)]
    found += [node("Cast", np.abs(exact), to=t) for t in (P.UINT8, P.UINT16, P.UINT32, P.UINT64)]
    found += [node("Cast", ODD, to=t) for t in (P.FLOAT16, P.BOOL, P.DOUBLE)]
    return found


def sampled() -> list[Any]:
    """Every way of Resize, one axis after the other."""
    image = f32(1, 2, 5, 4)
    found = []
    for mode in ("nearest", "linear", "cubic"):
        for way in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            for scale in ((1.0, 1.0, 1.6, 0.5), (1.0, 1.0, 0.4, 2.0)):
                scales = np.array(scale, np.float32)
                more = {"mode": mode, "coordinate_transformation_mode": way}
                found.append(node("Resize", image, None, scales, const=(2,), **more))
    roi = np.array([0, 0, -0.2, 0.1, 1, 1, 1.1, 1.3], np.float32)
    for mode in ("linear", "cubic"):
        more = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
        sizes = np.array([1, 2, 7, 6], np.int64)
        more["extrapolation_value"] = 3.0
        found.append(node("Resize", image, roi, None, sizes, const=(1, 3), **more))
    return found


def products() -> list[Any]:
    """Long sums, one row, columns that are no whole vector."""
    found = []
    for m, k, n in ((1, 1030, 5), (1, 517, 40), (3, 700, 17), (5, 1025, 3), (1, 3, 1), (19, 5, 70)):
        found.append(node("Gemm", f32(m, k), f32(k, n), f32(n), const=(1, 2)))
        found.append(node("MatMul", f32(m, k), f32(k, n)))
    return found


def windows() -> list[Any]:
    found = []
    for c, o, k, s, pad, group in (
        (3, 5, 3, 2, 1, 1), (4, 4, 5, 1, 2, 4), (17, 17, 3, 1, 1, 17), (8, 8, 3, 2, 1, 8),
        (16, 16, 7, 1, 3, 16), (16, 8, 3, 1, 1, 2), (6, 9, 3, 1, 1, 3), (20, 33, 1, 1, 0, 1),
    ):  # fmt: skip
        weights = f32(o, c // group, k, k)
        for extra in ({}, {"dilations": [2, 2]}):
            found.append(
                node("Conv", f32(1, c, 11, 13), weights, f32(o), const=(1, 2), group=group,
                     strides=[s, s], pads=[pad] * 4, **extra)
            )  # fmt: skip
    for op, more in (("MaxPool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {})):
        for s in (1, 2):
            x, pads = f32(1, 18, 9, 10), [1, 1, 1, 1]
            found.append(node(op, x, kernel_shape=[3, 3], strides=[s, s], pads=pads, **more))
    return found


def edges() -> list[Any]:
    """Windows that begin or end outside, tails of channels, everything upside down."""
    x = f32(1, 18, 7, 5)
    found = [node(op, x) for op in ("GlobalMaxPool", "GlobalAveragePool")]
    for op in ("MaxPool", "AveragePool"):
        more = {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 1, 2, 1], "ceil_mode": 1}
        found += [node(op, a, **more) for a in (x, x.astype(np.float64), x[:, :3])]
        found.append(node(op, x, kernel_shape=[2, 2], dilations=[3, 2], strides=[2, 1]))
        found.append(node(op, f32(2, 3, 17), kernel_shape=[4], strides=[3], pads=[2, 3]))
    for k in (-9, -1, 0, 2, 9):
        found += [node("Trilu", f32(2, 4, 5), np.int64(k), const=(1,), upper=u) for u in (0, 1)]
    for kind in (np.float32, np.float64, np.int64):
        ranks = RNG.integers(0, 4, (3, 4, 5)).astype(kind)
        for largest in (0, 1):
            for axis in (0, 2):
                k = np.array([3], np.int64)
                found.append(
                    node("TopK", ranks, k, outputs=(0, 1), const=(1,), axis=axis, largest=largest)
                )
    lengths = np.array([3, 1, 4, 2], np.int64)
    found.append(node("ReverseSequence", f32(5, 4, 3), lengths))
    found.append(node("ReverseSequence", f32(4, 5, 3), lengths, batch_axis=0, time_axis=1))
    for mode, pads in (
        ("reflect", (0, 3, 0, 2)),
        ("edge", (1, 4, 2, 6)),
        ("wrap", (2, 3, 1, 3)),
        ("constant", (0, 2, 1, 3)),
    ):
        for kind in (np.float32, np.int8):
            data = RNG.integers(-9, 9, (4, 5)).astype(kind)
            found.append(node("Pad", data, np.array(pads, np.int64), const=(1,), mode=mode))
    return found


def filters() -> list[Any]:
    """Convolutions of every kind of kernel, with and without bias."""
    found = []
    for kind in (np.float32, np.float64):
        for dims in ((9,), (6, 7), (4, 5, 6)):
            rank = len(dims)
            x, w = f32(1, 4, *dims).astype(kind), f32(6, 2, *(3,) * rank).astype(kind)
            more = {"group": 2, "pads": [2] * (2 * rank), "dilations": [2] * rank}
            found.append(node("Conv", x, w, const=(1,), **more))
            found.append(node("Conv", x, w, f32(6).astype(kind), const=(1, 2), **more))
    for c, o, group, s, out in (
        (3, 5, 1, 2, 1),
        (18, 18, 18, 2, 0),
        (4, 6, 1, 3, 2),
        (16, 8, 1, 1, 0),
    ):
        w = f32(c, o // group, 3, 3)
        more = {"group": group, "strides": [s, s], "output_padding": [out, out]}
        bias = f32(o) if group == 1 else None  # the reference gives all groups the first one's
        given, pads = f32(1, c, 5, 4), [1, 0, 2, 1]
        found.append(node("ConvTranspose", given, w, const=(1,), **more))
        found.append(node("ConvTranspose", given, w, bias, const=(1, 2), pads=pads, **more))
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                grid = RNG.uniform(-1.7, 1.7, (1, 4, 5, 2)).astype(np.float32)
                more = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                found.append(node("GridSample", f32(1, 2, 4, 5), grid, **more))
    return found


#: What moves and converts, the same C for every width; what has kernels of vectors.
SCALAR = (scattered, casts, numbers, wild, chosen, quantised_values, cuts, distinct, forests)
VECTOR = (elementwise, sampled, products, windows, edges, filters, layers, attended)


def job(made: Any, label: str) -> harness.Job:
    """The model of one node and what onnx.reference computes."""
    name, inputs, outputs, const, attrs, want = made
    domain, _, op = name.rpartition(".")
    case = harness.Case(inputs, attrs, const, len(outputs), 1e-3, 1e-5, expected=want)
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    least = onnx.defs.get_schema(op, domain=domain).min_output
    ends = [
        f"y{i}" if i in outputs or i < least else "" for i in range(max(outputs[-1] + 1, least))
    ]
    given = [(f"x{i}", a) for i, a in enumerate(inputs) if a is not None]
    fed = [harness.info(n, a) for n, a in given if int(n[1:]) not in const]
    kept = [onnx.numpy_helper.from_array(a, n) for n, a in given if int(n[1:]) in const]
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in outputs]
    one = helper.make_node(op, names, ends, domain=domain, **attrs)
    graph = helper.make_graph([one], "g", fed, results, kept)
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    opsets += [helper.make_opsetid(domain, 5)] if domain else []
    model = helper.make_model(graph, opset_imports=opsets)
    want = harness.reference(model, case)
    for result, array in zip(model.graph.output, want, strict=True):
        result.CopyFrom(harness.info(result.name, array))
    return harness.Job(label, case, model, want)


def jobs(groups: Sequence[Callable[[], list[Any]]]) -> list[harness.Job]:
    return [job(m, f"{g.__name__} {m[0]} {i}") for g in groups for i, m in enumerate(g())]


@pytest.mark.parametrize("vlen", [1, 8])
def test_odd_branches(vlen: int, tmp_path: Path) -> None:
    """`make full` and `make coverage` run all of them for both widths, the former with UBSan."""
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    whole = bool(os.environ.get("AOT_FULL"))
    groups = (*SCALAR, *VECTOR) if whole else SCALAR if vlen == 1 else VECTOR
    options = harness.SANITIZE if whole else ("-O0", "-fsanitize=address")
    need("clang")
    failures = harness.run(jobs(groups), vlen, vlen > 1, tmp_path, "clang", options=options)
    assert not failures, "\n".join(failures)
