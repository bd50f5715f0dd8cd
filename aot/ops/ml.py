# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml that exporters commonly write, by ONNX's own operators.

Before: y = ai.onnx.ml.Scaler(x; offset, scale)
After: y = Mul(Sub(x, offset), scale)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_edit import attribute_of
from aot.ir.graph_nodes import attribute, set_type, shape_of, title
from aot.ir.operators import OneOf, Rowwise, operator
from aot.load.encode_strings import UINT8, Strings, encodes
from aot.load.maps import maps_of
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.trees import POST_TRANSFORM
from aot.shapes.dynamic.rules import needed
from aot.shapes.types import Type, infer_types, need

ML = "ai.onnx.ml"
STRING = 8
NO_LABELS = "no labels"


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


@maps_of("ZipMap", ML)
def _unzip(node: onnx.NodeProto) -> list[str]:
    """Before: z = ZipMap<classlabels_int64s = [3, 5]>(p)      After: z = Identity(p)"""
    labels: list[str] = []
    for given in node.attribute:
        labels += [s.decode("utf-8", "replace") for s in given.strings] + list(map(str, given.ints))
    node.domain, node.op_type = "", "Identity"
    del node.attribute[:]
    return labels


@encodes("ArrayFeatureExtractor", ML)
def _extract_strings(strings: Strings, node: ir.Node) -> None:
    """Rows of bytes from the last axis of strings; a vector is one sample."""
    x, shape = needed(node, 0), shape_of(node.outputs[0])
    lead = (*shape[:-1], shape_of(x)[-1] if shape_of(x) else 1, strings.width)
    x = strings.make(node, "Reshape", [x, strings.ints(node, lead)], UINT8, lead)
    flat = strings.make(
        node, "Reshape", [needed(node, 1), strings.ints(node, [-1])], INT64, shape[-1:]
    )
    full = (*shape, strings.width)
    strings.replace(
        node, strings.make(node, "Gather", [x, flat], UINT8, full, {"axis": len(shape) - 1})
    )


@encodes("LinearClassifier TreeEnsembleClassifier", ML)
def number_labels(strings: Strings, node: ir.Node) -> None:
    """The labels are numbers, then the strings of these places in a table.

    Before: y, z = Classifier<classlabels_strings = ["a", "b"]>(x)
    After:  n, z = Classifier<classlabels_ints = [0, 1]>(x); y = Gather(["a", "b"], n)
    """
    words = np.array(attribute(node, "classlabels_strings", None) or (), object)
    edit, (labels, scores) = strings.editor(node), node.outputs
    ints = "classlabels_int64s" if node.op_type == "TreeEnsembleClassifier" else "classlabels_ints"
    kept = [a for n, a in node.attributes.items() if n != "classlabels_strings"]
    numbers = attribute_of(ints, list(range(len(words))))
    made = ir.Node(ML, node.op_type, node.inputs, [*kept, numbers], num_outputs=2, name=node.name)
    for value, old, dtype in zip(made.outputs, node.outputs, (INT64, FLOAT), strict=True):
        value.name = edit.fresh(str(old.name))
        set_type(value, dtype, shape_of(old))
    edit.graph.insert_before(node, made)
    table = edit.const(strings.encoded(words, title(node)), "labels")
    full = (*shape_of(labels), strings.width)
    new = strings.make(node, "Gather", [table, made.outputs[0]], UINT8, full, {"axis": 0})
    edit.replace(labels, new)
    edit.replace(scores, made.outputs[1])
    edit.remove(node)


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
    column = b.add("Unsqueeze", x, b.ints(-1))
    equal = b.add("Equal", column, b.data(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = b.add("And", b.add("IsNaN", column), b.data(np.isnan(keys)))
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
        return b.refuse(NO_LABELS)
    shift = b.floats("intercepts")
    rows = int(shift.size) or len(labels)
    if rows != len(labels):
        # One row for two classes: runtimes differ in what the other score is.
        return b.refuse(f"{rows} rows of coefficients for {len(labels)} classes")
    scores = _linear(b, rows)
    best = b.add("ArgMax", scores, axis=-1, keepdims=0)
    b.add("Gather", b.data(np.array(labels, np.int64)), best, out="o0")
    return transformed(b, scores, "o1")
