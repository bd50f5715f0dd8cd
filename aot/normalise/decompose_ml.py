# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml and of training, by the operators of ONNX itself.

Before: y = ai.onnx.ml.Scaler(x; offset, scale)
After: y = Mul(Sub(x, offset), scale)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import numpy_helper

from aot.ir.graph_nodes import attribute
from aot.normalise.decompose_builder import Body

FLOAT, INT64 = 1, 7
STRINGS = "labels that are strings (needs integers)"


def _floats(b: Body, name: str) -> np.ndarray[Any, Any]:
    return np.array(attribute(b.node, name, None) or (), np.float32)


def _kind(b: Body, index: int = 0) -> int:
    value = b.node.inputs[index]
    assert value is not None and value.dtype is not None
    return int(value.dtype)


def _wide(b: Body) -> str:
    """Input 0 as float32."""
    return "i0" if _kind(b) == FLOAT else b.add("Cast", "i0", to=FLOAT)


def _rows(b: Body, x: str) -> str:
    """`x` as samples by features: a vector is one sample."""
    shape = b.shape(0)
    return x if len(shape) > 1 else b.add("Reshape", x, b.ints(1, *shape))


def _scaler(b: Body) -> bool:
    x = _wide(b)
    offset, scale = _floats(b, "offset"), _floats(b, "scale")
    if offset.size:
        x = b.add("Sub", x, b.data(offset))
    b.add("Mul", x, b.data(scale if scale.size else np.ones(1, np.float32)), out="o0")
    return True


def _binarizer(b: Body) -> bool:
    threshold = b.constant(FLOAT, (), [float(attribute(b.node, "threshold", 0.0))])
    b.add("Cast", b.add("Greater", _wide(b), threshold), to=_kind(b), out="o0")
    return True


def _normalizer(b: Body) -> bool:
    """As onnxruntime: rows of zeros stay what they are."""
    norm = attribute(b.node, "norm", "MAX")
    x, axis = _wide(b), b.ints(len(b.shape(0)) - 1)
    if norm == "MAX":
        size = b.add("ReduceMax", x, axis)
    elif norm == "L1":
        size = b.add("ReduceL1", x, axis)
    else:
        size = b.add("ReduceL2", x, axis)
    zero, one = b.constant(FLOAT, (), [0.0]), b.constant(FLOAT, (), [1.0])
    b.add("Div", x, b.add("Where", b.add("Equal", size, zero), one, size), out="o0")
    return norm in ("MAX", "L1", "L2")


def _imputer(b: Body) -> bool:
    whole = attribute(b.node, "imputed_value_int64s", None)
    if whole:
        new = b.data(np.array(whole, np.int64))
        old = int(attribute(b.node, "replaced_value_int64", 0))
        missing = b.add("Equal", "i0", b.constant(INT64, (), [old]))
    else:
        new = b.data(_floats(b, "imputed_value_floats"))
        gone = float(attribute(b.node, "replaced_value_float", 0.0))
        number = b.constant(FLOAT, (), [gone])
        missing = b.add("IsNaN", "i0") if math.isnan(gone) else b.add("Equal", "i0", number)
    b.add("Where", missing, new, "i0", out="o0")
    return True


def _feature_vectorizer(b: Body) -> bool:
    parts = []
    for i in range(len(b.node.inputs)):
        shape = b.shape(i)
        x = f"i{i}" if _kind(b, i) == FLOAT else b.add("Cast", f"i{i}", to=FLOAT)
        parts.append(x if len(shape) == 2 else b.add("Reshape", x, b.ints(1, *shape[-1:])))
    b.add("Concat", *parts, axis=1, out="o0")
    return True


def _array_feature_extractor(b: Body) -> bool:
    flat = b.add("Reshape", "i1", b.ints(-1))
    b.add("Gather", _rows(b, "i0"), flat, axis=-1, out="o0")
    return True


def _table(b: Body, what: str) -> np.ndarray[Any, Any] | None:
    """Keys or values of a LabelEncoder; None where they are strings."""
    tensor = attribute(b.node, f"{what}_tensor", None)
    if tensor is not None:
        found = np.asarray(tensor.numpy())
        return found if found.dtype.kind in "if" else None
    for name, kind in (("floats", np.float32), ("int64s", np.int64)):
        given = attribute(b.node, f"{what}_{name}", None)
        if given:
            return np.array(given, kind)
    return None


def _default(b: Body, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    tensor = attribute(b.node, "default_tensor", None)
    if tensor is not None:
        return np.asarray(tensor.numpy(), values.dtype).reshape(())
    if values.dtype.kind == "f":
        return np.array(attribute(b.node, "default_float", -0.0), values.dtype)
    return np.array(attribute(b.node, "default_int64", -1), values.dtype)


def _matches(b: Body, x: str, keys: np.ndarray[Any, Any]) -> str:
    """x[..., None] == keys as int32; NaN equals NaN."""
    apart = b.add("Unsqueeze", x, b.ints(-1))
    equal = b.add("Equal", apart, b.data(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = b.add("And", b.add("IsNaN", apart), b.data(np.isnan(keys)))
        equal = b.add("Or", equal, both)
    return b.add("Cast", equal, to=6)


def _label_encoder(b: Body) -> bool:
    keys, values = _table(b, "keys"), _table(b, "values")
    if keys is None or values is None or keys.size == 0:
        return b.refuse("keys or values that are none, or of another type than numbers")
    hits = _matches(b, "i0", keys)
    place = b.add("ArgMax", hits, axis=-1, keepdims=0)
    found = b.add("Cast", b.add("ReduceMax", hits, b.ints(-1), keepdims=0), to=9)
    b.add("Where", found, b.add("Gather", b.data(values), place), b.data(_default(b, values)))
    b.nodes[-1].output[0] = "o0"
    return True


def _one_hot_encoder(b: Body) -> bool:
    kinds = attribute(b.node, "cats_int64s", None)
    if not kinds:
        return b.refuse("categories that are strings")
    if not attribute(b.node, "zeros", 1):
        return b.refuse("zeros 0: an unknown category is an error")
    x = "i0" if _kind(b) == INT64 else b.add("Cast", "i0", to=INT64)
    b.add("Cast", _matches(b, x, np.array(kinds, np.int64)), to=FLOAT, out="o0")
    return True


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
    x = _rows(b, _wide(b))
    weights = _floats(b, "coefficients").reshape(targets, -1)
    y = b.add("MatMul", x, b.data(np.ascontiguousarray(weights.T)))
    shift = _floats(b, "intercepts")
    return b.add("Add", y, b.data(shift)) if shift.size else y


def _linear_regressor(b: Body) -> bool:
    return transformed(b, _linear(b, int(attribute(b.node, "targets", 1))), "o0")


def _linear_classifier(b: Body) -> bool:
    labels = attribute(b.node, "classlabels_ints", None)
    if not labels:
        return b.refuse(STRINGS)
    shift = _floats(b, "intercepts")
    rows = int(shift.size) or len(labels)
    if rows != len(labels):
        # One row for two classes: runtimes differ in what the other score is.
        return b.refuse(f"{rows} rows of coefficients for {len(labels)} classes")
    scores = _linear(b, rows)
    best = b.add("ArgMax", scores, axis=-1, keepdims=0)
    b.add("Gather", b.data(np.array(labels, np.int64)), best, out="o0")
    return transformed(b, scores, "o1")


def _svm_regressor(b: Body) -> bool:
    """A sum over support vectors, or a linear function without them."""
    if int(attribute(b.node, "one_class", 0)):
        return b.refuse("one_class 1 (runtimes differ)")
    count = int(attribute(b.node, "n_supports", 0))
    weights, rho = _floats(b, "coefficients"), _floats(b, "rho")
    x = _rows(b, _wide(b))
    if count:
        x = _kernel(b, x, _floats(b, "support_vectors").reshape(count, -1))
    elif attribute(b.node, "kernel_type", "LINEAR") != "LINEAR":
        return b.refuse(f"kernel_type {attribute(b.node, 'kernel_type')} without support vectors")
    y = b.add("MatMul", x, b.data(weights.reshape(-1, 1)))
    return transformed(b, b.add("Add", y, b.data(rho[:1])), "o0")


def _kernel(b: Body, x: str, vectors: np.ndarray[Any, Any]) -> str:
    """The kernel function of every sample and every support vector."""
    kind = attribute(b.node, "kernel_type", "LINEAR")
    gamma, shift, degree = (*(float(v) for v in _floats(b, "kernel_params")), 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        apart = b.add("Sub", b.add("Unsqueeze", x, b.ints(1)), b.data(vectors))
        far = b.add("ReduceSumSquare", apart, b.ints(2), keepdims=0)
        return b.add("Exp", b.add("Mul", far, b.constant(FLOAT, (), [-gamma])))
    inner = b.add("MatMul", x, b.data(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return inner
    scaled = b.add("Mul", inner, b.constant(FLOAT, (), [gamma]))
    moved = b.add("Add", scaled, b.constant(FLOAT, (), [shift]))
    if kind == "SIGMOID":
        return b.add("Tanh", moved)
    return b.add("Pow", moved, b.constant(FLOAT, (), [degree]))


_WITHOUT_PROBABILITIES = (
    "train the classifier without them (scikit-learn: SVC(probability=False)); its labels and "
    "scores can be compiled"
)


def _svm_classifier(b: Body) -> bool:
    """Every pair of classes has a score, and votes for one; the class with most votes is it.

    Refused: probabilities (`prob_a`), which are found by iteration; strings as labels.
    """
    labels = attribute(b.node, "classlabels_ints", None)
    counts = [int(v) for v in attribute(b.node, "vectors_per_class", None) or ()]
    classes = len(counts)
    kind = attribute(b.node, "post_transform", "NONE")
    if not labels:
        return b.refuse(STRINGS)
    if classes < 2 or len(labels) != classes:
        return b.refuse(f"{len(labels)} labels for support vectors of {classes} classes")
    if _floats(b, "prob_a").size:
        return b.refuse("probabilities (prob_a)", _WITHOUT_PROBABILITIES)
    if kind not in ("NONE", "LOGISTIC", *(("SOFTMAX",) if classes > 2 else ())):
        return b.refuse(f"post_transform {kind} of {classes} classes")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    given = _floats(b, "coefficients").reshape(classes - 1, sum(counts))
    starts = np.cumsum([0, *counts])
    weights = np.zeros((sum(counts), len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), classes), np.float32)
    for k, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(starts[own], starts[own + 1])
            weights[part, k] = given[row, part]
        votes[0, k, j] = votes[1, k, i] = 1
    vectors = _floats(b, "support_vectors").reshape(sum(counts), -1)
    scores = b.add("MatMul", _kernel(b, _rows(b, _wide(b)), vectors), b.data(weights))
    scores = b.add("Add", scores, b.data(_floats(b, "rho")))
    won = b.add("Cast", b.add("Greater", scores, b.constant(FLOAT, (), [0.0])), to=FLOAT)
    # A vote is one for j, or one for i instead.
    total = b.add("MatMul", won, b.data(votes[1] - votes[0]))
    total = b.add("Add", total, b.data(votes[0].sum(axis=0)))
    best = b.add("ArgMax", total, axis=-1, keepdims=0)
    b.add("Gather", b.data(np.array(labels, np.int64)), best, out="o0")
    if classes == 2:
        scores = b.add("Concat", b.add("Neg", scores), scores, axis=1)
    return transformed(b, scores, "o1")


def _tree_classifier(b: Body) -> bool:
    """Scores of a regressor; one score for two classes is read as onnxruntime does."""
    labels = attribute(b.node, "classlabels_int64s", None)
    if not labels:
        return b.refuse(STRINGS)
    attrs = {n: a.value for n, a in b.node.attributes.items() if n.startswith("nodes_")}
    for name in ("treeids", "nodeids", "ids", "weights", "weights_as_tensor"):
        given = attribute(b.node, f"class_{name}", None)
        if given is not None:
            attrs[f"target_{name}"] = given
    for name in ("base_values", "base_values_as_tensor"):
        given = attribute(b.node, name, None)
        if given is not None:
            attrs[name] = given
    for name, value in attrs.items():
        if hasattr(value, "numpy"):
            attrs[name] = numpy_helper.from_array(np.asarray(value.numpy()))
    one = len(labels) == 2 and len(set(attrs["target_ids"])) == 1
    if one:
        attrs["target_ids"] = [0] * len(attrs["target_ids"])
        attrs = {k: v for k, v in attrs.items() if not k.startswith("base_")}
    if one and len(attribute(b.node, "base_values", None) or ()) > 0:
        return b.refuse("base_values of one score for two classes (runtimes differ)")
    targets = 1 if one else len(labels)
    scores = b.add("TreeEnsembleRegressor", "i0", domain="ai.onnx.ml", n_targets=targets, **attrs)
    names = b.data(np.array(labels, np.int64))
    if not one:
        best = b.add("ArgMax", scores, axis=-1, keepdims=0)
        b.add("Gather", names, best, out="o0")
        return transformed(b, scores, "o1")
    return _two_classes(b, scores, names, bool(np.min(attrs["target_weights"]) >= 0))


def _two_classes(b: Body, score: str, names: str, positive: bool) -> bool:
    """Labels and scores of one score: a probability if no weight is negative, else a margin."""
    kind = attribute(b.node, "post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        return b.refuse(f"post_transform {kind}")
    border = b.constant(FLOAT, (), [0.5 if positive else 0.0])
    over = b.add("Reshape", b.add("Greater", score, border), b.ints(-1))
    b.add("Gather", names, b.add("Cast", over, to=INT64), out="o0")
    if positive and kind != "LOGISTIC":
        other = b.add("Sub", b.constant(FLOAT, (), [1.0]), score)
    else:
        other = b.add("Neg", score)
    if kind == "LOGISTIC":
        other, score = b.add("Sigmoid", other), b.add("Sigmoid", score)
    b.add("Concat", other, score, axis=1, out="o1")
    return True


class _Step:
    """What optimisers share: R, T, then groups of tensors, each of `count`."""

    def __init__(self, b: Body, groups: int) -> None:
        self.b, self.kind = b, _kind(b, 2)
        self.count = (len(b.node.inputs) - 2) // groups

    def number(self, name: str, default: float = 0.0) -> str:
        return self.b.constant(self.kind, (), [float(attribute(self.b.node, name, default))])

    def one_plus(self, x: str) -> str:
        return self.b.add("Add", self.b.constant(self.kind, (), [1.0]), x)

    def group(self, index: int, tensor: int) -> str:
        return f"i{2 + index * self.count + tensor}"

    def out(self, index: int, tensor: int) -> str:
        return f"o{index * self.count + tensor}"

    def scalar(self, index: int) -> str:
        """R or T in the type of the tensors."""
        flat = self.b.add("Reshape", f"i{index}", self.b.constant(INT64, (0,), []))
        return self.b.add("Cast", flat, to=self.kind)

    def gradient(self, x: str, g: str) -> str:
        """g with its L2 regularisation."""
        return self.b.add("Add", self.b.add("Mul", self.number("norm_coefficient"), x), g)


def _adagrad(b: Body) -> bool:
    s = _Step(b, 3)
    rate = b.add(
        "Div",
        s.scalar(0),
        s.one_plus(b.add("Mul", s.scalar(1), s.number("decay_factor"))),
    )
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        h = b.add("Add", s.group(2, k), b.add("Mul", g, g), out=s.out(1, k))
        size = b.add("Add", b.add("Sqrt", h), s.number("epsilon", 1e-6))
        b.add("Sub", x, b.add("Div", b.add("Mul", rate, g), size), out=s.out(0, k))
    return True


def _momentum(b: Body) -> bool:
    s = _Step(b, 3)
    nesterov = attribute(b.node, "mode", "standard") == "nesterov"
    alpha = s.number("alpha")
    first = b.add("Equal", "i1", b.constant(INT64, (), [0]))
    flat = b.add("Reshape", first, b.constant(INT64, (0,), []))
    one = b.constant(s.kind, (), [1.0])
    beta = b.add("Where", flat, one, s.number("beta"))
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        moved = [b.add("Mul", alpha, s.group(2, k)), b.add("Mul", beta, g)]
        v = b.add("Add", *moved, out=s.out(1, k))
        by = b.add("Add", g, b.add("Mul", alpha, v)) if nesterov else v
        b.add("Sub", x, b.add("Mul", s.scalar(0), by), out=s.out(0, k))
    return True


def _adam(b: Body) -> bool:
    s = _Step(b, 4)
    alpha, beta = s.number("alpha", 0.9), s.number("beta", 0.999)
    one = b.constant(s.kind, (), [1.0])
    t = s.scalar(1)
    later = b.add("Greater", t, b.constant(s.kind, (), [0.0]))
    spread = b.add("Sqrt", b.add("Sub", one, b.add("Pow", beta, t)))
    scaled = b.add(
        "Div", b.add("Mul", s.scalar(0), spread), b.add("Sub", one, b.add("Pow", alpha, t))
    )
    rate = b.add("Where", later, scaled, s.scalar(0))
    after = b.add("Sub", one, s.number("norm_coefficient_post"))
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        kept = [b.add("Mul", alpha, s.group(2, k)), b.add("Mul", b.add("Sub", one, alpha), g)]
        v = b.add("Add", *kept, out=s.out(1, k))
        square = b.add("Mul", b.add("Sub", one, beta), b.add("Mul", g, g))
        h = b.add("Add", b.add("Mul", beta, s.group(3, k)), square, out=s.out(2, k))
        size = b.add("Add", b.add("Sqrt", h), s.number("epsilon"))
        moved = b.add("Sub", x, b.add("Div", b.add("Mul", rate, v), size))
        b.add("Mul", after, moved, out=s.out(0, k))
    return True


_ML, _TRAIN = "ai.onnx.ml", "ai.onnx.preview.training"
ML_BODIES: dict[tuple[str, str], Callable[[Body], bool]] = {
    (_ML, "ArrayFeatureExtractor"): _array_feature_extractor,
    (_ML, "Binarizer"): _binarizer,
    (_ML, "FeatureVectorizer"): _feature_vectorizer,
    (_ML, "Imputer"): _imputer,
    (_ML, "LabelEncoder"): _label_encoder,
    (_ML, "LinearClassifier"): _linear_classifier,
    (_ML, "LinearRegressor"): _linear_regressor,
    (_ML, "Normalizer"): _normalizer,
    (_ML, "OneHotEncoder"): _one_hot_encoder,
    (_ML, "SVMClassifier"): _svm_classifier,
    (_ML, "SVMRegressor"): _svm_regressor,
    (_ML, "Scaler"): _scaler,
    (_ML, "TreeEnsembleClassifier"): _tree_classifier,
    (_TRAIN, "Adagrad"): _adagrad,
    (_TRAIN, "Adam"): _adam,
    (_TRAIN, "Momentum"): _momentum,
}
