# SPDX-License-Identifier: Apache-2.0
"""bfloat16 by oneDNN: the float32 cases of its patterns with every tensor rounded to bfloat16, on
both generations of the library; and what happens on processors without code for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import harness
import merged
import ml_dtypes
import numpy as np
import onnx
import pytest
from dnnl_libraries import ROOTS, library
from onnx import defs, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.api import compile_to
from aot.errors import AotError
from aot.options import Options
from aot.target import load_target
from aot.tools.run import execute, open_out
from aot.vendor.dnnl import backend
from aot.vendor.pattern import all_ops
from graphs import model

BF16 = ml_dtypes.bfloat16
FLOAT, BFLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
#: Two steps of bfloat16: what two roundings of a nearby sum may differ by.
STEP = 2.0**-7
pytestmark = pytest.mark.skipif(
    not load_target("x86-64-v4").runs_here(), reason="oneDNN has bfloat16 with AVX-512 only"
)


def narrowed(job: harness.Job) -> merged.Part | None:
    """The case in bfloat16, its result that of float32 arithmetic, rounded; None where ONNX has no
    such operator."""
    wide = job.model
    assert wide is not None
    own = {op for p in backend.patterns for _, op in all_ops(p.graph)}
    nodes = wide.graph.node
    if len(job.want) > 1 or any(n.op_type not in own for n in nodes):
        return None
    if any("tensor(bfloat16)" not in _kinds(n) for n in nodes):
        return None
    given = {n: a.astype(BF16) for n, a in harness.feeds(wide, job.case).items()}
    narrow, rounded = onnx.ModelProto(), onnx.ModelProto()
    narrow.CopyFrom(wide)
    rounded.CopyFrom(wide)
    kept = {i for n in wide.graph.node if n.op_type == "Resize" for i in n.input[1:]}
    if kept & given.keys():
        return None
    for i, tensor in enumerate(wide.graph.initializer):
        if tensor.data_type == FLOAT and tensor.name not in kept:
            small = numpy_helper.to_array(tensor).astype(BF16)
            narrow.graph.initializer[i].CopyFrom(numpy_helper.from_array(small, tensor.name))
            again = numpy_helper.from_array(small.astype(np.float32), tensor.name)
            rounded.graph.initializer[i].CopyFrom(again)
    for value in (*narrow.graph.input, *narrow.graph.output):
        value.type.tensor_type.elem_type = BFLOAT16
    feeds = {n: a.astype(np.float32) for n, a in given.items()}
    want = job.case.expected or ReferenceEvaluator(rounded).run(None, feeds)
    part = merged.Part(job.label, narrow, given, [np.asarray(a) for a in want], job.case)
    part.taken = merged.taken_by(part, "dnnl")
    return part if part.taken else None


def _kinds(node: onnx.NodeProto) -> tuple[str, ...]:
    return tuple(defs.get_schema(node.op_type, node.domain).inputs[0].types)


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> list[merged.Chunk]:
    parts = []
    for job in harness.thinned([*harness.collect(), *harness.collect(patterns=backend.patterns)]):
        if job.error or job.model is None:
            continue
        given = [*harness.feeds(job.model, job.case).values(), *job.want]
        if all(a.dtype == np.float32 and np.isfinite(a).all() for a in given):
            part = narrowed(job)
            behind = None if part is None else merged.behind_identity(part)
            parts += [p for p in (part, behind) if p is not None]
    return merged.compile_chunks(parts, "dnnl", tmp_path_factory.mktemp("bf16"))


#: Taken only between operators of the vendor, and what the library has for float32 alone.
WITHOUT_CASE = {"transpose", "concat", "round"}


def test_every_pattern_has_a_case(chunks: list[merged.Chunk]) -> None:
    taken = {t for _, parts, _ in chunks for part in parts for t in part.taken}
    own = {
        p.name
        for p in backend.patterns
        if p.name not in ("lstm", "gru") and not p.name.startswith("q")
    }
    assert own - taken == WITHOUT_CASE


@pytest.mark.parametrize("generation", sorted(ROOTS))
def test_every_case(chunks: list[merged.Chunk], generation: str, tmp_path: Path) -> None:
    root = library(generation)
    wrong = []
    for out, parts, arrays in chunks:
        mine = tmp_path / out.name
        shutil.copytree(out, mine)
        merged.build(mine, {"dnnl_ROOT": root})
        got = iter(execute(open_out(mine), arrays))
        for part, want in ((p, w) for p in parts for w in p.want):
            ours = next(got).view(BF16).astype(np.float32)
            size = float(np.abs(want).max(initial=0.0))
            if not np.allclose(ours, want, rtol=STEP, atol=STEP * size):
                worst = np.abs(ours - want).max() / size
                wrong.append(f"{part.label} by {part.taken}: {worst:.3g} of the largest")
    assert not wrong, "\n".join(wrong)


def test_a_processor_without_it_is_told_when_the_bundle_starts(tmp_path: Path) -> None:
    root = library("3")
    x = np.linspace(-2, 2, 12, dtype=np.float32).astype(BF16).reshape(3, 4)
    kinds = dict.fromkeys("xy", BFLOAT16)
    proto = model([("Exp", "x", "y")], {"x": [3, 4]}, {"y": [3, 4]}, dtypes=kinds)
    out = tmp_path / "out"
    compile_to(proto, out, Options(name="net", backends=("dnnl",)), configure=False)
    merged.build(out, {"dnnl_ROOT": root})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
        with pytest.raises(AotError, match="init: a vendor library reported an error"):
            execute(open_out(out), [x])
    off = ["cmake", "-S", str(out / "bundle"), "-B", str(out), "-DAOT_DNNL=OFF"]
    subprocess.run(off, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    (got,) = execute(open_out(out), [x])
    want = np.exp(x.astype(np.float32)).astype(BF16)
    assert np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int)).max() <= 1
