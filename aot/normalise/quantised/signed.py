# SPDX-License-Identifier: Apache-2.0
"""Unsigned 8-bit quantised values inside the network become signed ones, 128 lower.

Before: q = QuantizeLinear(x, s, 130 uint8); m = MaxPool(q); y = DequantizeLinear(m, s, 130)
After:  q = QuantizeLinear(x, s, 2 int8); m = MaxPool(q); y = DequantizeLinear(m, s, 2)
Values that operators move from one to the other change together. Inputs and outputs of the graph
keep their type behind a DequantizeLinear-QuantizeLinear pair of equal scales. Changed values carry
OFFSET_KEY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import OFFSET_KEY, constant, elements_of, maker_of
from aot.ir.operators import trait_of
from aot.ir.value_traits import Clamp, Compares
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    add_quantise,
    fill_place,
    is_dequantise,
    is_quantise,
    moved_inputs,
    params_of,
    quantiser_after,
)

OFFSET = 128


@dataclass(slots=True)
class Family:
    """Values whose quantised values must change together, and the nodes between them."""

    values: list[ir.Value] = field(default_factory=list)
    constants: list[tuple[ir.Node, int]] = field(default_factory=list)
    pads: list[ir.Node] = field(default_factory=list)
    quantisers: list[ir.Node] = field(default_factory=list)
    dequantisers: list[ir.Node] = field(default_factory=list)
    readers: list[ir.Node] = field(default_factory=list)
    fixed: bool = False

    def params(self) -> Params | None:
        """Parameters some member has."""
        nodes = [*self.dequantisers, *self.quantisers]
        return next((p for p in map(params_of, nodes) if p is not None and p.per_tensor), None)


def quant_signed(edit: Editor, options: LoadOptions) -> None:
    """Change every family of uint8 values that only quantisers and movers make and read."""
    seen: set[int] = set()
    values = [*edit.graph.inputs, *(o for n in edit.graph for o in n.outputs)]
    for value in values:
        if id(value) in seen or not (value is not None and value.dtype == ir.DataType.UINT8):
            continue
        family = _family(edit.graph, value)
        seen.update(id(v) for v in family.values)
        if not family.fixed and _is_worth_it(family):
            _change(edit, family)


def _family(graph: ir.Graph, start: ir.Value) -> Family:
    """All values that nodes which move elements connect with `start`, and the nodes around them.

    The family is fixed if anything else than quantisers and movers makes or reads a value of it.
    """
    family, waiting, seen = Family(), [start], {id(start)}

    def reach(value: ir.Value | None) -> None:
        """Let a value be looked at, once."""
        if value is not None and id(value) not in seen:
            seen.add(id(value))
            waiting.append(value)

    while waiting:
        value = waiting.pop()
        family.values.append(value)
        maker = value.producer()
        if maker is None:
            # A value from outside the graph, or a constant, cannot change its type here.
            family.fixed |= not value.is_graph_input() or value.graph is not graph
        elif is_quantise(maker) and params_of(maker) is not None:
            family.quantisers.append(maker)
        elif not _join(family, maker, reach):
            family.fixed = True
        for use in value.uses():
            node = use.node
            if node.graph is not graph:
                family.fixed = True
            elif is_dequantise(node) and params_of(node) is not None and use.idx == 0:
                family.dequantisers.append(node)
            # Comparisons hold for codes that are all shifted by the same number.
            elif trait_of(node, Compares) is not None:
                continue
            elif use.idx not in (moved_inputs(node) or ()) or not _join(family, node, reach):
                family.fixed = True
    return family


def _join(family: Family, node: ir.Node, reach: Callable[[ir.Value | None], None]) -> bool:
    """Add a node that moves elements, and its neighbours, to `family`; False if it does not move
    any.
    """
    places = moved_inputs(node)
    if places is None:
        return False
    if any(node is n for n in family.readers):
        return True
    family.readers.append(node)
    for place in places:
        # Constants change with the family; they are turned at the end, when it is known to change.
        if constant(node.inputs[place]) is not None:
            family.constants.append((node, place))
        else:
            reach(node.inputs[place])
    reach(node.outputs[0])
    # What pads is shifted, too, so it must be known.
    if (filler := fill_place(node)) is not None:
        value = node.inputs[filler] if len(node.inputs) > filler else None
        family.pads.append(node)
        family.fixed |= value is not None and constant(value) is None
    return True


def _is_worth_it(family: Family) -> bool:
    """Whether the quantised values are inner values of an integer network, not only its
    interface."""
    if family.params() is None:
        return False
    if family.quantisers and family.dequantisers:
        return True
    readers = [u.node for d in family.dequantisers for u in d.outputs[0].uses()]
    if any(quantiser_after(o, bias=True) is not None for n in readers for o in n.outputs):
        return True
    return any(_is_computed(q.inputs[0]) for q in family.quantisers)


def _is_computed(value: ir.Value | None) -> bool:
    """Whether an operator of an integer network made the numbers."""
    node = producer(value)
    if node is not None and trait_of(node, Clamp) is not None:
        node = producer(node.inputs[0])
    return node is not None and any(
        is_dequantise(producer(i)) for i in node.inputs if i is not None
    )


def _change(edit: Editor, family: Family) -> None:
    """Make all values of a family int8, in place: codes and zero points are 128 less."""
    p = family.params()
    assert p is not None
    for value in family.values:
        if value.is_graph_input():
            _enter(edit, value, p)
        else:
            if value.is_graph_output():
                # Types change in place: every maker and reader of a value is in the family.
                _leave(edit, value, p)
            value.type = ir.TensorType(ir.DataType.INT8)
            value.metadata_props[OFFSET_KEY] = str(OFFSET)
    for node in (*family.quantisers, *family.dequantisers):
        _lower(edit, node, 2)
    for node, place in family.constants:
        _lower(edit, node, place)
    for node in family.pads:
        # Without a value Pad fills with 0, which is the code -128 now.
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            _lower(edit, node, 2)
        else:
            zero = np.array(-OFFSET, np.int8)
            edit.set_input(node, 2, edit.const(zero, f"{node.name}_code"))
    edit.changed = True


def _lower(edit: Editor, node: ir.Node, index: int) -> None:
    """Input `index`, constant quantised values, 128 lower."""
    data = elements_of(node.inputs[index])
    lowered = (data.astype(np.int16) - OFFSET).astype(np.int8)
    edit.set_input(node, index, edit.const(lowered, f"{node.name}_{index}_signed"))


def signed(params: Params) -> Params:
    """The parameters of quantised values 128 lower."""
    return Params(params.scale, params.zero - OFFSET, params.axis)


def _enter(edit: Editor, value: ir.Value, params: Params) -> None:
    """Let readers of a graph input read int8 values that are made of it in front of the first of
    them.
    """
    uses = list(value.uses())
    first = next(n for n in edit.graph if any(n is u.node for u in uses))
    numbers = add_dequantise(edit, value, params, before=first)
    kind, lowered = ir.DataType.INT8, signed(params)
    quantised = add_quantise(edit, numbers, lowered, kind, before=first)
    quantised.metadata_props[OFFSET_KEY] = str(OFFSET)
    for use in uses:
        use.node.replace_input_with(use.idx, quantised)


def _leave(edit: Editor, value: ir.Value, params: Params) -> None:
    """The graph output with its own type, computed from the signed quantised values `value` will
    be."""
    uses, maker = list(value.uses()), maker_of(value)
    numbers = add_dequantise(edit, value, params, before=maker)
    quantised = add_quantise(edit, numbers, params, ir.DataType.UINT8, before=maker)
    back, again = maker_of(numbers), maker_of(quantised)
    back.replace_input_with(2, edit.const(signed(params).zero.astype(np.int8), "zero"))
    edit.replace(value, quantised)
    back.replace_input_with(0, value)
    for use in uses:
        use.node.replace_input_with(use.idx, value)
    edit.graph.remove([back, again])
    edit.graph.insert_after(maker, [back, again])
