# SPDX-License-Identifier: Apache-2.0
"""Weights of 16 bits that are packed while they are written were nowhere where all constants of a
bundle are tables of its source: its C did not compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

import aot
from aot.tools.run import execute, open_out
from needs import need


def product() -> onnx.ModelProto:
    """The product of 4 rows with weights [16, 32], of bfloat16."""
    kind, values = onnx.TensorProto.BFLOAT16, np.arange(512) % 7 - 3
    weights = helper.make_tensor("w", kind, (16, 32), values.tolist())
    ends = [helper.make_tensor_value_info(n, kind, s) for n, s in (("x", [4, 16]), ("y", [4, 32]))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_few_weights_of_16_bits_are_a_table(tmp_path: Path) -> None:
    for program in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
        need(program)
    aot.compile(product(), tmp_path / "o", target="aarch64-bf16").build()
    one = np.full((4, 16), 0x3F80, np.uint16)  # 1 in bfloat16
    (got,) = execute(open_out(tmp_path / "o"), [one])
    want = (np.arange(512) % 7 - 3).reshape(16, 32).sum(axis=0)
    assert np.array_equal(got[0].astype(np.uint32) << 16, want.astype(np.float32).view(np.uint32))
