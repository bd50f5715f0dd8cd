# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel: other stages rewrite them, and rely on what is said here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aot.ir.graph_nodes import Array, attribute
from aot.ir.operators import AxisOf, Elementwise, Exact, operator

if TYPE_CHECKING:
    import onnx_ir as ir


def _sorts(node: ir.Node, _inputs: Sequence[Array | None]) -> bool:
    """Whether Unique sorts, as onnx.reference does where only the values are asked for."""
    return bool(attribute(node, "sorted", 1))


operator("Dropout", "x ratio? training?", traits=[Elementwise("x")])
operator("Compress", "x condition", traits=[Exact()], axis=AxisOf("x"))
operator("SplitToSequence", "x sizes?", axis=AxisOf("x", 0))
operator("Unique", "x", traits=[Exact(when=_sorts)])
for _name, _operands in (
    ("BlackmanWindow", "size"),
    ("CenterCropPad", "x shape"),
    ("EyeLike", "x"),
    ("HammingWindow", "size"),
    ("HannWindow", "size"),
    ("MelWeightMatrix", "bins length rate low high"),
    ("NonZero", "x"),
    ("StringConcat", "x y"),
):
    operator(_name, _operands, traits=[Exact()])
