# SPDX-License-Identifier: Apache-2.0
"""The pattern language: a graph of operators written as a Python function.

    def conv_relu(op, x, w, b):
        return op.Relu(op.Conv(x, w, b, _outputs=["conv"]))

Parameters of the function are wildcards. `_outputs=["conv"]` names a node (its value is
`conv` too); `_optional=1` says how many trailing inputs may be absent; an attribute given as
keyword must have that value, or pass that function. Commutative operators match in both orders. A
node inside the match may only be used inside it, unless it is a result. A pattern that returns a
tuple has several results. docs/patterns.md shows every form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.dtypes import ALL
from aot.ir.graph_nodes import attribute
from aot.vendor.match import ValueRef
from aot.vendor.matcher import Binding, match_at, matches_at
from aot.vendor.pattern_ast import (
    Either,
    Graph,
    OpPat,
    Output,
    Pat,
    Results,
    Var,
    Where,
    all_ops,
    children,
    names,
    needed_ops,
    parts,
    result_names,
    root_ops,
    size,
)

__all__ = [
    "Binding",
    "Builder",
    "Either",
    "Graph",
    "OP",
    "OpPat",
    "Output",
    "Pat",
    "Results",
    "Var",
    "Where",
    "all_ops",
    "attribute",
    "const",
    "either",
    "match_at",
    "matches_at",
    "names",
    "needed_ops",
    "optional",
    "repeat",
    "result_names",
    "root_ops",
    "size",
    "trace",
    "typed",
    "wildcard",
]


class Builder:
    """The `op` a pattern function receives: `op.Conv(x, w, _outputs=["c"], group=1)`."""

    def __init__(self, domain: str = "") -> None:
        """Let operators be of `domain` ("" for ONNX's own) unless a call says otherwise."""
        self._domain = domain

    def __getattr__(self, op_type: str) -> Callable[..., OpPat]:
        """A function that makes a pattern of the operator `op_type`: `op.Relu(x)`."""
        return self.any_of(op_type)

    def any_of(self, *op_types: str) -> Callable[..., OpPat]:
        """A function that makes a pattern of one of several operators: `op.any_of("Relu",
        "Clip")(x)`.
        """
        first, *others = op_types

        def build(
            *inputs: Pat | None,
            _outputs: Sequence[str] | None = None,
            _optional: int = 0,
            _domain: str | None = None,
            **attrs: Any,
        ) -> OpPat:
            """The pattern of a node with these inputs and attributes.

            `_outputs` names the node and its values, `_optional` counts trailing inputs that may be
            absent (-1: the last input stands for any number). ValueError for other words with an
            underscore or a wrong count.
            """
            # Such a word would be an attribute, which no node has: the pattern would wait in vain.
            if odd := next((a for a in attrs if a.startswith("_")), ""):
                raise ValueError(f"{odd} is neither _outputs, _optional nor _domain")
            if not -1 <= _optional <= len(inputs):
                raise ValueError(f"_optional={_optional} of {len(inputs)} inputs")
            domain = self._domain if _domain is None else _domain
            named = tuple(_outputs or ())
            wanted = tuple(attrs.items())
            return OpPat(first, domain, inputs, wanted, named, _optional, tuple(others))

        return build

    def domain(self, name: str) -> Builder:
        """Operators and functions of another domain: `op.domain("com.acme").Gate(x)`."""
        return Builder(name)


#: The `op` of pattern functions, for graphs that are written outside of one.
OP = Builder()


def either(*options: Pat) -> Either:
    """A pattern that matches the first fitting of `options`; ValueError without options."""
    if not options:
        raise ValueError("either() of nothing matches nothing")
    return Either(options)


def optional(around: Callable[[Pat], Pat], inner: Pat) -> Either:
    """`around(inner)` if that fits, else `inner` alone."""
    return Either((around(inner), inner))


def repeat(link: Callable[[Pat, int], Pat], start: Pat, low: int, high: int) -> Either:
    """A chain of `low` to `high` links, the longest that fits.

    `link(value, i)` is the i-th link, 0 next to `start`; names in it need the i. Raises ValueError
    for counts that no chain has.
    """
    if not 0 <= low <= high:
        raise ValueError(f"repeat from {low} to {high} times: needs 0 <= low <= high")
    chains = [start]
    for i in range(high):
        chains.append(link(chains[-1], i))
    return Either(tuple(reversed(chains[low:])))


def wildcard(name: str) -> Var:
    """A wildcard that is no parameter, for the links of `repeat`."""
    return Var(name)


def const(pattern: Pat, value: Any = None, rtol: float = 0.0) -> Where:
    """A value known at compile time; all its elements `value`, or passing that function.

    The elements may differ from `value` by `rtol` of it. Raises ValueError for a `value` that is
    neither a number nor a function.
    """
    if value is None:
        return Where(pattern, lambda v: v.const_value is not None, "constant", True)
    if not callable(value) and _kind(value) not in "biufV":
        raise ValueError(f"const: {value!r} is no number and no function")

    def holds(v: ir.Value) -> bool:
        """Whether the value is a constant, all of whose elements are as wanted."""
        import numpy as np

        if v.const_value is None:
            return False
        data = v.const_value.numpy()
        if callable(value):
            return bool(value(data))
        if data.dtype.kind in "OSU":  # texts
            return False
        wanted = np.asarray(value).astype(data.dtype)
        if not rtol:
            return bool(np.all(data == wanted))
        return bool(np.all(np.isclose(data, wanted, rtol=rtol, atol=0.0)))

    given = None if callable(value) else value
    return Where(pattern, holds, "constant with a given value", True, given)


def _kind(value: Any) -> str:
    """NumPy's letter for the kind of a value's type: "f" float, "i" int, "O" object."""
    import numpy as np

    return str(np.asarray(value).dtype.kind)


def typed(
    pattern: Pat,
    dtype: Any = None,
    rank: int | None = None,
    shape: Sequence[int | None] | None = None,
) -> Where:
    """A value of this dtype ("float32" or a DType), rank and shape (None: any size).

    Raises ValueError for a dtype, rank or shape that no value has.
    """
    # A wish that no value fulfils would make a pattern that waits in vain.
    wanted = "" if dtype is None else str(dtype)
    if wanted not in ("", *(str(d) for d in ALL)):
        raise ValueError(f"typed: no dtype is called {wanted}")
    if rank is not None and (rank < 0 or (shape is not None and len(shape) != rank)):
        of = "" if shape is None else f" and {len(shape)} axes"
        raise ValueError(f"typed: no value has rank {rank}{of}")
    if any(size is not None and size < 0 for size in shape or ()):
        raise ValueError(f"typed: no value has the shape {list(shape or ())}")

    def holds(value: ir.Value) -> bool:
        """Whether the value has the element type, rank and shape that are wanted."""
        ref = ValueRef(value)
        if wanted and str(ref.dtype) != wanted:
            return False
        if rank is not None and ref.rank != rank:
            return False
        if shape is None:
            return True
        pairs = zip(shape, ref.shape, strict=False)
        return len(shape) == ref.rank and all(want in (None, have) for want, have in pairs)

    return Where(pattern, holds, "typed", dtype=wanted)


def trace(function: Callable[..., Any]) -> Graph:
    """The pattern graph that `function` describes; its parameters with defaults are no wildcards.

    Raises TypeError for what can never match as meant: no operator, a name given twice, the same
    result twice, results that share nothing.
    """
    params = list(inspect.signature(function).parameters.values())[1:]
    result = function(Builder(), *[Var(p.name) for p in params if p.default is p.empty])
    if isinstance(result, tuple | list):
        result = Results(tuple(result)) if len(result) != 1 else result[0]
    problem = _problem(result)
    if problem:
        raise TypeError(f"pattern {function.__name__} {problem}")
    found: Graph = result
    return found


def _problem(graph: Any) -> str:
    """The reason why a pattern can never match as meant, as the end of a sentence; "" if it can."""
    roots = graph.roots if isinstance(graph, Results) else (graph,)
    for root in roots:
        if not isinstance(root, Either | OpPat | Output | Where):
            what = "a wildcard" if isinstance(root, Var) else type(root).__name__
            return f"returns {what}, not an operator"
        if not _only_operators(root):
            return "may be a wildcard alone: an alternative of its result is no operator"
    strange = [p for p in parts(graph) if not isinstance(p, Pat)]
    if strange:
        return f"holds {strange[0]!r}, which is neither a wildcard nor an operator"
    twice = _names_twice(graph, {})[1]
    if twice:
        return f"overlaps itself: two of its parts are called {twice!r}"
    return _unconnected(roots)


def _only_operators(root: Pat) -> bool:
    """Whether every alternative of a result is an operator or one of its outputs."""
    if isinstance(root, Either | Where):
        return all(_only_operators(c) for c in children(root) if c is not None)
    return isinstance(root, OpPat | Output)


def _unconnected(roots: Sequence[Pat]) -> str:
    """The reason why the results of a pattern do not belong together; "" if they do.

    They must be different, and each must share a wildcard or an operator with those before it.
    """
    if not roots:
        return "returns nothing"
    keys = [(id(r.op), r.index) if isinstance(r, Output) else (id(r), 0) for r in roots]
    if len(set(keys)) < len(roots):
        return "overlaps itself: it returns the same result twice"
    seen: set[Any] = set()
    for i, root in enumerate(roots):
        inside = {p.name if isinstance(p, Var) else id(p) for p in parts(root)}
        if i and not seen & inside:
            return f"has a result (number {i}) that shares nothing with those before it"
        seen |= inside
    return ""


Owners = dict[str, frozenset[int]]


def _names_twice(graph: Any, known: dict[int, tuple[Owners, str]]) -> tuple[Owners, str]:
    """(the operators that have each name, a name that two parts of one variant have or "").

    `known` remembers answers by id() of the pattern; alternatives may use the same names.
    """
    key = id(graph)
    if key in known or graph is None:
        return known.get(key, ({}, ""))
    own: Owners = {}
    if isinstance(graph, Var):
        own = {graph.name: frozenset()}
    elif isinstance(graph, OpPat):
        own = {n: frozenset([key]) for n in graph.names}
        if len(own) < len(graph.names):
            return own, graph.names[0]
    twice = ""
    for child in children(graph):
        inner, clash = _names_twice(child, known)
        twice = twice or clash
        for name, who in inner.items():
            # Of alternatives only one matches, so they may share names.
            if own.get(name, who) != who and not isinstance(graph, Either):
                twice = twice or name
            own[name] = own.get(name, frozenset()) | who
    known[key] = own, twice
    return known[key]
