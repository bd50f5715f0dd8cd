# SPDX-License-Identifier: Apache-2.0
"""The backend: convolutions, fully connected layers, pools, sums, products, Softmax of int8."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from aot.vendor import (
    OP,
    S8,
    TFLITE,
    Backend,
    BackendOptions,
    Match,
    QuantisedPair,
    QuantisedPool,
    QuantisedProduct,
    QuantisedSoftmax,
    Recorder,
    UsageError,
    activated,
    images,
    quantised,
    tflite_layers as shared,
    wildcard,
)
from aot.vendor.esp_nn.scratch import VARIANTS, C, Geometry

Checks = shared.Checks
TYPES = (S8,)
HEADER = "aot_esp_nn.h"
#: How many times as long as portable C the library's plain C takes on RISC-V, at least.
SLOWER = 2.0


def named(kernel: str, variant: str) -> str:
    """The function of the vendor's C. What the library's assembly takes of the stack is not known,
    so that calls of it have another name."""
    return f"aot_esp_nn_{kernel}" + "__asm" * (variant != C)


# -- products -----------------------------------------------------------------------------------


def product_fits(m: Match) -> Checks:
    """Checks of every product of int8."""
    if (yield from shared.product_fits(m, TYPES)):
        data = QuantisedProduct.of(m, TFLITE).w.data
        longest = max(len(data), math.prod(data.shape[1:]))
        yield longest < 2**16, f"{longest} outputs or products in a sum (needs less than 65536)"


def conv_fits(m: Match) -> Checks:
    """Checks of a convolution of rank 3 or 4: one group or filters per channel, no dilations."""
    if (yield from shared.conv_fits(m, product_fits)):
        found, pads = QuantisedProduct.of(m, TFLITE), list(m.conv.attr("pads") or ())
        g = Geometry.of(m, found)
        yield g.whole or g.depthwise, f"{found.groups} groups (needs 1, or one a channel)"
        yield max(g.dilation) == 1, f"dilations {list(g.dilation)} (need to be 1)"
        # The library's function for windows of one position knows no padding.
        one = math.prod(g.w[1:3]) == 1 and not g.depthwise
        yield not (one and any(pads)), f"pads {pads} of one position (need to be 0)"


def to_conv(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of a convolution."""
    found = QuantisedProduct.of(m, TFLITE)
    g, rowwise = Geometry.of(m, found), None
    kernel, size = "conv", g.bytes(variant)
    if g.depthwise:
        kernel, size = "depthwise", g.depthwise_bytes(variant)
    params = c.params(
        x=g.x, w=g.w, y=g.y, **shared.ends(found), stride=g.stride, pad=g.pad, bytes=size
    )
    consts = shared.constants(c, found, g.weights(found, g.depthwise), np.int32)
    # Images of few rows want other amounts of scratch than plain C, which wants none.
    if variant == C and found.window is not None:
        rowwise = c.by_windows(m.y, m.x, found.window, shared.BY_ROWS)
    operands = (m.y, m.x, *consts, c.scratch(size), params)
    macs = math.prod(m.y.shape) * math.prod(g.w[1:])
    c.call(named(kernel, variant), *operands, status=True, macs=macs, rowwise=rowwise)


def to_dense(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of a fully connected layer, with one multiplier or one per output channel."""
    found = QuantisedProduct.of(m, TFLITE)
    n, k = found.w.data.shape
    rows, (mult, shift) = math.prod(m.x.shape[:-1]), shared.scales(found)
    one = {"mult": int(mult[0]), "shift": int(shift[0])}
    params = c.params(rows=rows, depth=k, channels=n, **shared.ends(found), **one)
    operands = [c.const(found.w.stored, "w"), c.const(found.bias.astype(np.int32), "b")]
    many = len(mult) > 1
    operands += [c.const(mult, "mult"), c.const(shift, "shift")] if many else []
    kernel = named("dense" + "_channels" * many, variant)
    c.call(kernel, m.y, m.x, *operands, params, status=True, macs=rows * n * k)


def product_cost(m: Match) -> float:
    """Nanoseconds of a convolution or fully connected layer, by its multiply-accumulates."""
    macs = math.prod(m.y.shape) * math.prod(m.w.shape[1:])
    return shared.priced(m, SLOWER, macs)


# -- other layers -------------------------------------------------------------------------------


def to_average(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of an average."""
    found = QuantisedPool.of(m)
    shared.record_pool(c, m, named("average", variant), found.window, found.limits)


def to_maximum(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of a MaxPool."""
    window = shared.maximum_window(m)
    shared.record_pool(c, m, named("maximum", variant), window, (-128, 127))


def pair_fits(m: Match) -> Checks:
    """Checks of a sum or product: int8, three equal shapes; sums are scaled to the right only."""
    ready = yield from QuantisedPair.checks(m, TYPES)
    yield from shared.equal_shapes(m)
    if ready:
        fields = shared.pair_fields(m, QuantisedPair.of(m))
        shifts = [v for k, v in fields.items() if k.endswith("shift")]
        most = 0 if "left" in fields else 14
        fits = all(-shared.MOST_RIGHT <= s <= most for s in shifts)
        yield fits, f"shifts {shifts} (need to be {-shared.MOST_RIGHT} to {most})"


def to_pair(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of a sum or a product; y may share the memory of either operand."""
    shared.to_pair(c, m, named(m.op.op_type.lower(), variant))


def to_softmax(variant: str, c: Recorder, m: Match) -> None:
    """Record the call of a Softmax of rows, with scratch for the powers of one row."""
    found = QuantisedSoftmax.of(m, TFLITE)
    row = m.x.shape[found.axis]
    rows, size = math.prod(m.x.shape) // row, 4 * row
    params = c.params(rows=rows, size=row, **found.fixed_point, bytes=size)
    c.call(named("softmax", variant), m.y, m.x, c.scratch(size), params, status=True)


# -- the backend --------------------------------------------------------------------------------


def backend_for(variant: str) -> Backend:
    """The backend for a variant of the library."""
    made = Backend(
        "esp_nn",
        header=HEADER,
        sources=("aot_esp_nn.c", HEADER),
        link="ESP::NN",
        find="find_esp_nn.cmake",
        hint="Set AOT_ESP_NN_ROOT, of CMake or of the environment, to the folder that has "
        "include/esp_nn.h, or add the component esp-nn before this bundle: docs/esp_nn.md.",
        folder=Path(__file__).parent,
        configure=configured,
    )
    ends, pair = images.last("x", "y"), QuantisedPair
    pool = OP.MaxPool(wildcard("x"))
    for name, graph, check, lower, layouts, cases in (
        ("qconv", QuantisedProduct.conv_pattern(), conv_fits, to_conv, ends,
         QuantisedProduct.conv_cases),
        ("qdense", QuantisedProduct.dense_pattern(), product_fits, to_dense, None,
         QuantisedProduct.dense_cases),
        ("qaverage", QuantisedPool.average_pattern(), partial(shared.average_fits, types=TYPES),
         to_average, ends, partial(shared.average_examples, "int8")),
        ("qmaxpool", pool, shared.maximum_fits, to_maximum, ends, shared.maximum_examples),
        ("qadd", pair.pattern("Add"), pair_fits, to_pair, pair.layouts, pair.cases),
        ("qmul", pair.pattern("Mul"), pair_fits, to_pair, pair.layouts, pair.cases),
        ("qsoftmax", QuantisedSoftmax.pattern(), shared.softmax_fits, to_softmax, None,
         QuantisedSoftmax.cases),
    ):  # fmt: skip
        activates = name not in ("qmaxpool", "qsoftmax")
        whole = graph if graph is pool else quantised(activated(graph) if activates else graph)
        products = name in ("qconv", "qdense")
        made.declare(
            name,
            whole,
            check,
            lower=partial(lower, variant),
            layouts=layouts,
            cost=product_cost if products else partial(shared.priced, ratio=SLOWER),
            cases=cases,
        )
    return made


def configured(said: BackendOptions) -> Backend:
    """The backend as the user asks for it: `esp_nn:esp32p4` is for that variant's scratch.

    Raises UsageError if there is no such variant.
    """
    variant = said.config or C
    if variant not in VARIANTS:
        raise UsageError(
            f"--backend esp_nn:{variant}: no such variant", hint=f"one of {', '.join(VARIANTS)}"
        )
    return backend_for(variant)


backend = backend_for(C)
