# SPDX-License-Identifier: Apache-2.0
"""What the vector unit computes on 8-bit quantised values: sums, products, pooling, tables,
Softmax."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    S8,
    U8,
    Match,
    NodeRef,
    QuantisedPair,
    QuantisedPool,
    QuantisedSoftmax,
    QuantisedTable,
    ValueRef,
    WindowShape,
    activated,
    multipliers,
    quantised,
    wildcard,
)
from aot.vendor.accel_sim.images import Images, image, refusal
from aot.vendor.accel_sim.int8_products import EIGHT, arithmetic, requant, sum_of, window_of
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Array, Layer, Requant, Window
from aot.vendor.accel_sim.specs import Checks, Spec

#: Quantised values as they are in the machine.
OWN = np.arange(-128, 128)


def images(*values: ValueRef | None) -> Checks:
    """Checks that all computed values are images of the machine; None and constants are skipped."""
    for v in values:
        why = "" if v is None or v.is_const else refusal(v.shape)
        yield not why, why


# -- two operands -------------------------------------------------------------------------------


def aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The shape of a broadcast operand, with axes of 1 in front up to the result's rank."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def operands_fit(m: Match) -> Checks:
    """Checks that operands a and b are images that broadcast as the vector unit can.

    Height and width may be 1; only a constant may have one channel for all.
    """
    yield from images(m.y)
    for name in "ab":
        v = m.values[name]
        assert v is not None
        if refusal(m.y.shape) or not all(v.shape):
            return
        shape = aligned(v.shape, m.y.rank)
        whole = v.is_const or v.rank == m.y.rank
        yield whole, f"an operand {list(v.shape)} beside {list(m.y.shape)}"
        (h, w, c), (yh, yw, yc) = image(shape), image(m.y.shape)
        fits = h in (1, yh) and w in (1, yw) and (c == yc or (v.is_const and c == 1))
        yield fits, f"an operand {list(v.shape)} beside {list(m.y.shape)}"


def operand(b: Images, value: ValueRef, like: ValueRef, zero: int | None = None) -> int:
    """The number of the tensor of an elementwise operand whose result is `like`.

    A constant gets the axes and channels of the result. `zero` is its zero point (None: any).
    """
    if not value.is_const:
        return b.read(value, zero)
    data = np.asarray(value.data).reshape(aligned(value.shape, like.rank))
    return b.constant(data, value, image(like.shape)[2])


def pair_supported(m: Match, rq: Rq) -> Checks:
    """Checks of two quantised operands that broadcast as the vector unit does."""
    yield from QuantisedPair.checks(m)
    yield from operands_fit(m)


def _pair(b: Images, m: Match, found: QuantisedPair) -> tuple[int, int]:
    """The numbers of the tensors of both operands of a quantised sum or product."""
    first = operand(b, m.a, m.y, found.a.signed().z)
    return first, operand(b, m.b, m.y, found.b.signed().z)


def build_sum(b: Images, m: Match) -> None:
    """Add one layer to `b`: the sum or difference of two quantised operands (ALU ADD)."""
    found = QuantisedPair.of(m)
    pair = _pair(b, m, found)
    target = b.write(m.y, found.y.signed().z)
    b.layer(Layer("add", m.op.name, pair, target, add=sum_of(found, b.rq)))


def build_product(b: Images, m: Match) -> None:
    """Add one layer to `b`: the product of two quantised operands (ALU MUL), requantised."""
    found = QuantisedPair.of(m)
    a, y = found.a.signed(), found.y.signed()
    within = found.y.as_signed(found.limits)
    made = requant(b.rq, found.multipliers(arithmetic(b.rq)), y, within)
    pair = _pair(b, m, found)
    target = b.write(m.y, y.z)
    both = replace(made, za=a.z, zb=found.b.signed().z)
    b.layer(Layer("mul", m.op.name, pair, target, requant=both))


# -- pooling ------------------------------------------------------------------------------------


def pool_window(node: NodeRef) -> Window:
    """The window of a pooling node on one or two axes."""
    return window_of(WindowShape.of(node, node.attr("kernel_shape")))


def pool_fits(m: Match, node: Any) -> Checks:
    """Checks of a pool's images, pads >= 0, and that no node reads the positions of maxima."""
    yield from images(m.x, m.y)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    pads = [int(p) for p in node.attr("pads") or [0]]
    yield min(pads) >= 0, f"pads {pads} (must be >= 0)"
    used = [o for o in node.ir.outputs[1:] if o.name and (o.uses() or o.is_graph_output())]
    yield not used, "the positions of the maxima are used"


def maximum_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a MaxPool of int8 or uint8."""
    yield m.x.dtype in EIGHT, f"dtype {m.x.dtype} (needs int8 or uint8)"
    yield from pool_fits(m, m.root)


def build_maximum(b: Images, m: Match) -> None:
    """Add one layer to `b`: the maxima of windows, whose quantised values keep scale and zero
    point.
    """
    source = b.read(m.x)
    target = b.write(m.y)
    b.layer(Layer("max", m.root.name, (source,), target, pool_window(m.root)))


def _divides(found: QuantisedPool, rq: Rq) -> bool:
    """Whether an average is the sum divided by its count, as TFLite does if scale and zero point
    stay.
    """
    x, y = found.x.signed(), found.y.signed()
    return bool(rq is Rq.TFLITE and x.s == y.s and x.z == y.z)


def average_supported(m: Match, rq: Rq) -> Checks:
    """Checks of an average of quantised values of rank 3 or 4.

    Where the unit divides by the number of positions, padding must not count; else all windows
    must average equally many.
    """
    ready = yield from QuantisedPool.checks(m)
    yield from images(m.x, m.y)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    if not ready or m.x.rank not in (3, 4):
        return
    found = QuantisedPool.of(m)
    if _divides(found, rq):
        included = found.counts_padding and any(found.window.before + found.window.after)
        yield not included, "padding that counts"
    else:
        yield not found.counts_vary, "windows at the border that average fewer positions"


def build_average(b: Images, m: Match) -> None:
    """Add one layer to `b`: averages of windows, requantised from the sum or divided as TFLite
    does.
    """
    found = QuantisedPool.of(m)
    x, y, sizes = found.x.signed(), found.y.signed(), found.window
    lo, hi = found.y.as_signed(found.limits)
    if _divides(found, b.rq):
        r = Requant(Rq.DIVIDE, zero=0, lo=lo, hi=hi, za=x.z)
    else:
        one = np.array([1.0 / math.prod(sizes.kernel)], np.float32)
        scaled = multipliers(float(x.s), one, float(y.s), arithmetic(b.rq))
        r = replace(requant(b.rq, scaled, y, (lo, hi)), za=x.z)
    window = Window(*sizes.kernel[1:], *sizes.strides[1:], *sizes.dilations[1:], *sizes.before[1:])
    source = b.read(m.x, x.z)
    target = b.write(m.y, y.z)
    b.layer(Layer("average", m.pool.name, (source,), target, window, requant=r))


# -- tables ---------------------------------------------------------------------------------------


def table_of(found: QuantisedTable) -> Array:
    """256 int8 values: the result for each int8 value inside the machine, that for -128 first.

    uint8 values are 128 less inside the machine, on both sides of the table.
    """
    assert found.entries is not None
    bits = OWN & 255 if found.x.dtype is S8 else OWN + 128
    own = found.entries[bits].astype(np.int16)
    table: Array = (own - 128 if found.y.dtype is U8 else own).astype(np.int8)
    return table


def table_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a function of one quantised image by a table of 256 entries."""
    yield from QuantisedTable.checks(m)
    yield from images(m.x, m.y)


def build_table(b: Images, m: Match) -> None:
    """Add one layer to `b`: quantised values through a table (ALU LUT).

    No layer where the table changes nothing inside the machine, as between int8 and uint8.
    """
    found = QuantisedTable.of(m, arithmetic(b.rq))
    table = table_of(found)
    if np.array_equal(table, OWN):
        b.alias(m.y, m.x)
        return
    source = b.read(m.x)
    target = b.write(m.y, found.y.signed().z)
    b.layer(Layer("lut", m.root.name, (source,), target, table=table))


# -- Softmax --------------------------------------------------------------------------------------


def softmax_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a softmax of quantised values along the channels of the image."""
    yield from QuantisedSoftmax.checks(m)
    yield from images(m.x)
    if m.x.rank and not refusal(m.x.shape):
        channels = 1 if m.x.rank > 2 else m.x.rank - 1
        axis = int(m.soft.attr("axis", -1)) % m.x.rank
        yield axis == channels, f"axis {axis} (needs {channels}: the channels)"


def build_softmax(b: Images, m: Match) -> None:
    """Add one layer to `b`: ALU SOFTMAX over channels, with the constants of the portable
    kernel.
    """
    found = QuantisedSoftmax.of(m, arithmetic(b.rq))
    r = Requant(
        Rq.TFLITE if found.tflite else Rq.FLOAT,
        np.array([found.unit], np.int64),
        np.array([found.bits], np.int8),
        zero=found.y.z,
        za=min(found.last + 1, 255),
    )
    source = b.read(m.x, found.x.signed().z)
    target = b.write(m.y, found.y.z)
    b.layer(Layer("softmax", m.soft.name, (source,), target, requant=r, table=found.table))


# -- patterns -------------------------------------------------------------------------------------


SPECS = (
    Spec(
        "qadd",
        quantised(activated(QuantisedPair.pattern("Add", "Sub"))),
        pair_supported,
        build_sum,
        cases=QuantisedPair.cases,
    ),
    Spec(
        "qmul",
        quantised(activated(QuantisedPair.pattern("Mul"))),
        pair_supported,
        build_product,
        cases=QuantisedPair.cases,
    ),
    Spec(
        "qaverage",
        quantised(activated(QuantisedPool.average_pattern())),
        average_supported,
        build_average,
        cases=QuantisedPool.average_cases,
    ),
    Spec("qmaxpool", OP.MaxPool(wildcard("x")), maximum_supported, build_maximum),
    Spec(
        "qsoftmax",
        quantised(QuantisedSoftmax.pattern()),
        softmax_supported,
        build_softmax,
        cases=QuantisedSoftmax.cases,
    ),
    Spec(
        "qtable",
        quantised(QuantisedTable.pattern()),
        table_supported,
        build_table,
        cases=QuantisedTable.cases,
    ),
)
