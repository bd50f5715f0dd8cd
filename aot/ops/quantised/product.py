# SPDX-License-Identifier: Apache-2.0
"""Products of quantised values with constant weights, and what follows them, in one integer call.

QuantizeLinear([Relu | Clip](product)), where the product is a Conv, ConvTranspose, MatMul or Gemm
of quantised values, constant quantised weights and a bias or none: symmetric int8 weights of one or
two spatial axes go to the kernels of the target (conv_portable, conv_dsp, conv_mve), with dot
products (conv_dot) also other weights where groups = 1, on vectors (conv_vector) also other
weights where every channel has a filter of its own; everything else goes to aot_qconv_ref.
Channels are stored last.

An epilogue is what a kernel does instead with the sums of a few pixels at a time:

- `add`: QuantizeLinear([Relu | Clip](quantised values of a Conv + quantised values r)). The sum may
  take the place of r, and no third tensor lives beside the input and r.
- `sum`: QuantizeLinear([Relu | Clip](product + quantised values r)), as exporters for TensorRT
  write it. The exact int32 sums are scaled, the other operand is added in the same fixed point, and
  the total is rounded once.
- `act`: QuantizeLinear(Sigmoid(product)), or a chain of any elementwise operators. The exact int32
  sums find their place in a table (curve.py). Where no table is close enough the nodes stay in
  float32.

`sum` and `act` are the same for all values of `--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8
from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_dot, conv_dsp, conv_mve, conv_portable, conv_s16
from aot.ops.quantised.binary import record_sum
from aot.ops.quantised.common import (
    quantised,
    quantised_fields,
    signed_input,
    signed_result,
)
from aot.ops.quantised.curve import PLACES, curve
from aot.ops.quantised.phases import MOST_WEIGHTS, Phases, copies, phases
from aot.ops.quantised.shapes import QConv
from aot.vendor import Case, Handle, Match, Recorder, WindowShape
from aot.vendor.layouts import all_channels_last
from aot.vendor.pattern import OP, Pat, either, repeat
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    activated,
    all_hold,
    dequantised,
    quantisation,
)
from aot.vendor.quantised_cases import kind, product_operands, quantised_case, quantised_values
from aot.vendor.quantised_product import QuantisedProduct, product_node
from aot.vendor.quantised_table import LONGEST, UNARY, link
from aot.vendor.requant import SUMS, refusal, rq_of
from aot.vendor.strided_copy import copy_bytes

EIGHT = (S8, U8)
#: EPILOGUE of runtime_c/kernels/aot_qconv_epilogue.h, besides those that add quantised values: they
#: are the arithmetics of `sum_fields`. AOT_QCONV_SUM_BITS of the same header.
SUM, CURVE, SUM_BITS = {"EPILOGUE": 3}, {"EPILOGUE": 4}, 24
#: Bytes made at a time for an epilogue: on boards what the product's own scratch leaves of the
#: first, but at least the second, and elsewhere the third.
BOARD_SCRATCH, BOARD_STAGE, HOST_STAGE = 480, 96, 4096
#: Parameters of an epilogue behind those of its convolution.
_NAMES = "a_mult b_mult y_mult a_shift b_shift y_shift offset a_zero b_zero sum_zero sum_lo sum_hi"
UNUSED = dict.fromkeys(_NAMES.split(), 0)


def _sum(product: Pat) -> Pat:
    """The pattern of `product` plus quantised values r, with a Relu or Clip or without."""
    return activated(OP.Add(product, dequantised("r"), _outputs=["op"]))


def _behind(product: Pat) -> Pat:
    """The pattern of `product` with one to LONGEST elementwise operators behind it.

    A Sigmoid is the first alternative, which cases take.
    """
    shortest = OP.any_of("Sigmoid", *(n for n in UNARY if n != "Sigmoid"))(product)
    return either(shortest, repeat(link, product, 1, LONGEST))


_CONV, _DENSE = QuantisedProduct.conv_pattern(), QuantisedProduct.dense_pattern()
_LAST, _WITH_R = all_channels_last("x", "y"), all_channels_last("x", "r", "y")
conv = quantised(
    "qconv",
    activated(_CONV),
    QuantisedProduct.checks,
    layouts=_LAST,
    cases=QuantisedProduct.conv_cases,
)
dense = quantised(
    "qdense", activated(_DENSE), QuantisedProduct.checks, cases=QuantisedProduct.dense_cases
)
transposed = quantised(
    "qconvtranspose",
    activated(QuantisedProduct.conv_pattern("ConvTranspose")),
    QuantisedProduct.checks,
    layouts=_LAST,
    cases=QuantisedProduct.transposed_cases,
)
conv_add = quantised(
    "qconv_add",
    activated(QuantisedProduct.conv_add_pattern()),
    partial(QuantisedProduct.checks, types=(S8,)),
    layouts=_WITH_R,
    cases=QuantisedProduct.conv_add_cases,
)
conv_sum = quantised("qconv_sum", _sum(_CONV), layouts=_WITH_R)
dense_sum = quantised("qdense_sum", _sum(_DENSE))
conv_act = quantised("qconv_act", _behind(_CONV), priority=-2, layouts=_LAST)
dense_act = quantised("qdense_act", _behind(_DENSE), priority=-2)


# -- checks of epilogues ---------------------------------------------------------------------


def _exact_sums_fit(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a kernel can hand on the exact sums of the product, for an epilogue."""
    if product_node(m).op_type == "Conv":
        group = int(m.conv.attr("group", 1))
        yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
        yield group == 1, f"group {group} (needs 1)"
    yield from QuantisedProduct.weights_symmetric(m)
    yield from QuantisedProduct.checks(m, EIGHT, (SUMS,))


@conv_sum.check
@dense_sum.check
def sum_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a product to whose sums quantised values r are added."""
    if (yield from all_hold(_exact_sums_fit(m))):
        r, y = quantisation(m, "r"), quantisation(m, "y")
        reason = refusal(float(r.s), np.ones(1), float(y.s))
        yield not reason, reason


@conv_act.check
@dense_act.check
def act_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a table comes close enough to the operators behind a product."""
    operands = [m.values.get(f"{k}{i}") for k in ("k", "low", "high") for i in range(LONGEST)]
    constant = all(v is None or v.is_const for v in operands)
    yield constant, "an operand computed at run time"
    if (yield from all_hold(_exact_sums_fit(m))) and constant:
        near = curve(m, QuantisedProduct.of(m, SUMS)) is not None
        yield near, "a function that no table of 512 pieces is close to"


# -- kernels -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a kernel does behind a product, a few pixels at a time; without an instance, nothing.

    `instance` is its constant EPILOGUE, `fields` are its parameters and `pieces` the table that it
    reads in place of quantised values `r`. With `scaled` (size of a step, fraction bits) it takes
    the exact sums, in such steps with so many fraction bits; without, the product's quantised
    values.
    """

    instance: Mapping[str, int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)
    scaled: tuple[float, int] | None = None
    pieces: Array | None = None


NOTHING = Epilogue()


@conv.lower
@dense.lower
@transposed.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a product by a kernel of the target if it has one for it, else by the general one."""
    found = QuantisedProduct.of(m, rq_of(c))
    any_weights = conv_dot.suits(c.target.simd, c.vlen, c.objective)
    fits = found.w.symmetric or (c.vlen > 1 if found.depthwise else any_weights)
    types = {found.x.dtype, found.y.dtype}
    known = types <= {*EIGHT} or (types == {S16} and found.w.symmetric and c.target.board)
    fits = fits and known and (found.window is None or m.x.rank < 5)
    turned = found.node.op_type == "ConvTranspose"
    # Phases without a tap get zero weights, which boards must not pay for; copies of phases need
    # RAM.
    if fits and turned and types <= {*EIGHT} and c.objective != "ram":
        growth = 1.0 if c.target.board or c.objective == "flash" else MOST_WEIGHTS
        made = phases(found, m.y.shape[2:], growth)
        if made is not None:
            record_phases(c, m, made)
            return
    if fits and (found.groups == 1 or found.depthwise) and not turned:
        record(c, m, found)
    else:
        record_general(c, m, found)


def record_phases(c: Recorder, m: Match, found: Phases) -> None:
    """Record a transposed convolution as a plain one, and the copies to the places of its
    results.
    """
    images, channels, *results = m.y.shape
    made = c.temp((images, *found.grid, len(found.product.bias)), S8, name="phases")
    record(c, m, found.product, grid=(made, found.grid))
    with signed_result(c, m.y) as y:
        for axes, to, at in copies(found, images, channels, results):
            copy_bytes(c, c.write(y, to), c.read(made, at), axes)


@conv_add.lower
def add_to_kernel(c: Recorder, m: Match) -> None:
    """Record a convolution with an epilogue that adds quantised values r to its own; where no
    kernel of the target takes its weights, the addition is a call of its own."""
    found = QuantisedProduct.of(m, rq_of(c))
    total = found.total
    assert total is not None
    if not found.w.symmetric and not conv_dot.suits(c.target.simd, c.vlen, c.objective):
        made = c.temp(m.y.shape, S8, m.y.layout, "product")
        record_general(c, m, found, made)
        record_sum(c, m.y, made, m.r, total)
        return
    how, fields = total.sum_fields(rq_of(c))
    zeros = {"a_zero": total.a.z, "b_zero": total.b.z, "sum_zero": total.y.z}
    limits = dict(zip(("sum_lo", "sum_hi"), total.limits, strict=True))
    record(c, m, found, Epilogue({"EPILOGUE": how}, {**fields, **zeros, **limits}))


@conv_sum.lower
@dense_sum.lower
def sum_to_kernel(c: Recorder, m: Match) -> None:
    """Record a product with an epilogue that adds quantised values r to its exact sums."""
    found, limits = QuantisedProduct.of(m, SUMS), quantised_fields(m)
    step, r = float(found.y.s), quantisation(m, "r").signed()
    fields = {**UNUSED, "b_mult": round(float(r.s) / step * 2.0**SUM_BITS), "b_zero": r.z}
    fields |= {"sum_zero": limits["y_zero"], "sum_lo": limits["lo"], "sum_hi": limits["hi"]}
    record(c, m, found, Epilogue(SUM, fields, scaled=(step, SUM_BITS)))


@conv_act.lower
@dense_act.lower
def act_to_kernel(c: Recorder, m: Match) -> None:
    """Record a product with an epilogue that looks its exact sums up in a table of pieces."""
    found = QuantisedProduct.of(m, SUMS)
    table, (low, high) = curve(m, found), found.y.signed().range
    assert table is not None
    unit = table.width / 2**PLACES
    last = (len(table.numbers) << PLACES) - 1
    fields = {**UNUSED, "offset": -round(table.start / unit), "a_mult": last}
    fields |= {"sum_lo": low, "sum_hi": high}
    record(c, m, found, Epilogue(CURVE, fields, scaled=(unit, 0), pieces=table.numbers))


def record(
    c: Recorder,
    m: Match,
    found: QuantisedProduct,
    more: Epilogue = NOTHING,
    grid: tuple[Handle, tuple[int, ...]] | None = None,
) -> None:
    """Record a kernel of the target for 8-bit quantised values, and the epilogue `more`.

    The product is described as a QConv, for which the planner of the instruction set picks the
    kernel, packs the weights and tells scratch in bytes; where it hands on exact sums the portable
    one does. uint8 quantised values are copied with their top bit flipped, in and out. An epilogue
    makes `pixels` pixels at a time in a second scratch; its result may take the place of `r`. With
    `grid` int8 values of so many positions go to a temporary in place of the match's result.
    """
    rq, behind = rq_of(c) if more.scaled is None else SUMS, bool(more.instance)
    mult, shift = steps(found, *more.scaled) if more.scaled else found.multipliers(rq)
    per_channel = rq != SUMS and len(mult) > 1
    positions = m.y.shape[2:] if grid is None else grid[1]
    shape = shape_of(c, m, found, positions, behind, rq, per_channel)
    planner: Any = {"dsp": conv_dsp, "mve": conv_mve}.get(c.target.simd, conv_portable)
    planner = conv_s16 if found.x.dtype is S16 else planner
    w = found.w.stored.reshape(*found.w.data.shape[:2], shape.kh, shape.kw)
    bias = found.folded(shape.x_zero).astype(np.int32)
    call = (conv_portable if rq == SUMS else planner).plan(shape, w, bias, c.objective)
    source, r = signed_input(c, m.x), signed_input(c, m.r) if "r" in m.values else None
    with signed_result(c, m.y) if grid is None else nullcontext(grid[0]) as made:
        operands: list[Any] = [made, source, *constants(c, call.weights, call.bias, mult, shift)]
        operands += [c.scratch(call.scratch)]
        fields, place = shape.fields(), source if call.inplace else None
        if behind:
            size = shape.oc * (4 if rq == SUMS else 1)
            pixels = stage_pixels(c, size, shape.ow, call.scratch)
            operands += [r if more.pieces is None else c.const(more.pieces, "pieces")]
            operands += [c.scratch(size * pixels if call.staged else 0, "stage")]
            fields = {**shape.sizes(), "pixels": pixels, **more.fields}
            fields |= {"y0": 0, "y1": shape.oh, "y_row0": 0}
            # x is read again for later positions, r only where the result is written.
            place = r if r is not None and m.r.ir is not m.x.ir else None
        rowwise = shape.rowwise(*[7] * behind)
        c.call(
            call.kernel.replace("_s8", "_epilogue_s8" if behind else "_s8"),
            *operands,
            c.params(**fields),
            instance={**more.instance, "RQ": rq, "PC": int(shape.per_channel), **call.instance},
            inplace=[] if place is None else [(made, place)],
            macs=shape.macs,
            rowwise=rowwise if call.rows_apart and rq != SUMS else None,
            splits=shape.splits(call, *[7] * (behind and more.pieces is None)),
            blocks=None if rq == SUMS else shape.blocks(call, *[7] * behind),
        )


def constants(c: Recorder, w: Array, b: Array, mult: Array, shift: Array | None) -> list[Any]:
    """The constant operands of a kernel: weights, bias, multipliers, shifts (None for float32)."""
    scales = [c.const(mult, "mult"), None if shift is None else c.const(shift, "shift")]
    return [c.const(w, "w"), c.const(b, "b"), *scales]


def steps(found: QuantisedProduct, step: float, bits: int) -> tuple[Array, Array]:
    """(multipliers of 31 bits, shifts) per channel that turn sums into multiples of `step`.

    The multiples have `bits` fraction bits.
    """
    wide = np.broadcast_to(found.w.scale.astype(np.float64), (len(found.w.data),))
    fraction, exponent = np.frexp(float(found.x.s) * wide / step)
    shift = 31 - bits - exponent
    drop = np.maximum(shift - 62, 0)
    mult = np.minimum(np.rint(fraction * 2.0 ** (31 - drop)), 2**31 - 1)
    return mult.astype(np.int32), (shift - drop).astype(np.int8)


def shape_of(
    c: Recorder,
    m: Match,
    found: QuantisedProduct,
    positions: Sequence[int],
    epilogue: bool,
    rq: int,
    per_channel: bool,
) -> QConv:
    """The product as a convolution for the planners, on int8 quantised values.

    The results of a convolution have the extents `positions`. With an `epilogue` a matrix product
    counts as a convolution. `rq` SUMS has no limits.
    """
    t, x, y = c.target, found.x.signed(), found.y.signed()
    low, high = found.y.as_signed(found.limits)
    fields: dict[str, Any] = {"x_zero": x.z, "y_zero": y.z, "lo": low, "hi": high, "rq": rq}
    fields |= dict.fromkeys(("y_zero", "lo", "hi"), 0) if rq == SUMS else {}
    fields |= {"arch": t.arch, "simd": t.simd, "vlen": c.vlen, "nbytes": x.dtype.nbytes}
    fields["cpu"] = conv_portable.THUMB1 if t.thumb1 else t.cpu
    fields |= {"per_channel": per_channel, "kind": "dwconv" if found.depthwise else "conv"}
    if found.window is None:
        rows = math.prod(m.x.shape[:-1])
        # Kernels of 16 bits compute two rows at a time as pixels of a convolution.
        pixels = epilogue or (x.dtype is S16 and rows > 1)
        fields["kind"] = "conv" if pixels else "fc"
        return QConv.dense(rows, m.x.shape[-1], m.y.shape[-1], **fields)
    window, lead = found.window.widened(2), (1,) * (4 - m.x.rank)
    sizes = (*m.x.shape[:2], *lead, *m.x.shape[2:], len(found.w.data), *lead, *positions)
    moves = window.kernel + window.strides + window.dilations + window.before
    return QConv(*sizes, *moves, **fields)


def stage_pixels(c: Recorder, size: int, columns: int, scratch: int) -> int:
    """How many pixels of `size` bytes are made at a time: an even number, or a whole row of
    `columns`.

    On boards they share the room that the product's own `scratch` (bytes) leaves.
    """
    room = max(BOARD_STAGE, BOARD_SCRATCH - scratch) if c.target.board else HOST_STAGE
    return min(columns, max(2, room // size & ~1))


def record_general(c: Recorder, m: Match, found: QuantisedProduct, made: Any = None) -> None:
    """Record aot_qconv_ref, whose result is `made` if given: any rank, groups and types. A matrix
    product has a position per row. A ConvTranspose is a convolution of x with zeros between its
    positions, and its windows are read from their other end."""
    window, w = found.window, found.w.stored
    rows, space, results = m.x.shape[0], m.x.shape[2:], m.y.shape[2:]
    if window is None:
        rows, space, results = math.prod(m.x.shape[:-1]), (), ()
        window = WindowShape((), (), (), (), ())
    up = (1,) * len(space)
    if found.node.op_type == "ConvTranspose":
        w = np.flip(w, tuple(range(2, w.ndim)))
        before = tuple(d * (k - 1) - p for k, _, d, p, _ in zip(*window.axes(), strict=True))
        window, up = replace(window, strides=up, before=before), window.strides
    rq, wide, lead = rq_of(c), window.widened(3), (1,) * (3 - len(space))
    mult, shift = found.multipliers(rq)
    low, high = found.limits
    params = c.params(
        n=rows,
        ic=w.shape[1] * found.groups,
        oc=len(w),
        groups=found.groups,
        **{"in": lead + tuple(space), "out": lead + tuple(results)},
        up=lead + up,
        k=wide.kernel,
        s=wide.strides,
        d=wide.dilations,
        pad=wide.before,
        x_zero=found.x.z,
        y_zero=found.y.z,
        lo=low,
        hi=high,
    )
    # Weights less their zero point need 9 bits.
    types = {"XT": found.x.dtype, "WT": S8 if found.w.symmetric else S16, "YT": found.y.dtype}
    c.call(
        "aot_qconv_ref",
        m.y if made is None else made,
        m.x,
        *constants(c, np.moveaxis(w, 1, -1), found.bias.astype(np.int32), mult, shift),
        params,
        instance={
            "RQ": rq,
            "PC": int(len(mult) > 1),
            **{k: QUANTISED_TYPES.index(t) for k, t in types.items()},
        },
        macs=math.prod(m.y.shape) * math.prod(w.shape[1:]),
    )


# -- cases of epilogues: for operators the first of the alternatives, a Sigmoid ------------------

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


def _sum_case(x: Array, w: Array, added: Array, axis: int, named: dict[str, Any]) -> Case:
    """A case of x, w, a bias in units of the sums, and r; its result saturates at times."""
    channels = w.shape[axis]
    width = np.sqrt(w.size / channels) * 74 * 74 * 0.031 * 0.0075 / 40
    steps = np.linspace(0.004, 0.011, channels).astype(np.float32)
    made = (
        *product_operands(x, w, steps),
        added,
        *kind(width * 0.73, -20),
        *kind(width * 1.13, -100),
    )
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
