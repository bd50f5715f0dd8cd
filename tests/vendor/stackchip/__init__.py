# SPDX-License-Identifier: Apache-2.0
"""A vendor that rewrites its regions before it lowers them, and asks for everything it can.

The chip runs commands on tiles of numbers: (operation, slot written, slots read). Its passes take a
region apart into commands (a difference is a negation and a sum), drop what cancels out, order
commands so that few slots live at a time, and choose the tile: small where RAM is the objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from aot.vendor import Backend, BackendError

backend = Backend(
    "stackchip",
    header="stackchip.h",
    sources=("stackchip.h", "stackchip.c"),
    clean="stackchip_clean",
    invalidate="stackchip_invalidate",
    error="stackchip_error",
)
NEG, ADD, MAX0 = 0, 1, 2
ALIGN, TILES = 256, {"ram": 16}


@dataclass(frozen=True, slots=True)
class Command:
    """`y = op(a, b)` on values by name; of one operand `b` is `a`."""

    op: int
    y: str
    a: str
    b: str


@backend.pattern
def neg(op, x):
    return op.Neg(x)


@backend.pattern
def relu(op, x):
    return op.Relu(x)


@backend.pattern
def sub(op, x, z):
    return op.Sub(x, z)


@sub.check
def same_shape(m):
    yield m.x.shape == m.z.shape, f"shapes {m.x.shape} and {m.z.shape} (need to be equal)"


def decomposed(region):
    """Commands of the chip: it cannot subtract."""
    for _, m in region.matches:
        if m.root.op_type == "Sub":
            yield Command(NEG, f"{m.y.name}'", m.z.name, m.z.name)
            yield Command(ADD, m.y.name, m.x.name, f"{m.y.name}'")
        else:
            kind = NEG if m.root.op_type == "Neg" else MAX0
            yield Command(kind, m.y.name, m.x.name, m.x.name)


def merged(commands, outputs):
    """Two negations in a row are none."""
    made = {c.y: c for c in commands}
    same = {}
    for c in commands:
        inner = made.get(c.a)
        if c.op == NEG and inner is not None and inner.op == NEG and c.y not in outputs:
            same[c.y] = same.get(inner.a, inner.a)
    kept = [replace(c, a=same.get(c.a, c.a), b=same.get(c.b, c.b)) for c in commands]
    used = {n for c in kept for n in (c.a, c.b)} | set(outputs)
    return [c for c in kept if c.y not in same and c.y in used]


def reordered(commands, inputs):
    """Depth first from the last command, so that few values live at a time."""
    made = {c.y: c for c in commands}
    order = []

    def visit(name):
        c = made.pop(name, None)
        if c is not None:
            visit(c.a)
            visit(c.b)
            order.append(c)

    for c in reversed(commands):
        visit(c.y)
    return order


def slots(commands, inputs, output):
    """A slot for every value, reused when it is read for the last time."""
    last = {n: i for i, c in enumerate(commands) for n in (c.a, c.b)} | {output: len(commands)}
    place = {n: i for i, n in enumerate(inputs)}
    free, most = [], len(inputs)
    for i, c in enumerate(commands):
        free += [place[n] for n in dict.fromkeys((c.a, c.b)) if last[n] == i]
        if free:
            place[c.y] = free.pop()
        else:
            place[c.y], most = most, most + 1
        yield c, [c.op, place[c.y], place[c.a], place[c.b]]
    yield None, [place[output], most]


@backend.region
def on_the_chip(c, region):
    if len(region.outputs) != 1 or len(region.inputs) > 2:
        raise BackendError("stackchip: one result and two operands at most")
    (y,) = region.outputs
    names = [v.name for v in region.inputs]
    commands = reordered(merged(list(decomposed(region)), [y.name]), names)
    *rows, (_, (result, most)) = slots(commands, names, y.name)
    table = np.array([row for _, row in rows], np.int32)
    n = math.prod(y.shape)
    tile = min(n, TILES.get(c.objective, 256))
    c.source("stackchip_model.c", f"int stackchip_commands = {len(rows)};\n")
    c.attach(f"data/stackchip/region_{region.index}.txt", f"{table.tolist()}\n".encode())
    operands = (region.inputs[0], region.inputs[-1])
    stream = c.const(table, "commands", align=ALIGN, section=".stackchip")
    memory = c.scratch(4 * tile * most, "slots", align=ALIGN)
    params = c.params(n=n, tile=tile, commands=len(rows), operands=len(names), result=result)
    c.call("stackchip_run", y, *operands, stream, memory, params, status=True)
