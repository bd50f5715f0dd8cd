# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T, helper

import aot
from aot.errors import AotError, UnsupportedError
from aot.ir.string_rows import encode
from aot.tools.value_conversion import decoded

RNG = np.random.default_rng(11)
X = RNG.standard_normal((7, 5)).astype(np.float32)
X[2] = 0
FLOATS = [float(v) for v in RNG.standard_normal(40)]


def forest(prefix: str, targets: int, trees: int, low: float = -1.0) -> dict[str, Any]:
    """Random trees of depth three as attributes; weights are at least `low`."""
    a: dict[str, list[Any]] = {
        k: []
        for k in (
            *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes"),
            *("nodes_values", "nodes_truenodeids", "nodes_falsenodeids"),
            *(f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", f"{prefix}_weights"),
        )
    }
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    for tree in range(trees):
        for node in range(15):
            leaf = node >= 7
            a["nodes_treeids"].append(tree)
            a["nodes_nodeids"].append(node)
            a["nodes_featureids"].append(0 if leaf else int(RNG.integers(5)))
            a["nodes_modes"].append("LEAF" if leaf else modes[int(RNG.integers(6))])
            a["nodes_values"].append(0.0 if leaf else float(np.float32(RNG.standard_normal())))
            a["nodes_truenodeids"].append(0 if leaf else 2 * node + 1)
            a["nodes_falsenodeids"].append(0 if leaf else 2 * node + 2)
            if leaf:
                for target in range(targets):
                    a[f"{prefix}_treeids"].append(tree)
                    a[f"{prefix}_nodeids"].append(node)
                    a[f"{prefix}_ids"].append(target)
                    a[f"{prefix}_weights"].append(float(RNG.uniform(low, 1.0)))
    return a


def cases() -> Iterator[tuple[str, np.ndarray, dict[str, Any], int]]:
    """(operator, input, attributes, outputs)."""
    yield "Scaler", X, {"offset": FLOATS[:5], "scale": FLOATS[5:10]}, 1
    yield "Binarizer", X, {"threshold": 0.2}, 1
    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", X, {"norm": norm}, 1
    yield "Imputer", X, {"imputed_value_floats": FLOATS[:5], "replaced_value_float": 0.0}, 1
    holes = np.where(X > 1, np.nan, X).astype(np.float32)
    nan = float("nan")
    yield "Imputer", holes, {"imputed_value_floats": [0.5], "replaced_value_float": nan}, 1
    whole = RNG.integers(0, 4, (3, 4))
    numbers = {"keys_int64s": [1, 3, 2], "values_floats": [0.5, 1.5, -2.0], "default_float": 9.0}
    yield "LabelEncoder", whole, numbers, 1
    yield "OneHotEncoder", whole[0], {"cats_int64s": [0, 1, 3], "zeros": 1}, 1
    linear = {"coefficients": FLOATS[:15], "intercepts": FLOATS[15:18]}
    yield "LinearRegressor", X, {**linear, "targets": 3}, 1
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        labels = {"classlabels_ints": [4, 2, 9], "post_transform": post}
        yield "LinearClassifier", X, {**linear, **labels}, 2
    vectors = {"coefficients": FLOATS[:4], "n_supports": 4, "support_vectors": FLOATS[10:30]}
    for kernel in ("LINEAR", "RBF", "SIGMOID", "POLY"):
        tuned = {"kernel_type": kernel, "kernel_params": [0.3, 0.1, 2.0], "rho": [0.4]}
        yield "SVMRegressor", X, {**vectors, **tuned}, 1
    for classes in (2, 3, 4):
        pairs, vectors = classes * (classes - 1) // 2, 2 * classes
        machine = {
            "classlabels_ints": [7 + k for k in range(classes)],
            "vectors_per_class": [1, 3, 2, 2][:classes],
            "coefficients": [float(v) for v in RNG.standard_normal((classes - 1) * vectors)],
            "support_vectors": [float(v) for v in RNG.standard_normal(vectors * 5)],
            "rho": [float(v) for v in RNG.standard_normal(pairs)],
        }
        for kernel, post in (("RBF", "NONE"), ("POLY", "LOGISTIC"), ("LINEAR", "NONE")):
            tuned = {"kernel_type": kernel, "kernel_params": [0.3, 0.1, 2.0]}
            yield "SVMClassifier", X, {**machine, **tuned, "post_transform": post}, 2
        if classes == 3:
            for name in ("prob_a", "prob_b"):
                tuned[name] = [float(v) for v in RNG.uniform(-2, -1, pairs)]
            yield "SVMClassifier", X, {**machine, **tuned}, 2
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        trees = forest("target", 2, 4)
        more = {"n_targets": 2, "aggregate_function": aggregate, "base_values": [0.5, -0.5]}
        yield "TreeEnsembleRegressor", X, {**trees, **more}, 1
    labels = {"classlabels_int64s": [3, 5, 1]}
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        more = {**labels, "post_transform": post}
        yield "TreeEnsembleClassifier", X, {**forest("class", 3, 5), **more}, 2
    for low in (0.0, -1.0):
        for post in ("NONE", "LOGISTIC"):
            more = {"classlabels_int64s": [0, 1], "post_transform": post}
            more |= {"base_values": [0.3]} if post == "LOGISTIC" else {}
            yield "TreeEnsembleClassifier", X, {**forest("class", 1, 3, low), **more}, 2


@pytest.mark.sample(10)
@pytest.mark.parametrize("index", range(len(list(cases()))))
def test_against_onnxruntime(index: int, tmp_path: Path) -> None:
    op, x, attrs, outputs = list(cases())[index]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attrs)
    kinds = [T.INT64, T.FLOAT] if outputs == 2 else [T.FLOAT]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(n, k, None) for n, k in zip(names, kinds, strict=True)],
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    got = aot.compile(onnx.ModelProto.FromString(model.SerializeToString()), tmp_path / "o").load()
    ours = got(x)
    for a, b in zip(ours if isinstance(ours, tuple) else (ours,), want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


LINEAR: dict[str, Any] = {"coefficients": [1.0, 2.0, -1.0, 0.5], "intercepts": [0.1, 0.0]}
SUPPORT: dict[str, Any] = {
    "classlabels_ints": [0, 1],
    "vectors_per_class": [1, 1],
    "support_vectors": [0.0, 1.0, 1.0, 0.0],
    "coefficients": [1.0, -1.0],
    "rho": [0.1],
}
REFUSED = [
    ("LinearRegressor", {**LINEAR, "targets": 2, "post_transform": "PROBIT"}, "PROBIT"),
    ("LinearRegressor", {**LINEAR, "targets": 2, "post_transform": "SOFTMAX_ZERO"}, "SOFTMAX_ZERO"),
    (
        "LinearClassifier",
        {**LINEAR, "classlabels_ints": [1, 2], "post_transform": "PROBIT"},
        "post_transform PROBIT (needs NONE, LOGISTIC or SOFTMAX)",
    ),
    ("SVMClassifier", {**SUPPORT, "prob_a": [1.0]}, "probabilities (prob_a)"),
    ("SVMClassifier", {**SUPPORT, "post_transform": "SOFTMAX"}, "post_transform SOFTMAX of 2"),
    ("OneHotEncoder", {}, "no categories"),
]


@pytest.mark.parametrize(("op", "attrs", "reason"), REFUSED)
def test_refused_by_name(op: str, attrs: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """The reason stood nowhere: "no backend has this operator"."""
    outs = ["l", "y"] if op.endswith("Classifier") else ["y"]
    node = helper.make_node(op, ["x"], outs, domain="ai.onnx.ml", **attrs)
    label = T.STRING if "classlabels_strings" in attrs else T.INT64
    ends = [helper.make_tensor_value_info(o, T.FLOAT if o == "y" else label, None) for o in outs]
    x = helper.make_tensor_value_info("x", T.FLOAT, [2, 2])
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 21)]
    graph = helper.make_graph([node], "g", [x], ends)
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with pytest.raises(UnsupportedError) as caught:
        aot.compile(model, tmp_path, name="n")
    assert reason in str(caught.value)


def strings_and_categories() -> onnx.ModelProto:
    """String labels of three classifiers, and categories that are strings, unknown ones refused."""

    def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(
            op, inputs.split(), outputs.split(), domain="ai.onnx.ml", **attributes
        )

    words, known = ["no", "yes", "\u00fc"], {"cats_strings": ["a", "b"]}
    trees = forest("class", 3, 2)
    kernel = {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0]}
    pair = {**SUPPORT, **kernel, "support_vectors": FLOATS[:10]}
    pair = {k: v for k, v in pair.items() if k != "classlabels_ints"}
    linear = {"coefficients": FLOATS[:15], "intercepts": FLOATS[15:18]}
    nodes = [
        node("LinearClassifier", "x", "l0 p0", classlabels_strings=words, **linear),
        node("TreeEnsembleClassifier", "x", "l1 p1", classlabels_strings=words, **trees),
        node("SVMClassifier", "x", "l2 p2", classlabels_strings=words[:2], **pair),
        node("ArrayFeatureExtractor", "c first", "left"),
        node("OneHotEncoder", "left", "e0", zeros=1, **known),
        node("OneHotEncoder", "c", "e1", zeros=0, **known),
        node("LabelEncoder", "left", "n", keys_strings=["b", "a"], values_int64s=[5, 6]),
    ]
    info = helper.make_tensor_value_info
    kinds = {"l": T.STRING, "p": T.FLOAT, "e": T.FLOAT, "n": T.INT64}
    names = ["l0", "p0", "l1", "p1", "l2", "p2", "e0", "e1", "n"]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", T.FLOAT, [7, 5]), info("c", T.STRING, [2, 2])],
        [info(n, kinds[n[0]], None) for n in names],
        [helper.make_tensor("first", T.INT64, [1], [0])],
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_strings_against_onnxruntime(tmp_path: Path) -> None:
    model = strings_and_categories()
    given = np.array([["a", "b"], ["b", "a"]], object)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    want = session.run(None, {"x": X, "c": given})
    run = aot.compile(model, tmp_path / "o", max_string=8).load()
    for a, b in zip(run(X, encode(given, 8)), want, strict=True):
        if np.asarray(b).dtype == object:
            assert (decoded(np.asarray(a)) == b).all()
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    unknown = given.copy()
    unknown[1, 1] = "q"
    with pytest.raises(AotError, match="own check"):
        run(X, encode(unknown, 8))
    unknown[1, 1], unknown[1, 0] = "a", "q"  # `left` has it too, whose encoder takes it for none
    with pytest.raises(AotError, match="own check"):
        run(X, encode(unknown, 8))


def test_counts_of_words(tmp_path: Path) -> None:
    """TfIdfVectorizer of strings, one and two words long."""
    attributes = {
        "max_gram_length": 2,
        "max_skip_count": 0,
        "min_gram_length": 1,
        "mode": "TFIDF",
        "ngram_counts": [0, 3],
        "ngram_indexes": [0, 1, 2, 3],
        "pool_strings": ["the", "dog", "\u00fcber", "the", "dog"],
        "weights": [0.5, 2.0, 1.0, 4.0],
    }
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", T.STRING, [2, 4])
    y = helper.make_tensor_value_info("y", T.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    given = np.array([["the", "dog", "the", "#"], ["\u00fcber", "dog", "dog", ""]], object)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": given})
    found = aot.compile(model, tmp_path / "o", max_string=8).load()(encode(given, 8))
    np.testing.assert_allclose(found, want, rtol=1e-6)
