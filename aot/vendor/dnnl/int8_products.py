# SPDX-License-Identifier: Apache-2.0
"""Operators between 8-bit quantised values: QuantizeLinear([Relu | Clip](operator(DequantizeLinear
...))).

The library multiplies exact sums by one float32 scale per channel and adds a float32 bias that
holds the zero points, so a result may be one quantised value off where the two roundings fall on a
half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    S8,
    U8,
    Case,
    Layout,
    Match,
    Quantisation,
    QuantisedPair,
    QuantisedPool,
    QuantisedProduct,
    Recorder,
    UnsupportedError,
    activated,
    case,
    channels_last,
    dequantised,
    quantised,
    quantised_values,
    wildcard,
)
from aot.vendor.dnnl.base import Array, Checks, backend, primitive, record
from aot.vendor.dnnl.pools import kind_of, record_pool, window_fits, window_of

EIGHT = (S8, U8)


def _onnx_rounding(c: Recorder, m: Match) -> None:
    """Refuse a match if results must round as TensorFlow Lite does: oneDNN rounds as ONNX does.

    Raises UnsupportedError, naming the node, if the option `requant` is "tflite".
    """
    if c.options.requant == "tflite":
        raise UnsupportedError(
            "oneDNN does not round as TensorFlow Lite does",
            f"node {m.root.onnx_name}",
            "leave out --requant tflite, or --backend dnnl",
        )


def _types(**named: Quantisation) -> dict[str, int]:
    """Fields `x_type` … of the element types of these quantised values."""
    return {f"{name}_type": EIGHT.index(k.dtype) for name, k in named.items()}


def _range(limits: tuple[int, int]) -> dict[str, float]:
    """Fields of the lowest and highest quantised value of the result."""
    return {"low": float(limits[0]), "high": float(limits[1])}


# -- products -----------------------------------------------------------------------------------


def conv_supported(m: Match) -> Checks:
    """Checks of a convolution of int8 or uint8, weights less their zero points in int8."""
    yield from dense_supported(m)
    yield min(m.conv.attr("pads") or [0]) >= 0, f"pads {m.conv.attr('pads')} (must be >= 0)"
    if "r" in m.values:
        yield m.r.dtype is m.y.dtype, f"the sum of {m.r.dtype} in place of {m.y.dtype}"


def conv_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last for x, y and, where there is one, the residual r; others are plain."""
    return {n: channels_last(v) for n in "xyr" if (v := m.values.get(n)) is not None}


def _rows(found: QuantisedProduct, fold: bool) -> tuple[Array, Array, float]:
    """Scale and bias of each channel and the scale of the residual (0: none), in quantised values
    of y.

    With `fold` the bias holds what the zero point of x adds to every sum.
    """
    x, y, w, r = found.x, found.y, found.w, found.added
    unit = (np.float64(x.s) * w.scale.astype(np.float64) / np.float64(y.s)).reshape(-1)
    unit = np.broadcast_to(unit, (len(w.data),))
    sums = found.folded(x.z if fold else 0).astype(np.float64)
    bias, residual = sums * unit + y.z, 0.0
    if r is not None:
        residual = float(np.float32(r.s) / np.float32(y.s))
        bias = bias - r.z * residual
    return unit.astype(np.float32), bias.astype(np.float32), residual


def _run(c: Recorder, m: Match, state: Any, macs: int) -> None:
    """Record the run of a primitive, on x and the residual `r` if the match has one.

    `macs` are the multiplications, for estimates. y may take the place of r, unless r is x
    itself.
    """
    if "r" not in m.values:
        c.call("aot_dnnl_run", state, m.y, m.x, None, status=True, macs=macs)
        return
    pair = [(m.y, m.r)] if m.r.ir is not m.x.ir else []
    c.call("aot_dnnl_run_sum", state, m.y, m.x, m.r, None, inplace=pair, status=True, macs=macs)


def to_conv(c: Recorder, m: Match) -> None:
    """Record a convolution of quantised values, a primitive made at initialisation.

    Without padding the bias holds what the zero point of x adds to every sum; else the
    primitive is told the zero point. Grouped weights are [groups, outputs / groups, ...].
    Raises UnsupportedError for the arithmetic of TensorFlow Lite.
    """
    _onnx_rounding(c, m)
    found = QuantisedProduct.of(m)
    window, groups = found.window, found.groups
    assert window is not None
    padded = any(window.before) or any(window.after)
    unit, bias, residual = _rows(found, fold=not padded)
    w = found.w.stored
    if groups > 1:
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    params = c.params(
        rank=m.x.rank,
        w_rank=w.ndim,
        **_types(x=found.x, y=found.y),
        x_zero=found.x.z if padded else 0,
        r_scale=residual,
        **_range(found.limits),
        x=m.x.shape,
        y=m.y.shape,
        w=w.shape,
        s=window.strides,
        # The library counts dilations from 0, ONNX from 1.
        d=[d - 1 for d in window.dilations],
        before=window.before,
        after=window.after,
    )
    consts = c.const(w, "w"), c.const(unit, "scale"), c.const(bias, "b")
    state = primitive(c, "aot_dnnl_qconv", *consts, params)
    _run(c, m, state, math.prod(m.y.shape) * math.prod(found.w.data.shape[1:]))


def dense_supported(m: Match) -> Checks:
    """Checks of a product of int8 or uint8 by constant weights, less their zero points in int8."""
    return QuantisedProduct.checks(m, EIGHT, symmetric=True)


def to_dense(c: Recorder, m: Match) -> None:
    """Record y[rows, n] = x[rows, k] W + b of quantised values, leading axes of x folded into rows.

    The primitive of oneDNN is made at initialisation. The bias holds what the zero point of x
    adds to every sum; a residual `r` is added with its scale over that of y (0: there is none).
    Raises UnsupportedError for the arithmetic of TensorFlow Lite.
    """
    _onnx_rounding(c, m)
    found = QuantisedProduct.of(m)
    unit, bias, residual = _rows(found, fold=True)
    n, k = found.w.data.shape
    rows = math.prod(m.x.shape[:-1])
    sizes = {"m": rows, "k": k, "n": n, **_types(x=found.x, y=found.y), "r_scale": residual}
    params = c.params(**sizes, **_range(found.limits))
    w = np.ascontiguousarray(found.w.stored)
    consts = c.const(w, "w"), c.const(unit, "scale"), c.const(bias, "b")
    state = primitive(c, "aot_dnnl_qdense", *consts, params)
    _run(c, m, state, rows * n * k)


# -- pooling ------------------------------------------------------------------------------------


def maximum_fits(m: Match) -> Checks:
    """Checks of a MaxPool of int8 or uint8: one result, and a window that oneDNN has."""
    yield m.x.dtype in EIGHT, f"dtype {m.x.dtype} (needs int8 or uint8)"
    yield m.root.first_alone
    yield from window_fits(m, m.root)


def to_maximum(c: Recorder, m: Match) -> None:
    """Record a MaxPool of 8-bit values: no rescaling, and limits that are those of the type."""
    low, high = (-128.0, 127.0) if m.x.dtype is S8 else (0.0, 255.0)
    fields = {"x_type": EIGHT.index(m.x.dtype), "scale": 1.0, "shift": 0.0}
    _pool(c, m, m.root, {**fields, "low": low, "high": high})


def average_fits(m: Match) -> Checks:
    """Checks of an average of int8 or uint8, x and y of one type.

    Padding that counts is 0 to the library, so it needs zero point 0.
    """
    ready = yield from QuantisedPool.operands_fit(m)
    yield m.x.dtype is m.y.dtype, f"an average of {m.x.dtype} as {m.y.dtype}"
    yield from window_fits(m, m.pool)
    if ready and m.pool.op_type == "AveragePool":
        counted = m.pool.attr("count_include_pad", 0) and any(m.pool.attr("pads") or [])
        exact = not counted or QuantisedPool.of(m).x.z == 0
        yield exact, "padding that counts with a zero point other than 0"


def to_average(c: Recorder, m: Match) -> None:
    """Record an average of quantised values: y = mean * (x.s / y.s) + shift, cut to the limits.

    The shift holds both zero points. Raises UnsupportedError for rounding as in TensorFlow Lite.
    """
    _onnx_rounding(c, m)
    found = QuantisedPool.of(m)
    x, y = found.x, found.y
    ratio = float(np.float64(x.s) / np.float64(y.s))
    fields = {**_types(x=x), "scale": ratio, "shift": float(y.z - x.z * ratio)}
    _pool(c, m, m.pool, {**fields, **_range(found.limits)})


def _pool(c: Recorder, m: Match, node: Any, fields: dict[str, Any]) -> None:
    """Record the primitive that pools x by `node` into y, and its call.

    `fields` holds the parameters of aot_dnnl_qpool for types, scale, shift and limits, by name.
    """
    kind = {"rank": m.x.rank, "kind": kind_of(node)}
    record_pool(c, m, "aot_dnnl_qpool", {**kind, **fields}, window_of(m, node))


# -- two operands -------------------------------------------------------------------------------

KINDS = {"Add": 0, "Sub": 1, "Mul": 2}


def pair_fits(m: Match) -> Checks:
    """Check two quantised operands a and b: both have the shape of y.

    A product also needs zero points of 0, because its terms with a zero point have no place in the
    library's formula.
    """
    ready = yield from QuantisedPair.operands_fit(m)
    same = m.a.shape == m.b.shape == m.y.shape
    yield same, f"operands {list(m.a.shape)} and {list(m.b.shape)} (need equal shapes)"
    if m.op.op_type == "Mul" and ready:
        found = QuantisedPair.of(m)
        zeros = [found.a.z, found.b.z]
        yield zeros == [0, 0], f"a product of quantised values with zero points {zeros} (need 0)"


def to_pair(c: Recorder, m: Match) -> None:
    """Record a sum, a difference or a product of two quantised values, and its call.

    The library computes a * x_scale (+, -, *) b * x1_scale + shift. The scale of y is divided out
    of both factors of a sum, and only out of the first factor of a product. The result y may share
    the memory of a if types agree. Raises UnsupportedError for rounding as in TensorFlow Lite.
    """
    _onnx_rounding(c, m)
    found = QuantisedPair.of(m)
    a, b, y = found.a, found.b, found.y
    kind = KINDS[found.op_type]
    # The factors are rounded to float32 once, at the end, so that they err by half a digit at most.
    ra, rb = np.float64(a.s) / np.float64(y.s), np.float64(b.s)
    if found.op_type == "Mul":
        shift = np.float64(y.z)
    else:
        rb = rb / np.float64(y.s)
        shift = y.z - (a.z * ra + found.sign * b.z * rb)
    n = math.prod(m.y.shape)
    # In a + a the library would read its second operand from memory that it writes.
    place = [(m.y, m.a)] if m.a.ir is not m.b.ir and a.dtype is y.dtype else []
    fields = {
        "n": n,
        "kind": kind,
        **_types(x=a, x1=b, y=y),
        "x_scale": float(ra),
        "x1_scale": float(rb),
        "shift": float(shift),
        **_range(found.limits),
    }
    record(c, "aot_dnnl_qbinary", fields, [m.y, m.a, m.b], n, inplace=place)


# -- cases --------------------------------------------------------------------------------------


def _parameters(scale: float, zero: int) -> tuple[Array, Array]:
    """Scale and zero point of int8 quantised values."""
    return np.array(scale, np.float32), np.array(zero, np.int8)


def sum_examples() -> Iterator[Case]:
    """Cases of a convolution with a residual: one with padding, one with 2 groups and zero points.

    The residual r has a scale 0.7 times that of the result and the zero point -11.
    """
    same: dict[str, Any] = {"conv.pads": [1, 1, 1, 1]}
    wide: dict[str, Any] = {"conv.group": 2}
    example = QuantisedProduct.example
    for made in (
        example(quantised_values(1, 16, 6, 7), quantised_values(24, 16, 3, 3), 0, **same),
        example(
            quantised_values(2, 6, 5, 5), quantised_values(8, 3, 3, 3), 0, zx=9, zy=-128, **wide
        ),
    ):
        *operands, sy, zy = made.inputs
        x, weights = np.asarray(operands[0]), np.asarray(operands[3])
        n, _, h, w = x.shape
        cut = 0 if "conv.pads" in made.attrs else 2
        r = quantised_values(n, len(weights), h - cut, w - cut)
        const = tuple(i for i in range(len(made.inputs) + 3) if i not in (0, len(operands)))
        more = _parameters(float(np.asarray(sy)) * 0.7, -11)
        yield case(*operands, r, *more, sy, zy, const=const, **made.attrs)


def maximum_examples() -> Iterator[Case]:
    """Images [1, C, H, W] of int8 with padding, of uint8 with a row left over."""
    yield case(
        quantised_values(1, 17, 8, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    yield case(quantised_values(1, 16, 9, 8, dtype="uint8"), kernel_shape=[2, 2], strides=[2, 2])


def average_examples() -> Iterator[Case]:
    """Cases of an AveragePool in 2-D and 3-D, with and without padding; all parameters are
    constant.
    """
    operands = (*_parameters(0.0311, -7), *_parameters(0.023171, 11))
    for shape, attrs in (
        ((1, 5, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((2, 17, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
    ):
        named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
        yield case(quantised_values(*shape), *operands, const=(1, 2, 3, 4), **named)


def _two(shape: tuple[int, ...], za: int, zb: int, step: float) -> Case:
    """A case of two operands of one shape, with zero points `za` and `zb` and the result's scale
    `step`.
    """
    first = (quantised_values(*shape), *_parameters(0.031, za))
    second = (quantised_values(*shape, seed=1), *_parameters(0.019, zb))
    return case(*first, *second, *_parameters(step, 4), const=(1, 2, 4, 5, 6, 7))


def add_examples() -> Iterator[Case]:
    """Cases of a sum of quantised values, of rank 4 and 2."""
    yield _two((2, 5, 6, 7), -3, 90, 0.04)
    yield _two((3, 11), 1, 2, 0.05)


_CONV = QuantisedProduct.conv_pattern()
_SUM = OP.Add(_CONV, dequantised("r"), _outputs=["sum"])
_POOL = OP.any_of("AveragePool", "GlobalAveragePool")(dequantised("x"), _outputs=["pool"])
for _name, _graph, _fits, _lower, _layouts, _cases in (
    ("qconv", _CONV, conv_supported, to_conv, conv_layouts, QuantisedProduct.conv_cases),
    ("qconv_sum", _SUM, conv_supported, to_conv, conv_layouts, sum_examples),
    (
        "qdense",
        QuantisedProduct.dense_pattern(),
        dense_supported,
        to_dense,
        None,
        QuantisedProduct.dense_cases,
    ),
    ("qaverage", _POOL, average_fits, to_average, conv_layouts, average_examples),
    (
        "qadd",
        QuantisedPair.pattern("Add", "Sub"),
        pair_fits,
        to_pair,
        QuantisedPair.layouts,
        add_examples,
    ),
    (
        "qmul",
        QuantisedPair.pattern("Mul"),
        pair_fits,
        to_pair,
        QuantisedPair.layouts,
        lambda: [_two((2, 5, 6, 7), 0, 0, 0.05)],
    ),
):
    backend.declare(
        _name,
        quantised(activated(_graph)),
        _fits,
        lower=_lower,
        layouts=_layouts,
        cases=_cases,
    )
backend.declare(
    "qmaxpool",
    OP.MaxPool(wildcard("x")),
    maximum_fits,
    lower=to_maximum,
    layouts=conv_layouts,
    cases=maximum_examples,
)
