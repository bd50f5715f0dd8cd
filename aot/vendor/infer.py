# SPDX-License-Identifier: Apache-2.0
"""A pattern's own shape inference as the rule the loader applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.partition.match import NodeRef, ValueRef
from aot.vendor.backend import Pattern

if TYPE_CHECKING:
    import onnx_ir as ir

    from aot.shapes.contrib import Rule, Type


def rule_of(pattern: Pattern) -> Rule:
    """The rule that asks `pattern` for the types of a node's outputs."""

    def rule(node: ir.Node, types: list[Type | None]) -> list[Type]:
        inputs = tuple(None if v is None else ValueRef(v) for v in node.inputs)
        assert pattern.inference is not None
        return [(d.onnx, tuple(s)) for s, d in pattern.inference(NodeRef(node), inputs)]

    return rule
