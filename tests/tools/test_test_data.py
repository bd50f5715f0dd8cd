# SPDX-License-Identifier: Apache-2.0
"""`--test-data`: vectors compiled into a self-test of the runner or the board's image."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import aot
from aot.cli import main
from aot.errors import AotError
from graphs import model
from targets.images import need_tools

SHAPE = (2, 5)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A model with float and integer inputs and outputs, and three samples of it."""
    nodes = [
        ("Exp", "x", "y"),
        ("Add", "k k", "n"),
        ("Cast", "y", "h", {"to": TensorProto.FLOAT16}),
    ]
    kinds = {"k": TensorProto.INT64, "n": TensorProto.INT64, "h": TensorProto.FLOAT16}
    proto = model(nodes, {"x": SHAPE, "k": (3,)}, {"y": SHAPE, "n": (3,), "h": SHAPE}, {}, kinds)
    onnx.save(proto, str(tmp_path / "net.onnx"))
    rng = np.random.default_rng(0)
    samples: dict[str, np.ndarray] = {}
    for k in range(3):
        x = rng.uniform(-9, 9, SHAPE).astype(np.float32)
        ints = rng.integers(-9, 9, 3)
        samples |= {f"s{k}/x": x, f"s{k}/k": ints, f"s{k}/y": np.exp(x)}
        if k:
            samples |= {f"s{k}/n": 2 * ints, f"s{k}/h": np.exp(x).astype(np.float16)}
    np.savez(tmp_path / "data.npz", **samples)
    return tmp_path / "net.onnx", tmp_path / "data.npz"


def self_test(source: Path, data: Path, out: Path, target: str) -> subprocess.CompletedProcess[str]:
    bundle = aot.compile(source, out, target=target, test_data=str(data)).build()
    command = [str(out / "bin" / "net")]
    if target != "host":
        emulator = bundle.manifest["target"]["emulator"]
        command = [*emulator, "-icount", "shift=0", "-nographic", "-monitor", "none", "-serial"]
        command += ["none", "-semihosting-config", "enable=on,target=native", "-kernel"]
        command += [str(out / "bin" / "net.elf")]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
    )


@pytest.mark.parametrize("target", ["host", "cortex-m4", "cortex-m0"])
def test_the_self_test(
    target: str, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if target != "host":
        need_tools(target)
    done = self_test(*files, tmp_path / "o", target)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "self-test passed, samples " + "3" in said
    manifest = json.loads((tmp_path / "o/bundle/manifest.json").read_text())
    assert manifest["test_data"] == {"samples": 3, "bytes": 3 * (40 + 24 + 40) + 2 * (24 + 20)}
    assert main(["verify", str(tmp_path / "o")]) == 0  # on the same samples
    said = capsys.readouterr().out
    assert "s2/y: max abs" in said and "s2/h (stored)" in said


@pytest.mark.parametrize(
    "key, change, says",
    [
        ("s1/n", lambda a: a + np.array([0, 1, 0]), (1, 1, 1)),
        ("s2/y", lambda a: a * np.float32(1.01), (2, 0, 3)),
        (
            "s2/h",
            lambda a: np.where(np.arange(10).reshape(SHAPE) == 7, np.float16(3e4), a),
            (2, 2, 7),
        ),
    ],
)
@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_a_difference_is_found(
    target: str,
    key: str,
    change,
    says: tuple[int, int, int],
    files: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    if target != "host":
        need_tools(target)
    data = dict(np.load(files[1]))
    data[key] = change(data[key]).astype(data[key].dtype)
    np.savez(files[1], **data)
    done = self_test(*files, tmp_path / "o", target)
    assert done.returncode == 1
    expected = "sample {}, output {} differs at element {}".format(*says)
    assert expected in done.stdout + done.stderr


#: Every kind of number: none, both zeros, the smallest ones, infinities, small and large ones.
ODD = np.array([np.nan, 0, -0.0, 6e-8, -6e-8, np.inf, -np.inf, 1.5, -3e4, 1e38], np.float32)


def odd_net(folder: Path, **changed: np.ndarray) -> subprocess.CompletedProcess[str]:
    """The self-test of casts of ODD to every real type; `changed` are other expected outputs."""
    kinds = {"h": TensorProto.FLOAT16, "b": TensorProto.BFLOAT16, "d": TensorProto.DOUBLE}
    nodes = [("Cast", "x", n, {"to": kind}) for n, kind in kinds.items()] + [("Neg", "x", "y")]
    ends = dict.fromkeys([*kinds, "y"], ODD.shape)
    with np.errstate(over="ignore"):
        bits = ODD.view(np.uint32).astype(np.uint64)  # 1e38 is the only one to round
        brain = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
        wanted = {"h": ODD.astype(np.float16), "b": brain, "d": ODD.astype(np.float64), "y": -ODD}
    samples = {f"s0/{n}": a for n, a in (wanted | changed).items()}
    np.savez(folder / "data.npz", **samples, **{"s0/x": ODD})
    onnx.save(model(nodes, {"x": ODD.shape}, ends, {}, kinds), str(folder / "net.onnx"))
    return self_test(folder / "net.onnx", folder / "data.npz", folder / "o", "host")


def test_numbers_of_every_kind(tmp_path: Path) -> None:
    """NaN is any NaN, zero any zero; of what the reference has, infinity is only infinity."""
    same = (-ODD).view(np.uint32)
    same[:2] = 0x7FC12345, 0
    done = odd_net(tmp_path, y=same.view(np.float32))
    assert done.returncode == 0, done.stderr
    with open("/dev/full", "w") as full:
        assert subprocess.run([str(tmp_path / "o/bin/net")], stdout=full).returncode == 1
    wrong_infinity, wrong_nan = -ODD, -ODD
    wrong_infinity[9], wrong_nan[7] = -np.inf, np.nan
    for y, place in ((wrong_infinity, 9), (wrong_nan, 7)):
        done = odd_net(tmp_path, y=y)
        assert done.returncode == 1
        assert f"sample 0, output 3 differs at element {place}" in done.stderr


def test_bad_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    data = dict(np.load(files[1]))
    for key, value, says in (
        ("s0/x", np.zeros((2, 4), np.float32), r"input 'x': float32\[2, 4\]"),
        ("s1/n", np.zeros(3, np.int32), r"output 'n': int32\[3\] \(needs int64\[3\]\)"),
    ):
        np.savez(tmp_path / "bad.npz", **{**data, key: value})
        with pytest.raises(AotError, match=says):
            aot.compile(
                files[0], tmp_path / "o", test_data=str(tmp_path / "bad.npz"), configure=False
            )
    with pytest.raises(AotError, match=r"nothing\.npz"):
        aot.compile(files[0], tmp_path / "o", test_data="nothing.npz", configure=False)
    del data["s0/k"]
    np.savez(tmp_path / "bad.npz", **data)
    with pytest.raises(AotError, match="input 'k' is missing"):
        aot.compile(files[0], tmp_path / "o", test_data=str(tmp_path / "bad.npz"), configure=False)
    assert not (tmp_path / "o").exists()
