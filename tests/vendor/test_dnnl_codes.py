# SPDX-License-Identifier: Apache-2.0
"""8-bit codes in oneDNN: every case of its patterns within one code of the float definition, on
both generations of the library."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import harness
import merged
import numpy as np
import pytest
from dnnl_libraries import ROOTS, library

from aot.vendor.dnnl import backend, codes

PATTERNS = [p for p in backend.patterns if p.name in vars(codes)]
#: Cases of the portable patterns that the library cannot compute.
REFUSED = {
    "qconv": ["x is of int16", "weights"],
    "qdense": ["x is of int16", "weights"],
}


def parts_of_codes() -> tuple[list[merged.Part], dict[str, list[str]]]:
    """The cases that oneDNN takes, and why it refuses the others."""
    parts: list[merged.Part] = []
    refused: dict[str, list[str]] = {}
    for job in harness.collect(patterns=PATTERNS):
        assert job.model is not None and not job.error, job.error
        feeds = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, feeds, job.want, job.case)
        part.taken = merged.taken_by(part, "dnnl")
        name = job.label.partition("[")[0]
        if part.taken:
            assert part.taken == [name]
            parts.append(part)
        else:
            refused.setdefault(name, []).append(job.label)
    return parts, refused


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list, list]:
    parts, refused = parts_of_codes()
    assert {k: len(v) for k, v in refused.items()} == {k: len(v) for k, v in REFUSED.items()}
    out = tmp_path_factory.mktemp("codes") / "out"
    return out, parts, merged.compile_parts(parts, "dnnl", out)


def test_every_pattern_has_a_case(bundle: tuple[Path, list, list]) -> None:
    assert {t for part in bundle[1] for t in part.taken} == {p.name for p in PATTERNS}


@pytest.mark.parametrize("generation", sorted(ROOTS))
def test_within_one_code(bundle: tuple[Path, list, list], generation: str, tmp_path: Path) -> None:
    root = library(generation)
    out, parts, arrays = bundle
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    merged.build(mine, {"dnnl_ROOT": root})
    os.environ["OMP_NUM_THREADS"] = "1"
    got = iter(merged.execute(merged.open_out(mine), arrays))
    wrong, codes_seen, off = [], 0, 0
    for part in parts:
        for want in part.want:
            apart = np.abs(next(got).astype(int) - want.astype(int))
            codes_seen, off = codes_seen + apart.size, off + int((apart > 0).sum())
            if apart.max(initial=0) > 1:
                wrong.append(f"{part.label}: {(apart > 1).sum()} of {apart.size}, {apart.max()}")
    assert not wrong, "\n".join(wrong)
    assert off < 0.01 * codes_seen, f"{off} of {codes_seen} codes are one off"
