# SPDX-License-Identifier: Apache-2.0
"""The oneDNN vendor: what it takes, regions, layouts, life of its objects, errors of the build."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import merged
import numpy as np
import onnx
import pytest
from dnnl_libraries import ROOTS, library
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.api import compile_to
from aot.cli import main as aotc
from aot.errors import BackendError
from aot.ir.dtypes import F32
from aot.ir.program import Origin
from aot.options import Options
from aot.target import load_target
from aot.tools.run import execute, open_out
from aot.vendor.dnnl import backend, base
from aot.vendor.recorder import Recorder
from graphs import model

TARGET = "x86-64-v3"


@pytest.fixture(scope="module", params=sorted(ROOTS))
def root(request: pytest.FixtureRequest) -> str:
    """A prefix with the library of one generation."""
    return library(request.param)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def network() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A residual block of 24 channels (no whole block of 16), a fire module, a classifier."""
    weights = {
        "w0": drawn(24, 3, 3, 3),
        "b0": drawn(24, seed=9),
        "w1": drawn(24, 1, 3, 3, seed=1),
        "w2": drawn(24, 24, 1, 1, seed=2),
        "w3": drawn(16, 24, 1, 1, seed=3),
        "w4": drawn(32, 24, 3, 3, seed=4),
        "w5": drawn(10, 48, seed=5),
        "six": np.float32(6),
        "zero": np.float32(0),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c0"], ["a"]),
        node("Conv", ["a", "w1"], ["c1"], pads=[1] * 4, group=24),
        node("Clip", ["c1", "zero", "six"], ["c1r"]),
        node("Conv", ["c1r", "w2"], ["c2"]),
        node("Add", ["a", "c2"], ["s"]),
        node("MaxPool", ["s"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        node("Conv", ["p", "w3"], ["f0"]),
        node("Relu", ["f0"], ["f0r"]),
        node("Conv", ["p", "w4"], ["f1"], pads=[1] * 4),
        node("Relu", ["f1"], ["f1r"]),
        node("Concat", ["f0r", "f1r"], ["f"], axis=1),
        node("GlobalAveragePool", ["f"], ["g"]),
        node("Flatten", ["g"], ["flat"]),
        node("Gemm", ["flat", "w5"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 3, 18, 22])],
        [helper.make_tensor_value_info("y", 1, [1, 10])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": drawn(1, 3, 18, 22, seed=7) * 100}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("net") / "out"
    compile_to(network()[0], out, options(), configure=False)
    return out


def options(**more: object) -> Options:
    return Options(name="net", target=TARGET, backends=("dnnl",), **more)


def test_one_region_without_reorders(compiled: Path) -> None:
    manifest = merged.manifest_of(compiled)
    assert len(manifest["regions"]) == 1
    kernels = [n["kernel"] for n in manifest["nodes"]]
    assert set(kernels) == {"aot_dnnl_run", "aot_dnnl_run_sum"} and len(kernels) == 8
    layouts = {w["value"]: w["layout"] for n in manifest["nodes"] for w in n["writes"]}
    assert layouts["s"] == "NC8" and layouts["y"] == "plain"


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4"])
def test_other_vector_widths(target: str, tmp_path: Path) -> None:
    wanted = Options(name="net", target=target, backends=("dnnl",))
    done = compile_to(network()[0], tmp_path / "out", wanted, configure=False)
    layouts = {str(t.layout) for t in done.program.tensors.values()}
    assert layouts == ({"plain"} if target == "x86-64" else {"plain", "NC16", "NC16z"})


def test_right_on_both_generations(
    compiled: Path, root: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, feeds = network()
    want = ReferenceEvaluator(model).run(None, feeds)[0]
    out = tmp_path / "out"
    shutil.copytree(compiled, out)
    merged.build(out, {"dnnl_ROOT": root})
    got = execute(open_out(out), list(feeds.values()))[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    check_life_of_contexts(out, feeds["x"], want)
    check_entry_without_context(out, feeds["x"], want, capfd)


def border() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Portable operators between convolutions of 24 channels: 1 / exp(0) and cos(0) in the lanes
    past the last channel must not reach a sum."""
    weights = {"w0": drawn(24, 3, 3, 3), "w1": drawn(24, 24, 1, 1, seed=1)}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"]),
        node("Cos", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["c"]),
        node("Exp", ["c"], ["d"]),
        node("Div", ["a", "d"], ["e"]),
        node("Div", ["c", "d"], ["q"]),
        node("MaxPool", ["q"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
        node("Conv", ["e", "w1"], ["f"]),
        node("Conv", ["p", "w1"], ["y"]),
        node("Add", ["f", "b"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "border",
        [helper.make_tensor_value_info("x", 1, [2, 3, 9, 9])],
        [
            helper.make_tensor_value_info("y", 1, [2, 24, 3, 3]),
            helper.make_tensor_value_info("z", 1, [2, 24, 7, 7]),
        ],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": drawn(2, 3, 9, 9, seed=7) * 10}


@pytest.mark.skipif(not load_target("x86-64-v4").runs_here(), reason="needs AVX-512")
def test_pad_lanes_at_the_border(root: str, tmp_path: Path) -> None:
    model, feeds = border()
    want = ReferenceEvaluator(model).run(None, feeds)
    out = tmp_path / "out"
    wanted = Options(name="net", target="x86-64-v4", backends=("dnnl",))
    compile_to(model, out, wanted, configure=False)
    layouts = [w["layout"] for n in merged.manifest_of(out)["nodes"] for w in n["writes"]]
    assert {"NC16", "NC16z"} <= set(layouts)
    merged.build(out, {"dnnl_ROOT": root})
    for got, expected in zip(execute(open_out(out), list(feeds.values())), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_channels_last_where_rows_are_short(root: str, tmp_path: Path) -> None:
    """Windows over short rows of many channels, and what lies between them: it keeps the order or
    brings blocks back."""
    same, twice = {"pads": [1] * 4}, np.array([1, 1, 2, 2], np.float32)
    rows = [
        *(("Conv", "x w", "a", same), ("Relu", "a", "b"), ("Conv", "b w1", "c", same)),
        *(("Add", "c a", "d"), ("PRelu", "d slope", "e"), ("Exp", "c", "f")),
        *(("Sub", "c f", "u"), ("Mul", "e u", "g"), ("Div", "g f", "h"), ("Conv", "h w2", "i")),
        *(("Conv", "h w1", "j", same), ("Sub", "j h", "k"), ("Add", "k i", "l")),
        ("MaxPool", "l", "m", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        *(("Conv", "m w1", "n", same), ("Concat", "n m", "o", {"axis": 1})),
        *(("LRN", "n", "p", {"size": 3}), ("Resize", "p roi twice", "q", {"mode": "nearest"})),
        *(("Conv", "q w1", "r", same), ("GlobalAveragePool", "r", "y"), ("Relu", "o", "z")),
    ]
    shapes = {"w": (128, 3, 3, 3), "w1": (128, 128, 3, 3), "w2": (128, 128, 1, 1)}
    consts = {k: drawn(*s, seed=i) / 8 for i, (k, s) in enumerate(shapes.items())}
    consts |= {"slope": drawn(128, 1, 1, seed=5), "twice": twice, "roi": twice[:0]}
    proto = model(rows, {"x": [2, 3, 8, 8]}, {"y": None, "z": None}, consts)
    feeds = {"x": drawn(2, 3, 8, 8, seed=7)}
    want = ReferenceEvaluator(proto).run(None, feeds)
    out = tmp_path / "out"
    compile_to(onnx.shape_inference.infer_shapes(proto), out, options(), configure=False)
    nodes = merged.manifest_of(out)["nodes"]
    last = [n["kernel"] for n in nodes if {w["layout"] for w in n["writes"]} == {"NC128"}]
    assert last.count("aot_dnnl_run") >= 8 and "aot_dnnl_run2" in last, last
    merged.build(out, {"dnnl_ROOT": root})
    for got, expected in zip(execute(open_out(out), [feeds["x"]]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


class Tensor(ctypes.Structure):
    """DLTensor of DLPack 1."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]


def tensor(a: np.ndarray) -> Tensor:
    shape = (ctypes.c_int64 * a.ndim)(*a.shape)
    float32 = 2 | 32 << 8 | 1 << 16
    device = (ctypes.c_int32 * 2)(1, 0)
    return Tensor(a.ctypes.data, device, a.ndim, float32, shape, None, 0)


def check_life_of_contexts(out: Path, x: np.ndarray, want: np.ndarray) -> None:
    """Two contexts at a time, each initialised, run and shut down repeatedly."""
    net = ctypes.CDLL(str(out / "lib" / "libnet.so"))
    size = merged.manifest_of(out)["memory"]["arena_bytes"]
    arenas = [np.zeros(size + 64, np.uint8) for _ in range(2)]
    starts = [a.ctypes.data + -a.ctypes.data % 64 for a in arenas]
    contexts = [ctypes.create_string_buffer(4096) for _ in range(2)]
    for _ in range(3):
        for context, start in zip(contexts, starts, strict=True):
            assert net.net_init(context, ctypes.c_void_p(start), ctypes.c_size_t(size)) == 0
        for context in contexts:
            y = np.zeros((1, 10), np.float32)
            tx, ty = tensor(x), tensor(y)
            ins, outs = ctypes.pointer(tx), ctypes.pointer(ty)
            assert net.net_run(context, ctypes.byref(ins), ctypes.byref(outs)) == 0
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        for context in contexts:
            net.net_shutdown(context)


def check_entry_without_context(
    out: Path, x: np.ndarray, want: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its primitives are made by the first call and stay; the built-in arena is free between."""
    net = ctypes.CDLL(str(out / "lib" / "libnet.so"))
    assert net.dnnl_set_verbose(2) == 0
    said = []
    for _ in range(3):
        y = np.zeros((1, 10), np.float32)
        ends = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y)]
        assert net.tvmgen_net_run(*ends) == 0
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        context = ctypes.create_string_buffer(4096)
        assert net.dnnl_set_verbose(0) == 0
        net.net_arena.restype = ctypes.c_void_p
        arena, size = ctypes.c_void_p(net.net_arena()), ctypes.c_size_t(1 << 20)
        assert net.net_init(context, arena, size) == 0
        net.net_shutdown(context)
        assert net.dnnl_set_verbose(2) == 0
        said.append(capfd.readouterr().out)
    net.dnnl_set_verbose(0)
    made = [text.count(",create") for text in said]
    assert made[0] >= 8 and made[1:] == [0, 0]
    assert all(text.count(",exec") >= 8 for text in said)


def test_missing_library_is_named(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(compiled, out)
    nowhere = ["-DCMAKE_FIND_ROOT_PATH=/nonexistent"]
    nowhere += [f"-DCMAKE_FIND_ROOT_PATH_MODE_{kind}=ONLY" for kind in ("LIBRARY", "INCLUDE")]
    command = ["cmake", "-S", out / "bundle", "-B", out, *nowhere]
    env = {k: v for k, v in os.environ.items() if k != "dnnl_ROOT"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    message = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "vendor dnnl: its library was not found" in message and "set dnnl_ROOT" in message
    assert "It computes node Conv_0" in message and "-DAOT_DNNL=OFF: portable C" in message


OLD, NEW = "dnnl_convolution_forward_desc_init", "dnnl_convolution_forward_primitive_desc_create"


@pytest.mark.parametrize(
    ("version", "symbol", "said"),
    [
        ("1.7", OLD, "the oneDNN 1.7 in"),
        ("2.6", OLD, ""),
        ("2.6", NEW, f"has no {OLD}: it is another version"),
        ("3.2", OLD, f"has no {NEW}: it is another version"),
        ("3.2", f"/* GNU ld script */ INPUT ({NEW}.a)", ""),
        ("4.0", NEW, "the oneDNN 4.0 in"),
    ],
)
def test_a_library_of_another_age_is_named(
    compiled: Path, tmp_path: Path, version: str, symbol: str, said: str
) -> None:
    out, prefix = tmp_path / "out", tmp_path / "prefix"
    shutil.copytree(compiled, out)
    for folder in ("include/oneapi/dnnl", "lib"):
        (prefix / folder).mkdir(parents=True)
    major, minor = version.split(".")
    lines = f"#define DNNL_VERSION_MAJOR {major}\n#define DNNL_VERSION_MINOR {minor}\n"
    (prefix / "include/oneapi/dnnl/dnnl_version.h").write_text(lines)
    (prefix / "include/dnnl.h").write_text("")
    (prefix / "lib/libdnnl.so").write_text(symbol)
    command = ["cmake", "-S", out / "bundle", "-B", out, f"-Ddnnl_ROOT={prefix}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    message = " ".join(done.stderr.split())
    assert (done.returncode == 0) == (not said), message
    if said:
        assert "vendor dnnl: " in message and said in message and "-DAOT_DNNL=OFF" in message
        assert "It computes node Conv_0" in message


def test_refusals_have_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node
    rows = [
        node("Conv", ["x", "w"], ["c"]),
        node("MaxPool", ["c"], ["p", "i"], kernel_shape=[2, 2]),
        node("Cast", ["p"], ["d"], to=11),
        node("Relu", ["d"], ["y"]),
        node("AveragePool", ["c"], ["q"], kernel_shape=[2, 2], pads=[1] * 4, strides=[3, 3],
             ceil_mode=1, count_include_pad=1),
    ]  # fmt: skip
    given = [("x", 1, [1, 3, 8, 8]), ("w", 1, [4, 3, 3, 3])]
    wanted = [("y", 11, [1, 4, 5, 5]), ("i", 7, [1, 4, 5, 5]), ("q", 1, [1, 4, 3, 3])]
    infos = [[helper.make_tensor_value_info(*v) for v in side] for side in (given, wanted)]
    graph = helper.make_graph(rows, "g", infos[0], infos[1])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    assert aotc(["explain", str(tmp_path / "m.onnx"), "--backend", "dnnl"]) == 0
    text = capsys.readouterr().out
    for reason in (
        "weights are computed at run time (need constants)",
        "output 1 is used (only output 0 is computed)",
        "dtype float64 (needs float32 or bfloat16)",
    ):
        assert reason in text, text


def test_views_and_concat_are_taken_between_products() -> None:
    part = merged.Part("net", *network(), [], None)  # type: ignore[arg-type]
    assert {"Reshape", "concat"} <= set(merged.taken_by(part, "dnnl"))


@pytest.mark.parametrize("axis", [1, 2])
def test_parts_of_a_concat_that_are_no_runs_of_memory(axis: int, tmp_path: Path) -> None:
    root = library("3")
    rows = [
        ("Conv", "x w", "a"),
        ("Conv", "x v", "b"),
        ("Concat", "a b a k" if axis == 1 else "a a", "c", {"axis": axis}),
        ("Relu", "c", "y"),
    ]
    consts = {
        "w": drawn(16, 3, 3, 3),
        "v": drawn(32, 3, 3, 3, seed=1),
        "k": drawn(2, 16, 6, 6, seed=2),
    }
    proto = model(rows, {"x": [2, 3, 8, 8]}, {"y": None}, consts)
    feeds = {"x": drawn(2, 3, 8, 8, seed=7)}
    (want,) = ReferenceEvaluator(proto).run(None, feeds)
    out = tmp_path / "out"
    compile_to(onnx.shape_inference.infer_shapes(proto), out, options(), configure=False)
    assert len(merged.manifest_of(out)["regions"]) == 1
    merged.build(out, {"dnnl_ROOT": root})
    (got,) = execute(open_out(out), [feeds["x"]])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_views_and_transposes_between_products_are_in_the_region(tmp_path: Path) -> None:
    """Views of blocked tensors that keep their blocks and that do not, and parts of them."""
    root = library("3")
    numbers = {"tall": [1, 16, 32, 2], "rows": [8, 64], "zero": [0], "one": [1], "two": [2]}
    numbers |= {"six": [6], "eight": [8], "most": [24], "heads": [4, 2, 3]}
    rows = [
        *(("Conv", "x w0", "a", {"pads": [1] * 4}), ("Reshape", "a tall", "b")),
        *(("Conv", "b w1", "c"), ("Slice", "c eight most one", "d"), ("Conv", "d w2", "e")),
        *(("Reshape", "e rows", "f"), ("MatMul", "f w3", "g"), ("Slice", "g two six zero", "h")),
        *(("MatMul", "h w4", "i"), ("Reshape", "i heads", "j")),
        ("Transpose", "j", "k", {"perm": [1, 0, 2]}),
        *(("MatMul", "k w5", "y"), ("Relu", "f", "z")),
    ]
    shapes = [(16, 3, 3, 3), (32, 16, 1, 1), (8, 16, 1, 1), (64, 10), (10, 6), (3, 5)]
    consts = {f"w{i}": drawn(*s, seed=i) for i, s in enumerate(shapes)}
    consts |= {k: np.array(v, np.int64) for k, v in numbers.items()}
    proto = model(rows, {"x": [1, 3, 8, 8]}, {"y": None, "z": None, "f": None}, consts)
    feeds = {"x": drawn(1, 3, 8, 8, seed=7)}
    want = ReferenceEvaluator(proto).run(None, feeds)
    out = tmp_path / "out"
    compile_to(onnx.shape_inference.infer_shapes(proto), out, options(), configure=False)
    assert len(merged.manifest_of(out)["regions"]) == 1
    merged.build(out, {"dnnl_ROOT": root})
    for a, b in zip(execute(open_out(out), [feeds["x"]]), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_slots_are_those_of_the_header() -> None:
    header = (Path(base.__file__).parent / "aot_dnnl.h").read_text()
    assert f"AOT_DNNL_SESSION_SLOTS = {base.SESSION_SLOTS}," in header
    assert f"AOT_DNNL_SLOTS = {base.SLOTS} " in header


def test_states_are_shared_and_made_of_constants() -> None:
    c = Recorder(load_target(TARGET), Options())
    c.begin(Origin(("n",), ("N",)), backend.patterns[0], 0, ())
    one = c.state("aot_dnnl_open", release="aot_dnnl_close", slots=3)
    assert one == c.state("aot_dnnl_open", release="aot_dnnl_close", slots=3)
    assert len(c.states) == 1
    whole = c.state("aot_dnnl_open", one, release="aot_dnnl_close", slots=1, last=True)
    c.state("aot_dnnl_close", whole, release="aot_dnnl_close", slots=1)
    assert [s.last for s in c.states] == [False, True, True]
    with pytest.raises(BackendError, match="is not constant"):
        c.state("aot_dnnl_conv", c.temp((2,), F32), release="aot_dnnl_release", slots=3)
