# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml that exporters commonly write, by ONNX's own operators.

Before: y = ai.onnx.ml.Scaler(x; offset, scale)
After: y = Mul(Sub(x, offset), scale)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import OneOf, Rowwise, operator
from aot.normalise.decompose import decompose
from aot.normalise.decompose_builder import FLOAT, INT64, Body
from aot.ops.trees import POST_TRANSFORM
from aot.shapes.types import Type, infer_types, need

ML = "ai.onnx.ml"
STRING = 8
STRINGS = "labels that are strings (needs integers)"


def samples(types: list[Type | None]) -> int:
    """How many samples operand 0 holds: rows of [N, C], one for [C].

    Raises ValueError if operand 0 is absent.
    """
    if not types or types[0] is None:
        raise ValueError("input 0 is absent")
    shape = types[0][1]
    return shape[0] if len(shape) > 1 else 1


@infer_types("Scaler Normalizer", ML)
def to_float_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Float32 results of the input's shape."""
    return [(FLOAT, need(types, 0)[1])]


@infer_types("ArrayFeatureExtractor", ML)
def _extract_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    from math import prod

    (dtype, shape), (_, picked) = need(types, 0), need(types, 1)
    lead = shape[:-1] if len(shape) > 1 else (1,)
    return [(dtype, (*lead, prod(picked)))]


@infer_types("LinearRegressor TreeEnsemble TreeEnsembleRegressor", ML)
def _regress_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    targets = int(attribute(node, "targets", None) or attribute(node, "n_targets", None) or 1)
    dtype = need(types, 0)[0]
    kind = dtype if node.op_type == "TreeEnsemble" else FLOAT
    return [(kind, (samples(types), targets))]


@infer_types("LinearClassifier TreeEnsembleClassifier", ML)
def _classify_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    ints = attribute(node, "classlabels_ints", None) or attribute(node, "classlabels_int64s", None)
    words = attribute(node, "classlabels_strings", None)
    classes = max(2, len(ints or words or ()))
    rows = samples(types)
    return [(STRING if words else INT64, (rows,)), (FLOAT, (rows, classes))]


def wide(b: Body) -> str:
    """Input 0 as float32."""
    return "i0" if b.kind() == FLOAT else b.add("Cast", "i0", to=FLOAT)


def rows(b: Body, x: str) -> str:
    """`x` as samples by features: a vector is one sample."""
    shape = b.shape(0)
    return x if len(shape) > 1 else b.add("Reshape", x, b.ints(1, *shape))


operator("Scaler", "x", domain=ML, traits=[Rowwise()])


@decompose("Scaler", ML)
def _scaler(b: Body) -> bool:
    x = wide(b)
    offset, scale = b.floats("offset"), b.floats("scale")
    if offset.size:
        x = b.add("Sub", x, b.data(offset))
    b.add("Mul", x, b.data(scale if scale.size else np.ones(1, np.float32)), out="o0")
    return True


operator("Normalizer", "x", domain=ML, traits=[Rowwise()], norm=OneOf("MAX L1 L2", "MAX"))


@decompose("Normalizer", ML)
def _normalizer(b: Body) -> bool:
    """As onnxruntime: rows of zeros stay what they are."""
    norm = attribute(b.node, "norm", "MAX")
    x, axis = wide(b), b.ints(len(b.shape(0)) - 1)
    if norm == "MAX":
        size = b.add("ReduceMax", x, axis)
    elif norm == "L1":
        size = b.add("ReduceL1", x, axis)
    else:
        size = b.add("ReduceL2", x, axis)
    zero, one = b.constant(FLOAT, (), [0.0]), b.constant(FLOAT, (), [1.0])
    b.add("Div", x, b.add("Where", b.add("Equal", size, zero), one, size), out="o0")
    return norm in ("MAX", "L1", "L2")


@decompose("ArrayFeatureExtractor", ML)
def _array_feature_extractor(b: Body) -> bool:
    flat = b.add("Reshape", "i1", b.ints(-1))
    b.add("Gather", rows(b, "i0"), flat, axis=-1, out="o0")
    return True


def matches(b: Body, x: str, keys: np.ndarray[Any, Any]) -> str:
    """x[..., None] == keys as int32; NaN equals NaN."""
    apart = b.add("Unsqueeze", x, b.ints(-1))
    equal = b.add("Equal", apart, b.data(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = b.add("And", b.add("IsNaN", apart), b.data(np.isnan(keys)))
        equal = b.add("Or", equal, both)
    return b.add("Cast", equal, to=6)


def transformed(b: Body, scores: str, out: str) -> bool:
    """The post_transform of `scores`; False for the ones that are not known."""
    kind = attribute(b.node, "post_transform", "NONE")
    if kind == "SOFTMAX":
        b.add("Softmax", scores, axis=-1, out=out)
    elif kind == "LOGISTIC":
        b.add("Sigmoid", scores, out=out)
    else:
        b.add("Identity", scores, out=out)
    if kind in ("SOFTMAX", "LOGISTIC", "NONE"):
        return True
    return b.refuse(f"post_transform {kind} (needs NONE, LOGISTIC or SOFTMAX)")


def _linear(b: Body, targets: int) -> str:
    x = rows(b, wide(b))
    weights = b.floats("coefficients").reshape(targets, -1)
    y = b.add("MatMul", x, b.data(np.ascontiguousarray(weights.T)))
    shift = b.floats("intercepts")
    return b.add("Add", y, b.data(shift)) if shift.size else y


operator("LinearRegressor", "x", domain=ML, traits=[Rowwise()], post_transform=POST_TRANSFORM)


@decompose("LinearRegressor", ML)
def _linear_regressor(b: Body) -> bool:
    return transformed(b, _linear(b, int(attribute(b.node, "targets", 1))), "o0")


operator("LinearClassifier", "x", domain=ML, traits=[Rowwise()], post_transform=POST_TRANSFORM)


@decompose("LinearClassifier", ML)
def _linear_classifier(b: Body) -> bool:
    labels = attribute(b.node, "classlabels_ints", None)
    if not labels:
        return b.refuse(STRINGS)
    shift = b.floats("intercepts")
    rows = int(shift.size) or len(labels)
    if rows != len(labels):
        # One row for two classes: runtimes differ in what the other score is.
        return b.refuse(f"{rows} rows of coefficients for {len(labels)} classes")
    scores = _linear(b, rows)
    best = b.add("ArgMax", scores, axis=-1, keepdims=0)
    b.add("Gather", b.data(np.array(labels, np.int64)), best, out="o0")
    return transformed(b, scores, "o1")
