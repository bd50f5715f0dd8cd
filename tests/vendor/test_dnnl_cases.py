# SPDX-License-Identifier: Apache-2.0
"""Every case of every operator that oneDNN takes, alone and behind a convolution, on both
generations of the library."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import harness
import merged
import numpy as np
import pytest
from dnnl_libraries import ROOTS, library

from aot.vendor.dnnl import backend
from aot.vendor.pattern import all_ops


@pytest.fixture(scope="module", params=sorted(ROOTS))
def root(request: pytest.FixtureRequest) -> str:
    """A prefix with the library of one generation."""
    return library(request.param)


FULL = bool(os.environ.get("AOT_FULL"))
OWN = frozenset(kind for p in backend.patterns for _, kind in all_ops(p.graph))


def may_be_taken(job: harness.Job) -> bool:
    """Whether a pattern has an operator of the case; AOT_FULL=1 also looks at decompositions."""
    return FULL or any(n.op_type in OWN for n in job.model.graph.node)


def parts_of_cases() -> list[merged.Part]:
    """Cases of which oneDNN takes a node."""
    parts = []
    for job in harness.thinned([*harness.collect(), *harness.collect(patterns=backend.patterns)]):
        if job.error or job.model is None or not harness.has_floats(job):
            continue
        if not may_be_taken(job):
            continue
        feeds = harness.feeds(job.model, job.case)
        if any(np.isnan(a).any() for a in feeds.values() if a.dtype.kind == "f"):
            continue  # oneDNN does not promise to hand NaN on
        alone = merged.Part(job.label, job.model, feeds, job.want, job.case)
        for part in (alone, merged.behind_identity(alone)):
            if part is None:
                continue
            part.taken = merged.taken_by(part, "dnnl")
            own = [t for t in part.taken if t != "conv" or part is alone]
            if own:
                parts.append(part)
    return parts


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> list[merged.Chunk]:
    return merged.compile_chunks(parts_of_cases(), "dnnl", tmp_path_factory.mktemp("cases"))


def test_every_pattern_has_a_case(chunks: list[merged.Chunk]) -> None:
    taken = {t for _, parts, _ in chunks for part in parts for t in part.taken}
    # Those of quantised values are for test_dnnl_int8.py.
    own = {p.name for p in backend.patterns if not p.name.startswith("q")}
    assert not own - taken


def test_every_case(
    chunks: list[merged.Chunk], root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(len(parts) for _, parts, _ in chunks) > 150
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    wrong = []
    for out, parts, arrays in chunks:
        mine = tmp_path / out.name
        shutil.copytree(out, mine)
        merged.build(mine, {"dnnl_ROOT": root})
        wrong += merged.run(parts, arrays, mine)
    assert not wrong, "\n".join(wrong)
