# SPDX-License-Identifier: Apache-2.0
"""A tree whose node points to itself, or around a ring, was left out of the sum without a word.

Also, nodes of a tree that nobody names were trees of their own; onnxruntime and onnx.reference
never reach them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.errors import AotError

NODE, LEAF = "BRANCH_LEQ", "LEAF"
Tree = list[tuple[str, int, int]]
"""(mode, what follows if true, what follows if false) of each node."""
WHOLE: Tree = [(NODE, 1, 2), (LEAF, 0, 0), (LEAF, 0, 0)]


def compiled(node: onnx.NodeProto, outputs: list[str], folder: Path, opsets: list[Any]) -> Any:
    info = helper.make_tensor_value_info
    kinds = {"y": TensorProto.FLOAT, "label": TensorProto.INT64}
    ends = [info(name, kinds[name], None) for name in outputs]
    graph = helper.make_graph([node], "g", [info("x", TensorProto.FLOAT, [2, 1])], ends)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return aot.compile(model, folder / "o", name="n")


def older(trees: list[Tree], folder: Path, op: str = "TreeEnsembleRegressor") -> Any:
    """An ensemble of the older form: leaves weigh 1, 2, 3 … in the order of the lists."""
    nodes = [(t, n, *node) for t, tree in enumerate(trees) for n, node in enumerate(tree)]
    ids, numbers, modes, yes, no = (list(column) for column in zip(*nodes, strict=True))
    leaves = [(t, n) for t, n, mode, _, _ in nodes if mode == LEAF]
    scored = "class" if op.endswith("Classifier") else "target"
    attributes: dict[str, Any] = {
        f"{scored}_treeids": [t for t, _ in leaves],
        f"{scored}_nodeids": [n for _, n in leaves],
        f"{scored}_ids": [k % 3 if scored == "class" else 0 for k in range(len(leaves))],
        f"{scored}_weights": [1.0 + k for k in range(len(leaves))],
    }
    if scored == "class":
        attributes["classlabels_int64s"] = [0, 1, 2]
    made = helper.make_node(
        op,
        ["x"],
        ["label", "y"] if scored == "class" else ["y"],
        domain="ai.onnx.ml",
        nodes_treeids=ids,
        nodes_nodeids=numbers,
        nodes_modes=modes,
        nodes_featureids=[0] * len(nodes),
        nodes_values=[0.5] * len(nodes),
        nodes_truenodeids=yes,
        nodes_falsenodeids=no,
        **attributes,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return compiled(made, list(made.output), folder, opsets)


def newest(yes: list[int], folder: Path) -> Any:
    """An ensemble of the newest form with one leaf, which follows every node if it is false."""
    made = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_truenodeids=yes,
        nodes_trueleafs=[0] * len(yes),
        nodes_falsenodeids=[0] * len(yes),
        nodes_falseleafs=[1] * len(yes),
        nodes_featureids=[0] * len(yes),
        nodes_modes=numpy_helper.from_array(np.zeros(len(yes), np.uint8)),
        nodes_splits=numpy_helper.from_array(np.full(len(yes), 0.5, np.float32)),
        leaf_targetids=[0],
        leaf_weights=numpy_helper.from_array(np.ones(1, np.float32)),
        tree_roots=[0],
        n_targets=1,
        post_transform=0,
        aggregate_function=1,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    return compiled(made, ["y"], folder, opsets)


RINGS: dict[str, tuple[Tree, int]] = {
    "a root that points to itself": ([(NODE, 0, 1), (LEAF, 0, 0)], 0),
    "an inner node that does": ([(NODE, 1, 2), (NODE, 1, 2), (LEAF, 0, 0)], 1),
    "two nodes in a ring": ([(NODE, 1, 2), (NODE, 0, 2), (LEAF, 0, 0)], 1),
    "a ring beside a leaf that nobody names": ([(NODE, 0, 1), (LEAF, 0, 0), (LEAF, 0, 0)], 0),
}


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
@pytest.mark.parametrize("name", RINGS)
def test_older_form(name: str, op: str, tmp_path: Path) -> None:
    tree, number = RINGS[name]
    with pytest.raises(AotError, match=f"node {number} of tree 1 is its own descendant"):
        older([WHOLE, tree], tmp_path, op)


@pytest.mark.parametrize(("yes", "number"), [([0], 0), ([1, 1], 1), ([1, 0], 1)])
def test_newest_form(yes: list[int], number: int, tmp_path: Path) -> None:
    with pytest.raises(AotError, match=f"node {number} is its own descendant"):
        newest(yes, tmp_path)


def test_what_nobody_names_is_never_reached(tmp_path: Path) -> None:
    shared: Tree = [(NODE, 1, 3), (NODE, 3, 3), (LEAF, 0, 0), (LEAF, 0, 0)]
    y = older([[*WHOLE, (LEAF, 0, 0)], shared], tmp_path).load()(np.array([[0], [1]], np.float32))
    assert np.asarray(y).tolist() == [[1.0 + 5.0], [2.0 + 5.0]]
