# SPDX-License-Identifier: Apache-2.0
"""What vendors write in words of their own before nodes are given to backends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aot.errors import BackendError, one_line
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, graphs
from aot.ir.onnx_subprocess import Child, strictly
from aot.load.names import name_everything
from aot.load.options import LoadOptions
from aot.normalise.attributes import attributes
from aot.normalise.dead import unused_constants
from aot.partition.covering import Cover
from aot.shapes.infer import Sweep
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match, ValueRef


@dataclass(frozen=True, slots=True)
class Maker:
    """`op` of a rewrite: `op.Add(m.a, m.b)` makes a node in front of `before`, which `sweep`
    types.
    """

    edit: Editor
    before: ir.Node
    sweep: Sweep

    def __getattr__(self, op_type: str) -> Callable[..., ValueRef]:
        """A function of operands (None: absent) and attributes that makes a node of the operator.

        Its keyword `domain` is the operator's domain.
        """

        def node(*operands: Any, domain: str = "", **given: Any) -> ValueRef:
            """The first result of a new node."""
            inputs = [None if v is None else self.value(v) for v in operands]
            place = {"before": self.before, "domain": domain}
            made = self.edit.node(op_type, inputs, given, shape=(), **place)  # type: ignore[arg-type]
            made.shape = made.type = None
            self.sweep.type_outputs(made.producer())  # type: ignore[arg-type]
            return ValueRef(made)

        return node

    def value(self, operand: Any) -> ir.Value:
        """The value that `operand` refers to, or a constant of this array."""
        if isinstance(operand, ValueRef):
            return operand.ir
        return self.edit.const(np.asarray(operand), f"{self.before.name}_const")


def rewrite_for(
    model: ir.Model, backends: Sequence[Backend], marked_only: Collection[str], options: LoadOptions
) -> None:
    """Replace, in place, what matches `rewrites` of a backend, in the order of the backends.

    Only nodes are replaced that the backend may get: none that one before it takes, or that the
    user gives to another. New nodes are not rewritten again.
    """
    if not any(b.rewrites for b in backends):
        return
    with Child(strictly) as child:
        sweep = Sweep(model, options.rules or {}, options.max_string, child)
        for graph in list(graphs(model)):
            for place, backend in enumerate(backends):
                cover = Cover(graph)
                for earlier in backends[:place] if backend.rewrites else ():
                    cover.match(earlier, earlier.name in marked_only)
                own = replace(backend, patterns=backend.rewrites)
                found = list(cover.candidates(own, backend.name in marked_only))
                _rewrite(Editor(graph), found, sweep)
            attributes(Editor(graph), options)
    unused_constants(model)
    name_everything(model)


def _rewrite(edit: Editor, found: Sequence[tuple[Pattern, Match]], sweep: Sweep) -> None:
    """Replace the matches `found`, where several share a node the first of them.

    BackendError, with the node, if the vendor's function raises or makes something else.
    """
    moved: dict[ir.Value, ir.Value] = {}
    for pattern, match in found:
        nodes = [n.ir for n in match.nodes]
        if any(n.graph is None for n in nodes):
            continue
        # Operands may be results of matches before this one.
        now = {k: v and ValueRef(moved.get(v.ir, v.ir)) for k, v in match.values.items()}
        old, maker = nodes[0].outputs[0], Maker(edit, nodes[0], sweep)
        try:
            new = maker.value(pattern.rewritten(maker, match.with_values(now)))
            if (new.dtype, new.shape) != (old.dtype, old.shape):
                kinds = [f"{v.dtype} {v.shape}" for v in (new, old)]
                raise ValueError(f"its result is {kinds[0]} (needs {kinds[1]})")
            if edit.replace(old, new):
                edit.graph.remove(nodes, safe=True)
        except Exception as error:
            raise BackendError(
                f"{pattern.backend}.{pattern.name}: its rewrite raised {type(error).__name__}: "
                f"{one_line(str(error))}",
                f"node {match.root.onnx_name} ({match.root.op_type})",
                "this is a defect of the backend, not of the model",
            ) from error
        moved[old] = new
