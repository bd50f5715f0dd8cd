# SPDX-License-Identifier: Apache-2.0
"""One small model, compiled and built once: run, verify, bench, size, explain, Python API."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import AotError
from aot.npz import read_npz
from graphs import model
from needs import need_module

SHAPE = (2, 5, 3)


def network(scale: float = 2.0) -> onnx.ModelProto:
    return model(
        [("Exp", "x", "in/side"), ("Mul", "in/side k", "m"), ("Relu", "m", "file"),
         ("Tanh", "m", "t")],
        {"x": SHAPE},
        {"file": SHAPE, "t": SHAPE},
        {"k": np.array(scale, np.float32)},
    )  # fmt: skip


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
    m = np.exp(x) * np.float32(2)
    return {"file": np.maximum(m, 0), "t": np.tanh(m)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds net.onnx and its built OUT."""
    path = tmp_path_factory.mktemp("built")
    (path / "net.onnx").write_bytes(network().SerializeToString())
    (path / "other.onnx").write_bytes(network(2.1).SerializeToString())
    aot.compile(path / "net.onnx", path / "out").build()
    return path


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32)


def test_out_holds_what_the_interface_says(folder: Path) -> None:
    out = folder / "out"
    for name in ("lib/libnet.a", "lib/libnet.so", "bin/net", "bundle/CMakeLists.txt"):
        assert (out / name).is_file(), name
    record = json.loads((out / "aotc.json").read_text())
    assert record["model"] == str((folder / "net.onnx").resolve())
    assert len(record["sha256"]) == 64
    assert not list(out.glob(".aotc*")) and not list(out.glob(".bundle*"))


def test_run_npz(folder: Path, x: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=x)
    outputs = tmp_path / "out.npz"
    words = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(outputs)]
    assert main(["run", str(folder / "out"), *words]) == 0
    found = read_npz(outputs)
    for name, array in expected(x).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5)
    first = outputs.read_bytes()
    assert main(["run", str(folder / "out"), *words]) == 0
    assert outputs.read_bytes() == first


def test_run_of_samples(
    folder: Path, x: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", **{"s0/x": x, "s3_in0": 2 * x, "s3/t": x})
    outputs = tmp_path / "out.npz"
    words = ["run", str(folder / "out"), "--inputs", str(tmp_path / "in.npz"), "--outputs"]
    assert main([*words, str(outputs)]) == 0
    found = read_npz(outputs)
    for label, given in (("s0", x), ("s3", 2 * x)):
        for name, array in expected(given).items():
            np.testing.assert_allclose(found[f"{label}/{name}"], array, rtol=1e-5)
    assert main([*words, f"t={tmp_path}/t.npy"]) == 1
    assert "outputs of 2 samples in one file" in capsys.readouterr().err


def test_run_npy_and_bin(folder: Path, x: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    results = []
    for kind in ("npy", "bin"):
        target = tmp_path / f"t.{kind}"
        words = ["--inputs", f"x={tmp_path}/x.{kind}", "--outputs", f"t={target}"]
        assert main(["run", str(folder / "out"), *words]) == 0
        results.append(target)
    assert np.load(results[0]).tobytes() == results[1].read_bytes()


@pytest.mark.parametrize(
    "arrays, says",
    [
        ({}, "input 'x' is not given"),
        ({"x": np.zeros(SHAPE)}, "float64[2, 5, 3] (needs float32[2, 5, 3])"),
        ({"x": np.zeros((1, 5, 3), np.float32)}, "float32[1, 5, 3] (needs float32[2, 5, 3])"),
        ({"z": np.zeros(1)}, "'z' is no input of net"),
        ({"x": np.array([object()])}, "cannot read"),
    ],
)
def test_run_refuses_wrong_inputs(
    arrays: dict, says: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    outputs = tmp_path / "out.npz"
    words = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(outputs)]
    assert main(["run", str(folder / "out"), *words]) == 1
    assert says in capsys.readouterr().err
    assert not outputs.exists()


def test_run_refuses_wrong_files(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.bin").write_bytes(b"123")
    np.save(tmp_path / "x.npy", np.zeros(SHAPE, np.float32))
    out = str(folder / "out")
    good = ["--inputs", f"x={tmp_path}/x.npy"]
    for words, says in (
        (["--inputs", f"x={tmp_path}/x.bin"], "3 bytes (needs 120"),
        (["--inputs", "none.npz"], "cannot read none.npz: No such file"),
        ([*good, "--outputs", f"{tmp_path}/no/out.npz"], "cannot write"),
        ([*good, "--outputs", f"q={tmp_path}/q.bin"], "'q' is no output"),
    ):
        assert main(["run", out, *words]) == 1
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("reference", ["ort", "onnx"])
def test_verify_passes(reference: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if reference == "ort":
        need_module("onnxruntime")
    assert main(["verify", str(folder / "out"), "--reference", reference, "--per-node"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[-1] == "ok"
    assert "file: max abs" in text and "t: max abs" in text and "cosine" in text


def test_verify_finds_a_difference_and_says_where(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ["--model", str(folder / "other.onnx")]
    assert main(["verify", str(folder / "out"), "--per-node", *other]) == 1
    text = capsys.readouterr().out
    assert "m: max abs" in text or "file: max abs" in text
    assert "MISMATCH" in text and "(reference " in text
    assert main(["verify", str(folder / "out"), "--rtol", "0.2", *other]) == 0
    capsys.readouterr()
    assert main(["verify", str(folder / "out"), "-q", *other]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "mismatches" in captured.err


def test_verify_samples(
    folder: Path, x: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(folder / "out")
    file = tmp_path / "samples.npz"
    np.savez(file, **{"s0/x": x, "s1/x": x * 2, "s1/t": expected(x * 2)["t"]})
    assert main(["verify", out, "--inputs", str(file)]) == 0
    text = capsys.readouterr().out
    assert "s0/file" in text and "s1/t:" in text and "s1/t (stored)" in text
    np.savez(file, x=x, t=np.zeros(SHAPE, np.float32))
    assert main(["verify", out, "--inputs", str(file)]) == 1
    np.savez(file, y=x)
    assert main(["verify", out, "--inputs", str(file)]) == 1


def test_verify_needs_the_model_it_was_compiled_from(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "net.onnx"
    shutil.copy(folder / "net.onnx", copy)
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    record = json.loads((out / "aotc.json").read_text())
    (out / "aotc.json").write_text(json.dumps(record | {"model": str(copy)}))
    assert main(["verify", str(out)]) == 0
    shutil.copy(folder / "other.onnx", copy)
    assert main(["verify", str(out)]) == 1
    assert "has changed since" in capsys.readouterr().err
    copy.unlink()
    assert main(["verify", str(out)]) == 1
    assert "is gone" in capsys.readouterr().err


def test_bench(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "bench.json"
    assert main(["bench", str(folder / "out"), "--repeat", "20", "--json", str(target)]) == 0
    record = json.loads(target.read_text())
    assert record["runs"] == 20
    assert record["cpu_min_ns"] <= record["cpu_median_ns"]
    assert "CPU per run (median of 20" in capsys.readouterr().out


def test_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "size", str(folder / "out")]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert main(["--json", "size", str(folder / "net.onnx"), "--target", "x86-64"]) == 0
    estimated = json.loads(capsys.readouterr().out)
    assert measured["estimated"] is False and estimated["estimated"] is True
    assert measured["io"] == estimated["io"] == 3 * 120
    assert 500 < measured["code"] < 100_000
    assert measured["ram"] >= measured["arena"]


def test_explain_and_inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "net.onnx")
    assert main(["explain", path, "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)
    assert {n["op"] for n in nodes} >= {"Exp", "Tanh"}
    assert all(n["estimate_ns"] > 0 for n in nodes if n["with"] == n["node"])
    assert main(["inspect", path, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["inputs"] == [{"name": "x", "dtype": "float32", "shape": list(SHAPE)}]
    assert record["options"] == []


def test_inspect_gives_the_options_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model([("Add", "a b", "y")], {"a": ["n", 3], "b": ["n", 3]}, {"y": None})
    path = tmp_path / "open.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["inspect", str(path)]) == 0
    assert f"to type: aotc {path} -o OUT --dim n=1\n" in capsys.readouterr().out
    assert main(["inspect", str(path), "--dim", "n=2"]) == 0
    assert "ready:" in capsys.readouterr().out


def test_library_is_zero_copy(folder: Path, x: np.ndarray) -> None:
    net = aot.Bundle(folder / "out").load()
    for result, wanted in zip(net(x), expected(x).values(), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5)
    mine = (np.empty(SHAPE, np.float32), np.empty(SHAPE, np.float32))
    assert net(x=x, out=mine)[1] is mine[1]
    np.testing.assert_allclose(mine[1], expected(x)["t"], rtol=1e-5)


class Foreign:
    """An array of another library: nothing but the DLPack protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **more: object) -> object:
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_library_takes_dlpack(folder: Path, x: np.ndarray) -> None:
    net = aot.Bundle(folder / "out").load()
    np.testing.assert_array_equal(net(Foreign(x))[0], net(x)[0])


def test_library_writes_to_dlpack(folder: Path, x: np.ndarray) -> None:
    net = aot.Bundle(folder / "out").load()
    mine = tuple(np.empty(SHAPE, np.float32) for _ in range(2))
    results = net(x, out=[Foreign(m) for m in mine])
    assert all(np.shares_memory(r, m) for r, m in zip(results, mine, strict=True))
    for array, wanted in zip(mine, net.run(x).values(), strict=True):
        np.testing.assert_array_equal(array, wanted)
    mine[1].flags.writeable = False
    with pytest.raises(AotError, match="'t' is not writable"):
        net(x, out=tuple(Foreign(m) for m in mine))


def test_library_and_pytorch_share_memory(folder: Path, x: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    net = aot.Bundle(folder / "out").load()
    mine = tuple(torch.empty(SHAPE) for _ in range(2))
    net(torch.from_numpy(x), out=mine)
    for array, result in zip(mine, net(x), strict=True):
        assert torch.equal(array, torch.from_dlpack(result))


def test_a_notebook_shows_a_table(folder: Path) -> None:
    shown = aot.Bundle(folder / "out")._repr_html_()
    assert "<td>float32[" in shown and "arena</th>" in shown and shown.count("<table>") == 1


def test_library_refuses_what_the_model_does_not_take(folder: Path, x: np.ndarray) -> None:
    net = aot.Bundle(folder / "out").load()
    for bad, says in (
        ((x.astype(np.float64),), "float64"),
        ((x.astype(">f4"),), ">f4"),
        ((x[:1],), r"\[1, 5, 3\]"),
        ((np.asfortranarray(x),), "not contiguous"),
        (("x",), "not an array"),
        ((), "'x' is missing"),
        ((x, x), "takes 1 input"),
    ):
        with pytest.raises(AotError, match=says):
            net(*bad)
    with pytest.raises(AotError, match="no input 'q'"):
        net(q=x)
    with pytest.raises(AotError, match="writable"):
        net(x, out=(1, 2))


def test_compile_in_memory_to_a_temporary_folder(x: np.ndarray) -> None:
    bundle = aot.compile(network(), name="tiny", target="x86-64")
    assert bundle.manifest["name"] == "tiny" and bundle.manifest["target"]["cpu"] == "x86-64"
    out = bundle.out
    np.testing.assert_allclose(bundle.load()(x)[1], expected(x)["t"], rtol=1e-5)
    del bundle
    assert not out.exists()


def test_running_again_replaces_everything(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    (out / "bundle" / "stale.c").write_text("int stale;")
    assert main([str(folder / "other.onnx"), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "other"
    assert not (out / "bundle" / "stale.c").exists()
    assert not (out / "bin" / "net").exists(), "the program of the earlier bundle is gone"
    assert main(["run", str(out)]) == 1
    assert f"cmake --build {out}" in capsys.readouterr().err


def test_no_configure_and_same_bytes(folder: Path, tmp_path: Path) -> None:
    trees = []
    for name in ("a", "b"):
        out = tmp_path / name
        assert main([str(folder / "net.onnx"), "-o", str(out), "--no-configure", "-q"]) == 0
        assert sorted(os.listdir(out)) == ["aotc.json", "bundle"]
        files = [p for p in sorted(out.rglob("*")) if p.is_file()]
        trees.append({str(p.relative_to(out)): p.read_bytes() for p in files})
    assert trees[0] == trees[1]
    assert str(tmp_path).encode() not in b"".join(
        v for k, v in trees[0].items() if k.startswith("bundle")
    )


def test_dump_after_every_stage(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from aot.options import STAGES

    for stage in STAGES:
        words = ["-o", str(tmp_path / "out"), "--no-configure", "--dump-after", stage]
        assert main([str(folder / "net.onnx"), *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) >= 3, stage


def test_verbose_names_the_stages(folder: Path, tmp_path: Path, capsys) -> None:
    words = ["-o", str(tmp_path / "out"), "--no-configure", "-v"]
    assert main([str(folder / "net.onnx"), *words]) == 0
    error = capsys.readouterr().err
    assert all(f"aotc: {stage} " in error for stage in ("load", "normalise", "plan", "emit"))
