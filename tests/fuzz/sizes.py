# SPDX-License-Identifier: Apache-2.0
"""Dimensions that runs say: every declared case, its axes in turn open, run at several sizes.

A case is compiled for sizes from 1 to that of its arrays, and once more to a bound beyond that (one
that is no multiple of what a block or a window takes); what is not refused runs on arrays that are
cut, under the sanitizers, and is compared with the oracles.

    python tests/fuzz/sizes.py [--part I/N] [--only PATTERN]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from harness import info, model_of  # noqa: E402

from aot.vendor.backend import Pattern  # noqa: E402
from aot.vendor.cases import Case  # noqa: E402
from fuzz.alone import TAKEN, Untold, told  # noqa: E402
from fuzz.check import (  # noqa: E402
    CONFIGS,
    DEFECTS,
    REFUSED,
    REJECTED,
    Outcome,
    compiled,
    judge,
    strings_as_bytes,
)
from fuzz.execute import Run, execute_all  # noqa: E402
from fuzz.generate import Model  # noqa: E402
from fuzz.kernel_cache import Cache  # noqa: E402
from fuzz.special import cases_of_command  # noqa: E402

Array = np.ndarray[Any, Any]
Places = frozenset[tuple[str, int]]
#: No oracle runs the model at this size; it ran, or was stopped with a status, without a crash.
UNTOLD, STOPPED = "untold", "stopped"
#: Runs per executable.
BATCH = 300
NAME = "N"
#: Operators of which input 1 is indices.
INDEXED = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "TensorScatter")


@dataclass(frozen=True)
class Open:
    """A case with some axes of its inputs open: (input, axis), all of extent `most`.

    It is compiled for `beyond` elements more.
    """

    pattern: Pattern
    case: Case
    proto: onnx.ModelProto
    feeds: dict[str, Array]
    places: Places
    most: int
    beyond: int = 0

    @property
    def text(self) -> str:
        """What it is, in a line."""
        where = ", ".join(f"{n}[{a}]" for n, a in sorted(self.places))
        shapes = {n: list(a.shape) for n, a in self.feeds.items()}
        most = self.most + self.beyond
        return f"{self.pattern.name} {self.case.attrs} {shapes}, open {where} to {most}"


def opened(pattern: Pattern, one: Case) -> Iterator[Open]:
    """The case with one axis open, with all of its extent in the same place, and with all."""
    proto = model_of(pattern.graph, one)
    arrays = {f"x{i}": a for i, a in enumerate(one.inputs) if a is not None}
    feeds = {v.name: arrays[v.name] for v in proto.graph.input}
    every = [(n, k, extent) for n, a in feeds.items() for k, extent in enumerate(a.shape)]
    found: dict[Places, int] = {}
    for name, k, extent in every:
        if extent > 1:
            same = [(n, j) for n, j, e in every if e == extent]
            beside = [(n, j) for n, j in same if j == k]
            for places in ([(name, k)], beside, same):
                found.setdefault(frozenset(places), extent)
    constant = pattern.name in INDEXED and "x1" not in feeds  # beyond what is left: no model
    for i, (places, most) in enumerate(found.items() if not constant else ()):
        model = symbolic(proto, places)
        yield Open(pattern, one, model, feeds, places, most)
        yield Open(pattern, one, model, feeds, places, most, 1 + i % 3)


def symbolic(proto: onnx.ModelProto, places: Places) -> onnx.ModelProto:
    """The model with open axes; its results' shapes are open."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for value in made.graph.input:
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, k) in places:
                dim.dim_param = NAME
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def cut(of: Open, size: int) -> Model:
    """The model and arrays of a run of this size; indices point at what is left."""
    feeds = dict(of.feeds)
    for name, axis in of.places:
        feeds[name] = feeds[name].take(range(size), axis)
    if of.pattern.name in INDEXED and "x1" in feeds:
        feeds["x1"] = np.clip(feeds["x1"], -size, size - 1)
    if of.pattern.name == "ReverseSequence" and "x1" in feeds:
        feeds["x1"] = np.minimum(feeds["x1"], feeds["x0"].shape[of.case.attrs.get("time_axis", 0)])
    made = onnx.ModelProto()
    made.CopyFrom(of.proto)
    for value in made.graph.input:
        if any(value.name == n for n, _ in of.places):
            value.CopyFrom(info(value.name, feeds[value.name]))
    return Model(size, made, feeds)


def runs_of(of: Open) -> list[Outcome]:
    """An outcome per size, with what to run; a single one if the compiler refuses."""
    config = CONFIGS["base"]
    whole = Outcome(Model(of.most, of.proto, of.feeds), config)
    made = compiled(whole, dims={NAME: (1, of.most + of.beyond)})
    if made is None:
        if of.beyond and whole.result == REJECTED:  # what fits the arrays need not fit the bound
            whole.result = REFUSED
        return [whole]
    found = []
    for size in sorted({of.most, of.most - 1, 1}):
        model = cut(of, size)
        feeds = [strings_as_bytes(model.feeds[v.name]) for v in model.proto.graph.input]
        o = Outcome(model, config, run=Run(made.program, made.plan, made.target, feeds))
        try:
            o.expected = told(model)
            model.errors |= {n: bound(of.case, a) for n, a in o.expected.values.items()}
        except Untold as error:
            o.result, o.message = UNTOLD if error.mild else TAKEN, str(error)
        found.append(o)
    return found


def bound(one: Case, want: Array) -> float:
    """What a result may be off by besides: quantised values by one, floats by what the case
    says."""
    if want.dtype.kind != "f":
        return float(want.dtype.name in ("int8", "uint8", "int16", "uint16"))
    top = np.max(np.abs(want), initial=0.0, where=np.isfinite(want))
    return one.rtol * float(top) if one.rtol > 1e-3 else 0.0


def settle(pending: Sequence[tuple[Open, Outcome]], store: Cache, folder: Path) -> Counter[str]:
    """Execute and compare; prints what is wrong."""
    execute_all((o.run for _, o in pending), store, folder)
    count: Counter[str] = Counter()
    for of, o in pending:
        if o.run is not None:
            status = o.run.error.startswith("status")
            if status:
                o.result = STOPPED
                o.message = o.run.error + ("" if o.expected is None else ", an oracle has a result")
            elif o.expected is not None or o.run.error:
                o.expected = o.expected or expected_nothing(o)
                judge(o)
            elif o.result == TAKEN and not any(a.size for a in o.run.results[0]):
                o.result = UNTOLD  # a window larger than the size of this run has no places
        count[o.result] += 1
        if o.result in (*DEFECTS, TAKEN) or (o.result == STOPPED and o.expected is not None):
            print(f"{o.result}: {of.text}, {NAME} = {o.model.seed}: {o.message[:400]}", flush=True)
    return count


def expected_nothing(o: Outcome) -> Any:
    """For a run that crashed, of which no oracle has a result."""
    from fuzz.oracles import Expected

    return Expected(ambiguous=o.model.outputs)


def tried(chosen: Sequence[tuple[Pattern, Case]], store: Cache, folder: Path) -> Counter[str]:
    """What became of all sizes of some cases."""
    total: Counter[str] = Counter()
    pending: list[tuple[Open, Outcome]] = []
    for pattern, one in chosen:
        for of in opened(pattern, one):
            pending += [(of, o) for o in runs_of(of)]
        if sum(o.run is not None for _, o in pending) > BATCH:
            total += settle(pending, store, folder)
            pending = []
    return total + settle(pending, store, folder)


def main() -> int:
    """Exit code 1 if anything is wrong."""
    chosen, store = cases_of_command(__doc__)
    with tempfile.TemporaryDirectory(prefix="sizes") as folder:
        total = tried(chosen, store, Path(folder))
    print(dict(total))
    return 1 if any(total[d] for d in (*DEFECTS, TAKEN)) else 0


if __name__ == "__main__":
    sys.exit(main())
