# SPDX-License-Identifier: Apache-2.0
"""Models in which several nodes read one matrix, in one orientation or in both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(22)
#: How the product gets the matrix that a Gather reads: by a Transpose, by Gemm, or from a copy.
SPELLINGS = ("transpose", "gemm", "copy")


def f32(*shape: int) -> np.ndarray:
    """Numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes: list, inputs: dict[str, tuple], constants: dict) -> onnx.ModelProto:
    """A model with output y; inputs named ids are int64."""
    kinds = {n: TensorProto.INT64 if n == "ids" else TensorProto.FLOAT for n in inputs}
    infos = [helper.make_tensor_value_info(n, kinds[n], s) for n, s in inputs.items()]
    made = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "shared", infos, [y], made)
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def tied(spelling: str, rows: int, words: int = 70, depth: int = 37) -> onnx.ModelProto:
    """Embeddings of `rows` ids, a layer, and scores of all words by the same matrix, limited."""
    w = f32(words, depth)
    constants = {"w": w, "m": f32(depth, depth) * np.float32(0.2), "b": f32(words)}
    constants |= {"low": np.float32(-9), "high": np.float32(9)}
    nodes = [
        helper.make_node("Gather", ["w", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "m"], ["h"]),
    ]
    if spelling == "gemm":
        nodes.append(helper.make_node("Gemm", ["h", "w", "b"], ["s"], transB=1))
        nodes.append(helper.make_node("Clip", ["s", "low", "high"], ["y"]))
        return model(nodes, {"ids": (rows,)}, constants)
    if spelling == "copy":
        constants |= {"wt": np.ascontiguousarray(w.T), "again": w.copy()}
        nodes.append(helper.make_node("Gather", ["again", "ids"], ["e2"]))
        nodes.append(helper.make_node("Add", ["h", "e2"], ["h2"]))
        nodes.append(helper.make_node("MatMul", ["h2", "wt"], ["s"]))
    else:
        nodes.append(helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["h", "wt"], ["s"]))
    nodes.append(helper.make_node("Add", ["s", "b"], ["a"]))
    nodes.append(helper.make_node("Clip", ["a", "low", "high"], ["y"]))
    return model(nodes, {"ids": (2, rows)}, constants)


def halved(rows: int, w: np.ndarray, m: np.ndarray) -> onnx.ModelProto:
    """Rows of the table `w` of bfloat16 times `m`, limited, and their products with all of it."""
    bf16 = TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Gather", ["w", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "m"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["r", "wt"], ["y"]),
    ]
    narrow = {k: v.astype(helper.tensor_dtype_to_np_dtype(bf16)) for k, v in (("w", w), ("m", m))}
    made = model(nodes, {"ids": (rows,)}, narrow)
    made.graph.output[0].type.tensor_type.elem_type = bf16
    return made


def both_ways(rows: int) -> onnx.ModelProto:
    """An encoder and a decoder with one matrix between: x W, then that times W transposed."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["s"]),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["s", "wt"], ["y"]),
    ]
    return model(nodes, {"x": (rows, 41)}, {"w": f32(41, 35)})


def models() -> Iterator[onnx.ModelProto]:
    """One row and several, each orientation, with an activation and without."""
    for rows in (1, 5):
        yield both_ways(rows)
        yield from (tied(s, rows) for s in SPELLINGS)
