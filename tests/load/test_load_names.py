# SPDX-License-Identifier: Apache-2.0
"""Loading: names, open dimensions, bound inputs, functions, damaged files."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto as T, helper

from aot.errors import AotError
from aot.load import LoadOptions, load, model_text
from aot.normalise import normalise
from aot.shapes.dynamic.dims import RUN_TIME_SHAPES
from load_graphs import OPSET, info, model, node, refused, relu

HOSTILE = ["*/ int x; /*", "a/b", "a.b", "a:b", "int", "x\ny", "naïve", "9lives", "__x__", "A", "a"]


def test_hostile_names_become_distinct_identifiers():
    nodes = [node("Relu", [name], [f"{name}//{i}"], name=name) for i, name in enumerate(HOSTILE)]
    outputs = [info(f"{name}//{i}", (1,)) for i, name in enumerate(HOSTILE)]
    loaded = load(model(nodes, [info(name, (1,)) for name in HOSTILE], outputs))
    graph = loaded.graph
    names = [v.name for v in graph.inputs] + [o.name for n in graph for o in n.outputs]
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", n) and "__" not in n for n in names)
    assert len({n.lower() for n in names}) == len(names)
    assert "int" not in names
    assert [v.metadata_props["aot.onnx_name"] for v in graph.inputs] == HOSTILE
    assert [n.metadata_props["aot.onnx_name"] for n in graph] == HOSTILE


def test_unnamed_nodes_are_named_by_operator_and_place():
    nodes = [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["y"])]
    first = model_text(load(model(nodes, [info("x", (1,))], [info("y", (1,))])))
    assert "# Relu_0" in first and "# Exp_1" in first
    assert first == model_text(load(model(nodes, [info("x", (1,))], [info("y", (1,))])))


# Dimensions


def test_symbolic_dimensions_are_listed_with_the_option_to_type():
    built = relu(("batch", 3, None))
    advice = "add --dim batch=1 --input-shape x=-1,3,64, with sizes of yours"
    refused(built, 'input "x": dimension 0 ("batch")', advice, "dimension 2")


@pytest.mark.parametrize(
    "options",
    [
        LoadOptions(dims={"n": 5}),
        LoadOptions(input_shapes={"x": (5, 3)}),
        LoadOptions(input_shapes={"x": (5, -1)}, dims={}),
    ],
)
def test_dimensions_are_pinned_by_name_or_by_shape(options):
    loaded = load(relu(("n", 3)), options)
    assert tuple(loaded.graph.outputs[0].shape) == (5, 3)


def test_a_shape_given_for_one_input_pins_the_symbol_everywhere():
    built = model(
        [node("Add", ["x", "z"], ["y"])],
        [info("x", ("n", 3)), info("z", ("n", 3))],
        [info("y", ("n", 3))],
    )
    loaded = load(built, LoadOptions(input_shapes={"x": (4, 3)}))
    assert tuple(loaded.graph.inputs[1].shape) == (4, 3)
    refused(built, '"n"', options=LoadOptions(input_shapes={"x": (4, 3)}, dims={"n": 5}))


def test_zero_is_a_size_and_negative_is_an_error():
    assert tuple(load(relu((0, 3))).graph.outputs[0].shape) == (0, 3)
    assert tuple(load(relu((-1, 3))).graph.outputs[0].shape) == (1, 3)
    refused(relu((3, -1)), "dimension 1", "--input-shape")
    refused(relu((-7, 3)), "-7", "negative")
    refused(relu((1 << 62, 1 << 62)), "elements")
    refused(relu(("n",)), "-3", kind=AotError, options=LoadOptions(dims={"n": -3}))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (LoadOptions(dims={"m": 1}), '"m"'),
        (LoadOptions(input_shapes={"q": (1,)}), '"q"'),
        (LoadOptions(bindings={"q": 1}), '"q"'),
        (LoadOptions(input_shapes={"x": (1, 2, 3)}), "rank"),
        (LoadOptions(input_shapes={"x": (1, 4)}), "dimension 1 is 3"),
    ],
)
def test_options_that_do_not_fit(options, part):
    refused(relu(("n", 3)), part, options=options)


def test_an_input_without_shape_needs_one():
    built = relu((1,))
    built.graph.input[0].type.tensor_type.ClearField("shape")
    refused(built, "no shape", "--input-shape x=")
    assert load(built, LoadOptions(input_shapes={"x": (2, 2)}))
    assert tuple(load(built, LoadOptions(input_shapes={"x": ()})).graph.outputs[0].shape) == ()


def test_bindings_become_constants_of_the_inputs_type():
    built = model(
        [node("Mul", ["x", "k"], ["y"])], [info("x", (2,)), info("k", ())], [info("y", (2,))]
    )
    loaded = load(built, LoadOptions(bindings={"k": 3}))
    assert [v.name for v in loaded.graph.inputs] == ["x"]
    constant = loaded.graph.initializers["k"].const_value
    assert constant.numpy() == 3.0 and constant.numpy().dtype == np.float32


# Shapes


def test_run_time_values_that_do_not_matter_do_not_matter():
    """A shape assembled from a run-time value and constants, of which only constants are used."""
    nodes = [
        node("Cast", ["x"], ["i"], to=T.INT64),
        node("Concat", ["i", "c"], ["s"], axis=0),
        node("Slice", ["s", "one", "three"], ["t"]),
        node("Add", ["t", "one"], ["u"]),
        node("ConstantOfShape", ["u"], ["y"]),
    ]
    constants = {
        "c": np.array([3, 4], np.int64),
        "one": np.array([1], np.int64),
        "three": np.array([3], np.int64),
    }
    loaded = load(model(nodes, [info("x", (1,))], [info("y", None)], constants))
    assert tuple(loaded.graph.outputs[0].shape) == (4, 5)


def test_data_dependent_shapes_are_bounded():
    nodes = [node("NonZero", ["x"], ["y"]), node("Shape", ["y"], ["s"])]
    outputs = [info("y", None, T.INT64), info("s", None, T.INT64)]
    loaded = load(model(nodes, [info("x", (2, 3))], outputs))
    y, s, true = loaded.graph.outputs
    assert tuple(y.shape) == (2, 6)
    assert s.producer().op_type == true.producer().op_type == "Concat"
    assert loaded.graph.meta[RUN_TIME_SHAPES] == ((0, (1,)),)


def test_loops_with_a_known_trip_count_are_typed():
    body = helper.make_graph(
        [
            node("Identity", ["going"], ["still"]),
            node("Add", ["state", "state"], ["next"]),
            node("Relu", ["next"], ["seen"]),
        ],
        "body",
        [info("i", (), T.INT64), info("going", (), T.BOOL), info("state", None)],
        [info("still", (), T.BOOL), info("next", None), info("seen", None)],
    )
    built = model(
        [node("Loop", ["trips", "", "x"], ["last", "all"], body=body)],
        [info("x", (2, 3))],
        [info("last", None), info("all", None)],
        {"trips": np.array(4, np.int64)},
    )
    loaded = load(built)
    assert [tuple(v.shape) for v in loaded.graph.outputs] == [(2, 3), (4, 2, 3)]


# Functions


def function(name, nodes, inputs=("x",), outputs=("y",)):
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, list(inputs), list(outputs), nodes, imports)


def with_functions(functions, calls):
    return model(
        calls,
        [info("x", (2,))],
        [info("y", (2,))],
        imports=[helper.make_opsetid("my", 1)],
        functions=functions,
    )


def test_functions_are_inlined():
    inner = function("Inner", [node("Relu", ["x"], ["y"])])
    outer = function("Outer", [node("Inner", ["x"], ["t"], domain="my"), node("Exp", ["t"], ["y"])])
    loaded = load(with_functions([inner, outer], [node("Outer", ["x"], ["y"], domain="my")]))
    assert [n.op_type for n in loaded.graph] == ["Relu", "Exp"]


def test_attributes_that_calls_leave_out_have_the_default_of_the_function():
    slope = node("LeakyRelu", ["x"], ["y"])
    slope.attribute.add(name="alpha", ref_attr_name="a", type=AttributeProto.FLOAT)
    inner = function("Inner", [slope])
    inner.attribute_proto.append(helper.make_attribute("a", 0.25))
    outer = function("Outer", [node("Inner", ["x"], ["y"], domain="my")])
    calls = [
        node("Outer", ["x"], ["t"], domain="my"),
        node("Inner", ["t"], ["u"], domain="my"),
        node("Inner", ["u"], ["y"], domain="my", a=0.75),
    ]
    loaded = load(with_functions([inner, outer], calls))
    assert [n.attributes["alpha"].as_float() for n in loaded.graph] == [0.25, 0.25, 0.75]


@pytest.mark.parametrize("body", [[], [node("Exp", ["x"], ["z"])]])
def test_bodies_that_do_not_compute_their_result_are_refused(body):
    refused(
        with_functions([function("Own", body)], [node("Own", ["x"], ["y"], domain="my")]),
        'graph output "y" is never computed',
    )


def test_claimed_functions_stay():
    kept = function("Kept", [node("Relu", ["x"], ["y"])])
    other = function("Other", [node("Exp", ["x"], ["y"])])
    calls = [node("Kept", ["x"], ["t"], domain="my"), node("Other", ["t"], ["y"], domain="my")]
    options = LoadOptions(claimed=frozenset({"my::Kept"}))
    loaded = normalise(load(with_functions([kept, other], calls), options), options)
    assert [n.op_type for n in loaded.graph] == ["Kept", "Exp"]
    assert tuple(loaded.graph[0].outputs[0].shape) == (2,)


def test_marks_of_functions_and_of_calls_go_to_the_nodes_inside():
    inner = function("Inner", [node("Relu", ["x"], ["t"]), node("Exp", ["t"], ["y"])])
    inner.metadata_props.add(key="aot.region", value="r0")
    inner.metadata_props.add(key="aot.backend", value="acme")
    outer = function("Outer", [node("Neg", ["x"], ["y"])])
    calls = [
        node("Inner", ["x"], ["t"], domain="my"),
        node("Outer", ["t"], ["u"], domain="my"),
        node("Outer", ["u"], ["y"], domain="my"),
    ]
    calls[1].metadata_props.add(key="aot.backend", value="c")
    loaded = load(with_functions([inner, outer], calls))
    marks = [
        (n.op_type, n.metadata_props.get("aot.backend"), n.metadata_props.get("aot.region"))
        for n in loaded.graph
    ]
    assert marks == [
        ("Relu", "acme", "r0"),
        ("Exp", "acme", "r0"),
        ("Neg", "c", None),
        ("Neg", None, None),
    ]


def test_recursive_functions_and_function_bombs_are_refused():
    loop = function("Loop", [node("Loop", ["x"], ["y"], domain="my")])
    refused(with_functions([loop], [node("Loop", ["x"], ["y"], domain="my")]), "calls itself")
    bombs = [function("F0", [node("Relu", ["x"], ["y"])])]
    for i in range(31):
        calls = [
            node(f"F{i}", ["x"], ["t"], domain="my"),
            node(f"F{i}", ["t"], ["y"], domain="my"),
        ]
        bombs.append(function(f"F{i + 1}", calls))
    start = time.perf_counter()
    refused(with_functions(bombs, [node("F31", ["x"], ["y"], domain="my")]), str(1 << 31))
    assert time.perf_counter() - start < 5


# Bytes


def test_names_that_are_no_text_are_refused():
    data = relu().SerializeToString().replace(b"Relu", b"Re\xfflu"[:4])
    refused(data, "UTF-8")


@pytest.mark.parametrize("equation", ["-", "i->-", "a->b->c", "i.j", "i;j"])
def test_malformed_equations_are_refused_before_inference_sees_them(equation):
    built = model(
        [node("Einsum", ["x"], ["y"], equation=equation, name="e")],
        [info("x", (2,))],
        [info("y", None)],
    )
    refused(built, "e (Einsum)", "malformed")


def test_flipped_bytes_never_escape_as_other_errors():
    rng = np.random.default_rng(11)
    whole = model(
        [node("Conv", ["x", "w"], ["c"]), node("Softmax", ["c"], ["y"], axis=1)],
        [info("x", (1, 3, 4, 4))],
        [info("y", None)],
        {"w": np.ones((2, 3, 1, 1), np.float32)},
        opset=12,
    ).SerializeToString()
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(300):
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        try:
            normalise(load(bytes(data)))
            outcomes["loaded"] += 1
        except AotError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 50 and outcomes["loaded"] > 5
