# SPDX-License-Identifier: Apache-2.0
"""Loading: what is accepted becomes static and typed, the rest is refused in one sentence."""

from __future__ import annotations

import os
import re
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from aot.errors import AotError, ModelError, UnsupportedError
from aot.load import LoadOptions, load, model_text, unpinned
from aot.normalise import normalise

OPSET = onnx.defs.onnx_opset_version()


def node(*args, **attributes):
    return helper.make_node(*args, **attributes)


def info(name, shape, dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=None, opset=OPSET, **more):
    tensors = [
        v if isinstance(v, T) else numpy_helper.from_array(np.asarray(v), k)
        for k, v in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset), *more.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **more)


def relu(shape=(2, 3)):
    return model([node("Relu", ["x"], ["y"])], [info("x", shape)], [info("y", shape)])


def refused(source, *parts, kind=ModelError, options=None):
    """Load (and normalise) must fail with a short message that holds every one of `parts`."""
    with pytest.raises(kind) as caught:
        normalise(load(source, options), options)
    text = str(caught.value)
    for part in parts:
        assert part in text, text
    assert len(text) <= 2000 and len(text.splitlines()) <= 8
    assert all(c.isprintable() or c == "\n" for c in text)
    return text


# Files


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "does not exist"),
        (b"", "empty"),
        (b"\x00\x01\x02 not a model", "not an ONNX model"),
        (os.urandom(4096), "not an ONNX model"),
        (b"\x08\x08", "no graph"),
    ],
)
def test_files_that_are_no_model(tmp_path, content, part):
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    refused(path, part, str(path))


def test_every_truncation_is_refused(tmp_path):
    whole = model(
        [node("Add", ["x", "c"], ["y"])],
        [info("x", (2, 3))],
        [info("y", (2, 3))],
        {"c": np.ones(3, np.float32)},
    ).SerializeToString()
    assert load(whole)
    for length in range(0, len(whole) - 1, 3):
        with pytest.raises(AotError):
            load(whole[:length])


def test_directories_fifos_and_devices_are_refused(tmp_path):
    refused(tmp_path, "a directory")
    fifo = tmp_path / "pipe.onnx"
    os.mkfifo(fifo)
    refused(fifo, "a FIFO")
    refused("/dev/zero", "a device")


# Graphs


@pytest.mark.parametrize(
    ("nodes", "outputs", "part"),
    [
        ([], ["x"], "0 nodes"),
        ([("Relu", ["x"], ["y"])], [], "no outputs"),
        ([("Relu", ["x"], ["y"]), ("Exp", ["x"], ["y"])], ["y"], "defined twice"),
        ([("Relu", ["x"], ["x"])], ["x"], "defined twice"),
        ([("Add", ["x", "b"], ["a"]), ("Exp", ["a"], ["b"])], ["b"], "cyclic"),
        ([("Add", ["x", "a"], ["a"])], ["a"], "cyclic"),
        ([("Exp", ["a"], ["b"]), ("Relu", ["x"], ["a"])], ["b"], "before it is computed"),
        ([("Add", ["x", "nowhere"], ["y"])], ["y"], '"nowhere" is defined nowhere'),
        ([("Relu", ["x"], ["y"])], ["z"], '"z" is never computed'),
        ([("Relu", ["x"], ["y"])], ["y", "y"], "listed twice"),
    ],
)
def test_structure(nodes, outputs, part):
    refused(
        model([node(*n) for n in nodes], [info("x", (2,))], [info(o, (2,)) for o in outputs]), part
    )


def test_unknown_operators_are_all_named_once():
    nodes = [node("Frobnicate", ["x"], ["a"], name="first"), node("Zap", ["a"], ["y"], name="snd")]
    text = refused(
        model(nodes, [info("x", (2,))], [info("y", (2,))]), "first", "snd", kind=UnsupportedError
    )
    assert "unknown operator Frobnicate in ONNX" in text
    foreign = model(
        [node("Thing", ["x"], ["y"], domain="acme", name="n")],
        [info("x", (2,))],
        [info("y", (2,))],
        imports=[helper.make_opsetid("acme", 1)],
    )
    refused(foreign, "n (acme.Thing)", 'domain "acme"', kind=UnsupportedError)
    absent = model([node("Gelu", ["x"], ["y"])], [info("x", (2,))], [info("y", (2,))], opset=13)
    refused(absent, "Gelu", "opset 13", kind=UnsupportedError)


def test_type_and_shape_errors_name_node_and_shapes():
    mixed = model(
        [node("Add", ["x", "k"], ["y"], name="sum")],
        [info("x", (2,)), info("k", (2,), T.INT64)],
        [info("y", (2,))],
    )
    refused(mixed, "sum (Add)", "int64", "float", '"k" [2]')
    shapes = model(
        [node("MatMul", ["x", "k"], ["y"], name="mm")],
        [info("x", (2, 3)), info("k", (4, 5))],
        [info("y", None)],
    )
    refused(shapes, "mm (MatMul)", "[2,3]", "[4,5]")
    declared = model([node("Relu", ["x"], ["y"])], [info("x", (2,))], [info("y", (2,), T.INT32)])
    refused(declared, '"y"', "int32", "float")


@pytest.mark.parametrize(
    ("nodes", "constants", "part"),
    [
        ([("Reshape", ["x", "c"], ["y"])], {"c": [4, 2]}, "[2, 3]"),
        ([("Reshape", ["x", "c"], ["y"])], {"c": [-1, 4]}, "[2, 3]"),
        ([("Gather", ["x", "c"], ["y"])], {"c": [0, 2]}, "index 2"),
        ([("Gather", ["x", "c"], ["y"])], {"c": [-3]}, "index -3"),
        ([("Expand", ["x", "c"], ["y"])], {"c": [2, 5]}, ""),
        ([("Slice", ["x", "a", "c", "a", "a"], ["y"])], {"a": [0], "c": [2]}, "step"),
        ([("Range", ["a", "b", "c"], ["y"])], {"a": 0, "b": 5, "c": 0}, ""),
    ],
)
def test_constants_that_contradict_the_shapes(nodes, constants, part):
    arrays = {k: np.array(v, np.int64) for k, v in constants.items()}
    built = model([node(*n, name="bad") for n in nodes], [info("x", (2, 3))], [info("y", None)])
    built.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in arrays.items())
    if nodes[0][0] == "Range":
        built.graph.output[0].type.tensor_type.elem_type = T.INT64
    refused(built, "bad (", part)


BIG = 1 << 20


@pytest.mark.parametrize(
    ("op", "constants", "extra"),
    [
        ("ConstantOfShape", {"c": [BIG, BIG]}, {}),
        ("Expand", {"c": [BIG, BIG, 3]}, {}),
        ("Tile", {"c": [BIG, BIG]}, {}),
        ("Pad", {"c": [BIG, BIG, 0, 0]}, {}),
        ("Reshape", {"c": [2, 3]}, {"outer": True}),
    ],
)
def test_bombs_are_refused_quickly(op, constants, extra):
    arrays = {k: np.array(v, np.int64) for k, v in constants.items()}
    inputs = ["c"] if op == "ConstantOfShape" else ["x", "c"]
    nodes = [node(op, inputs, ["y"], name="bomb")]
    if extra:
        arrays |= {"s": np.array([BIG, 1], np.int64), "t": np.array([1, BIG], np.int64)}
        nodes = [
            node("ConstantOfShape", ["s"], ["a"]),
            node("ConstantOfShape", ["t"], ["b"]),
            node("Mul", ["a", "b"], ["m"], name="bomb"),
            node("Add", ["m", "x1"], ["y"]),
        ]
    ins = [info("x", (1, 3))] + ([info("x1", (1,))] if extra else [])
    start = time.perf_counter()
    refused(model(nodes, ins, [info("y", None)], arrays), "bomb (", "elements")
    assert time.perf_counter() - start < 5


def test_doubling_concat_stops_at_the_limit():
    nodes = [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(40)]
    refused(model(nodes, [info("v0", (4,))], [info("v40", None)]), "elements (limit")


def test_a_folding_bomb_of_constants_is_left_unfolded():
    """16 MiB of zeros, doubled eight times: folding must not produce 4 GiB."""
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("Exp", ["c"], ["v0"])]
    nodes += [node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(8)]
    nodes += [node("Add", ["v8", "x"], ["y"])]
    shape = {"s": np.array([1 << 22], np.int64)}
    built = model(nodes, [info("x", (1,))], [info("y", None)], shape)
    start = time.perf_counter()
    result = normalise(load(built))
    constants = sum(v.const_value.nbytes for v in result.graph.initializers.values())
    assert constants <= 80 << 20
    assert time.perf_counter() - start < 10


def test_division_of_the_smallest_integer_does_not_crash():
    constants = {"a": np.array([-(2**31)], np.int32), "b": np.array([-1], np.int32)}
    nodes = [node("Div", ["a", "b"], ["q"]), node("Add", ["q", "x"], ["y"])]
    load(model(nodes, [info("x", (1,), T.INT32)], [info("y", (1,), T.INT32)], constants))


# Constants


@pytest.mark.parametrize(
    ("edit", "part"),
    [
        (lambda t: t.dims.extend([2]), "[3, 2]"),
        (lambda t: t.dims.__setitem__(0, -3), "negative dimension"),
        (lambda t: t.dims.__setitem__(0, 1 << 40), "elements"),
        (lambda t: setattr(t, "raw_data", b"123"), "3 bytes"),
        (lambda t: setattr(t, "data_type", 99), "element type 99"),
        (lambda t: t.ClearField("raw_data"), "float_data"),
    ],
)
def test_damaged_constants(edit, part):
    tensor = numpy_helper.from_array(np.ones(3, np.float32), "c")
    edit(tensor)
    built = model(
        [node("Add", ["x", "c"], ["y"])], [info("x", (3,))], [info("y", None)], {"c": tensor}
    )
    refused(built, part, '"c"')


def test_initialisers_that_are_inputs_are_constants():
    built = model(
        [node("Add", ["x", "c"], ["y"])],
        [info("x", (3,)), info("c", (3,))],
        [info("y", (3,))],
        {"c": np.arange(3, dtype=np.float32)},
    )
    loaded = load(built)
    assert [v.name for v in loaded.graph.inputs] == ["x"]
    assert loaded.graph.initializers["c"].const_value.numpy().tolist() == [0, 1, 2]


def test_big_weights_survive_the_conversion_uncopied():
    weight = np.arange(64 * 64 * 9, dtype=np.float32).reshape(64, 64, 3, 3)
    built = model(
        [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])],
        [info("x", (1, 64, 5, 5))],
        [info("y", None)],
        {"w": weight},
        opset=9,
    )
    loaded = load(built)
    assert np.array_equal(loaded.graph.initializers["w"].const_value.numpy(), weight)
    assert [str(v.name) for v in loaded.graph.inputs] == ["x"]


def external_model(folder, location="w.bin", data=None, **entries):
    values = np.arange(5000, dtype=np.float32)
    tensor = T(name="w", data_type=T.FLOAT, dims=[5000], data_location=T.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    folder.mkdir(exist_ok=True)
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    path = folder / "m.onnx"
    built = model(
        [node("Add", ["x", "w"], ["y"])], [info("x", (1,))], [info("y", None)], {"w": tensor}
    )
    path.write_bytes(built.SerializeToString())
    return path, values


def test_external_data_is_read_from_the_models_folder(tmp_path):
    values = np.arange(5000, dtype=np.float32)
    path, _ = external_model(tmp_path / "a", data=b"pad!" + values.tobytes(), offset=4)
    loaded = load(path)
    assert np.array_equal(loaded.graph.initializers["w"].const_value.numpy(), values)


@pytest.mark.parametrize(
    ("location", "entries", "part"),
    [
        ("../secret.bin", {}, "outside"),
        ("/etc/passwd", {}, "outside"),
        ("sub/../../secret.bin", {}, "outside"),
        ("..\\secret.bin", {}, "outside"),
        ("link.bin", {}, "outside"),
        ("hard.bin", {}, "hard links"),
        ("", {}, "location"),
        (".", {}, "location"),
        ("sub", {}, "not a regular file"),
        ("pipe", {}, "not a regular file"),
        ("missing.bin", {}, "missing.bin"),
        ("short.bin", {}, "truncated"),
        ("w.bin", {"offset": 4}, "truncated"),
        ("w.bin", {"offset": -4}, "offset"),
        ("w.bin", {"offset": "1e3"}, "offset"),
        ("w.bin", {"length": 4}, "length 4"),
        ("w.bin", {"basedir": "/"}, "unknown key"),
    ],
)
def test_external_data_outside_or_incomplete_is_refused(tmp_path, location, entries, part):
    full = np.zeros(5000, np.float32).tobytes()
    (tmp_path / "secret.bin").write_bytes(full)
    folder = tmp_path / "a"
    path, _ = external_model(folder, location, data=full, **entries)
    (folder / "sub").mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.link(tmp_path / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    (folder / "short.bin").write_bytes(full[:-1])
    refused(path, part, '"w"')


# Opsets


@pytest.mark.parametrize("opset", range(7, OPSET + 1))
def test_every_opset_is_brought_to_the_newest(opset):
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Softmax", ["c"], ["y"], axis=1)]
    constants = {"w": np.ones((2, 3, 1, 1), np.float32)}
    loaded = load(model(nodes, [info("x", (1, 3, 4, 4))], [info("y", None)], constants, opset))
    assert loaded.opset_imports[""] == OPSET
    assert tuple(loaded.graph.outputs[0].shape) == (1, 2, 4, 4)


def test_a_newer_opset_is_refused():
    refused(
        model([node("Relu", ["x"], ["y"])], [info("x", (1,))], [info("y", (1,))], opset=OPSET + 1),
        str(OPSET + 1),
        kind=AotError,
    )


def test_user_metadata_survives_the_conversion():
    built = model(
        [node("Relu", ["x"], ["y"], name="r")], [info("x", (1,))], [info("y", (1,))], opset=13
    )
    built.graph.node[0].metadata_props.add(key="owner", value="team")
    (found,) = load(built).graph
    assert found.metadata_props["owner"] == "team"


# Names

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
    axes = unpinned(built)
    assert [(a.input, a.axis, a.symbol) for a in axes] == [("x", 0, "batch"), ("x", 2, "")]
    assert axes[0].option == "--dim batch=N"
    assert axes[1].option == "--input-shape x=?,3,?"
    refused(built, 'input "x": dimension 0 ("batch")', "--dim batch=N", "dimension 2")


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
    refused(relu((-1, 3)), "dimension 0", "--input-shape")
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


def test_data_dependent_shapes_are_named():
    built = model(
        [node("NonZero", ["x"], ["y"], name="nz")], [info("x", (2, 3))], [info("y", None, T.INT64)]
    )
    refused(built, "nz (NonZero)", 'dimension 1 of "y"', "depends on the data", kind=AotError)


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


@pytest.mark.parametrize("marker", ["claimed", "region"])
def test_claimed_functions_and_regions_stay(marker):
    kept = function("Kept", [node("Relu", ["x"], ["y"])])
    other = function("Other", [node("Exp", ["x"], ["y"])])
    if marker == "region":
        kept.metadata_props.add(key="aot.region", value="1")
    calls = [node("Kept", ["x"], ["t"], domain="my"), node("Other", ["t"], ["y"], domain="my")]
    options = LoadOptions(claimed=frozenset({"my::Kept"} if marker == "claimed" else ()))
    loaded = normalise(load(with_functions([kept, other], calls), options), options)
    assert [n.op_type for n in loaded.graph] == ["Kept", "Exp"]
    assert tuple(loaded.graph[0].outputs[0].shape) == (2,)


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
