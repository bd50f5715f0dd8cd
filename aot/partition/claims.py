# SPDX-License-Identifier: Apache-2.0
"""The loader's options: the user's, and what the patterns of the backends ask of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aot.errors import AotError, one_line
from aot.ir.deferred_import import ir
from aot.load.options import PACKED_FLASH, PACKED_LATENCY, LoadOptions
from aot.options import Options
from aot.shapes.types import Rule, Type
from aot.target import load_target
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import NodeRef, ValueRef
from aot.vendor.pattern import all_ops, root_ops
from aot.vendor.pattern_ast import Either, OpPat, Pat, Results


def load_options(
    options: Options, backends: Sequence[Backend], keeps: Sequence[str] = ()
) -> LoadOptions:
    """The options of the loader: sizes and bindings of the user, and what the backends' patterns
    say.

    Patterns say which operators of other domains are known, which rules give shapes, and for which
    nodes a decomposition is not needed (`supports`). `keeps` are names of operators,
    "domain::type", that stay as they are.
    """
    patterns = [p for b in backends for p in (*b.patterns, *b.rewrites)]
    claimed = {f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph) if d}
    rules = {k: rule_of(p) for p in patterns if p.inference for k in root_ops(p.graph)}
    return LoadOptions(
        dims=options.dims,
        input_shapes=options.input_shapes,
        bindings=options.bindings,
        claimed=frozenset(claimed),
        keeps=frozenset(keeps).union(k for b in backends for k in b.keeps),
        # A vendor that keeps an operator whole needs it before decompositions take it apart.
        rules=rules,
        native=frozenset(f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph)),
        supports=supports(patterns),
        max_string=options.max_string,
        max_sequence=options.max_sequence,
        states=options.states,
        wide_halves=_widens(options, backends),
        packed_from=PACKED_FLASH if options.objective == "flash" else PACKED_LATENCY,
    )


def _widens(options: Options, backends: Sequence[Backend]) -> bool:
    """Whether time counts more than memory, results may be closer than asked, and no vendor has
    operators of half precision; the target has vectors.
    """
    fast = options.objective == "latency" and options.ram is None and options.accuracy != "strict"
    return fast and all(b.name == "c" for b in backends) and load_target(options.target).vlen > 1


def supports(patterns: Sequence[Pattern]) -> Callable[[ir.Node], bool]:
    """Whether some backend computes a node as it is; the pass asks before it decomposes one.

    Operators that `patterns` know only among others count as supported.
    """
    known: dict[tuple[str, str], list[Pattern]] = {}
    for pattern in patterns:
        graph = pattern.graph
        if isinstance(graph, OpPat) and _is_alone(graph):
            for kind in graph.kinds:
                known.setdefault((graph.domain, kind), []).append(pattern)

    def is_supported(node: ir.Node) -> bool:
        """Whether a pattern may take `node`; an operator that no pattern names is left to the
        loader.
        """
        candidates = known.get((node.domain, node.op_type))
        return candidates is None or any(_supports(p, node) for p in candidates)

    return is_supported


def _is_alone(graph: Pat | Results) -> bool:
    return isinstance(graph, OpPat) and not any(isinstance(i, OpPat | Either) for i in graph.inputs)


def _supports(pattern: Pattern, node: ir.Node) -> bool:
    """A node that cannot be looked at is left to `select`, which says why."""
    try:
        match = pattern.match(node)
        return match is not None and not pattern.refusals(match)
    except Exception:
        return True


def rule_of(pattern: Pattern) -> Rule:
    """The shape rule of `pattern` as a function of the loader: (element type, shape) per output of
    a node.
    """

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
