# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/oracles.md are true: what each oracle computes, and what we do."""

from __future__ import annotations

import re
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "conformance")]

import suite  # noqa: E402

from needs import need_module  # noqa: E402
from oracles.cases import CASES, Disagreement  # noqa: E402

ROW = re.compile(r"^\| `(\w+)`: ([^|]+) \|([^|]+)\|([^|]+)\|([^|]+)\|([^|]+)\|[^|]{10,}\|$", re.M)
REFUSED = "refused"


@cache
def rows() -> dict[str, tuple[str, str, str]]:
    """Of every case what the page says of onnx.reference, onnxruntime and us."""
    found = ROW.findall((ROOT / "docs" / "oracles.md").read_text())
    return {name: (told[0].strip(), told[1].strip(), told[3].strip()) for name, _, *told in found}


def text(results: list[Any] | None) -> str:
    """Results as the page has them: all elements, four digits."""
    if results is None:
        return REFUSED
    values = [v for a in results for v in np.asarray(a).ravel().tolist()]
    return ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values) or "none"


def by_reference(case: Disagreement) -> list[Any] | None:
    model = case.model()
    feeds = {v.name: a for v, a in zip(model.graph.input, case.arrays, strict=True)}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(ReferenceEvaluator(model).run(None, feeds))
        except Exception:  # it raises whatever NumPy does
            return None


def by_runtime(case: Disagreement) -> list[Any] | None:
    runtime = need_module("onnxruntime")
    model, options = case.model(), runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    feeds = {v.name: a for v, a in zip(model.graph.input, case.arrays, strict=True)}
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options)
        return list(session.run(None, feeds))
    except Exception:  # its exceptions have no common class
        return None


def test_every_case_has_a_row() -> None:
    assert sorted(rows()) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_oracles_disagree_as_the_page_says(name: str) -> None:
    wanted, case = rows()[name], CASES[name]
    told = text(by_reference(case)), text(by_runtime(case))
    assert told == wanted[:2]
    assert len(set(wanted)) > 1, "all agree: there is nothing to tell"


def _number(said: str) -> int | float:
    return int(said) if said.lstrip("-").isdigit() else float(said)


def expected(name: str) -> list[Any]:
    """What the page says we compute, in the shapes that an oracle which computes as much has."""
    said = rows()[name][2]
    values = [] if said == "none" else [_number(v) for v in said.split(", ")]
    made = (by_reference(CASES[name]), by_runtime(CASES[name]))
    shaped = next(m for m in made if m and sum(np.asarray(a).size for a in m) == len(values))
    kinds = [v.type.tensor_type.elem_type for v in CASES[name].model().graph.output]
    found = []
    for array, kind in zip(shaped, kinds, strict=True):
        own, values = values[: np.asarray(array).size], values[np.asarray(array).size :]
        numbers = np.array(own, helper.tensor_dtype_to_np_dtype(kind))
        found.append(numbers.reshape(np.shape(array)))
    return found


def test_what_we_compute(tmp_path: Path) -> None:
    """All in one program, sanitised."""
    tests = []
    for name, case in CASES.items():
        outputs = [] if rows()[name][2] == REFUSED else expected(name)
        data = [(list(case.arrays), outputs)]
        tests.append(suite.Test("oracles", name, case.model(), data, 5e-4, 1e-6))
    suite.run(tests, tmp_path, sanitize=True)
    for test in tests:
        refused = rows()[test.name][2] == REFUSED
        wanted = (suite.REFUSED, suite.REJECTED) if refused else (suite.PASS,)
        assert test.result in wanted, f"{test.name}: {test.result} {test.message}"
