# SPDX-License-Identifier: Apache-2.0
"""Every case that every operator of portable C declares, sanitised, against onnx.reference.

Code without vectors and one width of vectors compute a sixth of the cases of an operator, clang
some that AOT_SEED draws. AOT_FULL=1 gives every width and clang every case.
"""

import os
import random
from collections import Counter
from functools import cache
from pathlib import Path

import harness
import pytest
from test_vmath import runnable

from aot.ir.graph_nodes import CONTROL, DYNAMIC
from aot.plan.stack.declare import table
from needs import need


@cache
def jobs() -> list[harness.Job]:
    return harness.collect()


#: Widths of vectors beside 1; each gets its share of a pattern's cases, AOT_FULL=1 gives it all.
WIDTHS = (4, 8, 16)


def _drawn(count: int) -> int:
    """A number below `count` by AOT_SEED."""
    return random.Random(os.environ.get("AOT_SEED", "0")).randrange(count)


def share(chosen: list[harness.Job], vlen: int) -> list[harness.Job]:
    """The cases that a width runs: of every pattern the first, and of the others a sixth, which no
    other width of vectors runs.
    """
    if os.environ.get("AOT_FULL"):
        return chosen
    step = 2 * len(WIDTHS)
    first = 2 * WIDTHS.index(vlen) + _drawn(2) if vlen in WIDTHS else _drawn(step)
    seen: Counter[str] = Counter()
    found = []
    for job in chosen:
        name = job.label.split("[")[0]
        if not seen[name] or seen[name] % step == first:
            found.append(job)
        seen[name] += 1
    return found


def test_all_cases(tmp_path: Path) -> None:
    check(1, False, "gcc", tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("vlen", "block"), [(4, True), (8, True), (16, False)])
def test_wide_cases(vlen: int, block: bool, tmp_path: Path) -> None:
    check(vlen, block, "gcc", tmp_path)


def test_wide_cases_by_clang(tmp_path: Path) -> None:
    check(8, True, "clang", tmp_path)


def check(vlen: int, block: bool, compiler: str, tmp_path: Path) -> None:
    """Build and run the cases for vectors of `vlen` floats; none fails, every stack is known."""
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    need(compiler)
    # Types without vector kernels need no second width.
    chosen = share([j for j in jobs() if vlen < 8 or harness.has_floats(j)], vlen)
    if compiler == "clang" and not os.environ.get("AOT_FULL"):  # four times as slow as gcc
        seed = os.environ.get("AOT_SEED", "0")
        chosen = random.Random(seed).sample(chosen, len(chosen) // 10)
    kernels: set[str] = set()
    failures = harness.run(chosen, vlen, block, tmp_path, compiler, kernels)
    assert not failures, "\n".join(failures)
    bare = sorted(kernels - set(table()["x86_64"]))
    assert not bare, f"no stack is known of {bare}: python benchmarks/stack.py --missing"


def test_a_wrong_result_is_seen() -> None:
    case = harness.Case((), {})
    one = harness.np.ones(3, harness.np.float32)
    assert not harness.difference(one, one, case)
    assert harness.difference(one, one * 1.01, case)
    assert harness.difference(one, one * harness.np.float32("nan"), case)
    assert harness.difference(one, one.astype("float64"), case)


def test_every_operator_has_cases() -> None:
    patterns = harness.load_all().patterns
    tested = {p.name for p in patterns if any(True for _ in p.all_cases())}
    # Some patterns of float16 have no case of their own (their operator's first operand is not a
    # float, or its cases need a stored result): their code is that of all others. What inference
    # makes of shapes that depend on the data is tested in test_dynamic.py, rows of bytes in
    # test_strings.py, distributions in test_random.py, older trees in test_ml.py, If and Loop in
    # test_control.py.
    elsewhere = (f"{DYNAMIC}.", f"{CONTROL}.", "aot.text.", "Random", "Bernoulli", "Multinomial")
    # Products along a dynamic dimension: runtime_c/tests/test_matmul.c, tests/abi/test_caches.py.
    elsewhere += ("ai.onnx.ml.TreeEnsembleRegressor", "matmul_columns", "matmul_summands")
    own = [p.name for p in patterns if not p.name.startswith(elsewhere)]
    bare = [n for n in own if n.removesuffix(".half") not in tested]
    assert not bare, f"operators without test cases: {bare}"
