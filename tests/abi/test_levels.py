# SPDX-License-Identifier: Apache-2.0
"""Libraries for several levels of a CPU: each level computes what a library of its own computes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import aot
from aot.cli import main
from aot.errors import AotError
from aot.target import load_target, machine
from graphs import model
from needs import need

LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4-vnni")
FAT = "x86-64:base,v3,v4-vnni"
QEMU = ("qemu-x86_64", "-cpu")

pytestmark = pytest.mark.skipif(machine() != "x86_64", reason="levels of x86-64 run on x86-64")


def network(width: int = 40) -> onnx.ModelProto:
    """A convolution, a state, a dimension of the run, and a result whose length the data say."""
    rng = np.random.default_rng(3)
    rows = [
        ("Conv", "x w", "a", {"pads": [1, 1, 1, 1]}),
        ("Relu", "a", "b"),
        ("ReduceMean", "b", "c", {"axes": [2, 3], "keepdims": 0}),
        ("ReduceSum", "c zero", "d"),
        ("Add", "d before", "sum"),
        ("MatMul", "c v", "y"),
        ("NonZero", "y", "where"),
    ]
    consts = {
        "w": rng.standard_normal((24, 3, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((24, width)).astype(np.float32),
        "zero": np.array([0], np.int64),
    }
    inputs = {"x": ["n", 3, 12, 12], "before": [1, 24]}
    outputs = {"y": ["n", width], "sum": [1, 24], "where": [2, "k"]}
    return model(rows, inputs, outputs, consts, {"where": TensorProto.INT64}, opset=13)


def eight_bits() -> onnx.ModelProto:
    """A quantised convolution, whose kernels have nothing in common at the levels."""
    rng = np.random.default_rng(5)
    consts = {
        "s": np.array(0.02, np.float32),
        "z": np.array(3, np.uint8),
        "ws": np.array(0.01, np.float32),
        "wz": np.array(0, np.int8),
        "w": rng.integers(-90, 90, (40, 16, 3, 3)).astype(np.int8),
    }
    row = ("QLinearConv", "x s z w ws wz s z", "y", {"pads": [1, 1, 1, 1]})
    kinds = {"x": TensorProto.UINT8, "y": TensorProto.UINT8}
    return model([row], {"x": [1, 16, 9, 9]}, {"y": [1, 40, 9, 9]}, consts, kinds)


def compiled(out: Path, source: onnx.ModelProto, target: str = FAT, **options: Any) -> aot.Bundle:
    return aot.compile(source, out, name="net", target=target, **options).build()


def outputs(out: Path, level: str, *before: str, seed: int = 1) -> list[bytes]:
    """The bytes that bin/net writes at `level`."""
    names = [f"o{i}.bin" for i in range(2)]
    words = [*before, str(out / "bin" / "net"), "--fill", str(seed)]
    for i, name in enumerate(names[: len(list_outputs(out))]):
        words += ["--output", f"{i}={name}"]
    done = run(words, out, level)
    assert done.returncode == 0, done.stderr
    return [(out / n).read_bytes() for n in names[: len(list_outputs(out))]]


def list_outputs(out: Path) -> list[dict[str, Any]]:
    return list(json.loads((out / "bundle" / "manifest.json").read_text())["outputs"])


def run(words: list[str], out: Path, level: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AOT_LEVEL": level}
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=out, env=env)


def runnable(levels: tuple[str, ...]) -> list[str]:
    return [level for level in levels if load_target(level).runs_here()]


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> aot.Bundle:
    out = tmp_path_factory.mktemp("levels")
    options: dict[str, Any] = {"dims": {"n": (1, 3)}, "states": {"before": "sum"}}
    return compiled(out, network(), **options)


def test_every_level_is_the_library_of_its_target(fat: aot.Bundle, tmp_path: Path) -> None:
    made = {level: outputs(fat.out, level) for level in runnable(LEVELS)}
    for level, found in made.items():
        alone = tmp_path / level
        options: dict[str, Any] = {"dims": {"n": (1, 3)}, "states": {"before": "sum"}}
        compiled(alone, network(), level, **options)
        assert found == outputs(alone, "")
    best = list(made)[-1]
    assert outputs(fat.out, "") == made[best]


def test_python_and_verify(fat: aot.Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 12, 12), np.float32)
    y, where = fat.load()(x)
    assert y.shape == (2, 40)
    np.testing.assert_array_equal(where, np.array(np.nonzero(y)))
    onnx.save(network(), fat.out / "net.onnx")
    assert main(["verify", str(fat.out), "--model", str(fat.out / "net.onnx")]) == 0
    text = capsys.readouterr().out
    for level in LEVELS[1:]:
        assert f"y of level {level} beside x86-64: " in text or f"level {level} is not" in text


def test_integers_have_the_same_bits(tmp_path: Path) -> None:
    built = compiled(tmp_path, eight_bits())
    made = [outputs(tmp_path, level) for level in runnable(LEVELS)]
    assert all(m == made[0] for m in made)
    kernels = [level["kernels"] for level in built.manifest["levels"]]
    assert kernels[0] != kernels[-1]
    size = subprocess.run(["nm", tmp_path / "lib/libnet.a"], capture_output=True, text=True)
    assert all(f"net_at_{v}_execute" in size.stdout for v in ("x86_64_v3", "x86_64_v4_vnni"))


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"dims": {"n": 1}, "accuracy": "strict", "configure": False}
    alone = aot.compile(network(400), tmp_path / "a", target="x86-64-v2", **options)
    one = aot.compile(network(400), tmp_path / "b", target="x86-64:v2,v3,v4", **options)
    first, *others = [v["own_constants_bytes"] for v in one.manifest["levels"]]
    assert first > 40_000
    assert all(0 <= n < 256 for n in others)  # tables in the source
    stored = [b.manifest["memory"]["constants_bytes"] for b in (alone, one)]
    assert stored[0] <= stored[1] < stored[0] + 512


def test_a_cpu_gets_the_last_level_that_it_has(fat: aot.Bundle) -> None:
    need("qemu-x86_64", "apt-get install qemu-user")
    wanted = {"Nehalem": "x86-64", "Haswell": "x86-64-v3"}
    for cpu, level in wanted.items():
        assert outputs(fat.out, "", *QEMU, cpu) == outputs(fat.out, level)
    words = [*QEMU, "Nehalem", str(fat.out / "bin" / "net"), "--fill", "1"]
    refused = run(words, fat.out, "x86-64-v3")
    assert refused.returncode == 1
    assert refused.stderr.endswith("the CPU lacks a unit that the library was built for\n")


def test_a_wrong_level_is_named(fat: aot.Bundle) -> None:
    done = run([str(fat.out / "bin" / "net"), "--fill", "1"], fat.out, "v9")
    text = "net: AOT_LEVEL=v9: none of x86-64 x86-64-v3 x86-64-v4-vnni\n"
    assert (done.returncode, done.stderr) == (2, text)


def test_levels_of_arm(tmp_path: Path) -> None:
    need("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")
    need("qemu-aarch64", "apt-get install qemu-user")
    compiled(tmp_path, eight_bits(), "aarch64:base,dotprod,i8mm,bf16")
    arm = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu")
    plain = outputs(tmp_path, "aarch64-linux", *arm, "cortex-a53")
    assert outputs(tmp_path, "", *arm, "max") == plain == outputs(tmp_path, "", *arm, "cortex-a53")
    for level in ("aarch64-dotprod", "aarch64-bf16"):
        words = [*arm, "cortex-a53", str(tmp_path / "bin/net"), "--fill", "1"]
        assert run(words, tmp_path, level).returncode == 1


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("x86-64:v2,v9", "no level 'v9'"),
        ("x86-64:v2,v2", "level 'v2' comes twice"),
        ("x86-64:", "no level ''"),
        ("x86-64:v4-vnni,v3-vnni,v4", "level 'v4-vnni' would never be taken"),
        ("cortex-m4:v2", "'cortex-m4' has no levels"),
    ],
)
def test_wrong_lists(target: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AotError, match=said):
        aot.compile(eight_bits(), tmp_path, target=target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options",
    [{"io": "arena"}, {"slice_macs": 9}, {"weights": "blob"}, {"package": "make"},
     {"single_file": True}, {"backends": ["dnnl"]}],
)  # fmt: skip
def test_options_of_one_level(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AotError, match=f"--target {FAT} with --") as caught:
        aot.compile(eight_bits(), tmp_path, target=FAT, **options)
    assert "--target x86-64-v4-vnni" in str(caught.value)


def test_link_takes_one_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        aot.compile(eight_bits(), tmp_path / name, name=name, target=FAT, configure=False)
    assert main(["link", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "c")]) == 1
    assert "is for several levels of the CPU" in capsys.readouterr().err
