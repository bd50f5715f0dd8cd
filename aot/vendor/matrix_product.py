# SPDX-License-Identifier: Apache-2.0
"""A matched MatMul or Gemm with constant weights: its matrix and what is added, as one record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aot.ir.dtypes import F32
from aot.ir.graph_nodes import Array
from aot.vendor.match import Match, NodeRef, ValueRef


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """y = a · weights + bias or residual, of values `a`, `b`, `c`, `r` of a match; made by `of`.

    `weights` is the right operand [k, n] with alpha and transB applied, None where it is no
    constant matrix or `a` is transposed. `c` and `r` (either may be absent) are found by name in
    `biases`, constants as float32 [n] with beta applied, in `residuals`, values added element by
    element as they are, or in `others`.
    """

    weights: Array | None
    biases: Mapping[str, Array]
    residuals: Mapping[str, ValueRef]
    others: Mapping[str, ValueRef]

    @classmethod
    def of(cls, m: Match, node: NodeRef) -> MatrixProduct:
        """The product `node` of match `m`; where weights are not constant, all that is added is in
        `others`.
        """
        weights = _weights(m, node)
        added = {name: v for name in ("c", "r") if (v := m.values.get(name)) is not None}
        if weights is None:
            return cls(None, {}, {}, added)
        given = {name: _bias(v, node, weights.shape[1]) for name, v in added.items()}
        biases = {name: bias for name, bias in given.items() if bias is not None}
        residuals = {n: v for n, v in added.items() if _is_residual(v, node, m.y.shape)}
        others = {n: v for n, v in added.items() if n not in biases and n not in residuals}
        return cls(weights, biases, residuals, others)


def _weights(m: Match, node: NodeRef) -> Array | None:
    """The constant right operand [k, n] with alpha and transB applied; None where there is none.

    None also for a transposed left operand, and for an alpha that float32 alone could hold.
    """
    if not m.b.is_const or m.b.rank != 2 or m.a.rank < 1 or 0 in m.b.shape:
        return None
    w, alpha = np.asarray(m.b.data), float(node.attr("alpha", 1.0))
    if node.op_type == "MatMul":
        return w
    if node.attr("transA", 0) or (alpha != 1.0 and m.a.dtype is not F32):
        return None
    w = w.T if node.attr("transB", 0) else w
    return w if alpha == 1.0 else w * np.float32(alpha)


def _beta(node: NodeRef) -> np.float32:
    """The factor of the addend: beta of a Gemm, 1 for a MatMul."""
    return np.float32(node.attr("beta", 1.0) if node.op_type == "Gemm" else 1.0)


def _bias(value: ValueRef, node: NodeRef, columns: int) -> Array | None:
    """A constant of one number or of a row, as a float32 row [columns] with beta applied.

    None for values that are computed or have another shape.
    """
    size = math.prod(value.shape)
    if not value.is_const or size not in (1, columns):
        return None
    if value.shape and value.shape[-1] != columns and size != 1:
        return None
    data = np.asarray(value.data, np.float32).reshape(-1) * _beta(node)
    return np.broadcast_to(data, (columns,))


def _is_residual(value: ValueRef, node: NodeRef, shape: tuple[int, ...]) -> bool:
    """Whether `value` is computed, has the shape of the result, and is added as it is (beta 1)."""
    return not value.is_const and value.shape == shape and float(_beta(node)) == 1.0
