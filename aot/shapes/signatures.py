# SPDX-License-Identifier: Apache-2.0
"""Do the element types of a node's inputs fit its operator? onnx's inference does not ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from aot.ir.deferred_import import ir, onnx
from aot.shapes.control import controls


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal input: which types it takes, and the type variable it shares with others ("")."""

    variable: str
    allowed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Signature:
    """Formal inputs of an operator; `rest` stands for the inputs of a variadic tail."""

    inputs: tuple[Parameter, ...]
    rest: Parameter | None


@cache
def signature(domain: str, op_type: str, version: int) -> Signature | None:
    """The signature in an opset, None for operators onnx does not know."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    variables = {c.type_param_str for c in schema.type_constraints}
    inputs: list[Parameter] = []
    rest = None
    for formal in schema.inputs:
        variadic = formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        # Operands of a variadic input may have different types unless it is homogeneous.
        shared = formal.type_str in variables and (not variadic or formal.is_homogeneous)
        made = Parameter(formal.type_str if shared else "", frozenset(formal.types))
        if variadic:
            rest = made
        else:
            inputs.append(made)
    return Signature(tuple(inputs), rest)


@cache
def _spelled(dtype: ir.DataType) -> str:
    """The type string onnx's schemas use for a tensor of `dtype`."""
    return f"tensor({onnx.TensorProto.DataType.Name(int(dtype)).lower()})"


def type_problem(node: ir.Node, version: int) -> str:
    """The reason why the element types of the inputs are wrong, "" if they fit."""
    if controls.of(node) is not None:  # their bodies say which types they take
        return ""
    formal = signature(node.domain, node.op_type, version)
    if formal is None:
        return ""
    bound: dict[str, str] = {}
    for index, value in enumerate(node.inputs):
        if value is None or value.dtype is None:
            continue
        parameter = formal.inputs[index] if index < len(formal.inputs) else formal.rest
        if parameter is None:
            return f"{len(node.inputs)} inputs (takes {len(formal.inputs)})"
        spelled = _spelled(value.dtype)
        if spelled not in parameter.allowed:
            return f"input {index} is {_plain(spelled)}, which the operator does not take"
        if parameter.variable:
            first = bound.setdefault(parameter.variable, spelled)
            if first != spelled:
                return f"input {index} is {_plain(spelled)}, another one {_plain(first)}"
    return ""


def _plain(spelled: str) -> str:
    return spelled.removeprefix("tensor(").removesuffix(")")
