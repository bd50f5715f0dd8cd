# SPDX-License-Identifier: Apache-2.0
"""Concat and Transpose, taken beside products so that a region is not cut where nothing is
computed.
"""

from __future__ import annotations

import math
from functools import cache

from aot.vendor import OP, Layout, Match, Recorder, ValueRef, strided_copy, wildcard
from aot.vendor.dnnl.base import BLOCKS, Checks, backend, blocks, declare, floats


@cache
def _work() -> frozenset[str]:
    """Operators next to which a move of floats belongs in a region: all that compute.

    It is asked when every pattern of the backend is declared.
    """
    known = {op for p in backend.patterns for domain, op in p.operators if not domain}
    return frozenset(known - {"QuantizeLinear", "DequantizeLinear", "Transpose"})


def _made_by(value: ValueRef) -> set[str]:
    """The operator that makes a value, seen through a Reshape."""
    producer = value.ir.producer()
    if producer is None or producer.op_type != "Reshape":
        return set() if producer is None else {producer.op_type}
    return {p.op_type for v in producer.inputs if v and (p := v.producer())}


def _read_by(value: ValueRef) -> set[str]:
    """The operators that read a value, seen through a Reshape."""
    readers = [use.node for use in value.ir.uses()]
    readers += [use.node for n in readers if n.op_type == "Reshape" for use in n.outputs[0].uses()]
    return {n.op_type for n in readers}


def between(m: Match) -> Checks:
    """Checks of a Transpose of floats: oneDNN computes what makes x and what reads y."""
    yield from floats(m.x)
    inside = _made_by(m.x) & _work() and _read_by(m.y) & _work()
    yield bool(inside), "it is not between two operators of this vendor"


def to_copy(c: Recorder, m: Match) -> None:
    """Record a copy of x to y with permuted axes; without `perm` the axes are reversed."""
    rank = int(m.x.rank)
    strided_copy.copy_permuted(c, m.y, m.x, m.x.shape, m.root.attr("perm") or range(rank)[::-1])


def _parts(m: Match) -> list[ValueRef]:
    """The parts of a Concat in order; operands that are left out (None) are dropped."""
    return [x for x in m.xs if x is not None]


def _axis(m: Match) -> int:
    """The axis of a Concat, counted from the front."""
    return int(m.root.attr("axis")) % int(m.y.rank)


def _block(m: Match, v: int) -> int:
    """V if the parts are runs of memory in blocks of V, else 0."""
    whole = all(p.shape[1] % v == 0 for p in _parts(m)) if m.y.rank >= 2 else False
    return v if v in BLOCKS and _axis(m) == 1 and 3 <= m.y.rank <= 5 and whole else 0


def next_to_work(m: Match) -> Checks:
    """Checks of a Concat of floats: oneDNN computes what makes one of its parts."""
    yield from floats(*_parts(m), m.y)
    work = any(_made_by(p) & _work() for p in _parts(m))
    yield work, "no part comes from an operator of this vendor"


def whole_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocks of channels for all parts and y if a part arrives in blocks and blocks can be joined.

    The answer is {}, all plain, otherwise.
    """
    if not _block(m, vlen) or not any(incoming[n].blocked for n, _ in m.inputs()):
        return {}
    return {n: blocks(v.shape, vlen) for n, v in m.values.items() if v is not None}


def to_views(c: Recorder, m: Match) -> None:
    """Record a Concat: parts become views of the memory of y where that is possible, else copies.

    Views need parts that are single runs of memory, thus extents of 1 before the axis. Starts count
    positions of the axis in y as stored: blocks of channels, where channels are blocked.
    """
    parts, axis, block = _parts(m), _axis(m), m.y.layout.block
    starts = [sum(p.shape[axis] for p in parts[:i]) // (block or 1) for i in range(len(parts))]
    shape = m.y.layout.physical(m.y.shape)
    row = math.prod(shape[axis + 1 :]) * m.y.dtype.nbytes
    if math.prod(shape[:axis]) == 1 and c.concat_view(m.y, parts, [row * s for s in starts]):
        return
    for part, start in zip(parts, starts, strict=True):
        strided_copy.copy_part(c, m.y, part, axis, start)


declare("transpose", OP.Transpose(wildcard("x")), between, lower=to_copy)
declare(
    "concat",
    OP.Concat(wildcard("xs"), _optional=-1),
    next_to_work,
    lower=to_views,
    layouts=whole_blocks,
)
