# SPDX-License-Identifier: Apache-2.0
"""Families of networks with two dimensions that a run says, at five sizes each.

A run of the tests tries two of them; AOT_FULL=1 tries all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import aot
from two_dims import FAMILIES, sizes


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_two_dimensions(family: str, tmp_path: Path) -> None:
    build, ranges, of = FAMILIES[family]
    proto = build()
    net = aot.compile(proto, tmp_path, name="net", dims=ranges).build().load()
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    for seed, dims in enumerate(sizes(ranges, of, 7)):
        rng, feeds = np.random.default_rng(seed), {}
        for value in proto.graph.input:
            kind = value.type.tensor_type
            shape = [dims.get(d.dim_param, d.dim_value) for d in kind.shape.dim]
            words = rng.integers(0, 2 if value.name == "mask" else 40, shape)
            floats = rng.standard_normal(shape).astype(np.float32)
            feeds[value.name] = floats if kind.elem_type == 1 else words
        (want,) = reference.run(None, feeds)
        found = np.asarray(net(**feeds))
        assert found.shape == want.shape, dims
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4 * np.abs(want).max() + 1e-6)
