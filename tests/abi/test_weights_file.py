# SPDX-License-Identifier: Apache-2.0
"""`--weights file`: constants in a file beside the library, which NAME_init maps."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import loader as L
from abi.loader import Library, aligned, dl
from abi.test_weights import STRICT, WEIGHTS, X, close, net
from aot.cli import compile as command, main
from aot.errors import UnsupportedError
from needs import need


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    return aot.compile(net(), folder, name="net", weights="file").build().out


@pytest.fixture
def copy(out: Path, tmp_path: Path) -> Path:
    """Library, manifest and a file of its own to damage."""
    (tmp_path / "lib").mkdir()
    for name in ("libnet.so", "net.weights"):
        shutil.copy(out / "lib" / name, tmp_path / "lib" / name)
    shutil.copytree(out / "bundle", tmp_path / "bundle")
    return tmp_path


def status_of(folder: Path) -> int:
    """What init returns; the context stays unused after an error, and shutdown takes it."""
    lib = Library(folder, "net")
    ctx, arena = lib.context(), aligned(lib.arena_bytes)
    status = lib.init(ctx, arena)
    y = np.zeros((4, 3), np.float32)
    ran = lib.run(ctx, [dl(X)], [dl(y)])
    assert (ran == L.OK and close(y)) if status == L.OK else ran == L.NOT_INIT
    lib.shutdown(ctx)
    return int(status)


def test_it_is_one_file_that_the_library_maps(out: Path) -> None:
    beside, kept = out / "lib" / "net.weights", out / "bundle" / "net.weights"
    assert beside.samefile(kept), "a second copy of the constants"
    assert status_of(out) == L.OK
    size = kept.stat().st_size
    assert json.loads((out / "bundle/manifest.json").read_text())["weights"] == {
        "file": "net.weights",
        "bytes": size,
        "mapped": True,
    }
    raw = sum(w.nbytes for w in WEIGHTS.values())
    built = [p for p in (*(out / "lib").iterdir(), *(out / "bin").iterdir()) if p != beside]
    assert size > raw and all(WEIGHTS["w"].tobytes() not in p.read_bytes() for p in built)


def test_the_runner_and_the_static_entry_find_it(out: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X)
    files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "o.npz")]
    assert main(["run", str(out), *files]) == 0
    assert close(np.load(tmp_path / "o.npz")["y"])
    assert close(np.asarray(aot.Bundle(out).load()(X)))


def test_a_file_that_does_not_fit_is_a_status(copy: Path) -> None:
    path = copy / "lib" / "net.weights"
    whole = path.read_bytes()
    for at in (0, 4, 8, 12, 16, 64, len(whole) - 1):  # magic, ABI, identity, CRC, size, constants
        wrong = bytearray(whole)
        wrong[at] ^= 1
        path.write_bytes(bytes(wrong))
        assert status_of(copy) == L.BAD_WEIGHTS, at
    for cut in (whole[:-1], whole + b"x", whole[:64], whole[:3], b""):
        path.write_bytes(cut)
        assert status_of(copy) == L.BAD_WEIGHTS, len(cut)
    path.unlink()
    assert status_of(copy) == L.NO_WEIGHTS
    path.mkdir()
    assert status_of(copy) == L.BAD_WEIGHTS
    path.rmdir()
    path.write_bytes(whole)
    assert status_of(copy) == L.OK


def test_weights_trained_again_fit_and_another_model_s_do_not(copy: Path, tmp_path: Path) -> None:
    path = copy / "lib" / "net.weights"
    other = {"w": np.ones((6, 50), np.float32), "v": np.ones((50, 3), np.float32)}
    for weights, want in ((other, L.BAD_WEIGHTS), (dict(WEIGHTS), L.OK)):
        aot.compile(net(weights), tmp_path / "o", name="net", weights="file", configure=False)
        shutil.copy(tmp_path / "o" / "bundle" / "net.weights", path)
        assert status_of(copy) == want


def test_install_and_a_program_of_its_own(out: Path, tmp_path: Path) -> None:
    subprocess.run([need("cmake"), "--install", out, "--prefix", tmp_path], check=True)
    lib = next(p.parent for p in tmp_path.rglob("libnet.a"))
    assert (lib / "net.weights").is_file()
    (tmp_path / "bin").mkdir()
    source, program = out / "bundle" / "example_main.c", tmp_path / "bin" / "app"
    for flags in (["-O1"], ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]):
        words = [need("gcc"), *flags, f"-I{tmp_path}/include", source, lib / "libnet.a"]
        subprocess.run([*words, "-lm", "-ldl", "-o", program], check=True)
        done = subprocess.run([program], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "net: ok\n")
    (lib / "net.weights").unlink()
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode != 0 and "weights" in done.stdout + done.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_source_is_clean(out: Path, tmp_path: Path, compiler: str) -> None:
    folders = [f"-I{out / 'bundle' / part}" for part in ("include", "src")]
    words = [need(compiler), "-std=c99", *STRICT.split(), "-DAOT_VLEN=1", *folders, "-c"]
    source = out / "bundle" / "src" / "net_mapped.c"
    subprocess.run([*words, source, "-o", tmp_path / "mapped.o"], check=True)


def test_boards_and_vendors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="a board has no files"):
        aot.compile(net(), tmp_path, name="net", weights="file", target="cortex-m4")
    if "cblas" in aot.vendor.find.available():
        with pytest.raises(UnsupportedError, match="--weights file with --backend cblas"):
            aot.compile(net(), tmp_path, name="net", weights="file", backends=["cblas"])


def test_a_note_offers_it_for_many_constants(tmp_path, capsys, monkeypatch) -> None:
    import onnx

    onnx.save(net(), tmp_path / "net.onnx")
    words = [str(tmp_path / "net.onnx"), "-o", str(tmp_path / "o"), "--no-configure"]
    assert main(words) == 0
    assert "--weights file" not in capsys.readouterr().err
    monkeypatch.setattr(command, "MANY_BYTES", 1000)
    assert main(words) == 0
    assert "--weights file keeps them" in capsys.readouterr().err
    assert main([*words, "--weights", "file"]) == 0
    assert "note" not in capsys.readouterr().err
