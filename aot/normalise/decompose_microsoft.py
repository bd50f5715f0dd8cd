# SPDX-License-Identifier: Apache-2.0
"""Bodies of the operators that onnxruntime's optimiser writes into transformers.

Before: y = com.microsoft.SkipLayerNormalization(x, skip, gamma, beta)
After:  y = LayerNormalization(Add(x, skip), gamma, beta)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from aot.ir.graph_nodes import array, attribute
from aot.normalise.decompose_builder import FLOAT, INT32, INT64, Body
from aot.normalise.decompose_microsoft_lstm import dynamic_lstm
from aot.shapes.microsoft import grouped_keys, turned

LEAST = -10000.0
"""What a forbidden key's score is lowered by, unless the node says otherwise."""


def _kind(b: Body) -> int:
    value = b.node.inputs[0]
    assert value is not None and value.dtype is not None
    return int(value.dtype)


def _number(b: Body, value: float) -> str:
    return b.constant(_kind(b), (), [value])


def _gelu(b: Body) -> bool:
    b.add("Gelu", "i0", out="o0")
    return True


def _bias_gelu(b: Body) -> bool:
    b.add("Gelu", b.add("Add", "i0", "i1"), out="o0")
    return True


def _fast_gelu(b: Body) -> bool:
    x = b.add("Add", "i0", "i1") if b.has(1) else "i0"
    b.add("Gelu", x, out="o0", approximate="tanh")
    return True


def _quick_gelu(b: Body) -> bool:
    alpha = _number(b, float(attribute(b.node, "alpha", 1.702)))
    b.add("Mul", "i0", b.add("Sigmoid", b.add("Mul", "i0", alpha)), out="o0")
    return True


# -- products ---------------------------------------------------------------------------------


def _operand(b: Body, index: int, letter: str) -> str:
    """An operand of FusedMatMul, its axes in order."""
    rank = len(b.shape(index))
    flags = [bool(attribute(b.node, f"trans{w}{letter}", 0)) for w in ("Batch", "")]
    perm = turned(tuple(range(rank)), *flags)
    if perm == tuple(range(rank)):
        return f"i{index}"
    return b.add("Transpose", f"i{index}", perm=list(perm))


def _fused_matmul(b: Body) -> bool:
    alpha = float(attribute(b.node, "alpha", 1.0))
    y = b.add("MatMul", _operand(b, 0, "A"), _operand(b, 1, "B"))
    b.add("Mul", y, _number(b, alpha), out="o0")
    return True


def _activated(b: Body, x: str, numbers: list[float]) -> bool:
    """o0 = the node's activation of x."""
    name = attribute(b.node, "activation", "")
    if name in ("", "Relu", "Tanh", "Sigmoid"):
        b.add(name or "Identity", x, out="o0")
    elif name == "LeakyRelu":
        b.add(name, x, out="o0", alpha=(numbers or [0.01])[0])
    elif name == "HardSigmoid":
        alpha, beta = numbers if len(numbers) == 2 else (0.2, 0.5)
        b.add(name, x, out="o0", alpha=alpha, beta=beta)
    elif name == "Clip" and len(numbers) == 2:
        b.add(name, x, *(_number(b, v) for v in numbers), out="o0")
    else:
        return False
    return True


def _without(b: Body, *names: str) -> dict[str, Any]:
    return {k: a.value for k, a in b.node.attributes.items() if k not in names}


def _fused_conv(b: Body) -> bool:
    own = ("activation", "activation_params")
    numbers = [float(v) for v in attribute(b.node, "activation_params", None) or ()]
    bias = ["i2"] if b.has(2) else []
    y = b.add("Conv", "i0", "i1", *bias, **_without(b, *own))
    return _activated(b, b.add("Add", y, "i3") if b.has(3) else y, numbers)


def _fused_gemm(b: Body) -> bool:
    own = [f"activation_{k}" for k in ("alpha", "beta", "gamma")]
    numbers = [float(attribute(b.node, k)) for k in own if attribute(b.node, k) is not None]
    c = ["i2"] if b.has(2) else []
    y = b.add("Gemm", "i0", "i1", *c, **_without(b, "activation", *own))
    return _activated(b, y, numbers)


# -- normalisations ---------------------------------------------------------------------------


def _norm(b: Body, total: str, scale: int, shift: int, rms: bool) -> None:
    """o0 = the total, normalised."""
    epsilon = float(attribute(b.node, "epsilon", 1e-12))
    inputs = [total, f"i{scale}"]
    if rms:
        b.add("RMSNormalization", *inputs, out="o0", axis=-1, epsilon=epsilon)
        return
    if b.has(shift):
        inputs.append(f"i{shift}")
    b.add("LayerNormalization", *inputs, out="o0", axis=-1, epsilon=epsilon)


def _skip(b: Body, rms: bool) -> bool:
    total = b.add("Add", "i0", "i1")
    bias = 3 if rms else 4
    if b.has(bias):
        total = b.add("Add", total, f"i{bias}")
    wanted = [bool(o.name) for o in b.node.outputs] + [False] * 4
    if wanted[1] or wanted[2]:
        return False  # onnxruntime itself leaves them unwritten
    _norm(b, total, 2, 3, rms)
    if wanted[3]:
        b.add("Identity", total, out="o3")
    return True


def _skip_norm(b: Body) -> bool:
    return _skip(b, rms=False)


def _skip_rms(b: Body) -> bool:
    return _skip(b, rms=True)


def _simplified_norm(b: Body) -> bool:
    """RMSNormalization; the other result is what it multiplies by."""
    axis = int(attribute(b.node, "axis", -1))
    epsilon = float(attribute(b.node, "epsilon", 1e-5))
    b.add("RMSNormalization", "i0", "i1", out="o0", axis=axis, epsilon=epsilon)
    if _wanted(b, 1):
        rank = len(b.shape(0))
        wide = b.add("Cast", "i0", to=FLOAT)
        axes = b.ints(*range(axis % rank, rank))
        square = b.add("ReduceMean", b.add("Mul", wide, wide), axes, keepdims=1)
        root = b.add("Sqrt", b.add("Add", square, b.constant(FLOAT, (), [epsilon])))
        b.add("Reciprocal", root, out="o1")
    return True


def _embed_norm(b: Body) -> bool:
    batch, length = b.shape(0)
    total = b.add("Gather", "i2", "i0", axis=0)
    if b.has(8):
        places = b.add("Gather", "i3", "i8", axis=0)
    else:
        row = b.data(np.arange(length, dtype=np.int64))
        places = b.add("Gather", "i3", row, axis=0)
    total = b.add("Add", total, places)
    if b.has(1) and b.has(4):
        total = b.add("Add", total, b.add("Gather", "i4", "i1", axis=0))
    _norm(b, total, 5, 6, False)
    names = [o.name for o in b.node.outputs] + ["", ""]
    if names[1]:
        if b.has(7):
            b.add("ReduceSum", "i7", b.ints(1), out="o1", keepdims=0)
        else:
            b.add("Identity", b.constant(INT32, (batch,), [0] * batch), out="o1")
    if names[2]:
        b.add("Identity", total, out="o2")
    return True


# -- attention --------------------------------------------------------------------------------


def _lowered(b: Body, mask: int, axes: list[int]) -> str:
    """A mask of ones and zeros as what is added to the scores."""
    value = float(attribute(b.node, "mask_filter_value", LEAST))
    keep = b.add("Cast", f"i{mask}", to=9)
    if axes:
        keep = b.add("Unsqueeze", keep, b.ints(*axes))
    return b.add("Where", keep, _number(b, 0.0), _number(b, value))


def _scale(b: Body, columns: int) -> float:
    given = float(attribute(b.node, "scale", 0.0) or 0.0)
    return given or 1 / sqrt(columns)


def _key_mask(b: Body, index: int, keys: int) -> str | None:
    """The mask at `index`, of one row per sample, per query or of lengths, as a bias."""
    shape = b.shape(index)
    if len(shape) == 1:
        row = b.data(np.arange(keys, dtype=np.int64)[None, :])
        ends = b.add("Unsqueeze", b.add("Cast", f"i{index}", to=INT64), b.ints(1))
        keep = b.add("Unsqueeze", b.add("Less", row, ends), b.ints(1, 2))
        value = float(attribute(b.node, "mask_filter_value", LEAST))
        return b.add("Where", keep, _number(b, 0.0), _number(b, value))
    axes = {2: [1, 2], 3: [1]}.get(len(shape))
    if axes is None or shape[-1] != keys:
        return None
    return _lowered(b, index, axes)


def _attended(b: Body, operands: list[str], masks: list[str], **attrs: Any) -> str:
    mask = masks[0] if masks else ""
    if len(masks) == 2:
        mask = b.add("Add", *masks)
    inputs = operands + [mask] if mask else operands
    causal = int(attribute(b.node, "unidirectional", 0))
    return b.add("Attention", *inputs, is_causal=causal, **attrs)


def _attention(b: Body) -> bool:
    """q, k and v are one product; no past."""
    if b.has(4) or b.has(6) or attribute(b.node, "do_rotary", 0) or _wanted(b, 1):
        return False
    heads = int(attribute(b.node, "num_heads", 1))
    width = b.shape(1)[1]
    sizes = [int(s) for s in attribute(b.node, "qkv_hidden_sizes") or [width // 3] * 3]
    keys = b.shape(0)[1]
    masks = [f"i{5}"] if b.has(5) else []
    if b.has(3):
        mask = None if b.shape(3) != b.shape(0)[:1] and len(b.shape(3)) == 1 else ""
        mask = _key_mask(b, 3, keys) if mask is not None else None
        if mask is None:
            return False
        masks.append(mask)
    whole = b.add("MatMul", "i0", "i1")
    if b.has(2):
        whole = b.add("Add", whole, "i2")
    bounds = np.cumsum([0, *sizes])
    parts = [
        b.add("Slice", whole, b.ints(int(s)), b.ints(int(e)), b.ints(2), b.ints(1))
        for s, e in pairwise(bounds)
    ]
    counts = {"q_num_heads": heads, "kv_num_heads": heads}
    y = _attended(b, parts, masks, scale=_scale(b, sizes[0] // heads), **counts)
    b.add("Identity", y, out="o0")
    return True


def _quantised_attention(b: Body) -> bool:
    """QAttention: the same on what its codes stand for; no past."""
    if b.has(8) or _wanted(b, 1):
        return False
    codes = [b.add("DequantizeLinear", *_codes(b, 0, 3, 6))]
    codes.append(b.add("DequantizeLinear", *_codes(b, 1, 4, 7), axis=1))
    mask = ["i5"] if b.has(5) else []
    attrs = {n: a.value for n, a in b.node.attributes.items()}
    b.add("Attention", *codes, "i2", *mask, out="o0", domain="com.microsoft", **attrs)
    return True


def _codes(b: Body, codes: int, scale: int, zero: int) -> list[str]:
    """Inputs of a DequantizeLinear; a scale of one element is a scalar."""
    found = [f"i{codes}"]
    for index in (scale, zero):
        if b.has(index):
            one = b.shape(index) == (1,)
            found.append(b.add("Reshape", f"i{index}", b.ints()) if one else f"i{index}")
    return found


def _wanted(b: Body, *outputs: int) -> bool:
    return any(i < len(b.node.outputs) and bool(b.node.outputs[i].name) for i in outputs)


def _heads(b: Body, x: str, shape: tuple[int, ...], heads: int) -> str:
    """[B, S, H * d] as [B, H, S, d]."""
    apart = b.ints(shape[0], shape[1], heads, shape[2] // heads)
    return b.add("Transpose", b.add("Reshape", x, apart), perm=[0, 2, 1, 3])


def _multi_head(b: Body) -> bool:
    """Operands that are three tensors; keys and values may come split into heads."""
    heads = int(attribute(b.node, "num_heads", 1))
    q, k, v = (b.shape(i) if b.has(i) else () for i in range(3))
    past = b.has(6)
    if len(q) != 3 or len(k) != len(v) or len(k) not in (3, 4) or b.has(8):
        return False
    if _wanted(b, 3) or b.has(6) != b.has(7):
        return False
    names = ["i0", "i1", "i2"]
    if b.has(3):
        widths = [q[2], k[2], v[2]] if len(k) == 3 else []
        if not widths:
            return False
        ends = np.cumsum([0, *widths])
        for i in range(3):
            cut = [b.ints(int(e)) for e in (ends[i], ends[i + 1], 0, 1)]
            names[i] = b.add("Add", names[i], b.add("Slice", "i3", *cut))
    q4 = _heads(b, names[0], q, heads)
    k4, v4 = names[1:]
    if len(k) == 3:
        k4, v4 = _heads(b, k4, k, heads), _heads(b, v4, v, heads)
    if past:
        k4, v4 = b.add("Concat", "i6", k4, axis=2), b.add("Concat", "i7", v4, axis=2)
    keys = (k[1] if len(k) == 3 else k[2]) + (b.shape(6)[2] if past else 0)
    masks = ["i5"] if b.has(5) else []
    if b.has(4):
        mask = _key_mask(b, 4, keys) if b.shape(4)[0] == q[0] else None
        if mask is None:
            return False
        masks.append(mask)
    if past and attribute(b.node, "unidirectional", 0):
        return False
    y = _attended(b, [q4, k4, v4], masks, scale=_scale(b, q[2] // heads))
    flat = b.add("Transpose", y, perm=[0, 2, 1, 3])
    b.add("Reshape", flat, b.ints(q[0], q[1], -1), out="o0")
    for index, x in ((1, k4), (2, v4)):
        if _wanted(b, index):
            b.add("Identity", x, out=f"o{index}")
    return True


PLAIN_GROUPS = (
    "num_heads kv_num_heads scale softcap local_window_size do_rotary rotary_interleaved"
).split()


def _grouped(b: Body) -> bool:
    """Caches take the new keys and values where each sample's sequence ends.

    Input 5 holds the last key of each sample. A prompt (no key before it) starts at place 0.
    """
    if not (b.has(1) and b.has(2)) or any(b.has(i) for i in range(9, 16)) or _wanted(b, 3):
        return False
    others = [k for k in b.node.attributes if k not in PLAIN_GROUPS]
    if b.has(3) != b.has(4) or any(attribute(b.node, k) not in (0, -1, "NONE") for k in others):
        return False
    q, k = b.shape(0), b.shape(1)
    heads, kv_heads = (int(attribute(b.node, f"{n}num_heads", 1)) for n in ("", "kv_"))
    past = b.shape(3)[2] if b.has(3) else 0
    keys = grouped_keys(b.node, k[1], past)
    prompt = keys == k[1]
    batch, length = q[:2]
    if k[1] != length or keys < length:
        return False
    lens = b.add("Add", b.add("Cast", "i5", to=INT64), b.ints(1))
    starts = b.data(np.zeros(batch, np.int64))
    if not prompt:
        starts = b.add(
            "Max", b.add("Sub", b.add("Reshape", lens, b.ints(-1)), b.ints(length)), starts
        )
    names = ["i0", "i1"]
    if attribute(b.node, "do_rotary", 0):
        row = b.data(np.arange(length, dtype=np.int64)[None, :])
        places = b.add("Add", b.add("Unsqueeze", starts, b.ints(1)), row)
        turn: dict[str, Any] = {"interleaved": int(attribute(b.node, "rotary_interleaved", 0))}
        columns = 2 * b.shape(7)[1]
        if columns != q[2] // heads:
            turn["rotary_embedding_dim"] = columns
        names = [
            b.add("RotaryEmbedding", x, "i7", "i8", places, num_heads=n, **turn)
            for x, n in zip(names, (heads, kv_heads), strict=True)
        ]
    q4 = _heads(b, names[0], q, heads)
    caches = [_heads(b, x, k, kv_heads) for x in (names[1], "i2")]
    if not prompt:
        caches = [_cached(b, i, x, starts, keys) for i, x in zip((3, 4), caches, strict=True)]
    window = int(attribute(b.node, "local_window_size", -1))
    attrs: dict[str, Any] = {"scale": _scale(b, q[2] // heads), "is_causal": 1}
    attrs["softcap"] = float(attribute(b.node, "softcap", 0.0))
    if window > 0:
        attrs["left_window_size"] = window - 1
    ends = [] if prompt else ["", "", "", b.add("Reshape", lens, b.ints(-1))]
    y = b.add("Attention", q4, *caches, *ends, **attrs)
    flat = b.add("Transpose", y, perm=[0, 2, 1, 3])
    b.add("Reshape", flat, b.ints(*q), out="o0")
    for index in (1, 2):
        if _wanted(b, index):
            b.add("Identity", caches[index - 1], out=f"o{index}")
    return True


def _cached(b: Body, index: int, now: str, starts: str, keys: int) -> str:
    """The cache at `index`, `keys` rows long, with the rows `now` at `starts`."""
    shape = b.shape(index)
    cache = f"i{index}"
    if keys > shape[2]:
        rest = (*shape[:2], keys - shape[2], shape[3])
        zeros = b.add("Expand", _number(b, 0.0), b.ints(*rest))
        cache = b.add("Concat", cache, zeros, axis=2)
    return b.add("TensorScatter", cache, now, starts, axis=2)


def _rotary(b: Body) -> bool:
    """ONNX's operator of the same name; one position is where the first token stands."""
    shape = b.shape(0)
    if attribute(b.node, "is_packed_batching", 0):
        return False
    if float(attribute(b.node, "scale", 1.0)) != 1.0:
        return False
    batch, length = shape[0], shape[1] if len(shape) == 3 else shape[2]
    places = "i1"
    if len(b.shape(1)) == 1:
        row = b.data(np.arange(length, dtype=np.int64)[None, :])
        places = b.add("Expand", b.add("Add", "i1", row), b.ints(batch, length))
    kept = {
        name: int(attribute(b.node, name, 0))
        for name in ("interleaved", "num_heads", "rotary_embedding_dim")
    }
    if len(shape) == 4:
        kept.pop("num_heads")
    elif not kept["num_heads"]:
        columns = kept["rotary_embedding_dim"] or 2 * b.shape(2)[1]
        if kept["rotary_embedding_dim"]:
            return False
        kept["num_heads"] = shape[2] // columns
    b.add("RotaryEmbedding", "i0", "i2", "i3", places, out="o0", **kept)
    return True


# -- weights of four bits ---------------------------------------------------------------------


def _nbits(b: Body) -> bool:
    """Weights dequantised at compile time."""
    w = nbits_weights(b)
    if w is None:
        return False
    y = b.add("MatMul", "i0", b.data(np.ascontiguousarray(w)))
    b.add("Add" if b.has(5) else "Identity", y, *(["i5"] if b.has(5) else []), out="o0")
    return True


def nbits_weights(b: Body) -> np.ndarray[Any, Any] | None:
    """The weights [K, N] of a MatMulNBits in the type of its scales, None if they are not known."""
    rows, columns = int(attribute(b.node, "K", 0)), int(attribute(b.node, "N", 0))
    size, bits = int(attribute(b.node, "block_size", 0)), int(attribute(b.node, "bits", 4))
    packed, scales = array(b.node.inputs[1]), array(b.node.inputs[2])
    if packed is None or scales is None or b.has(4) or bits not in (4, 8) or size <= 0:
        return None
    blocks = -(-rows // size)
    zeros = array(b.node.inputs[3]) if b.has(3) else None
    if b.has(3) and zeros is None:
        return None
    codes = _unpacked(packed.reshape(columns, -1), bits)[:, : blocks * size]
    codes = codes.reshape(columns, blocks, size).astype(np.float32)
    if zeros is None:
        middle: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        middle = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.float32)
        middle = middle[..., None]
    else:
        middle = zeros.reshape(columns, blocks, 1).astype(np.float32)
    w = (codes - middle) * scales.reshape(columns, blocks, 1).astype(np.float32)
    flat: np.ndarray[Any, Any] = w.reshape(columns, -1)[:, :rows].T.astype(scales.dtype)
    return flat


def _unpacked(data: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Codes of `bits` bits, the low ones first, along the last axis."""
    if bits == 8:
        return data
    pairs = np.stack([data & 15, data >> 4], axis=-1)
    return pairs.reshape(*data.shape[:-1], -1)


BODIES: dict[str, Callable[[Body], bool]] = {
    "Attention": _attention,
    "BiasGelu": _bias_gelu,
    "DynamicQuantizeLSTM": dynamic_lstm,
    "EmbedLayerNormalization": _embed_norm,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "GroupQueryAttention": _grouped,
    "MatMulNBits": _nbits,
    "MultiHeadAttention": _multi_head,
    "QAttention": _quantised_attention,
    "QuickGelu": _quick_gelu,
    "RotaryEmbedding": _rotary,
    "SkipLayerNormalization": _skip_norm,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms,
}
