# SPDX-License-Identifier: Apache-2.0
"""Cascades: layers that are computed row by row in turn, with few rows of the tensors between them.

The steps of the last layer are asked for one after another; each first asks for the steps of the
members before it that make the rows it reads. The order alone says how many rows of a tensor must
be there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aot.vendor.accel_sim.layers import Tiling, first_row, rows_read, windowed
from aot.vendor.accel_sim.network import Layer
from aot.vendor.accel_sim.places import Plan

Rows = tuple[int, int]
#: By number of the layer.
Tilings = Sequence[Tiling] | Mapping[int, Tiling]


def rows_needed(plan: Plan, layer: Layer, index: int, first: int, last: int) -> Rows:
    """(first, end) of the rows of tensor `index` that rows `first` to `last` - 1 of the output
    read.

    The tensor may be several operands of `layer`: the range holds the rows of each. The result is
    in rows of that tensor, within its height.
    """
    t = plan.tensors[index]
    operands = [n for n, other in enumerate(layer.inputs) if other == index]
    low, high = t.height, 0
    for n in operands:
        low = min(low, first_row(layer, n, t, first))
        high = max(high, rows_read(layer, n, t, last))
    return min(low, high), high


def steps_of(height: int, tiling: Tiling) -> list[Rows]:
    """(first, end) of the output rows of every step of a layer with `height` rows, in order."""
    size = tiling.step(height)
    return [(at, min(at + size, height)) for at in range(0, height, size)]


@dataclass(slots=True)
class Cascade:
    """The order of steps of a group of layers (`members` are their numbers, in order).

    `ahead`: everyone is a step ahead of what is read, so that nobody waits for the last results.
    """

    plan: Plan
    members: Sequence[int]
    tilings: Tilings
    ahead: bool = False
    at: dict[int, int] = field(default_factory=dict)
    known: dict[int, list[Rows]] = field(default_factory=dict)

    def layer(self, member: int) -> Layer:
        """The layer with the number `member` in the plan."""
        return self.plan.layers[member]

    def steps(self, member: int) -> list[Rows]:
        """Rows (first, end) of the output that each step of a layer makes, in order.

        `member` is the layer's number in the plan; its tiling says how many rows a step makes.
        """
        if member not in self.known:
            y = self.plan.tensors[self.layer(member).output]
            self.known[member] = steps_of(y.height, self.tilings[member])
        return self.known[member]

    def maker(self, index: int) -> int | None:
        """The number of the member whose output is tensor `index`; None if no member makes that
        tensor.
        """
        return next((m for m in self.members if self.layer(m).output == index), None)

    def made(self, member: int) -> int:
        """How many rows of its output a member has made so far, by the steps that `at` counts."""
        done = self.at.get(member, 0)
        return self.steps(member)[done - 1][1] if done else 0

    def low(self, index: int) -> int:
        """The first row of tensor `index` that the next step of some member still reads.

        The tensor's height if no member reads the tensor any more.
        """
        found = self.plan.tensors[index].height
        for m in self.members:
            layer, done = self.layer(m), self.at.get(m, 0)
            steps = self.steps(m)
            if index in layer.inputs and done < len(steps):
                found = min(found, rows_needed(self.plan, layer, index, *steps[done])[0])
        return found

    def order(self) -> Iterator[tuple[int, int]]:
        """(member, number of its step) in the order of the program; `at` counts the steps as they
        come.

        The steps of the last member pull those of the members before. Steps that nothing in the
        cascade has asked for follow where a member's result is also read by a layer outside.
        """
        last = self.members[-1]
        for _ in self.steps(last):
            yield from self._ask(last)
        for m in self.members[:-1]:
            # A layer outside reads whole results, also rows that no member of the cascade needs.
            inside = all(
                n in self.members
                for n, other in enumerate(self.plan.layers)
                if self.layer(m).output in other.inputs
            )
            while not inside and self.at.get(m, 0) < len(self.steps(m)):
                yield from self._ask(m)

    def _ask(self, member: int) -> Iterator[tuple[int, int]]:
        """The next step of `member`, behind the steps of other members that make the rows it reads.

        With `ahead` the other members make one step more than is needed. Yields (member, step) and
        counts it.
        """
        layer, number = self.layer(member), self.at.get(member, 0)
        step = self.steps(member)[number]
        for index in dict.fromkeys(layer.inputs):
            maker = self.maker(index)
            high = rows_needed(self.plan, layer, index, *step)[1]
            if maker is not None and self.ahead:
                high = min(high + self.steps(maker)[0][1], self.steps(maker)[-1][1])
            while maker is not None and self.made(maker) < high:
                yield from self._ask(maker)
        yield member, number
        self.at[member] = number + 1


def rings(
    plan: Plan,
    members: Sequence[int],
    tilings: Tilings,
    passing: Sequence[int],
    single: bool,
    ahead: bool = False,
) -> dict[int, int]:
    """The number of rows of each tensor of `passing` that SPM must hold while the cascade runs, by
    tensor.

    The order of steps is played: a ring holds the rows from the first one that is still read to the
    last one that was made or loaded. Tensors from and to the system get room for the rows of
    another step unless `single`, so that moving and computing overlap. No ring is higher than its
    tensor.
    """
    cascade = Cascade(plan, members, tilings, ahead)
    found = dict.fromkeys(passing, 1)
    for member, number in cascade.order():
        layer = cascade.layer(member)
        first, last = cascade.steps(member)[number]
        for index in passing:
            if index in layer.inputs and cascade.maker(index) is None:
                high = rows_needed(plan, layer, index, first, last)[1]
                found[index] = max(found[index], high - cascade.low(index))
            elif index == layer.output:
                low = cascade.low(index)
                read = low if any(index in cascade.layer(m).inputs for m in members) else first
                found[index] = max(found[index], last - min(read, first))
    for index in passing:
        # With room for a second step a load or store of one step runs beside the other's sums.
        extra = 0
        for m in members:
            layer = cascade.layer(m)
            rows = tilings[m].step(plan.tensors[layer.output].height)
            if index in layer.inputs and cascade.maker(index) is None:
                extra = max(extra, rows * (layer.window.sh if windowed(layer, index) else 1))
            elif index == layer.output and len(members) == 1:
                extra = rows
        found[index] = min(plan.tensors[index].height, found[index] + (0 if single else extra))
    return found
