# SPDX-License-Identifier: Apache-2.0
"""Numbers of a window or of a border that nothing can be computed with.

onnx's inference cuts or wraps what is too large, and takes `kernel_shape` for the weights'.
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, original_name, static_shape
from aot.ir.node_traits import kernel_place
from aot.ir.operators import operand_names
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import PartialValues, lookup

#: Attributes that count elements along axes, of convolutions, pools and borders.
COUNTS = ("kernel_shape", "strides", "dilations", "pads", "output_padding", "output_shape")


def geometry_problem(node: ir.Node, partial_values: PartialValues) -> tuple[str, str]:
    """(reason, hint) why a node's window or border cannot be; ("", "") if nothing is found."""
    if node.domain not in ("", "com.microsoft"):
        return "", ""
    for name, values in counts(node, partial_values):
        for value in values:
            if abs(value) > MAX_ELEMENTS:
                what = f"{name} {_text(values)}: {value} is beyond {MAX_ELEMENTS}"
                return what, "no tensor has that many elements: the file may be damaged"
    return _window(node)


def counts(node: ir.Node, partial_values: PartialValues) -> list[tuple[str, list[int]]]:
    """(name, numbers) of the attributes of a node that count elements; `pads` of Pad is an
    operand.
    """
    found = [(n, attribute(node, n)) for n in COUNTS if n in node.attributes]
    names = operand_names(node)
    known = lookup(node.inputs[names.index("pads")], partial_values) if "pads" in names else None
    if known is not None and known.full:
        found.append(("pads", known.data.ravel().tolist()))
    return [
        (n, [int(v) for v in values]) for n, values in found if isinstance(values, list | tuple)
    ]


def counts_text(node: ir.Node, partial_values: PartialValues) -> str:
    """The same for a message: `pads [1, 1, 1, 1], strides [2, 2]`."""
    return ", ".join(f"{n} {_text(v)}" for n, v in counts(node, partial_values))


def _text(values: list[int]) -> str:
    """A list of at most eight numbers, then how many more there are."""
    more = f", … {len(values) - 8} more" if len(values) > 8 else ""
    return f"[{', '.join(map(str, values[:8]))}{more}]"


def _window(node: ir.Node) -> tuple[str, str]:
    """(reason, hint) if `kernel_shape` is another window than the shape of the weights says."""
    place = kernel_place(node)
    kernel = attribute(node, "kernel_shape")
    if node.domain or not place or kernel is None or place >= len(node.inputs):
        return "", ""
    weights = node.inputs[place]
    shape = None if weights is None else static_shape(weights)
    if weights is None or shape is None or list(kernel) == list(shape[2:]):
        return "", ""
    name = original_name(weights)
    said, is_ = _text(list(kernel)), _text(list(shape[2:]))
    what = f'kernel_shape {said} is not the window {is_} of the weights "{name}"'
    return f"{what} {_text(list(shape))}", "leave kernel_shape out: the weights say it"
