# SPDX-License-Identifier: Apache-2.0
"""XNNPACK: its own cases in one bundle, here and on aarch64; what is read behind operands; what
CMake says of a library that does not fit; MobileNetV2 whole (AOT_FULL=1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import merged
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from aot.cli import main as aotc
from aot.vendor import Case
from aot.vendor.xnnpack import backend
from corpus_models import seeded
from graphs import model
from needs import missing
from quant_graphs import Net, feeds_of

#: Operators of one operand but Relu, whose cases the vendor gives.
UNARY_OPERATORS = "Abs Round Ceil Floor HardSwish Neg Sigmoid Sqrt LeakyRelu Elu"
ARM64 = Path(__file__).parents[2] / "build" / "arm64"
FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")


def need_library(target: str = "host") -> dict[str, str]:
    """The environment in which a bundle for `target` is configured."""
    if target == "host":
        if not Path("/usr/include/xnnpack.h").is_file():
            missing("XNNPACK", "apt-get install libxnnpack-dev libpthreadpool-dev")
        return {}
    if not (ARM64 / "usr" / "include" / "xnnpack.h").is_file():
        missing("XNNPACK for arm64", "make build/arm64")
    return {"xnnpack_ROOT": str(ARM64)}


def part(label: str, proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> merged.Part:
    """A model with the results of onnx.reference."""
    typed = list(onnx.shape_inference.infer_shapes(proto).graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(typed)
    want = list(ReferenceEvaluator(proto).run(None, feeds))
    return merged.Part(label, proto, feeds, want, Case((), {}))


def network() -> merged.Part:
    """A block of MobileNet, a factor per channel, a mean, a dense layer, Softmax."""
    r = np.random.default_rng(3)

    def draw(*shape: int) -> np.ndarray:
        return r.standard_normal(shape).astype(np.float32) / 3

    consts = {"w": draw(12, 5, 1, 1), "d": draw(12, 1, 3, 3), "e": draw(5, 12, 1, 1)}
    consts |= {"b": draw(5, 1, 1), "m": draw(5, 7), "six": np.float32(6), "zero": np.float32(0)}
    rows = [
        ("Conv", "x w", "k"),
        ("Clip", "k zero six", "l"),
        ("Conv", "l d", "n", {"group": 12, "pads": [1, 1, 1, 1]}),
        ("HardSwish", "n", "o"),
        ("Conv", "o e", "p"),
        ("Add", "p x", "q"),
        ("Mul", "q b", "r"),
        ("GlobalAveragePool", "r", "s"),
        ("Flatten", "s", "t"),
        ("MatMul", "t m", "u"),
        ("Softmax", "u", "y"),
    ]
    proto = model(rows, {"x": [1, 5, 9, 8]}, {"y": None}, consts)
    return part("network", proto, {"x": draw(1, 5, 9, 8)})


def at_the_end() -> list[merged.Part]:
    """Operators that read the caller's inputs themselves, of sizes that fill no vector."""
    net = Net(a=(np.int8, [3, 7]), b=(np.int8, [3, 7]))
    total = net.add("Add", net.dq("a", 0.05, np.int8(3)), net.dq("b", 0.03, np.int8(-4)))
    net.q(total, 0.07, np.int8(5), out="y")
    rows = [("MaxPool", "v", "y", {"kernel_shape": [2, 2]})]
    pool = model(rows, {"v": [1, 1, 3, 7]}, {"y": None})
    proto = net.model(y=np.int8)
    return [part("add", proto, feeds_of(proto)), part("pool", pool, feeds_of(pool))]


def alternatives() -> Iterator[merged.Part]:
    """The operators that patterns have beside the first one, whose cases the vendor gives."""
    r = np.random.default_rng(5)
    image = {"x": [2, 5, 3, 7]}
    x = (r.random((2, 5, 3, 7)) * 3 + 0.1).astype(np.float32)
    constants = {
        "k": x + 1,
        "low": np.float32(0.5),
        "high": np.float32(2),
        "axes": np.array([2, 3]),
    }
    window = {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}
    rows: list[tuple[Any, ...]] = [(name, "x", "y") for name in UNARY_OPERATORS.split()]
    rows += [(name, "x k", "y") for name in ("Sub", "Mul", "Div", "Min")]
    rows += [("Clip", "x low high", "y"), ("Mul", "x x", "y"), ("ReduceMean", "x axes", "y")]
    rows += [("AveragePool", "x", "y", window), ("GlobalMaxPool", "x", "y")]
    for row in rows:
        used = {n: v for n, v in constants.items() if n in row[1].split()}
        sign = np.float32(-1 if row[0] in ("Abs", "Elu", "LeakyRelu", "Neg") else 1)
        yield part(row[0], model([row], image, {"y": None}, used), {"x": x * sign})


Bundle = tuple[Path, list[merged.Part], list[np.ndarray]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The vendor's own cases, the network and the operators at the end of memory, built."""
    environment = need_library()
    parts = [network(), *at_the_end(), *alternatives()]
    for job in harness.collect(patterns=backend.patterns):
        assert not job.error and job.model is not None, job.error
        given = harness.feeds(job.model, job.case)
        parts.append(merged.Part(job.label, job.model, given, job.want, job.case))
    for each in parts:
        each.taken = merged.taken_by(each, "xnnpack")
    out = tmp_path_factory.mktemp("xnnpack") / "out"
    arrays = merged.compile_parts(parts, "xnnpack", out)
    merged.build(out, environment)
    return out, parts, arrays


def test_own_cases_are_right(bundle: Bundle) -> None:
    out, parts, arrays = bundle
    wrong = merged.run(parts, arrays, out)
    assert not wrong, "\n".join(wrong)


def test_a_network_is_taken_whole(bundle: Bundle) -> None:
    found = [name for name in bundle[1][0].taken if name != "Reshape"]
    assert found == ["conv", "conv", "unary", "conv", "pair", "pair", "mean", "dense", "softmax"]


def test_cases_of_every_pattern_are_taken(bundle: Bundle) -> None:
    """A case per pattern is computed by it; some of quantised values are refused."""
    taken = {name for each in bundle[1] for name in each.taken}
    assert {p.name for p in backend.patterns} <= taken
    refused = {each.label.split("[")[0] for each in bundle[1] if not each.taken}
    assert refused == {"qconv", "qdense", "qmean"}


def test_every_operator_of_a_pattern_is_taken(bundle: Bundle) -> None:
    assert [p.label for p in bundle[1] if p.label[0].isupper() and not p.taken] == []


#: Runs NET_run on inputs that end where a page begins which may not be read.
GUARDED = """
import ctypes, json, sys
from pathlib import Path
import numpy as np

out, arrays = Path(sys.argv[1]), np.load(sys.argv[2])
libc, net = ctypes.CDLL(None), ctypes.CDLL(out / "lib" / "libnet.so")
libc.mmap.restype, PAGE = ctypes.c_void_p, 4096
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
net.net_arena.restype = ctypes.c_void_p


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("kind", ctypes.c_uint8 * 2), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("offset", ctypes.c_uint64)]


def guarded(nbytes):
    pages = -(-nbytes // PAGE) * PAGE
    start = libc.mmap(None, pages + PAGE, 3, 0x22, -1, 0)
    assert libc.mprotect(start + pages, PAGE, 0) == 0
    return start + pages - nbytes


def tensor(array):
    place = guarded(array.nbytes)
    ctypes.memmove(place, array.ctypes.data, array.nbytes)
    kind = {"i": 0, "u": 1, "f": 2}[array.dtype.kind], 8 * array.itemsize
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(place, (1, 0), array.ndim, kind, 1, shape, None, 0)


def pointers(tensors):
    return (ctypes.POINTER(Tensor) * len(tensors))(*map(ctypes.pointer, tensors))


ins, outs = ([tensor(arrays[k]) for k in sorted(arrays) if k[0] == side] for side in "io")
context = ctypes.create_string_buffer(1 << 16)
arena, size = ctypes.c_void_p(net.net_arena()), ctypes.c_size_t(int(sys.argv[3]))
assert net.net_init(context, arena, size) == 0
assert net.net_run(context, pointers(ins), pointers(outs)) == 0
net.net_shutdown(context)
for key, made in zip([k for k in sorted(arrays) if k[0] == "o"], outs, strict=True):
    got = np.frombuffer(ctypes.string_at(made.data, arrays[key].nbytes), arrays[key].dtype)
    close = np.abs(got.astype(float) - arrays[key].ravel()).max(initial=0)
    assert close <= (1 if arrays[key].dtype.kind == "i" else 1e-3), (key, close)
"""


def test_nothing_behind_the_callers_tensors_is_read(bundle: Bundle, tmp_path: Path) -> None:
    out, parts, arrays = bundle
    named = {f"i{i:04}": a for i, a in enumerate(arrays)}
    named |= {f"o{i:04}": a for i, a in enumerate(a for each in parts for a in each.want)}
    np.savez(tmp_path / "arrays.npz", **named)
    arena = str(merged.manifest_of(out)["memory"]["arena_bytes"])
    command = [sys.executable, "-c", GUARDED, str(out), str(tmp_path / "arrays.npz"), arena]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"


def test_calls_read_copies_of_the_callers_tensors(bundle: Bundle) -> None:
    """The copies are the only calls but conversions that no operator of the library makes."""
    rows = merged.manifest_of(bundle[0])["nodes"]
    copied = [r["reads"][0]["tensor"] for r in rows if r["kernel"] == "aot_copy"]
    assert {"p1_a", "p1_b"} <= set(copied)


def test_rounding_of_tflite_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(at_the_end()[0].model, tmp_path / "add.onnx")
    words = [str(tmp_path / "add.onnx"), "-o", str(tmp_path / "out"), "--backend", "xnnpack"]
    assert aotc([*words, "--requant", "tflite", "--no-configure"]) != 0
    assert "XNNPACK does not round as TensorFlow Lite does" in capsys.readouterr().err


SCRIPT = """
set(xnnpack_ROOT "{root}")
include("{find}")
message(STATUS "why: ${{aot_vendor_why}}")
"""
NAMES = ("convolution2d_nhwc_qc8", "subtract_nd_qs8", "max_pooling2d_nhwc_s8")
ALL = "".join(f"xnn_create_{name}\n" for name in NAMES)


def other_library(root: Path, header: str, library: str) -> Path:
    """A folder with these words in the place of the library's header and of the library."""
    (root / "include").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "include" / "xnnpack.h").write_text(header)
    (root / "include" / "pthreadpool.h").touch()
    (root / "lib" / "libXNNPACK.so").write_text(library)
    (root / "lib" / "libpthreadpool.so").touch()
    return root


def test_an_old_library_is_named(tmp_path: Path) -> None:
    root = other_library(tmp_path / "root", "xnn_create_convolution2d_nhwc_qc8", ALL)
    assert backend.folder is not None
    text = SCRIPT.format(root=root.as_posix(), find=(backend.folder / backend.find).as_posix())
    (tmp_path / "find.cmake").write_text(text)
    command = ["cmake", "-P", str(tmp_path / "find.cmake")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = " ".join(done.stdout.split())
    assert "xnnpack.h has no xnn_create_subtract_nd_qs8: it is too old" in said, done.stderr


def test_a_newer_library_is_named_with_node_and_remedy(tmp_path: Path) -> None:
    out = tmp_path / "out"
    onnx.save(at_the_end()[0].model, tmp_path / "add.onnx")
    words = [str(tmp_path / "add.onnx"), "-o", str(out), "--backend", "xnnpack", "--no-configure"]
    assert aotc(words) == 0
    root = other_library(tmp_path / "root", ALL + "xnn_reshape_convolution2d_nhwc_f32", ALL)
    command = ["cmake", "-S", str(out / "bundle"), "-B", str(out), f"-Dxnnpack_ROOT={root}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "vendor xnnpack: the XNNPACK in" in text
    assert "is newer than February 2022" in text
    assert "It computes node" in text
    assert "Install libxnnpack-dev and libpthreadpool-dev" in text
    assert "-DAOT_XNNPACK=OFF: portable C instead" in text


def verified(path: Path, out: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> dict:
    """The manifest of a model compiled for `target`, built, and compared with onnxruntime and
    portable C."""
    for name, value in need_library(target).items():
        monkeypatch.setenv(name, value)
    assert aotc([str(path), "-o", str(out), "--backend", "xnnpack", "--target", target]) == 0
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    assert aotc(["verify", str(out), "--reference", "ort"]) == 0
    manifest: dict = json.loads((out / "bundle" / "manifest.json").read_text())
    return manifest


@FULL
def test_a_network_on_aarch64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(network().model, tmp_path / "network.onnx")
    path, out = tmp_path / "network.onnx", tmp_path / "out"
    made = verified(path, out, "aarch64-linux", monkeypatch)
    assert {r["backend"] for r in made["regions"]} == {"xnnpack"}


@FULL
@pytest.mark.parametrize("target", ["host", "aarch64-linux"])
@pytest.mark.parametrize("name", ["mobilenetv2", "mobilenetv2_int8"])
def test_mobilenetv2_is_taken_whole(
    name: str,
    target: str,
    models_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    int8 = models_folder / f"{name}.onnx"
    path = int8 if int8.is_file() else seeded(models_folder, name, tmp_path).path
    out = tmp_path / "out"
    made = verified(path, out, target, monkeypatch)
    others = [r["kernel"] for r in made["nodes"] if r["backend"] == "c"]
    assert others == ["aot_to_blocked"]
    assert aotc(["verify", str(out), "--per-region"]) == 0


@FULL
def test_own_cases_with_two_threads(bundle: Bundle) -> None:
    out, parts, arrays = bundle
    command = ["cmake", "-S", str(out / "bundle"), "-B", str(out)]
    subprocess.run([*command, "-DCMAKE_C_FLAGS=-DAOT_XNNPACK_THREADS=2"], check=True)
    subprocess.run(["cmake", "--build", str(out)], check=True)
    assert not merged.run(parts, arrays, out)
