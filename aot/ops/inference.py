# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel: other stages rewrite them, and rely on what is said here."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import attribute, dtype_of, shape_of
from aot.ir.operators import AxisOf, DataSized, Exact, operator
from aot.normalise.decompose import Body, decompose
from aot.shapes.cures import Role, Sizing, always, as_data, sizings

COUNTS = DataSized(counts=True)

operator("Compress", "x condition", traits=[Exact(), COUNTS], axis=AxisOf("x"))
operator("NonMaxSuppression", "boxes scores most? iou? threshold?", traits=[COUNTS])
operator("NonZero", "x", traits=[Exact(), COUNTS])
operator("StringSplit", "x", traits=[COUNTS])
operator("Tokenizer", "x", domain="com.microsoft", traits=[COUNTS])
# onnx.reference always sorts where only the values are asked for.
_SORTED = Exact(when=lambda node, _: bool(attribute(node, "sorted", 1)))
operator("Unique", "x", traits=[_SORTED, COUNTS])
for _name, _operands in (
    ("CenterCropPad", "x shape"),
    ("EyeLike", "x"),
    ("MelWeightMatrix", "bins length rate low high"),
    ("StringConcat", "a b"),
):
    operator(_name, _operands, traits=[Exact()])


for _name in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    operator(_name, "size", traits=[Exact(), DataSized()])
sizings("BlackmanWindow HammingWindow HannWindow")(Sizing(data=0, examples={0: always(8)}))


def grid_example(role: Role, count: int) -> list[int]:
    """An example of a grid's size: the input's samples, one channel, eight points along
    each axis.
    """
    return [1] * count if role.data is None else [role.data[0], 1, *[8] * (count - 2)]


sizings("AffineGrid")(Sizing(examples={1: grid_example}))
sizings("CenterCropPad")(Sizing(examples={1: as_data}))
sizings("MelWeightMatrix")(
    Sizing(
        data=0,
        real=True,
        examples={k: always(v) for k, v in enumerate((4, 16, 8000, 0, 4000))},
    )
)


@decompose("EyeLike")
def _eye_like(b: Body) -> bool:
    """Decompose EyeLike: a constant with ones on diagonal k, cast to the result's type."""
    value = b.node.outputs[0]
    rows, columns = shape_of(value)
    ones = np.eye(rows, columns, int(attribute(b.node, "k", 0)), np.float32)
    b.add("Cast", b.data(ones), out="o0", to=int(dtype_of(value)))
    return True
