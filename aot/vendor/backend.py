# SPDX-License-Identifier: Apache-2.0
"""The contract every code generator implements, the portable C one included.

A backend is a list of patterns. Each pattern has checks that yield (condition, reason), a lowering
that returns call records, and optionally a layout rule, a cost, a space of ways to compute a match
and test cases: docs/new-backend.md begins with one.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from aot.errors import BackendError, PatternWarning, UsageError, meant
from aot.ir.deferred_import import ir
from aot.ir.dtypes import DType
from aot.ir.layout import Layout
from aot.ir.node_traits import is_view
from aot.packing.pack import Buffer, pack
from aot.vendor.canonical import unseen
from aot.vendor.limits import UNLIMITED, Limits, Speed, reasons
from aot.vendor.match import Match, NodeRef, ValueRef, match_of
from aot.vendor.pattern import Graph, all_ops, matches_at, names, result_names, size, trace
from aot.vendor.recorder import Recorder
from aot.vendor.region_model import onnx_of

#: What a target's `system` may be.
SYSTEMS = ("linux", "none")
Check = Callable[[Match], Iterable[tuple[bool, str]]]
Lowering = Callable[[Recorder, Match], object]
RegionCheck = Callable[["RegionView"], Iterable[tuple[bool, str]]]
RegionLowering = Callable[[Recorder, "RegionView"], object]
LayoutRule = Callable[[Match, dict[str, Layout], int], dict[str, Layout]]
# (node, inputs) -> (shape, dtype) of each output; inputs are typed and static.
Infer = Callable[[NodeRef, tuple[ValueRef | None, ...]], list[tuple[tuple[int, ...], DType]]]
Cases = Callable[[], Iterable[Any]]
# (maker of nodes, match) -> the value that takes the place of the match's result.
Rewriting = Callable[[Any, Match], Any]
#: The most ways to compute a match that the space of a pattern may have: each is built and timed.
MOST_POINTS = 64
#: The name of a C function or nothing, and the definition of a macro.
_NAME = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_MACRO = re.compile(r'[A-Za-z_]\w*(=[\w."/]*)?', re.ASCII)


@dataclass(slots=True, eq=False)
class Pattern:
    """One thing a backend can compute: a graph of operators and how to compute it.

    `attrs` are attributes of the root with their defaults (what `m.axis` gives); `outputs` names
    the root's outputs; `priority` breaks ties between patterns of equal size (larger first);
    `header` is the C header of its kernels ("" = one per kernel), looked for in `folder` first;
    `packed` says that it knows elements of less than a byte: nobody else is shown them;
    `inference` is what `infer` was given, `region_lowering` lowers the backend's regions as wholes.
    """

    name: str
    graph: Graph
    backend: str
    outputs: tuple[str, ...] = ("y",)
    attrs: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    folder: Path | None = None
    header: str = ""
    packed: bool = False
    _checks: list[Check] = field(default_factory=list)
    _lower: Lowering | None = None
    _layouts: LayoutRule | None = None
    _cases: list[Cases] = field(default_factory=list)
    _cost: Callable[[Match], float] | None = None
    inference: Infer | None = None
    region_lowering: RegionLowering | None = None
    _declared: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    _becomes: Rewriting | None = None
    _space: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def check(self, function: Check) -> Check:
        """Decorator: add a generator of (condition, reason for which the match is refused).

        Every check added is asked; a match is refused if one condition is false.
        """
        self._checks.append(function)
        return function

    def lower(self, function: Lowering) -> Lowering:
        """Decorator: set the function that records the calls for a match, given (recorder,
        match).
        """
        self._lower = function
        return function

    def layouts(self, function: LayoutRule) -> LayoutRule:
        """Decorator: set the rule of layouts, given (match, incoming layouts by name, vector
        width).

        It returns the layout that each named operand and result should have; names left out are
        plain.
        """
        self._layouts = function
        return function

    def cost(self, function: Callable[[Match], float]) -> Callable[[Match], float]:
        """Decorator: set the function that estimates the time of a match in nanoseconds."""
        self._cost = function
        return function

    def infer(self, function: Infer) -> Infer:
        """Decorator: set the shapes and types of the outputs of an operator that ONNX does not
        know.

        The function gets (node, inputs) and returns (shape, dtype) per output.
        """
        self.inference = function
        return function

    def becomes(self, function: Rewriting) -> Rewriting:
        """Decorator of a rewrite: set the function that makes what takes the place of a match.

        Given (op, match), it returns the new result: `op.Neg(m.x)` makes a node of an operator
        with one result, of values and of arrays, which become constants.
        """
        self._becomes = function
        return function

    def rewritten(self, op: Any, m: Match) -> Any:
        """What takes the place of match `m`, made by `op`; TypeError without `becomes`."""
        if self._becomes is None:
            raise TypeError("a rewrite needs a function that `becomes` decorates")
        return self._becomes(op, m)

    def tune(self, **space: Sequence[Any]) -> None:
        """Say that a match can be computed with each of some values per name: `tile=(4, 8)`.

        Checks, cost and lowering find the value as `m.tile`; the first one is taken unless costs
        are compared. Raises BackendError for a space without a point, or with too many.
        """
        self._space = space
        if taken := sorted(space.keys() & {*names(self.graph)[0]}):
            raise BackendError(f"{self.backend}.{self.name}: {taken[0]} is a value of the pattern")
        if not 1 <= (count := math.prod(map(len, space.values()))) <= MOST_POINTS:
            what = f"{self.backend}.{self.name}: a space of {count} points (1 to {MOST_POINTS})"
            raise BackendError(what)

    def points(self) -> list[Pattern]:
        """A pattern per point of the space, which its name tells; itself without a space."""
        if not self._space:
            return [self]
        made = []
        for values in itertools.product(*self._space.values()):
            point = dict(zip(self._space, values, strict=True))
            name = self.name + "".join(f"[{k}={v}]" for k, v in point.items())
            made.append(replace(self, name=name, attrs={**self.attrs, **point}, _space={}))
        return made

    def cases(self, function: Cases) -> Cases:
        """Decorator: add a generator of test cases, as `case` of aot/vendor/cases.py makes them."""
        self._cases.append(function)
        return function

    @property
    def size(self) -> int:
        """The number of operators that a full match covers, with the largest alternatives."""
        return size(self.graph)

    @property
    def operators(self) -> frozenset[tuple[str, str]]:
        """Every operator that a match may hold, as (domain, name)."""
        return frozenset(all_ops(self.graph))

    def all_cases(self) -> Iterator[Any]:
        """The test cases of all generators that were declared, in order."""
        for function in self._cases:
            yield from function()

    def match(self, root: ir.Node) -> Match | None:
        """The preferred match whose last node is `root`, with no check applied; None if there is
        none.
        """
        return next(self.matches(root), None)

    def matches(self, root: ir.Node, excluded: Container[int] = ()) -> Iterator[Match]:
        """Every match whose last node is `root`, the preferred one first, with no check applied.

        `excluded` has the id() of nodes that no match may cover.
        """
        if self._declared is None:
            self._declared = names(self.graph)
        for found in matches_at(self.graph, root, excluded):
            yield match_of(found, self.outputs, self.attrs, self._declared)

    def refusals(self, m: Match) -> list[str]:
        """Every reason why a match cannot be computed, from all checks; [] if it can be.

        Elements of less than a byte are refused first unless the pattern says that it knows them.
        """
        # Checks of most patterns do not think of 4-bit elements, so nobody is asked about them.
        if not self.packed:
            small = [v.dtype for v in m.values.values() if v is not None and v.packed]
            if small:
                return [f"dtype {small[0]} (elements share bytes)"]
        return [reason for check in self._checks for reason in reasons(check(m))]

    @property
    def lays_out(self) -> bool:
        """Whether the pattern has a rule for layouts."""
        return self._layouts is not None

    def choose_layouts(self, m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """The layouts that a match wants, by name of operand or result; names left out are plain.

        `incoming` has the layouts of operands as they come, `vlen` is the vector width in float
        lanes.
        """
        return {} if self._layouts is None else self._layouts(m, incoming, vlen)

    def record(self, c: Recorder, m: Match) -> None:
        """Record the calls of match `m` in `c` by the pattern's lowering; TypeError if it
        has none.
        """
        if self._lower is None:
            raise TypeError(f"pattern {self.backend}.{self.name} has no lowering")
        self._lower(c, m)

    def estimate(self, m: Match) -> float | None:
        """The estimated time of a match in nanoseconds; None if the backend gives no estimate."""
        return None if self._cost is None else self._cost(m)


@dataclass(frozen=True, slots=True)
class RegionView:
    """Region `index` as a backend lowers it.

    `matches` in the order they run, with their patterns; `inputs` come from outside (without
    constants), `outputs` are what others read: the lowering must write these and no others exist
    outside its own memory.
    """

    index: int
    matches: tuple[tuple[Pattern, Match], ...]
    inputs: tuple[ValueRef, ...]
    outputs: tuple[ValueRef, ...]

    def as_model(self) -> bytes:
        """The region as the file of a model of ONNX, for a vendor with a compiler of its own.

        Inputs are called i0, i1 …, outputs o0, o1 …; constants are initialisers.
        """
        nodes = [n.ir for _, m in self.matches for n in reversed(m.nodes)]
        return onnx_of(nodes, [v.ir for v in self.inputs], [v.ir for v in self.outputs])

    def places(
        self,
        align: int = 64,
        constants: bool = True,
        scratch: Callable[[Pattern, Match], int] = lambda pattern, m: 0,
    ) -> tuple[dict[str, int], int]:
        """(the offset of each value by name, bytes in all) in a memory of the vendor's own.

        The planner of the arena places the values, at multiples of `align` bytes. Inputs are there
        from the start on, constants too unless `constants` is False, results of the region to its
        end, and a view lies where its operand does. `scratch` is how many bytes a match needs while
        it runs; they are at `"NAME scratch"`, NAME that of its first result.
        """
        live = {v.name: [0, 0, _bytes(v)] for v in self.inputs}
        homes: dict[str, str] = {}
        for step, (pattern, m) in enumerate(self.matches):
            for _, v in m.inputs():
                if constants or not v.is_const:
                    live.setdefault(homes.get(v.name, v.name), [0, 0, _bytes(v)])[1] = step
            made = list(m.outputs())
            if is_view(m.root.ir):
                operand = str(m.root.ir.inputs[0].name)  # type: ignore[union-attr]
                homes[made[0].name] = homes.get(operand, operand)
                continue
            live |= {v.name: [step, step, _bytes(v)] for v in made}
            live[f"{made[0].name} scratch"] = [step, step, scratch(pattern, m)]
        for v in self.outputs:
            live[homes.get(v.name, v.name)][1] = len(self.matches)
        buffers = [
            Buffer(n, size, first, last + 1, align) for n, (first, last, size) in live.items()
        ]
        packed = pack(buffers)
        offsets = dict(packed.offsets)
        return offsets | {view: offsets[home] for view, home in homes.items()}, packed.height


def _bytes(value: ValueRef) -> int:
    """How many bytes the elements of a value take."""
    return math.prod(value.shape) * value.dtype.nbytes


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The user's options of a backend: `--backend NAME:CONFIG`, `--backend-option NAME.KEY=V`.

    `objective` and `requant` are those of the compilation, `machine` what the emulator of the
    target emulates ("" for a host).
    """

    config: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    objective: str = "latency"
    requant: str = "onnx"
    machine: str = ""

    def only(self, backend: str, known: Collection[str] = ()) -> None:
        """Raise UsageError for the first option that is none of those `known` of `backend`."""
        for key in (k for k in self.options if k not in known):
            hint = f"known: {', '.join(known)}" if known else f"{backend} has no options"
            where = f"--backend-option {backend}.{key}"
            raise UsageError(f"{backend} has no option {key!r}", where, meant(key, known, hint))


@dataclass(slots=True, eq=False)
class Backend:
    """A vendor's code generator.

    `header` and `sources` are C files in the backend's folder that the bundle carries; `link` a
    CMake target to link, `find` a CMake file in the folder that defines this target where it finds
    the library, and `hint` what to do when it does not; `keeps` operators that normalisation must
    leave alone; `speed` what `--partition cost` expects of it where nothing was measured.
    `definitions` are macros for the sources (`NAME=VALUE`), `memory` bytes of RAM that these take.
    `configure` makes the backend that a user asks for; without it there is nothing to ask.
    `systems` are those that its library exists for ("linux"; a board has "none"), () for any.
    `limits` are those of each region; a function given to `fits` may set others.
    `standin` is a condition of CMake under which the sources only check what they are given: then
    the portable fallback of a region runs behind its calls and computes what leaves it.
    `rewrites` are patterns whose matches are written in other words before anybody takes a node.
    `clean`, `invalidate` and `error` are C functions of `header` (docs/new-backend.md): around a
    region they are given what enters and leaves it, and they are told of what failed.
    `region_check` is what `fits` was given.
    """

    name: str
    header: str = ""
    sources: tuple[str, ...] = ()
    link: str = ""
    find: str = ""
    hint: str = ""
    keeps: tuple[str, ...] = ()
    folder: Path | None = None
    patterns: list[Pattern] = field(default_factory=list)
    speed: Speed | None = None
    definitions: tuple[str, ...] = ()
    memory: int = 0
    configure: Callable[[BackendOptions], Backend] | None = None
    clean: str = ""
    invalidate: str = ""
    error: str = ""
    systems: tuple[str, ...] = ()
    limits: Limits = UNLIMITED
    standin: str = ""
    rewrites: list[Pattern] = field(default_factory=list)
    points: int = 1
    _region: RegionLowering | None = None
    region_check: RegionCheck | None = None

    def __post_init__(self) -> None:
        """The folder is where the backend was written, unless it says otherwise.

        Raises BackendError for a name that the command line and C cannot have, for a field of
        another kind, and for a source that is not there.
        """
        if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", self.name):
            raise BackendError(f"a backend cannot be called {self.name!r}: no identifier")
        if not set(self.systems) <= set(SYSTEMS):
            what = f"backend {self.name}: systems={self.systems!r}: not some of {SYSTEMS}"
            raise BackendError(what)
        fits = {
            **{n: _NAME.fullmatch(getattr(self, n)) for n in ("error", "clean", "invalidate")},
            "link": re.fullmatch(r"[\w:.+-]*", self.link),
            "definitions": all(map(_MACRO.fullmatch, self.definitions)),
            "memory": self.memory >= 0,
            "speed": not self.speed or min(self.speed.macs_per_ns, self.speed.bytes_per_ns) > 0,
            "limits": all(v is None or v >= 0 for v in astuple(self.limits)),
            "keeps": isinstance(self.keeps, tuple),
        }
        for name in (n for n, ok in fits.items() if not ok):
            what = f"backend {self.name}: {name}={getattr(self, name)!r} does not fit"
            raise BackendError(what, hint="docs/new-backend.md says what each field is")
        if self.folder is None:
            self.folder = Path(sys._getframe(2).f_code.co_filename).parent
        for source in self.sources:
            if not (self.folder / source).is_file():
                raise BackendError(f"backend {self.name}: no {source} in {self.folder}")

    def pattern(self, function: Callable[..., Any]) -> Pattern:
        """Decorator: adds the pattern a function describes; its name is the function's.

        Warns (PatternWarning) of operators that normalise rewrites before patterns are matched.
        Raises BackendError if the function describes no pattern.
        """
        try:
            graph = trace(function)
        except Exception as error:
            raise BackendError(f"{self.name}.{function.__name__}: {error}") from error
        made = self.declare(function.__name__, graph, outputs=result_names(graph))
        # Headers that calls name are looked for beside the file that declares the pattern.
        made.folder = Path(function.__code__.co_filename).parent
        gone = [] if self.name == "c" else unseen(graph, self.keeps)
        if gone:
            text = f"pattern {made.backend}.{made.name} waits in vain: {'; '.join(gone)}"
            hint = "docs/canonical.md lists what vendors see"
            warnings.warn(f"{text} ({hint})", PatternWarning, stacklevel=2)
        return made

    def declare(
        self,
        name: str,
        graph: Any,
        *checks: Check,
        lower: Lowering | None = None,
        layouts: LayoutRule | None = None,
        cost: Callable[[Match], float] | None = None,
        cases: Cases | None = None,
        outputs: tuple[str, ...] = ("y",),
        **fields: Any,
    ) -> Pattern:
        """Add the pattern of a `graph` that was built from `OP` and `wildcard`.

        The functions are those that the decorators of a pattern take, `outputs` the names of the
        root's results, `fields` others of `Pattern`. Raises BackendError if a vendor has a pattern
        of this name.
        """
        # Portable C has one name for Resizes of 16 bits that move values and that compute them.
        if self.name != "c" and name in (p.name for p in self.patterns):
            raise BackendError(f"{self.name}.{name}: two patterns have this name")
        functions: dict[str, Any] = {"_lower": lower, "_layouts": layouts, "_cost": cost}
        functions |= {"_checks": [*checks], "_cases": [cases] if cases else []}
        own = {
            "folder": self.folder,
            "header": self.header,
            "region_lowering": self._region,
        } | fields
        self.patterns.append(Pattern(name, graph, self.name, outputs, **own, **functions))
        return self.patterns[-1]

    def rewrite(self, function: Callable[..., Any]) -> Pattern:
        """Decorator: a pattern whose matches become what `Pattern.becomes` makes of them."""
        self.rewrites.append(self.pattern(function))
        return self.patterns.pop()

    def region(self, function: RegionLowering) -> RegionLowering:
        """Decorator: lowers whole regions in place of the patterns' own lowerings.

        For libraries with memory of their own, or that compile a region to one object: values
        inside the region get no memory in the arena.
        """
        self._region = function
        for pattern in self.patterns:
            pattern.region_lowering = function
        return function

    def fits(self, function: RegionCheck) -> RegionCheck:
        """Decorator: a generator of (condition, reason why not) for a region that may be made.

        Regions are tried in any order and number: the answer depends on nothing else.
        """
        self.region_check = function
        return function

    def ordered(self) -> list[Pattern]:
        """The patterns in the order of trial: more operators first, then higher priority, then as
        declared.
        """
        return sorted(self.patterns, key=lambda p: (-p.size, -p.priority))
