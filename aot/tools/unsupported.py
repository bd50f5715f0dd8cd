# SPDX-License-Identifier: Apache-2.0
"""All that keeps a model from being compiled, and where to cut it so that the rest is compiled.

The nodes that are refused are taken out, their results become inputs, and the rest is compiled
again, until it passes. A node behind them whose inputs have no known type is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aot.errors import AotError, InternalError, UsageError, counted, one_line, typed
from aot.ir.deferred_import import onnx
from aot.ir.pins import Pin, pinned
from aot.load.check import all_graphs, subgraphs
from aot.load.cut import INPUTS, OUTPUTS, known_types, part_of, reads, with_nodes
from aot.load.examples import open_shapes
from aot.load.pin import declared_shapes
from aot.load.source import Opened
from aot.options import Options

#: The front half of the compiler, which raises AotError for a model that it refuses.
Compiles = Callable[[Opened, Options], object]

#: How often the rest is compiled. (Each time brings the reasons of a later stage.)
_ROUNDS = 12
#: For more refused nodes, or more values, no cut is proposed.
_MOST_NODES, _MOST_VALUES = 64, 8
#: Larger models are not compiled again for a hint.
_MOST_FOR_A_HINT = 20_000
#: A part is proposed if it keeps one of so many nodes.
_SHARE = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """`--cut-inputs A,B` or `--cut-outputs A,B`, as a shell takes it.

    `instead` tells that it takes the place of an option of the same kind.
    """

    option: str
    names: tuple[str, ...]
    instead: bool = False

    def __str__(self) -> str:
        return typed(self.option, ",".join(self.names))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model that is compiled with `add`; it has `kept` of `nodes` nodes."""

    add: tuple[Cut | Pin, ...]
    kept: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The `reasons` for which a model is refused, one a node; how many nodes were not judged; the
    sizes that were `assumed`; the largest part that is compiled, if there is one.
    """

    reasons: tuple[AotError, ...]
    unjudged: int
    assumed: tuple[Pin, ...]
    part: Part | None

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "reasons": [{"what": e.what, "hint": e.advice()} for e in self.reasons],
            "unjudged": self.unjudged,
            "assumed": [str(p) for p in self.assumed],
            "cut": [str(c) for c in self.part.add] if self.part else [],
        }

    def text(self) -> str:
        """The survey as text: a line per reason, each hint once, and the options that cut."""
        if not self.reasons:
            return "every node is supported"
        lines = [e.what for e in self.reasons]
        lines += [f"  hint: {h}" for h in dict.fromkeys(e.advice() for e in self.reasons) if h]
        if self.unjudged:
            lines.append(
                f"not judged: {counted(self.unjudged, 'node')} behind these, of unknown types"
            )
        if self.assumed:
            lines.append("assumed: " + " ".join(map(str, self.assumed)))
        if self.part is not None:
            kept = f"{self.part.kept} of {self.part.nodes} nodes"
            lines.append(f"to compile {kept}: {' '.join(map(str, self.part.add))}")
        return "\n".join(map(one_line, lines))


def survey(opened: Opened, options: Options, compiles: Compiles) -> Survey:
    """Why `compiles` refuses the model; UsageError and ModelError for what is no model at all."""
    own = set(options.cut_inputs), bool(options.cut_outputs)
    state = _Search(*part_of(opened, options), compiles, *own)
    state.run()
    part = state.part() if state.refused else None
    return Survey(tuple(state.reasons), len(state.unjudged), tuple(state.assumed), part)


def with_cut(error: AotError, opened: Opened, options: Options, compiles: Compiles) -> AotError:
    """`error` with the options that compile the rest of the model, if there are any."""
    if error.add:  # these options take the whole model
        return error
    if not any(e.values for e in error.errors) or len(opened.proto.graph.node) > _MOST_FOR_A_HINT:
        return error
    try:
        part = survey(opened, options, compiles).part
    except AotError:
        return error
    if part is None:
        return error
    kept = f"which keeps {part.kept} of {part.nodes} nodes"
    hint = f"{kept} ({error.hint})" if error.hint else kept
    return type(error)(error.what, error.where, hint, error.more, part.add)


@dataclass
class _Search:
    """State of a survey: nodes are numbers in the order of the model's graph."""

    opened: Opened
    options: Options
    compiles: Compiles
    cut_before: set[str]  # values that the user cut the model at, and whether also behind
    cut_behind: bool
    reasons: list[AotError] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    unjudged: set[int] = field(default_factory=set)
    assumed: list[Pin] = field(default_factory=list)

    def run(self) -> None:
        """Collect reasons until the rest of the model passes or a reason belongs to no node."""
        for _ in range(_ROUNDS):
            error = self._refusal(self._rest(), self.options)
            if error is None:
                return
            found = False
            for one in error.errors:
                places = {self._place(v) for v in one.values} - {None}
                found |= bool(places - self.refused)
                if one.what not in {e.what for e in self.reasons}:
                    self.reasons.append(one)
                self.refused |= {p for p in places if p is not None}
            if not found:
                return

    def _refusal(self, opened: Opened | None, options: Options) -> AotError | None:
        """Why a part is refused, with sizes for what is open; None if it is compiled."""
        if opened is None:
            return None
        try:
            self.compiles(opened, options)
        except (InternalError, UsageError):
            raise
        except AotError as error:
            pins = [p for p in error.add if isinstance(p, Pin) and p not in self.assumed]
            if not pins or any(e.values for e in error.errors):
                return error
            self.assumed += pins
            return self._refusal(opened, pinned(options, self.assumed))
        return None

    @property
    def _nodes(self) -> Sequence[onnx.NodeProto]:
        """The nodes of the model's graph."""
        nodes: Sequence[onnx.NodeProto] = self.opened.proto.graph.node
        return nodes

    def _place(self, value: str) -> int | None:
        """The node that computes a value, itself or in a body."""
        for index, node in enumerate(self._nodes):
            if value in node.output or any(
                value in n.output for b in subgraphs(node) for g in all_graphs(b) for n in g.node
            ):
                return index
        return None

    def _rest(self) -> Opened | None:
        """The model without the nodes refused and those that read what has no known type."""
        if not self.refused:
            return self.opened
        known = known_types(self.opened)
        gone, fed = set(self.refused), dict[str, Any]()
        lost = {o for i in self.refused for o in self._nodes[i].output}
        self.unjudged = set()
        for index, node in enumerate(self._nodes):
            if index in gone:
                continue
            wanted = sorted(reads(node) & lost)
            # Given as an input, a lost value lets the nodes behind it be judged.
            if all(n in known and self._is_sized(known[n]) for n in wanted):
                fed.update((n, known[n]) for n in wanted)
                continue
            gone.add(index)
            self.unjudged.add(index)
            lost.update(node.output)
        kept = [n for i, n in enumerate(self._nodes) if i not in gone]
        return with_nodes(self.opened, kept, fed) if kept else None

    def _is_sized(self, info: onnx.ValueInfoProto) -> bool:
        """Whether the options say every dimension of a value that becomes an input."""
        graph = type(self.opened.proto.graph)()
        graph.input.extend([*self.opened.proto.graph.input, info])
        try:
            shapes = declared_shapes(graph)
        except AotError:  # no tensor
            return False
        return info.name not in open_shapes(shapes, pinned(self.options, self.assumed))

    def part(self) -> Part | None:
        """The largest part between the refused nodes that can be compiled; None if there is
        none.
        """
        found = _widest(self.opened.proto.graph, sorted(self.refused))
        if found is None:
            return None
        kept, nodes, inputs, outputs = found
        options = replace(self.options, cut_inputs=inputs, cut_outputs=outputs)
        # The search has assumptions of its own, which are not those about the whole model.
        before, self.assumed = self.assumed, []
        try:
            part, left = part_of(self.opened, options)
            refusal = self._refusal(part, left)
        except AotError as error:
            refusal = error
        pins, self.assumed = self.assumed, before
        if refusal is not None:
            return None
        fed = [i.name for i in part.proto.graph.input if i.name in self.cut_before]
        names = ((INPUTS, (*fed, *inputs), self.cut_before), (OUTPUTS, outputs, self.cut_behind))
        cuts = [Cut(o, n, bool(old)) for o, n, old in names if n and set(n) != old]
        return Part((*cuts, *pins), kept, nodes)


def _widest(
    graph: onnx.GraphProto, refused: Sequence[int]
) -> tuple[int, int, tuple[str, ...], tuple[str, ...]] | None:
    """Where to cut so that most nodes are kept: (nodes kept, nodes a run computes, names of the
    new inputs, of the new outputs, () for all of the model's); None if too few stay.

    The first of the nodes `refused` go with all before them, the others with all behind them.
    """
    # Every split walks the whole graph, so a large number of refusals would take long.
    if len(refused) > _MOST_NODES:
        return None
    maker = {o: i for i, n in enumerate(graph.node) for o in n.output if o}
    needs = [{maker[x] for x in reads(n) if x in maker} for n in graph.node]
    computed = _computed(graph, needs)
    best: tuple[set[int], set[int]] = set(), set()
    for split in range(len(refused) + 1):
        before = _reached(refused[:split], needs)
        behind = _reached(refused[split:], _readers(needs))
        kept = computed - before - behind
        if len(kept) > len(best[0]):
            best = kept, before & computed
    kept, before = best
    if len(kept) * _SHARE < len(computed):
        return None
    ends = {o.name for o in graph.output}
    read = {x for i, n in enumerate(graph.node) if i not in kept for x in reads(n)} | ends
    made = [(i, o) for i, n in enumerate(graph.node) for o in n.output if o]
    inside = {x for i in kept for x in reads(graph.node[i])}
    inputs = tuple(o for i, o in made if i in before and o in inside)
    outputs = tuple(o for i, o in made if i in kept and o in read)
    if not outputs or max(len(inputs), len(outputs)) > _MOST_VALUES or _has_commas(inputs, outputs):
        return None
    return len(kept), len(computed), inputs, () if set(outputs) == ends else outputs


def _has_commas(*lists: Sequence[str]) -> bool:
    return any("," in name or '"' in name for names in lists for name in names)


def _computed(graph: onnx.GraphProto, needs: Sequence[Collection[int]]) -> set[int]:
    """The indices of the nodes that depend on an input, which a run computes.

    `graph` is in topological order; `needs` has, for each node, the nodes whose results it reads.
    """
    constants = {t.name for t in graph.initializer}
    fed = {i.name for i in graph.input} - constants
    found: set[int] = set()
    for index, node in enumerate(graph.node):
        if reads(node) & fed or any(n in found for n in needs[index]):
            found.add(index)
    return found


def _reached(start: Sequence[int], next_of: Sequence[Collection[int]]) -> set[int]:
    """`start` and all nodes that are reached from there; `next_of` has the next ones of each."""
    found, stack = set(start), list(start)
    while stack:
        new = [n for n in next_of[stack.pop()] if n not in found]
        found.update(new)
        stack += new
    return found


def _readers(needs: Sequence[Collection[int]]) -> list[list[int]]:
    """The readers of each node, from the nodes that each one needs."""
    found: list[list[int]] = [[] for _ in needs]
    for index, sources in enumerate(needs):
        for source in sorted(sources):
            found[source].append(index)
    return found
