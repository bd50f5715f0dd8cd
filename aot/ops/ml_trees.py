# SPDX-License-Identifier: Apache-2.0
"""The classifier of ai.onnx.ml by the regressor of `trees.py`.

Before: y, z = ai.onnx.ml.TreeEnsembleClassifier(x)
After: s = ai.onnx.ml.TreeEnsembleRegressor(x); y = Gather(labels, ArgMax(s)); z = Softmax(s)
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from aot.ir.graph_nodes import attribute
from aot.ir.operators import Rowwise, operator
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.ml import ML, NO_LABELS, transformed
from aot.ops.trees import BRANCHES, POST_TRANSFORM
from aot.shapes.operands import operands_fit, ranked

operator(
    "TreeEnsembleClassifier",
    "x",
    domain=ML,
    traits=[Rowwise()],
    nodes_modes=BRANCHES,
    post_transform=POST_TRANSFORM,
    rules=[operands_fit.by(ranked(1))],
)


@decompose("TreeEnsembleClassifier", ML)
def _tree_classifier(b: Body) -> bool:
    """Decompose a TreeEnsembleClassifier: the scores of a regressor and the label of the largest.

    One score for two classes is read as onnxruntime does. Refused without integer labels.
    """
    labels = attribute(b.node, "classlabels_int64s", None)
    if not labels:
        return b.refuse(NO_LABELS)
    attrs = {n: a.value for n, a in b.node.attributes.items() if n.startswith("nodes_")}
    for name in ("treeids", "nodeids", "ids", "weights", "weights_as_tensor"):
        given = attribute(b.node, f"class_{name}", None)
        if given is not None:
            attrs[f"target_{name}"] = given
    for name in ("base_values", "base_values_as_tensor"):
        given = attribute(b.node, name, None)
        if given is not None:
            attrs[name] = given
    # The nodes of a body are onnx's own, whose attributes take its own tensors.
    for name, value in attrs.items():
        if hasattr(value, "numpy"):
            attrs[name] = numpy_helper.from_array(np.asarray(value.numpy()))
    one = len(labels) == 2 and len(set(attrs["target_ids"])) == 1
    if one:
        attrs["target_ids"] = [0] * len(attrs["target_ids"])
    bases = [np.size(v) for k, v in attrs.items() if k.startswith("base_")]
    if one and max(bases, default=0) > 1:
        return b.refuse("two base_values of one score for two classes (runtimes differ)")
    targets = 1 if one else len(labels)
    scores = b.add("TreeEnsembleRegressor", "i0", domain="ai.onnx.ml", n_targets=targets, **attrs)
    names = b.data(np.array(labels, np.int64))
    if not one:
        best = b.add("ArgMax", scores, axis=-1, keepdims=0)
        b.add("Gather", names, best, out="o0")
        return transformed(b, scores, "o1")
    return _two_classes(b, scores, names, bool(np.min(attrs["target_weights"]) >= 0))


def _two_classes(b: Body, score: str, names: str, positive: bool) -> bool:
    """Add labels and scores made of one score for two classes; refused for a transform not known.

    The score is a probability if no weight is negative (`positive`), else a margin around 0.
    """
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
