# SPDX-License-Identifier: Apache-2.0
"""Operators compute on permuted axes as they say: a Transpose before one sinks below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import harness
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from aot.ir.operators import Along, Moves, operator_named, operators, places_of
from aot.load import load
from aot.normalise import normalise
from aot.normalise.transposes import permute
from graphs import model

RNG = np.random.default_rng(11)
NAMES = sorted(
    {name for _, name in permute.operators()}
    | {o.name for o in operators() if o.trait(Along) and not o.domain}
)


def transposed(job: harness.Job) -> tuple[onnx.ModelProto, dict[str, Any], set[str]] | None:
    """The case on transposed data, its feeds, and what reads the data; None of fewer axes."""
    assert job.model is not None
    node = onnx_ir.from_proto(job.model).graph[0]
    record, one = operator_named(node.op_type), job.case
    assert record is not None
    trait = record.trait(Moves)
    places = places_of(node, trait.operands) if trait else (0,)
    given = {i: np.asarray(a) for i, a in enumerate(one.inputs) if a is not None}
    if any(given[i].ndim < 2 for i in places) or given[0].dtype == onnx_ir.DataType.BFLOAT16:
        return None
    perm = np.roll(range(given[0].ndim), 1).tolist()
    rows: list[Any] = [("Transpose", f"x{i}", f"t{i}", {"perm": perm}) for i in places]
    reads = [
        f"t{i}" if i in places else f"c{i}" if i in given else "_" for i in range(len(one.inputs))
    ]
    rows += [(node.op_type, " ".join(reads), "y", one.attrs)]
    feeds = {f"x{i}": given[i].transpose(np.argsort(perm)) for i in places}
    kinds = {n: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feeds.items()}
    kinds["y"] = onnx.helper.np_dtype_to_tensor_dtype(job.want[0].dtype)
    rest = {f"c{i}": a for i, a in given.items() if i not in places}
    shapes = {n: list(a.shape) for n, a in feeds.items()}
    proto = model(rows, shapes, {"y": None}, rest, dtypes=kinds)
    proto.opset_import[0].version = onnx.defs.onnx_opset_version()
    return proto, feeds, set(feeds)


def cases(name: str) -> Iterator[harness.Job]:
    """Declared cases of one output that onnx.reference computes alone."""
    for job in harness.collect((name,)):
        small = sum(np.size(a) for a in job.case.inputs if a is not None) < 10_000
        alone = job.model is not None and not job.fused and job.case.outputs == 1
        if alone and small and not job.case.expected:
            yield job


@pytest.mark.parametrize("name", NAMES)
def test_a_transpose_sinks_below_an_operator(name: str) -> None:
    sunk = 0
    for job in cases(name):
        made = transposed(job)
        if made is None:
            continue
        proto, feeds, inputs = made
        after = onnx_ir.to_proto(normalise(load(proto)))
        first = {n.op_type for n in after.graph.node if inputs & set(n.input)}
        sunk += "Transpose" not in first
        got = ReferenceEvaluator(after).run(None, feeds)[0]
        want = job.want[0]
        assert got.dtype == want.dtype, job.label
        np.testing.assert_allclose(got, want, 1e-5, 1e-6, err_msg=job.label)
    assert sunk, "no case proves it"
