# SPDX-License-Identifier: Apache-2.0
"""Equal input gives equal bytes wherever aotc runs; with `--accuracy strict` equal results, too."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aot
from graphs import model
from needs import need

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def network():
    """Convolutions, a residual, a normalisation, attention's Softmax, transcendentals, an LSTM."""
    rows = [
        ("Conv", "x w b", "c", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("BatchNormalization", "c g h m v", "n"),
        ("Sigmoid", "n", "s"),
        ("Mul", "n s", "a"),
        ("Conv", "a w1 b", "d", {"pads": [1, 1, 1, 1]}),
        ("Add", "a d", "e"),
        ("GlobalAveragePool", "e", "p"),
        ("Reshape", "e shape", "r"),
        ("LayerNormalization", "r lg", "l"),
        ("MatMul", "l q", "k"),
        ("Softmax", "k", "t", {"axis": -1}),
        ("Erf", "t", "u"),
        ("Exp", "u", "o"),
        ("LSTM", "o lw lr", "ly lh", {"hidden_size": 4}),
        ("Tanh", "lh", "y"),
        ("ReduceMean", "p", "z"),
        ("Gemm", "flat gw", "gy"),
    ]
    consts = {
        "w": f32(8, 3, 3, 3),
        "w1": f32(8, 8, 3, 3),
        "b": f32(8),
        **{k: np.abs(f32(8)) + np.float32(0.5) for k in "ghmv"},
        "shape": np.array([6, 6, 8]),
        "lg": f32(8),
        "q": f32(8, 5),
        "lw": f32(1, 16, 5),
        "lr": f32(1, 16, 4),
        "gw": f32(33, 7),
    }
    ends = {"y": [1, 6, 4], "z": [1, 1, 1, 1], "gy": [5, 7]}
    return model(rows, {"x": [1, 3, 12, 12], "flat": [5, 33]}, ends, consts)


def digest(out: Path) -> str:
    found = hashlib.sha256()
    for path in sorted((out / "bundle").rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(out)).encode() + path.read_bytes())
    return found.hexdigest()


SURROUNDINGS = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8", "HOME": "/"},
    {"PYTHONHASHSEED": "424242", "TZ": "America/St_Johns", "LANG": "tr_TR.UTF-8", "COLUMNS": "40"},
    {"PYTHONHASHSEED": "7", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "SOURCE_DATE_EPOCH": "1"},
]


@pytest.mark.parametrize("options", [[], ["--target", "cortex-m4", "--accuracy", "strict"]])
def test_same_bytes_everywhere(options: list[str], tmp_path: Path) -> None:
    """Hash seeds, time zones, locales, working folders, how the model is named on the line."""
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString())
    digests = set()
    for i, more in enumerate(SURROUNDINGS):
        folder = tmp_path / f"some where {i}"
        folder.mkdir()
        named = str(path) if i % 2 else os.path.relpath(path, folder)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
        env |= {"PYTHONPATH": str(ROOT), **more}
        words = [sys.executable, "-m", "aot", named, "-o", f"out{i}", "--no-configure", *options]
        subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)
        digests.add(digest(folder / f"out{i}"))
    assert len(digests) == 1


def test_strict_gives_the_same_bits_on_every_compiler_and_level(tmp_path: Path) -> None:
    bundle = aot.compile(
        network(), tmp_path / "out", name="net", accuracy="strict", configure=False
    )
    feeds = [f32(1, 3, 12, 12), f32(5, 33)]
    given = []
    for i, x in enumerate(feeds):
        x.tofile(tmp_path / f"{i}.bin")
        given += ["--input", f"{i}={tmp_path / f'{i}.bin'}"]
    results: dict[str, list[bytes]] = {}
    for compiler in ("gcc", "clang"):
        need(compiler)
        for level in ("-O0", "-O2"):
            build = tmp_path / f"{compiler}{level}"
            env = {**os.environ, "CC": compiler, "CFLAGS": level}
            source = str(bundle.out / "bundle")
            configure = ["cmake", "-S", source, "-B", str(build), "-DCMAKE_BUILD_TYPE=None"]
            subprocess.run([*configure, "-DAOT_BUILD_SHARED=OFF"], env=env, check=True)
            subprocess.run(["cmake", "--build", str(build)], check=True)
            outs = [build / f"o{i}" for i in range(3)]
            wanted = [w for i, o in enumerate(outs) for w in ("--output", f"{i}={o}")]
            subprocess.run([str(build / "bin/net"), *given, *wanted], check=True)
            results[f"{compiler} {level}"] = [o.read_bytes() for o in outs]
    first = next(iter(results.values()))
    assert all(len(o) > 0 for o in first)
    different = [k for k, v in results.items() if v != first]
    assert not different
