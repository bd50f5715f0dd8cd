# SPDX-License-Identifier: Apache-2.0
"""Which inputs of a graph the user gives: older models list their constants among them."""

from __future__ import annotations

from aot.ir.deferred_import import onnx


def user_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that are not merely initialisers in disguise."""
    constants = {i.name for i in graph.initializer}
    constants |= {s.values.name for s in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in constants]
