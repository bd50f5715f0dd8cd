# SPDX-License-Identifier: Apache-2.0
"""A test case per operator, with results that NumPy computes: onnx.reference has none of the
operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aot.vendor import Case, case, f32

Array = np.ndarray[Any, Any]


def codes(*shape: int, seed: int, below: int = 256) -> Array:
    """Seeded bytes from 0 to below `below`."""
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.uint8)


def hats(positions: Array, size: int) -> Array:
    """Weights [..., size] by which a linear interpolation at `positions` reads `size` elements; the
    elements outside are zeros."""
    weights: Array = np.maximum(0, 1 - np.abs(positions[..., None] - np.arange(size)))
    return weights


def distances() -> Case:
    """CDist: squares of the distances between the rows of two matrices."""
    x, y = f32(3, 4), f32(5, 4, seed=1)
    return case(x, y, metric="sqeuclidean", expected=(((x[:, None] - y) ** 2).sum(2),))


def inverse() -> Case:
    """Inverse: two matrices whose diagonals are large."""
    square = f32(2, 3, 3, seed=2) + 4 * np.eye(3, dtype=np.float32)
    return case(square, expected=(np.linalg.inv(square),))


def unfolded() -> Case:
    """UnfoldTensor: all windows of three elements."""
    x = f32(2, 6)
    return case(x, size=3, step=1, expected=(np.lib.stride_tricks.sliding_window_view(x, 3, 1),))


def bifurcation() -> Case:
    """BifurcationDetector: the last two tokens, (3, 4), are found once, and 5 is behind them."""
    source, current = np.array([2, 3, 4, 5, 4]), np.array([9, 5, 3, 4])
    found = current, np.array([3])
    return case(source, current, np.array([0]), outputs=2, expected=found, max_ngram_size=2)


def crops() -> Case:
    """CropAndResize: boxes of two images, one with its corners exchanged."""
    x, rows, columns = f32(2, 3, 5, 6), np.linspace(0, 1, 4), np.linspace(0, 1, 3)
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.4], [0.9, 0.3, 0.2, 0.8]], np.float32)
    of = np.array([1, 0, 1], np.int32)
    down, right = (
        hats((boxes[:, k, None] + (boxes[:, k + 2] - boxes[:, k])[:, None] * at) * last, last + 1)
        for k, at, last in ((0, rows, 4), (1, columns, 5))
    )
    want = np.einsum("niy,ncyx,njx->ncij", down, x[of], right).astype(np.float32)
    return case(x, boxes, of, np.array([4, 3], np.int32), const=(2, 3), expected=(want,))


def warping() -> Case:
    """DynamicTimeWarping: the path through one row."""
    path = np.stack([np.zeros(5), np.arange(5)]).astype(np.int32)
    return case(f32(1, 5, low=0), expected=(path,))


def grid() -> Case:
    """GridSample: positions inside of two images and outside."""
    x, flow = f32(2, 3, 5, 6), f32(2, 4, 3, 2, low=-1.4, high=1.4)
    right, down = (
        hats(((flow[..., k] + 1) * n - 1) / 2, n) for k, n in ((0, x.shape[3]), (1, x.shape[2]))
    )
    want = np.einsum("nijy,ncyx,nijx->ncij", down, x, right).astype(np.float32)
    return case(x, flow, expected=(want,))


def four_bits() -> Case:
    """MatMulBnb4: weights -1, 0 and 1 (codes 0, 7 and 15) of blocks with a scale each."""
    number, scales = codes(6, 16, seed=3, below=3), f32(6, low=0.1, seed=1)
    stored = np.array([0, 7, 15], np.uint8)[number].ravel()
    w = ((number.astype(np.float32) - 1) * scales[:, None]).reshape(3, 32)
    x, packed = f32(2, 32), stored[::2] << 4 | stored[1::2]
    fields: dict[str, Any] = {"K": 32, "N": 3, "block_size": 16, "quant_type": 1}
    return case(x, packed, scales, const=(1, 2), expected=(x @ w.T,), **fields)


def four_bits_packed() -> Case:
    """MatMulFpQ4: blocks of 32 weights, which are a scale and 16 bytes of two codes each."""
    number, scales = codes(3, 2, 32, seed=4, below=16), f32(3, 2, 1, low=0.1, seed=1)
    halves = number[..., :16] | number[..., 16:] << 4
    blob = np.concatenate([scales.view(np.uint8), halves], 2).ravel()
    x, w = f32(2, 64), ((number - np.float32(8)) * scales).reshape(3, 64)
    return case(x, blob, np.array([64, 3]), const=(1, 2), expected=(x @ w.T,), blk_quant_type=0)


def masked_pool() -> Case:
    """MaxpoolWithMask: the last column and the last row are masked."""
    x, mask = f32(2, 3, 4, 6), np.ones((1, 1, 4, 6), np.int32)
    mask[..., -1, :] = mask[..., -1] = 0
    windows = np.lib.stride_tricks.sliding_window_view(np.where(mask, x, -np.inf), (2, 2), (2, 3))
    want = windows.max((4, 5)).astype(np.float32)
    return case(x, mask, const=(1,), expected=(want,), kernel_shape=[2, 2])


def mixed(x: Array, router: Array, w: Array, b: Array, v: Array, d: Array) -> Array:
    """The two best of the experts Relu(x w + b) v + d, by the shares that Softmax gives them of
    what both get."""
    share = np.exp(router) * (router >= np.sort(router)[:, -2:-1])
    share /= share.sum(1, keepdims=True)
    inner = np.maximum(np.einsum("th,eih->tei", x, w) + b, 0)
    found: Array = np.einsum("te,teh->th", share, np.einsum("tei,ehi->teh", inner, v) + d)
    return found


#: Attributes of the mixtures of experts.
MIXED: dict[str, Any] = {"k": 2, "activation_type": "relu", "normalize_routing_weights": 1}


def experts() -> Case:
    """MoE: two of three experts for each of five tokens."""
    shapes = ((5, 4), (5, 3), (3, 6, 4), (3, 6), (3, 4, 6), (3, 4))
    given = [f32(*shape, seed=k) for k, shape in enumerate(shapes)]
    return case(*given, const=(2, 3, 4, 5), expected=(mixed(*given),), **MIXED)


def quantised_experts() -> Case:
    """QMoE: the same with weights of 8 bits, a scale per row."""
    x, router, b, d = f32(5, 16), f32(5, 3, seed=1), f32(3, 32), f32(3, 16)
    stored = codes(3, 32, 16, seed=5), codes(3, 16, 32, seed=6)
    scales = f32(3, 32, low=0.001, high=0.01), f32(3, 16, low=0.001, high=0.01)
    w, v = ((q - np.float32(128)) * s[..., None] for q, s in zip(stored, scales, strict=True))
    want = mixed(x, router, w, b, v, d)
    given, consts = (x, router, stored[0], scales[0], b, stored[1], scales[1], d), range(2, 8)
    return case(*given, const=(*consts,), expected=(want,), expert_weight_bits=8, **MIXED)


def repeats() -> Case:
    """NGramRepeatBlock: in the first row (1, 2) was followed by 3, the second repeats nothing."""
    tokens, scores = np.array([[1, 2, 3, 1, 2], [0, 0, 4, 5, 0]]), f32(2, 6)
    want = scores.copy()
    want[0, 3] = -np.inf
    return case(tokens, scores, expected=(want,), ngram_size=3)


def words() -> Case:
    """WordConvEmbedding: words of two, three and five characters; 0 stands behind their ends."""
    text = np.array([[3, 7, 0, 0, 0], [1, 2, 8, 0, 0], [4, 4, 5, 6, 1]], np.int32)
    w, b, table = f32(4, 1, 2, 3), f32(4), f32(9, 3)
    pairs = [np.lib.stride_tricks.sliding_window_view(table[r[r > 0]], 2, 0) for r in text]
    want = [np.tanh(np.einsum("nek,fke->nf", p, w[:, 0]) + b).max(0) for p in pairs]
    return case(text, w, b, table, const=(1, 2, 3), expected=(np.stack(want),))


#: The case of each operator of com.microsoft.
CASES: dict[str, Callable[[], Case]] = {
    "BifurcationDetector": bifurcation,
    "CDist": distances,
    "CropAndResize": crops,
    "DynamicTimeWarping": warping,
    "GridSample": grid,
    "Inverse": inverse,
    "MatMulBnb4": four_bits,
    "MatMulFpQ4": four_bits_packed,
    "MaxpoolWithMask": masked_pool,
    "MoE": experts,
    "NGramRepeatBlock": repeats,
    "QMoE": quantised_experts,
    "Trilu": lambda: case(f32(4, 5), expected=(np.triu(f32(4, 5)),)),
    "UnfoldTensor": unfolded,
    "WordConvEmbedding": words,
}
