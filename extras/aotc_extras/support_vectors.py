# SPDX-License-Identifier: Apache-2.0
"""Support vector machines of ai.onnx.ml, by ONNX's own operators.

Before: y = ai.onnx.ml.SVMRegressor<kernel_type="RBF">(x; support_vectors, coefficients, rho)
After: y = MatMul(Exp(-gamma * ReduceSumSquare(Unsqueeze(x) - support_vectors)), coefficients) + rho
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import attribute
from aot.ir.operators import OneOf, Rowwise, operator
from aot.load.encode_strings import encodes
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.ml import ML, NO_LABELS, STRING, number_labels, rows, samples, transformed, wide
from aot.ops.trees import POST_TRANSFORM
from aot.shapes.types import Type, infer_types


@infer_types("SVMRegressor", ML)
def _one_score_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Float32 [samples, 1]."""
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
        difference = b.add("Sub", b.add("Unsqueeze", x, b.ints(1)), b.data(vectors))
        far = b.add("ReduceSumSquare", difference, b.ints(2), keepdims=0)
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


encodes("SVMClassifier", ML)(number_labels)


@decompose("SVMClassifier", ML)
def _svm_classifier(b: Body) -> bool:
    """Every pair of classes has a score, and votes for one; the class with most votes is it.

    With `prob_a` the second result is a probability for every class instead.
    """
    labels = attribute(b.node, "classlabels_ints", None)
    counts = [int(v) for v in attribute(b.node, "vectors_per_class", None) or ()]
    classes = len(counts)
    kind = attribute(b.node, "post_transform", "NONE")
    if not labels:
        return b.refuse(NO_LABELS)
    if classes < 2 or len(labels) != classes:
        return b.refuse(f"{len(labels)} labels for support vectors of {classes} classes")
    shares = b.floats("prob_a"), b.floats("prob_b")
    pairs = list(itertools.combinations(range(classes), 2))
    if shares[0].size and (classes > _MOST_CLASSES or any(len(v) != len(pairs) for v in shares)):
        what = f"probabilities (prob_a) of {len(shares[0])} pairs of {classes} classes"
        return b.refuse(what, _WITHOUT_PROBABILITIES)
    if kind not in ("NONE", "LOGISTIC", *(("SOFTMAX",) if classes > 2 else ())):
        return b.refuse(f"post_transform {kind} of {classes} classes")
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
    if shares[0].size:
        return transformed(b, _probabilities(b, scores, classes), "o1")
    if classes == 2:
        scores = b.add("Concat", b.add("Neg", scores), scores, axis=1)
    return transformed(b, scores, "o1")


#: For more classes the body of the iteration, with a step per class, would be too long.
_MOST_CLASSES = 64
#: As in libsvm: rounds at most, how near a sample must come to be done, the least probability.
_STEPS, _CLOSE, _NEAREST = 100, 0.005, 1e-7


def _probabilities(b: Body, scores: str, classes: int) -> str:
    """Probabilities of classes, joined from those of pairs by libsvm's iteration.

    `scores` are those of pairs; r[i][j] is how likely class i is, given that it is i or j. The
    iteration lowers sum over i and j of (r[j][i] p[i] - r[i][j] p[j])^2 class by class, until the
    sum's gradient is even within 0.005 / classes, at most 100 times.
    """
    moved = b.add("Mul", scores, b.data(-b.floats("prob_a")))
    one = b.add("Sigmoid", b.add("Sub", moved, b.data(b.floats("prob_b"))))
    one = b.add("Clip", one, *(b.constant(FLOAT, (), [v]) for v in (_NEAREST, 1 - _NEAREST)))
    other = b.add("Sub", b.constant(FLOAT, (), [1.0]), one)
    count = len(b.floats("prob_a"))
    # Every r[j][i], by row: a column of `one`, of `other`, or 0 on the diagonal.
    place = np.full((classes, classes), 2 * count)
    for k, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        place[j, i], place[i, j] = count + k, k
    first = b.add("Slice", one, b.ints(0), b.ints(1), b.ints(1))
    zero = b.add("Sub", first, first)
    every = b.add("Concat", one, other, zero, axis=1)
    r = b.add("Gather", every, b.data(place), axis=1)
    transposed = b.add("Gather", every, b.data(np.ascontiguousarray(place.T)), axis=1)
    own = b.add("ReduceSumSquare", transposed, b.ints(2), keepdims=1)
    difference = b.add("Neg", b.add("Mul", r, transposed))
    q = b.add("Where", b.data(np.eye(classes, dtype=bool)), own, difference)
    shape = b.ints(samples([(FLOAT, b.shape(0))]), classes, 1)
    start = b.add("Expand", b.constant(FLOAT, (), [1 / classes]), shape)
    body = _iteration(classes, q)
    p = b.add("Loop", b.constant(INT64, (), [_STEPS]), "", start, body=body)
    return b.add("Squeeze", p, b.ints(2))


def _iteration(classes: int, q: str) -> onnx.GraphProto:
    """One round for every sample that is not done: p [N, classes, 1] from `p_in`."""
    from onnx import helper

    nodes = []
    names = iter(f"s{i}" for i in range(1 << 20))

    def add(op_type: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or next(names)
        nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def constant(values: Any, kind: int = FLOAT) -> str:
        array = np.asarray(values, np.float32 if kind == FLOAT else np.int64)
        tensor = helper.make_tensor("c", kind, array.shape, array.ravel().tolist())
        return add("Constant", value=tensor)

    p = "p_in"
    qp = add("MatMul", q, p)
    pqp = add("ReduceSum", add("Mul", p, qp), constant([1], INT64))
    error = add("ReduceMax", add("Abs", add("Sub", qp, pqp)), constant([1], INT64))
    go = add("Not", add("Less", error, constant(_CLOSE / classes)))
    one, two = constant(1.0), constant(2.0)

    def at(x: str, index: int, axis: int) -> str:
        return add("Slice", x, *(constant([v], INT64) for v in (index, index + 1, axis)))

    for i in range(classes):
        row = at(q, i, 2)
        own, mine = at(row, i, 1), at(qp, i, 1)
        step = add("Div", add("Sub", pqp, mine), own)
        grown = add("Add", one, step)
        unit = constant(np.eye(classes, dtype=np.float32)[:, i : i + 1])
        p = add("Div", add("Add", p, add("Mul", step, unit)), grown)
        inner = add("Add", add("Mul", step, own), add("Mul", two, mine))
        pqp = add("Div", add("Div", add("Add", pqp, add("Mul", step, inner)), grown), grown)
        qp = add("Div", add("Add", qp, add("Mul", step, row)), grown)
    # Samples that are close enough keep their p while others go on.
    add("Where", go, p, "p_in", out="p_out")
    add("Cast", add("ReduceMax", add("Cast", go, to=INT64), keepdims=0), to=9, out="go_on")
    info = helper.make_tensor_value_info
    shape = [None, classes, 1]
    ins = [info("round", INT64, []), info("before", 9, []), info("p_in", FLOAT, shape)]
    return helper.make_graph(
        nodes, "round", ins, [info("go_on", 9, []), info("p_out", FLOAT, shape)]
    )
