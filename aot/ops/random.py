# SPDX-License-Identifier: Apache-2.0
"""Random numbers: a generator per node, seeded by its attribute or by its place in the model.

Draw i of a node since init is SplitMix64's output number i for the node's seed, so a run gives
other numbers than the last one, the same on every machine. `NAME_reset_state` starts again.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from typing import Any

from aot.ir.dtypes import F32, F64, U64
from aot.ir.graph_nodes import attribute
from aot.ir.operators import Random, operator
from aot.normalise.decompose import FLOAT, INT32, Body, decompose
from aot.ops.registry import op
from aot.vendor import Match, Pattern, Recorder


def seed_of(m: Match) -> int:
    """The 64-bit seed of a generator: the bits of attribute `seed`, or a digest of the
    node's name.
    """
    if m.seed is not None:
        return int(struct.unpack("<Q", struct.pack("<d", float(m.seed)))[0])
    digest = hashlib.blake2b(m.root.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def declare(op_type: str, inputs: str, normal: bool, **attrs: Any) -> Pattern:
    """Declare a generator of random numbers and its pattern.

    With `normal` the attributes mean and scale tell the distribution, else low and high those of a
    uniform one. `inputs` are the names of the operands, `attrs` the operator's own attributes. The
    numbers follow from the seed and from how many were drawn before: a persistent uint64 [1], so
    that every run gives other ones.
    """
    made = op(op_type, inputs, traits=[Random()], dtype=None, seed=None, **attrs)

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that the result is float32 or float64."""
        yield m.y.dtype in (F32, F64), f"dtype {m.y.dtype} (needs float32 or float64)"

    @made.lower
    def to_kernel(c: Recorder, m: Match) -> None:
        """Record aot_random with its persistent count of draws; params hold the seed as signed 64
        bits.
        """
        drawn = c.persistent((1,), U64, "drawn")
        a, b = (m.mean, m.scale) if normal else (m.low, m.high)
        seed = seed_of(m)
        params = c.params(
            n=math.prod(m.y.shape),
            # Parameters are signed, and the kernel reads the same bits as unsigned.
            seed=seed - (1 << 64) if seed >= 1 << 63 else seed,
            a=float(a),
            b=float(b),
        )
        c.call(
            f"aot_random_{m.y.dtype.short}",
            m.y,
            c.update(drawn),
            params,
            instance={"NORMAL": int(normal)},
            header="aot_random.h",
        )

    return made


declare("RandomUniform", "", False, shape=None, low=0.0, high=1.0)
declare("RandomUniformLike", "x", False, low=0.0, high=1.0)
declare("RandomNormal", "", True, shape=None, mean=0.0, scale=1.0)
declare("RandomNormalLike", "x", True, mean=0.0, scale=1.0)


operator("Bernoulli", "x", traits=[Random()])
operator("Multinomial", "x", traits=[Random()])


@decompose("Bernoulli")
def _bernoulli(b: Body) -> bool:
    """Decompose a Bernoulli: 1 where a uniform draw is below the input, the chance of a 1.

    ONNX's own body gives the other chance.
    """
    seed = attribute(b.node, "seed", None)
    seeded: dict[str, Any] = {} if seed is None else {"seed": float(seed)}
    below = b.add("Less", b.add("RandomUniformLike", "i0", **seeded), "i0")
    b.add("Cast", below, to=int(attribute(b.node, "dtype", None) or b.kind()), out="o0")
    return True


@decompose("Multinomial")
def _multinomial(b: Body) -> bool:
    """Decompose a Multinomial: each draw picks the first class whose summed share is above it.

    Inputs are logarithms of chances, [rows, classes].
    """
    rows, count = b.shape(0)[0], int(attribute(b.node, "sample_size", 1))
    seed = attribute(b.node, "seed", None)
    draw: dict[str, Any] = {"shape": [rows, count, 1], "dtype": FLOAT}
    if seed is not None:
        draw["seed"] = float(seed)
    shares = b.add("Softmax", b.add("Cast", "i0", to=FLOAT), axis=-1)
    upto = b.add("Unsqueeze", b.add("CumSum", shares, b.constant(7, (), [1])), b.ints(1))
    reached = b.add("LessOrEqual", upto, b.add("RandomUniform", **draw))
    steps = b.add("ReduceSum", b.add("Cast", reached, to=INT32), b.ints(2), keepdims=0)
    last = b.constant(INT32, (), [b.shape(0)[1] - 1])
    b.add("Cast", b.add("Min", steps, last), to=int(attribute(b.node, "dtype", INT32)), out="o0")
    return True
