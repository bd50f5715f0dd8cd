# SPDX-License-Identifier: Apache-2.0
"""Test cases of the integer patterns: quantised values, scales, and products in every shape that
matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.vendor.cases import Case, case


def quantised_values(*shape: int, dtype: str = "int8", seed: int = 0) -> Array:
    """Seeded quantised values over the whole range of an integer type."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def scale(value: float) -> Array:
    """A scalar float32 array, as the scale of quantised values."""
    return np.array(value, np.float32)


def zero(value: int, dtype: str = "int8") -> Array:
    """A scalar zero point."""
    return np.array(value, dtype)


def kind(step: float, point: int, dtype: str = "int8") -> tuple[Array, Array]:
    """(scale, zero point) of quantised values of a type, as scalar arrays."""
    return scale(step), zero(point, dtype)


def quantised_case(*inputs: Array | None, fed: tuple[int, ...] = (0,), **more: Any) -> Case:
    """A case whose inputs are all constants but those at the positions `fed`, which the
    test feeds.
    """
    const = tuple(i for i, a in enumerate(inputs) if i not in fed and a is not None)
    return case(*inputs, const=const, **more)


def product(
    x: Array,
    w: Array,
    axis: int,
    *,
    zx: int = -3,
    zy: int = 5,
    dtype: str = "int8",
    zw: int | None = None,
    bias: bool = True,
    per_channel: bool = True,
    range_of_y: float = 4.0,
    **attrs: Any,
) -> Case:
    """A product of x and constant w, output channels on `axis` of w, as the patterns spell it.

    The scale of y lets sums of `range_of_y` standard deviations through, so some saturate.
    """
    oc = w.shape[axis]
    sx = scale(0.031)
    steps = np.linspace(0.004, 0.011, oc) if per_channel else np.array(0.0075)
    sw = np.asarray(steps, np.float32)
    zeros = np.full(sw.shape, zw or 0, w.dtype)
    deviation = 74.0 * 74.0 * np.sqrt(w.size / oc)
    sy = scale(float(sx) * float(np.mean(sw)) * deviation * range_of_y / 128)
    b = np.random.default_rng(oc).integers(-3000, 3000, oc).astype(np.int32)
    operands: list[Array | None] = [x, sx, zero(zx, x.dtype.name), w, sw, zeros]
    operands += [b, sx * sw, np.zeros(sw.shape, np.int32)] if bias else [None, None, None]
    operands += [sy, zero(zy, dtype)]
    const = tuple(i for i, a in enumerate(operands) if i and a is not None)
    axes: dict[str, Any] = {"w_dq.axis": axis, "b_dq.axis": 0}
    return case(*operands, const=const, **axes, **attrs)


def conv_cases() -> Iterator[Case]:
    """Cases of quantised convolutions: kernels' corner cases, then forms of the general kernel
    only.
    """
    same: dict[str, Any] = {"conv.pads": [1, 1, 1, 1]}
    yield product(quantised_values(1, 3, 6, 7), quantised_values(5, 3, 3, 3), 0, **same)
    yield product(
        quantised_values(2, 16, 5, 5), quantised_values(8, 16, 1, 1), 0, zy=-128, per_channel=False
    )
    stride: dict[str, Any] = {"conv.strides": [2, 2], "conv.pads": [0, 1, 1, 0]}
    yield product(quantised_values(1, 8, 9, 8), quantised_values(7, 8, 3, 2), 0, zx=100, **stride)
    tall: dict[str, Any] = {"conv.pads": [4, 1, 5, 1]}
    yield product(quantised_values(1, 1, 12, 6), quantised_values(9, 1, 10, 4), 0, **tall)
    deep: dict[str, Any] = {"conv.group": 10, **same}
    yield product(quantised_values(1, 10, 6, 5), quantised_values(10, 1, 3, 3), 0, **deep)
    deep = {"conv.group": 17, "conv.strides": [2, 2], "conv.pads": [0, 0, 1, 1]}
    yield product(quantised_values(2, 17, 7, 6), quantised_values(17, 1, 3, 3), 0, zx=127, **deep)
    row: dict[str, Any] = {"conv.pads": [2, 0]}
    yield product(quantised_values(1, 6, 14), quantised_values(4, 6, 3), 0, **row)
    apart: dict[str, Any] = {"conv.dilations": [2, 3]}
    yield product(quantised_values(1, 6, 8, 8), quantised_values(5, 6, 3, 3), 0, **apart)
    halves: dict[str, Any] = {"conv.group": 2}
    yield product(quantised_values(1, 6, 5, 5), quantised_values(8, 3, 3, 3), 0, **halves)
    yield product(quantised_values(1, 2, 3, 4, 5), quantised_values(3, 2, 2, 2, 2), 0)
    unsigned: dict[str, Any] = {"zx": 7, "zy": 9, "dtype": "uint8"}
    yield product(
        quantised_values(1, 5, 6, 6, dtype="uint8"),
        quantised_values(4, 5, 3, 3),
        0,
        **unsigned,
        **same,
    )
    odd = quantised_values(4, 5, 3, 3, dtype="uint8")
    yield product(quantised_values(1, 5, 6, 6), odd, 0, zw=131)
    odd = quantised_values(19, 1, 3, 3, dtype="uint8")
    deep = {"conv.group": 19, **same}
    yield product(quantised_values(1, 19, 5, 9), odd, 0, zw=100, **deep)
    wide: dict[str, Any] = {"zx": -300, "zy": 44, "dtype": "int16", **same}
    for channels, inner in ((4, 5), (5, 1)):  # all of one group, and a filter per channel
        wide["conv.group"] = 5 // inner
        x = quantised_values(1, 5, 6, 6, dtype="int16") // 8
        yield product(x, quantised_values(channels, inner, 3, 3), 0, **wide)


def fc_cases() -> Iterator[Case]:
    """Cases of products of a quantised matrix with a constant one, with rows, types and scales
    varied.
    """
    yield product(quantised_values(1, 40), quantised_values(40, 10), 1)
    yield product(quantised_values(3, 17), quantised_values(17, 5), 1, per_channel=False, zx=120)
    yield product(quantised_values(1, 64), quantised_values(64, 33), 1, bias=True, zy=-128)
    yield product(quantised_values(2, 3, 20), quantised_values(20, 7), 1)
    unsigned: dict[str, Any] = {"zx": 7, "zy": 9, "dtype": "uint8"}
    yield product(quantised_values(2, 20, dtype="uint8"), quantised_values(20, 7), 1, **unsigned)
    yield product(quantised_values(2, 20), quantised_values(20, 7, dtype="uint8"), 1, zw=100)
    for rows in (1, 2):
        wide = quantised_values(rows, 20, dtype="int16") // 4
        yield product(wide, quantised_values(20, 7), 1, dtype="int16")


def product_operands(x: Array, w: Array, steps: Array) -> tuple[Array, ...]:
    """The first nine operands of a quantised product: x, w, and an int32 bias, each with its
    parameters.

    `steps` are the scales of w, one per output channel; the bias is in units of the sums.
    """
    zeros, (sx, zx) = np.zeros(steps.size, np.int8), kind(0.031, -3)
    b = np.arange(steps.size, dtype=np.int32) * 300
    return x, sx, zx, w, steps, zeros, b, sx * steps, zeros.astype(np.int32)


def conv_add_cases() -> Iterator[Case]:
    """Cases of convolutions whose int8 results are added to other quantised values."""
    for shape, kernel, pads in (
        ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
        ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
        ((1, 32, 5, 6), (8, 32, 1, 1), [0, 0, 0, 0]),
        ((1, 3, 7, 9), (4, 3, 3, 3), [1, 1, 1, 1]),
    ):
        w, r = quantised_values(*kernel), quantised_values(shape[0], kernel[0], *shape[2:], seed=7)
        steps = np.linspace(0.004, 0.011, kernel[0]).astype(np.float32)
        # Sums of so many random products are about this wide: results fill the range of int8.
        width = np.sqrt(w.size / kernel[0]) * 74 * 74 * 0.031 * 0.0075 / 40
        operands = (
            *product_operands(quantised_values(*shape), w, steps),
            *kind(width, 4),
            *kind(width, 4),
        )
        tail = (r, *kind(width * 0.73, -20), *kind(width * 1.13, -100))
        named: dict[str, Any] = {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
        yield quantised_case(*operands, *tail, fed=(0, 13), **named)


def transposed_cases() -> Iterator[Case]:
    """Cases of quantised transposed convolutions: strides, output padding, dilations, one or two
    axes.
    """
    for shape, kernel, named in (
        ((1, 5, 4, 3), (5, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 3, 4, 5), (3, 4, 2, 3), {"strides": [3, 1], "output_padding": [1, 0]}),
        ((1, 4, 7), (4, 3, 4), {"strides": [2], "dilations": [2]}),
    ):
        attrs: dict[str, Any] = {f"conv.{k}": v for k, v in named.items()}
        yield product(quantised_values(*shape), quantised_values(*kernel), 1, **attrs)
