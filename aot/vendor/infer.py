# SPDX-License-Identifier: Apache-2.0
"""A pattern's own shape inference as the rule the loader applies."""

from __future__ import annotations

from aot.errors import AotError, one_line
from aot.ir.deferred_import import ir
from aot.shapes.types import Rule, Type
from aot.vendor.backend import Pattern
from aot.vendor.match import NodeRef, ValueRef


def rule_of(pattern: Pattern) -> Rule:
    """The rule that asks `pattern` for the types of a node's outputs."""

    name = f"{pattern.backend}.{pattern.name}"

    def rule(node: ir.Node, types: list[Type | None]) -> list[Type]:
        """(element type, shape) of each result, as the pattern's shape rule gives them.

        Raises ValueError where the rule of a vendor raises, or gives too few types or a negative
        size.
        """
        inputs = tuple(None if v is None else ValueRef(v) for v in node.inputs)
        assert pattern.inference is not None
        try:
            found = list(pattern.inference(NodeRef(node), inputs))
            given = [(d.onnx, tuple(int(n) for n in s)) for s, d in found]
        except AotError:
            raise
        except Exception as error:
            if pattern.backend == "c":
                raise  # of the model, not of a vendor
            why = f"{type(error).__name__}: {one_line(str(error))}"
            raise ValueError(f"{name}: its shape rule raised {why}") from error
        wrong = next((s for _, s in given if min(s, default=0) < 0), None)
        if wrong is not None or len(given) < sum(bool(v.name) for v in node.outputs):
            what = f"the shape {list(wrong)}" if wrong is not None else f"{len(given)} types"
            raise ValueError(f"{name}: its shape rule gives {what}")
        return given

    return rule
