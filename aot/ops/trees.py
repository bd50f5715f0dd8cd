# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees of ai.onnx.ml: the newest form, and the regressor (to which
normalisation brings the classifier).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import onnx
from aot.ir.dtypes import F32, F64
from aot.ir.graph_nodes import Array
from aot.ir.operators import OneOf, Rowwise
from aot.ops.registry import op
from aot.shapes.operands import operands_fit, ranked
from aot.vendor import Case, Match, Recorder, case, f32

#: The number of BRANCH_MEMBER in MODES: only these nodes test for membership in a set.
MEMBER = 6

trees = op(
    "TreeEnsemble",
    "x",
    traits=[Rowwise()],
    domain="ai.onnx.ml",
    aggregate_function=1,
    leaf_targetids=(),
    leaf_weights=None,
    membership_values=None,
    n_targets=1,
    nodes_falseleafs=(),
    nodes_falsenodeids=(),
    nodes_featureids=(),
    nodes_missing_value_tracks_true=None,
    nodes_modes=None,
    nodes_splits=None,
    nodes_trueleafs=(),
    nodes_truenodeids=(),
    post_transform=0,
    tree_roots=(),
)


BRANCHES = OneOf("BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ LEAF")
POST_TRANSFORM = OneOf("NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT", "NONE")
older = op(
    "TreeEnsembleRegressor",
    "x",
    traits=[Rowwise()],
    domain="ai.onnx.ml",
    aggregate_function=OneOf("AVERAGE SUM MIN MAX", "SUM"),
    base_values=None,
    base_values_as_tensor=None,
    n_targets=1,
    nodes_falsenodeids=(),
    nodes_featureids=(),
    nodes_missing_value_tracks_true=None,
    nodes_modes=BRANCHES,
    nodes_nodeids=(),
    nodes_treeids=(),
    nodes_truenodeids=(),
    nodes_values=None,
    nodes_values_as_tensor=None,
    post_transform=POST_TRANSFORM,
    target_ids=(),
    target_nodeids=(),
    target_treeids=(),
    target_weights=None,
    target_weights_as_tensor=None,
)

#: In the order of the kernel's numbers.
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MODES = (
    *("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"),
    "BRANCH_MEMBER",
)


def tensor(value: Any) -> Array:
    """An attribute that is a tensor or a list, as an array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees as the kernel walks them.

    What follows a node (`yes`, `no`) and `roots` are nodes, or ~leaf; leaf l has the weights and
    targets from `leaves[l]` to `leaves[l + 1]`. `problem` says why there is no such forest. `keys`
    are the tree and the number in it by which the model calls each node, where it does so.
    """

    feature: Array
    mode: Array
    split: Array
    missing: Array
    yes: Array
    no: Array
    roots: Array
    leaves: Array
    weights: Array
    targets: Array
    members: Array
    problem: str = ""
    keys: tuple[tuple[int, int], ...] = ()

    def title(self, node: int) -> str:
        """The name of inner node number `node` for messages, by the model's numbers if it
        has such.
        """
        if not self.keys:
            return f"node {node}"
        tree, number = self.keys[node]
        return f"node {number} of tree {tree}"


_NONE = np.zeros(0, np.int64)


def _no(problem: str) -> Forest:
    """A forest without trees, whose `problem` says why there is none."""
    n = _NONE
    return Forest(n, n, n, n, n, n, n, n, n, n, n, problem)


def forest(m: Match) -> Forest:
    """The trees of a TreeEnsemble, whose lists have an entry per inner node and per leaf.

    Successors are indices already; those marked as leaves become ~leaf. Every leaf has one weight
    and one target. Lists of different lengths give a Forest whose `problem` says so; nothing is
    raised.
    """
    lists = (
        *(m.nodes_falseleafs, m.nodes_falsenodeids, m.nodes_featureids),
        *(m.nodes_trueleafs, m.nodes_truenodeids, tensor(m.nodes_splits), tensor(m.nodes_modes)),
    )
    if len({len(v) for v in lists}) != 1:
        return _no("lists of nodes of different lengths")
    if len(m.leaf_targetids) != len(tensor(m.leaf_weights)):
        return _no("as many weights as targets are needed")
    nexts = []
    for ids, leafs in (
        (m.nodes_truenodeids, m.nodes_trueleafs),
        (m.nodes_falsenodeids, m.nodes_falseleafs),
    ):
        known = np.array(ids, np.int64)
        nexts.append(np.where(np.array(leafs, np.int64) != 0, ~known, known))
    members = m.membership_values
    return Forest(
        np.array(m.nodes_featureids, np.int64),
        tensor(m.nodes_modes).astype(np.int64),
        tensor(m.nodes_splits),
        np.array(m.nodes_missing_value_tracks_true or [0] * len(lists[0]), np.int64),
        nexts[0],
        nexts[1],
        np.array(m.tree_roots, np.int64),
        np.arange(len(m.leaf_targetids) + 1),
        tensor(m.leaf_weights),
        np.array(m.leaf_targetids, np.int64),
        _NONE if members is None else tensor(members),
    )


def older_forest(m: Match) -> Forest:
    """The trees of a TreeEnsembleRegressor, whose lists have an entry per node, leaves included.

    A node is called by its tree and a number in it, and so are its successors and the leaf of a
    weight; the result has indices instead, inner nodes from 0 on and leaves as ~0, ~1, …, both in
    the order of the lists. The root of a tree is its first node that no node names. Lists that do
    not fit each other give a Forest whose `problem` says why; nothing is raised.
    """
    keys = list(zip(m.nodes_treeids, m.nodes_nodeids, strict=False))
    values = m.nodes_values if m.nodes_values_as_tensor is None else m.nodes_values_as_tensor
    weights = m.target_weights if m.target_weights_as_tensor is None else m.target_weights_as_tensor
    lists = (m.nodes_modes, m.nodes_featureids, m.nodes_truenodeids, m.nodes_falsenodeids)
    splits = tensor(values if values is not None else ())
    if {len(v) for v in (*lists, m.nodes_nodeids, splits)} != {len(m.nodes_treeids)}:
        return _no("lists of nodes of different lengths")
    if len(set(keys)) != len(keys):
        return _no("two nodes of one tree have one number")
    unknown = sorted({str(s) for s in m.nodes_modes} - {*MODES[:-1], "LEAF"})
    if unknown:
        return _no(f"nodes_modes {unknown[0]}")
    entries: dict[tuple[int, int], list[int]] = {k: [] for k in keys}
    for i, key in enumerate(zip(m.target_treeids, m.target_nodeids, strict=False)):
        if key not in entries:
            return _no(f"a weight of node {key[1]} of tree {key[0]}, which is not there")
        entries[key].append(i)
    inner = [i for i, mode in enumerate(m.nodes_modes) if mode != "LEAF"]
    leaf = [i for i, mode in enumerate(m.nodes_modes) if mode == "LEAF"]
    place = {keys[i]: k for k, i in enumerate(inner)} | {keys[i]: ~k for k, i in enumerate(leaf)}
    nexts, ends = [], (m.nodes_truenodeids, m.nodes_falsenodeids)
    for ids in ends:
        wanted = [(m.nodes_treeids[i], ids[i]) for i in inner]
        if any(k not in place for k in wanted):
            return _no("a node that does not exist is named")
        nexts.append(np.array([place[k] for k in wanted], np.int64))
    named = {(m.nodes_treeids[i], ids[i]) for ids in ends for i in inner}
    roots: dict[int, int] = {}
    for key in keys:  # others that nobody names are never reached, as in onnxruntime
        if key not in named:
            roots.setdefault(key[0], place[key])
    order = [e for i in leaf for e in entries[keys[i]]]
    tracks = m.nodes_missing_value_tracks_true or [0] * len(keys)
    return Forest(
        np.array([m.nodes_featureids[i] for i in inner], np.int64),
        np.array([MODES.index(m.nodes_modes[i]) for i in inner], np.int64),
        splits[inner],
        np.array([tracks[i] for i in inner], np.int64),
        nexts[0],
        nexts[1],
        np.array(list(roots.values()), np.int64),
        np.cumsum([0, *(len(entries[keys[i]]) for i in leaf)]),
        tensor(weights if weights is not None else ())[order],
        np.array(m.target_ids, np.int64)[order],
        _NONE,
        keys=tuple(keys[i] for i in inner),
    )


def _ends(forest: Forest) -> tuple[bool, str]:
    """Whether every walk from every node ends: none is its own descendant, all named nodes exist.

    Nodes that no root leads to count too: a tree of the older form that is a ring has no root.
    """
    count, leaves = len(forest.yes), len(forest.leaves) - 1
    named = np.concatenate([forest.yes, forest.no, forest.roots])
    if named.size and not (-leaves <= named.min() and named.max() < count):
        return False, "a node or leaf that does not exist is named"
    state = np.zeros(count, np.int8)  # 0 new, 1 on the way, 2 known to end
    stack = list(range(count))
    while stack:
        at = stack[-1]
        if state[at]:
            state[at] = 2
            stack.pop()
            continue
        state[at] = 1
        for following in (int(forest.yes[at]), int(forest.no[at])):
            if following >= 0 and state[following] == 1:
                return False, f"{forest.title(following)} is its own descendant"
            if following >= 0 and not state[following]:
                stack.append(following)
    return True, ""


def _supported(m: Match, forest: Forest) -> Iterator[tuple[bool, str]]:
    """Checks that samples fit the forest: type, features, targets, and walks that end."""
    yield m.x.dtype in (F32, F64), f"dtype {m.x.dtype} (needs float32 or float64)"
    yield m.x.rank == 2 and 0 not in m.x.shape, f"shape {list(m.x.shape)} (needs samples, features)"
    yield m.post_transform in (0, "NONE"), f"post_transform {m.post_transform}"
    yield not forest.problem, forest.problem
    # Lists of different lengths cannot be asked anything more.
    if forest.problem:
        return
    fits = not forest.feature.size or (
        forest.feature.min() >= 0 and forest.feature.max() < m.x.shape[-1]
    )
    yield bool(fits), f"a feature beyond the {m.x.shape[-1]} of a sample"
    fits = not forest.targets.size or (
        forest.targets.min() >= 0 and forest.targets.max() < m.n_targets
    )
    yield bool(fits), f"a target beyond {m.n_targets}"
    yield len(forest.roots) > 0, "no trees"
    yield _ends(forest)
    yield (
        bool((forest.mode <= MEMBER).all()),
        f"mode {forest.mode.max() if forest.mode.size else 0}",
    )
    members, ends = int((forest.mode == MEMBER).sum()), int(np.isnan(forest.members).sum())
    yield ends >= members, f"{ends} sets for {members} nodes"


def _sets(forest: Forest, splits: Array) -> Array | None:
    """All sets of members, each as its count and its members; None if no node tests for membership.

    `splits` is changed in place: that of such a node becomes the position of its set.
    """
    if not (forest.mode == MEMBER).any():
        return None
    parts: list[Array] = []
    start = at = 0
    ends = np.flatnonzero(np.isnan(forest.members))
    for node, end in zip(np.flatnonzero(forest.mode == MEMBER), ends.tolist(), strict=False):
        own = forest.members[start:end]
        parts.append(np.array([len(own), *own], splits.dtype))
        splits[node] = at
        at, start = at + 1 + len(own), end + 1
    return np.concatenate(parts)


def _record(c: Recorder, m: Match, forest: Forest, aggregate: int, base: Array | None) -> None:
    """Record aot_trees; a table without entries is one zero, since C has no empty arrays.

    `aggregate` is the kernel's number, `base` the starting values of the targets (None: zeros).
    """
    kind = m.x.dtype.np_name
    splits = forest.split.astype(kind)
    sets = _sets(forest, splits)
    # Mode and the way of missing values share a word.
    nodes = np.stack(
        [forest.feature, forest.mode | forest.missing << 8, forest.yes, forest.no], 1
    ).astype(np.int32)
    some = np.zeros((1, 4), np.int32)
    weights = forest.weights.astype(kind)
    c.call(
        f"aot_trees_{m.x.dtype.short}",
        m.y,
        m.x,
        c.const(splits if splits.size else some[0, :1].astype(kind), "split"),
        c.const(nodes if nodes.size else some, "node"),
        c.const(forest.leaves.astype(np.int32), "leaf"),
        c.const(weights if weights.size else some[0, :1].astype(kind), "weight"),
        c.const(forest.targets.astype(np.int32) if weights.size else some[0, :1], "target"),
        c.const(forest.roots.astype(np.int32), "root"),
        None if base is None else c.const(base.astype(kind), "base"),
        None if sets is None else c.const(sets, "set"),
        c.params(
            rows=m.x.shape[0],
            features=m.x.shape[1],
            targets=m.n_targets,
            trees=len(forest.roots),
        ),
        instance={"AGGREGATE": aggregate, "SETS": int(sets is not None)},
        header="aot_trees.h",
    )


@trees.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the aggregate function and of the forest."""
    yield 0 <= m.aggregate_function <= 3, f"aggregate_function {m.aggregate_function}"
    yield from _supported(m, forest(m))


@older.check
def older_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the aggregate function, float32, and the forest."""
    yield m.aggregate_function in AGGREGATES, f"aggregate_function {m.aggregate_function}"
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    yield from _supported(m, older_forest(m))


@trees.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a TreeEnsemble."""
    _record(c, m, forest(m), m.aggregate_function, None)


@older.lower
def older_to_kernel(c: Recorder, m: Match) -> None:
    """Record a TreeEnsembleRegressor with its base values."""
    given = m.base_values if m.base_values_as_tensor is None else m.base_values_as_tensor
    base = None if given is None else np.broadcast_to(tensor(given), (m.n_targets,))
    _record(c, m, older_forest(m), AGGREGATES.index(m.aggregate_function), base)


@trees.cases
def cases() -> Iterator[Case]:
    """TreeEnsemble(X [rows, features]): trees of one node and of several."""

    def of(values: Any, kind: str) -> Any:
        """A tensor attribute of these values."""
        return onnx.numpy_helper.from_array(np.array(values, kind))

    for kind, aggregate in (("float32", 1), ("float64", 1)):
        yield case(
            np.array([1.2, 3.4, -0.12, 1.66, 4.14, 1.77], kind).reshape(3, 2),
            aggregate_function=aggregate,
            leaf_targetids=[0, 1, 0, 1],
            leaf_weights=of([5.23, 12.12, -12.23, 7.21], kind),
            n_targets=2,
            nodes_falseleafs=[0, 1, 1],
            nodes_falsenodeids=[2, 2, 3],
            nodes_featureids=[0, 0, 0],
            nodes_modes=of([0, 0, 0], "uint8"),
            nodes_splits=of([3.14, 1.2, 4.2], kind),
            nodes_trueleafs=[0, 1, 1],
            nodes_truenodeids=[1, 0, 1],
            post_transform=0,
            tree_roots=[0],
        )
    yield case(
        f32(4, 3),
        leaf_targetids=[0, 0],
        leaf_weights=of([1.5, -2.5], "float32"),
        n_targets=1,
        nodes_falseleafs=[1],
        nodes_falsenodeids=[1],
        nodes_featureids=[2],
        nodes_modes=of([3], "uint8"),
        nodes_splits=of([0.1], "float32"),
        nodes_trueleafs=[1],
        nodes_truenodeids=[0],
        post_transform=0,
        tree_roots=[0],
        aggregate_function=1,
    )


operands_fit("TreeEnsemble TreeEnsembleRegressor", "ai.onnx.ml")(ranked(1))
