# SPDX-License-Identifier: Apache-2.0
"""Values of rarer operators by onnx.reference: of those only that it computes as ONNX says.

It ignores the lengths and activations of recurrent layers, sums other channels in LRN, multiplies
the zeros of a dilation with infinities, subtracts an infinity from itself (ReduceLogSumExp,
OneHot), loses a NaN (the extremes of ScatterElements), and more; an operator without the trait
`Exact` is computed when the model runs, by our own kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array
from aot.ir.operators import Exact, trait_of
from aot.ir.opset import canonical_opset

Inputs = Sequence[Array | None]

SHORT = ("float16", "bfloat16")


class Unknown(Exception):
    """The node cannot be evaluated; says nothing about whether it is valid."""


def by_reference(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The outputs of `node` by onnx.reference; Unknown where it is not trusted, or fails."""
    trait = trait_of(node, Exact)
    if node.domain or trait is None or (trait.when is not None and not trait.when(node, inputs)):
        raise Unknown
    from onnx.reference import ReferenceEvaluator

    proto = ir.serde.serialize_node(node)
    names = {n: a for n, a in zip(proto.input, inputs, strict=True) if n and a is not None}
    try:
        session = ReferenceEvaluator(proto, opsets={"": canonical_opset()})
        with np.errstate(all="ignore"):
            results = session.run(None, names)
    except Exception as e:  # the reference raises whatever NumPy and Python raise
        raise Unknown(one_line(e)) from None
    if not all(isinstance(r, np.ndarray | np.generic) for r in results):
        raise Unknown
    return [np.asarray(r) for r in results]


def widened(node: ir.Node, inputs: Inputs) -> tuple[Inputs, Any]:
    """(inputs, short type): float16 and bfloat16 inputs of an operator of several steps as float32.

    The type is None where nothing is to be rounded back.
    """
    trait = trait_of(node, Exact)
    if trait is None or not trait.rounds_once:
        return inputs, None
    kind = next((a.dtype for a in inputs if a is not None and a.dtype.name in SHORT), None)
    if kind is None:
        return inputs, None
    wide = [a if a is None or a.dtype != kind else a.astype(np.float32) for a in inputs]
    return wide, kind


def rounded(results: Sequence[Array], kind: Any) -> list[Array]:
    """Results of float32 as `kind`, unless that is None."""
    if kind is None:
        return list(results)
    with np.errstate(all="ignore"):
        return [a.astype(kind) if a.dtype == np.float32 else a for a in results]


def one_line(error: BaseException) -> str:
    """An exception's text on a line."""
    return " ".join(str(error).split())[:300]
