# SPDX-License-Identifier: Apache-2.0
"""Small graphs for tests, written in a line each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 21


def model(
    text: Sequence[tuple],
    inputs: dict[str, Sequence[int | str]],
    outputs: dict[str, Sequence[int | str] | None],
    consts: dict[str, np.ndarray] | None = None,
    dtypes: dict[str, int] | None = None,
    opset: int = OPSET,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; `text` rows are (op, inputs, outputs, {attributes})."""
    kinds = dtypes or {}
    nodes = []
    for i, (op, ins, outs, *rest) in enumerate(text):
        domain, _, kind = op.rpartition(".")
        attrs = rest[0] if rest else {}
        nodes.append(
            helper.make_node(
                kind, ins.split(), outs.split(), name=f"n{i}_{kind}", domain=domain, **attrs
            )
        )

    def info(name: str, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        nodes,
        "g",
        [info(n, s) for n, s in inputs.items()],
        [info(n, s) for n, s in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in (consts or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
