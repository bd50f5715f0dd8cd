# SPDX-License-Identifier: Apache-2.0
"""The order of the calls that needs the least memory.

Exact: a bottleneck shortest path over the sets of calls done (down-sets of the dependences). A
ready call that raises neither the peak nor the live bytes is taken alone, and no state whose peak
reaches the best order known is followed. Beyond the step budget a beam search gives a good order.
The program's own order wins ties. The calls of a vendor's region stay in a row.

Memory model: bytes of the arena live from first to last use, scratch during its call; a permitted
in-place result takes no space beside an operand that dies. The alias decision of the planner
(aot/plan/memory/alias.py) can differ in corner cases, so orders are compared by its count of live
bytes and "optimal" is only claimed where both agree.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.errors import UnsupportedError
from aot.ir.program import Program, Role, Tensor
from aot.plan.memory.alias import decide
from aot.plan.memory.frame import framed, is_framed, unframed
from aot.plan.memory.live import Use, Uses, segments, total_live_steps, uses_of

#: Evaluations of (state, ready call) spent at most, by the exact search and by the beam each.
EFFORT = 50_000
#: Calls beyond which the program's own order is kept: sets of calls are bit sets of that length.
MOST_CALLS = 4096
#: Steps that all values may live together (MobileNetV2: 300; a chain of n calls: 2 n).
MOST_LIVE_STEPS = 10_000_000
#: Ready calls that the beam looks at from either end once its effort is used up.
FEW = 40

#: The calls of an order, last first: (call, the ones before).
Path = tuple[int, "Path | None"] | None


def schedule(program: Program, effort: int = EFFORT) -> Program:
    """`program` with its calls in the best order found; `schedule_optimal` if that is proven.

    Raises UnsupportedError if the values live more than MOST_LIVE_STEPS steps in all.
    """
    steps = total_live_steps(framed(program))
    if steps > MOST_LIVE_STEPS:
        what = f"the values of {len(program.calls)} calls live {steps} steps in all"
        hint = "inputs and outputs live as long as any: --io caller"
        raise UnsupportedError(
            f"{what} (limit {MOST_LIVE_STEPS}): too much to plan",
            hint=hint if program.io == "arena" else "",
        )
    return unframed(_schedule(framed(program, cyclic=False), effort))


def _schedule(program: Program, effort: int) -> Program:
    """`program` with its calls in the order with the least peak of live bytes that is found.

    The given order stays if it reaches the lower bound, if a proof shows that no order is better,
    or if nothing better is found. An exact search comes first; where it needs more than `effort`
    evaluations, a beam search follows, whose result is not proven optimal.
    """
    if len(program.calls) > MOST_CALLS:
        return replace(program, schedule_optimal=_is_forced(program))
    graph = _graph(program)
    peak, bound = graph.peak(range(len(program.calls))), graph.bound()
    if peak <= bound:
        return _finish(program, program, graph, peak)
    found = _exact(graph, bound, peak, effort)
    if found.order is None and found.proven:
        return _finish(program, program, graph, peak)
    order = found.order or _beam(graph, peak, effort)
    if order is None:
        return _finish(program, program, graph, -1)
    other = replace(program, calls=tuple(program.calls[v] for v in order))
    return _finish(program, other, graph, graph.peak(order) if found.proven else -1)


def _is_forced(program: Program) -> bool:
    """Whether every call reads what the one before it wrote: there is one order only."""
    pairs = zip(program.calls, program.calls[1:], strict=False)
    return all(not set(a.writes()).isdisjoint(b.reads()) for a, b in pairs)


def _finish(program: Program, other: Program, graph: _Graph, proven: int) -> Program:
    """The order of two whose peak of live bytes is lower.

    `proven` is the least peak that any order has in bytes, -1 if unknown: with it the order is
    marked as optimal.
    """
    need = _live_bytes(other)
    if other is not program:
        before = _live_bytes(program)
        if before <= need:
            other, need = program, before
    return replace(other, schedule_optimal=graph.faithful and need == proven)


def _live_bytes(program: Program) -> int:
    """The most bytes live at one time with the planner's own aliases."""
    live = [0] * (len(program.calls) + 1)
    for group in decide(program).groups:
        for t, height in enumerate(group.size_profile, group.start):
            live[t] += height
    return max(live)


@dataclass(frozen=True, slots=True)
class _State:
    """A set of calls done: the way there, its peak, what is live after it, what may come next.

    `held` could come next, but for a vendor's region that is under way: its calls follow in a row.
    """

    done: int
    peak: int
    live: int
    ready: tuple[int, ...]
    path: Path
    held: tuple[int, ...] = ()

    def order(self) -> list[int]:
        """The calls done, first to last."""
        found, path = [], self.path
        while path is not None:
            found.append(path[0])
            path = path[1]
        return found[::-1]


@dataclass(frozen=True, slots=True)
class _Reuse:
    """A result may lie on an operand: `saved` bytes, if no call of the set `before` is done yet
    (they touch the result) and none of `after` is left (they touch the operand's root).
    """

    result: str
    operand: str
    before: int
    after: int
    saved: int


@dataclass(frozen=True, slots=True)
class _Graph:
    """Calls 0..n-1; sets of calls are bit sets.

    `preds[v]` must precede call v; `users[r]` touch segment r of `size[r]` bytes; call v touches
    the segments `parts[v]`, needs `scratch[v]` bytes besides, and may put results over operands as
    `reuse[v]` permits. `region[v]` is the vendor's region of call v (-1: none), `inside` its calls.
    `faithful`: no call has several results to put in place, so that the model never overestimates.
    """

    preds: list[int]
    succs: list[list[int]]
    users: list[int]
    size: list[int]
    parts: list[list[int]]
    scratch: list[int]
    reuse: list[list[_Reuse]]
    faithful: bool
    region: list[int]
    inside: dict[int, int]

    def evaluate(self, state: _State, call: int) -> tuple[int, int]:
        """(bytes live during `call`, bytes live after it) if it comes next in `state`.

        Roots that the call touches first are new, those that no later call touches are dead.
        Scratch counts during the call; a result that takes the place of an operand counts once.
        """
        done, size, users = state.done, self.size, self.users
        left = ~(done | 1 << call)
        # Bytes of a root count from its first toucher to its last, in the order tried.
        new = dead = 0
        for r in self.parts[call]:
            u = users[r]
            if not u & done:
                new += size[r]
            if not u & left:
                dead += size[r]
        step = state.live + new + self.scratch[call]
        taken: list[str] = []
        # A result in the place of an operand is counted once, and each operand is taken once.
        for reuse in self.reuse[call]:
            free = not reuse.before & done and not reuse.after & left
            if free and reuse.result not in taken and reuse.operand not in taken:
                taken += [reuse.result, reuse.operand]
                step -= reuse.saved
        return step, state.live + new - dead

    def after(self, state: _State, call: int, step: int, live: int) -> _State:
        """The state that follows when `call` comes next, which needs `step` bytes and leaves
        `live`.

        Calls of a region follow each other: while one is begun, ready calls of others are held
        back.
        """
        done = state.done | 1 << call
        ready = [w for w in (*state.ready, *state.held) if w != call]
        ready += [w for w in self.succs[call] if not self.preds[w] & ~done]
        ready.sort()
        held: list[int] = []
        if self.inside.get(self.region[call], 0) & ~done:
            held = [w for w in ready if self.region[w] != self.region[call]]
            ready = [w for w in ready if self.region[w] == self.region[call]]
        peak, path = max(state.peak, step), (call, state.path)
        return _State(done, peak, live, tuple(ready), path, tuple(held))

    def start(self, peak: int) -> _State:
        """Nothing done; no order has a peak below `peak`."""
        ready = tuple(v for v, p in enumerate(self.preds) if not p)
        return _State(0, peak, 0, ready, None)

    def peak(self, order: Sequence[int]) -> int:
        """The peak of one order."""
        state = _State(0, 0, 0, (), None)
        for v in order:
            step, live = self.evaluate(state, v)
            state = _State(state.done | 1 << v, max(state.peak, step), live, (), None)
        return state.peak

    def bound(self) -> int:
        """What some call needs in every order: its own segments and scratch."""
        needs = [0]
        for v, parts in enumerate(self.parts):
            saved = sum({r.result: r.saved for r in self.reuse[v]}.values())
            needs.append(sum(self.size[r] for r in parts) + self.scratch[v] - saved)
        return max(needs)

    def choices(self, state: _State, ready: Sequence[int]) -> list[tuple[int, int, int]]:
        """(call, bytes during it, bytes after it) for `ready`; a call that costs nothing alone."""
        found = []
        for v in ready:
            step, live = self.evaluate(state, v)
            if step <= state.peak and live <= state.live:
                return [(v, step, live)]
            found.append((v, step, live))
        return found


@dataclass(frozen=True, slots=True)
class _Found:
    """`order` better than the one given (None: there is none if `proven`, else unknown)."""

    order: list[int] | None
    proven: bool


def _exact(graph: _Graph, bound: int, upper: int, effort: int) -> _Found:
    """The best order with a peak below `upper` bytes, unless `effort` evaluations are used up.

    The search is best-first over sets of calls that are done (bits of an integer): the set with the
    least peak so far is continued, of equal ones the larger. Every call that never raises the peak
    is taken at once (`_take_harmless`). The result has no order if none is below `upper` (then it
    is proven) or if the effort ran out.
    """
    full = (1 << len(graph.preds)) - 1
    state = graph.start(bound)
    heap: list[tuple[int, int, int, _State, int, int]] = []
    seen = {0: bound}
    closed: set[int] = set()
    pushed = steps = 0
    while True:
        if state.done not in closed:
            closed.add(state.done)
            before = state.done
            state, spent = _take_harmless(graph, state)
            steps += spent
            if state.done == full:
                return _Found(state.order(), True)
            # Harmless calls may lead to a set that was continued before.
            known = state.done != before and state.done in closed
            closed.add(state.done)
            for v in () if known else state.ready:
                step, live = graph.evaluate(state, v)
                peak, done = max(state.peak, step), state.done | 1 << v
                if peak < upper and seen.get(done, upper) > peak:
                    seen[done] = peak
                    pushed += 1
                    heapq.heappush(heap, (peak, -done.bit_count(), pushed, state, v, live))
            steps += len(state.ready)
        if not heap or steps > effort:
            return _Found(None, not heap)
        peak, _, _, parent, v, live = heapq.heappop(heap)
        state = graph.after(parent, v, peak, live)


def _take_harmless(graph: _Graph, state: _State) -> tuple[_State, int]:
    """(`state` after all calls that neither raise the peak nor leave more bytes live, evaluations
    spent).
    """
    spent = 0
    progress = True
    while progress:
        progress = False
        for v in state.ready:
            spent += 1
            step, live = graph.evaluate(state, v)
            if step <= state.peak and live <= state.live:
                state = graph.after(state, v, step, live)
                progress = True
                break
    return state, spent


def _beam(graph: _Graph, upper: int, effort: int) -> list[int] | None:
    """An order of all calls whose peak is below `upper` bytes of live arena, or None if none is
    found.

    The order lists numbers of calls, first to last. `effort` is the number of evaluations that may
    be spent; one evaluation prices one ready call after one set of calls that are done. At each
    level one more call is done. Of equal sets the one with the lower peak, then the fewer live
    bytes, stays; as many sets are kept as the effort left allows, at least one. When no effort is
    left, only the first and last FEW ready calls are tried.
    """
    states = [graph.start(graph.bound())]
    for level in range(len(graph.preds)):
        best: dict[int, tuple[int, int, _State, int]] = {}
        # One state per set of finished calls: of two, the lower peak can only be the better one.
        spent = 0
        for state in states:
            ready = state.ready
            # Without effort left only the ends of the list are tried: near the start are the oldest
            # calls.
            if not effort and len(ready) > 2 * FEW:
                ready = ready[:FEW] + ready[-FEW:]
            spent += len(ready)
            for v, step, live in graph.choices(state, ready):
                done, peak = state.done | 1 << v, max(state.peak, step)
                known = best.get(done)
                if peak < upper and (known is None or (peak, live) < known[:2]):
                    best[done] = (peak, live, state, v)
        effort = max(0, effort - spent)
        each = 1 + spent // max(1, len(states))
        # What is left of the effort is spread evenly over the levels to come.
        width = max(1, effort // (each * (len(graph.preds) - level)))
        chosen = sorted(best.values(), key=lambda s: s[:2])[:width]
        states = [graph.after(state, v, peak, live) for peak, live, state, v in chosen]
    return states[0].order() if states else None


def _graph(program: Program) -> _Graph:
    """The calls of a program as a graph: who precedes whom, and which bytes live between which
    calls.

    Bit sets have a bit per call. `users` and `size` (bytes) describe stretches of tensors that live
    and die together.
    """
    uses = uses_of(program)
    n = len(program.calls)
    parts: list[list[int]] = [[] for _ in range(n)]
    users: list[int] = []
    size: list[int] = []
    scratch = [0] * n
    for root, found in uses.by_root.items():
        tensor = program.tensors[root]
        stored = -(-tensor.nbytes // tensor.align) * tensor.align
        if tensor.role is Role.SCRATCH:
            scratch[found[0].call] += stored
        if tensor.role is not Role.TEMP:
            continue
        for begin, end, _, _ in segments(found, tensor.nbytes):
            calls = dict.fromkeys(u.call for u in found if u.meets(begin, end))
            for v in calls:
                parts[v].append(len(users))
            users.append(sum(1 << v for v in calls))
            size.append((stored if end == tensor.nbytes else end) - begin)
    reuse = [_reuse(program, uses, v) for v in range(n)]
    region = [c.region for c in program.calls]
    inside = {r: _set({v for v in range(n) if region[v] == r}) for r in sorted(set(region) - {-1})}
    fixed = {c.region for c in program.calls if not c.writes()}
    preds = _in_a_row(dependences(uses, n), region, inside, fixed)
    faithful = all(len({r.result for r in found}) < 2 for found in reuse)
    if is_framed(program):  # the two calls stay where they are
        preds = [p | 1 for p in preds]
        preds[0], preds[-1] = 0, (1 << n - 1) - 1
        faithful = faithful and not program.carried
    succs = reversed_sets(preds)
    return _Graph(preds, succs, users, size, parts, scratch, reuse, faithful, region, inside)


def _in_a_row(
    preds: Sequence[int],
    region: Sequence[int],
    inside: Mapping[int, int],
    fixed: Container[int],
) -> list[int]:
    """Every call of a region follows all that any of them needs from outside.

    Regions in `fixed` have calls that write no tensor (a vendor's queue): all stay in order.
    """
    needs = dict.fromkeys(inside, 0)
    for v, r in enumerate(region):
        if r >= 0:
            needs[r] |= preds[v] & ~inside[r]
    found = [p | needs.get(region[v], 0) for v, p in enumerate(preds)]
    for v, r in enumerate(region):
        if r >= 0 and r in fixed:
            found[v] |= inside[r] & ((1 << v) - 1)
    return found


def _reuse(program: Program, uses: Uses, call: int) -> list[_Reuse]:
    """The results of call number `call` that may take the place of an operand, in whatever order
    calls run.
    """
    own = uses.root_of[call]
    found = []
    for out, inp in program.calls[call].inplace:
        if out not in own or inp not in own:
            continue
        (above, o), (below, i) = own[out], own[inp]
        roles = {program.tensors[above].role, program.tensors[below].role}
        if above == below or roles != {Role.TEMP} or o.end - o.begin > i.end - i.begin:
            continue
        reads = [u for root, u in own.values() if root == below]
        # Others may read parts of the operand in this very call: then nothing may be overwritten.
        if all(u.begin == i.begin and not u.writes for u in reads):
            before = {u.call for u in uses.by_root[above] if u.meets(o.begin, o.end)}
            after = {u.call for u in uses.by_root[below]}
            saved = _saved(program.tensors[above], o)
            found.append(_Reuse(f"{above}+{o.begin}", below, _set(before), _set(after), saved))
    return found


def _saved(tensor: Tensor, use: Use) -> int:
    """Bytes of the arena that `use` of a root stands for."""
    end = -(-use.end // tensor.align) * tensor.align if use.end == tensor.nbytes else use.end
    return end - use.begin


def _set(calls: set[int]) -> int:
    return sum(1 << v for v in sorted(calls))


def dependences(uses: Uses, count: int) -> list[int]:
    """For every call the bit set of earlier calls it must follow: both touch a byte and one writes
    it.
    """
    preds = [0] * count
    for found in uses.by_root.values():
        writes: list[Use] = []
        reads: list[Use] = []
        for use in found:
            for other in writes if not use.writes else writes + reads:
                if other.call != use.call and other.meets(use.begin, use.end):
                    preds[use.call] |= 1 << other.call
            (writes if use.writes else reads).append(use)
    return preds


def reversed_sets(preds: Sequence[int]) -> list[list[int]]:
    """For every call the calls that must follow it; `preds` are bit sets of calls before."""
    succs: list[list[int]] = [[] for _ in preds]
    for w, before in enumerate(preds):
        while before:
            lowest = before & -before
            succs[lowest.bit_length() - 1].append(w)
            before ^= lowest
    return succs
