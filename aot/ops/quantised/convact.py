# SPDX-License-Identifier: Apache-2.0
"""A convolution, or a product with constant weights, and elementwise operators between codes,
without codes between them: QuantizeLinear(Sigmoid(Conv(codes, weights, [bias]))).

The exact int32 sums find their place in a table of quadratic pieces, which is rounded once; the
same for all values of `--requant`. At compile time the table is compared with the operators
themselves all along what the sums may be: where it is not close enough the nodes stay in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ir.layout import PLAIN, Layout
from aot.ops.quantised.common import finish, quantised, signed_input, signed_output
from aot.ops.quantised.conv import conv_shape
from aot.ops.quantised.convsum import (
    NONE,
    Staged,
    Sums,
    convolved,
    dense_sizes,
    multiplied,
    multipliers,
    staged,
    sums_of,
)
from aot.ops.quantised.table import LONGEST, UNARY, link, run_chain
from aot.vendor.cases import Case, case
from aot.vendor.codes import Array, Codes, codes, known
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match, NodeRef, ValueRef
from aot.vendor.pattern import OP, Pat, either, repeat
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.quantised_product import weights_known
from aot.vendor.recorder import Recorder

#: AOT_QCONV_ACT_PLACES and AOT_QCONV_ACT_BITS of runtime_c/kernels.
PLACES, BITS = 15, 20
#: Numbers of pieces that are tried, samples of each, and the largest distances in codes: of one
#: sample, and on average.
COUNTS, SAMPLES, WORST, MEAN = (16, 32, 64, 128, 256, 512), 64, 0.1, 2.0**-14
#: A code that differs by less no longer counts as a change.
SETTLED = 2.0**-12
#: How far beyond the limits codes go where only the limit matters, and where curves are fitted.
EDGE, SLACK = 0.4, 200.0


def _behind(product: Pat) -> Pat:
    """`product` with a chain of operators behind it; cases take the first alternative."""
    shortest = OP.any_of("Sigmoid", *(n for n in UNARY if n != "Sigmoid"))(product)
    return either(shortest, repeat(link, product, 1, LONGEST))


conv_act = quantised("qconv_act", _behind(convolved()), priority=-2)
dense_act = quantised("qdense_act", _behind(multiplied()), priority=-2)


@dataclass(frozen=True, slots=True)
class Curve:
    """The codes of a function by pieces of equal width from `start` on (numbers of the sums)."""

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


def _codes_at(m: Match, y: Codes, at: Array, beyond: float) -> Array | None:
    """The code before rounding for these sums (float64), `beyond` the limits at most."""
    made = run_chain(_chain(m), _first(m), at.astype(np.float32))
    if made is None or made.size != at.size or np.any(np.isnan(made)):
        return None
    low, high = y.range
    steps = made.reshape(-1).astype(np.float64) / float(y.s) + y.z
    limited: Array = np.clip(steps, low - beyond, high + beyond)
    return limited


def _ends(m: Match, y: Codes, reach: float) -> tuple[float, float] | None:
    """Between which sums the code changes; None where that is not known."""
    low, high = -reach, reach
    for _ in range(6):
        at = np.linspace(low, high, 4097)
        found = _codes_at(m, y, at, EDGE)
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


def curve(m: Match, y: Codes, reach: float) -> Curve | None:
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


def _fitted(m: Match, y: Codes, start: float, width: float, count: int) -> Curve | None:
    """A table of so many pieces, None if it is not close enough."""
    d = np.arange(SAMPLES + 1) / SAMPLES
    at = start + width * (np.arange(count)[:, None] + d)
    real = _codes_at(m, y, at.reshape(-1), SLACK)  # no bend where the code is limited
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
    """A bound of what the product may be."""
    x = codes(m, "x").signed()
    low, high = x.range
    furthest = max(abs(low - x.z), abs(high - x.z))
    total = np.abs(found.w.data).reshape(len(found.w.data), -1).sum(axis=1) * furthest
    numbers = (total + np.abs(found.bias)) * float(x.s) * found.w.scale.astype(np.float64)
    return float(numbers.max())


def _table(m: Match, found: Sums) -> Curve | None:
    return curve(m, codes(m, "y").signed(), max(_reach(m, found), 1e-30))


def _fits(m: Match, axis: int) -> Iterator[tuple[bool, str]]:
    asked = [*known(m, "x", "y", types=(S8, U8)), *weights_known(m, (axis,))]
    yield from asked
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    product = ValueRef(_first(m).ir.outputs[0])
    yield m.y.shape == product.shape, "an operator that adds axes"
    constants = [m.values.get(f"{k}{i}") for k in ("k", "low", "high") for i in range(LONGEST)]
    yield all(v is None or v.is_const for v in constants), "an operand computed at run time"
    if not m.w.is_const or not all(ok for ok, _ in asked):
        return
    found = sums_of(m, axis)
    yield not found.why, found.why
    if not found.why and all(v is None or v.is_const for v in constants):
        made = _table(m, found)
        yield made is not None, "a function that no table of 512 pieces is close to"


@conv_act.check
def conv_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    groups = int(m.conv.attr("group", 1))
    yield groups == 1, f"group {groups} (needs 1)"
    if m.x.rank in (3, 4) and groups == 1:
        yield from _fits(m, 0)


@dense_act.check
def dense_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank >= 2 and m.w.rank == 2, f"ranks {m.x.rank} and {m.w.rank} (needs weights of 2)"
    bias = m.values.get("b") or m.values.get("f")
    count = 1 if bias is None else math.prod(bias.shape)
    row = bias is None or count == 1 or count == bias.shape[-1]
    yield row, "a bias that is no row"
    if m.w.rank == 2 and m.x.rank >= 2 and row:
        yield from _fits(m, 1)


@conv_act.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


@dense_act.layouts
def plain(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": PLAIN, "y": PLAIN}


def _record(c: Recorder, m: Match, found: Sums, of: Staged) -> None:
    x, y, table = codes(m, "x").signed(), codes(m, "y").signed(), _table(m, found)
    assert table is not None
    unit = table.width / 2**PLACES
    mult, shift = multipliers(x, found.w, unit, 0)
    low, high = y.range
    source, made = signed_input(c, m.x), signed_output(c, m.y)
    fields = {"offset": -round(table.start / unit), "a_mult": (len(table.numbers) << PLACES) - 1}
    c.call(
        of.call.kernel.replace("aot_qconv_s8", "aot_qconv_act_s8"),
        *(made, source, c.const(of.call.weights, "w"), c.const(of.call.bias, "b")),
        *(c.const(mult, "mult"), c.const(shift, "shift"), c.scratch(of.call.scratch)),
        c.const(table.numbers, "pieces"),
        c.scratch(4 * of.pixels * of.shape.oc, "stage"),
        c.params(**of.fields() | fields, sum_lo=low, sum_hi=high),
        instance={"RQ": NONE, "PC": 0, **of.call.instance},
        macs=of.shape.macs,
    )
    finish(c, m.y, made)


@conv_act.lower
def conv_to_kernel(c: Recorder, m: Match) -> None:
    found = sums_of(m, 0)
    sizes = conv_shape(m, m.conv, codes(m, "x").signed(), codes(m, "y"), NONE)
    data = found.w.stored.reshape(*found.w.data.shape[:2], sizes["kh"], sizes["kw"])
    _record(c, m, found, staged(c, m, found, sizes, data))


@dense_act.lower
def dense_to_kernel(c: Recorder, m: Match) -> None:
    found = sums_of(m, 1)
    data = found.w.stored[:, :, None, None]
    _record(c, m, found, staged(c, m, found, dense_sizes(m), data))


# -- cases: a Sigmoid, the first of the alternatives ------------------------------------


@conv_act.cases
def conv_cases() -> Iterator[Case]:
    for shape, kernel, pads in (
        ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
        ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
        ((1, 4, 11), (7, 4, 3), [1, 1]),
    ):
        named: dict[str, Any] = {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
        yield _case(codes_of(*shape), codes_of(*kernel), kernel[0], named)


@dense_act.cases
def dense_cases() -> Iterator[Case]:
    yield _case(codes_of(3, 40), codes_of(40, 10), 10, {"w_dq.axis": 1, "b_dq.axis": 0})


def _case(x: Array, w: Array, channels: int, named: dict[str, Any]) -> Case:
    width = np.sqrt(w.size / channels) * 74 * 74 * 0.031
    steps = np.linspace(1 / width, 3 / width, channels).astype(np.float32)
    zeros, sx = np.zeros(channels, np.int8), scale(0.031)
    b = np.arange(channels, dtype=np.int32) * 300
    operands = [x, sx, zero(-3), w, steps, zeros, b, sx * steps, zeros.astype(np.int32)]
    made = [*operands, scale(1 / 250), zero(-120)]
    return case(*made, const=tuple(range(1, len(made))), **named)
