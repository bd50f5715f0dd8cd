# SPDX-License-Identifier: Apache-2.0
"""Operators by smaller ones where ONNX gives no body, or none that suits: the modules of `aot/ops`
give the rules beside their operators.

Before: y = MatMulInteger(a, b, az, bz)
After: y = MatMul(Cast<int32>(a) - Cast<int32>(az), Cast<int32>(b) - Cast<int32>(bz))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import WHY_KEY, title
from aot.ir.operators import Interface
from aot.normalise.decompose_builder import Body

decompose: Interface[Callable[[Body], bool]] = Interface("decompose")
"""A rule writes the body of its operator for one node; False: this node has none (`Body.refuse`
says why), or ONNX's own body is right."""


constants_only: Interface[Callable[[ir.Node], bool]] = Interface("constants_only")
"""A rule tells of a node that no backend computes it: kernels of its operator read constants where
this one reads values of the run. Its decomposition takes its place."""


def own_body(node: ir.Node, opsets: Mapping[str, int]) -> onnx.FunctionProto | None:
    """The body of a call as a function of inputs i0, i1 … and outputs o0 …; None without one.

    Raises ModelError where inputs and attributes of the node fit no rule.
    """
    write = decompose.of(node)
    body = Body(node)
    try:
        if write is None or not write(body):
            if body.why:
                node.meta[WHY_KEY] = body.why, body.hint
            return None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        what = f"its inputs and attributes fit no rule ({type(e).__name__}: {e})"
        raise ModelError(f"{title(node)}: {what}") from None
    inputs = [f"i{k}" for k in range(len(node.inputs))]
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    used = sorted({n.domain for n in body.nodes} | {""})
    imports = [onnx.helper.make_opsetid(d, opsets.get(d, 1)) for d in used]
    return onnx.helper.make_function("", node.op_type, inputs, outputs, body.nodes, imports)
