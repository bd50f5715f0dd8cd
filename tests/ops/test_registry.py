# SPDX-License-Identifier: Apache-2.0
"""Records of operators beside ONNX's schemas: a claim that no schema has is an error."""

from __future__ import annotations

import pytest

from aot.errors import BackendError
from aot.ir.operators import Linear, OneOf, Operator, operator
from aot.ops.registry import check_records

HERE = __name__


def refusal(record: Operator) -> BackendError:
    """The error of a table with this record alone."""
    with pytest.raises(BackendError) as caught:
        check_records([record])
    return caught.value


def test_an_attribute_that_the_schema_lacks_names_module_and_rule() -> None:
    rules = {"auto_pads": OneOf("NOTSET VALID")}
    error = refusal(Operator("Conv", ("x", "w"), attributes=rules, module=HERE))
    assert str(error).splitlines() == [
        "operator Conv: ONNX has no attribute auto_pads",
        f"  in {HERE}",
        "  hint: did you mean auto_pad? its attributes are auto_pad, dilations, group, "
        "kernel_shape, pads, strides",
    ]


def test_attributes_of_traits_and_of_patterns_are_compared() -> None:
    product = Linear("x", "w", groups="groups")
    error = refusal(Operator("Conv", ("x", "w"), traits=(product,)))
    assert error.what == "operator Conv: ONNX has no attribute groups"
    assert refusal(Operator("Where", ("c",), reads=("alpha",))).hint == "it has no attributes"


def test_more_operands_or_results_than_the_schema_has() -> None:
    error = refusal(Operator("Relu", ("x", "slope"), module=HERE))
    assert (error.what, error.where) == ("operator Relu: x, slope are more operands than 1", HERE)
    error = refusal(Operator("Relu", ("x",), ("y", "mask")))
    assert error.what == "operator Relu: y, mask are more results than 1"


def test_operators_without_a_schema_may_say_anything() -> None:
    check_records([Operator("Toy", ("x",), domain="acme", attributes={"mode": OneOf("a b")})])


def test_errors_of_a_declaration_name_its_module() -> None:
    with pytest.raises(BackendError, match="Relu has two records") as caught:
        operator("Relu", "x other")
    assert caught.value.where == HERE
    assert caught.value.hint == "the other one is in aot.ops.unary"
