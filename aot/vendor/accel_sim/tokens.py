# SPDX-License-Identifier: Apache-2.0
"""Tokens: as few as order what must be ordered.

Nodes are walked in program order. What a unit has been told to have completed is known as a
vector of counts; a token is given only for what is not known yet, and the latest of them first,
because it often tells the rest. So the tokens of a pair of units are taken in the order in which
they are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor import InternalError
from aot.vendor.accel_sim.isa import MAX_TOKENS
from aot.vendor.accel_sim.nodes import LANES, UNIT_OF, Node

Counts = list[int]
UNITS = 4
#: Every round makes some waits stricter; without a limit a fault in the rules would never end.
ROUNDS = 400


def _unit_needs(order: Sequence[Node]) -> list[Counts]:
    """For every node how many instructions of each unit must complete before it, by unit.

    Needs of its own unit are 0: a unit keeps order. InternalError if a node comes before what it
    needs.
    """
    numbers: list[list[int]] = [[0] for _ in range(LANES)]
    counts = [0] * UNITS
    found = []
    for node in order:
        needs = [0] * UNITS
        for lane, number in enumerate(node.needs):
            unit = UNIT_OF[lane]
            if number >= len(numbers[lane]):
                raise InternalError("accel_sim: a node comes before what it needs")
            if unit != node.unit:
                needs[unit] = max(needs[unit], numbers[lane][number])
        counts[node.unit] += 1
        numbers[node.lane].append(counts[node.unit])
        found.append(needs)
    return found


def tokens(order: Sequence[Node]) -> list[tuple[int, int]]:
    """(wait, signal) of every node in program order: masks of units whose tokens it takes and
    gives.

    InternalError if no assignment keeps every counter of tokens within its limit.
    """
    needs = _unit_needs(order)
    for _ in range(ROUNDS):
        walk = _Walk(order)
        for at, own in enumerate(needs):
            walk.step(at, own)
        late = walk.overflow()
        if not late:
            return list(zip(walk.waits, walk.signals, strict=True))
        for position, unit, number in late:
            needs[position][unit] = max(needs[position][unit], number)
    raise InternalError("accel_sim: no order of tokens that fits the counters")


class _Walk:
    """One pass: the clock after every instruction of every unit, tokens given and taken."""

    def __init__(self, order: Sequence[Node]) -> None:
        """Start before the first node: `clocks` are, per unit, what is known after each instruction
        of it.

        `taken` has, by (giver, taker), the pairs of instruction numbers between which a token goes.
        """
        self.order = order
        self.waits = [0] * len(order)
        self.signals = [0] * len(order)
        self.clocks: list[list[Counts]] = [[[0] * UNITS] for _ in range(UNITS)]
        self.before: list[list[Counts]] = [[[0] * UNITS] for _ in range(UNITS)]
        self.position: list[list[int]] = [[-1] for _ in range(UNITS)]
        self.taken: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def step(self, at: int, needs: Counts) -> None:
        """Go on to the node at position `at`: take tokens for `needs` that its unit does not know
        yet.

        Sets the masks in `waits` and `signals`.
        """
        unit = int(self.order[at].unit)
        clock = list(self.clocks[unit][-1])
        own = len(self.clocks[unit])
        # The latest need comes first: what its giver knew by then often includes the other needs.
        open_ = sorted(
            (u for u in range(UNITS) if u != unit and needs[u] > clock[u]),
            key=lambda u: -self.position[u][needs[u]],
        )
        for giver in open_:
            if needs[giver] > clock[giver]:
                number = needs[giver]
                self.waits[at] |= 1 << giver
                self.signals[self.position[giver][number]] |= 1 << unit
                self.taken.setdefault((giver, unit), []).append((number, own))
                clock = [max(a, b) for a, b in zip(clock, self.clocks[giver][number], strict=True)]
        self.before[unit].append(clock)
        after = list(clock)
        after[unit] = own
        self.clocks[unit].append(after)
        self.position[unit].append(at)

    def overflow(self) -> list[tuple[int, int, int]]:
        """(position of a node, unit, number it must know there) where a counter of tokens may
        overflow.

        More than MAX_TOKENS would wait if the taker were late; [] if that cannot happen.
        """
        late: list[tuple[int, int, int]] = []
        for (giver, taker), pairs in self.taken.items():
            for old, (number, _) in enumerate(pairs[MAX_TOKENS:]):
                by = pairs[old][1]
                if self.before[giver][number][taker] < by:
                    where = self.position[giver][number]
                    taking = self.position[taker][by]
                    if taking > where:
                        # The giver cannot wait for it; it takes the next token at once instead.
                        late.append((taking, giver, pairs[old + 1][0]))
                        break
                    late.append((where, taker, by))
        return late
