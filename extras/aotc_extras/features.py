# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml that exporters seldom write, by ONNX's own."""

from __future__ import annotations

import math

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, TEXT, attribute, shape_of, title
from aot.ir.operators import OneOf, Rowwise, operator
from aot.load.encode_strings import Strings, encodes
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.ml import ML, matches, samples, wide
from aot.shapes.dynamic.rules import dynamic, every_axis, needed
from aot.shapes.types import Type, infer_types, need


@infer_types("Binarizer Imputer", ML)
def same_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The input's type and shape."""
    return [need(types, 0)]


@infer_types("FeatureVectorizer", ML)
def _join_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Float32 [samples, sum of the columns of all inputs]."""
    columns = sum((need(types, i)[1] or (1,))[-1] for i in range(len(types)))
    return [(FLOAT, (samples(types), columns))]


@infer_types("OneHotEncoder", ML)
def _one_hot_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Float32 of the input's shape with one more axis at the end, of one element per category."""
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
    """1 where an element is greater than the threshold, else 0, in the input's type."""
    threshold = b.constant(FLOAT, (), [float(attribute(b.node, "threshold", 0.0))])
    b.add("Cast", b.add("Greater", wide(b), threshold), to=b.kind(), out="o0")
    return True


operator("Imputer", "x", domain=ML, traits=[Rowwise()])


@decompose("Imputer", ML)
def _imputer(b: Body) -> bool:
    """Replace the elements that equal the replaced value, which may be NaN; integers if given so.

    The new values broadcast over samples: one for all features, or one for each.
    """
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
    """All inputs side by side as float32; an input of rank 1 is one sample."""
    parts = []
    for i in range(len(b.node.inputs)):
        shape = b.shape(i)
        x = f"i{i}" if b.kind(i) == FLOAT else b.add("Cast", f"i{i}", to=FLOAT)
        parts.append(x if len(shape) == 2 else b.add("Reshape", x, b.ints(1, *shape[-1:])))
    b.add("Concat", *parts, axis=1, out="o0")
    return True


@decompose("OneHotEncoder", ML)
def _one_hot_encoder(b: Body) -> bool:
    """A 1 at the place of the element's category; refuses a node without integer categories.

    Without `zeros` an element of no category ends the run.
    """
    kinds = attribute(b.node, "cats_int64s", None)
    if not kinds:
        return b.refuse("no categories")
    x = "i0" if b.kind() == INT64 else b.add("Cast", "i0", to=INT64)
    hits = matches(b, x, np.array(kinds, np.int64))
    y = b.add("Cast", hits, to=FLOAT)
    if not attribute(b.node, "zeros", 1):
        y = b.add("Add", y, b.add("Cast", _unknown(b, hits), to=FLOAT))
    b.add("Identity", y, out="o0")
    return True


def _unknown(b: Body, hits: str) -> str:
    """How many elements of input 0 are no category, which is 0: the run ends if it is not."""
    found = b.add("ReduceSum", b.add("ReduceMax", hits, b.ints(-1), keepdims=0), keepdims=0)
    known = b.add("Cast", b.add("Reshape", found, b.ints(1)), to=INT64)
    missing = b.add("Sub", b.ints(math.prod(b.shape(0))), known)
    return b.add("Within", missing, domain=DYNAMIC, most=0)


@encodes("OneHotEncoder", ML)
def _encode_categories(strings: Strings, node: ir.Node) -> None:
    """The places of strings among the categories, encoded as integers are."""
    words = np.array(attribute(node, "cats_strings", None) or (), object)
    edit, old = strings.editor(node), node.outputs[0]
    keys = edit.const(strings.encoded(words, title(node)), "categories")
    place = strings.make(
        node, "Find", [needed(node, 0), keys], INT64, shape_of(needed(node, 0)), domain=TEXT
    )
    wanted = {"cats_int64s": list(range(len(words))), "zeros": int(attribute(node, "zeros", 1))}
    strings.replace(
        node, strings.make(node, "OneHotEncoder", [place], FLOAT, shape_of(old), wanted, ML)
    )


dynamic("Binarizer", ML)(every_axis)
