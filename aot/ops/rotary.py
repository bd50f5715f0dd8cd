# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding of float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, S64
from aot.ir.graph_nodes import attribute, given, shape_of
from aot.ops.gather import call_checked, proven
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import require_equal
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.operands import operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor import Case, Match, Recorder, case, f32

rotary = op(
    "RotaryEmbedding",
    "x cos sin places?",
    types=(F32,),
    typed="x cos sin",
    interleaved=0,
    num_heads=0,
    rotary_embedding_dim=0,
)


def head_size(m: Match) -> int:
    """The elements of a head; 0 if x has three axes and num_heads is missing."""
    last = int(m.x.shape[-1])
    if m.x.rank == 4:
        return last
    return last // m.num_heads if m.num_heads > 0 else 0


def tokens(m: Match) -> tuple[int, int]:
    """(samples, positions of each) of x, whose heads are axis 1 if it has four axes."""
    return m.x.shape[0], m.x.shape[2] if m.x.rank == 4 else m.x.shape[1]


@rotary.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that heads, turned elements, angles and positions fit each other."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    size, rotated = head_size(m), m.rotary_embedding_dim or head_size(m)
    yield size > 0, f"num_heads {m.num_heads} of {m.x.shape}"
    yield rotated % 2 == 0 and rotated <= size, f"{rotated} of {size} elements are rotated"
    yield m.cos.shape == m.sin.shape, f"cosines {m.cos.shape}, sines {m.sin.shape}"
    yield m.cos.shape[-1:] == (rotated // 2,), f"{m.cos.shape[-1:]} angles for {rotated} elements"
    if m.places is None:
        yield m.cos.shape[:2] == tokens(m), f"angles {m.cos.shape} for {tokens(m)} tokens"
    else:
        yield m.places.dtype is S64, f"places of {m.places.dtype} (needs int64)"
        yield m.places.shape == tokens(m), f"places {m.places.shape} for {tokens(m)} tokens"
        yield m.cos.rank == 2 and m.cos.shape[0] > 0, f"a table of angles {m.cos.shape}"


@rotary.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_rotary_f32 with the strides of batch, heads and positions; y may take x's
    place.
    """
    size, (batch, seq) = head_size(m), tokens(m)
    heads = m.x.shape[1] if m.x.rank == 4 else m.num_heads
    inner = (size, seq * size) if m.x.rank == 4 else (heads * size, size)
    params = c.params(
        batch=batch,
        seq=seq,
        heads=heads,
        size=size,
        half=(m.rotary_embedding_dim or size) // 2,
        # Without places there is a row of angles for each token.
        rows=m.cos.shape[0] if m.places is not None else batch * seq,
        step=(heads * seq * size, *inner),
    )
    call_checked(
        c,
        "aot_rotary_f32",
        m.places is None or proven(m.places, m.cos.shape[:1]),
        m.y,
        m.x,
        m.cos,
        m.sin,
        m.places,
        params,
        instance={"INTERLEAVED": int(bool(m.interleaved))},
        inplace=[(m.y, m.x)],
    )


@rotary.cases
def cases() -> Iterator[Case]:
    """RotaryEmbedding(X, cos_cache, sin_cache, position_ids): of rank 3 and 4, interleaved."""
    places = np.array([[4, 0, 2], [1, 6, 3]], np.int64)
    table = f32(7, 10), f32(7, 10, seed=1)
    for interleaved in (0, 1):
        attrs: dict[str, Any] = {"interleaved": interleaved}
        yield case(f32(2, 4, 3, 20), *table, places, **attrs)
        yield case(f32(2, 3, 100), *table, places, num_heads=4, rotary_embedding_dim=20, **attrs)
    yield case(f32(2, 4, 3, 76), f32(2, 3, 38), f32(2, 3, 38, seed=1))
    yield case(f32(2, 3, 20), f32(2, 3, 5), f32(2, 3, 5, seed=1), num_heads=2)


@dynamic("RotaryEmbedding")
def rotary_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic batches and positions of a RotaryEmbedding pass, each position for itself.

    UnsupportedError for dynamic heads or elements, or angles for other positions.
    """
    data = needed(node, 0)
    last = len(shape_of(data)) - 1
    rows = last - 1
    if last in x.run_sizes(data) or (len(shape_of(data)) == 4 and 1 in x.run_sizes(data)):
        raise refused(node, "turns along a dimension known at run time only")
    positions = given(node, 3)
    for index in (1, 2, 3):
        value = given(node, index)
        places = {0: 0, 1: rows} if positions is None or index == 3 else {}
        fixed = [
            a for a, p in places.items() if p in x.run_sizes(data) and a not in x.run_sizes(value)
        ]
        if value is not None and fixed:
            raise refused(node, "has angles for a known number of positions or batches")
        for axis, n in x.run_sizes(value).items():
            ours = x.run_sizes(data).get(places.get(axis, -1))
            if ours is None:
                raise refused(node, "has angles along another dimension known at run time only")
            require_equal(x, node, ours, n, "has angles for other positions")
    # Padding has to be the number of a row that exists.
    if positions is not None and x.run_sizes(positions):
        node.replace_input_with(3, x.neutral(node, positions, 0))
    pass_on(x, node, x.run_sizes(data))


@operands_fit("RotaryEmbedding")
def rotary_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why heads, angles or positions of a RotaryEmbedding do not fit x; "" if
    they do.
    """
    x, cos, sin, places = (operand_shape(node, i) for i in range(4))
    heads, turns = (int(attribute(node, n, 0)) for n in ("num_heads", "rotary_embedding_dim"))
    if x is None or len(x) not in (3, 4) or (len(x) == 3 and (heads < 1 or x[2] % heads)):
        return f"{heads} heads of an input {list(x or ())}"
    batch, positions = x[0], x[1] if len(x) == 3 else x[2]
    width = x[3] if len(x) == 4 else x[2] // heads
    pairs = (turns or width) // 2
    if turns < 0 or turns > width or (turns or width) % 2:
        return f"rotary_embedding_dim {turns} of {width} elements"
    if cos is None or sin is None or cos != sin:
        return f"cosines {list(cos or ())} and sines {list(sin or ())} should be of one shape"
    if places is None:
        return wrong("cosines", cos, (batch, positions, pairs))
    wanted = (*cos[:1], pairs)
    return wrong("cosines", cos, wanted) or wrong("position_ids", places, (batch, positions))
