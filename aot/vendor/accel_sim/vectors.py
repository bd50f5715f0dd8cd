# SPDX-License-Identifier: Apache-2.0
"""What the vector unit computes on 8-bit codes: sums, products, pooling, tables, Softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ops.quantised import binary as qbinary
from aot.ops.quantised import pool as qpool
from aot.ops.quantised import softmax as qsoftmax
from aot.ops.quantised import table as qtable
from aot.vendor.accel_sim.codes import EIGHT, arithmetic, limits, requant, sum_of
from aot.vendor.accel_sim.images import Array, Images, image, refusal
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Layer, Requant, Window
from aot.vendor.accel_sim.specs import Checks, Spec, pattern, quantised
from aot.vendor.codes import activated, codes, dequantised, known
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import OP, Pat, Var, either, repeat
from aot.vendor.requant import TFLITE, multipliers

#: Codes as they are in the machine.
OWN = np.arange(-128, 128)


def images(*values: ValueRef | None) -> Checks:
    """All are images."""
    for v in values:
        why = "" if v is None or v.is_const else refusal(v.shape)
        yield not why, why


# -- two operands -------------------------------------------------------------------------------


def aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape that is broadcast, with all axes of the result."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def operands_fit(m: Match) -> Checks:
    """Operands are images like the result, with height or width 1 at most."""
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


def operand(b: Images, v: ValueRef, like: ValueRef, zero: int | None = None) -> int:
    """The tensor of an operand of an elementwise operator whose result is `like`."""
    if not v.is_const:
        return b.read(v, zero)
    data = np.asarray(v.data).reshape(aligned(v.shape, like.rank))
    return b.constant(data, v, image(like.shape)[2])


def _ready(m: Match, *names: str) -> bool:
    return all(ok for ok, _ in known(m, *names, types=EIGHT))


def sum_supported(m: Match, rq: Rq) -> Checks:
    yield from qbinary.total_supported(m)
    yield from operands_fit(m)


def product_supported(m: Match, rq: Rq) -> Checks:
    yield from qbinary.product_supported(m)
    yield from operands_fit(m)


def _pair(b: Images, m: Match) -> tuple[int, int]:
    first = operand(b, m.a, m.y, codes(m, "a").signed().z)
    return first, operand(b, m.b, m.y, codes(m, "b").signed().z)


def build_sum(b: Images, m: Match) -> None:
    """ALU ADD."""
    sign = -1 if m.op.op_type == "Sub" else 1
    add = sum_of(codes(m, "a"), codes(m, "b"), codes(m, "y"), sign, b.rq, limits(m))
    pair = _pair(b, m)
    target = b.write(m.y, codes(m, "y").signed().z)
    b.layer(Layer("add", m.op.name, pair, target, add=add))


def build_product(b: Images, m: Match) -> None:
    """ALU MUL."""
    x, y, z = (codes(m, k).signed() for k in "aby")
    scaled = multipliers(float(x.s), y.scale, float(z.s), arithmetic(b.rq), "mul")
    r = requant(b.rq, scaled, z, limits(m))
    both = Requant(r.rq, r.mult, r.shift, r.zero, r.lo, r.hi, za=x.z, zb=y.z)
    pair = _pair(b, m)
    target = b.write(m.y, z.z)
    b.layer(Layer("mul", m.op.name, pair, target, requant=both))


# -- pooling ------------------------------------------------------------------------------------


def window_of(node: Any, rank: int) -> Window:
    """The window of a MaxPool or AveragePool of one or two axes."""
    n = rank - 2
    lead = [1] * (2 - n)
    kernel = [*lead, *(int(v) for v in node.attr("kernel_shape"))]
    strides = [*lead, *(int(v) for v in node.attr("strides") or [1] * n)]
    dilations = [*lead, *(int(v) for v in node.attr("dilations") or [1] * n)]
    pads = [*[0] * (2 - n), *(int(v) for v in (node.attr("pads") or [0] * (2 * n))[:n])]
    return Window(*kernel, *strides, *dilations, *pads)


def pool_fits(m: Match, node: Any) -> Checks:
    """The window lies so that each has a position inside."""
    yield from images(m.x, m.y)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    pads = [int(p) for p in node.attr("pads") or [0]]
    yield min(pads) >= 0, f"pads {pads} (must be >= 0)"
    used = [o for o in node.ir.outputs[1:] if o.name and (o.uses() or o.is_graph_output())]
    yield not used, "the positions of the maxima are used"


def maximum_supported(m: Match, rq: Rq) -> Checks:
    yield m.x.dtype in EIGHT, f"dtype {m.x.dtype} (needs int8 or uint8)"
    yield from pool_fits(m, m.root)


def build_maximum(b: Images, m: Match) -> None:
    """POOL of codes that keep their parameters."""
    source = b.read(m.x)
    target = b.write(m.y)
    b.layer(Layer("max", m.root.name, (source,), target, window_of(m.root, m.x.rank)))


def _divides(m: Match, rq: Rq) -> bool:
    """TFLite divides averages whose codes keep their parameters."""
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    return bool(rq is Rq.TFLITE and x.s == y.s and x.z == y.z)


def average_supported(m: Match, rq: Rq) -> Checks:
    asked = list(qpool.supported(m))
    yield from asked
    yield from images(m.x, m.y)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    if not all(ok for ok, _ in asked) or m.x.rank not in (3, 4):
        return
    pads = bool(m.pool.op_type == "AveragePool" and any(m.pool.attr("pads") or ()))
    included = bool(m.pool.attr("count_include_pad", 0)) and pads
    if _divides(m, rq):
        yield not included, "padding that counts"
    else:
        vary = qpool._counts_vary(m)
        yield not vary, "windows at the border that average fewer positions"


def build_average(b: Images, m: Match) -> None:
    """POOL, requantised; or divided."""
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    sizes = qpool.window(m)
    assert sizes is not None
    kernel, strides, dilations, pads = (sizes[k][1:] for k in ("k", "s", "d", "before"))
    lo, hi = limits(m)
    if _divides(m, b.rq):
        r = Requant(Rq.DIVIDE, zero=0, lo=lo, hi=hi, za=x.z)
    else:
        one = np.array([1.0 / math.prod(kernel)], np.float32)
        scaled = multipliers(float(x.s), one, float(y.s), arithmetic(b.rq))
        r = requant(b.rq, scaled, y, (lo, hi))
        r = Requant(r.rq, r.mult, r.shift, r.zero, lo, hi, za=x.z)
    window = Window(*kernel, *strides, *dilations, *pads)
    source = b.read(m.x, x.z)
    target = b.write(m.y, y.z)
    b.layer(Layer("average", m.pool.name, (source,), target, window, requant=r))


# -- tables ---------------------------------------------------------------------------------------


def table_of(m: Match, rq: Rq) -> Array:
    """What each code of the machine, of -128 first, becomes."""
    entries = qtable.entries(m, arithmetic(rq))
    assert entries is not None
    bits = OWN & 255 if m.x.dtype is S8 else OWN + 128
    own = entries[bits].astype(np.int16)
    found: Array = (own - 128 if m.y.dtype is U8 else own).astype(np.int8)
    return found


def table_supported(m: Match, rq: Rq) -> Checks:
    asked = list(qtable.supported(m))
    yield from asked
    yield from images(m.x, m.y)


def build_table(b: Images, m: Match) -> None:
    """ALU LUT; nothing where codes stay what they are but for the sign."""
    table = table_of(m, b.rq)
    if np.array_equal(table, OWN):
        b.alias(m.y, m.x)
        return
    source = b.read(m.x)
    target = b.write(m.y, codes(m, "y").signed().z)
    b.layer(Layer("lut", m.root.name, (source,), target, table=table))


# -- Softmax --------------------------------------------------------------------------------------


def softmax_supported(m: Match, rq: Rq) -> Checks:
    asked = list(qsoftmax.supported(m))
    yield from asked
    yield from images(m.x)
    if m.x.rank and not refusal(m.x.shape):
        channels = 1 if m.x.rank > 2 else m.x.rank - 1
        axis = int(m.soft.attr("axis", -1)) % m.x.rank
        yield axis == channels, f"axis {axis} (needs {channels}: the channels)"


def build_softmax(b: Images, m: Match) -> None:
    """ALU SOFTMAX with the constants of the portable kernel."""
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    extent = image(m.x.shape)[2]
    tflite = arithmetic(b.rq) == TFLITE and y.z == -128 and float(y.s) == 1 / 256
    step = float(x.s)
    data = qsoftmax.tflite_table(step) if tflite else qsoftmax.rounded_table(step, extent)
    last = int(np.flatnonzero(data)[-1]) + 1
    r = Requant(
        Rq.TFLITE if tflite else Rq.FLOAT,
        np.array([0 if tflite else round(2**16 / float(y.s))], np.int64),
        np.array([qsoftmax.table_bits(extent)], np.int8),
        zero=y.z,
        za=min(last, 255),
    )
    source = b.read(m.x, x.z)
    target = b.write(m.y, y.z)
    b.layer(Layer("softmax", m.soft.name, (source,), target, requant=r, table=data))


# -- patterns -------------------------------------------------------------------------------------


def _operator(*op_types: str) -> Pat:
    return OP.any_of(*op_types)(dequantised("a"), dequantised("b"), _outputs=["op"])


_average = either(
    OP.any_of("AveragePool", "GlobalAveragePool")(dequantised("x"), _outputs=["pool"]),
    OP.ReduceMean(dequantised("x"), Var("axes"), _optional=1, _outputs=["pool"]),
)
SPECS = (
    Spec(
        "qadd",
        quantised(activated(_operator("Add", "Sub"))),
        sum_supported,
        build_sum,
        cases=qbinary.cases,
    ),
    Spec(
        "qmul",
        quantised(activated(_operator("Mul"))),
        product_supported,
        build_product,
        cases=qbinary.cases,
    ),
    Spec(
        "qaverage",
        quantised(activated(_average)),
        average_supported,
        build_average,
        cases=qpool.cases,
    ),
    Spec("qmaxpool", pattern(lambda op, x: op.MaxPool(x), "x"), maximum_supported, build_maximum),
    Spec(
        "qsoftmax",
        quantised(OP.Softmax(dequantised("x"), _outputs=["soft"])),
        softmax_supported,
        build_softmax,
        cases=qsoftmax.cases,
    ),
    Spec(
        "qtable",
        quantised(repeat(qtable.link, dequantised("x"), 0, qtable.LONGEST)),
        table_supported,
        build_table,
        cases=qtable.cases,
    ),
)
