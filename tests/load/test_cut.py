# SPDX-License-Identifier: Apache-2.0
"""The part of a model between values: names, types, what stays an input."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from aot.errors import ModelError
from aot.load.cut import cut, part_of
from aot.load.source import open_model
from aot.options import Options
from graphs import model


def chain() -> onnx.ModelProto:
    """x -> a -> hidden -> y, where k picks columns of hidden; an unknown operator makes k of t."""
    return model(
        [
            ("own.Tokens", "t", "k"),
            ("MatMul", "x w", "a"),
            ("Relu", "a", "hidden"),
            ("Gather", "hidden k", "c", {"axis": 1}),
            ("Sigmoid", "c", "y"),
        ],
        {"x": ["N", 4], "t": [3]},
        {"y": None},
        {"w": np.ones((4, 4), np.float32)},
        domains=("own",),
    )


def parts(proto: onnx.ModelProto, inputs: str = "", outputs: str = "") -> onnx.GraphProto:
    return cut(open_model(proto), inputs.split(), outputs.split()).proto.graph


def test_what_is_between_stays_and_inputs_that_are_needed() -> None:
    graph = parts(chain(), "k", "c")
    assert [n.op_type for n in graph.node] == ["MatMul", "Relu", "Gather"]
    assert [i.name for i in graph.input] == ["x", "k"] and [o.name for o in graph.output] == ["c"]
    assert [t.name for t in graph.initializer] == ["w"]
    # Gather takes indices of int32 and of int64: the wider ones.
    assert graph.input[1].type.tensor_type.elem_type == onnx.TensorProto.INT64


def test_a_new_input_has_the_shape_that_inference_finds() -> None:
    (hidden, _) = parts(chain(), "hidden k").input[::-1][:2][::-1]
    dims = [d.dim_param or d.dim_value for d in hidden.type.tensor_type.shape.dim]
    assert dims == ["N", 4] and hidden.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_without_a_cut_the_model_is_the_same_object() -> None:
    opened = open_model(chain())
    assert part_of(opened, Options())[0] is opened


def test_options_for_the_rest_are_left_out_and_others_kept() -> None:
    requested = Options(cut_inputs=("hidden", "k"), dims={"N": 2, "M": 3}, input_shapes={"t": (3,)})
    _, left = part_of(open_model(chain()), requested)
    assert left.dims == {"N": 2, "M": 3} and not left.input_shapes and not left.cut_inputs


def test_a_cut_within_a_cut_is_the_same() -> None:
    once = cut(open_model(chain()), ["k"], ["c"])
    assert cut(once, ["k"], ["c"]).proto == once.proto


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        ("", "bb", 'the model has no value "bb"'),
        ("hiden", "", "did you mean hidden?"),
        ("w", "", '"w" is a constant of the model'),
        ("", "x", '"x" is an input of the model'),
        ("c", "a", 'no output depends on the value "c"'),
        ("", "n1_MatMul", "values, not of the nodes"),
    ],
)
def test_a_cut_that_is_none(inputs: str, outputs: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        parts(chain(), inputs, outputs)
    assert said in str(caught.value)


def test_an_input_whose_type_nothing_tells() -> None:
    proto = model(
        [("own.F", "x", "a"), ("Identity", "a", "y")], {"x": [1]}, {"y": None}, domains=("own",)
    )
    proto.graph.output[0].type.tensor_type.elem_type = 0
    with pytest.raises(ModelError, match='the type of the value "a" is not known'):
        parts(proto, "a")


def test_the_type_of_an_input_may_be_said() -> None:
    rows = [("own.F", "x", "a:0"), ("Identity", "a:0", "y")]
    proto = model(rows, {"x": [1]}, {"y": None}, domains=("own",))
    proto.graph.output[0].type.tensor_type.elem_type = 0
    (a,) = parts(proto, "a:0:string").input
    assert (a.name, a.type.tensor_type.elem_type) == ("a:0", onnx.TensorProto.STRING)
    with pytest.raises(ModelError, match='no value "a:0:text"'):
        parts(proto, "a:0:text")


def test_a_value_in_a_body() -> None:
    body = model([("Relu", "x", "r")], {}, {"r": None}).graph
    proto = model(
        [("If", "c", "y", {"then_branch": body, "else_branch": body})],
        {"c": [], "x": [1]},
        {"y": None},
        dtypes={"c": onnx.TensorProto.BOOL},
    )
    with pytest.raises(ModelError, match='the value "r" is in a body of n0_If'):
        parts(proto, "", "r")
