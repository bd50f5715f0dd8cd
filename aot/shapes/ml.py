# SPDX-License-Identifier: Apache-2.0
"""Shape rules of the operators of ai.onnx.ml that onnx leaves open: samples are rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aot.ir.graph_edit import attribute_of
from aot.ir.graph_nodes import attribute

if TYPE_CHECKING:
    import onnx_ir as ir

Type = tuple[int, tuple[int, ...]]
FLOAT, INT64, STRING = 1, 7, 8


def _rows(types: list[Type | None]) -> int:
    """Samples: a vector is one of them."""
    if not types or types[0] is None:
        raise ValueError("input 0 is absent")
    shape = types[0][1]
    return shape[0] if len(shape) > 1 else 1


def _of(types: list[Type | None], index: int) -> Type:
    found = types[index] if index < len(types) else None
    if found is None:
        raise ValueError(f"input {index} is absent")
    return found


def to_float(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Float32 results of the input's shape."""
    return [(FLOAT, _of(types, 0)[1])]


def same(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The input's type and shape."""
    return [_of(types, 0)]


def _join(node: ir.Node, types: list[Type | None]) -> list[Type]:
    columns = sum((_of(types, i)[1] or (1,))[-1] for i in range(len(types)))
    return [(FLOAT, (_rows(types), columns))]


def _extract(node: ir.Node, types: list[Type | None]) -> list[Type]:
    from math import prod

    (dtype, shape), (_, picked) = _of(types, 0), _of(types, 1)
    lead = shape[:-1] if len(shape) > 1 else (1,)
    return [(dtype, (*lead, prod(picked)))]


def _encode(node: ir.Node, types: list[Type | None]) -> list[Type]:
    shape = _of(types, 0)[1]
    tensor = attribute(node, "values_tensor", None)
    if tensor is not None:
        return [(int(tensor.dtype), shape)]
    for name, kind in (("values_floats", FLOAT), ("values_int64s", INT64)):
        if attribute(node, name, None):
            return [(kind, shape)]
    return [(STRING, shape)]


def as_encoder(node: ir.Node) -> None:
    """Make a CategoryMapper the LabelEncoder it is: strings to integers, or back.

    Raises ValueError if its attributes do not fit.
    """

    source = node.inputs[0]
    kind = STRING if source is not None and int(source.dtype or 0) == STRING else INT64
    words, numbers = attribute(node, "cats_strings", None), attribute(node, "cats_int64s", None)
    if not words or not numbers or len(words) != len(numbers):
        raise ValueError("there must be as many strings as integers")
    default_text = attribute(node, "default_string", "_Unused")
    default = int(attribute(node, "default_int64", -1))
    there, back = ("strings", words), ("int64s", numbers)
    made: dict[str, Any] = {"default_int64": default}
    if kind != STRING:
        there, back, made = back, there, {"default_string": default_text}
    made |= {f"keys_{there[0]}": list(there[1]), f"values_{back[0]}": list(back[1])}
    node.op_type = "LabelEncoder"
    node.attributes.clear()
    for name, value in made.items():
        node.attributes.add(attribute_of(name, value))


def _one_hot(node: ir.Node, types: list[Type | None]) -> list[Type]:
    kinds = attribute(node, "cats_int64s", None) or attribute(node, "cats_strings", None) or ()
    return [(FLOAT, (*_of(types, 0)[1], len(kinds)))]


def _regress(node: ir.Node, types: list[Type | None]) -> list[Type]:
    targets = int(attribute(node, "targets", None) or attribute(node, "n_targets", None) or 1)
    dtype = _of(types, 0)[0]
    kind = dtype if node.op_type == "TreeEnsemble" else FLOAT
    return [(kind, (_rows(types), targets))]


def _one_score(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [(FLOAT, (_rows(types), 1))]


def _classify(node: ir.Node, types: list[Type | None]) -> list[Type]:
    ints = attribute(node, "classlabels_ints", None) or attribute(node, "classlabels_int64s", None)
    words = attribute(node, "classlabels_strings", None)
    classes = max(2, len(ints or words or ()))
    rows = _rows(types)
    return [(STRING if words else INT64, (rows,)), (FLOAT, (rows, classes))]


def _vote(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """A score for every pair of classes; of two classes for both."""
    words = attribute(node, "classlabels_strings", None)
    classes = len(attribute(node, "vectors_per_class", None) or ())
    if classes < 2 or attribute(node, "prob_a", None):
        scores = max(2, len(words or attribute(node, "classlabels_ints", None) or ()))
    else:
        scores = max(2, classes * (classes - 1) // 2)
    rows = _rows(types)
    return [(STRING if words else INT64, (rows,)), (FLOAT, (rows, scores))]


_ML = "ai.onnx.ml"
ML = {
    (_ML, "Scaler"): to_float,
    (_ML, "Normalizer"): to_float,
    (_ML, "Binarizer"): same,
    (_ML, "Imputer"): same,
    (_ML, "FeatureVectorizer"): _join,
    (_ML, "ArrayFeatureExtractor"): _extract,
    (_ML, "LabelEncoder"): _encode,
    (_ML, "OneHotEncoder"): _one_hot,
    (_ML, "LinearRegressor"): _regress,
    (_ML, "LinearClassifier"): _classify,
    (_ML, "SVMClassifier"): _vote,
    (_ML, "SVMRegressor"): _one_score,
    (_ML, "TreeEnsemble"): _regress,
    (_ML, "TreeEnsembleRegressor"): _regress,
    (_ML, "TreeEnsembleClassifier"): _classify,
}
