# SPDX-License-Identifier: Apache-2.0
"""Support vector machines of ai.onnx.ml, by ONNX's own operators.

Before: y = ai.onnx.ml.SVMRegressor<kernel_type="RBF">(x; support_vectors, coefficients, rho)
After: y = MatMul(Exp(-gamma * ReduceSumSquare(Unsqueeze(x) - support_vectors)), coefficients) + rho
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import OneOf, Rowwise, operator
from aot.normalise.decompose import decompose
from aot.normalise.decompose_builder import FLOAT, INT64, Body
from aot.ops.ml import ML, STRING, STRINGS, rows, samples, transformed, wide
from aot.ops.trees import POST_TRANSFORM
from aot.shapes.types import Type, infer_types


@infer_types("SVMRegressor", ML)
def _one_score_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [(FLOAT, (samples(types), 1))]


@infer_types("SVMClassifier", ML)
def _vote_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """A score for every pair of classes; of two classes for both."""
    words = attribute(node, "classlabels_strings", None)
    classes = len(attribute(node, "vectors_per_class", None) or ())
    if classes < 2 or attribute(node, "prob_a", None):
        scores = max(2, len(words or attribute(node, "classlabels_ints", None) or ()))
    else:
        scores = max(2, classes * (classes - 1) // 2)
    rows = samples(types)
    return [(STRING if words else INT64, (rows,)), (FLOAT, (rows, scores))]


for _name in ("SVMClassifier", "SVMRegressor"):
    _kernels = OneOf("LINEAR POLY RBF SIGMOID", "LINEAR")
    operator(
        _name,
        "x",
        domain=ML,
        traits=[Rowwise()],
        kernel_type=_kernels,
        post_transform=POST_TRANSFORM,
    )


@decompose("SVMRegressor", ML)
def _svm_regressor(b: Body) -> bool:
    """A sum over support vectors, or a linear function without them."""
    if int(attribute(b.node, "one_class", 0)):
        return b.refuse("one_class 1 (runtimes differ)")
    count = int(attribute(b.node, "n_supports", 0))
    weights, rho = b.floats("coefficients"), b.floats("rho")
    x = rows(b, wide(b))
    if count:
        x = _kernel(b, x, b.floats("support_vectors").reshape(count, -1))
    elif attribute(b.node, "kernel_type", "LINEAR") != "LINEAR":
        return b.refuse(f"kernel_type {attribute(b.node, 'kernel_type')} without support vectors")
    y = b.add("MatMul", x, b.data(weights.reshape(-1, 1)))
    return transformed(b, b.add("Add", y, b.data(rho[:1])), "o0")


def _kernel(b: Body, x: str, vectors: np.ndarray[Any, Any]) -> str:
    """The kernel function of every sample and every support vector."""
    kind = attribute(b.node, "kernel_type", "LINEAR")
    gamma, shift, degree = (*(float(v) for v in b.floats("kernel_params")), 0.0, 0.0, 0.0)[:3]
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


@decompose("SVMClassifier", ML)
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
    if b.floats("prob_a").size:
        return b.refuse("probabilities (prob_a)", _WITHOUT_PROBABILITIES)
    if kind not in ("NONE", "LOGISTIC", *(("SOFTMAX",) if classes > 2 else ())):
        return b.refuse(f"post_transform {kind} of {classes} classes")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    given = b.floats("coefficients").reshape(classes - 1, sum(counts))
    starts = np.cumsum([0, *counts])
    weights = np.zeros((sum(counts), len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), classes), np.float32)
    for k, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(starts[own], starts[own + 1])
            weights[part, k] = given[row, part]
        votes[0, k, j] = votes[1, k, i] = 1
    vectors = b.floats("support_vectors").reshape(sum(counts), -1)
    scores = b.add("MatMul", _kernel(b, rows(b, wide(b)), vectors), b.data(weights))
    scores = b.add("Add", scores, b.data(b.floats("rho")))
    won = b.add("Cast", b.add("Greater", scores, b.constant(FLOAT, (), [0.0])), to=FLOAT)
    # A vote is one for j, or one for i instead.
    total = b.add("MatMul", won, b.data(votes[1] - votes[0]))
    total = b.add("Add", total, b.data(votes[0].sum(axis=0)))
    best = b.add("ArgMax", total, axis=-1, keepdims=0)
    b.add("Gather", b.data(np.array(labels, np.int64)), best, out="o0")
    if classes == 2:
        scores = b.add("Concat", b.add("Neg", scores), scores, axis=1)
    return transformed(b, scores, "o1")
