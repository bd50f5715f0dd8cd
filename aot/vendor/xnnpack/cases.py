# SPDX-License-Identifier: Apache-2.0
"""Test cases of the patterns: shapes that fill no vector, each way of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from aot.vendor import (
    Case,
    QuantisedPair,
    QuantisedPool,
    QuantisedProduct,
    case,
    f32,
    images,
    quantised_values,
)

#: The cases of each pattern by its name.
CASES: dict[str, Callable[[], Iterable[Case]]] = {
    "conv": lambda: [images.convolution(*row) for row in images.KERNELS],
    # onnx.reference does not transpose convolutions with groups.
    "convtranspose": lambda: [
        images.convolution(*row) for row in images.KERNELS if "group" not in row[2]
    ],
    "qconv": QuantisedProduct.conv_cases,
    # The library needs one scale of all weights.
    "qconvtranspose": lambda: [
        QuantisedProduct.example(
            quantised_values(1, 5, 4, 3),
            quantised_values(5, 6, 3, 3),
            1,
            per_channel=False,
            **images.of_node("conv", {"strides": [step] * 2, "pads": [1, 1, 1, 1]}),
        )
        for step in (1, 2)
    ],
    "dense": lambda: [
        case(f32(4, 19), f32(19, 7, low=-0.3, high=0.3, seed=1), f32(7, seed=2), const=(1, 2))
    ],
    "qdense": QuantisedProduct.dense_cases,
    "pool": lambda: [case(f32(*shape), **images.of_node("pool", a)) for shape, a in images.WINDOWS],
    "qmaxpool": lambda: [case(quantised_values(*shape), **a) for shape, a in images.WINDOWS],
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
