# SPDX-License-Identifier: Apache-2.0
"""Operators by smaller ones where ONNX gives no body, or none that suits: the modules of `aot/ops`
give the rules beside their operators.

Before: y = MatMulInteger(a, b, az, bz)
After: y = MatMul(Cast<int32>(a) - Cast<int32>(az), Cast<int32>(b) - Cast<int32>(bz))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import WHY_KEY, attribute, dtype_of, operand, shape_of, title
from aot.ir.operators import Interface

FLOAT, INT32, INT64, DOUBLE = 1, 6, 7, 11


class Body:
    """Nodes in the making; values are called by name, the call's inputs i0, i1 …"""

    def __init__(self, node: ir.Node) -> None:
        """An empty body for `node`; `why` and `hint` are filled if there can be none."""
        self.node = node
        self.nodes: list[onnx.NodeProto] = []
        self.why, self.hint = "", ""

    def refuse(self, why: str, hint: str = "") -> bool:
        """False: there is no body; `why` and `hint` are said if no backend supports the node."""
        self.why, self.hint = why, hint
        return False

    def has(self, index: int) -> bool:
        """Whether the call has input `index`."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of input `index`."""
        value = operand(self.node, index)
        return shape_of(value)

    def kind(self, index: int = 0) -> int:
        """The type of the elements of input `index`, a number of TensorProto.DataType."""
        return int(dtype_of(operand(self.node, index)))

    def wanted(self, *outputs: int) -> bool:
        """Whether the call has one of these outputs."""
        given = self.node.outputs
        return any(i < len(given) and bool(given[i].name) for i in outputs)

    def floats(self, name: str) -> np.ndarray[Any, Any]:
        """An attribute that is a list of numbers, as float32; empty where the call lacks it."""
        return np.array(attribute(self.node, name, None) or (), np.float32)

    def attributes(self, *but: str) -> dict[str, Any]:
        """The attributes of the call by name, without those named."""
        return {name: a.value for name, a in self.node.attributes.items() if name not in but}

    def add(self, op_type: str, *inputs: str, out: str = "", **attrs: Any) -> str:
        """The first output of a new node."""
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), [out], **attrs))
        return out

    def constant(self, kind: int, shape: tuple[int, ...], values: list[Any]) -> str:
        """A constant tensor."""
        return self.add("Constant", value=onnx.helper.make_tensor("c", kind, shape, values))

    def number(self, value: float) -> str:
        """A constant scalar of the type of input 0."""
        return self.constant(self.kind(), (), [value])

    def data(self, values: np.ndarray[Any, Any]) -> str:
        """A constant tensor of these elements."""
        return self.add("Constant", value=onnx.numpy_helper.from_array(values))

    def ints(self, *values: int) -> str:
        """A constant int64 vector."""
        return self.constant(7, (len(values),), list(values))

    def column(self, index: int, rank: int, axis: int, kind: int) -> str:
        """Input `index` cast to `kind`; a vector runs along `axis` of a tensor of `rank`."""
        given = self.add("Cast", f"i{index}", to=kind)
        size = self.shape(index)
        if len(size) != 1 or size[0] == 1:
            return given
        wanted = [1] * rank
        wanted[axis] = size[0]
        return self.add("Reshape", given, self.constant(7, (rank,), wanted))

    def centred(self, x: int, zero: int, kind: int, axis: int) -> str:
        """Input `x` minus its zero points, as `kind`."""
        wide = self.add("Cast", f"i{x}", to=kind)
        if not self.has(zero):
            return wide
        return self.add("Sub", wide, self.column(zero, len(self.shape(x)), axis, kind))

    def requantised(self, total: str, scales: list[str], zero: int) -> None:
        """o0 = total · a · b / y, rounded, plus the zero point."""
        a, b, y = scales
        factor = self.add("Div", self.add("Mul", a, b), y)
        scaled = self.add("Mul", self.add("Cast", total, to=FLOAT), factor)
        one = self.constant(FLOAT, (), [1.0])
        zeros = [f"i{zero}"] if self.has(zero) else []
        self.add("QuantizeLinear", scaled, one, *zeros, out="o0")


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
