# SPDX-License-Identifier: Apache-2.0
"""Transposes sink towards the outputs, merge and cancel.

Before: y = Transpose(Relu(Transpose(x, NHWC->NCHW)), NCHW->NHWC)      After: y = Relu(x)
Before: y = Add(Transpose(a, p), Transpose(b, p))      After: y = Transpose(Add(a, b), p)
A Transpose passes elementwise operators, those that compute along an axis, and those that say
beside them how they do on permuted axes (`permute`), where only one of them reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.ir.node_traits import axes_of
from aot.ir.operators import (
    Along,
    Elementwise,
    Interface,
    element_places,
    moved_places,
    operators,
    trait_of,
)
from aot.load.options import LoadOptions
from aot.normalise.form import Form


@dataclass(frozen=True, slots=True)
class Permuted:
    """How a node computes from operands before a Transpose: other inputs and attributes.

    `perm` is the Transpose of its result.
    """

    perm: list[int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[int, ir.Value] = field(default_factory=dict)


Permute = Callable[[Editor, "ir.Node", list[int]], Permuted | None]
#: A node on data before a Transpose by a permutation; None where it cannot be. Other inputs of the
#: node are constants.
permute: Interface[Permute] = Interface("permute")


def along_axis(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted:
    """The rule of operators with axes among their attributes that treat other axes alike."""
    found = {name: int(attribute(node, name, rule.default)) for name, rule, _ in axes_of(node)}
    return Permuted(perm, {name: perm[axis] for name, axis in found.items()})


def _unary() -> tuple[str, ...]:
    """Operators of ONNX that compute each element from one, and have one input."""
    alone = [o for o in operators() if o.trait(Elementwise) and len(o.operands) == 1]
    return tuple(o.name for o in alone if not o.domain and not o.operands[0].endswith("*"))


CLASSES = {"UNARY": _unary}
FORMS = (
    Form("Transpose(Transpose(x))", "Transpose(x)"),
    Form("UNARY(Transpose(x))", "Transpose(UNARY(x))"),
)


def transposes(edit: Editor, options: LoadOptions) -> None:
    """Merge Transposes and let the others sink one step."""
    for node in edit.graph:
        rule = permute.of(node) or (along_axis if trait_of(node, Along) else None)
        if trait_of(node, Elementwise) is not None:
            _elementwise(edit, node)
        elif rule is not None:
            _sink(edit, node, rule)
        elif turns_axes(node):
            _merge(edit, node)


def turns_axes(node: ir.Node) -> bool:
    """Whether a node is a Transpose of ONNX."""
    return node.op_type == "Transpose" and not node.domain


def perm_of(node: ir.Node) -> list[int]:
    """The order of the operand's axes in the result of a Transpose."""
    return [int(p) for p in attribute(node, "perm")]


def _merge(edit: Editor, node: ir.Node) -> None:
    before = producer(node.inputs[0], "Transpose")
    if before is None:
        return
    first, second = perm_of(before), perm_of(node)
    edit.set_attribute(node, "perm", [first[p] for p in second])
    edit.set_input(node, 0, before.inputs[0])


def _sinking(value: ir.Value | None, reader: ir.Node) -> ir.Node | None:
    """The Transpose that computes `value` for `reader` alone."""
    node = producer(value, "Transpose")
    if node is None or any(u.node is not reader for u in node.outputs[0].uses()):
        return None
    return None if node.outputs[0].is_graph_output() else node


def _before(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """The shape before a Transpose by `perm` that gives `shape`."""
    result = [0] * len(shape)
    for place, axis in enumerate(perm):
        result[axis] = shape[place]
    return tuple(result)


def _after(
    edit: Editor, node: ir.Node, inputs: list[ir.Value | None], perm: list[int], attributes: Any
) -> None:
    """Replace `node` by itself on untransposed `inputs` and a Transpose."""
    result = node.outputs[0]
    shape = shape_of(result)
    inner_shape = _before(shape, perm)
    inner = edit.again(node, inputs, attributes, before=node, shape=inner_shape, dtype=result.dtype)
    new = edit.node("Transpose", [inner], {"perm": perm}, before=node, shape=shape)
    edit.substitute(node, new)


def _attributes(node: ir.Node) -> dict[str, Any]:
    return dict(node.attributes.items())


def _elementwise(edit: Editor, node: ir.Node) -> None:
    """Combine the operands before their Transposes, which are alike; constants are transposed."""
    places = element_places(node)
    sinking = {i: _sinking(node.inputs[i], node) for i in places}
    perms = [perm_of(t) for t in sinking.values() if t is not None]
    # All operands must be turned alike, else a Transpose would only change its place.
    if not perms or any(p != perms[0] for p in perms) or len(node.outputs) > 1:
        return
    perm, shape = perms[0], shape_of(node.outputs[0])
    if len(perm) != len(shape):
        return
    inputs = list(node.inputs)
    for index, value in enumerate(node.inputs):
        transpose = sinking.get(index)
        if transpose is not None:
            inputs[index] = transpose.inputs[0]
            continue
        # A variable operand without a Transpose would need one: nothing gained.
        data = array(value)
        if value is not None and data is None:
            return
        if index in places and value is not None and data is not None and data.size != 1:
            # A constant of lower rank gains leading axes of 1, because the permutation counts from
            # the front.
            padded = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
            inverse = np.argsort(perm)
            inputs[index] = edit.const(padded.transpose(inverse), f"{node.name}_const", value.dtype)
    _after(edit, node, inputs, perm, _attributes(node))


def _sink(edit: Editor, node: ir.Node, rule: Permute) -> None:
    """Compute a node before the Transposes of all its data; its other inputs are constants."""
    places = moved_places(node) or (0,)
    sinking = [_sinking(node.inputs[i], node) for i in places]
    found = [perm_of(t) for t in sinking if t is not None]
    if len(found) < len(sinking) or any(p != found[0] for p in found):
        return
    rest = [v for i, v in enumerate(node.inputs) if i not in places]
    # Other operands say sizes or axes; they must be known to be turned.
    if any(v is not None and array(v) is None for v in rest):
        return
    made = rule(edit, node, found[0])
    if made is None:
        return
    inputs = [made.inputs.get(i, v) for i, v in enumerate(node.inputs)]
    for place, transpose in zip(places, sinking, strict=True):
        assert transpose is not None
        inputs[place] = transpose.inputs[0]
    _after(edit, node, inputs, made.perm, {**_attributes(node), **made.attributes})
