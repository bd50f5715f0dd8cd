# SPDX-License-Identifier: Apache-2.0
"""--threads: outputs do not depend on how many threads share a run, and no thread is left over."""

from __future__ import annotations

import ctypes as c
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import aot
from abi import loader as L, toy
from abi.loader import Library, aligned, dl
from aot.cli import main
from corpus_models import corpus, seeded
from graphs import model

FULL = bool(os.environ.get("AOT_FULL"))
MOST = 5
SHAPES = {"y": (1, 200), "z": (280, 72), "at": (8, 205, 47), "u": (40, 1927)}


def network() -> onnx.ModelProto:
    """Convolutions of every kernel of float32, and products by rows, columns and heads."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    shapes = {"w1": (40, 3, 5, 5), "w2": (40, 40, 3, 3), "w3": (40, 1, 3, 3), "w4": (72, 40, 1, 1)}
    shapes |= {"w5": (40, 20, 3, 3), "p": (72, 72), "d": (4032, 200)}
    pads = {"pads": [1, 1, 1, 1]}
    rows = [
        ("Conv", "x w1", "a", {"pads": [2, 2, 2, 2]}),
        ("Relu", "a", "b"),
        ("Conv", "b w2", "e", pads),
        ("Add", "e b", "f"),
        ("Conv", "f w3", "g", {**pads, "group": 40, "strides": [2, 2]}),
        ("Conv", "g w5", "h", {**pads, "group": 2}),
        ("Conv", "h w4", "i", {"strides": [3, 3]}),
        ("Reshape", "i one", "q"),
        ("MatMul", "q d", "y"),
        ("Reshape", "h heads", "j"),
        ("Transpose", "j", "t", {"perm": [0, 2, 1]}),
        ("MatMul", "j t", "k"),
        ("Sigmoid", "k", "l"),
        ("Reshape", "f eight", "q8"),
        ("Transpose", "q8", "t8", {"perm": [0, 2, 1]}),
        ("MatMul", "q8 t8", "sc"),
        ("Softmax", "sc", "sm"),
        ("MatMul", "sm q8", "at"),
        ("Mul", "f b", "fb"),
        ("Erf", "fb", "er"),
        ("MaxPool", "er", "mp", {"kernel_shape": [3, 3], **pads}),
        ("Reshape", "mp lines", "ml"),
        ("LayerNormalization", "ml scale", "ln"),
        ("Softmax", "ln", "u"),
        ("MatMul", "l j", "m"),
        ("Reshape", "m rows", "n"),
        ("MatMul", "n p", "z"),
    ]
    consts = {k: weights(*s) for k, s in shapes.items()}
    consts["scale"] = weights(1927, 1)[:, 0]
    for name, to in (
        ("heads", [8, 40, 63]),
        ("rows", [280, 72]),
        ("one", [1, 4032]),
        ("lines", [40, 1927]),
        ("eight", [8, 205, 47]),
    ):
        consts[name] = np.array(to, np.int64)
    return model(rows, {"x": [1, 3, 41, 47]}, SHAPES, consts)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> aot.Bundle:
    out = tmp_path_factory.mktemp("threads")
    return aot.compile(network(), out, name="net", threads=MOST, target="x86-64").build()


class Run:
    """A context of the built library, whose context holds a pool too."""

    def __init__(self, built: aot.Bundle, name: str = "net") -> None:
        self.lib = Library(built.out, name)
        self.ctx = c.create_string_buffer(4096)
        self.arena = aligned(self.lib.arena_bytes)
        assert self.lib.init(self.ctx, self.arena) == L.OK

    def threads(self) -> tuple[int, int]:
        count = c.c_int32(-1)
        status = self.lib.threads(self.ctx, c.byref(count))
        return int(status), count.value

    def outputs(self) -> bytes:
        x = np.random.default_rng(1).standard_normal((1, 3, 41, 47), np.float32)
        made = [np.zeros(s, np.float32) for s in SHAPES.values()]
        assert self.lib.run(self.ctx, [dl(x)], [dl(y) for y in made]) == L.OK
        assert all(y.std() > 0 for y in made)
        return b"".join(y.tobytes() for y in made)

    def made(self, threads: int) -> bytes:
        assert self.lib.set_threads(self.ctx, threads) == L.OK
        return self.outputs()


def test_outputs_do_not_depend_on_threads(built: aot.Bundle) -> None:
    kernels = {n["call"]: n["kernel"] for n in built.manifest["nodes"]}
    split = {kernels[s["call"]] for s in built.manifest["threads"]["calls"]}
    assert split >= {
        *("aot_conv_f32_plain", "aot_winograd_f32_blocked", "aot_dwconv_f32_blocked"),
        *("aot_conv_f32_blocked", "aot_gemm_f32", "aot_matmul_f32", "aot_attention_f32"),
        *("aot_mul_f32", "aot_erf_f32", "aot_maxpool_f32_blocked", "aot_layernorm_f32"),
        "aot_softmax_f32",
    }
    run = Run(built)
    assert run.threads() == (L.OK, MOST)
    one = run.made(1)
    assert [run.made(n) == one for n in (2, 3, MOST, 2)] == [True] * 4
    assert run.threads() == (L.OK, 2)
    run.lib.shutdown(run.ctx)


def test_wrong_numbers_of_threads(built: aot.Bundle) -> None:
    run = Run(built)
    assert run.lib.set_threads(None, 1) == L.NULL
    assert [run.lib.set_threads(run.ctx, n) for n in (0, -1, MOST + 1)] == [L.BAD_ARGS] * 3
    assert run.lib.threads(run.ctx, None) == L.NULL
    run.lib.shutdown(run.ctx)
    assert run.lib.set_threads(run.ctx, 1) == L.NOT_INIT


def test_threads_end_with_the_context(built: aot.Bundle) -> None:
    before = len(os.listdir("/proc/self/task"))
    run = Run(built)
    assert len(os.listdir("/proc/self/task")) == before + MOST - 1
    assert run.lib.set_threads(run.ctx, 2) == L.OK
    assert len(os.listdir("/proc/self/task")) == before + 1
    run.lib.shutdown(run.ctx)
    assert len(os.listdir("/proc/self/task")) == before


def test_threads_end_with_the_object_that_is_called(built: aot.Bundle) -> None:
    before = len(os.listdir("/proc/self/task"))
    net = built.load()
    assert len(os.listdir("/proc/self/task")) == before + MOST - 1
    if (child := os.fork()) == 0:  # which has none of the threads, and waits for none
        del net
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    del net
    assert len(os.listdir("/proc/self/task")) == before


def test_a_forked_process_has_no_threads_and_runs(built: aot.Bundle) -> None:
    run = Run(built)
    one = run.made(1)
    assert run.lib.set_threads(run.ctx, MOST) == L.OK
    if (child := os.fork()) == 0:
        os._exit(0 if run.outputs() == one else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.lib.shutdown(run.ctx)


def test_a_pool_that_cannot_start_leaves_one_thread(built: aot.Bundle) -> None:
    """Where pthread_create fails runs have one thread, and a status says so."""
    stop = built.out / "stop.c"
    stop.write_text(
        "#include <errno.h>\n#include <pthread.h>\n"
        "int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {\n"
        "    (void)t, (void)a, (void)f, (void)x;\n    return EAGAIN;\n}\n"
    )
    library = built.out / "libstop.so"
    toy.run("gcc", "-shared", "-fPIC", str(stop), "-o", str(library))
    runner = [str(built.out / "bin/net"), "--fill", "3", "--output", f"0={built.out / 'y.bin'}"]
    found = []
    for more in ({}, {"LD_PRELOAD": str(library)}):
        done = subprocess.run(
            runner, env={**os.environ, **more}, capture_output=True, text=True, check=True
        )
        found.append((done.stderr, (built.out / "y.bin").read_bytes()))
    assert found[0][0] == ""
    assert found[1] == ("net: threads could not be started: runs have one\n", found[0][1])


@pytest.mark.parametrize("value", ["0", "6", "two", "2x"])
def test_the_runner_refuses_a_wrong_number(built: aot.Bundle, value: str) -> None:
    runner = [str(built.out / "bin/net"), "--fill", "3"]
    env = {**os.environ, "AOT_THREADS": value}
    done = subprocess.run(runner, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"net: AOT_THREADS={value}: not an integer from 1 to {MOST}\n"


def test_an_own_parallel_for(built: aot.Bundle, tmp_path: Path) -> None:
    """The library then starts no threads, and its parts may be made in any order."""
    (tmp_path / "config.h").write_text(
        "#include <stdint.h>\n"
        "void my_for(int32_t count, void (*body)(void *, int32_t), void *data);\n"
        "#define aot_parallel_for(pool, count, body, data) \\\n"
        "    ((void)(pool), my_for(count, body, data))\n"
    )
    own = tmp_path / "own.c"
    own.write_text(
        '#include "config.h"\nint asked;\n'
        "void my_for(int32_t count, void (*body)(void *, int32_t), void *data) {\n"
        "    asked += 1;\n    while (count-- > 0)\n        body(data, count);\n}\n"
    )
    bundle = built.out / "bundle"
    parts = ("", "_run", "_arena", "_threads", "_weights")
    sources = [str(bundle / "src" / f"net{p}.c") for p in parts]
    (tmp_path / "lib").mkdir()
    toy.run(
        *("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-fno-strict-aliasing"),
        *("-I", str(bundle / "include"), "-I", str(tmp_path)),
        f'-DAOT_CONFIG="{tmp_path / "config.h"}"',
        *(*sources, str(own), "-lm", "-o", str(tmp_path / "lib/libnet.so")),
    )
    (tmp_path / "bundle").symlink_to(bundle)
    run = Run(aot.Bundle(tmp_path))
    assert "pthread_create" not in toy.run("nm", "-D", str(tmp_path / "lib/libnet.so"))
    one = run.made(1)
    assert run.made(MOST) == one and run.threads() == (L.OK, MOST)
    split = len(built.manifest["threads"]["calls"])
    assert c.c_int.in_dll(run.lib.c, "asked").value == 2 * split


def test_no_race(built: aot.Bundle, tmp_path: Path) -> None:
    """ThreadSanitizer finds none in the library, its pool and the runner."""
    flags = "-fsanitize=thread -O1 -g"
    toy.configure(built.out / "bundle", tmp_path / "o", cflags=flags)
    toy.run("cmake", "--build", str(tmp_path / "o"), "--target", "net-runner")
    runner = [str(tmp_path / "o/bin/net"), "--fill", "3", "--repeat", "3"]
    for threads in ("2", "5"):
        env = {**os.environ, "AOT_THREADS": threads, "TSAN_OPTIONS": "exitcode=66"}
        done = subprocess.run(runner, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "ThreadSanitizer" not in done.stderr, done.stderr[:3000]


#: Of the real models: every run makes those that are quick to build.
REAL: dict[str, tuple[str, ...]] = {"mlperf_ic_int8": ()}
MORE: dict[str, tuple[str, ...]] = {
    "mobilenetv2_int8": (),
    "silero_vad_16k_flat": (),
    "mlperf_vww_int8": (),
}
MORE |= {n: ("--accuracy", "strict") for n in ("minilm_l3_v512", "ultraface_rfb320", "resnet50")}


@pytest.mark.parametrize("name", REAL | MORE if FULL else REAL)
def test_bits_of_a_bundle_without_threads(
    name: str, models_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Integers, and floats with --accuracy strict: on random inputs, states handed on."""
    own = seeded if name == "resnet50" else corpus
    model = own(models_folder, name, tmp_path)
    found = set()
    for threads in ("", "1", "2", "3", "5"):
        out, env = tmp_path / ("many" if threads else "one"), {**os.environ, "AOT_THREADS": threads}
        if threads in ("", "1"):
            options = [
                *model.options(),
                *(REAL | MORE)[name],
                *(["--threads", "5"] if threads else []),
            ]
            assert main([str(model.path), "-o", str(out), "-q", "--name", "net", *options]) == 0
            toy.run("cmake", "--build", str(out), "--target", "net-runner")
        manifest = json.loads((out / "bundle/manifest.json").read_text())
        files = [out / f"{i}.bin" for i in range(len(manifest["outputs"]))]
        command = [str(out / "bin/net"), "--fill", "3", "--warmup", "2", "--repeat", "1"]
        for i, file in enumerate(files):
            command += ["--output", f"{i}={file}"]
        toy.run(*command, env=env)
        found.add(b"".join(f.read_bytes() for f in files))
    assert len(found) == 1 and capfd.readouterr().err == ""


@pytest.mark.parametrize("target", ["x86-64", "host"])
def test_dynamic_convolutions_are_shared_by_rows(target: str, tmp_path: Path) -> None:
    """Sums of integers, in parts, are those of onnxruntime."""
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.integers(0, 256, (40, 24, 3, 3), np.uint8),
        "d": rng.integers(0, 256, (24, 1, 3, 3), np.uint8),
        "wz": np.array(130, np.uint8),
    }
    rows = [
        ("ConvInteger", "x w xz wz", "y", {"pads": [1, 1, 1, 1], "strides": [1, 2]}),
        ("ConvInteger", "x d xz wz", "z", {"pads": [1, 1, 1, 1], "group": 24}),
    ]
    shape, numbers = [2, 24, 40, 37], onnx.TensorProto
    kinds = {n: numbers.INT32 for n in "yz"} | {n: numbers.UINT8 for n in ("x", "xz")}
    made = {"y": [2, 40, 40, 19], "z": shape}
    proto = model(rows, {"x": shape, "xz": []}, made, weights, kinds)
    bundle = aot.compile(proto, tmp_path, name="net", threads=3, target=target)
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    shared = {kernels[s["call"]] for s in bundle.manifest["threads"]["calls"]}
    assert {k for k in kernels if "convinteger" in k} <= shared
    fed = {"x": rng.integers(0, 256, shape, np.uint8), "xz": np.array(77, np.uint8)}
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(bundle.load()(*fed.values()), session.run(None, fed), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)
