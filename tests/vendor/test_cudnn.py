# SPDX-License-Identifier: Apache-2.0
"""cuDNN and cuBLAS as a vendor: its own cases and networks against a stand-in that computes on the
CPU, what fails is named; whole networks, and the real headers or a GPU where there are such.

The real headers are those of `pip install --target FOLDER nvidia-cudnn-cu12 nvidia-cublas-cu12
nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-cccl-cu12` (AOT_CUDA_WHEELS=FOLDER). With
AOT_TEST_GPU=1 the libraries of this machine compute in place of the stand-in.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import cudnn_roots
import harness
import merged
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from aot import Bundle
from aot.cli import main as aotc
from aot.errors import AotError
from aot.vendor import Case
from aot.vendor.cudnn import backend
from corpus_models import seeded
from graphs import model
from needs import missing

FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")
GPU = bool(os.environ.get("AOT_TEST_GPU"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which a bundle is configured: the stand-in, or the GPU's libraries."""
    if GPU:
        return {}
    root = cudnn_roots.standin(tmp_path_factory.mktemp("cudnn") / "root")
    return {"cudnn_ROOT": str(root)}


def part(
    label: str, rows: list[tuple], inputs: dict[str, list[int]], consts: dict | None = None
) -> merged.Part:
    """A model with the results of onnx.reference."""
    proto = model(rows, inputs, {"y": None}, consts)
    typed = list(onnx.shape_inference.infer_shapes(proto).graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(typed)
    r = np.random.default_rng(len(label))
    feeds = {k: r.standard_normal(shape).astype(np.float32) for k, shape in inputs.items()}
    want = list(ReferenceEvaluator(proto).run(None, feeds))
    return merged.Part(label, proto, feeds, want, Case((), {}))


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 3


def networks() -> list[merged.Part]:
    """A residual block with every kind of window, and a layer of a transformer."""
    convolutions = [
        ("Conv", "x w", "c", {"pads": [1, 1, 1, 1]}),
        ("Relu", "c", "d"),
        ("Conv", "d v b", "e"),
        ("Add", "e x", "f"),
        ("Relu", "f", "g"),
        ("Conv", "g h", "i", {"group": 6, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("MaxPool", "i", "j", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("Concat", "i j", "k", {"axis": 1}),
        ("GlobalAveragePool", "k", "l"),
        ("Flatten", "l", "m"),
        ("Gemm", "m n o", "p", {"transB": 1}),
        ("Softmax", "p", "y"),
    ]
    consts = {"w": draw(8, 6, 3, 3), "v": draw(6, 8, 1, 1), "b": draw(6), "h": draw(6, 1, 3, 3)}
    consts |= {"n": draw(5, 12), "o": draw(5)}
    layer = [("MatMul", f"x {n}", f"{n}0") for n in "qkv"]
    layer += [("Reshape", f"{n}0 heads", f"{n}1") for n in "qkv"]
    layer += [("Transpose", f"{n}1", f"{n}2", {"perm": [0, 2, 1, 3]}) for n in "qv"]
    layer += [
        ("Transpose", "k1", "k2", {"perm": [0, 2, 3, 1]}),
        ("MatMul", "q2 k2", "s"),
        ("Mul", "s half", "t"),
        ("Add", "t mask", "u"),
        ("Softmax", "u", "w"),
        ("MatMul", "w v2", "z"),
        ("Transpose", "z", "z1", {"perm": [0, 2, 1, 3]}),
        ("Reshape", "z1 back", "z2"),
        ("MatMul", "z2 o", "a0"),
        ("Add", "a0 x", "a1"),
        ("LayerNormalization", "a1 g b", "a2", {"axis": -1, "epsilon": 1e-12}),
        ("MatMul", "a2 f", "f0"),
        ("Gelu", "f0", "f1"),
        ("MatMul", "f1 h", "f2"),
        ("Add", "f2 a2", "y"),
    ]
    weights = {n: draw(12, 12) for n in "qkvo"} | {"f": draw(12, 20), "h": draw(20, 12)}
    weights |= {"g": draw(12), "b": draw(12) + 1, "half": np.float32(0.5)}
    sizes = {"heads": np.array([1, 7, 3, 4]), "back": np.array([1, 7, 12])}
    return [
        part("block", convolutions, {"x": [2, 6, 9, 9]}, consts),
        part("layer", layer, {"x": [1, 7, 12], "mask": [1, 1, 1, 7]}, weights | sizes),
    ]


def alternatives() -> list[merged.Part]:
    """Operators that patterns have beside the first one, whose cases the vendor gives."""
    rows: list[tuple] = [(name, "x", "y") for name in ("Sigmoid", "Tanh", "Elu", "Neg", "Gelu")]
    rows += [(name, "x k", "y") for name in ("Sub", "Mul", "Div", "Max", "Min")]
    rows += [("Sub", "b x", "y"), ("Clip", "x zero six", "y"), ("ReduceMean", "x axes", "y")]
    rows += [("Gelu", "x", "y", {"approximate": "tanh"}), ("MatMul", "x x2", "y")]
    consts = {"k": draw(2, 5, 3, 4), "b": draw(4), "zero": np.float32(0), "six": np.float32(6)}
    consts |= {"axes": np.array([2, 3]), "x2": draw(2, 5, 4, 3)}
    found = []
    for row in rows:
        used = {n: v for n, v in consts.items() if n in row[1].split()}
        found.append(part(f"{row[0]} {row[1]}", [row], {"x": [2, 5, 3, 4]}, used))
    return found


def extremes() -> list[merged.Part]:
    """A Softmax of very many rows, rows that a tiny epsilon alone keeps from 0 / 0, two regions
    whose convolutions ask for workspaces of different sizes."""
    rows = [
        ("Conv", "x w", "c", {"pads": [1, 1, 1, 1]}),
        ("Ceil", "c", "d"),
        ("Conv", "d v", "e", {"pads": [2, 2, 2, 2]}),
        ("Ceil", "e", "y"),
    ]
    weights = {"w": draw(3, 2, 3, 3), "v": draw(4, 3, 5, 5)}
    norm = [
        ("Mul", "x tiny", "z"),
        ("LayerNormalization", "z g b", "y", {"axis": -1, "epsilon": 1e-12}),
    ]
    numbers = {"tiny": np.float32(1e-6), "g": draw(12), "b": draw(12)}
    return [
        part("rows", [("Softmax", "x", "y")], {"x": [70000, 3]}),
        part("epsilon", norm, {"x": [5, 12]}, numbers),
        part("regions", rows, {"x": [1, 2, 8, 8]}, weights),
    ]


def test_own_cases_and_networks_are_right(library: dict[str, str], tmp_path: Path) -> None:
    parts = []  # the model of all has the opset of the first: cases have the newest
    for job in harness.collect(patterns=backend.patterns):
        assert not job.error and job.model is not None, job.error
        given = harness.feeds(job.model, job.case)
        parts.append(merged.Part(job.label, job.model, given, job.want, job.case))
    parts += [*networks(), *alternatives(), *extremes()]
    for each in parts:
        each.taken = merged.taken_by(each, "cudnn")
    assert [p.label for p in parts if not p.taken] == []
    assert {p.name for p in backend.patterns} == {name for p in parts for name in p.taken}
    out = tmp_path / "out"
    arrays = merged.compile_parts(parts, "cudnn", out)
    merged.build(out, library)
    assert not merged.run(parts, arrays, out)
    kernels = {r["kernel"] for r in merged.manifest_of(out)["nodes"]}
    assert kernels == {f"aot_cudnn_{name}" for name in ("upload", "run", "download")} | {
        "aot_ceil_f32"  # between the regions of `extremes`
    }


def compiled(out: Path, path: Path, library: dict[str, str], *words: str) -> dict:
    """The manifest of a model that is built with the vendor."""
    command = [str(path), "-o", str(out), "--backend", "cudnn", "--no-configure", "-q", *words]
    assert aotc(command) == 0
    merged.build(out, library)
    return merged.manifest_of(out)


@pytest.fixture(scope="module")
def layer(library: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer of a transformer, compiled and built."""
    folder = tmp_path_factory.mktemp("layer")
    onnx.save(networks()[1].model, folder / "layer.onnx")
    made = compiled(folder / "out", folder / "layer.onnx", library)
    assert [r["backend"] for r in made["regions"]] == ["cudnn"]
    return folder / "out"


def ran(out: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of the built layer on random inputs."""
    command = [str(out / "bin" / "layer"), "--fill", "1", *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_every_run_launches_the_graph_and_is_right(layer: Path) -> None:
    loaded, each = Bundle(layer).load(), networks()[1]
    for factor in (1, 2, 1):
        given = {k: a * np.float32(factor) for k, a in each.feeds.items()}
        want = ReferenceEvaluator(each.model).run(None, given)[0]
        np.testing.assert_allclose(np.asarray(loaded(*given.values())), want, 1e-4, 1e-5)


@pytest.fixture(scope="module")
def regions(library: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three regions that need more memory and more workspace one after the other."""
    rows = [
        ("Softmax", "x", "a"),
        ("Ceil", "a", "b"),
        ("Conv", "b w", "c", {"pads": [1, 1, 1, 1]}),
        ("Ceil", "c", "d"),
        ("Conv", "d v", "e", {"pads": [2, 2, 2, 2]}),
        ("MatMul", "e m", "y"),
    ]
    consts = {"w": draw(3, 2, 3, 3), "v": draw(4, 3, 5, 5), "m": draw(8, 8)}
    folder = tmp_path_factory.mktemp("regions")
    onnx.save(part("regions", rows, {"x": [1, 2, 8, 8]}, consts).model, folder / "layer.onnx")
    made = compiled(folder / "out", folder / "layer.onnx", library)
    assert [r["backend"] for r in made["regions"]] == ["cudnn"] * 3
    return folder / "out"


@pytest.mark.skipif(GPU, reason="the stand-in says what happens")
def test_init_records_the_graphs_at_the_addresses_of_runs(regions: Path) -> None:
    """Memory is allocated when the last region is known: work at other addresses fails. Runs of
    regions that cannot be recorded start their steps."""
    words = ["--repeat", "3", "--warmup", "0"]
    for fails, captured, run in (
        ("", [1, 2, 3], ["launched"] * 3),
        ("cudaStreamBeginCapture", [], ["started"] * 6),
    ):
        done = ran(regions, *words, STANDIN_SAYS="1", STANDIN_FAILS=fails)
        assert done.returncode == 0, done.stderr
        said = [line.split() for line in done.stderr.splitlines()]
        events = [event for event, _ in said]
        first = events.index("uploaded")
        assert [int(n) for event, n in said if event == "captured"] == captured
        assert events[:first].count("started") == 6  # every call once: libraries load kernels
        in_runs = [event for event in events[first:] if event not in ("uploaded", "downloaded")]
        assert in_runs == run * 3


@pytest.mark.skipif(GPU, reason="the stand-in fails on demand")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("cudnnCreate", "cuDNN: CUDNN_STATUS_BAD_PARAM"),
        ("cublasSgemmStridedBatched", "cuBLAS: CUBLAS_STATUS_INVALID_VALUE"),
        ("cudnnSoftmaxForward", "cuDNN: CUDNN_STATUS_BAD_PARAM"),
        ("cudaMalloc", "CUDA: out of memory"),
        ("cudaMemcpyAsync", "CUDA: unknown error"),
        ("cudaGraphLaunch", "CUDA: unknown error"),
    ],
)
def test_what_fails_is_named(call: str, said: str, layer: Path) -> None:
    done = ran(layer, STANDIN_FAILS=call)
    assert done.returncode == 1 and f": {call} of {said}" in done.stderr, done.stderr


@pytest.mark.skipif(GPU, reason="the stand-in fails on demand")
def test_a_failed_region_spoils_no_other(
    library: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that fails in the second region ends the run; later runs are right. Regions are
    not recorded: what is recorded is launched by one call."""
    rows = [("MatMul", "x w", "c"), ("Ceil", "c", "d"), ("Softmax", "d", "y")]
    each = part("two", rows, {"x": [2, 12]}, {"w": draw(12, 12)})
    onnx.save(each.model, tmp_path / "two.onnx")
    made = compiled(tmp_path / "out", tmp_path / "two.onnx", library)
    assert [r["backend"] for r in made["regions"]] == ["cudnn", "cudnn"]
    monkeypatch.setenv("STANDIN_FAILS", "cudaStreamBeginCapture")
    loaded = Bundle(tmp_path / "out").load()
    for fails in (True, False, False):
        monkeypatch.setenv("STANDIN_FAILS", "cudnnSoftmaxForward" if fails else "")
        if fails:
            with pytest.raises(AotError, match="status"):
                loaded(*each.feeds.values())
            continue
        got = np.asarray(loaded(*each.feeds.values()))
        np.testing.assert_allclose(got, each.want[0], 1e-5, 1e-6)


def test_missing_libraries_are_named(layer: Path, tmp_path: Path) -> None:
    for kept, said in (
        (("cudart",), "not found: cublas_v2.h with libcublas"),
        ((), "is 7 (needs 8"),
    ):
        root = cudnn_roots.standin(tmp_path / f"root{len(kept)}")
        if kept:
            (root / "lib" / "libcublas.so").unlink()
        else:
            (root / "include" / "cudnn_version.h").write_text("#define CUDNN_MAJOR 7\n")
        out = tmp_path / f"out{len(kept)}"
        command = ["cmake", "-S", layer / "bundle", "-B", out, f"-Dcudnn_ROOT={root}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        text = " ".join(done.stderr.split())
        assert done.returncode != 0 and said in text and "vendor cudnn" in text, text
        assert "-DAOT_CUDNN=OFF" in text


def test_refusals_say_why() -> None:
    rows = [("Conv", "x w", "c", {"pads": [0, 0, 1, 1]}), ("LeakyRelu", "c", "d")]
    rows += [("MatMul", "z d", "e"), ("Clip", "e low", "y")]
    consts = {"w": draw(6, 6, 3, 3), "low": np.float32(-1)}
    proto = model(rows, {"x": [2, 6, 9, 9], "z": [6, 3, 8]}, {"y": None}, consts)
    refused = " ".join(r.reason for r in merged.partition_of(proto, ("cudnn",)).refusals)
    for said in ("as much padding on both sides", "a common step", "need 0 and a number"):
        assert said in refused


def test_tensors_without_elements_are_refused() -> None:
    """Of a Concat, too, whose operands have no names of their own in the pattern."""
    rows = [("Concat", "x z", "y", {"axis": 0}), ("Softmax", "x", "s", {"axis": 1})]
    proto = model(rows, {"x": [0, 3], "z": [4, 3]}, {"y": None, "s": None})
    made = merged.partition_of(proto, ("cudnn",))
    assert not made.regions
    refused = " ".join(r.reason for r in made.refusals)
    assert "float32[0, 3] (needs float32, 1 to 2^29 elements)" in refused, refused


@FULL
@pytest.mark.parametrize("name", ["resnet50", "bert_tiny", "minilm_l3_v512"])
def test_networks_are_few_regions(
    name: str, models_folder: Path, library: dict[str, str], tmp_path: Path
) -> None:
    """What computes with indices, and the mask of tokens, stays outside."""
    stored = models_folder / f"{name}.onnx"
    path = stored if stored.is_file() else seeded(models_folder, name, tmp_path).path
    dims = ["--dim", "batch_size=1", "--dim", "sequence_length=64"]
    words, most = (dims, 12) if stored.is_file() else ([], 4)
    out = tmp_path / "out"
    made = compiled(out, path, library, *words)
    others = [r["kernel"] for r in made["nodes"] if r["backend"] == "c"]
    assert len(made["regions"]) == 1 and len(others) <= most, others
    assert aotc(["verify", str(out), "--reference", "ort", "-q"]) == 0


@FULL
def test_real_headers_compile(tmp_path: Path) -> None:
    """The vendor's C is clean under the warnings of bundles with the headers of wheels."""
    wheels = Path(os.environ.get("AOT_CUDA_WHEELS", "nowhere")) / "nvidia"
    if not wheels.is_dir():
        missing("the wheels of cuDNN and CUDA", "pip install --target, and AOT_CUDA_WHEELS")
    runtime = Path(__file__).parents[2] / "runtime_c" / "include"
    found = [f"-isystem{p}" for p in sorted(wheels.glob("*/include"))]
    warnings = "-pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror".split()
    assert backend.folder is not None
    source = str(backend.folder / "aot_cudnn.c")
    words = ["cc", "-std=c99", *warnings, "-Wno-deprecated-declarations", *found, f"-I{runtime}"]
    subprocess.run([*words, "-c", source, "-o", str(tmp_path / "made.o")], check=True)
