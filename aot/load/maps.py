# SPDX-License-Identifier: Apache-2.0
"""Maps, which C has none of: the last ZipMap of a classifier goes, others are refused.

Before: z = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(p)      an output z: sequence of maps
After:  z = Identity(p)                                            an output z: float[N, 2]
"""

from __future__ import annotations

from collections.abc import Callable

from aot.errors import UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.operators import Interface
from aot.load.check import STANDARD_DOMAINS

maps_of: Interface[Callable[[onnx.NodeProto], list[str]]] = Interface("maps_of")
"""A rule makes a node that maps labels to the columns of its input hand that input on; it returns
the labels."""

#: Labels that a note lists before it says how many more there are.
_SHOWN = 8


#: The opset of an Identity in a model that imports none of ONNX's.
_OPSET = 13


def drop_maps(model: onnx.ModelProto) -> list[str]:
    """Replace, in place, every ZipMap whose result is an output of `model` by an Identity.

    The rule of `maps_of` rewrites the node and returns the class labels. The output's type becomes
    a float32 tensor without a shape, one column per class. An opset of ONNX is imported if the
    model imports none, as Identity needs it. Returned is one note per changed output. Raises
    UnsupportedError if an input or output of the graph is still a map or a sequence of maps.
    """
    graph = model.graph
    outputs = {o.name: o for o in graph.output}
    notes = []
    for node in graph.node:
        rule = maps_of.named(node.op_type, node.domain)
        info = outputs.get(node.output[0]) if len(node.output) == len(node.input) == 1 else None
        if info is None or rule is None:
            continue
        labels = rule(node)
        more = len(labels) - _SHOWN
        # A thousand labels would hide what the note says.
        labels[_SHOWN:] = [f"and {more} more"] if more > 0 else []
        info.type.Clear()
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        notes.append(
            f'output "{info.name}" is a tensor instead of a sequence of maps: its columns are the '
            f"classes {', '.join(labels)}"
        )
    if notes and all(o.domain not in STANDARD_DOMAINS for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", _OPSET))
    _refuse_maps(graph)
    return notes


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
