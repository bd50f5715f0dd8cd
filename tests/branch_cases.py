# SPDX-License-Identifier: Apache-2.0
"""Values and sizes at the edge of what kernels take, for tests/tools/test_branches.py."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx

INF, NAN = np.inf, np.nan
RNG = np.random.default_rng(7)
ODD = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, -1.5, 0.5, -0.25, INF, -INF, NAN, 1e-30, -1e-30, 1e30, -1e30]
    + [88.9, -104.0, 200.0, -746.0, 3.0, 40000.0, 1e-42, -1e-42],
    np.float32,
)


def f32(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(
    op: str,
    *inputs: Any,
    outputs: tuple[int, ...] = (0,),
    const: tuple[int, ...] = (),
    want: tuple[np.ndarray, ...] = (),
    **attrs: Any,
) -> Any:
    """(operator, arrays, which outputs, which inputs are constants, attributes, expected).

    `want` where onnx.reference has no answer: what ONNX leaves open and this project says.
    """
    return op, inputs, outputs, const, attrs, want


def limited(x: np.ndarray, kind: type[np.integer]) -> np.ndarray:
    """Towards zero, the nearest that there is, none for NaN."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    found = [0 if v != v else low if v <= low else high if v >= high else int(v) for v in x]
    return np.array(found, kind)


def numbers() -> list[Any]:
    """Casts of what the type does not have; integer powers and remainders."""
    P = onnx.TensorProto
    found = []
    for kind, to in ((np.int8, P.INT8), (np.int64, P.INT64), (np.uint64, P.UINT64)):
        x = ODD.astype(np.float64)
        found.append(node("Cast", x, to=to, want=(limited(x, kind),)))
    wide = np.array([1e300, -1e300, 1 / 3, 65519.999, 3.4e38, 0.1])
    found += [node("Cast", wide, to=t) for t in (P.FLOAT16, P.FLOAT)]
    eight = (P.FLOAT8E4M3FN, P.FLOAT8E4M3FNUZ, P.FLOAT8E5M2, P.FLOAT8E5M2FNUZ)
    found += [node("Cast", ODD, to=t, saturate=s) for t in eight for s in (0, 1)]
    with np.errstate(over="ignore"):
        found.append(node("Cast", ODD.astype(np.float16), to=P.FLOAT8E4M3FN))
        found.append(node("Cast", ODD.astype(ml_dtypes.bfloat16), to=P.FLOAT8E5M2))
    for t in eight:
        every = np.arange(256, dtype=np.uint8).view(onnx.helper.tensor_dtype_to_np_dtype(t))
        found += [node("Cast", every, to=to) for to in (P.FLOAT, P.FLOAT16, P.BFLOAT16)]
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.5, 0.0, 0.3], np.float32)
    ties = np.concatenate([ties, -ties, np.array([NAN], np.float32)])
    found.append(node("Cast", ties, to=P.FLOAT4E2M1))
    powers = np.array([1, 1.5, 3, 2.9, 3.3e38, 5.9e-39, 2.0**-127, INF, NAN, 4.6e-39], np.float32)
    for way in ("up", "down", "nearest"):
        found += [node("Cast", powers, to=P.FLOAT8E8M0, round_mode=way, saturate=s) for s in (0, 1)]
    far = np.array([1e10, 3e12, 1e20, 1e30, 5e8, 7e9, 1e37, 123456789.0], np.float32)
    found += [node(op, np.concatenate([far, -far])) for op in ("Sin", "Cos")]
    ends = np.array([[1, INF, 2], [-INF, -INF, -INF], [NAN, 0, 1]])
    want = np.array([INF, -INF, NAN])
    found.append(node("ReduceLogSumExp", ends, ints(1), const=(1,), keepdims=0, want=(want,)))
    scale, zero = np.array(0.5, np.float32), np.array(3, np.int8)
    quantised = np.array([3, 5, 127, -128], np.int8)
    x = np.array([NAN, 1, INF, -INF], np.float32)
    found.append(node("QuantizeLinear", x, scale, zero, const=(1, 2), want=(quantised,)))
    nothing = np.zeros((2, 0), np.float32)
    found.append(node("Hardmax", nothing, want=(nothing,)))
    base, power = np.meshgrid(ints(-3, -1, 0, 1, 2), ints(-3, -2, -1))
    want = np.where(base == 1, 1, np.where(base == -1, np.where(power % 2, -1, 1), 0))
    found.append(node("Pow", base, power, want=(want,)))
    signed, by = np.meshgrid(ints(-7, -1, 0, 5, -(2**63)), ints(0, -1, 3, -3))
    safe = np.where(by == 0, 1, by)
    rest = np.where((by == 0) | (by == -1), 0, np.fmod(signed, safe))
    floor = np.where((rest != 0) & ((rest < 0) != (by < 0)), rest + by, rest)
    found.append(node("Mod", signed, by, fmod=1, want=(rest,)))
    return [*found, node("Mod", signed, by, want=(floor,))]


def wild() -> list[Any]:
    """Indices, lengths and counts that a run can say and ONNX does not define."""
    found: list[Any] = []
    x = f32(5, 4, 3)
    clipped = np.stack([x[:, 0], x[::-1, 1], x[:, 2], x[:, 3]], 1)
    found += [node("ReverseSequence", x, ints(-2, 9, 1, 0), want=(clipped,))]
    hot = np.array([1.5, NAN, 1e10, -1e10, -1.0], np.float32)
    expected = np.zeros((5, 3), np.float32)
    expected[0, 1] = expected[4, 2] = 1
    marks = np.array([0, 1], np.float32)
    found.append(node("OneHot", hot, np.int64(3), marks, const=(1,), want=(expected,)))
    image, region = f32(2, 2, 6, 5), np.array([[0, 0, 3, 3], [1, 1, 4, 4]], np.float32)
    more = {"output_height": 2, "output_width": 3, "sampling_ratio": 0}
    nothing = np.zeros((2, 2, 2, 3), np.float32)
    found.append(node("RoiAlign", image, region, ints(-1, 2), want=(nothing,), **more))
    far = np.array([[-30, -40, -3, 2], [3, 3, 30, 50]], np.float32)
    found.append(node("RoiAlign", image, far, ints(0, 1), **more))
    pooled, index = f32(1, 1, 1, 4), ints(15, 2, 0, 5).reshape(1, 1, 1, 4)
    want = np.zeros((1, 1, 2, 8), np.float32)
    want.reshape(-1)[index.reshape(-1)] = pooled.reshape(-1)
    sizes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    found.append(node("MaxUnpool", pooled, index, want=(want,), **sizes))
    updates = f32(3)
    updates[1] = NAN
    for way in ("max", "min"):
        place = ints(0, 1, 1)
        want = np.maximum if way == "max" else np.minimum
        data = f32(4)
        result = data.copy()
        with np.errstate(invalid="ignore"):
            want.at(result, place, updates)
        found.append(node("ScatterElements", data, place, updates, reduction=way, want=(result,)))
    return found


def chosen() -> list[Any]:
    """NonMaxSuppression of boxes without an area, without an end, without a score."""
    small, large = [0, 0, 1e-25, 1e-25], [0, 0, 1e30, 1e30]
    found = []
    for boxes, scores, most, rows in (
        ([small, [0, 0, 1, 1]], [0.9, 0.8], 5, [0, 1]),
        ([large, large], [0.8, 0.9], 5, [1, 0]),
        ([[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]], [NAN, 0.5, NAN], 5, [1, 0, 2]),
        ([[0, 0, 1, 1]], [0.5], -3, []),
    ):
        b, s = np.array([boxes], np.float32), np.array([[scores]], np.float32)
        want = np.array([[0, 0, r] for r in rows], np.int64).reshape(-1, 3)
        overlap = np.array([0.5], np.float32)
        found.append(node("NonMaxSuppression", b, s, ints(most), overlap, want=(want,)))
    return found


def quantised_values() -> list[Any]:
    """Integer products and windows that are empty or leave the image."""
    x = RNG.integers(0, 255, (1, 2, 3, 4, 5), np.uint8)
    w = RNG.integers(-9, 9, (3, 2, 3, 2, 3), np.int8)
    found = [node("ConvInteger", x, w, np.uint8(7), const=(1,), pads=[1, 1, 0, 2, 1, 2])]
    left, right = np.zeros((0, 2, 3), np.uint8), np.ones((3, 4), np.uint8)
    found.append(node("MatMulInteger", left, right, want=(np.zeros((0, 2, 4), np.int32),)))
    return found


def cuts() -> list[Any]:
    """Slices by numbers that a run says; what has no elements."""
    x, nothing = f32(7, 2), np.zeros((0, 2), np.float32)
    found = [node("NonZero", nothing, want=(np.zeros((2, 0), np.int64),))]
    for data, start, end, step, want in (
        (x, 1, 5, 0, x[1:5]),
        (x, 1, 5, -1, nothing),
        (x, 6, -9, -4, x[6::-4]),
        (nothing, 3, -9, -1, nothing),
        (nothing, 0, 9, 1, nothing),
    ):
        numbers = ints(start), ints(end), ints(0), ints(step)
        found.append(node("Slice", data, *numbers, const=(3,), want=(want,)))
    return found


def distinct() -> list[Any]:
    """Unique of every type, values of both signs of the highest bit among them."""
    found = []
    for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(kind)
        x = np.array([5, info.max, 0, info.min, 5, 1, info.max, 1, info.max // 2 + 1], kind)
        found.append(node("Unique", x, outputs=(0, 1, 2, 3)))
    for kind in (np.float32, np.float64):
        x = np.array([2.5, -1, INF, 2.5, -INF, 0, -1, 1e30], kind)
        found.append(node("Unique", x, outputs=(0, 1, 2, 3)))
    return found


def forests() -> list[Any]:
    """A tree that asks for members of sets; NaN goes where its node says, or to "not equal"."""
    rows = [[1, 2], [3.5, 7], [2, -1], [2, 1], [NAN, 5], [0, NAN], [1, NAN]]
    sums = [[162], [161], [84], [152], [161], [164], [161]]

    def of(values: Any, kind: Any) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.array(values, kind))

    trees = {
        "aggregate_function": 1,
        "leaf_targetids": [0] * 8,
        "n_targets": 1,
        "nodes_falseleafs": [0, 1, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 5, 7],
        "nodes_featureids": [0, 1, 1, 0, 1],
        "nodes_missing_value_tracks_true": [1, 0, 1, 0, 0],
        "nodes_modes": of([6, 5, 0, 6, 0], np.uint8),
        "nodes_trueleafs": [0, 1, 1, 1, 1],
        "nodes_truenodeids": [1, 0, 2, 4, 6],
        "tree_roots": [0, 3, 4],
    }
    found = []
    for kind in (np.float32, np.float64):
        weights = of([1, 2, 4, 8, 16, 32, 64, 128], kind)
        members = of([1, 3.5, NAN, 2, NAN], kind)
        tensors = {"leaf_weights": weights, "membership_values": members}
        tensors["nodes_splits"] = of([0, 2, 0, 0, 0.5], kind)
        x, want = np.array(rows, kind), (np.array(sums, kind),)
        found.append(node("ai.onnx.ml.TreeEnsemble", x, want=want, **trees, **tensors))
    return found


def layers() -> list[Any]:
    """Convolutions of one tap that are no product, groups with infinities, odd windows."""
    found = []
    for strides, pads in (
        ([2, 1], [0] * 4), ([1, 2], [0] * 4), ([1, 1], [1, 0, 0, 0]), ([1, 1], [0, 1, 0, 0]),
        ([1, 1], [0, 0, 0, 1]), ([1, 1], [0, 0, 1, 0]),
    ):  # fmt: skip
        weights = f32(9, 16, 1, 1)
        found.append(
            node("Conv", f32(1, 16, 5, 6), weights, const=(1,), strides=strides, pads=pads)
        )
    x = f32(1, 12, 5, 6)
    x[0, 1, 2, 3], x[0, 5, 0, 0] = INF, NAN
    found.append(node("Conv", x, f32(9, 4, 3, 3), const=(1,), group=3, pads=[1] * 4))
    outside = {"ceil_mode": 1, "count_include_pad": 1, "strides": [2, 2], "kernel_shape": [3, 3]}
    found += [node("AveragePool", f32(1, c, 6, 8), **outside) for c in (3, 16)]
    more = {"kernel_shape": [3, 3], "dilations": [2, 3], "pads": [1, 2, 2, 3]}
    found += [
        node("MaxPool", f32(1, 3, 7, 9), **more),
        node("AveragePool", f32(1, 3, 7, 9), **more),
    ]
    want = np.full(4, 2.5, np.float32)
    found.append(node("Pad", f32(2), ints(5, -3), np.float32(2.5), const=(1,), want=(want,)))
    roi = np.array([0, 0, -0.2, 0.1, 1, 1, 1.1, 1.3], np.float32)
    way = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
    found.append(
        node("Resize", f32(1, 2, 5, 4), roi, None, ints(1, 2, 7, 6), const=(1, 3), mode="nearest",
             **way)
    )  # fmt: skip
    for k, largest in ((3, 0), (2, 1)):
        found.append(node("TopK", f32(3, 5), ints(k), const=(1,), largest=largest))
    grid = RNG.uniform(-1.7, 1.7, (1, 3, 4, 5, 3)).astype(np.float32)
    for mode in ("linear", "nearest"):
        found.append(node("GridSample", f32(1, 2, 3, 4, 5), grid, mode=mode))
    ties = np.array([-1, -2 / 3, 0, 2 / 3, 1], np.float32)
    between = np.stack(np.meshgrid(ties, ties), -1)[None]
    found.append(node("GridSample", f32(1, 1, 4, 4), between, mode="nearest", align_corners=1))
    flat = RNG.uniform(-3, 3, (1, 2, 6, 2)).astype(np.float32)
    more = {"padding_mode": "reflection", "align_corners": 1, "mode": "linear"}
    same = np.full((1, 1, 2, 6), 0.75, np.float32)
    one = np.full((1, 1, 1, 1), 0.75, np.float32)
    return [*found, node("GridSample", one, flat, want=(same,), **more)]


def attended() -> list[Any]:
    """Scores shown at every stage, masks that repeat, sequences without keys."""
    found = []
    q, k, v = f32(2, 3, 9, 8), f32(2, 3, 11, 8), f32(2, 3, 11, 5)
    for mode in range(4):
        more = {"qk_matmul_output_mode": mode, "softcap": 1.5 if mode else 0.0}
        found.append(node("Attention", q, k, v, f32(9, 11), outputs=(0, 3), **more))
    for mask in (f32(2, 1, 9, 11), RNG.uniform(size=(9, 11)) < 0.6):
        found.append(node("Attention", q, k, v, mask))
    found.append(node("Attention", q[:, :, :2], k, v, is_causal=1))
    found.append(node("Attention", f32(1, 4, 75, 8), f32(1, 2, 40, 8), f32(1, 2, 40, 13)))
    for rows in (9, 2):
        few = q[:, :, :rows]
        found.append(node("Attention", few, k, v, None, None, None, ints(0, 4)))
        scores = np.exp(few @ k.swapaxes(2, 3) / np.sqrt(np.float32(8)))
        want = scores / scores.sum(-1, keepdims=True) @ v
        want[0] = 0
        lens = ints(-(2**50), 2**50)
        found.append(node("Attention", few, k, v, None, None, None, lens, want=(want,)))
    return found
