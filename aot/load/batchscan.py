# SPDX-License-Identifier: Apache-2.0
"""Scan of opset 8, whose states and sequences have a batch axis, as two Scans of today.

Before: s, y = Scan("", s0, x, body)        s0: [batch, …], x: [batch, steps, …]
After: s, y = Scan(s0, x, body={s1, x1 -> Scan(s1, x1, body)})
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.errors import UnsupportedError
from aot.ir.deferred_import import onnx
from aot.load.check import all_graphs
from aot.load.older import LATER, say_later

DIRECTIONS = "directions"


def spell_batch_scans(model: onnx.ModelProto) -> None:
    """Rewrite every Scan of `model`, all of which are of opset 8, in place.

    Scan of opset 8 runs its body for each element of a batch: it becomes an outer Scan over the
    batch axis, whose body is the Scan of opset 9 over the sequence.
    They have the domain `LATER`: onnx's converter would drop an axis.
    UnsupportedError for sequences that have lengths of their own.
    """
    nodes = [n for g in all_graphs(model.graph) for n in g.node]
    scans = [n for n in nodes if n.op_type == "Scan" and not n.domain]
    for node in reversed(scans):  # what is within others first
        _spell(node)
    if scans:
        say_later(model)


def _spell(node: onnx.NodeProto) -> None:
    """Write a Scan of opset 8, which has a batch axis, in place as a Scan of today over the batch.

    Its body is a Scan over the sequence. UnsupportedError if sequences have lengths.
    """
    held = {a.name: a for a in node.attribute}
    body, scanned = held["body"].g, held["num_scan_inputs"].i
    # Outputs have names that nothing else has, so names made of one are free.
    stem = node.output[0] or node.name
    outside = [n for n in node.input if n]
    if len(outside) != len(body.input):
        what = f"a Scan of opset 8 is given lengths of its sequences ({outside[0]!r})"
        raise UnsupportedError(what, hint="export the model with opset 9 or newer")
    ins = [f"{stem} one {k}" for k in range(len(outside))]
    outs = [f"{stem} of one {k}" for k in range(len(body.output))]
    inner = onnx.helper.make_node(
        "Scan", ins, outs, name=node.name, domain=LATER, num_scan_inputs=scanned
    )
    inner.attribute.add(name="body", type=5).g.CopyFrom(body)
    if DIRECTIONS in held:
        inner.attribute.add(name="scan_input_directions", type=7).ints.extend(held[DIRECTIONS].ints)
    one = onnx.helper.make_graph(
        [inner], f"{stem} one", _infos(ins, body.input), _infos(outs, body.output)
    )
    # Until the whole model is converted its opset means the old Scan: the domain keeps this one
    # apart.
    node.domain = LATER
    del node.input[:], node.attribute[:]
    node.input.extend(outside)
    node.attribute.add(name="num_scan_inputs", type=2, i=len(outside))
    node.attribute.add(name="body", type=5).g.CopyFrom(one)


def _infos(names: Sequence[str], like: Sequence[onnx.ValueInfoProto]) -> list[onnx.ValueInfoProto]:
    """Values of the element types of `like`, of any shape."""
    kinds = [v.type.tensor_type.elem_type for v in like]
    return [
        onnx.helper.make_tensor_value_info(n, k, None) for n, k in zip(names, kinds, strict=True)
    ]
