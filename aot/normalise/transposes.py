# SPDX-License-Identifier: Apache-2.0
"""Transposes sink towards the outputs, merge and cancel.

Before: y = Transpose(Relu(Transpose(x, NHWC->NCHW)), NCHW->NHWC)      After: y = Relu(x)
Before: y = Add(Transpose(a, p), Transpose(b, p))      After: y = Transpose(Add(a, b), p)
A Transpose passes elementwise operators, Concat, Pad, reductions and Softmax where only one of
them reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.ir.operators import Elementwise, element_places, operators, trait_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form

if TYPE_CHECKING:
    import onnx_ir as ir

Sink = Callable[[Editor, "ir.Node", "ir.Node"], None]


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
        if trait_of(node, Elementwise) is not None:
            _elementwise(edit, node)
        elif node.domain:
            continue
        elif node.op_type == "Transpose":
            _merge(edit, node)
        elif node.op_type == "Concat":
            _concat(edit, node)
        elif node.op_type in AXES:
            _with_axes(edit, node)


def _perm(node: ir.Node) -> list[int]:
    return [int(p) for p in attribute(node, "perm")]


def _merge(edit: Editor, node: ir.Node) -> None:
    before = producer(node.inputs[0], "Transpose")
    if before is None:
        return
    first, second = _perm(before), _perm(node)
    edit.set_attribute(node, "perm", [first[p] for p in second])
    edit.set_input(node, 0, before.inputs[0])


def _sinking(value: ir.Value | None, reader: ir.Node) -> ir.Node | None:
    """The Transpose that computes `value` for `reader` alone."""
    node = producer(value, "Transpose")
    if node is None or any(u.node is not reader for u in node.outputs[0].uses()):
        return None
    return None if node.outputs[0].is_graph_output() else node


def _turned(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
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
    inner = edit.node(
        node.op_type,
        inputs,
        attributes,
        before=node,
        shape=_turned(shape, perm),
        dtype=result.dtype,
        domain=node.domain,
    )
    made = inner.producer()
    assert made is not None
    made.name = node.name
    made.metadata_props.update(node.metadata_props)
    new = edit.node("Transpose", [inner], {"perm": perm}, before=node, shape=shape)
    edit.replace(result, new)
    edit.remove(node)


def _attributes(node: ir.Node) -> dict[str, Any]:
    return dict(node.attributes.items())


def _elementwise(edit: Editor, node: ir.Node) -> None:
    """Combine the operands before their Transposes, which are alike; constants are turned back."""
    places = element_places(node)
    turned = {i: _sinking(node.inputs[i], node) for i in places}
    perms = [_perm(t) for t in turned.values() if t is not None]
    if not perms or any(p != perms[0] for p in perms) or len(node.outputs) > 1:
        return
    perm, shape = perms[0], shape_of(node.outputs[0])
    if len(perm) != len(shape):
        return
    inputs = list(node.inputs)
    for index, value in enumerate(node.inputs):
        transpose = turned.get(index)
        if transpose is not None:
            inputs[index] = transpose.inputs[0]
            continue
        data = array(value)
        if value is not None and data is None:
            return
        if index in places and value is not None and data is not None and data.size > 1:
            padded = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
            inverse = np.argsort(perm)
            inputs[index] = edit.const(padded.transpose(inverse), f"{node.name}_const", value.dtype)
    _after(edit, node, inputs, perm, _attributes(node))


def _concat(edit: Editor, node: ir.Node) -> None:
    turned = [_sinking(i, node) for i in node.inputs]
    first = turned[0]
    if first is None or any(t is None or _perm(t) != _perm(first) for t in turned):
        return
    perm = _perm(first)
    inputs = [t.inputs[0] for t in turned if t is not None]
    _after(edit, node, inputs, perm, {"axis": perm[int(attribute(node, "axis"))]})


def _with_axes(edit: Editor, node: ir.Node) -> None:
    before = _sinking(node.inputs[0], node)
    if before is None or any(i is not None and array(i) is None for i in node.inputs[1:]):
        return
    AXES[node.op_type](edit, node, before)


def _axis(edit: Editor, node: ir.Node, before: ir.Node) -> None:
    perm = _perm(before)
    attributes = _attributes(node)
    attributes["axis"] = perm[int(attribute(node, "axis", -1))]
    _after(edit, node, [before.inputs[0]], perm, attributes)


def _pad(edit: Editor, node: ir.Node, before: ir.Node) -> None:
    perm, amounts = _perm(before), array(node.inputs[1])
    if amounts is None or (len(node.inputs) > 3 and node.inputs[3] is not None):
        return
    rank = len(perm)
    turned = np.zeros_like(amounts)
    for place, axis in enumerate(perm):
        turned[axis], turned[axis + rank] = amounts[place], amounts[place + rank]
    inputs = [before.inputs[0], edit.const(turned, f"{node.name}_pads"), *node.inputs[2:]]
    _after(edit, node, inputs, perm, _attributes(node))


def _slice(edit: Editor, node: ir.Node, before: ir.Node) -> None:
    perm, axes = _perm(before), array(node.inputs[3]) if len(node.inputs) > 3 else None
    if axes is None:
        return
    moved = edit.ints([perm[int(a)] for a in axes], f"{node.name}_axes")
    inputs = [before.inputs[0], node.inputs[1], node.inputs[2], moved, *node.inputs[4:]]
    _after(edit, node, inputs, perm, _attributes(node))


def _reduce(edit: Editor, node: ir.Node, before: ir.Node) -> None:
    """Where dimensions are dropped and the rest stay in order, the Transpose is gone."""
    perm, axes = _perm(before), array(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        return
    reduced = sorted(perm[int(a)] for a in axes)
    value = edit.ints(reduced, f"{node.name}_axes")
    inputs = [before.inputs[0], value]
    if attribute(node, "keepdims", 1):
        _after(edit, node, inputs, perm, _attributes(node))
        return
    left = [p for p in perm if p not in reduced]
    _after(edit, node, inputs, [int(i) for i in np.argsort(np.argsort(left))], _attributes(node))


AXES: dict[str, Sink] = {
    "LogSoftmax": _axis,
    "Pad": _pad,
    "ReduceMax": _reduce,
    "ReduceMean": _reduce,
    "ReduceMin": _reduce,
    "ReduceProd": _reduce,
    "ReduceSum": _reduce,
    "Slice": _slice,
    "Softmax": _axis,
}
