# SPDX-License-Identifier: Apache-2.0
"""Products with constant weights narrower than float32, as aot_gemm_f32_narrow.h reads them; of one
row also aot_gemm_f32_narrow__dot.h, of several rows the kernels of UNITS.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from aot.ir.deferred import LARGE, Constant, Deferred, memory_of
from aot.ir.dtypes import BF16 as BFLOAT16
from aot.ir.graph_nodes import HALF_KEY, SHARED_KEY, Array
from aot.ir.splits import Split
from aot.ops.conv_pack import ceil_div, gemm_panels, pack_bias, panel_groups
from aot.ops.conv_plan import TILES
from aot.ops.quantised.conv_dot import suits
from aot.ops.quantised.shapes import round_up
from aot.vendor import Match, NodeRef, Recorder, ValueRef
from aot.vendor.activations import NO_ACT, Act

#: Values of the instance constant KIND.
S4, S8, F16, BF16, S8_WORDS = range(5)
#: Bytes of float32 weights from which no cache holds them.
HUGE = 1 << 25
#: Rows of a step by KIND.
STEP = (8, 4, 2, 2, 4)
#: Rows of the weights that are widened at a time, about.
RUN = 256
#: The most elements of x with one unit (AOT_NARROW_PART), and sizeof(aot_narrow_part).
PART, PART_BYTES = 256, 20
#: Rows of a product from which on rounding them pays, and bytes of those rounded at a time.
ROUNDED, ROUNDED_BYTES = 2, 1 << 20
#: Units that multiply numbers of 16 bits, the fastest first: how the kernel's name ends, the CPU's
#: flag, the kind of number, the lanes of float32 and the rows of a tile.
UNITS = {
    "bfmmla": ("bf16", BF16, 4, 8),
    "fp16": ("asimdhp", F16, 4, 8),
    "bf16": ("avx512_bf16", BF16, 16, 6),
}
#: Products of float16 that are summed up in float16, and what the sum of these weights' sizes must
#: be below, so that no sum of finite float16 is infinite (AOT_FP16_RUN).
HALF_RUN, HALF_SUM = 16, 0.99


@dataclass(frozen=True, slots=True)
class Narrow:
    """Weights of `kind` for a matrix [k, n], in groups of columns of the target's panels.

    `factors` [ceil(k / block), 1 or 2, columns] are the scales, and zeros, of blocks of rows; None
    for halves, but powers of two for `unit` "fp16". What the weights multiply is rounded to 16 bits
    by a `unit` of UNITS, too.
    """

    kind: int
    k: int
    n: int
    data: Constant
    factors: Array | None = None
    block: int = RUN
    unit: str = ""


# -- float32 weights that 16 bits hold ---------------------------------------------------------


def _is_bf16(w: Array) -> bool:
    """Whether bfloat16 holds every float32 of `w` exactly."""
    return not np.any(np.ascontiguousarray(w).view(np.uint32) & 0xFFFF)


def _is_f16(w: Array) -> bool:
    """Whether float16 holds every float32 of `w` exactly."""
    with np.errstate(over="ignore"):
        return bool(np.all(w.astype(np.float16).astype(np.float32) == w))


def is_in_range(w: Array) -> bool:
    """Whether no number of `w` is beyond the largest of bfloat16."""
    return not np.any((np.abs(w) > float.fromhex("0x1.FEp127")) & np.isfinite(w))


def bf16_words(panel: Array) -> Array:
    """Rows [k, columns] as words of two bfloat16 each, the first one in the low half."""
    bits = panel.astype(BFLOAT16.numpy).view(np.uint16).astype(np.uint32)
    return bits[0::2] | bits[1::2] << 16


#: By kind: whether it holds elements, their type, and how an even number of rows becomes these.
_HALVES: dict[int, tuple[Callable[[Array], bool], str, Callable[[Array], Array]]] = {
    BF16: (_is_bf16, "uint32", bf16_words),
    F16: (_is_f16, "float16", lambda panel: panel.astype(np.float16)),
}


def rounds(c: Recorder, node: NodeRef, rows: int) -> str:
    """The unit of UNITS by which a product may round its operands, "" for none.

    That is to bfloat16 where the model has this type or `--accuracy fast` is given, to float16
    where both are. The CPU must have the unit, and the rows repay their rounding.
    """
    if rows < ROUNDED or c.objective == "ram":
        return ""
    output = node.ir.outputs[0].dtype
    half = node.ir.metadata_props.get(HALF_KEY, "" if output is None else output.name)
    for unit, (flag, kind, lanes, _) in UNITS.items():
        found = half == ("FLOAT16" if kind == F16 else "BFLOAT16")
        asked = found and c.accuracy == "fast" if kind == F16 else found or c.accuracy == "fast"
        if asked and lanes == c.vlen and flag in c.target.requires:
            return unit
    return ""


def table_of(c: Recorder, weights: ValueRef, node: NodeRef, w: Array) -> Array | None:
    """The transpose of `w` [k, n] in bfloat16, which other nodes read and the bundle has anyhow;
    None where there is none, or where the CPU does not multiply it as it is.
    """
    transposed = node.op_type == "Gemm" and bool(node.attr("transB", 0))
    shared = transposed and SHARED_KEY in weights.ir.metadata_props
    fits = shared and rounds(c, node, ROUNDED) == "bf16" and w.shape[0] % 2 == 0
    if not fits or float(node.attr("alpha", 1.0)) != 1.0 or not _is_bf16(w):
        return None
    return np.ascontiguousarray(w.T).astype(BFLOAT16.numpy)


def row_words(k: int) -> int:
    """AOT_BF16_ROW(k): words from row to row of k numbers rounded to bfloat16."""
    return (ceil_div(k, 32) | 1) * 16


def halved(c: Recorder, w: Array, rows: int, unit: str = "") -> Narrow | None:
    """The matrix `w` [k, n] in 16 bits per element, if these hold every element exactly and reading
    it takes the time: where it is larger than caches, for a single row than the second level.

    With a `unit` always, rounded to the nearest, unless the type cannot hold all numbers.
    """
    (k, n), vlen = w.shape, c.vlen
    rounded = bool(unit) and n > vlen  # one vector of columns takes as long as rounding rows does
    small = w.nbytes < (LARGE if rows == 1 else HUGE) and not rounded
    if vlen == 1 or w.dtype != np.float32 or small:
        return None
    if rounded and unit == "fp16":
        return _scaled(w, vlen)
    step = max(1, LARGE // max(1, n))  # rows looked at together
    for kind, (holds, dtype, _) in _HALVES.items():
        holds = is_in_range if rounded else holds
        if all(holds(w[i : i + step]) for i in range(0, k, step)):
            of = np.dtype(dtype)
            size = ceil_div(k, 2) * ceil_div(n, vlen) * vlen * 4 // of.itemsize
            key, parts = ("halves", kind, memory_of(w), vlen), partial(_half_panels, w, kind, vlen)
            data = Deferred((size,), of, key, parts, w)
            return Narrow(kind, k, n, data, unit=unit if rounded else "")
    return None


def _scaled(w: Array, vlen: int) -> Narrow | None:
    """`w` [k, n] as float16, each column times the power of two that makes the sizes of HALF_RUN
    rows sum up to HALF_SUM / 2 .. HALF_SUM at most; None where one is infinite or a NaN.
    """
    k, n = w.shape
    runs = (np.abs(w[i : i + HALF_RUN]).sum(axis=0) for i in range(0, k, HALF_RUN))
    top = functools.reduce(np.maximum, runs, np.zeros(n, np.float32)) / np.float32(HALF_SUM)
    if not np.all(top < 2.0**100):
        return None
    powers = np.maximum(np.frexp(top)[1], -100)
    size = ceil_div(k, 2) * ceil_div(n, vlen) * vlen * 2
    of, scaled = np.dtype(np.float16), partial(_scaled_panels, w, powers, vlen)
    data = Deferred((size,), of, ("scaled", memory_of(w), vlen), scaled, w)
    factors = np.ldexp(np.ones((1, 1, n), np.float32), powers)
    return Narrow(F16, k, n, data, factors, block=k, unit="fp16")


def _scaled_panels(w: Array, powers: Array, vlen: int) -> Iterator[Array]:
    """The panels of `w`, each column divided by two to its number of `powers`."""
    yield from _half_panels(np.ldexp(w, -powers), F16, vlen)


def _half_panels(w: Array, kind: int, vlen: int) -> Iterator[Array]:
    """The elements of each group of columns of `w`, an even number of rows."""
    k = w.shape[0]
    for panel in gemm_panels(w, vlen, TILES[vlen][-1][1]):
        rows = np.pad(panel.reshape(k, -1), ((0, k % 2), (0, 0)))
        yield _HALVES[kind][2](rows).reshape(-1)


# -- the call ----------------------------------------------------------------------------------


def by_dots(c: Recorder, rows: int) -> bool:
    """Whether a product of `rows` rows with weights of 4 or 8 bits is one by the CPU's dot products
    of integers: it has one row, and need not be strict.
    """
    return rows == 1 and c.accuracy != "strict" and suits(c.target.simd, c.vlen, c.objective)


def record_narrow(
    c: Recorder,
    m: Match,
    x: ValueRef,
    w: Narrow,
    bias: Array | None,
    r: ValueRef | None = None,
    act: Act = NO_ACT,
) -> None:
    """Record m.y = act(x [.., k] · w + bias + r), with scratch (bytes) for the rows of weights
    widened at a time, or the digits of x; the result may replace `r` where that is not `x`.
    """
    p, o = TILES[c.vlen][-1]
    tile = p
    rows, group = math.prod(x.shape[:-1]), o * c.vlen
    run = max(RUN // w.block, 1) * w.block
    many = 0 if w.factors is None else w.factors.shape[1]
    width = min(o, ceil_div(w.n, c.vlen)) * c.vlen
    instance = {"P": p, "O": o, "ACT": act.after, "KIND": w.kind, "FACTORS": many}
    kernel = "aot_gemm_f32_narrow"
    # With vectors a single row is multiplied by what registers widen.
    scratch = 0 if rows == 1 and c.vlen > 1 else 4 * min(run, w.k + 7) * width
    if w.kind in (S4, S8_WORDS) and by_dots(c, rows):
        digits, kernel = 2 if c.accuracy == "fast" else 3, "aot_gemm_f32_narrow__dot"
        instance["DIGITS"] = digits
        scratch = digits * round_up(w.k, 16) + PART_BYTES * ceil_div(w.k, min(w.block, PART))
    if w.unit:
        kernel, tile = f"aot_gemm_f32_narrow__{w.unit}", UNITS[w.unit][3]
        strips = c.vlen == 4
        line = 8 * ceil_div(w.k, 4) if strips else 4 * row_words(w.k)
        instance = {"O": o, "ACT": act.after} if strips else {"P": p, "O": o, "ACT": act.after}
        most = max(ROUNDED_BYTES // line // tile, 1) * tile
        run = min(round_up(rows, tile) if strips else rows, most)
        scratch = run * line
    steps, blocks = ceil_div(w.k, STEP[w.kind]), ceil_div(w.k, w.block)
    sizes = (4, 0, 4 * steps, 4 * many * blocks, 4, 4)
    moves = [(i, group * size) for i, size in enumerate(sizes) if size]
    down = [(0, 4 * w.n), (1, 4 * w.k), (5, 4 * w.n)]
    c.call(
        kernel,
        m.y,
        x,
        c.const(w.data, "narrow"),
        None if w.factors is None else c.const(in_groups(w.factors, w.n, c.vlen), "factors"),
        c.const(pack_bias(bias, w.n, c.vlen), "b"),
        r,
        c.scratch(scratch),
        c.params(
            m=rows,
            n=w.n,
            k=w.k,
            y_row=w.n,
            block=w.block,
            run=run,
            act=act.kind,
            alpha=act.alpha,
            beta=act.beta,
        ),
        instance=instance,
        inplace=[(m.y, r)] if r is not None and r.ir is not x.ir else (),
        macs=rows * w.k * w.n,
        splits=[Split.pieces("n", w.n, moves, group), Split.rows_of_product(rows, down, tile)],
    )


def in_groups(a: Array, columns: int, vlen: int) -> Array:
    """[.., columns padded to whole vectors] with the columns of one group after the other."""
    wide = np.zeros((*a.shape[:-1], ceil_div(columns, vlen) * vlen), a.dtype)
    wide[..., :columns] = a
    cuts = panel_groups(ceil_div(columns, vlen), TILES[vlen][-1][1])
    return np.concatenate([wide[..., b * vlen : (b + o) * vlen].ravel() for b, o in cuts])
