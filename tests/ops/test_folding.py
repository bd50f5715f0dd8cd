# SPDX-License-Identifier: Apache-2.0
"""What is folded when the model is compiled is what the operators' cases expect of the kernels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import harness
import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.reference import Unknown


def results(job: harness.Job) -> list[Any] | None:
    """What the compiler makes of a case's only node; None if it leaves that to the kernel."""
    nodes = list(ir.serde.deserialize_model(job.model).graph)
    if len(nodes) != 1:
        return None
    given = {f"x{i}": a for i, a in enumerate(job.case.inputs)}
    inputs = [None if v is None else given[str(v.name)] for v in nodes[0].inputs]
    try:
        return evaluate(nodes[0], inputs)
    except (Unknown, Invalid):
        return None


#: What the last place of an element is worth, at most.
STEP = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_same(found: Any, want: Any, cast: bool) -> bool:
    """Equal, floats up to the rounding of a few steps; a Cast rounds as it must."""
    if found.shape != want.shape or found.dtype != want.dtype:
        return False
    if found.dtype.kind not in "fV":
        return bool(np.array_equal(found, want))
    a, b = found.astype(np.float64), want.astype(np.float64)
    step = 0.0 if cast else STEP.get(found.dtype.name, 1e-5)
    return bool(np.allclose(a, b, rtol=step, atol=step, equal_nan=True))


def test_a_folded_node_is_what_its_case_expects() -> None:
    known, wrong = Counter[str](), []
    for job in harness.collect():
        if job.model is None or job.fused:
            continue
        found = results(job)
        if found is not None:
            known[job.label.split("[")[0]] += 1
            pairs = zip(found, map(np.asarray, job.want), strict=False)
            cast = job.label.startswith("Cast")
            wrong += [job.label] * (not all(is_same(a, b, cast) for a, b in pairs))
    assert not wrong
    assert len(known) > 100 and sum(known.values()) > 900
    assert not {"GRU", "LSTM", "RNN", "LRN", "Conv", "MaxPool", "LogSoftmax"} & set(known)


def node_of(op: str, attrs: dict[str, Any], count: int) -> ir.Node:
    """A node of constants c0, c1, …"""
    names = [f"c{i}" for i in range(count)]
    return ir.serde.deserialize_node(helper.make_node(op, names, ["y"], **attrs))


@pytest.mark.parametrize("op", ["OneHot", "ReduceLogSumExp", "ScatterElements", "Clip"])
def test_infinities_are_folded_as_the_kernels_compute_them(op: str) -> None:
    """onnx.reference subtracts an infinity from itself, or loses a NaN."""
    floats, ints = (lambda *a: np.array(a, np.float32)), (lambda *a: np.array(a, np.int64))
    if op == "OneHot":
        node, inputs = node_of(op, {}, 3), [ints(0, -1, 2), ints(2), floats(0, -np.inf)]
        (found,) = evaluate(node, inputs)
        want = floats(-np.inf, 0, 0, -np.inf, 0, 0).reshape(3, 2)
        assert np.array_equal(found, want) and found.dtype == want.dtype
        (found,) = evaluate(
            node_of(op, {"axis": 0}, 3), [inputs[0].astype(np.float32), *inputs[1:]]
        )
        assert np.array_equal(found, want.T)
        with pytest.raises(Unknown):
            evaluate(node, [floats(0.5), *inputs[1:]])
        with pytest.raises(Invalid):
            evaluate(node_of(op, {"axis": 2}, 3), inputs)
        return
    attrs, inputs = {
        "ReduceLogSumExp": ({}, [floats(-np.inf, -np.inf), ints(0)]),
        "ScatterElements": ({"reduction": "max"}, [floats(np.nan), ints(0), floats(1)]),
        "Clip": ({}, [floats(2), np.array(np.nan, np.float32)]),
    }[op]
    with pytest.raises(Unknown):  # left to the kernel
        evaluate(node_of(op, attrs, len(inputs)), inputs)
