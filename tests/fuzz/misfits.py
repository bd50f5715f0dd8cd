# SPDX-License-Identifier: Apache-2.0
"""Operands that do not fit: every declared case, each operand in turn in other shapes.

What onnx's inference lets pass must not read beyond an operand: it is refused by name, or right.
All that compiles runs under the sanitizers, with poisoned bytes around every input and constant; it
is compared with what the oracles say, or the one that has an answer. A model that neither takes has
to be refused, except for indices of a run outside of a tensor, which stay within it here. What one
of them refuses, and where onnx.reference alone says something else, is printed to be looked at.

    python tests/fuzz/misfits.py [--part I/N] [--only PATTERN]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from harness import info, model_of  # noqa: E402
from onnx import numpy_helper  # noqa: E402

from aot.vendor.backend import Pattern  # noqa: E402
from aot.vendor.cases import Case  # noqa: E402
from fuzz.alone import TAKEN, Untold, empty, missing, told  # noqa: E402
from fuzz.check import CONFIGS, CRASH, TRACEBACK, WRONG, Outcome, compile_run, judge  # noqa: E402
from fuzz.execute import execute_all  # noqa: E402
from fuzz.generate import Model  # noqa: E402
from fuzz.kernel_cache import Cache  # noqa: E402
from fuzz.sizes import bound  # noqa: E402
from fuzz.special import cases_of_command  # noqa: E402

Array = np.ndarray[Any, Any]
#: Worth a look, not always a fault.
LENIENT = "lenient"
FAULTS = (CRASH, TRACEBACK, WRONG, TAKEN)
#: Models per executable.
BATCH = 200


def shapes(old: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Other shapes: fewer and more axes, other extents."""
    found = [(), old[1:], old[:-1], (1, *old), (2, *old), (*old, 1)]
    for k, n in enumerate(old):
        found += [(*old[:k], m, *old[k + 1 :]) for m in (0, 1, n - 1, n + 1) if m >= 0]
    return [s for s in dict.fromkeys(found) if s != old and np.prod(s, dtype=np.int64) <= 20_000]


def misfits(pattern: Pattern, one: Case) -> Iterator[Model]:
    """The case with one operand in another shape."""
    model = model_of(pattern.graph, one)
    for i, old in enumerate(one.inputs):
        if old is None or old.dtype.kind in "OSU":
            continue
        for shape in shapes(old.shape):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = np.zeros(shape, old.dtype) if not old.size else np.resize(old, shape)
            yield changed(model, one, i, array)


def changed(model: onnx.ModelProto, one: Case, place: int, array: Array) -> Model:
    """The model of a case whose operand `place` is another array; its results' shapes are open."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    name = f"x{place}"
    for value in made.graph.input:
        if value.name == name:
            value.CopyFrom(info(name, array))
    for tensor in made.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    arrays = {f"x{i}": array if i == place else a for i, a in enumerate(one.inputs)}
    feeds = {v.name: np.asarray(arrays[v.name]) for v in made.graph.input}
    return Model(place, made, feeds)


def settle(one: Case, o: Outcome) -> None:
    """Compare what ran with what the oracles say."""
    try:
        answer = told(o.model)
    except Untold as refusal:
        o.result, o.message = LENIENT if refusal.mild else TAKEN, str(refusal)
        return
    o.expected = answer
    o.model.errors |= {n: bound(one, a) for n, a in answer.values.items()}
    judge(o)
    other = o.result == WRONG or not (missing(answer.refusal) or empty(o.model))
    if answer.refusal and other:
        o.result, o.message = LENIENT, f"{o.message} (onnx.reference alone; {answer.refusal})"


def run(outcomes: list[tuple[str, Case, Outcome]], store: Cache, folder: Path) -> Counter[str]:
    """Execute what compiled; prints what crashed, is wrong or was an internal error."""
    execute_all((o.run for _, _, o in outcomes), store, folder)
    count: Counter[str] = Counter()
    for name, one, o in outcomes:
        if o.run is not None:
            stopped = o.run.error.startswith("status")
            bad = o.run.error and not stopped
            o.result, o.message = (CRASH, o.run.error) if bad else ("ran", "")
            if not o.run.error:
                settle(one, o)
        count[o.result] += 1
        if o.result in (*FAULTS, LENIENT):
            shapes_ = {n: list(a.shape) for n, a in o.model.feeds.items()}
            print(f"{o.result}: {name} operand {o.model.seed} {shapes_}: {o.message}", flush=True)
    return count


def tried(chosen: Sequence[tuple[Pattern, Case]], store: Cache, folder: Path) -> Counter[str]:
    """What became of all misfits of some cases."""
    total: Counter[str] = Counter()
    pending: list[tuple[str, Case, Outcome]] = []
    for pattern, one in chosen:
        for model in misfits(pattern, one):
            o = Outcome(model, CONFIGS["base"])
            compile_run(o)
            pending.append((pattern.name, one, o))
        if sum(o.run is not None for _, _, o in pending) > BATCH:
            total += run(pending, store, folder)
            pending = []
    return total + run(pending, store, folder)


def main() -> int:
    """Exit code 1 if anything crashed, is wrong or should have been refused."""
    chosen, store = cases_of_command(__doc__)
    with tempfile.TemporaryDirectory(prefix="misfits") as folder:
        total = tried(chosen, store, Path(folder))
    print(dict(total))
    return 1 if any(total[f] for f in FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main())
