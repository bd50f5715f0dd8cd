# SPDX-License-Identifier: Apache-2.0
"""Networks on quantised values: QDQ chains, operators on quantised values, dequantised weights of
every width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.draft import Draft, Reject
from fuzz.elementwise import kind_of
from fuzz.families import family


@dataclass
class Codes:
    """A value of quantised values: its dequantised value, type and parameters."""

    name: str
    real: str
    kind: str
    scale: str
    zero: str


def span(kind: str) -> tuple[int, int]:
    info = np.iinfo(kind)
    return int(info.min), int(info.max)


def quantised(d: Draft, x: str, kind: str, layer: bool = True) -> Codes:
    """QuantizeLinear and DequantizeLinear behind a float value; `layer` allows the code beside."""
    a = d.values[x].astype(np.float64)
    low, high = span(kind)
    top = float(np.abs(a).max(initial=0.0)) or 1.0
    scale = np.float32(2 * top / (high - low) * d.one(1.0, 1.0, 0.7))
    if d.chance(0.2):
        scale = np.float32(2.0 ** np.round(np.log2(scale)))
    zero = (low + high + 1) // 2 if kind.startswith("u") else 0
    if d.chance(0.4) and kind != "int16":
        zero += d.upto(-20, 20)
    names = d.const(np.array(scale, d.dtype)), d.const(np.array(zero, kind))
    q = d.add("QuantizeLinear", [x, *names])[0]
    if layer:
        d.errors[q] = max(d.errors.get(q, 0.0), 1.0)
    return Codes(q, d.add("DequantizeLinear", [q, *names])[0], kind, *names)


def weights(d: Draft, shape: list[int], per_channel: bool, axis: int = 0) -> tuple[str, Any]:
    """Constant quantised values behind a DequantizeLinear; the scale."""
    kind = d.word("int8 int8 int8 uint8")
    low, high = span(kind)
    quantised = d.rng.integers(low + (kind == "int8"), high + 1, shape).astype(kind)
    count = shape[axis]
    fan = max(1, int(np.prod(shape)) // count)
    scale = d.rng.uniform(0.5, 1.5, count if per_channel else ()) / (80.0 * fan**0.5)
    zero = np.zeros(scale.shape, kind)
    if kind == "uint8":
        zero = np.full(scale.shape, 128, kind)
    inputs = [d.const(quantised), d.const(np.asarray(scale, np.float32)), d.const(zero)]
    if kind == "int8" and d.chance(0.3):
        inputs.pop()
    attrs = {"axis": axis} if per_channel else {}
    return d.add("DequantizeLinear", inputs, **attrs)[0], np.asarray(scale, np.float32)


def bias(d: Draft, count: int, x: Codes, scale: Any) -> str:
    """A bias: int32 quantised values in units of the accumulator, or floats."""
    if d.chance(0.3):
        return d.const(d.array([count]))
    unit = np.asarray(d.values[x.scale] * scale, np.float32)
    unit = np.broadcast_to(unit, [count]).copy() if d.chance(0.5) or unit.ndim else unit
    quantised = d.rng.integers(-500, 500, count).astype(np.int32)
    attrs = {"axis": 0} if unit.ndim else {}
    return d.add("DequantizeLinear", [d.const(quantised), d.const(unit)], **attrs)[0]


LAYERS = "conv conv dense dense add mul pool global relu move table softmax resize concat"


def layer(d: Draft, x: Codes, others: list[Codes]) -> Codes:
    """One layer between quantised values."""
    kind = d.word(LAYERS)
    y = LAYER[kind](d, x, others)
    if d.chance(0.25):
        y = relu(d, y)
    exact = kind == "move"
    return quantised(d, y, x.kind, not exact)


def relu(d: Draft, y: str) -> str:
    if d.chance(0.3):
        ends = d.const(np.array(0, d.dtype)), d.const(np.array(6, d.dtype))
        return d.add("Clip", [y, *ends])[0]
    return d.add(d.word("Relu Relu LeakyRelu HardSwish"), [y])[0]


def conv(d: Draft, x: Codes, _others: list[Codes]) -> str:
    a = d.values[x.real]
    if a.ndim not in (3, 4):
        raise Reject
    c, rank = a.shape[1], a.ndim - 2
    group, out = (c, c) if d.chance(0.3) else (1, d.one(1, 3, 4, 8, 17))
    kernel = [d.one(1, 2, 3)] * rank
    w, scale = weights(d, [out, c // group, *kernel], d.chance(0.5))
    inputs = [x.real, w] + ([bias(d, out, x, scale)] if d.chance(0.7) else [])
    attrs = {"pads": [d.upto(0, 1)] * (2 * rank), "strides": [d.one(1, 1, 2)] * rank}
    return d.add("Conv", inputs, group=group, **attrs)[0]


def dense(d: Draft, x: Codes, _others: list[Codes]) -> str:
    a = d.values[x.real]
    if a.ndim < 2:
        raise Reject
    out = d.one(1, 3, 8, 17)
    if a.ndim == 2 and d.chance(0.5):
        w, scale = weights(d, [out, a.shape[1]], d.chance(0.5))
        inputs = [x.real, w] + ([bias(d, out, x, scale)] if d.chance(0.7) else [])
        return d.add("Gemm", inputs, transB=1)[0]
    w, _ = weights(d, [a.shape[-1], out], d.chance(0.4), axis=1)
    return d.add("MatMul", [x.real, w])[0]


def sum_(d: Draft, x: Codes, others: list[Codes]) -> str:
    same = [o for o in others if d.shape(o.real) == d.shape(x.real)]
    return d.add(d.word("Add Add Sub"), [x.real, d.one(*same).real])[0]


def product(d: Draft, x: Codes, others: list[Codes]) -> str:
    same = [o for o in others if d.shape(o.real) == d.shape(x.real)]
    return d.add("Mul", [x.real, d.one(*same).real])[0]


def pool(d: Draft, x: Codes, _others: list[Codes]) -> str:
    rank = d.values[x.real].ndim - 2
    if rank not in (1, 2):
        raise Reject
    attrs = {"kernel_shape": [d.one(2, 3)] * rank, "strides": [d.one(1, 2)] * rank}
    if d.chance(0.4):
        attrs["pads"] = [1] * (2 * rank)
    return d.add(d.word("MaxPool AveragePool"), [x.real], **attrs)[0]


def global_(d: Draft, x: Codes, _others: list[Codes]) -> str:
    if d.values[x.real].ndim != 4:
        raise Reject
    if d.chance(0.5):
        return d.add("ReduceMean", [x.real, d.ints(2, 3)], keepdims=d.upto(0, 1))[0]
    return d.add("GlobalAveragePool", [x.real])[0]


def only_relu(d: Draft, x: Codes, _others: list[Codes]) -> str:
    return relu(d, x.real)


def move(d: Draft, x: Codes, _others: list[Codes]) -> str:
    a = d.values[x.real]
    op = d.word("Transpose Reshape Flatten Slice Pad")
    if op == "Transpose":
        return d.add(op, [x.real], perm=d.rng.permutation(a.ndim).tolist())[0]
    if op == "Reshape":
        return d.add(op, [x.real, d.ints(a.shape[0], -1)])[0]
    if op == "Flatten":
        return d.add(op, [x.real])[0]
    if op == "Slice":
        return d.add(op, [x.real, d.ints(0), d.ints(max(1, a.shape[-1] - 1)), d.ints(-1)])[0]
    return d.add(op, [x.real, d.ints(*[0] * (2 * a.ndim - 1), 1)])[0]


def table(d: Draft, x: Codes, _others: list[Codes]) -> str:
    return d.add(d.word("Sigmoid Tanh HardSigmoid Elu Exp Gelu Softplus Abs Neg Erf"), [x.real])[0]


def softmax(d: Draft, x: Codes, _others: list[Codes]) -> str:
    return d.add("Softmax", [x.real], axis=-1)[0]


def resize(d: Draft, x: Codes, _others: list[Codes]) -> str:
    if d.values[x.real].ndim != 4:
        raise Reject
    scales = d.const(np.array([1, 1, 2, 2], np.float32))
    attrs = {"mode": "nearest", "nearest_mode": "floor"} if d.chance(0.6) else {"mode": "linear"}
    attrs["coordinate_transformation_mode"] = "asymmetric"
    return d.add("Resize", [x.real, "", scales], **attrs)[0]


def concat(d: Draft, x: Codes, others: list[Codes]) -> str:
    same = [o for o in others if d.shape(o.real) == d.shape(x.real)]
    return d.add("Concat", [x.real, d.one(*same).real], axis=d.one(1, -1))[0]


LAYER = {
    "conv": conv,
    "dense": dense,
    "add": sum_,
    "mul": product,
    "pool": pool,
    "global": global_,
    "relu": only_relu,
    "move": move,
    "table": table,
    "softmax": softmax,
    "resize": resize,
    "concat": concat,
}


@family(3)
def qdq(d: Draft) -> None:
    """A chain of layers between quantised values, now and then one joined with an earlier one."""
    if d.wild or d.opset < 19:
        raise Reject
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim in (2, 3, 4) and 0 < a.size < 3000)
    kind = d.word("int8 int8 uint8 uint8 int16 uint16" if d.opset >= 21 else "int8 uint8")
    if d.dtype != np.float32:
        raise Reject
    values = [quantised(d, x, kind, False)]
    for _ in range(d.upto(1, 4)):
        for _ in range(6):
            try:
                values.append(layer(d, values[-1], values))
                break
            except Reject:
                continue


@family(0.8)
def round_trip(d: Draft) -> None:
    """QuantizeLinear and DequantizeLinear of any type, per tensor, channel or block."""
    x = d.pick(lambda a: a.dtype == d.dtype and a.ndim >= 1 and a.size > 0)
    if d.opset < 21 or d.wild or d.dtype == np.float64:
        raise Reject
    kind = d.word("int8 uint8 int16 uint16 int4 uint4 float8_e4m3fn float8_e5m2")
    axis = d.upto(0, d.values[x].ndim - 1)
    count = d.shape(x)[axis]
    per = d.chance(0.4)
    scale = d.rng.uniform(0.1, 0.5, count if per else ())
    inputs = [d.const(np.asarray(scale).astype(d.dtype))]
    zero = np.zeros(np.shape(scale), np.int64)
    if "int" in kind and d.chance(0.5):
        zero = zero + d.upto(0, 3)
    inputs.append(d.const(zero.astype(np.float32).astype(kind_of(kind))))
    attrs = {"axis": axis} if per else {}
    q = d.add("QuantizeLinear", [x, *inputs], **attrs)[0]
    d.add("DequantizeLinear", [q, *inputs], **attrs)


@family(0.8)
def dequantised(d: Draft) -> None:
    """Constant weights of every width, used by a product."""
    kind = d.word("int8 uint8 int16 uint16 int32 int4 uint4 int2 uint2 float8_e4m3fn float4_e2m1fn")
    need = {"int2": 25, "uint2": 25, "float4_e2m1fn": 23}.get(kind, 21)
    if d.opset < need or d.float_ != "float32":
        raise Reject
    x = d.floats((2, 3))
    k, n = d.shape(x)[-1], d.one(2, 4, 6)
    drawn = (
        d.rng.integers(-2, 2, [k, n]) if not kind.startswith("u") else d.rng.integers(0, 4, [k, n])
    )
    quantised = drawn.astype(np.float32).astype(kind_of(kind))
    scale, attrs = d.rng.uniform(0.1, 0.5, [n]), {"axis": 1}
    if k % 2 == 0 and d.chance(0.4):
        scale, attrs = d.rng.uniform(0.1, 0.5, [k // 2, n]), {"axis": 0, "block_size": 2}
    w = d.add("DequantizeLinear", [d.const(quantised), d.const(scale.astype(np.float32))], **attrs)[
        0
    ]
    d.add("MatMul", [x, w])


@family(0.8)
def on_quantised(d: Draft) -> None:
    """Operators that take quantised values and scales."""
    op = d.word("QLinearConv QLinearMatMul ConvInteger MatMulInteger DynamicQuantizeLinear")
    if op == "DynamicQuantizeLinear":
        x = d.pick(lambda a: a.dtype == np.float32 and a.size > 0)
        d.add(op, [x], 3)
        return
    a_kind, b_kind = d.word("uint8 int8 uint8"), d.word("int8 uint8")
    zero = {"uint8": 128, "int8": 3}
    if "Conv" in op:
        shape, other = [1, 3, 5, 5], [d.one(2, 4), 3, d.one(1, 3), 3]
    else:
        shape, other = [d.one(1, 4), 6], [6, d.one(1, 5)]
    x = d.feed(d.rng.integers(*span(a_kind), shape).astype(a_kind))
    w = d.const(d.rng.integers(*span(b_kind), other).astype(b_kind))
    az, bz = (d.const(np.array(zero[k], k)) for k in (a_kind, b_kind))
    attrs = {"pads": [1, 1, 1, 1]} if "Conv" in op and d.chance(0.5) else {}
    if op.startswith("QLinear"):
        s = [d.const(np.float32(v)) for v in (0.02, 0.01, 0.05)]
        y = d.add(op, [x, s[0], az, w, s[1], bz, s[2], az], **attrs)[0]
        d.errors[y] = max(d.errors.get(y, 0.0), 1.0)
    else:
        d.add(op, [x, w, az, bz] if d.chance(0.7) else [x, w], **attrs)


@family(0.5)
def fine_bias(d: Draft) -> None:
    """A product whose quantised values are its sums: a bias that is one off shows, though floats
    say less."""
    if d.wild or d.float_ != "float32" or d.opset < 19:
        raise Reject
    k, n, rows = d.upto(2, 9), d.one(1, 3, 8, 17), d.upto(1, 4)
    x_step, w_step = (np.float32(2.0 ** -d.upto(2, 7)) for _ in "xw")
    zero = d.const(np.array(0, np.int8))
    x = d.feed((d.rng.integers(-9, 10, [rows, k]) * x_step).astype(np.float32))
    scale = d.const(x_step)
    real = d.add("DequantizeLinear", [*d.add("QuantizeLinear", [x, scale, zero]), scale, zero])[0]
    quantised = d.rng.integers(-3, 4, [n, k]).astype(np.int8)
    w = d.add("DequantizeLinear", [d.const(quantised), d.const(w_step), zero])[0]
    whole = not d.chance(0.6)
    steps = d.rng.integers(-40, 41, n) + (0.0 if whole else d.rng.uniform(-0.4, 0.4, n))
    bias = (steps * (x_step * w_step)).astype(np.float32)
    bias = np.nextafter(bias, np.float32(d.one(0, 1)), dtype=np.float32)
    y = d.add("Gemm", [real, w, d.const(bias)], transB=1)[0]
    unit = np.float32(x_step * w_step * d.one(1, 2, 0.5))
    # A kernel may round a bias if that moves a result by 2**-7 at most: none is so near a tie.
    if not whole and (np.abs(d.values[y] / unit % 1.0 - 0.5) <= 2.0**-7).any():
        raise Reject
    ends = [d.const(unit), d.const(np.array(0, d.one(np.int8, np.int8, np.uint8)))]
    d.add("DequantizeLinear", [*d.add("QuantizeLinear", [y, *ends]), *ends])
