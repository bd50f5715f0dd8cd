# SPDX-License-Identifier: Apache-2.0
"""What the parts of shape inference may ask of the sweep that they belong to."""

from __future__ import annotations

from typing import Protocol

from aot.errors import AotError
from aot.ir.deferred_import import ir
from aot.shapes.partial_values import PartialValues


class Inference(Protocol):
    """One inference under way: `aot.shapes.infer.Sweep`.

    `partial_values` holds what is known of the elements of small values, `errors` the errors found
    so far, `max_string` the most bytes of a string.
    """

    partial_values: PartialValues
    errors: list[AotError]
    max_string: int

    def run(self, graph: ir.Graph) -> None:
        """Type the values of `graph`, whose inputs and outer values are typed."""

    def step(self, node: ir.Node) -> None:
        """Type the results of `node`; an error is appended to `errors`."""

    def visit(self, node: ir.Node) -> None:
        """Type, check and evaluate `node`, whose inputs are typed; raises the first AotError."""

    def type_outputs(self, node: ir.Node) -> None:
        """Infer the types of the outputs of `node` that have none; the node is not checked."""
