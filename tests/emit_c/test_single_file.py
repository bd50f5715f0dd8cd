# SPDX-License-Identifier: Apache-2.0
"""`--single-file`: one C file that computes the bits of the bundle, and its refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main as aotc
from aot.target import load_target
from graphs import model
from needs import need

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
#: As a careful project compiles it.
STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off -O1 -fPIC -shared".split()


def looped() -> onnx.ModelProto:
    """A Loop whose trip count the run decides: bodies have functions of their own."""
    body = model(
        [("Add", "x w", "s"), ("Identity", "go", "more")],
        {"i": None, "go": None, "x": [4]},
        {"more": None, "s": None},
    ).graph
    kinds = {
        "i": onnx.TensorProto.INT64,
        "go": onnx.TensorProto.BOOL,
        "more": onnx.TensorProto.BOOL,
    }
    for info in (*body.input, *body.output):
        if info.name in kinds:
            info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, kinds[info.name], []))
    node = onnx.helper.make_node("Loop", ["n", "", "a"], ["y"], body=body)
    infos = [
        onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, []),
        onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [4]),
    ]
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    w = onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    graph = onnx.helper.make_graph([node], "loop", infos, [out], [w])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])


def images() -> onnx.ModelProto:
    """Convolutions that `--objective ram` makes row by row: a second source with kernels."""
    rng = np.random.default_rng(2)
    consts = {k: rng.standard_normal((8, 8, 3, 3)).astype(np.float32) for k in ("v", "w")}
    pads = {"pads": [1] * 4}
    rows = [("Conv", "a v", "m", pads), ("Relu", "m", "n"), ("Conv", "n w", "y", pads)]
    return model(rows, {"a": [1, 8, 12, 12]}, {"y": None}, consts)


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (looped, []),
        (images, ["--objective", "ram", "--target", "host"]),
        (images, ["--slice-macs", "20K", "--io", "arena"]),
    ],
)
def test_one_file_gives_the_bits_of_the_bundle(
    made: object, options: list[str], tmp_path: Path
) -> None:
    assert callable(made)
    proto = made()
    onnx.save(proto, tmp_path / "net.onnx")
    words = [str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out"), "--single-file", *options]
    assert aotc([*words, "--accuracy", "strict", "-q"]) == 0
    subprocess.run(["cmake", "--build", tmp_path / "out"], check=True, capture_output=True)
    rng = np.random.default_rng(1)
    feeds = [
        np.int64(3) if i.name == "n" else rng.standard_normal(shape_of(i)).astype(np.float32)
        for i in proto.graph.input
    ]
    wanted = run(tmp_path / "out", feeds)
    single = tmp_path / "out" / "bundle" / "single"
    assert {p.name for p in single.iterdir()} == {"net.c", "net.h"}
    alone = tmp_path / "alone"  # nothing else of the bundle is needed
    shutil.copytree(single, alone)
    flags = load_target("host").cflags
    library = tmp_path / "out" / "lib" / "libnet.so"
    library.unlink()
    command = ["gcc", *STRICT, *flags, "-o", str(library), str(alone / "net.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    for a, b in zip(wanted, run(tmp_path / "out", feeds), strict=True):
        np.testing.assert_array_equal(a, b)


#: Compilers and what they are told; the last two are without GNU's extensions, one with IAR's name.
PORTABLE = {
    "gcc": ("-pedantic", "-Wall", "-Wextra", "-Werror"),
    "clang": ("-pedantic", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"),
    "tcc": ("-Wall",),
    "gcc plain": ("-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-U__GNUC__"),
    "gcc iar": (
        "-pedantic",
        "-Wall",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-U__GNUC__",
        "-D__ICCARM__",
    ),
}
ANSWER = """
#include <stdio.h>
#include "net.h"
static unsigned char room[NET_ARENA_BYTES + NET_ARENA_ALIGN];
int main(void) {
    net_context context;
    float image[64], chances[10];
    int i;
    uintptr_t place = (uintptr_t)room;
    place += (NET_ARENA_ALIGN - place % NET_ARENA_ALIGN) % NET_ARENA_ALIGN;
    if (net_init(&context, (void *)place, NET_ARENA_BYTES) != AOT_OK) { return 1; }
    for (i = 0; i < 64; ++i) { image[i] = (float)(i * 37 % 17) / 16.0F; }
    if (net_quantize_input(0, image, net_input(&context, 0)) != AOT_OK) { return 2; }
    if (net_run(&context, NULL, NULL) != AOT_OK) { return 3; }
    if (net_dequantize_output(0, net_output(&context, 0), chances) != AOT_OK) { return 4; }
    for (i = 0; i < 10; ++i) { printf("%.8f\\n", (double)chances[i]); }
    return 0;
}
"""


def test_compilers_agree(tmp_path: Path) -> None:
    """Code without vectors needs nothing beyond C99: what is GNU's has a plain fallback."""
    words = [
        str(DIGITS / "digits_int8.onnx"),
        "-o",
        str(tmp_path),
        "--name",
        "net",
        "--single-file",
    ]
    assert aotc([*words, "--target", "rv32imac", "--no-configure", "-q"]) == 0
    (tmp_path / "main.c").write_text(ANSWER)
    single = tmp_path / "bundle" / "single"
    answers = set()
    for name, flags in PORTABLE.items():
        compiler = need(name.split()[0])
        made = [str(tmp_path / "net.o"), str(tmp_path / "main")]
        command = [compiler, "-std=c99", *flags, "-O1", "-c", str(single / "net.c"), "-o", made[0]]
        subprocess.run(command, check=True)
        command = [need("gcc"), f"-I{single}", str(tmp_path / "main.c"), made[0], "-o", made[1]]
        subprocess.run(command, check=True)
        done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
        answers.add(done.stdout)
    assert len(answers) == 1
    assert abs(sum(map(float, answers.pop().split())) - 1) < 0.05


def shape_of(info: onnx.ValueInfoProto) -> list[int]:
    """The shape that a declaration says."""
    return [d.dim_value for d in info.type.tensor_type.shape.dim]


def run(out: Path, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of the library in `out`, by a process that loads it anew."""
    np.savez(out / "in.npz", *feeds)
    code = (
        "import sys, numpy as np, aot\n"
        "with np.load(sys.argv[1] + '/in.npz') as f: feeds = [f[k] for k in f.files]\n"
        "made = aot.Bundle(sys.argv[1]).load().run(*feeds)\n"
        "np.savez(sys.argv[1] + '/out.npz', *made.values())\n"
    )
    subprocess.run([sys.executable, "-c", code, str(out)], check=True)
    with np.load(out / "out.npz") as found:
        return [found[k] for k in found.files]


def test_the_header_declares_all_and_the_manifest_lists_both(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [str(DIGITS / "digits.onnx"), "-o", str(out), "--single-file", "-q", "--no-configure"]
    assert aotc([*words, "--target", "cortex-m4"]) == 0
    paths = {
        s["path"] for s in json.loads((out / "bundle" / "manifest.json").read_text())["sources"]
    }
    assert {"single/digits.c", "single/digits.h"} <= paths
    user = tmp_path / "user.cpp"
    user.write_text(
        '#include "digits.h"\nint f(digits_context *c) { return digits_init(c, 0, 0); }\n'
    )
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", f"-I{out}/bundle/single"]
    subprocess.run([*command, str(user)], check=True)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--backend", "accel_sim"], "the regions of accel_sim have sources of their own"),
        (["--weights", "blob"], "--weights blob keeps the constants in another file"),
    ],
)
def test_what_is_no_single_file_is_refused(
    options: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(DIGITS / "digits.onnx"), "-o", str(tmp_path / "out"), "--single-file", *options]
    assert aotc([*words, "--no-configure"]) != 0
    assert f"--single-file: {what}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_python_takes_it(tmp_path: Path) -> None:
    bundle = aot.compile(DIGITS / "digits.onnx", tmp_path / "out", single_file=True)
    assert (bundle.out / "bundle" / "single" / "digits.c").is_file()
