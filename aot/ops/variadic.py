# SPDX-License-Identifier: Apache-2.0
"""Min, Max, Sum and Mean of any number of tensors: a chain of steps on two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, reduce

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, shape_of
from aot.ir.operators import Commutative, Elementwise, Exact, Given, Moves, Trait
from aot.ir.splits import Split
from aot.ir.value_traits import Curve
from aot.normalise.arithmetic import in_pairs, plainer
from aot.normalise.clips import one_sided
from aot.normalise.identities import alone, identity
from aot.ops.binary import combine
from aot.ops.broadcast import Operand, operand, stored
from aot.ops.kernels import FLOATS, NUMBERS, header_of, listing
from aot.ops.registry import op
from aot.ops.unary import HEADER, SPECIAL, edges
from aot.shapes.evaluate import elementwise, evaluates
from aot.shapes.interval_analysis import bounds, corners, in_steps, rising, wrapping
from aot.shapes.symbolic import Poly, Rule as TermsRule, Terms, add as plus, combined, polynomials
from aot.vendor import F32, Case, Match, Recorder, case, f32
from aot.vendor.layouts import follow


def chain(c: Recorder, m: Match, kernel: str, scale: float | None = None) -> None:
    """Record y = x0 ∘ x1 ∘ … by calls of `kernel` on two, then a product with `scale` (None: none).

    Temporaries have the broadcast shape of the operands so far.
    """
    so_far: Operand = operand(c, m.xs[0], m.y)
    for i, x in enumerate(m.xs[1:]):
        own = operand(c, x, m.y)
        last = i == len(m.xs) - 2 and scale is None
        # Operands so far may have fewer elements than the result, so temporaries stay small.
        shape = stored(m.y) if last else tuple(np.broadcast_shapes(so_far[1], own[1]))
        result = m.y if last else c.temp(shape, m.y.dtype)
        combine(c, kernel, m.y.dtype, result, shape, [so_far, own])
        so_far = (result, shape)
    if scale is None:
        return
    kind = np.float32 if m.y.dtype is F32 else np.float64
    params = c.params(n=math.prod(stored(m.y)), a=float(kind(scale)), b=0.0, c=0.0)
    c.call(
        f"aot_affine_{m.y.dtype.short}",
        m.y,
        so_far[0],
        params,
        header=header_of("affine", m.y.dtype, HEADER, c.accuracy),
        inplace=[(m.y, so_far[0])],
        splits=Split.elements(math.prod(stored(m.y)), *[m.y.dtype.nbytes] * 2),
    )


def chained(function: Callable[[Array, Array], Array], *operands: Array) -> Array:
    """`function` of the result so far and the next operand, for all operands in order."""
    return reduce(function, operands)


def extreme(name: str, least: bool) -> TermsRule:
    """The polynomials of the smaller (`least`) or larger of two values.

    It is one of them where intervals say which, else an unknown called `name`.
    """

    def rule(terms: Terms, node: ir.Node) -> list[Poly] | None:
        """The polynomials by element; None for more than two operands or unknown ones."""
        parts = terms.operands(node)
        shape = shape_of(node.outputs[0])
        limits = [terms.limits(v, shape) for v in node.inputs]
        if parts is None or len(parts) != 2 or None in limits:
            return parts[0] if parts is not None and len(parts) == 1 else None
        (low, high), (low2, high2) = (v for v in limits if v is not None)
        found = []
        for i, (a, b) in enumerate(zip(*parts, strict=True)):
            if a == b or (high[i] <= low2[i] if least else low[i] >= high2[i]):
                found.append(a)
            elif high2[i] <= low[i] if least else low2[i] >= high[i]:
                found.append(b)
            else:
                # min(a, b) and min(b, a) are one unknown.
                found.append(terms.atom(name, *sorted((a, b))))
        return found

    return rule


#: Of each operator its kernel and what passes ask of it.
CHAINS: dict[str, tuple[str, tuple[Given, ...]]] = {
    "Min": (
        "min",
        (
            evaluates.by(elementwise(partial(chained, np.minimum))),
            bounds.by(rising(partial(chained, np.minimum))),
            polynomials.by(extreme("min", True)),
            plainer.by(in_pairs("Min", 3)),
            one_sided.by(1),
        ),
    ),
    "Max": (
        "max",
        (
            evaluates.by(elementwise(partial(chained, np.maximum))),
            bounds.by(rising(partial(chained, np.maximum))),
            polynomials.by(extreme("max", False)),
            plainer.by(in_pairs("Max", 3)),
            one_sided.by(0),
        ),
    ),
    "Sum": (
        "add",
        (
            evaluates.by(elementwise(partial(chained, np.add))),
            bounds.by(wrapping(in_steps(corners(np.add)))),
            polynomials.by(combined(plus)),
            plainer.by(in_pairs("Add", 2)),
        ),
    ),
    "Mean": (
        "add",
        (bounds.by(wrapping(in_steps(corners(np.add), lambda node: len(node.inputs)))),),
    ),
}

for _name, (_kernel, _rules) in CHAINS.items():
    _more: list[Trait] = [Exact(rounds_once=True)]
    if _name in ("Min", "Max"):
        _more = [Moves(by="order", bytes_only=True), Curve()]
    _made = op(
        _name,
        "xs*",
        traits=[Elementwise(), Commutative(), *_more],
        rules=[identity.by(alone), *_rules],
        layouts=follow,
    )
    _types = NUMBERS if _name in ("Min", "Max") else FLOATS

    @_made.check
    def known_types(m: Match, types: tuple[object, ...] = _types) -> Iterator[tuple[bool, str]]:
        """Checks that every operand has one of the types."""
        for x in m.xs:
            yield x.dtype in types, f"dtype {x.dtype} (needs {listing(types)})"  # type: ignore[arg-type]

    @_made.lower
    def to_chain(c: Recorder, m: Match, name: str = _name, kernel: str = _kernel) -> None:
        """Record a copy of one operand, or the chain of steps; a Mean is divided by their
        number.
        """
        if len(m.xs) == 1:
            c.copy(m.y, m.xs[0], math.prod(stored(m.y)) * m.y.dtype.nbytes)
        else:
            chain(c, m, kernel, 1 / len(m.xs) if name == "Mean" else None)

    @_made.cases
    def cases(name: str = _name) -> Iterator[Case]:
        """One, two and three operands: alike, broadcast, special floats."""
        yield case(f32(2, 5, 3), f32(2, 5, 3, seed=1), f32(2, 5, 3, seed=2))
        yield case(f32(2, 9, 3), f32(1), const=(1,))
        yield case(f32(2, 3))
        yield case(f32(2, 3).astype(np.float64), f32(2, 3, seed=1).astype(np.float64))
        yield case(SPECIAL, np.full(1, np.nan, np.float32))
        if name != "Mean":  # onnx.reference sums a mean in place, which does not broadcast
            yield case(f32(2, 1, 3), f32(1, 5, 1), f32(2, 1, 1))
            yield case(np.full(1, 0.5, np.float32), SPECIAL)
        if name in ("Min", "Max"):
            for t in NUMBERS[2:]:
                yield case(edges(t), edges(t)[::-1].copy())
