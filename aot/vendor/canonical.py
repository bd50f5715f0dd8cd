# SPDX-License-Identifier: Apache-2.0
"""What in a pattern normalise rewrites before any backend is asked, so that it cannot match.

The tables are in canonical.json, which `python -m aot.cli.canonical` makes of the passes and of
onnx's own tests; docs/canonical.md shows them.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aot.errors import meant
from aot.ir.deferred_import import onnx
from aot.ir.operators import Commutative, operator_named
from aot.vendor.pattern_ast import (
    Either,
    OpPat,
    Output,
    Pat,
    Results,
    Var,
    Where,
    children as inside,
    parts,
)

#: Constants of a form and of a pattern are the same number up to this fraction.
CLOSE = 1e-5

Bound = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Form:
    """A combination that normalise rewrites, as a pattern, with how often each operator is read."""

    text: str
    after: str
    unless: str
    floats: bool
    graph: OpPat
    reads: Mapping[int, int]
    open_: frozenset[int]


@cache
def canonical_tables() -> dict[str, Any]:
    """The tables of canonical.json by name: rewritten operators, dropped attributes, forms and
    others.
    """
    path = Path(__file__).with_name("canonical.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def _forms() -> tuple[_Form, ...]:
    """The forms that normalise rewrites, as patterns; made once."""
    return tuple(_form(**row) for row in canonical_tables()["forms"])


def _form(before: str, after: str, unless: str, floats: bool) -> _Form:
    """A form from its row of canonical.json: `before` is an expression like `Add(x, const)`.

    `after` names its replacement, `unless` an exception in words ("" for none); `floats` says that
    only float values are rewritten.
    """
    values: dict[str, Pat] = {}
    open_: set[int] = set()

    def read(node: ast.expr) -> Pat:
        """The pattern of a part of the expression: a name, a constant, or a call of an operator.

        A name is a wildcard, the same one wherever it occurs; `name := call` names a node.
        """
        if isinstance(node, ast.Name):
            return values.setdefault(node.id, Var(node.id))
        if isinstance(node, ast.NamedExpr):
            values[node.target.id] = read(node.value)
            return values[node.target.id]
        if isinstance(node, ast.Constant):
            return Where(Var("constant"), lambda _: True, before, True, node.value)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name), before
        if node.func.id == "const":
            return Where(Var("constant"), lambda _: True, before, True)
        kinds = canonical_tables()["classes"].get(node.func.id, [node.func.id])
        more = any(isinstance(a, ast.Starred) for a in node.args)
        given = tuple(read(a) for a in node.args if not isinstance(a, ast.Starred))
        attrs = tuple((str(k.arg), ast.literal_eval(k.value)) for k in node.keywords)
        made = OpPat(kinds[0], "", given, attrs, (), 0, tuple(kinds[1:]))
        if more:
            open_.add(id(made))
        return made

    # Python's grammar wants a name behind a star.
    graph = read(ast.parse(before.replace("*", "*_"), mode="eval").body)
    assert isinstance(graph, OpPat), before
    return _Form(before, after, unless, floats, graph, _readers(graph), frozenset(open_))


def _readers(graph: Pat | Results) -> dict[int, int]:
    """How many inputs in the pattern read each operator, by the operator's id()."""
    counts: dict[int, int] = {}
    for part in parts(graph):
        for child in inside(part) if isinstance(part, OpPat) else ():
            op = _bare(child)
            counts[id(op)] = counts.get(id(op), 0) + 1
    return counts


def _bare(pattern: Pat | None) -> Pat | None:
    """The pattern without conditions around it; the first output of an operator is the operator."""
    while isinstance(pattern, Where):
        pattern = pattern.pattern
    return pattern.op if isinstance(pattern, Output) and pattern.index == 0 else pattern


def unseen(graph: Pat | Results, keeps: Collection[str] = ()) -> list[str]:
    """Why a pattern, or an alternative in it, never matches after normalise: one sentence per
    reason.

    [] if nothing of it is rewritten before. `keeps` are operators that the backend asks to keep.
    """
    found: list[str] = []
    results = {id(_bare(r)) for r in inside(graph)} if isinstance(graph, Results) else set()
    essential = {id(p) for p in _essential(graph)}
    # Some rewrites are made for floats only: a pattern of integers may wait for the old form.
    whole = not any(
        isinstance(p, Where) and p.dtype and "float" not in p.dtype for p in parts(graph)
    )
    readers = _readers(graph)
    for part in parts(graph):
        if not isinstance(part, OpPat) or part.domain:
            continue
        forms = _rewritten(part, readers, results)
        sentence = next((_sentence(f) for f in forms if whole or not f.floats), "")
        alternative = "" if id(part) in essential else " (one alternative of several)"
        known = (_operator(part, keeps), _attributes(part), _inputs(part), sentence)
        reasons = (why,) if (why := _unknown(part)) else known
        found += [why + alternative for why in reasons if why]
    return list(dict.fromkeys(found))


def _sentence(form: _Form) -> str:
    """The sentence that normalise rewrites a form, with its exception."""
    unless = f" unless {form.unless}" if form.unless else ""
    return f"normalise makes {form.after} of {form.text}{unless}"


def _essential(pattern: Pat | Results | None) -> Iterator[Pat]:
    """The parts that every match has, so neither alternatives nor optional inputs,
    outermost first.
    """
    if pattern is None or isinstance(pattern, Either):
        return
    if not isinstance(pattern, Results):
        yield pattern
    given: Sequence[Pat | None] = inside(pattern)
    if isinstance(pattern, OpPat):
        count = len(given) - (1 if pattern.optional < 0 else pattern.optional)
        given = given[:count]
    for child in given:
        yield from _essential(child)


def _operator(part: OpPat, keeps: Collection[str]) -> str:
    """The sentence that all operators of `part` are rewritten before matching; "" if one is left.

    The sentence tells when `keeps` of the backend would prevent that.
    """
    gone = canonical_tables()["rewritten"]
    kinds = [
        k for k in part.kinds if k in gone and not (k in keeps and k in canonical_tables()["kept"])
    ]
    if not kinds or len(kinds) < len(part.kinds):
        return ""
    into = ", ".join(gone[kinds[0]]) or "a constant, or nothing,"
    kept = (
        f"; keeps=({kinds[0]!r},) of the backend prevents it"
        if kinds[0] in canonical_tables()["kept"]
        else ""
    )
    return f"normalise makes {into} of {kinds[0]}{kept}"


def _unknown(part: OpPat) -> str:
    """The sentence that ONNX does not have the operator, or an attribute that is asked for; "" if
    it does.
    """
    seen = canonical_tables()["attributes"]
    names = [name for name, _ in part.attrs if not any(name in seen.get(k, ()) for k in part.kinds)]
    if all(k in seen or k in canonical_tables()["rewritten"] for k in part.kinds) and not names:
        return ""

    kinds = [k for k in part.kinds if onnx.defs.has(k)]
    if not kinds:
        known = {s.name for s in onnx.defs.get_all_schemas() if not s.domain}
        return f"ONNX has no operator {part.op_type}{_near(part.op_type, known)}"
    attributes = {a for k in kinds for a in onnx.defs.get_schema(k).attributes}
    for name in names:
        if name not in attributes:
            after = _near(name, attributes)
            return f"{part.op_type} has no attribute {name} in the newest opset{after}"
    return ""


def _near(word: str, known: Collection[str]) -> str:
    """A hint in parentheses to the name of `known` that is spelled like `word`; "" if there is
    none.
    """
    hint = meant(word, known)
    return f" ({hint})" if hint else ""


def _attributes(part: OpPat) -> str:
    """The sentence that a node never has an attribute as asked for after normalise; "" if it can.

    Normalise drops some attributes, makes axes count from the front, and leaves out defaults.
    """
    for name, value in part.attrs:
        if name in canonical_tables()["dropped"].get(part.op_type, ()):
            return f"{part.op_type} has no attribute {name} after normalise"
        if (
            name == "axis"
            and part.op_type in canonical_tables()["axes"]
            and isinstance(value, int)
            and value < 0
        ):
            return f"axis={value} of {part.op_type} counts from the front after normalise"
        default = canonical_tables()["defaults"].get(part.op_type, {}).get(name)
        if default is not None and value == default:
            return f"{part.op_type} has no {name}={value}, its default, after normalise"
    return ""


def _inputs(part: OpPat) -> str:
    """The sentence that no node has as many inputs as `part` asks for after normalise; "" if some
    may.
    """
    if part.optional < 0:
        return ""
    wanted = range(len(part.inputs) - part.optional, len(part.inputs) + 1)
    if not set(wanted) <= set(canonical_tables()["lost_inputs"].get(part.op_type, ())):
        return ""
    counts = " or ".join(map(str, canonical_tables()["inputs"][part.op_type]))
    return f"{part.op_type} has {counts} inputs after normalise, not {len(part.inputs)}"


def _rewritten(
    part: OpPat, readers: Mapping[int, int], results: Collection[int]
) -> Iterator[_Form]:
    """The forms, rewritten by normalise, that every match of the pattern from `part` down holds.

    `readers` counts inputs that read an operator, `results` are id()s of the pattern's results.
    """
    for form in _forms():
        if any(True for _ in _fits(form, form.graph, part, {}, readers, results, True)):
            yield form


def _fits(
    form: _Form,
    wanted: Pat | None,
    part: Pat | None,
    bound: Bound,
    readers: Mapping[int, int],
    results: Collection[int],
    root: bool = False,
) -> Iterator[Bound]:
    """The ways, as bindings of names, in which every value that `part` matches is matched by
    `wanted`.

    `wanted` is a part of `form`, `bound` what its names stand for so far. An operator inside must
    be read by nothing else, as in the form; only the `root` may.
    """
    op = _bare(part)
    if isinstance(wanted, Where):
        if _is_constant(part, wanted.given):
            yield bound
    elif isinstance(op, Either):
        if all(
            any(True for _ in _fits(form, wanted, o, bound, readers, results)) for o in op.options
        ):
            yield bound
    elif isinstance(wanted, Var):
        if op is not None and bound.get(wanted.name, op) is op:
            yield {**bound, wanted.name: op}
    elif isinstance(wanted, OpPat) and isinstance(op, OpPat):
        key = f"operator {id(wanted)}"
        # An operator that occurs twice in a form is one node.
        if key in bound:
            if bound[key] is op:
                yield bound
            return
        alone = readers.get(id(op), 0) == form.reads.get(id(wanted), 0) and id(op) not in results
        same = set(op.kinds) <= set(wanted.kinds) and not op.domain and _may_have(op, wanted)
        if same and (root or alone):
            bound = {**bound, key: op}
            for order in _orders(form, wanted, op):
                yield from _all_fit(form, wanted.inputs, order, bound, readers, results)


def _all_fit(
    form: _Form,
    wanted: Sequence[Pat | None],
    given: Sequence[Pat | None],
    bound: Bound,
    readers: Mapping[int, int],
    results: Collection[int],
) -> Iterator[Bound]:
    """The ways in which each pattern of `given` is matched by its neighbour in `wanted`, one after
    another.
    """
    if not wanted:
        yield bound
        return
    for found in _fits(form, wanted[0], given[0], bound, readers, results):
        yield from _all_fit(form, wanted[1:], given[1:], found, readers, results)


def _orders(form: _Form, wanted: OpPat, op: OpPat) -> Iterator[Sequence[Pat | None]]:
    """The inputs that every match of `op` has, in the orders in which `wanted` may see them.

    None where the numbers of inputs differ; both orders for a commutative operator of two.
    """
    count = len(op.inputs) - (1 if op.optional < 0 else op.optional)
    given = op.inputs[:count]
    more = id(wanted) in form.open_
    if count < len(wanted.inputs) or (not more and len(op.inputs) > len(wanted.inputs)):
        return
    yield given
    known = operator_named(op.op_type, op.domain)
    if known is not None and known.trait(Commutative) and len(given) == 2:
        yield given[::-1]


def _may_have(op: OpPat, wanted: OpPat) -> bool:
    """Whether `op` asks for no other value of an attribute than `wanted` has."""
    attributes = dict(op.attrs)
    return all(
        attributes.get(name, value) == value or _close(attributes.get(name), value)
        for name, value in wanted.attrs
    )


def _is_constant(part: Pat | None, given: Any) -> bool:
    """Whether the value is known at compile time, and is `given` (None: any)."""
    while isinstance(part, Where):
        if part.constant and (given is None or _close(part.given, given)):
            return True
        part = part.pattern
    return False


def _close(value: Any, wanted: Any) -> bool:
    """Whether both are numbers that differ by no more than float32 constants of one meaning do."""
    numbers = isinstance(value, int | float) and isinstance(wanted, int | float)
    return numbers and math.isclose(value, wanted, rel_tol=CLOSE)
