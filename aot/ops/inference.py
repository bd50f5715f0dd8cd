# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel: other stages rewrite them, and rely on what is said here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import Array, attribute, shape_of
from aot.ir.operators import AxisOf, Exact, operator
from aot.normalise.decompose import decompose
from aot.normalise.decompose_builder import Body

if TYPE_CHECKING:
    import onnx_ir as ir


def _sorts(node: ir.Node, _inputs: Sequence[Array | None]) -> bool:
    """Whether Unique sorts, as onnx.reference does where only the values are asked for."""
    return bool(attribute(node, "sorted", 1))


operator("Compress", "x condition", traits=[Exact()], axis=AxisOf("x"))
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


@decompose("EyeLike")
def _eye_like(b: Body) -> bool:
    """Ones on a diagonal, of a constant shape."""
    value = b.node.outputs[0]
    assert value.dtype is not None
    rows, columns = shape_of(value)
    ones = np.eye(rows, columns, int(attribute(b.node, "k", 0)), np.float32)
    b.add("Cast", b.data(ones), out="o0", to=int(value.dtype))
    return True
