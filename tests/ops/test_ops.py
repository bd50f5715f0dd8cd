# SPDX-License-Identifier: Apache-2.0
"""Every case that every operator of portable C declares, sanitised, against onnx.reference."""

from functools import cache
from pathlib import Path

import harness
import pytest
from test_vmath import runnable

from needs import need


@cache
def jobs() -> list[harness.Job]:
    return harness.collect()


@pytest.mark.parametrize(
    ("vlen", "block", "compiler"),
    [(1, False, "gcc"), (4, True, "gcc"), (8, True, "clang"), (16, False, "gcc")],
)
def test_all_cases(vlen: int, block: bool, compiler: str, tmp_path: Path) -> None:
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    need(compiler)
    # Types without vector kernels need no second width.
    chosen = [j for j in jobs() if vlen < 8 or harness.has_floats(j)]
    failures = harness.run(chosen, vlen, block, tmp_path, compiler)
    assert not failures, "\n".join(failures)


def test_a_wrong_result_is_seen() -> None:
    case = harness.Case((), {})
    one = harness.np.ones(3, harness.np.float32)
    assert not harness.difference(one, one, case)
    assert harness.difference(one, one * 1.01, case)
    assert harness.difference(one, one * harness.np.float32("nan"), case)
    assert harness.difference(one, one.astype("float64"), case)


def test_every_operator_has_cases() -> None:
    bare = [p.name for p in harness.load_all().patterns if not any(True for _ in p.all_cases())]
    assert not bare, f"operators without test cases: {bare}"
