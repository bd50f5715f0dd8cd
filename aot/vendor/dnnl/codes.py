# SPDX-License-Identifier: Apache-2.0
"""Operators between 8-bit codes: QuantizeLinear([Relu | Clip](operator(DequantizeLinear ...))).

The library multiplies exact sums by one float32 scale per channel and adds a float32 bias that
holds the zero points, so a result may be one code off where the two roundings fall on a half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.dtypes import S8, U8
from aot.ir.layout import Layout
from aot.ops.conv import spatial
from aot.ops.layouts import channels_last
from aot.ops.quantised import matmul as qmatmul
from aot.ops.quantised.binary import shapes_fit
from aot.ops.quantised.cases import codes_of, conv_cases, fc_cases, product, scale, zero
from aot.ops.quantised.common import (
    OP,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.ops.quantised.conv import Product, conv_fits, product_of, weights_of
from aot.ops.quantised.requant import FLOAT, TFLITE, rq_of
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case
from aot.vendor.dnnl.base import declare, one_result, primitive
from aot.vendor.dnnl.pools import kind_of, window_fits, window_of
from aot.vendor.match import Match, same_shapes
from aot.vendor.pattern import OpPat, Pat, Var, either
from aot.vendor.recorder import ParamFields, Recorder

Checks = Iterator[tuple[bool, str]]
Array = np.ndarray[Any, Any]
EIGHT = (S8, U8)


def _declare(name: str, inner: Pat) -> Pattern:
    """The pattern QuantizeLinear(inner); its result are the codes `y`."""
    graph = OP.QuantizeLinear(inner, Var("sy"), Var("zy"), _optional=1)
    return declare(name, (), lambda op: graph, codes=True)


def _onnx_rounding(c: Recorder, m: Match) -> None:
    """Refuse arithmetic that is not the library's."""
    if rq_of(c) == TFLITE:
        raise UnsupportedError(
            "oneDNN does not round as TensorFlow Lite does",
            f"node {m.root.onnx_name}",
            "leave out --requant tflite, or --backend dnnl",
        )


def _types(m: Match, *names: str) -> dict[str, int]:
    """Fields `x_type` … of the element types of these codes."""
    return {f"{name}_type": EIGHT.index(codes(m, name).dtype) for name in names}


def _bounds(m: Match) -> dict[str, float]:
    low, high = bounds(m, codes(m, "y"))
    return {"low": float(low), "high": float(high)}


# -- products -----------------------------------------------------------------------------------


def _with_residual(value: Pat) -> Pat:
    return OP.Add(value, dequantised("r"), _outputs=["sum"])


def _conv() -> Pat:
    x, w = dequantised("x"), dequantised("w")
    return either(
        OP.Conv(x, w, dequantised("b"), _outputs=["conv"]),
        OP.Conv(x, w, Var("f"), _outputs=["conv"], _optional=1),
    )


def _sums() -> Pat:
    x, w = dequantised("x"), dequantised("w")
    found: Pat = qmatmul._sums(x, w)
    return found


qconv = _declare("qconv", activated(_conv()))
qconv_sum = _declare("qconv_sum", activated(_with_residual(_conv())))
qdense = _declare("qdense", activated(_sums()))


def _symmetric(m: Match, axis: int) -> Checks:
    """The weights less their zero points are int8."""
    ready = m.w.is_const and m.sw.is_const and (m.zw is None or m.zw.is_const)
    fits = ready and weights_of(m, axis).symmetric
    yield fits or not ready, "weights less their zero points do not fit int8"


def _residual_fits(m: Match) -> Checks:
    yield from known(m, "r", types=EIGHT)
    yield same_shapes(m, m.r)
    yield not m.r.is_const, "the sum with a constant"
    yield m.r.dtype is m.y.dtype, f"the sum of {m.r.dtype} in place of {m.y.dtype}"


def conv_supported(m: Match) -> Checks:
    yield from known(m, "x", "y", types=EIGHT)
    yield from conv_fits(m)
    yield from _symmetric(m, 0)
    yield min(m.conv.attr("pads") or [0]) >= 0, f"pads {m.conv.attr('pads')} (must be >= 0)"
    if "r" in m.values:
        yield from _residual_fits(m)


def conv_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    more = {"r": channels_last(m.r)} if "r" in m.values else {}
    return {"x": channels_last(m.x), "y": channels_last(m.y), **more}


def _rows(m: Match, found: Product, fold: bool) -> tuple[Array, Array, float]:
    """Scale and bias of each channel and the scale of the residual (0: none), in codes of y.

    With `fold` the bias holds what the zero point of x adds to every sum.
    """
    x, y, w = codes(m, "x"), codes(m, "y"), found.w
    count = len(w.data)
    unit = (np.float64(x.s) * w.scale.astype(np.float64) / np.float64(y.s)).reshape(-1)
    unit = np.broadcast_to(unit, (count,))
    sums = found.bias.astype(np.float64)
    if fold:
        sums = sums - x.z * w.data.reshape(count, -1).sum(axis=1)
    bias, residual = sums * unit + y.z, 0.0
    if "r" in m.values:
        r = codes(m, "r")
        residual = float(np.float32(r.s) / np.float32(y.s))
        bias = bias - r.z * residual
    return unit.astype(np.float32), bias.astype(np.float32), residual


def _run(c: Recorder, m: Match, state: Any, macs: int) -> None:
    if "r" not in m.values:
        c.call("aot_dnnl_run", state, m.y, m.x, None, status=True, macs=macs)
        return
    pair = [(m.y, m.r)] if m.r.ir is not m.x.ir else []
    c.call("aot_dnnl_run_sum", state, m.y, m.x, m.r, None, inplace=pair, status=True, macs=macs)


def to_conv(c: Recorder, m: Match) -> None:
    _onnx_rounding(c, m)
    rank, groups = m.x.rank, int(m.conv.attr("group", 1))
    strides, dilations, before = spatial(m.conv, rank - 2)
    after = [int(p) for p in m.conv.attr("pads") or [0] * (2 * rank - 4)][rank - 2 :]
    padded = any(before) or any(after)
    found = product_of(m, 0, FLOAT)
    unit, bias, residual = _rows(m, found, fold=not padded)
    w = found.w.stored
    if groups > 1:
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    params = c.params(
        rank=rank,
        w_rank=w.ndim,
        **_types(m, "x", "y"),
        x_zero=codes(m, "x").z if padded else 0,
        r_scale=residual,
        **_bounds(m),
        x=m.x.shape,
        y=m.y.shape,
        w=w.shape,
        s=strides,
        d=[d - 1 for d in dilations],
        before=before,
        after=after,
    )
    consts = c.const(w, "w"), c.const(unit, "scale"), c.const(bias, "b")
    state = primitive(c, "aot_dnnl_qconv", *consts, params)
    _run(c, m, state, math.prod(m.y.shape) * math.prod(found.w.data.shape[1:]))


for _made in (qconv, qconv_sum):
    _made.check(conv_supported)
    _made.layouts(conv_layouts)
    _made.lower(to_conv)


@qdense.check
def dense_supported(m: Match) -> Checks:
    yield from qmatmul.dense_supported(m)
    yield from known(m, "x", "y", types=EIGHT)
    if m.w.rank == 2:
        yield from _symmetric(m, qmatmul._axis(m))


@qdense.lower
def to_dense(c: Recorder, m: Match) -> None:
    _onnx_rounding(c, m)
    found = product_of(m, qmatmul._axis(m), FLOAT)
    unit, bias, residual = _rows(m, found, fold=True)
    n, k = found.w.data.shape
    rows = math.prod(m.x.shape[:-1])
    sizes = {"m": rows, "k": k, "n": n, **_types(m, "x", "y"), "r_scale": residual}
    params = c.params(**sizes, **_bounds(m))
    w = np.ascontiguousarray(found.w.stored)
    consts = c.const(w, "w"), c.const(unit, "scale"), c.const(bias, "b")
    state = primitive(c, "aot_dnnl_qdense", *consts, params)
    _run(c, m, state, rows * n * k)


# -- pooling ------------------------------------------------------------------------------------

qmaxpool = declare("qmaxpool", ("x",), lambda op, x: op.MaxPool(x), codes=True)
_POOLS = ("AveragePool", "GlobalAveragePool")
qaverage = _declare("qaverage", activated(OP.any_of(*_POOLS)(dequantised("x"), _outputs=["pool"])))


def _last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


@qmaxpool.check
def maximum_fits(m: Match) -> Checks:
    yield m.x.dtype in EIGHT, f"dtype {m.x.dtype} (needs int8 or uint8)"
    yield from one_result(m)
    yield from window_fits(m, m.root)


@qmaxpool.lower
def to_maximum(c: Recorder, m: Match) -> None:
    low, high = (-128.0, 127.0) if m.x.dtype is S8 else (0.0, 255.0)
    fields = {"x_type": EIGHT.index(m.x.dtype), "scale": 1.0, "shift": 0.0}
    _pool(c, m, m.root, {**fields, "low": low, "high": high})


@qaverage.check
def average_fits(m: Match) -> Checks:
    asked = list(known(m, "x", "y", types=EIGHT))
    yield from asked
    yield from constant_bounds(m)
    yield m.x.dtype is m.y.dtype, f"an average of {m.x.dtype} as {m.y.dtype}"
    yield from window_fits(m, m.pool)
    if all(ok for ok, _ in asked) and m.pool.op_type == "AveragePool":
        counted = m.pool.attr("count_include_pad", 0) and any(m.pool.attr("pads") or [])
        exact = not counted or codes(m, "x").z == 0
        yield exact, "padding that counts with a zero point other than 0"


@qaverage.lower
def to_average(c: Recorder, m: Match) -> None:
    _onnx_rounding(c, m)
    x, y = codes(m, "x"), codes(m, "y")
    ratio = float(np.float64(x.s) / np.float64(y.s))
    fields = {**_types(m, "x"), "scale": ratio, "shift": float(y.z - x.z * ratio)}
    _pool(c, m, m.pool, {**fields, **_bounds(m)})


def _pool(c: Recorder, m: Match, node: Any, fields: dict[str, Any]) -> None:
    w = window_of(m, node)
    del w["given"]
    kind = {"rank": m.x.rank, "kind": kind_of(node)}
    params: ParamFields = c.params(**kind, **fields, x=m.x.shape, y=m.y.shape, **w)
    state = primitive(c, "aot_dnnl_qpool", params)
    macs = math.prod(m.y.shape) * math.prod(w["k"])
    c.call("aot_dnnl_run", state, m.y, m.x, None, status=True, macs=macs)


for _made in (qmaxpool, qaverage):
    _made.layouts(_last)


# -- two operands -------------------------------------------------------------------------------

KINDS = {"Add": 0, "Sub": 1, "Mul": 2}


def _pair(*op_types: str) -> OpPat:
    return OP.any_of(*op_types)(dequantised("a"), dequantised("b"), _outputs=["op"])


qadd = _declare("qadd", activated(_pair("Add", "Sub")))
qmul = _declare("qmul", activated(_pair("Mul")))


def pair_fits(m: Match) -> Checks:
    yield from shapes_fit(m)
    same = m.a.shape == m.b.shape == m.y.shape
    yield same, f"operands {list(m.a.shape)} and {list(m.b.shape)} (need equal shapes)"
    asked = list(known(m, "a", "b", types=EIGHT))
    if m.op.op_type == "Mul" and all(ok for ok, _ in asked):
        zeros = [codes(m, k).z for k in "ab"]
        yield zeros == [0, 0], f"a product of codes with zero points {zeros} (need 0)"


def pair_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last as soon as one operand is: then no lane is padding."""
    wanted = Layout(m.y.shape[1]) if 3 <= m.y.rank <= 5 else None
    if wanted is None or wanted not in (incoming["a"], incoming["b"]):
        return {}
    return {"a": wanted, "b": wanted, "y": wanted}


def to_pair(c: Recorder, m: Match) -> None:
    _onnx_rounding(c, m)
    a, b, y = (codes(m, k) for k in "aby")
    kind = KINDS[m.op.op_type]
    ra, rb = np.float64(a.s) / np.float64(y.s), np.float64(b.s)
    if kind != KINDS["Mul"]:
        rb = rb / np.float64(y.s)
    sign = {0: 1, 1: -1, 2: 0}[kind]
    shift = y.z - (a.z * ra + sign * b.z * rb if sign else 0)
    n = math.prod(m.y.shape)
    types = [EIGHT.index(k.dtype) for k in (a, b, y)]
    params = c.params(
        n=n,
        kind=kind,
        **dict(zip(("x_type", "x1_type", "y_type"), types, strict=True)),
        x_scale=float(ra),
        x1_scale=float(rb),
        shift=float(shift),
        **_bounds(m),
    )
    state = primitive(c, "aot_dnnl_qbinary", params)
    place = [(m.y, m.a)] if m.a.ir is not m.b.ir and a.dtype is y.dtype else []
    c.call("aot_dnnl_run2", state, m.y, m.a, m.b, inplace=place, status=True, macs=n)


for _made in (qadd, qmul):
    _made.check(pair_fits)
    _made.layouts(pair_layouts)
    _made.lower(to_pair)


# -- cases --------------------------------------------------------------------------------------


@qconv.cases
def conv_examples() -> Iterator[Case]:
    yield from conv_cases()


@qdense.cases
def dense_examples() -> Iterator[Case]:
    yield from fc_cases()


@qconv_sum.cases
def sum_examples() -> Iterator[Case]:
    same: dict[str, Any] = {"conv.pads": [1, 1, 1, 1]}
    wide: dict[str, Any] = {"conv.group": 2}
    for made in (
        product(codes_of(1, 16, 6, 7), codes_of(24, 16, 3, 3), 0, **same),
        product(codes_of(2, 6, 5, 5), codes_of(8, 3, 3, 3), 0, zx=9, zy=-128, **wide),
    ):
        *operands, sy, zy = made.inputs
        x, weights = np.asarray(operands[0]), np.asarray(operands[3])
        n, _, h, w = x.shape
        cut = 0 if "conv.pads" in made.attrs else 2
        r = codes_of(n, len(weights), h - cut, w - cut)
        const = tuple(i for i in range(len(made.inputs) + 3) if i not in (0, len(operands)))
        step = scale(float(np.asarray(sy)) * 0.7)
        yield case(*operands, r, step, zero(-11), sy, zy, const=const, **made.attrs)


@qmaxpool.cases
def maximum_examples() -> Iterator[Case]:
    yield case(codes_of(1, 17, 8, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield case(codes_of(1, 16, 9, 8, dtype="uint8"), kernel_shape=[2, 2], strides=[2, 2])


@qaverage.cases
def average_examples() -> Iterator[Case]:
    operands = (scale(0.0311), zero(-7), scale(0.023171), zero(11))
    for shape, attrs in (
        ((1, 5, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((2, 17, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
    ):
        named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
        yield case(codes_of(*shape), *operands, const=(1, 2, 3, 4), **named)


def _two(shape: tuple[int, ...], za: int, zb: int, step: float) -> Case:
    first = (codes_of(*shape), scale(0.031), zero(za))
    second = (codes_of(*shape, seed=1), scale(0.019), zero(zb))
    return case(*first, *second, scale(step), zero(4), const=(1, 2, 4, 5, 6, 7))


@qadd.cases
def add_examples() -> Iterator[Case]:
    yield _two((2, 5, 6, 7), -3, 90, 0.04)
    yield _two((3, 11), 1, 2, 0.05)


@qmul.cases
def mul_examples() -> Iterator[Case]:
    yield _two((2, 5, 6, 7), 0, 0, 0.05)
