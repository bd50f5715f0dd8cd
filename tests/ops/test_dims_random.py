# SPDX-License-Identifier: Apache-2.0
"""Random chains of operators with three dimensions that a run says, against onnx.reference.

python tests/ops/test_dims_random.py FIRST LAST runs the seeds between.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
import numpy as np
from test_dims import Family, floats, ints, jobs_of

from aot.errors import UnsupportedError

SEEDS = range(14)
RANGES = {"N": (1, 2), "H": (5, 8), "W": (5, 7)}
SIZES = [{"N": n, "H": h, "W": w} for n, h, w in ((1, 5, 5), (2, 8, 7), (1, 7, 6))]
CONSTS = {
    "w": floats(3, 3, 3, 3),
    "s": floats(3),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 1], np.float32),
    "half": np.array([1, 1, 0.5, 1.5], np.float32),
    "p": ints(0, 0, 1, 0, 0, 0, 2, 1),
    "one": ints(1),
    "far": ints(2**31),
    "ax2": ints(2),
    "ax3": ints(3),
    "k2": np.array(2, np.int64),
    "last": ints(-1),
    "before": ints(-100),
    "back": ints(-1),
    "rep": ints(1, 1, 2, 1),
    "flat": ints(0, 0, -1),
}


class Chain:
    """Nodes one after the other; `value` is what the last one gives."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.nodes: list[tuple[Any, ...]] = []
        self.value = "x"

    def add(self, op: str, inputs: str, **attributes: Any) -> str:
        self.value = f"v{len(self.nodes)}"
        self.nodes.append((op, inputs, self.value, attributes))
        return self.value

    def step(self) -> None:
        """One operator, or a few that belong together."""
        c, pick = self.value, self.dice.choice
        simple: list[tuple[str, str, dict[str, Any]]] = [
            ("Conv", f"{c} w s", {"pads": [1] * 4}),
            ("Conv", f"{c} w", {"auto_pad": pick(("SAME_UPPER", "SAME_LOWER")), "strides": [2, 2]}),
            ("MaxPool", c, {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1] * 4}),
            ("AveragePool", c, {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0]}),
            ("Resize", f"{c} none twice", {"mode": pick(("nearest", "linear", "cubic"))}),
            ("Resize", f"{c} none half", {"mode": pick(("nearest", "linear"))}),
            ("Pad", f"{c} p", {"mode": pick(("constant", "edge"))}),
            ("Concat", f"{c} {c}", {"axis": pick((2, 3))}),
            ("Transpose", c, {"perm": [0, 1, 3, 2]}),
            ("Softmax", c, {"axis": pick((1, 2, 3))}),
            ("InstanceNormalization", f"{c} s s", {}),
            ("Slice", f"{c} one far {pick(('ax2', 'ax3'))}", {}),
            ("Slice", f"{c} last before ax2 back", {}),
            ("Tile", f"{c} rep", {}),
            ("CumSum", f"{c} k2", {"reverse": pick((0, 1))}),
            ("Trilu", c, {"upper": pick((0, 1))}),
        ]
        which = self.dice.randrange(len(simple) + 4)
        if which < len(simple):
            op, inputs, attributes = simple[which]
            self.add(op, inputs, **attributes)
        elif which == len(simple):
            self.add("Sub", f"{c} {self.add('ReduceMean', f'{c} ' + pick(('ax2', 'ax3')))}")
        elif which == len(simple) + 1:
            self.add("MatMul", f"{c} {self.add('Transpose', c, perm=[0, 1, 3, 2])}")
        elif which == len(simple) + 2:
            self.add("Mul", f"{c} {self.add('GlobalAveragePool', c)}")
        else:
            shape = self.add("Shape", c)
            flat = self.add("Relu", self.add("Reshape", f"{c} flat"))
            self.add("Reshape", f"{flat} {shape}")


def family(seed: int) -> Family:
    chain = Chain(seed)
    for _ in range(chain.dice.randint(3, 6)):
        chain.step()
    ends = {chain.value: None}
    given = {"x": ("N", 3, "H", "W")}
    return Family(f"seed {seed}", chain.nodes, given, ends, RANGES, SIZES, CONSTS)


def wrong(seeds: range, folder: Path) -> tuple[list[str], int]:
    """What differs, and how many chains were refused."""
    jobs, refused = [], 0
    for seed in seeds:
        try:
            jobs += jobs_of(family(seed))
        except UnsupportedError:
            refused += 1
    for i in range(0, len(jobs), harness.BATCH):
        harness.run_batch(jobs[i : i + harness.BATCH], 4, folder)
    return [f"{j.label}: {j.error}" for j in jobs if j.error], refused


def test_random_chains(tmp_path: Path) -> None:
    found, refused = wrong(SEEDS, tmp_path)
    assert not found
    assert refused <= len(SEEDS) // 4


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as place:
        print(wrong(range(first, last), Path(place)))
