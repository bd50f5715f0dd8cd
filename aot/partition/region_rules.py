# SPDX-License-Identifier: Apache-2.0
"""The limits of backends on the matches of a graph: as rules for sets of matches, and alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot.errors import BackendError, one_line
from aot.partition.graph import is_view
from aot.partition.limits import Flow, Rule, Vertex, WhyNot
from aot.vendor.backend import Backend, Pattern, RegionView
from aot.vendor.limits import UNLIMITED, reasons
from aot.vendor.match import Match, ValueRef

Chosen = Sequence[tuple[Pattern, Match]]


def rules_for(chosen: Chosen, backends: Sequence[Backend]) -> dict[int, Rule]:
    """The rule of each backend that limits its regions, by its place among `backends`.

    `chosen` are the matches in topological order, which are the vertices of the rules.
    """
    limited = {
        i: b for i, b in enumerate(backends) if b.limits != UNLIMITED or b.region_check is not None
    }
    if not limited:
        return {}
    flow = flow_of([m for _, m in chosen])
    return {i: Rule(b.name, flow, b.limits, _asking(b, chosen)) for i, b in limited.items()}


def flow_of(matches: Sequence[Match]) -> Flow:
    """The flow between matches: for each, numbers of the values that it reads, holds and makes.

    A vertex counts the operators of its match, none for a view. Values are numbered as they come;
    the flow has their bytes and the numbers of the graph's results.
    """
    numbers: dict[int, int] = {}
    refs: list[ValueRef] = []

    def number(ref: ValueRef) -> int:
        """The number of a value, a new one at its first mention."""
        found = numbers.setdefault(id(ref.ir), len(refs))
        if found == len(refs):
            refs.append(ref)
        return found

    vertices = []
    for match in matches:
        # An operand read twice enters the region once.
        entering = dict.fromkeys((ref.is_const, number(ref)) for ref in _entering(match))
        reads = tuple(u for constant, u in entering if not constant)
        constants = tuple(u for constant, u in entering if constant)
        makes = tuple(number(ref) for ref in match.outputs())
        # Views are nobody's operators, so they do not count towards a limit on operators.
        vertices.append(Vertex(reads, constants, makes, 0 if is_view(match) else len(match.nodes)))
    results = frozenset(i for i, ref in enumerate(refs) if ref.is_output)
    return Flow(vertices, [ref.nbytes for ref in refs], results)


def _entering(match: Match) -> list[ValueRef]:
    """Every value that a match reads from outside, in the order its nodes run."""
    inside = {id(o) for n in match.nodes for o in n.ir.outputs}
    read = [v for n in reversed(match.nodes) for v in n.ir.inputs if v is not None]
    return [ValueRef(v) for v in dict.fromkeys(read) if id(v) not in inside]


def too_heavy(backend: Backend, match: Match) -> list[str]:
    """Why no region of the backend can hold a match, whatever else is in the region."""
    limits, found = backend.limits, []
    count = len(match.nodes)
    if limits.nodes is not None and count > limits.nodes:
        found.append(f"{count} operators (a region takes at most {limits.nodes})")
    if limits.constant_bytes is not None:
        held = sum(ref.nbytes for ref in _entering(match) if ref.is_const)
        if held > limits.constant_bytes:
            what = f"{held} bytes of constants (a region takes at most {limits.constant_bytes})"
            found.append(what)
    return found


def not_whole(chosen: Chosen, colours: Sequence[int], rules: Mapping[int, Rule]) -> dict[int, str]:
    """By index of a match, the reason why a backend that takes a graph whole or not at all gives it
    back.

    Either another backend has a match that is no view, or the backend's own limits refuse the
    whole.
    """
    back = {}
    for colour, rule in rules.items():
        mine = [v for v, c in enumerate(colours) if c == colour]
        if rule.limits.whole and mine:
            pairs = zip(chosen, colours, strict=True)
            others = [m.root for (_, m), c in pairs if c != colour and not is_view(m)]
            names = [f"{n.onnx_name} ({n.op_type}) is another's" for n in others[:1]]
            why = f"{rule.name} takes a graph as a whole, and {names[0]}" if names else ""
            back.update(dict.fromkeys(mine, why or rule.why_not(mine)))
    return {v: why for v, why in back.items() if why}


def _asking(backend: Backend, chosen: Chosen) -> WhyNot | None:
    """The backend's own check of regions as a question about indices of `chosen`; None if it has
    none.
    """
    check = backend.region_check
    if check is None:
        return None

    def why_not(members: Sequence[int]) -> str:
        """The first reason of the check against a region of these matches, "" if there is none.

        BackendError if the check raises.
        """
        view = view_of([chosen[i] for i in members])
        try:
            return next(reasons(check(view)), "")
        # The check is a vendor's code, which may raise anything.
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(str(error))}"
            where = f"a region up to node {view.matches[-1][1].root.onnx_name}"
            raise BackendError(
                f"{backend.name}: its check of regions raised {why}", where
            ) from error

    return why_not


def view_of(chosen: Chosen) -> RegionView:
    """A region of these matches as its backend sees it, all values in ONNX's layout."""
    nodes = {id(n.ir) for _, m in chosen for n in m.nodes}
    made = [v for _, m in chosen for v in m.outputs()]
    inner = {id(v.ir) for v in made}
    entering = {id(v.ir): v for _, m in chosen for v in _entering(m) if not v.is_const}
    inputs = tuple(v for key, v in entering.items() if key not in inner)
    leaving = [v for v in made if v.is_output or any(id(u.node) not in nodes for u in v.ir.uses())]
    return RegionView(-1, tuple(chosen), inputs, tuple(leaving))
