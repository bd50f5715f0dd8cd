# SPDX-License-Identifier: Apache-2.0
"""The order of the calls that needs the least memory.

Exact: a bottleneck shortest path over the sets of calls done (down-sets of the dependences). A
ready call that raises neither the peak nor the live bytes is taken alone, and no state whose peak
reaches the best order known is followed. Beyond the step budget a beam search gives a good order.
The program's own order wins ties.

Memory model: roots of the arena live from first to last use, scratch during its call; a permitted
in-place result takes no space beside an operand that dies. The alias decision of the planner
(aot/memory/alias.py) can differ in corner cases, so orders are compared by its count of live bytes
and "optimal" is only claimed where both agree.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.memory.alias import decide
from aot.memory.live import ARENA_ROLES, Use, Uses, uses_of
from aot.program import Program, Role, Tensor

#: Evaluations of (state, ready call) spent at most, by the exact search and by the beam each.
EFFORT = 50_000
#: Ready calls that the beam looks at from either end once its effort is used up.
FEW = 40

#: The calls of an order, last first: (call, the ones before).
Path = tuple[int, "Path | None"] | None


def schedule(program: Program, effort: int = EFFORT) -> Program:
    """`program` with its calls in the best order found; `schedule_optimal` if that is proven."""
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


def _finish(program: Program, other: Program, graph: _Graph, proven: int) -> Program:
    """The better of two orders; `proven` is the least peak of the model (-1: unknown)."""
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
        size = -(-group.size // group.align) * group.align
        for t in range(group.start, group.end):
            live[t] += size
    return max(live)


@dataclass(frozen=True, slots=True)
class _State:
    """A set of calls done: the way there, its peak, what is live after it, what may come next."""

    done: int
    peak: int
    live: int
    ready: tuple[int, ...]
    path: Path

    def order(self) -> list[int]:
        """The calls done, first to last."""
        found, path = [], self.path
        while path is not None:
            found.append(path[0])
            path = path[1]
        return found[::-1]


@dataclass(frozen=True, slots=True)
class _Graph:
    """Calls 0..n-1; sets of calls are bit sets.

    `preds[v]` must precede call v; `users[r]` touch root r of `size[r]` bytes; call v touches
    `roots[v]`, needs `scratch[v]` bytes besides, and may put a root over another as `reuse[v]`
    (result, operand) permits. `faithful`: in-place results never reach into a root that several
    calls write, and no call has two of them, so that the model never overestimates.
    """

    preds: list[int]
    succs: list[list[int]]
    users: list[int]
    size: list[int]
    roots: list[list[int]]
    scratch: list[int]
    reuse: list[list[tuple[int, int]]]
    faithful: bool

    def evaluate(self, state: _State, v: int) -> tuple[int, int]:
        """(bytes live during call v, bytes live after it) when it comes next."""
        done, size, users = state.done, self.size, self.users
        left = ~(done | 1 << v)
        new = dead = 0
        for r in self.roots[v]:
            u = users[r]
            if not u & done:
                new += size[r]
            if not u & left:
                dead += size[r]
        step = state.live + new + self.scratch[v]
        taken: list[int] = []
        for o, i in self.reuse[v]:
            fresh = not users[o] & done and not users[i] & left
            if fresh and o not in taken and i not in taken:
                taken += [o, i]
                step -= size[o]
        return step, state.live + new - dead

    def after(self, state: _State, v: int, step: int, live: int) -> _State:
        """The state that follows when call v, which needs `step` bytes, comes next."""
        done = state.done | 1 << v
        ready = [w for w in state.ready if w != v]
        ready += [w for w in self.succs[v] if not self.preds[w] & ~done]
        return _State(done, max(state.peak, step), live, tuple(sorted(ready)), (v, state.path))

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
        """What some call needs in every order: its own roots and scratch."""
        needs = [0]
        for v, roots in enumerate(self.roots):
            results = {o: self.size[o] for o, _ in self.reuse[v]}
            saved = sum(results.values())
            needs.append(sum(self.size[r] for r in roots) + self.scratch[v] - saved)
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
    """The best order with a peak below `upper`, unless `effort` evaluations are used up."""
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
    """`state` after all calls that cost nothing, and the evaluations spent."""
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
    """A good order with a peak below `upper`, None if the beam meets none.

    The beam is as wide as the evaluations left allow, at least one state.
    """
    states = [graph.start(graph.bound())]
    for level in range(len(graph.preds)):
        best: dict[int, tuple[int, int, _State, int]] = {}
        spent = 0
        for state in states:
            ready = state.ready
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
        width = max(1, effort // (each * (len(graph.preds) - level)))
        chosen = sorted(best.values(), key=lambda s: s[:2])[:width]
        states = [graph.after(state, v, peak, live) for peak, live, state, v in chosen]
    return states[0].order() if states else None


def _graph(program: Program) -> _Graph:
    uses = uses_of(program)
    n = len(program.calls)
    names = [r for r in uses.by_root if program.tensors[r].role is Role.TEMP]
    index = {r: k for k, r in enumerate(names)}
    roots: list[list[int]] = [[] for _ in range(n)]
    users = [0] * len(names)
    scratch = [0] * n
    for root, found in uses.by_root.items():
        tensor = program.tensors[root]
        if tensor.role not in ARENA_ROLES:
            continue
        for v in dict.fromkeys(u.call for u in found):
            if root in index:
                users[index[root]] |= 1 << v
                roots[v].append(index[root])
            else:
                scratch[v] += _stored(tensor)
    reuse = [_reuse(program, uses, index, v) for v in range(n)]
    preds = _dependences(uses, n)
    return _Graph(
        preds,
        _reversed(preds),
        users,
        [_stored(program.tensors[r]) for r in names],
        roots,
        scratch,
        reuse,
        _faithful(uses, names, reuse),
    )


def _stored(tensor: Tensor) -> int:
    """Bytes in the arena."""
    return -(-tensor.nbytes // tensor.align) * tensor.align


def _faithful(uses: Uses, names: Sequence[str], reuse: Sequence[Sequence[tuple[int, int]]]) -> bool:
    for pairs in reuse:
        if len({o for o, _ in pairs}) > 1:
            return False
        for o, _ in pairs:
            if len({u.call for u in uses.by_root[names[o]] if u.writes}) > 1:
                return False
    return True


def _reuse(program: Program, uses: Uses, index: dict[str, int], v: int) -> list[tuple[int, int]]:
    """(result, operand) roots that call v may put at one address once the operand dies."""
    own = uses.root_of[v]
    found = []
    for out, inp in program.calls[v].inplace:
        if out not in own or inp not in own:
            continue
        (above, o), (below, i) = own[out], own[inp]
        if above == below or above not in index or below not in index:
            continue
        reads = [u for root, u in own.values() if root == below]
        alone = all(u.begin == i.begin and not u.writes for u in reads)
        if alone and o.end - o.begin <= i.end - i.begin:
            found.append((index[above], index[below]))
    return found


def _dependences(uses: Uses, n: int) -> list[int]:
    """For every call the earlier calls it must follow: they touch the same bytes, one writing."""
    preds = [0] * n
    for found in uses.by_root.values():
        writes: list[Use] = []
        reads: list[Use] = []
        for use in found:
            for other in writes if not use.writes else writes + reads:
                if other.call != use.call and other.meets(use.begin, use.end):
                    preds[use.call] |= 1 << other.call
            (writes if use.writes else reads).append(use)
    return preds


def _reversed(preds: Sequence[int]) -> list[list[int]]:
    succs: list[list[int]] = [[] for _ in preds]
    for w, before in enumerate(preds):
        while before:
            lowest = before & -before
            succs[lowest.bit_length() - 1].append(w)
            before ^= lowest
    return succs
