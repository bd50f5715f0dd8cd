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
    """The type of an ArrayFeatureExtractor: that of x, its last axis as long as the picked
    indices.
    """
    from math import prod

    (dtype, shape), (_, picked) = need(types, 0), need(types, 1)
    lead = shape[:-1] if len(shape) > 1 else (1,)
    return [(dtype, (*lead, prod(picked)))]


@infer_types("LinearRegressor TreeEnsemble TreeEnsembleRegressor", ML)
def _regress_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of a regressor: [samples, targets], of x's type for TreeEnsemble, else float32."""
    targets = int(attribute(node, "targets", None) or attribute(node, "n_targets", None) or 1)
    dtype = need(types, 0)[0]
    kind = dtype if node.op_type == "TreeEnsemble" else FLOAT
    return [(kind, (samples(types), targets))]


@infer_types("LinearClassifier TreeEnsembleClassifier", ML)
def _classify_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types of a classifier: labels [samples], strings or int64, and float32 [samples,
    classes].
    """
    ints = attribute(node, "classlabels_ints", None) or attribute(node, "classlabels_int64s", None)
    words = attribute(node, "classlabels_strings", None)
    classes = max(2, len(ints or words or ()))
    rows = samples(types)
    return [(STRING if words else INT64, (rows,)), (FLOAT, (rows, classes))]


@maps_of("ZipMap", ML)
def _unzip(node: onnx.NodeProto) -> list[str]:
    """Turn a ZipMap, in place, into an Identity; returned are its labels as texts.

    Before: z = ZipMap<classlabels_int64s = [3, 5]>(p)      After: z = Identity(p)
    """
    labels: list[str] = []
    for given in node.attribute:
        labels += [s.decode("utf-8", "replace") for s in given.strings] + list(map(str, given.ints))
    node.domain, node.op_type = "", "Identity"
    del node.attribute[:]
    return labels


@encodes("ArrayFeatureExtractor", ML)
def _extract_strings(strings: Strings, node: ir.Node) -> None:
    """Replace an ArrayFeatureExtractor of encoded strings by a Gather of rows of bytes.

    The axis that is picked from is the last one of the strings; a vector is one sample.
    """
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
    """Let a classifier of string labels give numbers, by which the labels are gathered.

    Before: y, z = Classifier<classlabels_strings = ["a", "b"]>(x) After:  n, z =
    Classifier<classlabels_ints = [0, 1]>(x); y = Gather(["a", "b"], n)
    """
    words = np.array(attribute(node, "classlabels_strings", None) or (), object)
    edit, (labels, scores) = strings.editor(node), node.outputs
    # The two operators spell the attribute differently.
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
    """The name of input 0 as float32, cast if need be."""
    return "i0" if b.kind() == FLOAT else b.add("Cast", "i0", to=FLOAT)


def rows(b: Body, x: str) -> str:
    """The name of `x` as [samples, features]; a vector is one sample."""
    shape = b.shape(0)
    return x if len(shape) > 1 else b.add("Reshape", x, b.ints(1, *shape))


operator("Scaler", "x", domain=ML, traits=[Rowwise()])


@decompose("Scaler", ML)
def _scaler(b: Body) -> bool:
    """Decompose a Scaler: (x - offset) * scale in float32; absent lists count as 0 and 1."""
    x = wide(b)
    offset, scale = b.floats("offset"), b.floats("scale")
    if offset.size:
        x = b.add("Sub", x, b.data(offset))
    b.add("Mul", x, b.data(scale if scale.size else np.ones(1, np.float32)), out="o0")
    return True


operator("Normalizer", "x", domain=ML, traits=[Rowwise()], norm=OneOf("MAX L1 L2", "MAX"))


@decompose("Normalizer", ML)
def _normalizer(b: Body) -> bool:
    """Decompose a Normalizer: rows divided by their MAX, L1 or L2 norm; False for another norm.

    Rows of zeros stay as they are, as in onnxruntime.
    """
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
    """Decompose an ArrayFeatureExtractor: a Gather along the last axis."""
    flat = b.add("Reshape", "i1", b.ints(-1))
    b.add("Gather", rows(b, "i0"), flat, axis=-1, out="o0")
    return True


def matches(b: Body, x: str, keys: np.ndarray[Any, Any]) -> str:
    """The name of int32 [*x, keys]: 1 where x equals a key; NaN equals NaN."""
    column = b.add("Unsqueeze", x, b.ints(-1))
    equal = b.add("Equal", column, b.data(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = b.add("And", b.add("IsNaN", column), b.data(np.isnan(keys)))
        equal = b.add("Or", equal, both)
    return b.add("Cast", equal, to=6)


def transformed(b: Body, scores: str, out: str) -> bool:
    """Add the post_transform of `scores` as output `out`; refused (False) for the ones not
    known.
    """
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
    """The name of x @ coefficients + intercepts, float32 [samples, targets]."""
    x = rows(b, wide(b))
    weights = b.floats("coefficients").reshape(targets, -1)
    y = b.add("MatMul", x, b.data(np.ascontiguousarray(weights.T)))
    shift = b.floats("intercepts")
    return b.add("Add", y, b.data(shift)) if shift.size else y


operator("LinearRegressor", "x", domain=ML, traits=[Rowwise()], post_transform=POST_TRANSFORM)


@decompose("LinearRegressor", ML)
def _linear_regressor(b: Body) -> bool:
    """Decompose a LinearRegressor: a matrix product, then its post_transform."""
    return transformed(b, _linear(b, int(attribute(b.node, "targets", 1))), "o0")


operator("LinearClassifier", "x", domain=ML, traits=[Rowwise()], post_transform=POST_TRANSFORM)


@decompose("LinearClassifier", ML)
def _linear_classifier(b: Body) -> bool:
    """Decompose a LinearClassifier: scores of a matrix product, the label of the largest.

    Refused without integer labels, or with other than one row of coefficients per class.
    """
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
