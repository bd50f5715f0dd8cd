# SPDX-License-Identifier: Apache-2.0
"""Questions that several passes ask about the traits of a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.ir.deferred_import import ir, onnx
from aot.ir.operators import (
    AxesOf,
    AxisOf,
    Linear,
    Moves,
    ShapeOf,
    T,
    View,
    operand_names,
    operator_named,
    operator_of,
    trait_of,
)
from aot.ir.value_traits import Clamp, Converts, Dequantises, Quantises


def adds_bias(node: ir.Node) -> bool:
    """Whether a node is a product that may have a bias among its operands."""
    trait = trait_of(node, Linear)
    return trait is not None and bool(trait.bias)


def is_product(node: ir.Node) -> bool:
    """Whether a node is linear in data and in weights."""
    return trait_of(node, Linear) is not None


def stored_as_given(weights: ir.Value) -> bool:
    """Whether a constant has readers that are no products, or products by it and by its transpose.

    Products then read it in the one order in which the others do.
    """
    orders = set()
    for use in weights.uses():
        trait, names = trait_of(use.node, Linear), operand_names(use.node)
        if trait is None or names[use.idx] != trait.weights:
            return True
        orders.add(trait.channels_of(use.node) % len(weights.shape or (0, 0)))
    return len(orders) > 1


def is_view(node: ir.Node) -> bool:
    """Whether a node only gives the elements of its first input another shape."""
    trait = trait_of(node, View)
    return trait is not None and not trait.part and views_memory(node)


def views_memory(node: ir.Node) -> bool:
    """Whether the result of a node is a run of elements of its first input, in their order."""
    trait = trait_of(node, View)
    return trait is not None and (trait.when is None or trait.when(node))


def moves_no_byte(nodes: Sequence[ir.Node]) -> bool:
    """Whether one node alone is given, a view of its first input for which it needs no other node.

    No backend computes such a node.
    """
    return (
        len(nodes) == 1
        and all(v is None or v.producer() is None for v in nodes[0].inputs[1:])
        and views_memory(nodes[0])
    )


def clamp_bounds(node: ir.Node) -> list[float | ir.Value | None] | None:
    """The bounds of a clamp, low and high: numbers, or inputs (None: absent); None for others."""
    trait = trait_of(node, Clamp)
    if trait is None:
        return None
    given = dict(zip(operand_names(node), node.inputs, strict=True))
    return [b if isinstance(b, float) else given.get(b) for b in (trait.low, trait.high)]


def axes_of(node: ir.Node) -> Iterator[tuple[str, AxisOf, int]]:
    """Yield (attribute, its rule, input whose axes it counts) for attributes of the node that are
    axes.
    """
    found = operator_of(node)
    if found is not None:
        names = found.names(len(node.inputs))
        for name, rule in found.attributes.items():
            if not isinstance(rule, AxisOf):
                continue
            if rule.operand in names and node.inputs[names.index(rule.operand)] is not None:
                yield name, rule, names.index(rule.operand)


def required_results(node: ir.Node) -> int | None:
    """How many results the operator always has; None unless others are optional."""
    found = operator_of(node)
    count = 0 if found is None else sum(not r.endswith("?") for r in found.results)
    return None if found is None or count == len(found.results) else count


def axes_operands(node: ir.Node) -> Iterator[tuple[int, int]]:
    """Operands of the node that list axes, each with the operand whose axes these are."""
    trait, names = trait_of(node, AxesOf), operand_names(node)
    if trait is not None and trait.lists in names:
        yield names.index(trait.lists), names.index(trait.data)


def kernel_place(node: ir.Node) -> int | None:
    """The input whose window `kernel_shape` repeats (`ShapeOf`); None if there is none."""
    found = operator_of(node)
    rule = None if found is None else found.attributes.get("kernel_shape")
    names, name = operand_names(node), rule.operand if isinstance(rule, ShapeOf) else ""
    return names.index(name) if name in names else None


def trait_named(name: str, kind: type[T], domain: str = "") -> T | None:
    """The trait that the operator of a name has, None if it has none of this kind."""
    found = operator_named(name, domain)
    return None if found is None else found.trait(kind)


def converts(op_type: str) -> bool:
    """Whether an operator only makes quantised values of numbers, or numbers of those."""
    return any(trait_named(op_type, kind) is not None for kind in (Quantises, Dequantises))


def proto_trait(node: onnx.NodeProto, kind: type[T]) -> T | None:
    """The trait of this kind that the operator of a node has."""
    return trait_named(node.op_type, kind, node.domain)


def proto_operands(node: onnx.NodeProto, names: str) -> list[str]:
    """The values of a node's operands `names` ("" = all)."""
    record = operator_named(node.op_type, node.domain)
    known = record.names(len(node.input)) if record else ()
    pairs = zip(known, node.input, strict=False)
    return [value for name, value in pairs if value and name in (names.split() or known)]


def moved_operands(node: onnx.NodeProto) -> list[str]:
    """The values whose elements the node puts elsewhere, or gives another type."""
    if proto_trait(node, Converts) is not None:
        return list(node.input[:1])
    trait = proto_trait(node, Moves)
    return proto_operands(node, trait.operands) if trait is not None and trait.by == "place" else []
