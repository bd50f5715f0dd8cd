# SPDX-License-Identifier: Apache-2.0
"""What moves no data, or only inside a region: views between products, and Concat.

They are taken so that a region is not cut where nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from aot.vendor import S8, U8, Layout, Match, Recorder, ValueRef, copy_part
from aot.vendor.dnnl.base import BLOCKS, backend, blocks, declare, floats

Checks = Iterator[tuple[bool, str]]
#: Operators next to which a view of quantised values belongs in a region: what makes and first
#: reads quantised values.
INT8_WORK = frozenset({"QuantizeLinear", "DequantizeLinear", "MaxPool"})


@cache
def _work() -> frozenset[str]:
    """Operators next to which a view or a Concat of floats belongs in a region: all that compute.

    It is asked when every pattern of the backend is declared.
    """
    known = {op for p in backend.patterns for domain, op in p.operators if not domain}
    return frozenset(known - {"Reshape", "QuantizeLinear", "DequantizeLinear"})


def _neighbours(value: ValueRef, forward: bool) -> set[str]:
    if forward:
        return {use.node.op_type for use in value.ir.uses()}
    producer = value.ir.producer()
    return set() if producer is None else {producer.op_type}


reshape = declare("reshape", ("x", "how"), lambda op, x, how: op.Reshape(x, how), int8=True)


@reshape.check
def between(m: Match) -> Checks:
    """Checks of a Reshape of floats or bytes: oneDNN computes what makes x and what reads y."""
    int8 = m.x.dtype in (S8, U8)
    if not int8:
        yield from floats(m.x)
    work = INT8_WORK if int8 else _work()
    inside = _neighbours(m.x, forward=False) & work and _neighbours(m.y, forward=True) & work
    yield bool(inside), "it is not between two operators of this vendor"


@reshape.lower
def to_view(c: Recorder, m: Match) -> None:
    c.view(m.y, m.x)


concat = declare("concat", ("xs",), lambda op, xs: op.Concat(xs, _optional=-1))


def _parts(m: Match) -> list[ValueRef]:
    return [x for x in m.xs if x is not None]


def _axis(m: Match) -> int:
    return int(m.root.attr("axis")) % int(m.y.rank)


def _block(m: Match, v: int) -> int:
    """V if the parts are runs of memory in blocks of V, else 0."""
    whole = all(p.shape[1] % v == 0 for p in _parts(m)) if m.y.rank >= 2 else False
    return v if v in BLOCKS and _axis(m) == 1 and 3 <= m.y.rank <= 5 and whole else 0


@concat.check
def next_to_work(m: Match) -> Checks:
    """Checks of a Concat of floats: oneDNN computes what makes one of its parts."""
    yield from floats(*_parts(m), m.y)
    work = any(_neighbours(p, forward=False) & _work() for p in _parts(m))
    yield work, "no part comes from an operator of this vendor"


@concat.layouts
def whole_blocks(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    if not _block(m, vlen) or not any(incoming[n].blocked for n, _ in m.inputs()):
        return {}
    return {n: blocks(v.shape, vlen) for n, v in m.values.items() if v is not None}


@concat.lower
def to_views(c: Recorder, m: Match) -> None:
    parts, axis, block = _parts(m), _axis(m), m.y.layout.block
    starts = [sum(p.shape[axis] for p in parts[:i]) // (block or 1) for i in range(len(parts))]
    shape = m.y.layout.physical(m.y.shape)
    row = math.prod(shape[axis + 1 :]) * m.y.dtype.nbytes
    if math.prod(shape[:axis]) == 1 and c.concat_view(m.y, parts, [row * s for s in starts]):
        return
    for part, start in zip(parts, starts, strict=True):
        copy_part(c, m.y, part, axis, start)
