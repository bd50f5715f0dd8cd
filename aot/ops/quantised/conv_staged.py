# SPDX-License-Identifier: Apache-2.0
"""A convolution, or a product with constant weights, and what follows it between quantised values,
in one call without quantised values between them.

A sum, QuantizeLinear([Relu | Clip](Conv(quantised values, weights, [bias]) + quantised values r)),
as exporters for TensorRT write it: the exact int32 sums are scaled, the other operand is added in
the same fixed point, and the total is rounded once.

Elementwise operators, QuantizeLinear(Sigmoid(Conv(quantised values, weights, [bias]))): the exact
int32 sums find their place in a table of quadratic pieces, which is rounded once. At compile time
the table is compared with the operators themselves all along what the sums may be: where it is not
close enough the nodes stay in float32.

Both are the same for all values of `--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_portable
from aot.ops.quantised.common import quantised, quantised_fields, signed_input, signed_result
from aot.ops.quantised.conv import conv_shape, target_of
from aot.ops.quantised.convadd import stage_pixels
from aot.ops.quantised.shapes import QCall, QConv
from aot.vendor.cases import Case
from aot.vendor.layouts import all_channels_last
from aot.vendor.match import Match, NodeRef, ValueRef, same_shapes
from aot.vendor.pattern import OP, Pat, Var, either, repeat
from aot.vendor.quantisation import (
    Quantisation,
    activated,
    all_hold,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import kind, product_operands, quantised_case, quantised_values
from aot.vendor.quantised_product import (
    QuantisedProduct,
    Weights,
    bias_of,
    largest_sums,
    out_axis,
    product_node,
    weights_known,
    weights_of,
)
from aot.vendor.quantised_table import LONGEST, UNARY, link, run_chain
from aot.vendor.recorder import Recorder
from aot.vendor.requant import MAX_SUM, refusal

#: AOT_QCONV_SUM_BITS, AOT_REQUANT_NONE, AOT_QCONV_ACT_PLACES and AOT_QCONV_ACT_BITS of
#: runtime_c/kernels.
SUM_BITS, NONE, PLACES, BITS = 24, 3, 15, 20
#: Numbers of pieces that are tried, samples of each, and the largest distances in quantised values:
#: of one sample, and on average.
COUNTS, SAMPLES, WORST, MEAN = (16, 32, 64, 128, 256, 512), 64, 0.1, 2.0**-14
#: A quantised value that differs by less no longer counts as a change.
SETTLED = 2.0**-12
#: How far beyond the limits quantised values go where only the limit matters, and where curves are
#: fitted.
EDGE, SLACK = 0.4, 200.0


def multiplied() -> Pat:
    """A product of quantised values with constant ones, with a bias or without."""
    product = OP.MatMul(dequantised("x"), dequantised("w"), _outputs=["dot"])
    biased = (OP.Add(product, b, _outputs=["biased"]) for b in (dequantised("b"), Var("f")))
    return either(*biased, product)


def _sum(of: Pat) -> Pat:
    return activated(OP.Add(of, dequantised("r"), _outputs=["op"]))


def _behind(product: Pat) -> Pat:
    """`product` with a chain of operators behind it; cases take the first alternative."""
    shortest = OP.any_of("Sigmoid", *(n for n in UNARY if n != "Sigmoid"))(product)
    return either(shortest, repeat(link, product, 1, LONGEST))


_CONV, _DENSE = QuantisedProduct.conv_pattern(), multiplied()
conv_sum, dense_sum = (
    quantised(name, _sum(p)) for name, p in (("qconv_sum", _CONV), ("qdense_sum", _DENSE))
)
conv_act, dense_act = (
    quantised(name, _behind(p), priority=-2)
    for name, p in (("qconv_act", _CONV), ("qdense_act", _DENSE))
)
conv_sum.layouts(all_channels_last("x", "r", "y"))
conv_act.layouts(all_channels_last("x", "y"))


@dataclass(frozen=True, slots=True)
class Sums:
    """Weights with the output channels first, the bias in units of the sums, why there is none."""

    w: Weights
    bias: Array
    why: str = ""


def sums_of(m: Match) -> Sums:
    """The product of quantised values `x` with constant `w`."""
    x, y = quantisation(m, "x").signed(), quantisation(m, "y")
    w = weights_of(m, out_axis(product_node(m)))
    none = np.zeros(0, np.int64)
    reason = refusal(float(x.s), w.scale, float(y.s))
    if "r" in m.values:
        reason = reason or refusal(float(quantisation(m, "r").s), np.ones(1), float(y.s))
    if reason:
        return Sums(w, none, reason)
    bias, why = bias_of(m, x.s, w, y.s)
    if bias is None:
        return Sums(w, none, why)
    if not w.symmetric:
        return Sums(w, none, "weights with zero points that int8 cannot hold")
    largest = int(largest_sums(w, bias, x).max(initial=0))
    why = "" if largest < MAX_SUM else f"sums up to {largest} (needs less than {MAX_SUM})"
    return Sums(w, bias, why)


def _product_fits(m: Match, *names: str) -> Generator[tuple[bool, str], None, bool]:
    """Checks of the product, whose other quantised values are `names`; whether `sums_of` may read
    it."""
    if product_node(m).op_type == "Conv":
        group = int(m.conv.attr("group", 1))
        conditions = [
            (m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"),
            (group == 1, f"group {group} (needs 1)"),
        ]
    else:
        bias = m.values.get("b") or m.values.get("f")
        row = bias is None or math.prod(bias.shape) in (1, *bias.shape[-1:])
        ranks = f"ranks {m.x.rank} and {m.w.rank} (needs weights of 2)"
        conditions = [(m.x.rank >= 2 and m.w.rank == 2, ranks), (row, "a bias that is no row")]
    if not (yield from all_hold(conditions)):
        return False
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    axis = out_axis(product_node(m))
    conditions = [*known(m, "x", *names, types=(S8, U8)), *weights_known(m, (axis,))]
    return (yield from all_hold(conditions)) and m.w.is_const


def _record(
    c: Recorder,
    m: Match,
    name: str,
    operands: Sequence[Any],
    scaled: tuple[float, int],
    fields: dict[str, int],
    inplace: Sequence[tuple[Any, Any]] = (),
) -> None:
    """Record the kernel aot_qconv_`name`_s8, which has `operands` (y, x and one of its own).

    `scaled` says what one step of the scaled sums is, and how many fraction bits they have.
    """
    found = sums_of(m)
    of = staged(c, m, found)
    mult, shift = multipliers(quantisation(m, "x").signed(), found.w, *scaled)
    own: list[Any] = [c.const(of.call.weights, "w"), c.const(of.call.bias, "b")]
    own += [c.const(mult, "mult"), c.const(shift, "shift"), c.scratch(of.call.scratch)]
    made, source, other = operands
    c.call(
        of.call.kernel.replace("aot_qconv_s8", f"aot_qconv_{name}_s8"),
        *(made, source, *own, c.const(other, "pieces") if isinstance(other, np.ndarray) else other),
        c.scratch(4 * of.pixels * of.shape.oc if of.call.staged else 0, "stage"),
        c.params(**of.fields() | fields),
        instance={"RQ": NONE, "PC": 0, **of.call.instance},
        inplace=inplace,
        macs=of.shape.macs,
    )


def multipliers(x: Quantisation, w: Weights, step: float, bits: int) -> tuple[Array, Array]:
    """mult of 31 bits and shift of every channel: sums in steps, with so many fraction bits."""
    wide = np.broadcast_to(w.scale.astype(np.float64), (len(w.data),))
    fraction, exponent = np.frexp(float(x.s) * wide / step)
    shift = 31 - bits - exponent
    drop = np.maximum(shift - 62, 0)
    mult = np.minimum(np.rint(fraction * 2.0 ** (31 - drop)), 2**31 - 1)
    return mult.astype(np.int32), (shift - drop).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Staged:
    """A convolution whose sums are stored, and how many pixels at a time."""

    shape: QConv
    call: QCall
    pixels: int

    def fields(self) -> dict[str, Any]:
        """Of aot_qconv_sum_params, those that are the convolution's; the others are 0."""
        names = "a_mult b_mult y_mult a_shift b_shift y_shift offset a_zero b_zero sum_zero".split()
        return {**self.shape.sizes(), "pixels": self.pixels, **dict.fromkeys(names, 0)}


def staged(c: Recorder, m: Match, found: Sums) -> Staged:
    """The convolution that makes the sums; a matrix product is one of a row of pixels."""
    x = quantisation(m, "x").signed()
    if product_node(m).op_type == "Conv":
        sizes = conv_shape(m, m.conv, x, quantisation(m, "y"), NONE)
    else:
        sizes = dense_sizes(m)
    w = found.w.stored.reshape(*found.w.data.shape[:2], sizes["kh"], sizes["kw"])
    fields: dict[str, Any] = {**sizes, "rq": NONE, "y_zero": 0, "lo": 0, "hi": 0}
    shape = QConv(**fields, **target_of(c))
    inner = w.astype(np.int64).reshape(len(w), -1).sum(axis=1)
    call = conv_portable.plan_conv(
        shape, w, (found.bias - x.z * inner).astype(np.int32), c.objective
    )
    return Staged(shape, call, stage_pixels(c, 4 * shape.oc, shape.ow, call.scratch))


def dense_sizes(m: Match) -> dict[str, int]:
    """A product as a convolution of one row of pixels."""
    rows = math.prod(m.x.shape[:-1])
    sizes = {"n": 1, "ic": m.x.shape[-1], "ih": 1, "iw": rows, "oc": m.y.shape[-1]}
    ones, none = ("kh", "kw", "sh", "sw", "dh", "dw"), ("pt", "pl")
    sizes |= {"oh": 1, "ow": rows, **dict.fromkeys(ones, 1), **dict.fromkeys(none, 0)}
    return {**sizes, "x_zero": quantisation(m, "x").signed().z}


# -- a sum -------------------------------------------------------------------------------


@conv_sum.check
@dense_sum.check
def sum_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from constant_bounds(m)
    yield same_shapes(m, m.r)
    yield not m.r.is_const, "the sum with a constant"
    if (yield from _product_fits(m, "r", "y")):
        shape = ValueRef(product_node(m).ir.outputs[0]).shape
        yield m.y.shape == shape, "a sum that adds axes"
        why = sums_of(m).why
        yield not why, why


@conv_sum.lower
@dense_sum.lower
def sum_to_kernel(c: Recorder, m: Match) -> None:
    step, r, limits = (
        float(quantisation(m, "y").s),
        quantisation(m, "r").signed(),
        quantised_fields(m),
    )
    source, other = signed_input(c, m.x), signed_input(c, m.r)
    fields = {
        "b_mult": round(float(r.s) / step * 2.0**SUM_BITS),
        "b_zero": r.z,
        "sum_zero": limits["y_zero"],
        "sum_lo": limits["lo"],
        "sum_hi": limits["hi"],
    }
    with signed_result(c, m.y) as made:
        inplace = [(made, other)] if m.r.ir is not m.x.ir else ()
        _record(c, m, "sum", (made, source, other), (step, SUM_BITS), fields, inplace)


# -- elementwise operators ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curve:
    """The quantised values of a function by pieces of equal width from `start` on (numbers of the
    sums)."""

    start: float
    width: float
    numbers: Array  # int32 [pieces, 3]


def _first(m: Match) -> NodeRef:
    """The node whose results the chain reads."""
    names = ("biased", "dot") if "dot_out" in m.values else ("conv",)
    found: NodeRef = next(n for n in (getattr(m, k) for k in names) if n is not None)
    return found


def _chain(m: Match) -> list[NodeRef]:
    """The nodes behind the product, first to last."""
    nodes, first = [n for n in reversed(m.nodes)], _first(m)
    at = next(i for i, n in enumerate(nodes) if n.ir is first.ir)
    return [n for n in nodes[at + 1 : -1] if n.op_type != "DequantizeLinear"]


def _quantised_at(m: Match, y: Quantisation, at: Array, beyond: float) -> Array | None:
    """The quantised value before rounding for these sums (float64), `beyond` the limits at most."""
    made = run_chain(_chain(m), _first(m), at.astype(np.float32))
    if made is None or made.size != at.size or np.any(np.isnan(made)):
        return None
    low, high = y.range
    steps = made.reshape(-1).astype(np.float64) / float(y.s) + y.z
    limited: Array = np.clip(steps, low - beyond, high + beyond)
    return limited


def _ends(m: Match, y: Quantisation, reach: float) -> tuple[float, float] | None:
    """Between which sums the quantised value changes; None where that is not known."""
    low, high = -reach, reach
    for _ in range(6):
        at = np.linspace(low, high, 4097)
        found = _quantised_at(m, y, at, EDGE)
        if found is None:
            return None
        left = np.flatnonzero(np.abs(found - found[0]) > SETTLED)
        right = np.flatnonzero(np.abs(found - found[-1]) > SETTLED)
        if not left.size or not right.size:
            return low, high
        ends = float(at[max(left[0] - 1, 0)]), float(at[min(right[-1] + 1, 4096)])
        if ends[1] - ends[0] > 0.5 * (high - low):
            return ends
        low, high = ends
    return low, high


def curve(m: Match, y: Quantisation, reach: float) -> Curve | None:
    """The smallest table that is close enough for sums up to `reach`; None if there is none."""
    ends = _ends(m, y, reach)
    if ends is None or not ends[0] < ends[1]:
        return None
    for count in COUNTS:
        width = (ends[1] - ends[0]) / count
        # 0, where many functions have a bend, is where a piece begins.
        start = math.floor(ends[0] / width) * width if ends[0] < 0 < ends[1] else ends[0]
        found = _fitted(m, y, start, width, math.ceil((ends[1] - start) / width - 1e-9))
        if found is not None:
            return found
    return None


def _fitted(m: Match, y: Quantisation, start: float, width: float, count: int) -> Curve | None:
    """A table of so many pieces, None if it is not close enough."""
    d = np.arange(SAMPLES + 1) / SAMPLES
    at = start + width * (np.arange(count)[:, None] + d)
    # No bend where the quantised value is limited.
    real = _quantised_at(m, y, at.reshape(-1), SLACK)
    if real is None:
        return None
    real = real.reshape(at.shape)
    powers = np.stack([np.ones_like(d), d, d * d])
    numbers = np.rint((real + 0.5) @ np.linalg.pinv(powers) * 2.0**BITS)
    if np.any(np.abs(numbers) >= 2.0**29):
        return None
    low, high = y.range[0] - EDGE, y.range[1] + EDGE
    off = np.abs(np.clip(numbers @ powers * 2.0**-BITS - 0.5, low, high) - np.clip(real, low, high))
    if off.max() > WORST or off.mean() > MEAN:
        return None
    return Curve(start, width, numbers.astype(np.int32))


def _reach(m: Match, found: Sums) -> float:
    """The largest absolute number that a result of the product can be, bias included.

    Every quantised value of x is taken as far from its zero point as its type allows.
    """
    x = quantisation(m, "x").signed()
    low, high = x.range
    furthest = max(abs(low - x.z), abs(high - x.z))
    total = np.abs(found.w.data).reshape(len(found.w.data), -1).sum(axis=1) * furthest
    numbers = (total + np.abs(found.bias)) * float(x.s) * found.w.scale.astype(np.float64)
    return float(numbers.max())


def _table(m: Match, found: Sums) -> Curve | None:
    return curve(m, quantisation(m, "y").signed(), max(_reach(m, found), 1e-30))


@conv_act.check
@dense_act.check
def act_supported(m: Match) -> Iterator[tuple[bool, str]]:
    product = ValueRef(_first(m).ir.outputs[0])
    yield m.y.shape == product.shape, "an operator that adds axes"
    operands = [m.values.get(f"{k}{i}") for k in ("k", "low", "high") for i in range(LONGEST)]
    constant = all(v is None or v.is_const for v in operands)
    yield constant, "an operand computed at run time"
    if (yield from _product_fits(m, "y")):
        found = sums_of(m)
        yield not found.why, found.why
        made = _table(m, found) if constant and not found.why else None
        near = made is not None or not constant or bool(found.why)
        yield near, "a function that no table of 512 pieces is close to"


@conv_act.lower
@dense_act.lower
def act_to_kernel(c: Recorder, m: Match) -> None:
    table, (low, high) = _table(m, sums_of(m)), quantisation(m, "y").signed().range
    assert table is not None
    unit = table.width / 2**PLACES
    last = (len(table.numbers) << PLACES) - 1
    fields = {"offset": -round(table.start / unit), "a_mult": last, "sum_lo": low, "sum_hi": high}
    source = signed_input(c, m.x)
    with signed_result(c, m.y) as made:
        _record(c, m, "act", (made, source, table.numbers), (unit, 0), fields)


# -- cases: the first of the alternatives, for operators a Sigmoid -------------------------

CONVS: tuple[tuple[tuple[int, ...], tuple[int, ...], list[int]], ...] = (
    ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
    ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
    ((1, 4, 11), (7, 4, 3), [1, 1]),
    ((1, 3, 7, 9), (4, 3, 3, 3), [1, 1, 1, 1]),
)


def _named(pads: list[int] | None = None) -> dict[str, Any]:
    """Attributes of a test case by `node.attribute`: a convolution with `pads`, else a product.

    The axes are those along which weights and bias have a scale each: output channels.
    """
    return (
        {"w_dq.axis": 1, "b_dq.axis": 0}
        if pads is None
        else {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
    )


def _sum_case(x: Array, w: Array, r: Array, axis: int, named: dict[str, Any]) -> Case:
    """x, w, bias in units of the sums, r; the result saturates at times."""
    channels = w.shape[axis]
    width = np.sqrt(w.size / channels) * 74 * 74 * 0.031 * 0.0075 / 40
    steps = np.linspace(0.004, 0.011, channels).astype(np.float32)
    made = (*product_operands(x, w, steps), r, *kind(width * 0.73, -20), *kind(width * 1.13, -100))
    return quantised_case(*made, fed=(0, 9), **named)


def _act_case(x: Array, w: Array, axis: int, named: dict[str, Any]) -> Case:
    """x, w (a scale for each output channel, along `axis`), bias in units of the sums.

    The scales let the Sigmoid run through its whole range. `named` are attributes of nodes.
    """
    channels = w.shape[axis]
    width = np.sqrt(w.size / channels) * 74 * 74 * 0.031
    steps = np.linspace(1 / width, 3 / width, channels).astype(np.float32)
    return quantised_case(*product_operands(x, w, steps), *kind(1 / 250, -120), **named)


@conv_sum.cases
def conv_sum_cases() -> Iterator[Case]:
    """A quantised convolution, then added to quantised values `r` of the result's shape."""
    for shape, kernel, pads in (CONVS[0], CONVS[1], CONVS[3], CONVS[2]):
        r = quantised_values(shape[0], kernel[0], *shape[2:], seed=7)
        yield _sum_case(quantised_values(*shape), quantised_values(*kernel), r, 0, _named(pads))


@dense_sum.cases
def dense_sum_cases() -> Iterator[Case]:
    """Quantised x @ w + bias, plus quantised values `r` of the result's shape; 2-D, 3-D."""
    for shape, out in (((3, 40), 10), ((2, 5, 17), 6)):
        r = quantised_values(*shape[:-1], out, seed=7)
        yield _sum_case(quantised_values(*shape), quantised_values(shape[-1], out), r, 1, _named())


@conv_act.cases
def conv_act_cases() -> Iterator[Case]:
    """A quantised convolution behind which a Sigmoid is computed on its sums, by a table."""
    for shape, kernel, pads in CONVS[:3]:
        yield _act_case(quantised_values(*shape), quantised_values(*kernel), 0, _named(pads))


@dense_act.cases
def dense_act_cases() -> Iterator[Case]:
    """A quantised product behind which a Sigmoid is computed on its sums, by a table."""
    yield _act_case(quantised_values(3, 40), quantised_values(40, 10), 1, _named())
