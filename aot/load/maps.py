# SPDX-License-Identifier: Apache-2.0
"""Maps, which C has none of: the last ZipMap of a classifier goes, others are refused.

Before: z = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(p)      an output z: sequence of maps
After:  z = Identity(p)                                            an output z: float[N, 2]
"""

from __future__ import annotations

from aot.errors import UnsupportedError
from aot.ir.deferred_import import onnx
from aot.load.check import STANDARD_DOMAINS

#: Labels that a note lists before it says how many more there are.
_SHOWN = 8


#: The opset of an Identity in a model that imports none of ONNX's.
_OPSET = 13


def drop_maps(model: onnx.ModelProto) -> list[str]:
    """Let outputs of `model` that a ZipMap makes be the tensors it reads; a note about each.

    UnsupportedError for an input or output that stays a map.
    """
    graph = model.graph
    outputs = {o.name: o for o in graph.output}
    notes = []
    for node in graph.node:
        if (node.domain, node.op_type) != ("ai.onnx.ml", "ZipMap") or len(node.input) != 1:
            continue
        info = outputs.get(node.output[0]) if len(node.output) == 1 else None
        if info is None:
            continue
        labels = ", ".join(_labels(node))
        info.type.Clear()
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        node.domain, node.op_type = "", "Identity"
        del node.attribute[:]
        notes.append(
            f'output "{info.name}" is a tensor instead of a sequence of maps: its columns are the '
            f"classes {labels}"
        )
    if notes and all(o.domain not in STANDARD_DOMAINS for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", _OPSET))
    _refuse_maps(graph)
    return notes


def _labels(node: onnx.NodeProto) -> list[str]:
    """The classes of a ZipMap, the first of many."""
    found: list[str] = []
    for attribute in node.attribute:
        found += [s.decode("utf-8", "replace") for s in attribute.strings]
        found += [str(i) for i in attribute.ints]
    more = len(found) - _SHOWN
    return [*found[:_SHOWN], f"and {more} more"] if more > 0 else found


def _refuse_maps(graph: onnx.GraphProto) -> None:
    """UnsupportedError if an input or output is a map."""
    for what, infos in (("input", graph.input), ("output", graph.output)):
        for info in infos:
            kind = info.type
            many = kind.WhichOneof("value") == "sequence_type"
            if many:
                kind = kind.sequence_type.elem_type
            if kind.WhichOneof("value") == "map_type":
                text = f'{what} "{info.name}" is a {"sequence of maps" if many else "map"}'
                raise UnsupportedError(text, hint="export tensors: C has no maps")
