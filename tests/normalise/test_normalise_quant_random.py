# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs compute the same after normalisation; a second one changes nothing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest

from aot.load import LoadOptions, load
from aot.normalise import normalise
from quant_graphs import S8, S16, U8, Net, f32, feeds_of, i64, in_either, normal, quantised_values

STEPS = 10


@dataclass(frozen=True)
class Held:
    """A value: its name, type, shape, and scale and zero point if it is quantised values."""

    name: str
    dtype: type
    shape: tuple[int, ...]
    params: tuple[float, int] | None = None


class Writer:
    """Adds one random operator after the other to a graph of one 4-axis input."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        dtype = self.dice.choice([np.float32, S8, U8, S16])
        self.net = Net(x=(dtype, (1, 4, 6, 6)))
        params = None if dtype is np.float32 else self.parameters(dtype)
        self.values = [Held("x", dtype, (1, 4, 6, 6), params)]
        self.steps = [self.quantise, self.quantise, self.move, self.move, self.product]
        self.steps += [self.unary, self.binary, self.pad, self.pool, self.narrow]

    def parameters(self, dtype):
        zeros = {S8: [0, 3, -128], U8: [0, 128, 100], S16: [0, 9]}[dtype]
        return self.dice.choice([0.02, 0.05]), self.dice.choice(zeros)

    def number(self, v: Held) -> str:
        if v.params is None:
            return v.name
        return self.net.dq(v.name, v.params[0], v.dtype(v.params[1]))

    def quantise(self, v):
        dtype = self.dice.choice([S8, U8, S8, U8, S16])
        scale, zero = self.parameters(dtype)
        if v.params and self.dice.random() < 0.5:
            dtype, (scale, zero) = v.dtype, v.params
        made = self.net.q(self.number(v), scale, dtype(zero))
        return Held(made, dtype, v.shape, (scale, zero))

    def narrow(self, v):
        if v.dtype not in (S8, U8):
            return None
        made = self.net.add("Clip", v.name, v.dtype(5), v.dtype(90))
        return Held(made, v.dtype, v.shape, v.params)

    def move(self, v):
        inner = v.params is not None and self.dice.random() < 0.5
        x, dtype = (v.name, v.dtype) if inner else (self.number(v), np.float32)
        n, c, h, w = v.shape
        made, shape = self.dice.choice(
            [
                lambda: (self.net.add("Transpose", x, perm=[0, 1, 3, 2]), (n, c, w, h)),
                lambda: (self.net.add("Reshape", x, i64(n, c, w, h)), (n, c, w, h)),
                lambda: (self.net.add("Concat", x, x, axis=2), (n, c, 2 * h, w)),
                lambda: (self.net.add("Gather", x, i64(1, 0, 1), axis=3), (n, c, h, 3)),
                lambda: (self.net.add("Slice", x, i64(1), i64(h), i64(2)), (n, c, h - 1, w)),
            ]
        )()
        return Held(made, dtype, shape, v.params if inner else None)

    def pad(self, v):
        inner = v.dtype in (S8, U8) and self.dice.random() < 0.5
        x = v.name if inner else self.number(v)
        fill = [v.dtype(self.dice.choice([0, v.params[1]]))] if inner else []
        made = self.net.add("Pad", x, i64(0, 0, 1, 1, 0, 0, 1, 1), *fill)
        n, c, h, w = v.shape
        dtype, params = (v.dtype, v.params) if inner else (np.float32, None)
        return Held(made, dtype, (n, c, h + 2, w + 2), params)

    def pool(self, v):
        kind = self.dice.choice(["GlobalMaxPool", "GlobalAveragePool", "MaxPool"])
        n, c, h, w = v.shape
        if kind != "MaxPool":
            return Held(self.net.add(kind, self.number(v)), np.float32, (n, c, 1, 1))
        made = self.net.add(kind, self.number(v), kernel_shape=[2, 2])
        return Held(made, np.float32, (n, c, h - 1, w - 1))

    def product(self, v):
        dtype = self.dice.choice([S8, U8])
        weights = self.net.dq(quantised_values(4, v.shape[1], 1, 1, dtype=dtype), 0.004, dtype(0))
        bias = self.dice.choice([[], [f32(4)], [np.arange(4, dtype=np.float32) * 0.02]])
        made = self.net.add("Conv", self.number(v), weights, *bias)
        return Held(made, np.float32, (v.shape[0], 4, *v.shape[2:]))

    def unary(self, v):
        kind = self.dice.choice(["Relu", "Elu", "Tanh"])
        return Held(self.net.add(kind, self.number(v)), np.float32, v.shape)

    def binary(self, v):
        other = self.dice.choice([u for u in self.values if u.shape == v.shape])
        kind = self.dice.choice(["Add", "Mul", "Max"])
        return Held(self.net.add(kind, self.number(v), self.number(other)), np.float32, v.shape)

    def model(self):
        for _ in range(STEPS):
            v = self.dice.choice(self.values[-3:])
            whole = min(v.shape[2:]) > 1
            made = self.dice.choice(self.steps if whole else [self.quantise, self.unary])(v)
            if made is not None and np.prod(made.shape) < 3000:
                self.values.append(made)
        used = {i for n in self.net.nodes for i in n.input}
        made = [v for v in self.values[1:] if v.name not in used or self.dice.random() < 0.1]
        outputs = {v.name: v.dtype for v in made or self.values[-1:]}
        return self.net.model(**outputs)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_quantised_values(seed):
    model = Writer(seed).model()
    feeds = feeds_of(model, seed)
    want = in_either(model, feeds)
    first = normal(model)
    renamed = {v.metadata_props["aot.onnx_name"]: v.name for v in first.graph.inputs}
    got = in_either(ir.to_proto(first), {renamed[k]: v for k, v in feeds.items()})
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), atol=1e-4)
    again = normalise(load(ir.to_proto(first)), LoadOptions())
    kinds = [Counter(n.op_type for n in m.graph) for m in (first, again)]
    assert kinds[0] == kinds[1]
