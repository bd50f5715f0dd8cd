# SPDX-License-Identifier: Apache-2.0
"""Test cases of the patterns: shapes that fill no vector, each way of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from aot.vendor import (
    Case,
    QuantisedPair,
    QuantisedPool,
    QuantisedProduct,
    case,
    f32,
    quantised_values,
)

Attributes = dict[str, Any]
#: Windows of pooling: padded and strided, uneven and on one axis.
WINDOWS: tuple[tuple[tuple[int, ...], Attributes], ...] = (
    ((2, 5, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 17, 6, 7), {"kernel_shape": [2, 4], "strides": [2, 1]}),
    ((1, 3, 11), {"kernel_shape": [5], "strides": [3]}),
)
#: Convolutions: dense with pads; grouped, strided and uneven; on one axis.
KERNELS: tuple[tuple[tuple[int, ...], tuple[int, ...], Attributes], ...] = (
    ((2, 5, 9, 8), (5, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 6, 7, 9), (6, 3, 3, 2), {"group": 2, "strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 3, 11), (3, 3, 4), {"strides": [3]}),
)


def of_node(name: str, attributes: Attributes) -> Attributes:
    """The attributes as those of the node that a pattern calls `name`."""
    return {f"{name}.{key}": value for key, value in attributes.items()}


def convolution(shape: tuple[int, ...], kernel: tuple[int, ...], attributes: Attributes) -> Case:
    """A convolution by constant weights [outputs, channels of a group, *window]."""
    given = f32(*shape), f32(*kernel, low=-0.3, high=0.3, seed=1), f32(kernel[0], seed=2)
    return case(*given, const=(1, 2), **of_node("conv", attributes))


#: The cases of each pattern by its name.
CASES: dict[str, Callable[[], Iterable[Case]]] = {
    "conv": lambda: [convolution(*row) for row in KERNELS],
    # onnx.reference does not transpose convolutions with groups.
    "convtranspose": lambda: [convolution(*row) for row in KERNELS if "group" not in row[2]],
    "qconv": QuantisedProduct.conv_cases,
    # The library needs one scale of all weights.
    "qconvtranspose": lambda: [
        QuantisedProduct.example(
            quantised_values(1, 5, 4, 3),
            quantised_values(5, 6, 3, 3),
            1,
            per_channel=False,
            **of_node("conv", {"strides": [step] * 2, "pads": [1, 1, 1, 1]}),
        )
        for step in (1, 2)
    ],
    "dense": lambda: [
        case(f32(4, 19), f32(19, 7, low=-0.3, high=0.3, seed=1), f32(7, seed=2), const=(1, 2))
    ],
    "qdense": QuantisedProduct.dense_cases,
    "pool": lambda: [case(f32(*shape), **of_node("pool", a)) for shape, a in WINDOWS],
    "qmaxpool": lambda: [case(quantised_values(*shape), **a) for shape, a in WINDOWS],
    "mean": lambda: [case(f32(*shape)) for shape in ((2, 21, 5, 6), (1, 3, 7))],
    "qmean": QuantisedPool.average_cases,
    # Along the last axis, and along the channels of an image.
    "softmax": lambda: [case(f32(3, 21), axis=-1), case(f32(2, 5, 3, 7), axis=1)],
    # A slope for each channel, and one for all.
    "prelu": lambda: [
        case(f32(2, 21, 5, 6), f32(21, 1, 1), const=(1,)),
        case(f32(3, 7), f32(1), const=(1,)),
    ],
    # Smaller and larger, by each way to count positions that the library has.
    "resize": lambda: [
        case(
            f32(1, 7, 6, 5),
            None,
            None,
            np.array([1, 7, 4, 11]),
            const=(3,),
            mode="linear",
            coordinate_transformation_mode=how,
        )
        for how in ("half_pixel", "align_corners", "asymmetric")
    ],
    "unary": lambda: [case(f32(*shape)) for shape in ((2, 5, 3, 7), (21,))],
    # Operands of one shape, a factor per channel, a constant row; quotients are finite.
    **dict.fromkeys(
        ("pair", "extremum"),
        lambda: [
            case(f32(2, 5, 3, 7), f32(2, 5, 3, 7, seed=1, low=0.5)),
            case(f32(2, 5, 3, 7), f32(5, 1, 1, seed=1, low=0.5)),
            case(f32(3, 11), f32(11, seed=1, low=0.5), const=(1,)),
        ],
    ),
    "qpair": QuantisedPair.cases,
}
