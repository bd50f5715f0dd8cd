# SPDX-License-Identifier: Apache-2.0
"""CategoryMapper of ai.onnx.ml, which is a LabelEncoder from strings to integers, or back."""

from __future__ import annotations

from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import attribute_of
from aot.ir.graph_nodes import attribute
from aot.shapes.infer import respells

INT64, STRING = 7, 8


@respells("CategoryMapper", "ai.onnx.ml")
def as_encoder(node: ir.Node) -> None:
    """Turn a CategoryMapper, in place, into the LabelEncoder it is: strings to integers, or back.

    The direction follows the input's type. Raises ValueError unless there are as many strings as
    integers.
    """

    source = node.inputs[0]
    kind = STRING if source is not None and int(source.dtype or 0) == STRING else INT64
    words, numbers = attribute(node, "cats_strings", None), attribute(node, "cats_int64s", None)
    if not words or not numbers or len(words) != len(numbers):
        raise ValueError("there must be as many strings as integers")
    # The defaults are those of ONNX's schema.
    default_text = attribute(node, "default_string", "_Unused")
    default = int(attribute(node, "default_int64", -1))
    there, back = ("strings", words), ("int64s", numbers)
    made: dict[str, Any] = {"default_int64": default}
    if kind != STRING:
        there, back, made = back, there, {"default_string": default_text}
    made |= {f"keys_{there[0]}": list(there[1]), f"values_{back[0]}": list(back[1])}
    node.op_type = "LabelEncoder"
    node.attributes.clear()
    for name, value in made.items():
        node.attributes.add(attribute_of(name, value))
