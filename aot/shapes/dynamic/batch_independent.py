# SPDX-License-Identifier: Apache-2.0
"""Operators of other domains that compute every row of their inputs alone: other axes pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.ir.graph_nodes import shape_of
from aot.shapes.dynamic.data_dependent import needed
from aot.shapes.dynamic.equality_constraints import agreed
from aot.shapes.dynamic.extents import Extents, refused

if TYPE_CHECKING:
    import onnx_ir as ir

ROWWISE = {
    "com.microsoft": """
        BiasGelu FastGelu SimplifiedLayerNormalization SkipLayerNormalization
        SkipSimplifiedLayerNormalization
    """,
    "ai.onnx.ml": """
        Imputer LinearClassifier LinearRegressor Normalizer SVMClassifier SVMRegressor Scaler
        TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
    """,
}


def rowwise(x: Extents, node: ir.Node) -> None:
    """Every row (last axis) alone."""
    data = needed(node, 0)
    own, rank = x.of(data), len(shape_of(data))
    if rank - 1 in own:
        raise refused(node, "mixes along a dimension known at run time only")
    for value in node.inputs[1:]:
        shape = () if value is None else shape_of(value)
        for axis in own:
            there = axis - (rank - len(shape))
            if there >= 0 and there not in x.of(value) and shape[there] != 1:
                raise refused(node, f"has {shape[there]} elements along dimension {axis}")
        for axis, n in x.of(value).items():
            ours = own.get(axis) if value is not None and len(shape_of(value)) == rank else None
            if ours is None:
                raise refused(node, f"may repeat dimension {axis}, known at run time only")
            agreed(x, node, ours, n, f"may repeat dimension {axis}, known at run time only")
    x.sweep.type_outputs(node)
    for value in node.outputs:
        if value.name:
            x.set(value, {a: n for a, n in own.items() if a < len(shape_of(value))})
