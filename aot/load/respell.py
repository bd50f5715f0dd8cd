# SPDX-License-Identifier: Apache-2.0
"""Operators that the loader replaces in the file's own form, before any shape is inferred."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir.deferred_import import onnx
from aot.ir.operators import Interface

respells: Interface[Callable[[onnx.ModelProto], onnx.ModelProto]] = Interface("respells")
"""A rule replaces the nodes of its operator in the main graph of a model of the canonical opset. It
may change the model that it is given."""


def respell(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after the rule of every operator that its main graph has."""
    kinds = {(node.domain, node.op_type) for node in model.graph.node}
    for domain, name in sorted(kinds):
        rule = respells.named(name, domain)
        if rule is not None:
            model = rule(model)
    return model
