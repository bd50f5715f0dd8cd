# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests of the elementwise, reducing and normalising operators, sanitised.

A run of the tests takes a third of them; AOT_FULL=1 takes all.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import harness
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from aot.vendor import Pattern

FAMILIES = ("unary", "clip", "binary", "power", "variadic", "logic", "reduce", "softmax", "norm")
#: Operators whose inputs after the first are constants in real models and must be here.
CONSTANT = ("Reduce", "CumSum", "CumProd", "BatchNormalization")
#: What this version refuses, by a part of the test's name.
REFUSED = ("float16", "string", "training_mode")


def operators() -> set[str]:
    """Operators that this test's families declare."""
    found = harness.load_all().patterns
    return {p.name for p in found if lowering_of(p).__module__.split(".")[-1] in FAMILIES}


def lowering_of(pattern: Pattern) -> Callable[..., object]:
    """The function that records a pattern's calls, without arguments that were given to it."""
    found = pattern._lower
    while isinstance(found, partial):
        found = found.func
    return found


def jobs() -> list[harness.Job]:
    """One job per data set of every node test that uses these operators only."""
    known, made = operators(), []
    for test in collect_testcases(None):
        used = {n.op_type for n in test.model.graph.node}
        if not used <= known or test.name.endswith("_expanded"):
            continue
        for inputs, outputs in test.data_sets:
            if all(isinstance(a, np.ndarray) for a in [*inputs, *outputs]):
                made.append(job(test, list(inputs), list(outputs)))
    return made


def job(test, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> harness.Job:
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    names = [v.name for v in model.graph.input]
    first = model.graph.node[0].op_type
    const = range(1, len(inputs)) if first.startswith(CONSTANT) else range(0)
    model.graph.initializer.extend(numpy_helper.from_array(inputs[k], names[k]) for k in const)
    kept = [v for k, v in enumerate(test.model.graph.input) if k not in const]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    fed = tuple(a for k, a in enumerate(inputs) if k not in const)
    case = harness.Case(fed, {}, (), len(outputs), test.rtol, test.atol)
    return harness.Job(test.name, case, model, outputs)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_onnx_node_tests(tmp_path: Path) -> None:
    every = jobs()
    assert len(every) > 400
    chosen = every if os.environ.get("AOT_FULL") else every[1::3]
    failures = harness.run(chosen, 4, True, tmp_path)
    wrong = [f for f in failures if not any(r in f.split(":")[0] for r in REFUSED)]
    assert not wrong, "\n".join(wrong)
