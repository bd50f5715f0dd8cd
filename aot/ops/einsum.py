# SPDX-License-Identifier: Apache-2.0
"""Einsum: one general contraction kernel over strides."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator
from dataclasses import dataclass

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, F64
from aot.ir.graph_nodes import attribute
from aot.ir.operators import Exact
from aot.ops.registry import op
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, meet
from aot.shapes.dynamic.products import APART
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.operands import operand_shape, operands_fit
from aot.shapes.partial_values import PartialValues
from aot.vendor import Case, Match, Recorder, UnsupportedError, ValueRef, case, f32
from aot.vendor.strided_copy import padded, strides

einsum = op("Einsum", "xs*", traits=[Exact(rounds_once=True)], equation="")


@dataclass(frozen=True, slots=True)
class Contraction:
    """Labels of every operand (one character per axis), of the result, and sizes by label."""

    operands: tuple[str, ...]
    result: str
    extents: dict[str, int]

    @property
    def summed(self) -> str:
        """Labels that the result lacks, in order of appearance."""
        return "".join(c for c in dict.fromkeys("".join(self.operands)) if c not in self.result)


def parse(equation: str, shapes: list[tuple[int, ...]]) -> Contraction:
    """The contraction an equation describes; an ellipsis becomes labels of its own.

    Raises UnsupportedError if it does not fit the shapes.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise UnsupportedError(f"equation {equation!r} has {len(terms)} terms for {len(shapes)}")
    # The axes of an ellipsis have no labels, so they get letters that the equation leaves free.
    free = [c for c in string.ascii_letters if c not in equation]
    spare = [len(s) - len(t.replace("...", "")) for t, s in zip(terms, shapes, strict=True)]
    dots = "".join(free[: max([n for t, n in zip(terms, spare, strict=True) if "..." in t] or [0])])
    expanded = [
        t.replace("...", dots[len(dots) - n :]) if n > 0 or "..." in t else t
        for t, n in zip(terms, spare, strict=True)
    ]
    extents: dict[str, int] = {}
    for term, shape in zip(expanded, shapes, strict=True):
        if len(term) != len(shape):
            raise UnsupportedError(
                f"term {term!r} of {equation!r} does not fit the shape {list(shape)}"
            )
        for label, extent in zip(term, shape, strict=True):
            known = extents.setdefault(label, extent)
            if known == 1:
                extents[label] = extent
            elif extent not in (1, known):
                raise UnsupportedError(f"label {label!r} of {equation!r} is {known} and {extent}")
    if arrow:
        result = right.replace("...", dots)
    else:
        # ONNX: without an arrow the result has the labels that occur once, in alphabetical order.
        joined = "".join(expanded)
        result = dots + "".join(c for c in sorted(set(joined) - set(dots)) if joined.count(c) == 1)
    return Contraction(tuple(expanded), result, extents)


def steps(term: str, shape: tuple[int, ...], labels: str) -> list[int]:
    """For each label of `labels`, how many elements apart its neighbours lie in a row-major
    operand.

    The axes of the operand, whose sizes are `shape`, have the labels `term`, one character each. A
    step is 0 where the operand lacks the label or its axis has size 1, as that repeats the element;
    for a label that `term` repeats it is the sum of its strides, which walks the diagonal.
    """
    own = strides(shape)
    return [
        sum(s for t, s, n in zip(term, own, shape, strict=True) if t == label and n > 1)
        for label in labels
    ]


@einsum.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the equation fits the operands and that the kernel has enough loops."""
    yield m.y.dtype in (F32, F64), f"dtype {m.y.dtype} (needs float32 or float64)"
    yield len(m.xs) <= 3, f"{len(m.xs)} operands (at most 3)"
    yield all(0 not in x.shape for x in m.xs), "an empty operand"
    try:
        found = parse(m.equation, [x.shape for x in m.xs])
    except UnsupportedError as error:
        yield False, error.what
        return
    extents = tuple(found.extents[label] for label in found.result)
    yield extents == m.y.shape, f"a result of {list(extents)}, inferred as {list(m.y.shape)}"
    yield len(found.result) <= 8, f"{len(found.result)} axes of the result (at most 8)"
    yield len(found.summed) <= 8, f"{len(found.summed)} summed axes (at most 8)"


@einsum.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_einsum: loops over the labels of the result, inside them loops over the summed
    labels."""
    found = parse(m.equation, [x.shape for x in m.xs])
    fields: dict[str, tuple[int, ...]] = {}
    for suffix, labels, name in (("o", found.result, "outer"), ("i", found.summed, "inner")):
        fields[name] = padded([found.extents[label] for label in labels], 1)
        for i, letter in enumerate("abc"):
            own = steps(found.operands[i], m.xs[i].shape, labels) if i < len(m.xs) else []
            fields[f"{letter}_{suffix}"] = padded(own, 0)
    # The kernel has three operands; OPS says how many of them count.
    operands: list[ValueRef | None] = [*m.xs, *[None] * (3 - len(m.xs))]
    c.call(
        f"aot_einsum_{m.y.dtype.short}",
        m.y,
        *operands,
        c.params(**fields),
        instance={"OPS": len(m.xs)},
        macs=math.prod(found.extents.values()) if len(m.xs) > 1 else 0,
        header="aot_einsum.h",
    )


@einsum.cases
def cases() -> Iterator[Case]:
    """Einsum(inputs) by equations of one, two and three operands."""
    yield case(f32(3, 4), f32(4, 5), equation="ij,jk->ik")
    yield case(f32(2, 3, 4), f32(2, 5, 4), equation="bij, bkj -> bik")
    yield case(f32(2, 3, 4), f32(4, 5), equation="...j,jk->...k")
    yield case(f32(4, 4), equation="ii->i")
    yield case(f32(3, 4), equation="ij->ji")
    yield case(f32(3, 4), f32(3, 4), equation="ij,ij")
    yield case(f32(2, 3), f32(3, 4), f32(4, 5), equation="ab,bc,cd->ad")


@dynamic("Einsum")
def einsum_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Einsum with dynamic dimensions: padding is 0 along labels that are summed, others pass.

    A label that several operands have is one size, and their padding is cut to the least upper
    bound. Refused: an ellipsis, a label that is dynamic in one operand and known in another, and
    sizes that may differ.
    """
    text = str(attribute(node, "equation", "")).replace(" ", "")
    if "." in text:
        raise refused(node, "has an ellipsis over a dimension known at run time only")
    terms, arrow, result = text.partition("->")
    labels = terms.split(",")
    if not arrow:
        every = "".join(labels)
        result = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    found: Axes = {}
    order = sorted(set(terms) - {","})
    static: set[str] = set()
    places: dict[int, dict[int, int]] = {}
    for index, own in enumerate(labels):
        value = needed(node, index)
        places[index] = {}
        for axis, label in enumerate(own):
            n = x.run_sizes(value).get(axis)
            if n is None:
                static.add(label)
                continue
            meet(x, node, found, order.index(label), n, APART)
            places[index][axis] = order.index(label)
    if any(order[p] in static for p in found):
        raise refused(node, "multiplies a dimension known at run time by a known one")
    for index, own in enumerate(labels):
        value = needed(node, index)
        # A sum would add what the padding holds.
        summed = [a for a in x.run_sizes(value) if own[a] not in result]
        if summed:
            node.replace_input_with(index, x.neutral(node, value, 0, summed))
    fit_inputs(x, node, places)
    ends = {i: order.index(label) for i, label in enumerate(result)}
    pass_on(x, node, {i: found[place] for i, place in ends.items() if place in found})


@operands_fit("Einsum")
def einsum_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why a letter that an operand has twice stands for two sizes; "" if none does."""
    terms = str(attribute(node, "equation", "")).replace(" ", "").split("->")[0].split(",")
    for i, term in enumerate(terms):
        shape = operand_shape(node, i)
        if shape is None or "..." in term or len(term) != len(shape):
            continue
        for letter in dict.fromkeys(term):
            extents = {n for c, n in zip(term, shape, strict=True) if c == letter}
            if len(extents) > 1:
                return f'"{letter}" of "{term}" is {min(extents)} and {max(extents)}'
    return ""
