# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml that exporters seldom write, by ONNX's own."""

from __future__ import annotations

import math

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import OneOf, Rowwise, operator
from aot.normalise.decompose import decompose
from aot.normalise.decompose_builder import FLOAT, INT64, Body
from aot.ops.ml import ML, matches, samples, wide
from aot.shapes.dynamic.rules import dynamic, every_axis
from aot.shapes.types import Type, infer_types, need


@infer_types("Binarizer Imputer", ML)
def same_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The input's type and shape."""
    return [need(types, 0)]


@infer_types("FeatureVectorizer", ML)
def _join_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    columns = sum((need(types, i)[1] or (1,))[-1] for i in range(len(types)))
    return [(FLOAT, (samples(types), columns))]


@infer_types("OneHotEncoder", ML)
def _one_hot_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    kinds = attribute(node, "cats_int64s", None) or attribute(node, "cats_strings", None) or ()
    return [(FLOAT, (*need(types, 0)[1], len(kinds)))]


operator(
    "CastMap",
    "x",
    domain=ML,
    cast_to=OneOf("TO_FLOAT TO_STRING TO_INT64", "TO_FLOAT"),
    map_form=OneOf("DENSE SPARSE", "DENSE"),
)


@decompose("Binarizer", ML)
def _binarizer(b: Body) -> bool:
    threshold = b.constant(FLOAT, (), [float(attribute(b.node, "threshold", 0.0))])
    b.add("Cast", b.add("Greater", wide(b), threshold), to=b.kind(), out="o0")
    return True


operator("Imputer", "x", domain=ML, traits=[Rowwise()])


@decompose("Imputer", ML)
def _imputer(b: Body) -> bool:
    whole = attribute(b.node, "imputed_value_int64s", None)
    if whole:
        new = b.data(np.array(whole, np.int64))
        old = int(attribute(b.node, "replaced_value_int64", 0))
        missing = b.add("Equal", "i0", b.constant(INT64, (), [old]))
    else:
        new = b.data(b.floats("imputed_value_floats"))
        gone = float(attribute(b.node, "replaced_value_float", 0.0))
        number = b.constant(FLOAT, (), [gone])
        missing = b.add("IsNaN", "i0") if math.isnan(gone) else b.add("Equal", "i0", number)
    b.add("Where", missing, new, "i0", out="o0")
    return True


@decompose("FeatureVectorizer", ML)
def _feature_vectorizer(b: Body) -> bool:
    parts = []
    for i in range(len(b.node.inputs)):
        shape = b.shape(i)
        x = f"i{i}" if b.kind(i) == FLOAT else b.add("Cast", f"i{i}", to=FLOAT)
        parts.append(x if len(shape) == 2 else b.add("Reshape", x, b.ints(1, *shape[-1:])))
    b.add("Concat", *parts, axis=1, out="o0")
    return True


@decompose("OneHotEncoder", ML)
def _one_hot_encoder(b: Body) -> bool:
    kinds = attribute(b.node, "cats_int64s", None)
    if not kinds:
        return b.refuse("categories that are strings")
    if not attribute(b.node, "zeros", 1):
        return b.refuse("zeros 0: an unknown category is an error")
    x = "i0" if b.kind() == INT64 else b.add("Cast", "i0", to=INT64)
    b.add("Cast", matches(b, x, np.array(kinds, np.int64)), to=FLOAT, out="o0")
    return True


dynamic("Binarizer", ML)(every_axis)
