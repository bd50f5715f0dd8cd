# SPDX-License-Identifier: Apache-2.0
"""Loading: what is accepted becomes static and typed, the rest is refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from onnx import TensorProto as T, helper, numpy_helper

import aot.load.convert as conversion
from aot.errors import AotError, ModelError, UnsupportedError
from aot.load import load
from aot.load.external import mapped
from aot.normalise import normalise
from load_graphs import OPSET, info, model, node, refused


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
        ([("Relu", ["x"], ["y"])], [], "no outputs"),
        ([("Relu", ["x"], ["y"]), ("Exp", ["x"], ["y"])], ["y"], "defined twice"),
        ([("Relu", ["x"], ["x"])], ["x"], "defined twice"),
        ([("Add", ["x", "b"], ["a"]), ("Exp", ["a"], ["b"])], ["b"], "cyclic"),
        ([("Add", ["x", "a"], ["a"])], ["a"], "cyclic"),
        ([("Exp", ["a"], ["b"]), ("Relu", ["x"], ["a"])], ["b"], "before it is computed"),
        ([("Add", ["x", "nowhere"], ["y"])], ["y"], '"nowhere" is defined nowhere'),
        ([("Relu", ["x"], ["y"])], ["z"], '"z" is never computed'),
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


@pytest.mark.parametrize(
    ("tensor", "element"),
    [
        (T(data_type=T.INT8, int32_data=[300], name="z"), "300"),
        (T(data_type=T.UINT8, int32_data=[-1], name="z"), "-1"),
        (T(data_type=T.UINT32, uint64_data=[1 << 32], name="z"), "4294967296"),
        (T(data_type=T.BOOL, raw_data=b"\x02", name="z"), "2"),
    ],
)
def test_elements_outside_their_type(tensor, element):
    """A zero point of 300 would be read as 44."""
    built = model(
        [node("Identity", ["z"], ["y"])], [], [info("y", (), tensor.data_type)], {"z": tensor}
    )
    refused(built, f"the element {element}, outside", '"z"')


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


SPARSE = """
import resource, sys
import numpy as np
from aot.load import load
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
constants = load(sys.argv[1]).graph.initializers
print([float(constants[f"w{i}"].const_value.numpy()[-1]) for i in range(4)])
"""


def test_every_external_tensor_maps_only_its_own_range(tmp_path):
    # The file is sparse and larger than the address space that the process may use.
    step, count = 4 << 30, 5000
    tensors, nodes = {}, []
    with (tmp_path / "w.bin").open("wb") as file:
        for i in range(4):
            tensor = T(name=f"w{i}", data_type=T.FLOAT, dims=[count], data_location=T.EXTERNAL)
            offset = i * step + 4
            tensor.external_data.add(key="location", value="w.bin")
            tensor.external_data.add(key="offset", value=str(offset))
            file.seek(offset)
            file.write(np.full(count, i + 0.5, np.float32).tobytes())
            tensors[f"w{i}"] = tensor
            nodes.append(node("Add", [f"y{i}" if i else "x", f"w{i}"], [f"y{i + 1}"]))
    built = model(nodes, [info("x", (1,))], [info("y4", None)], tensors)
    path = tmp_path / "m.onnx"
    path.write_bytes(built.SerializeToString())
    command = [sys.executable, "-c", SPARSE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr[-500:]) == ("[0.5, 1.5, 2.5, 3.5]\n", "")


def test_external_data_cut_off_after_the_check_is_a_named_error(tmp_path):
    path, values = external_model(tmp_path / "a", data=np.arange(5000, dtype=np.float32).tobytes())
    late = load(path).graph.initializers["w"].const_value
    (path.parent / "w.bin").write_bytes(values.tobytes()[:-1])
    with pytest.raises(ModelError, match=r'external data "w.bin"') as caught:
        late.numpy()
    assert '"w"' in str(caught.value)


def test_external_data_of_no_bytes_in_an_empty_file_are_read(tmp_path):
    tensor = T(name="w", data_type=T.FLOAT, dims=[0, 3], data_location=T.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").touch()
    assert mapped(tensor, tmp_path, "w").numpy().shape == (0, 3)


@pytest.mark.parametrize(("kind", "bits"), [(T.INT4, 4), (T.BFLOAT16, 16), (T.FLOAT16, 16)])
def test_external_data_of_every_width_is_read(tmp_path, kind, bits):
    raw = bytes(i % 120 for i in range((3 * 333 * bits + 7) // 8))
    tensor = T(name="w", data_type=kind, dims=[3, 333], data_location=T.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(raw)
    inner = T(name="v", data_type=kind, dims=[3, 333], raw_data=raw)
    read = mapped(tensor, tmp_path, "v")
    assert np.array_equal(read.numpy(), numpy_helper.to_array(inner))
    assert read.name == "v" and read.shape == (3, 333)


# Opsets


@pytest.mark.parametrize("opset", range(7, OPSET + 1))
def test_every_opset_is_brought_to_the_newest(opset):
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Softmax", ["c"], ["y"], axis=1)]
    constants = {"w": np.ones((2, 3, 1, 1), np.float32)}
    loaded = load(model(nodes, [info("x", (1, 3, 4, 4))], [info("y", None)], constants, opset))
    assert loaded.opset_imports[""] == OPSET
    assert tuple(loaded.graph.outputs[0].shape) == (1, 2, 4, 4)


@pytest.mark.parametrize("op, opset, changed", [("Exp", 13, False), ("LogSoftmax", 12, True)])
def test_nothing_is_converted_where_no_operator_has_changed(monkeypatch, op, opset, changed):
    converted = []
    convert = conversion._convert
    monkeypatch.setattr(
        conversion, "_convert", lambda *given: converted.append(given) or convert(*given)
    )
    built = model([node(op, ["x"], ["y"])], [info("x", (2, 3))], [info("y", (2, 3))], opset=opset)
    loaded = load(built)
    assert loaded.opset_imports[""] == OPSET and bool(converted) == changed


@pytest.mark.parametrize("domains", [("", ""), ("", "ai.onnx"), ("ai.onnx.ml", "ai.onnx.ml")])
def test_two_opsets_of_one_domain_are_refused(domains):
    built = model([node("Relu", ["x"], ["y"])], [info("x", (1,))], [info("y", (1,))])
    del built.opset_import[:]
    pairs = zip(domains, (3, 2), strict=True)
    built.opset_import.extend(helper.make_opsetid(d, v) for d, v in pairs)
    refused(built, "opsets 3 and 2", domains[1] or "ai.onnx")


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
