# SPDX-License-Identifier: Apache-2.0
"""Quantised products by dot products: the operators' cases, with the CPU's unit and in plain C."""

from __future__ import annotations

from pathlib import Path

import harness
import pytest

from aot.plan.stack.declare import table
from aot.target import load_target

PATTERNS = (
    *("qconv", "qdense", "qconv_add", "qconv_sum", "qdense_sum", "qconv_act", "qdense_act"),
    *("qmatmul", "MatMulInteger", "com.microsoft.MatMulNBits"),
)
UNITS = ("-mavx512vnni", "-mavx512bw", "-mavx512vl")
KERNELS = (
    *("aot_matmulinteger", "aot_qmatmul_s8", "aot_gemm_f32_narrow"),
    "aot_qconv_s8",
    "aot_qfc_s8",
    "aot_qconv_epilogue_s8",
)


@pytest.mark.parametrize(
    ("target", "options"),
    [("", harness.SANITIZE), ("x86-64-v4-vnni", ("-O1", *UNITS))],
)
def test_the_cases_of_products(target: str, options: tuple[str, ...], tmp_path: Path) -> None:
    chip = load_target(target or "x86-64-v2")
    if not chip.runs_here():
        pytest.skip(f"this CPU lacks {', '.join(chip.missing_flags())}")
    kernels: set[str] = set()
    jobs = harness.collect(PATTERNS)
    vlen = chip.vlen
    failures = harness.run(jobs, vlen, False, tmp_path, "gcc", kernels, options, simd="dot")
    assert not failures, "\n".join(failures)
    assert kernels >= {f"{k}__dot" for k in KERNELS}
    assert kernels <= set(table()["x86_64"])
