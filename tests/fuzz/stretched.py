# SPDX-License-Identifier: Apache-2.0
"""Groups of nodes in which one operand has another shape than the group was written for.

A fused pattern that takes a shape for granted (of a sum: the product's; of a scale: the channels')
is right in its own cases and wrong, or out of bounds, in these.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from aot.ops.registry import load_all
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case
from aot.vendor.find import bundled, find_backend
from fuzz.draft import Draft, Reject
from fuzz.families import family
from fuzz.special import adopt_case

Array = np.ndarray[Any, Any]

#: Operators that repeat the smaller of their operands.
JOINS = set(
    "Add Sub Mul Div Pow Mod Max Min Mean Sum Where PRelu MatMul And Or Xor Equal Greater "
    "Less".split()
)
#: Operators between an operand and where it is joined that keep its shape.
KEEPS = set("QuantizeLinear DequantizeLinear Cast Relu Sigmoid Clip Neg Identity".split())


@cache
def groups() -> list[tuple[Pattern, Case]]:
    """Every declared case of several nodes, of all backends."""
    vendors = [find_backend(name) for name in bundled() if name != "template"]
    patterns = [p for b in (load_all(), *vendors) for p in b.patterns if p.size > 1]
    return [(p, one) for p in patterns for one in p.all_cases()]


@family(2)
def stretched(d: Draft) -> None:
    """A declared group, one or two of its operands larger or smaller."""
    pattern, one = d.one(*groups())
    found = joined(pattern, one)
    if not found:
        raise Reject
    arrays = list(one.inputs)
    for _ in range(d.one(1, 1, 2)):
        k = d.one(*found)
        arrays[k] = another(d, arrays[k])
    const = tuple(i for i in one.const if i not in found or d.chance(0.5))
    changed = replace(one, inputs=tuple(arrays), const=const, expected=())
    adopt_case(d, pattern, changed, loosely=True)


def joined(pattern: Pattern, one: Case) -> list[int]:
    """Which of a case's inputs reach an operator that repeats operands."""
    from harness import model_of

    nodes = model_of(pattern.graph, one).graph.node
    return [
        i
        for i, a in enumerate(one.inputs)
        if a is not None and a.dtype.kind not in "OSU" and is_joined(nodes, f"x{i}")
    ]


def is_joined(nodes: Any, name: str) -> bool:
    """Whether a value is an operand of such an operator, perhaps after some that keep shapes."""
    for n in nodes:
        if name in n.input and n.op_type in JOINS:
            return True
        if name == n.input[0] and n.op_type in KEEPS and is_joined(nodes, n.output[0]):
            return True
    return False


def another(d: Draft, a: Array | None) -> Array:
    """Elements of an array in another shape that goes with what the array's goes with, mostly."""
    if a is None or not a.size:
        raise Reject
    shape = list(a.shape)
    draw = d.rng.random()
    if draw < 0.3 and len(shape) < 5:
        shape = [d.upto(1, 2), *shape]
    elif draw < 0.6:
        shape = [d.upto(2, 3) if n == 1 and d.chance(0.7) else n for n in shape]
    elif draw < 0.9:
        shape = [1 if d.chance(0.5) else n for n in shape]
    else:
        shape = shape[d.upto(0, len(shape)) :]
    return np.asarray(np.resize(a, shape))
