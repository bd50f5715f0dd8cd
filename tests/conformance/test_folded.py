# SPDX-License-Identifier: Apache-2.0
"""onnx's own node tests, their inputs constant: what is folded is what the tests expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import suite

from aot.errors import UnsupportedError
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.reference import Unknown


def folded(test: suite.Test, inputs: list[Any]) -> list[Any] | None:
    """What the compiler makes of the only node; None where it leaves that to a kernel."""
    (node,) = ir.serde.deserialize_model(test.model).graph
    given = dict(zip([i.name for i in test.model.graph.input], inputs, strict=False))
    operands = [None if v is None else given.get(str(v.name)) for v in node.inputs]
    if any(a is not None and not isinstance(a, np.ndarray) for a in operands):
        return None  # sequences and optionals
    try:
        return evaluate(node, operands)
    except (Unknown, Invalid, UnsupportedError):
        return None


def is_same(found: Any, want: Any) -> bool:
    """Equal, floats within what the tests allow."""
    if found.shape != want.shape or found.dtype != want.dtype:
        return found.dtype.kind in "OU" and found.tolist() == want.tolist()
    if found.dtype.kind not in "fV":
        return bool(np.array_equal(found, want))
    a, b = found.astype(np.float64), want.astype(np.float64)
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True))


def test_a_folded_node_is_what_its_test_expects() -> None:
    count, wrong = 0, []
    for test in suite.collect():
        nodes = test.model.graph.node
        if test.suite != "node" or len(nodes) != 1 or nodes[0].domain:
            continue
        inputs, outputs = test.data_sets[0]
        found = folded(test, inputs)
        if found is not None:
            count += 1
            pairs = zip(found, map(np.asarray, outputs), strict=False)
            wrong += [test.name] * (not all(is_same(a, b) for a, b in pairs))
    assert not wrong
    assert count > 800
