# SPDX-License-Identifier: Apache-2.0
"""Attributes resolved once: explicit windows, non-negative axes, no trailing absent inputs.

Before: y = Conv(x, w, "", auto_pad=SAME_UPPER)      After: y = Conv(x, w, kernel_shape=[3, 3],
        z = Softmax(y)                                      strides=[1, 1], pads=[1, 1, 1, 1], …)
                                                            z = Softmax(y, axis=3)
"""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SAME, array, attribute, operand, shape_of
from aot.ir.node_traits import axes_of, axes_operands, kernel_place
from aot.ir.operators import AxisOf, Interface, Window, trait_of
from aot.load.options import LoadOptions

Canonical = Callable[[Editor, "ir.Node"], None]
#: Brings a node's attributes and operands to the one form that patterns see: rules of `aot/ops`.
canonical: Interface[Canonical] = Interface("canonical")


def attributes(edit: Editor, options: LoadOptions) -> None:
    """Bring every node's attributes and optional inputs to canonical form."""
    for node in edit.graph:
        _drop_absent(edit, node)
        for name, axis, index in axes_of(node):
            _axis(edit, node, name, axis, index)
        for index, place in axes_operands(node):
            _axes_operand(edit, node, index, place)
        rule = canonical.of(node)
        if rule is not None:
            rule(edit, node)
        elif trait_of(node, Window) is not None and not node.domain:
            _window(edit, node)


def _drop_absent(edit: Editor, node: ir.Node) -> None:
    """Remove absent operands from the end of a node's inputs."""
    count = len(node.inputs)
    while count and node.inputs[count - 1] is None:
        count -= 1
    if count < len(node.inputs):
        node.resize_inputs(count)
        edit.changed = True


def rank_of(node: ir.Node) -> int:
    """Axes of operand 0."""
    return len(shape_of(operand(node, 0)))


def _axis(edit: Editor, node: ir.Node, name: str, rule: AxisOf, index: int) -> None:
    """Write the attribute `name` of `node` as a number from 0 to rank - 1 of input `index`."""
    axis, value = attribute(node, name, rule.default), node.inputs[index]
    if axis is not None and value is not None and (name in node.attributes or not rule.idle):
        rank = len(shape_of(value))
        edit.set_attribute(node, name, int(axis) + (rank if int(axis) < 0 else 0))


def _axes_operand(edit: Editor, node: ir.Node, index: int, place: int) -> None:
    """Operand `index` lists axes of operand `place`: negative ones are counted from the front."""
    axes, value = array(node.inputs[index]), node.inputs[place]
    if axes is not None and value is not None and axes.size and axes.min() < 0:
        rank = len(shape_of(value))
        fixed = [int(a) + rank if a < 0 else int(a) for a in axes.ravel()]
        edit.set_input(node, index, edit.ints(fixed, f"{node.name}_axes"))


def _window(edit: Editor, node: ir.Node) -> None:
    """Write all attributes of a window; auto_pad becomes pads (begins, then ends)."""
    kernel = [int(k) for k in attribute(node, "kernel_shape") or _kernel(node)]
    rank = len(kernel)
    strides = [int(s) for s in attribute(node, "strides") or [1] * rank]
    dilations = [int(d) for d in attribute(node, "dilations") or [1] * rank]
    pads = [int(p) for p in attribute(node, "pads") or [0] * (2 * rank)]
    auto = str(attribute(node, "auto_pad", "NOTSET"))
    if auto in SAME:
        # SAME pads depend on the size of the input, which is known here.
        sizes = shape_of(operand(node, 0))[2:]
        pads = same_pads(sizes, kernel, strides, dilations, upper=auto == "SAME_UPPER")
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    edit.drop_attribute(node, "auto_pad")
    for name, value in (
        ("kernel_shape", kernel),
        ("strides", strides),
        ("dilations", dilations),
        ("pads", pads),
    ):
        edit.set_attribute(node, name, value)
    # A window with a kernel operand is a convolution, which has groups; a pool has none.
    if kernel_place(node) is not None:
        edit.set_attribute(node, "group", int(attribute(node, "group", 1)))


def _kernel(node: ir.Node) -> list[int]:
    """The sizes of a kernel in space, from the shape of the weights."""
    place = kernel_place(node)
    weights = None if place is None else node.inputs[place]
    assert weights is not None
    return list(shape_of(weights)[2:])


def same_pads(
    sizes: tuple[int, ...], kernel: list[int], strides: list[int], dilations: list[int], upper: bool
) -> list[int]:
    """ONNX pads (begins, then ends) that make the output ceil(size / stride)."""
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        begins.append(small if upper else total - small)
        ends.append(total - small if upper else small)
    return begins + ends
