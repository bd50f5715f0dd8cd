# SPDX-License-Identifier: Apache-2.0
"""The BLAS vendor: its own cases, products with a bias, what it says where no BLAS is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import harness
import merged
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from aot.api import compile_to
from aot.options import Options
from aot.vendor.cases import Case
from aot.vendor.cblas import backend
from graphs import model
from needs import missing

HEADERS = ("cblas.h", "openblas/cblas.h", "blis/cblas.h")


def need_blas() -> None:
    folders = [Path("/usr/include"), *Path("/usr/include").glob("*-linux-gnu*")]
    if not any((f / h).is_file() for f in folders for h in HEADERS):
        missing("a BLAS", "apt-get install libopenblas-dev")


def network() -> merged.Part:
    """A convolution unfolded in several steps, a product with a bias, Relu after each."""
    r = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return r.standard_normal(shape).astype(np.float32) / 3

    consts = {"w": draw(8, 4, 3, 3), "b": draw(8), "v": draw(40, 6), "c": draw(6)}
    rows = [
        ("Conv", "x w b", "k", {"pads": [1, 1, 1, 1]}),
        ("Relu", "k", "a"),
        ("MatMul", "a v", "p"),
        ("Add", "p c", "s"),
        ("Relu", "s", "y"),
    ]
    proto = model(rows, {"x": [1, 4, 300, 40]}, {"y": None}, consts)
    typed = list(onnx.shape_inference.infer_shapes(proto).graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(typed)
    feeds = {"x": draw(1, 4, 300, 40)}
    want = list(ReferenceEvaluator(proto).run(None, feeds))
    return merged.Part("network", proto, feeds, want, Case((), {}))


def test_its_cases_are_taken_and_right(tmp_path: Path) -> None:
    need_blas()
    parts = [network()]
    for job in harness.collect(patterns=backend.patterns):
        assert not job.error, job.error
        assert job.model is not None
        given = harness.feeds(job.model, job.case)
        parts.append(merged.Part(job.label, job.model, given, job.want, job.case))
    for part in parts:
        part.taken = merged.taken_by(part, "cblas")
        assert part.taken, part.label
    assert parts[0].taken == ["conv_relu", "matmul_bias_relu"]
    out = tmp_path / "out"
    arrays = merged.compile_parts(parts, "cblas", out)
    merged.build(out, {})
    wrong = merged.run(parts, arrays, out)
    assert not wrong, "\n".join(wrong)


def test_refusals_say_why() -> None:
    w = np.ones((4, 1, 3, 3), np.float32)
    rows = [("Conv", "x w", "y", {"group": 4})]
    proto = model(rows, {"x": [1, 4, 8, 8]}, {"y": None}, {"w": w})
    partition = merged.partition_of(proto, ("cblas",))
    assert [r.reason for r in partition.refusals if r.backend == "cblas"] == ["group 4 (needs 1)"]


@pytest.mark.parametrize("symbol", ["", "dgemm_"])
def test_without_a_library_cmake_says_what_to_do(tmp_path: Path, symbol: str) -> None:
    out = tmp_path / "out"
    options = Options(name="net", backends=("cblas",))
    compile_to(network().model, out, options, configure=False)
    hidden = ["-DCBLAS_LIBRARY=CBLAS_LIBRARY-NOTFOUND", "-DCMAKE_FIND_ROOT_PATH=/nonexistent"]
    hidden += [f"-DCMAKE_FIND_ROOT_PATH_MODE_{kind}=ONLY" for kind in ("LIBRARY", "INCLUDE")]
    if symbol:  # a BLAS without the C interface
        for name in ("cblas.h", "libopenblas.so"):
            (tmp_path / name).write_text(symbol)
        hidden = [f"-DCBLAS_LIBRARY={tmp_path}/libopenblas.so", f"-DCBLAS_INCLUDE_DIR={tmp_path}"]
    done = subprocess.run(
        ["cmake", "-S", str(out / "bundle"), "-B", str(out), *hidden],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "cblas_ROOT"},
    )
    text = " ".join(done.stderr.split())
    assert done.returncode != 0
    why = "libopenblas.so has no cblas_sgemm" if symbol else "its library was not found"
    assert "vendor cblas: " in text and why in text
    assert "libopenblas-dev" in text
    assert "-DAOT_CBLAS=OFF: portable C instead" in text


@pytest.mark.parametrize("a", [[2, 3, 4], [4]])
def test_products_it_has_no_call_for_are_refused(a: list[int]) -> None:
    b = [5, 4, 3] if len(a) == 1 else [1, 4, 3]
    proto = model([("MatMul", "x z", "y")], {"x": a, "z": b}, {"y": None})
    assert not [s for s in merged.partition_of(proto, ("cblas",)).items if s.backend == "cblas"]
