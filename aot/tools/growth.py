# SPDX-License-Identifier: Apache-2.0
"""How differences of quantised values grow from layer to layer when nothing is put back.

Layers that agree one by one may still give a network other results: a quantised value that rounds
the other way moves the values behind it, and a layer with large weights multiplies the move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import one_line
from aot.ir.graph_nodes import Array
from aot.ir.node_traits import trait_named
from aot.ir.value_traits import Dequantises, Quantises
from aot.ops.registry import load_all
from aot.tools.compare import Difference
from aot.tools.layerwise import QUANTISED, Key, Written, dumped

#: How many layers the text names as those in which the difference grows most.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Step:
    """How the quantised values that one call writes differ from the reference's.

    Both networks run end to end. `different` of `size` quantised values differ, by at most
    `largest` steps of the scale; `alone` is the largest difference, in the same steps, where the
    same call is fed the reference's values. `before` names the nearest values
    with differences from which the call computes; it is empty where the difference comes from the
    call itself, or from floats before it.
    """

    value: str
    op: str
    size: int
    different: int
    largest: int
    alone: int
    before: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of the quantised values that differ, 0 to 1."""
        return self.different / self.size if self.size else 0.0

    def text(self) -> str:
        """The value, the operators and the size of the difference."""
        count = (
            f"{self.different} of {self.size} quantised values differ ({100 * self.share:.3f} %)"
        )
        return f"{one_line(self.value)} ({one_line(self.op)}): {count}, by at most {self.largest}"


@dataclass(frozen=True, slots=True)
class Growth:
    """The `steps` (one at least, in the order of calls) from the first quantised value that differs
    to the `outputs` that differ, of the sample `label`.
    """

    label: str
    steps: tuple[Step, ...]
    outputs: tuple[Difference, ...]

    @property
    def largest(self) -> tuple[int, float]:
        """(in quantised steps, the largest difference of any call; the largest share, 0 to 1, of
        its quantised values that differ)."""
        return max(s.largest for s in self.steps), max(s.share for s in self.steps)

    def gain(self, step: Step) -> tuple[int, float]:
        """By how much the largest difference (in quantised steps) and the share of values that
        differ (0 to 1) of `step` exceed those of the values in `step.before`."""
        before = [s for s in self.steps if s.value in step.before]
        return (
            step.largest - max((s.largest for s in before), default=0),
            step.share - max((s.share for s in before), default=0.0),
        )

    def most(self) -> tuple[Step, ...]:
        """The layers in which the difference grows most, at most SHOWN, in the order of calls."""
        gains = {s.value: self.gain(s) for s in self.steps if s.before}
        growing = sorted((v for v in gains if gains[v] > (0, 0.0)), key=lambda v: gains[v])
        return tuple(s for s in self.steps if s.value in growing[-SHOWN:])

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "sample": self.label,
            "first": self.steps[0].value,
            "layers": [{**asdict(s), "share": s.share} for s in self.steps],
            "grows_most": [s.value for s in self.most()],
            "outputs": [d.record() for d in self.outputs],
        }

    def text(self, verbose: bool = False) -> str:
        """A few lines: the first layer, those in which the difference grows most (all layers if
        verbose), the outputs.
        """
        own, most = sum(s.alone > 0 for s in self.steps), self.most()
        shown = self.steps[1:] if verbose else most
        lines = [
            f"end to end the difference begins in {self.steps[0].text()}",
            *(f"  {'it grows' if s in most else 'then'} in {s.text()}" for s in shown),
            *(f"  it reaches {one_line(d.name)}: max abs {d.max_abs:.3g}" for d in self.outputs),
            f"  layers that differ when fed the reference's values: {own} of {len(self.steps)}",
        ]
        if not self.steps[0].alone:
            origin = "floats before it are rounded another way"
            lines.append(f"  the layer in which it begins does not: {origin}")
        return "\n".join(lines)


def explained(growths: Sequence[Growth], verbose: bool = False) -> str:
    """The lines of the sample with the largest difference, and how many other samples differ."""
    worst = max(growths, key=lambda g: g.largest)
    label = f"sample {one_line(worst.label)}: " if worst.label else ""
    more = f"\n  other samples that differ, too: {len(growths) - 1} (--json shows them)"
    return label + worst.text(verbose) + (more if len(growths) > 1 else "")


def grown(
    nodes: Iterable[Mapping[str, Any]],
    values: Mapping[Key, Written],
    folder: Path,
    theirs: Mapping[str, Array],
    alone: Mapping[str, float],
) -> tuple[Step, ...]:
    """The steps from the first quantised value that differs on, in the order of calls.

    `nodes` are the calls of a manifest, `values` those with a counterpart in `theirs`, the
    reference's arrays by name. `folder` holds the dump of a trace program that put nothing back.
    `alone` has the largest difference of each value whose call was fed the reference's values. A
    value that follows from others that differ is a step even where all its elements are equal.
    """
    files = dict(dumped(folder))
    reached: dict[int, tuple[str, ...]] = {}  # by call, the values with differences that it leaves
    steps: list[Step] = []
    for call, node in enumerate(nodes):
        makers = (i for read in node.get("reads", ()) for i in read["calls"])
        before = tuple(dict.fromkeys(v for i in makers for v in reached.get(i, ())))
        found = []
        for k, _ in enumerate(node.get("writes", ())):
            w = values.get((call, k))
            if w is None or w.dtype not in QUANTISED or (call, k) not in files:
                continue
            expected = w.part(np.asarray(theirs[w.value])).astype(np.int64)
            gaps = np.abs(w.read(files[call, k]).astype(np.int64) - expected)
            different, largest = int(np.count_nonzero(gaps)), int(gaps.max(initial=0))
            own = int(alone.get(w.value, 0))
            op = _operators(str(node["op"]))
            found.append(Step(w.value, op, gaps.size, different, largest, own, before))
        steps += [s for s in found if s.different or before]
        # What is not compared, such as floats between two layers, hands the difference on.
        reached[call] = tuple(s.value for s in found if s.different) if found else before
    return tuple(steps)


def _operators(ops: str) -> str:
    """The operators of a call, such as "Conv + Relu", without those that quantise and dequantise
    if there are others.
    """
    load_all()  # the records of operators say which ones quantise
    names = ops.split(" + ")
    others = [n for n in names if not (trait_named(n, Quantises) or trait_named(n, Dequantises))]
    return " + ".join(others or names)
